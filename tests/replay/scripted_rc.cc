#include "tests/replay/scripted_rc.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/check.h"

namespace ulnet::test {

// --- The partners ----------------------------------------------------------------------------------------------------

rc::ConnId ScriptedRc::request(const rc::IpAddress& from, const rc::IpAddress& to,
                               std::span<const std::byte> private_data) {
  const auto listener =
      std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& one) { return one.second.address == to; });
  if (listener == listeners_.end()) return 0;
  Conn& conn = add(false, to, from);
  conn.state = State::kAsked;
  conn.listener = listener->first;
  tell(conn, rc::EventKind::kRequest, rc::Cause::kNone, private_data);
  return conn.id;
}

bool ScriptedRc::established(rc::ConnId id, std::span<const std::byte> private_data) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return false;
  Conn& conn = found->second;
  if (conn.state != (conn.active ? State::kRequested : State::kReplied)) return false;
  conn.state = State::kUp;
  conn.deadline = kForever;
  tell(conn, rc::EventKind::kEstablished, rc::Cause::kNone, private_data);
  return true;
}

void ScriptedRc::ended(rc::ConnId id, rc::Cause cause, std::span<const std::byte> private_data) {
  const auto found = conns_.find(id);
  if (found == conns_.end() || found->second.state == State::kEnded) return;
  Conn& conn = found->second;
  const bool was_up = conn.state == State::kUp;
  conn.state = State::kEnded;
  conn.deadline = kForever;
  tell(conn, was_up ? rc::EventKind::kClosed : rc::EventKind::kFailed, cause, private_data);
  break_qp(conn, cause);
}

bool ScriptedRc::message(rc::ConnId id, std::span<const std::byte> bytes) {
  if (!is_up(id)) return false;
  ScriptedQp& qp = *conns_.at(id).qp;
  if (qp.posted.empty() || bytes.size() > qp.buffer_bytes) return false;
  const uint32_t buffer = qp.posted.front();
  qp.posted.pop_front();
  std::copy(bytes.begin(), bytes.end(), qp.receive_buffer(buffer).begin());
  qp.done.push_back({.kind = Done::Kind::kReceived, .buffer = buffer, .bytes = uint32_t(bytes.size())});
  return true;
}

bool ScriptedRc::write(rc::ConnId id, uint32_t key, uint64_t address, std::span<const std::byte> bytes) {
  if (!is_up(id)) return false;
  const ScriptedQp& qp = *conns_.at(id).qp;
  const auto window = qp.open.find(key);
  if (window == qp.open.end()) return false;
  const auto [base, length] = window->second;
  const uint64_t begin = uint64_t(reinterpret_cast<uintptr_t>(base));
  if (address < begin || address - begin > length || bytes.size() > length - (address - begin)) return false;
  std::copy(bytes.begin(), bytes.end(), base + (address - begin));
  return true;
}

bool ScriptedRc::is_up(rc::ConnId id) const {
  const auto found = conns_.find(id);
  return found != conns_.end() && found->second.state == State::kUp && !found->second.qp->broken;
}

// --- Control half ----------------------------------------------------------------------------------------------------

ScriptedRc::Conn& ScriptedRc::add(bool active, const rc::IpAddress& local, const rc::IpAddress& remote) {
  Conn& conn = conns_[++last_conn_];
  conn.id = last_conn_;
  conn.active = active;
  conn.local = local;
  conn.remote = remote;
  return conn;
}

void ScriptedRc::tell(const Conn& conn, rc::EventKind kind, rc::Cause cause, std::span<const std::byte> private_data) {
  if (conn.disconnected) return;
  rc::Event& event = events_.emplace_back();
  event.kind = kind;
  event.cause = cause;
  event.conn = conn.id;
  event.listener = conn.listener;
  event.remote = {conn.remote, 1023};
  event.qp = kind == rc::EventKind::kReady ? conn.qp.get() : nullptr;
  event.bytes = uint8_t(private_data.size());
  std::copy(private_data.begin(), private_data.end(), event.data.begin());
}

void ScriptedRc::note(const Conn& conn, RcDeed::Kind kind, std::span<const std::byte> bytes) {
  deeds.push_back({kind, conn.id, conn.local, conn.remote, {bytes.begin(), bytes.end()}});
}

Result<rc::ListenerId> ScriptedRc::listen(const rc::Endpoint& at) {
  listeners_[++last_listener_] = at;
  return last_listener_;
}

rc::Device ScriptedRc::device(rc::ListenerId) const {
  return {.name = "scripted0", .usable = true, .speed = {100'000, 100'000}, .path_mtu = 1024, .keys_end = true};
}

