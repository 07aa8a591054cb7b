// Connections of the simulated provider: the messages of the CM, and who waits for which.
#include <algorithm>

#include "lnd/rc/sim/provider.h"

namespace ulnet::rc::sim {

SimControl::~SimControl() {
  for (const IpAddress& one : addresses_) net_.devices.erase(one);
  for (const auto& [id, at] : listeners_) net_.listeners.erase(at);
  net_.erase_all(*this);
}

Conn& SimControl::mine(ConnId id) {
  Conn* conn = net_.find(id);
  ULNET_CHECK(conn != nullptr && conn->control == this);
  return *conn;
}

Result<ListenerId> SimControl::listen(const Endpoint& at) {
  if (std::find(addresses_.begin(), addresses_.end(), at.address) == addresses_.end())
    return fail(ENODEV, "no RDMA device has this address");
  if (!net_.listeners.try_emplace(at, this, last_listener_ + 1).second)
    return fail(EADDRINUSE, "another listens at this port");
  listeners_[++last_listener_] = at;
  if (net_.rules.device_max > Duration{0}) {
    unknown_.insert(last_listener_);
    net_.later(net_.rules.device_max, [net = &net_, at, id = last_listener_] {
      const auto found = net->listeners.find(at);
      if (found != net->listeners.end() && found->second.second == id) found->second.first->device_known(id);
    });
  }
  return last_listener_;
}

void SimControl::unlisten(ListenerId id) {
  net_.listeners.erase(listeners_.at(id));
  listeners_.erase(id);
  unknown_.erase(id);
}

Device SimControl::device(ListenerId id) const {
  const auto down = net_.ports_down.find(listeners_.at(id).address);
  const bool usable = down == net_.ports_down.end();
  return {.name = "sim0",
          .known = !unknown_.contains(id),
          .usable = usable,
          .speed = {100'000, 100'000},
          .path_mtu = 4096,
          .keys_end = net_.rules.keys_end,
          .why_not = usable ? "" : down->second};
}

void SimControl::device_known(ListenerId id) {
  if (unknown_.erase(id) > 0) events_.push_back({.kind = EventKind::kDevice, .listener = id});
}

void SimControl::device_changed(const IpAddress& address) {
  for (const auto& [id, at] : listeners_)
    if (at.address == address) events_.push_back({.kind = EventKind::kDevice, .listener = id});
}

void SimControl::say(Conn& conn, EventKind kind, Cause cause, std::span<const std::byte> data) {
  if (conn.disconnected) return;
  Event& event = events_.emplace_back();
  event.kind = kind;
  event.cause = cause;
  event.conn = conn.id;
  event.listener = conn.listener;
  event.remote = conn.remote;
  if (kind == EventKind::kReady) event.qp = conn.qp.get();
  event.bytes = uint8_t(data.size());
  std::copy(data.begin(), data.end(), event.data.begin());
}

void SimControl::fail_conn(Conn& conn, Cause cause, std::span<const std::byte> data) {
  const bool was_up = conn.state == ConnState::kEstablished;
  if (conn.state == ConnState::kEnded) return;
  conn.state = ConnState::kEnded;
  say(conn, was_up ? EventKind::kClosed : EventKind::kFailed, cause, data);
  if (conn.qp != nullptr) net_.break_qp(conn, cause);
}

void SimControl::send(const Conn& conn, std::function<void()> step) {
  const IpAddress from = conn.local, to = conn.remote.address;
  net_.later(net_.delay(), [net = &net_, from, to, step = std::move(step)] {
    if (net->passes(from, to)) step();
  });
}

// --- Set-up ----------------------------------------------------------------------------------------------------------

Result<ConnId> SimControl::dial(const DialSpec& spec, Instant now) {
  net_.run(now);
  if (std::find(addresses_.begin(), addresses_.end(), spec.local) == addresses_.end())
    return fail(EADDRNOTAVAIL, "no RDMA device has this address");
  Conn& conn = net_.add(*this);
  conn.active = true;
  conn.local = spec.local;
  conn.remote = spec.remote;
  conn.answer_max = spec.answer_max;
  conn.privileged_port = spec.privileged_port;
  net_.dials.push_back(spec);
  const ConnId id = conn.id;
  if (net_.ports_down.contains(spec.local) || !net_.passes(spec.local, spec.remote.address))
    net_.later(spec.resolve_max, [net = &net_, id] {
      if (Conn* late = net->find(id)) late->control->fail_conn(*late, Cause::kUnreachable);
    });
  else
    queue_pair(conn, spec.needs);
  return id;
}

void SimControl::queue_pair(Conn& conn, const QpNeeds& needs) {
  const Duration after(net_.rng().below(uint64_t(net_.rules.ready_max.count()) + 1));
  net_.later(after, [net = &net_, id = conn.id, needs] {
    Conn* late = net->find(id);
    if (late != nullptr && late->state == ConnState::kMaking && !late->disconnected) late->control->made(*late, needs);
  });
}

void SimControl::made(Conn& conn, const QpNeeds& needs) {
  if (qps_ >= net_.rules.qps_max || net_.rng().one_in(net_.rules.no_qp_one_in))
    return fail_conn(conn, Cause::kResources);
  ++qps_;
  net_.make_qp(conn, needs);
  conn.state = ConnState::kReady;
  say(conn, EventKind::kReady);
}

void SimControl::prepare(ConnId id, const QpNeeds& needs, Instant now) {
  net_.run(now);
  Conn& conn = mine(id);
  if (conn.state == ConnState::kEnded) return;  // its kFailed is on the way
  ULNET_CHECK(conn.state == ConnState::kAsked);
  conn.state = ConnState::kMaking;
  queue_pair(conn, needs);
}

void SimControl::proceed(ConnId id, std::span<const std::byte> private_data, Instant now) {
  net_.run(now);
  Conn& conn = mine(id);
  if (conn.state == ConnState::kEnded) return;
  ULNET_CHECK(conn.state == ConnState::kReady);
  ULNET_CHECK(private_data.size() <= (conn.active ? kRequestDataMax : kReplyDataMax));
  std::vector<std::byte> data(private_data.begin(), private_data.end());
  if (!conn.active) {
    conn.state = ConnState::kReplied;
    net_.later(net_.rules.reply_max, [net = &net_, id] {
      Conn* late = net->find(id);
      if (late != nullptr && late->state == ConnState::kReplied) late->control->fail_conn(*late, Cause::kNoAnswer);
    });
    return send(conn, [net = &net_, id, data = std::move(data)] {
      if (const Conn* late = net->find(id)) late->control->reply(id, data);
    });
  }
  conn.state = ConnState::kRequested;
  net_.later(conn.answer_max, [net = &net_, id] {
    Conn* late = net->find(id);
    if (late == nullptr || late->state != ConnState::kRequested) return;
    late->control->hang_up(id);
    late->control->fail_conn(*late, Cause::kNoAnswer);
  });
  send(conn, [net = &net_, id, data = std::move(data)] {
    if (const Conn* late = net->find(id)) late->control->request(id, data);
  });
}

/// A REQ has come to its machine.
void SimControl::request(ConnId active, const std::vector<std::byte>& data) {
  Conn* conn = net_.find(active);
  if (conn == nullptr || conn->state != ConnState::kRequested) return;
  ListenerId listener = 0;
  SimControl* there = net_.listener_at(conn->remote, listener);
  if (there == nullptr) {
    if (!net_.devices.contains(conn->remote.address) || net_.ports_down.contains(conn->remote.address)) return;
    return net_.later(net_.delay(), [net = &net_, active] {
      if (Conn* late = net->find(active)) late->control->fail_conn(*late, Cause::kNoListener);
    });
  }
  Conn& passive = net_.add(*there);
  passive.state = ConnState::kAsked;
  passive.local = conn->remote.address;
  passive.remote = {conn->local, conn->privileged_port ? uint16_t{1023} : uint16_t{40'000}};
  passive.listener = listener;
  passive.peer = active;
  conn->peer = passive.id;
  there->say(passive, EventKind::kRequest, Cause::kNone, data);
}

/// A REP has come to its machine.
void SimControl::reply(ConnId passive, const std::vector<std::byte>& data) {
  Conn* from = net_.find(passive);
  Conn* conn = from == nullptr ? nullptr : net_.peer_of(*from);
  if (conn == nullptr || conn->state != ConnState::kRequested) return;
  conn->state = ConnState::kEstablished;
  conn->control->say(*conn, EventKind::kEstablished, Cause::kNone, data);
  conn->control->send(*conn, [net = &net_, passive] {
    Conn* late = net->find(passive);
    if (late != nullptr) late->control->message_came(*late);
  });
}

/// The RTU, or a message, has come: the connection is there for the passive side, too.
void SimControl::message_came(Conn& conn) {
  if (conn.state != ConnState::kReplied) return;
  conn.state = ConnState::kEstablished;
  conn.control->say(conn, EventKind::kEstablished);
}

void SimControl::reject(ConnId id, std::span<const std::byte> private_data, Instant now) {
  net_.run(now);
  ULNET_CHECK(private_data.size() <= kRejectDataMax);
  Conn& conn = mine(id);
  ULNET_CHECK(conn.qp == nullptr);
  std::vector<std::byte> data(private_data.begin(), private_data.end());
  data.resize(kRejectDataMax);  // as the CM delivers it
  send(conn, [net = &net_, active = conn.peer, data = std::move(data)] {
    Conn* late = net->find(active);
    if (late != nullptr && late->state == ConnState::kRequested)
      late->control->fail_conn(*late, Cause::kRejected, data);
  });
  net_.erase(id);
}

// --- End -------------------------------------------------------------------------------------------------------------

/// The DREQ, or the REJ of a connection that is not there yet.
void SimControl::hang_up(ConnId id) {
  Conn& conn = mine(id);
  const ConnId other = std::exchange(conn.peer, 0);
  if (other == 0) return;
  send(conn, [net = &net_, id, other] {
    Conn* late = net->find(other);
    if (late == nullptr || late->peer != id) return;
    late->peer = 0;
    const bool up = late->state == ConnState::kEstablished;
    late->control->fail_conn(*late, up ? Cause::kPeerClosed : Cause::kRefused);
  });
}

void SimControl::disconnect(ConnId id, Instant now) {
  net_.run(now);
  Conn& conn = mine(id);
  if (std::exchange(conn.disconnected, true)) return;
  std::erase_if(events_, [&](const Event& event) { return event.conn == id; });
  hang_up(id);
  conn.state = ConnState::kEnded;
  if (conn.qp == nullptr) return;
  if (!conn.qp->broken) return net_.break_qp(conn, Cause::kClosed);
  net_.later(net_.delay(), [net = &net_, id] {
    if (Conn* late = net->find(id)) net->drain(*late);
  });
}

void SimControl::destroy(ConnId id, Instant now) {
  net_.run(now);
  Conn& conn = mine(id);
  ULNET_CHECK(conn.disconnected && (conn.qp == nullptr || conn.qp->user == nullptr));
  if (conn.qp != nullptr) --qps_;
  net_.erase(id);
}

// --- Memory, events --------------------------------------------------------------------------------------------------

Result<void> SimControl::region_add(RegionId region, std::span<std::byte> memory) {
  regions_[region] = memory;
  return {};
}

bool SimControl::registered(const Segment& segment) const {
  const auto region = regions_.find(segment.region);
  if (region == regions_.end()) return false;
  const std::span<std::byte> all = region->second;
  return segment.base >= all.data() && segment.base + segment.bytes <= all.data() + all.size();
}

bool SimControl::registered(std::span<const Segment> segments) const {
  return std::all_of(segments.begin(), segments.end(), [this](const Segment& one) { return registered(one); });
}

bool SimControl::registered(const Payload& window) const {
  PayloadCursor cursor(window);
  for (Segment piece; cursor.segments({&piece, 1}) == 1; cursor.advance(piece.bytes))
    if (!registered(piece)) return false;
  return true;
}

unsigned SimControl::poll(std::span<Event> out, Instant now) {
  net_.run(now);
  unsigned count = 0;
  for (; count < out.size() && !events_.empty(); events_.pop_front()) out[count++] = events_.front();
  return count;
}

}  // namespace ulnet::rc::sim
