#include "lnd/rc/sim/net.h"

#include <algorithm>
#include <cstring>

#include "lnd/rc/sim/provider.h"

namespace ulnet::rc::sim {
namespace {

/// Copies bytes [begin, end) of what the segments hold to their places behind `to`.
void scatter(std::byte* to, const std::vector<Segment>& from, size_t begin, size_t end) {
  size_t at = 0;
  for (const Segment& one : from) {
    const size_t first = std::max(begin, at), last = std::min<size_t>(end, at + one.bytes);
    if (first < last) std::memcpy(to + first, one.base + (first - at), last - first);
    at += one.bytes;
  }
}

size_t bytes_of(const Op& op) {
  size_t bytes = op.kind == OpKind::kSend ? op.bytes : 0;
  for (const Segment& one : op.from) bytes += one.bytes;
  return bytes;
}

/// Does the window have all of these bytes, side by side or in several segments?
bool covers(const Payload& window, uint64_t address, size_t bytes) {
  PayloadCursor cursor(window);
  while (bytes > 0) {
    iovec piece;
    if (cursor.pieces({&piece, 1}) == 0) return false;
    const uint64_t begin = uint64_t(reinterpret_cast<uintptr_t>(piece.iov_base)), end = begin + piece.iov_len;
    if (address >= begin && address < end) {
      const size_t here = std::min<size_t>(bytes, size_t(end - address));
      address += here;
      bytes -= here;
    }
    cursor.advance(uint32_t(piece.iov_len));
  }
  return true;
}

}  // namespace

std::unique_ptr<Provider> Net::make_node(std::vector<IpAddress> addresses, unsigned workers) {
  return std::make_unique<SimProvider>(*this, std::move(addresses), workers);
}

void Net::cut(const IpAddress& a, const IpAddress& b, bool is_cut) {
  const std::pair<IpAddress, IpAddress> pair = std::minmax(a, b);
  if (is_cut)
    cuts_.insert(pair);
  else
    cuts_.erase(pair);
}

void Net::set_port(const IpAddress& address, bool up, const char* why_not) {
  if (up)
    ports_down.erase(address);
  else
    ports_down[address] = why_not;
  if (const auto device = devices.find(address); device != devices.end()) device->second->device_changed(address);
}

void Net::break_wires(const IpAddress& a, const IpAddress& b) {
  for (auto& [id, conn] : conns_)
    if (std::minmax(conn.local, conn.remote.address) == std::minmax(a, b)) conn.wire_dead = true;
}

void Net::run(Instant now) {
  now_ = std::max(now_, now);
  while (!steps_.empty() && steps_.begin()->first.first <= now_) {
    const std::function<void()> step = std::move(steps_.begin()->second);
    steps_.erase(steps_.begin());
    step();
  }
}

Duration Net::delay() {
  return rules.delay_min + Duration(rng_.below(uint64_t((rules.delay_max - rules.delay_min).count()) + 1));
}

Conn* Net::find(ConnId id) {
  const auto found = conns_.find(id);
  return found == conns_.end() ? nullptr : &found->second;
}

Conn& Net::add(SimControl& control) {
  Conn& conn = conns_[++last_conn_];
  conn.id = last_conn_;
  conn.control = &control;
  return conn;
}

Conn& Net::conn_of(const Qp& qp, Net& net) {
  Conn* conn = net.find(qp.conn);
  ULNET_CHECK(conn != nullptr);
  return *conn;
}

Conn* Net::peer_of(const Conn& conn) {
  Conn* peer = conn.peer == 0 ? nullptr : find(conn.peer);
  return peer == nullptr || peer->peer != conn.id ? nullptr : peer;
}

SimControl* Net::listener_at(const Endpoint& at, ListenerId& id) const {
  const auto found = listeners.find(at);
  if (found == listeners.end() || ports_down.contains(at.address)) return nullptr;
  id = found->second.second;
  return found->second.first;
}

void Net::make_qp(Conn& conn, const QpNeeds& needs) {
  auto qp = std::make_unique<SimQp>();
  qp->conn = conn.id;
  qp->worker = needs.worker;
  qp->receives = std::min(needs.receives, rules.receives_max);
  qp->sends = needs.sends;
  qp->buffer_bytes = needs.buffer_bytes;
  qp->work = std::min(needs.work, rules.work_max);
  qp->keys = std::min(needs.keys, rules.keys_max);
  qp->pieces = std::min(needs.pieces, rules.pieces_max);
  qp->memory.resize(size_t{qp->receives + qp->sends} * qp->buffer_bytes);
  qp->receive_memory = qp->memory.data();
  qp->send_memory = qp->receive_memory + size_t{qp->receives} * qp->buffer_bytes;
  conn.qp = std::move(qp);
}

// --- Operations ------------------------------------------------------------------------------------------------------

void Net::transmit(Conn& conn) {
  SimQp& qp = *conn.qp;
  for (Op& op : qp.ops) {
    if (std::exchange(op.flushed, true)) continue;
    if (rng_.one_in(rules.local_error_one_in)) return break_qp(conn, Cause::kLocal);
    const Instant begin = std::max(qp.last_arrival, now_ + delay());
    qp.last_arrival = begin + Duration(int64_t(double(bytes_of(op)) / rules.bytes_per_ns));
    if (rng_.one_in(rules.lose_one_in)) conn.wire_dead = true;
    std::vector<std::byte> message;
    if (op.kind == OpKind::kSend) {
      const auto buffer = qp.send_buffer(op.buffer);
      message.assign(buffer.begin(), buffer.begin() + op.bytes);
    }
    const ConnId from = conn.id, to = conn.peer;
    if (op.kind == OpKind::kWrite)
      later(begin - now_, [this, from, to, op] {
        Conn *source = find(from), *sink = find(to);
        const bool there = source != nullptr && sink != nullptr && !source->qp->drained && !sink->qp->broken;
        if (there && !source->wire_dead && !sink->wire_dead) (void)write_in(*source, *sink, op, false);
      });
    later(qp.last_arrival - now_, [this, from, to, op, message] { arrive(from, to, op, message); });
  }
}

void Net::arrive(ConnId from, ConnId to, const Op& op, const std::vector<std::byte>& message) {
  Conn* source = find(from);
  if (source == nullptr || source->qp->drained || source->qp->broken) return;
  if (op.kind == OpKind::kKeyOpen || op.kind == OpKind::kKeyClose) {
    if (!source->wire_dead) completed(*source);  // else it waits behind what was lost
    return;
  }
  Conn* sink = find(to);
  const bool there = sink != nullptr && sink->qp != nullptr && !sink->qp->broken && !sink->wire_dead;
  if (!there || source->wire_dead || !passes(source->local, source->remote.address)) {
    ++counts.dropped;
    source->wire_dead = true;
    later(rules.retries_for, [this, from] {
      if (Conn* late = find(from)) break_qp(*late, Cause::kRetryExceeded);
    });
    return;
  }
  const bool refused = rng_.one_in(rules.refuse_one_in) || message.size() > sink->qp->buffer_bytes ||
                       (op.kind == OpKind::kWrite && !write_in(*source, *sink, op, true));
  if (refused) {
    break_qp(*sink, Cause::kRemoteAccess);
    return later(delay(), [this, from] {
      if (Conn* late = find(from)) break_qp(*late, Cause::kRemoteAccess);
    });
  }
  if (op.kind == OpKind::kSend) {
    if (sink->qp->posted.empty()) {
      ++counts.no_buffer;
      source->wire_dead = true;
      return later(rules.retries_for, [this, from] {
        if (Conn* late = find(from)) break_qp(*late, Cause::kRnrExceeded);
      });
    }
    message_in(*sink, message);
  }
  later(delay(), [this, from] {
    if (Conn* late = find(from)) completed(*late);
  });
}

void Net::message_in(Conn& to, const std::vector<std::byte>& message) {
  ++counts.messages;
  SimQp& qp = *to.qp;
  const uint32_t buffer = qp.posted.front();
  qp.posted.pop_front();
  std::copy(message.begin(), message.end(), qp.receive_buffer(buffer).begin());
  report(qp, {.kind = Done::Kind::kReceived, .buffer = buffer, .bytes = uint32_t(message.size())});
  if (hook) hook(message);
  to.control->message_came(to);
}

bool Net::write_in(const Conn& from, Conn& to, const Op& op, bool all) {
  const SimQp& sink = *to.qp;
  const auto open = sink.open.find(op.key), exposed = sink.exposed.find(op.key);
  const size_t bytes = bytes_of(op);
  const bool allowed = (open != sink.open.end() && covers(open->second, op.address, bytes)) ||
                       (exposed != sink.exposed.end() && covers(exposed->second, op.address, bytes));
  if (!allowed) {
    counts.stray_writes += all;
    return false;
  }
  const Payload& window = open != sink.open.end() ? open->second : exposed->second;
  if (!from.control->registered(op.from) || !to.control->registered(window)) {
    counts.unregistered += all;
    return false;
  }
  scatter(reinterpret_cast<std::byte*>(op.address), op.from, all ? bytes / 2 : 0, all ? bytes : bytes / 2);
  counts.writes += all;
  return true;
}

/// The first operation that is not completed yet is.
void Net::completed(Conn& from) {
  SimQp& qp = *from.qp;
  if (qp.broken) return;
  const Op op = std::move(qp.ops.front());
  qp.ops.pop_front();
  if (op.kind == OpKind::kKeyClose) {
    if (!rules.keys_end) qp.exposed[op.key] = qp.open.at(op.key);
    qp.open.erase(op.key);
    report(qp, {.kind = Done::Kind::kKeyClosed, .key = op.closing});
  } else if (op.token != 0) {
    report(qp, {.kind = Done::Kind::kSent, .token = op.token}, op.quiet);
  }
}

void Net::break_qp(Conn& conn, Cause cause) {
  if (conn.qp == nullptr || std::exchange(conn.qp->broken, true)) return;
  report(*conn.qp, {.kind = Done::Kind::kBroken, .cause = cause});
  if (conn.disconnected)
    later(delay(), [this, id = conn.id] {
      if (Conn* late = find(id)) drain(*late);
    });
}

void Net::drain(Conn& conn) {
  if (std::exchange(conn.qp->drained, true)) return;
  conn.qp->ops.clear();
  conn.qp->posted.clear();
  conn.qp->open.clear();
  conn.qp->exposed.clear();
  report(*conn.qp, {.kind = Done::Kind::kDrained});
}

void Net::report(SimQp& qp, const Done& done, bool quiet) {
  const bool first = qp.done.empty();
  qp.done.push_back(done);
  if (qp.ready == nullptr) return;
  if (quiet && (first || qp.quiet->contains(qp.conn))) {
    qp.quiet->emplace(qp.conn, now_);
    return;
  }
  qp.quiet->erase(qp.conn);
  qp.ready->insert(qp.conn);
}

}  // namespace ulnet::rc::sim