void ScriptedRc::make_qp(Conn& conn, const rc::QpNeeds& needs) {
  auto qp = std::make_unique<ScriptedQp>();
  qp->conn = conn.id;
  qp->worker = needs.worker;
  qp->receives = needs.receives;
  qp->sends = needs.sends;
  qp->buffer_bytes = needs.buffer_bytes;
  qp->work = needs.work;
  qp->keys = needs.keys;
  qp->pieces = needs.pieces;
  qp->memory.resize(size_t{qp->receives + qp->sends} * qp->buffer_bytes);
  qp->receive_memory = qp->memory.data();
  qp->send_memory = qp->receive_memory + size_t{qp->receives} * qp->buffer_bytes;
  conn.qp = std::move(qp);
  conn.state = State::kReady;
  tell(conn, rc::EventKind::kReady, rc::Cause::kNone, {});
}

Result<rc::ConnId> ScriptedRc::dial(const rc::DialSpec& spec, Instant) {
  Conn& conn = add(true, spec.local, spec.remote.address);
  conn.answer_max = spec.answer_max;
  make_qp(conn, spec.needs);
  return conn.id;
}

void ScriptedRc::prepare(rc::ConnId id, const rc::QpNeeds& needs, Instant) {
  make_qp(conns_.at(id), needs);
}

void ScriptedRc::reject(rc::ConnId id, std::span<const std::byte> private_data, Instant) {
  note(conns_.at(id), RcDeed::Kind::kReject, private_data);
  conns_.erase(id);
}

void ScriptedRc::proceed(rc::ConnId id, std::span<const std::byte> private_data, Instant now) {
  Conn& conn = conns_.at(id);
  if (conn.state == State::kEnded) return;
  ULNET_CHECK(conn.state == State::kReady);
  conn.state = conn.active ? State::kRequested : State::kReplied;
  if (conn.active) conn.deadline = now + conn.answer_max;
  note(conn, conn.active ? RcDeed::Kind::kRequest : RcDeed::Kind::kReply, private_data);
}

void ScriptedRc::break_qp(Conn& conn, rc::Cause cause) {
  if (conn.qp == nullptr || std::exchange(conn.qp->broken, true)) return;
  conn.qp->ops.clear();
  std::erase_if(conn.qp->done, [](const Done& done) { return done.kind != Done::Kind::kReceived; });
  conn.qp->done.push_back({.kind = Done::Kind::kBroken, .cause = cause});
}

void ScriptedRc::disconnect(rc::ConnId id, Instant) {
  Conn& conn = conns_.at(id);
  if (std::exchange(conn.disconnected, true)) return;
  std::erase_if(events_, [&](const rc::Event& event) { return event.conn == id; });
  if (conn.state == State::kUp || conn.state == State::kReplied) note(conn, RcDeed::Kind::kHangUp);
  if (conn.state == State::kRequested) note(conn, RcDeed::Kind::kGiveUp);
  conn.state = State::kEnded;
  conn.deadline = kForever;
  break_qp(conn, rc::Cause::kClosed);
  if (conn.qp != nullptr) conn.qp->done.push_back({.kind = Done::Kind::kDrained});
}

void ScriptedRc::destroy(rc::ConnId id, Instant) {
  ULNET_CHECK(conns_.at(id).disconnected && !adopted_.contains(id));
  conns_.erase(id);
}

Result<void> ScriptedRc::region_add(RegionId region, std::span<std::byte> memory) {
  regions_[region] = memory;
  return {};
}

unsigned ScriptedRc::poll(std::span<rc::Event> out, Instant now) {
  for (auto& [id, conn] : conns_) {
    if (conn.deadline > now) continue;
    note(conn, RcDeed::Kind::kGiveUp);
    ended(id, rc::Cause::kNoAnswer, {});
  }
  unsigned count = 0;
  for (; count < out.size() && !events_.empty(); events_.pop_front()) out[count++] = events_.front();
  return count;
}

Instant ScriptedRc::next_deadline() {
  if (!events_.empty() || pending()) return kNever;
  Instant first = kForever;
  for (const auto& [id, conn] : conns_) first = std::min(first, conn.deadline);
  return first;
}

// --- Worker half -----------------------------------------------------------------------------------------------------

void ScriptedRc::adopt(rc::Qp& qp, rc::QpUser& user) {
  static_cast<ScriptedQp&>(qp).user = &user;
  adopted_.insert(qp.conn);
}

void ScriptedRc::release(rc::Qp& qp) {
  adopted_.erase(qp.conn);
}

void ScriptedRc::receive(rc::Qp& qp, uint32_t buffer) {
  auto& scripted = static_cast<ScriptedQp&>(qp);
  if (!scripted.broken) scripted.posted.push_back(buffer);
}

uint32_t ScriptedRc::room(const rc::Qp& qp) const {
  const auto& scripted = static_cast<const ScriptedQp&>(qp);
  return scripted.broken ? 0 : scripted.work - uint32_t(scripted.ops.size()) - scripted.under_way;
}

