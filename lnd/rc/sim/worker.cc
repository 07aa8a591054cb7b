// Queue pairs of the simulated provider, as their worker sees them.
#include <algorithm>

#include "lnd/rc/sim/provider.h"

namespace ulnet::rc::sim {
namespace {

SimQp& sim_of(Qp& qp) {
  return static_cast<SimQp&>(qp);
}

}  // namespace

void SimWorker::adopt(Qp& qp, QpUser& user) {
  ULNET_CHECK(qp.worker == id_ && sim_of(qp).user == nullptr);
  SimQp& sim = sim_of(qp);
  sim.user = &user;
  sim.ready = &ready_;
  sim.quiet = &quiet_;
  if (!sim.done.empty()) ready_.insert(qp.conn);
}

void SimWorker::release(Qp& qp) {
  SimQp& sim = sim_of(qp);
  ULNET_CHECK(sim.user != nullptr && sim.drained && sim.done.empty());
  sim.user = nullptr;
  sim.ready = nullptr;
  sim.quiet = nullptr;
  ready_.erase(qp.conn);
  quiet_.erase(qp.conn);
  posted_.erase(qp.conn);
}

void SimWorker::receive(Qp& qp, uint32_t buffer) {
  SimQp& sim = sim_of(qp);
  if (sim.broken) return;
  ULNET_CHECK(buffer < sim.receives && std::count(sim.posted.begin(), sim.posted.end(), buffer) == 0);
  sim.posted.push_back(buffer);
}

uint32_t SimWorker::room(const Qp& qp) const {
  const auto& sim = static_cast<const SimQp&>(qp);
  return sim.broken ? 0 : sim.work - uint32_t(sim.ops.size());
}

Posted SimWorker::post(Qp& qp, Op op) {
  SimQp& sim = sim_of(qp);
  if (sim.broken) return Posted::kYes;  // fails with the queue pair
  if (sim.ops.size() >= sim.work) return Posted::kNoRoom;
  sim.ops.push_back(std::move(op));
  posted_.insert(qp.conn);
  return Posted::kYes;
}

Posted SimWorker::send(Qp& qp, uint32_t buffer, uint32_t bytes, uint64_t token, Wake wake) {
  ULNET_CHECK(buffer < qp.sends && bytes <= qp.buffer_bytes);
  net_.counts.quiet += wake == Wake::kNo;
  return post(qp,
              {.kind = OpKind::kSend, .token = token, .buffer = buffer, .bytes = bytes, .quiet = wake == Wake::kNo});
}

Posted SimWorker::write(Qp& qp, std::span<const Segment> from, uint32_t key, uint64_t address, uint64_t token) {
  ULNET_CHECK(!from.empty() && from.size() <= qp.pieces);
  const SimControl& control = *Net::conn_of(qp, net_).control;
  if (!control.registered(from)) return Posted::kImpossible;
  return post(
      qp, {.kind = OpKind::kWrite, .token = token, .from = {from.begin(), from.end()}, .key = key, .address = address});
}

Posted SimWorker::key_open(Qp& qp, RemoteKey& key, const Payload& window) {
  ULNET_CHECK(!key.open && window.length > 0);
  SimQp& sim = sim_of(qp);
  const SimControl& control = *Net::conn_of(qp, net_).control;
  PayloadCursor cursor(window);
  const std::byte* end = nullptr;
  RegionId region{};
  for (Segment piece; cursor.segments({&piece, 1}) == 1; cursor.advance(piece.bytes)) {
    if (!control.registered(piece)) return Posted::kImpossible;
    if (end != nullptr && (piece.base != end || piece.region != region)) return Posted::kImpossible;
    end = piece.base + piece.bytes;
    region = piece.region;
  }
  if (sim.open.size() >= sim.keys) return Posted::kNoRoom;
  const uint32_t value = uint32_t(net_.rng().next()) | 1;
  if (sim.open.contains(value)) return Posted::kNoRoom;
  if (const Posted posted = post(qp, {.kind = OpKind::kKeyOpen, .key = value}); posted != Posted::kYes) return posted;
  sim.open[value] = window;
  key.value = value;
  key.open = true;
  return Posted::kYes;
}

Posted SimWorker::key_close(Qp& qp, RemoteKey& key) {
  ULNET_CHECK(key.open);
  return post(qp, {.kind = OpKind::kKeyClose, .key = key.value, .closing = &key});
}

void SimWorker::tell(SimQp& qp, const Done& done, Instant now) {
  QpUser& user = *qp.user;
  switch (done.kind) {
    case Done::Kind::kReceived: return user.received(qp, done.buffer, done.bytes, now);
    case Done::Kind::kSent: return user.sent(qp, done.token, now);
    case Done::Kind::kKeyClosed: done.key->open = false; return user.key_closed(qp, *done.key, now);
    case Done::Kind::kBroken: return user.broken(qp, done.cause, now);
    case Done::Kind::kDrained: return user.drained(qp, now);
  }
}

unsigned SimWorker::poll(unsigned budget, Instant now) {
  net_.run(now);
  for (auto at = quiet_.begin(); at != quiet_.end();) {
    if (at->second == now) {  // the worker does not turn for these
      ++at;
      continue;
    }
    ready_.insert(at->first);
    at = quiet_.erase(at);
  }
  unsigned count = 0;
  for (auto at = ready_.begin(); at != ready_.end() && count < budget; ++count) {
    const ConnId id = *at;
    SimQp& qp = *net_.find(id)->qp;
    const Done done = qp.done.front();
    qp.done.pop_front();
    if (qp.done.empty()) ready_.erase(id);
    tell(qp, done, now);
    at = ready_.lower_bound(id);
  }
  return count;
}

void SimWorker::flush(Instant now) {
  net_.run(now);
  for (const ConnId id : std::exchange(posted_, {}))
    if (Conn& conn = *net_.find(id); !conn.qp->broken) net_.transmit(conn);
}

bool SimWorker::pending() {
  return net_.next() <= net_.now() || !ready_.empty();
}

}  // namespace ulnet::rc::sim