rc::Posted ScriptedRc::post(rc::Qp& qp, Op op) {
  auto& scripted = static_cast<ScriptedQp&>(qp);
  if (scripted.broken) return rc::Posted::kYes;
  if (room(qp) == 0) return rc::Posted::kNoRoom;
  const Conn& conn = conns_.at(qp.conn);
  op.deed.conn = conn.id;
  op.deed.local = conn.local;
  op.deed.remote = conn.remote;
  scripted.ops.push_back(std::move(op));
  return rc::Posted::kYes;
}

rc::Posted ScriptedRc::send(rc::Qp& qp, uint32_t buffer, uint32_t bytes, uint64_t token, rc::Wake) {
  const auto memory = qp.send_buffer(buffer).first(bytes);
  return post(qp, {.token = token, .deed = {.bytes = {memory.begin(), memory.end()}}, .has_deed = true});
}

bool ScriptedRc::registered(const Segment& segment) const {
  const auto region = regions_.find(segment.region);
  if (region == regions_.end()) return false;
  const std::span<std::byte> all = region->second;
  return segment.base >= all.data() && segment.base + segment.bytes <= all.data() + all.size();
}

rc::Posted ScriptedRc::write(rc::Qp& qp, std::span<const Segment> from, uint32_t key, uint64_t address,
                             uint64_t token) {
  Op op{.token = token, .deed = {.kind = RcDeed::Kind::kWrite, .key = key, .address = address}, .has_deed = true};
  for (const Segment& one : from) {
    if (!registered(one)) return rc::Posted::kImpossible;
    op.deed.bytes.insert(op.deed.bytes.end(), one.base, one.base + one.bytes);
  }
  return post(qp, std::move(op));
}

rc::Posted ScriptedRc::key_open(rc::Qp& qp, rc::RemoteKey& key, const Payload& window) {
  auto& scripted = static_cast<ScriptedQp&>(qp);
  PayloadCursor cursor(window);
  std::byte *base = nullptr, *end = nullptr;
  for (Segment piece; cursor.segments({&piece, 1}) == 1; cursor.advance(piece.bytes)) {
    if (!registered(piece) || (end != nullptr && piece.base != end)) return rc::Posted::kImpossible;
    if (base == nullptr) base = piece.base;
    end = piece.base + piece.bytes;
  }
  if (scripted.open.size() >= scripted.keys) return rc::Posted::kNoRoom;
  if (const rc::Posted posted = post(qp, {}); posted != rc::Posted::kYes) return posted;
  key.value = ++last_key_;
  key.open = true;
  scripted.open[key.value] = {base, uint32_t(end - base)};
  return rc::Posted::kYes;
}

rc::Posted ScriptedRc::key_close(rc::Qp& qp, rc::RemoteKey& key) {
  return post(qp, {.closing = &key});
}

void ScriptedRc::flush(Instant) {
  for (const rc::ConnId id : adopted_) {
    ScriptedQp& qp = *conns_.at(id).qp;
    for (; !qp.ops.empty(); qp.ops.pop_front()) {
      Op& op = qp.ops.front();
      if (op.has_deed) deeds.push_back(std::move(op.deed));
      if (silent) {
        ++qp.under_way;
        continue;
      }
      if (op.closing != nullptr) qp.open.erase(op.closing->value);
      if (op.closing != nullptr) qp.done.push_back({.kind = Done::Kind::kKeyClosed, .key = op.closing});
      if (op.token != 0) qp.done.push_back({.kind = Done::Kind::kSent, .token = op.token});
    }
  }
}

void ScriptedRc::report(ScriptedQp& qp, const Done& done, Instant now) {
  switch (done.kind) {
    case Done::Kind::kReceived: return qp.user->received(qp, done.buffer, done.bytes, now);
    case Done::Kind::kSent: return qp.user->sent(qp, done.token, now);
    case Done::Kind::kKeyClosed: done.key->open = false; return qp.user->key_closed(qp, *done.key, now);
    case Done::Kind::kBroken: return qp.user->broken(qp, done.cause, now);
    case Done::Kind::kDrained: return qp.user->drained(qp, now);
  }
}

unsigned ScriptedRc::poll(unsigned budget, Instant now) {
  unsigned count = 0;
  const std::set<rc::ConnId> adopted = adopted_;
  for (const rc::ConnId id : adopted) {
    while (count < budget && adopted_.contains(id) && !conns_.at(id).qp->done.empty()) {
      ScriptedQp& qp = *conns_.at(id).qp;
      const Done done = qp.done.front();
      qp.done.pop_front();
      report(qp, done, now);
      ++count;
    }
  }
  return count;
}

bool ScriptedRc::pending() {
  return std::any_of(adopted_.begin(), adopted_.end(), [&](rc::ConnId id) { return !conns_.at(id).qp->done.empty(); });
}

}  // namespace ulnet::test
