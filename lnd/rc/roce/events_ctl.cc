// Events of connections: from the CM, and from workers.
#include <algorithm>

#include "lnd/rc/roce/control_ctl.h"
#include "lnd/rc/roce/proto/cma_header.h"
#include "lnd/rc/roce/proto/path.h"

namespace ulnet::rc::roce {
namespace {

constexpr size_t kEventsMax = 128;  ///< with more, control takes no messages of the CM

/// The port of a listener; nothing: another kind of service.
std::optional<uint16_t> port_of_service(uint64_t service_id) {
  const auto port = uint16_t(service_id);
  if (service_id != service_id_of(port)) return std::nullopt;
  return port;
}

}  // namespace

/// A request without flow label says nothing: the UDP port then depends on the number of our queue pair.
WorkerId RoceControl::arrives_at(const Conn& conn) const {
  const PortFacts& facts = ports_[conn.port].facts;
  if (!facts.worker_of || conn.path.flow_label == 0) return kNoWorker;
  return facts.worker_of(conn.remote.address, conn.local, udp_source_port(conn.path.flow_label)).value_or(kNoWorker);
}

void RoceControl::say(const Conn& conn, EventKind kind, Cause cause, std::span<const std::byte> data) {
  if (conn.disconnected) return;
  Event& event = events_.emplace_back();
  event.kind = kind;
  event.cause = cause;
  event.conn = conn.id;
  event.listener = conn.listener;
  event.remote = conn.remote;
  if (kind == EventKind::kRequest) event.arrives_at = arrives_at(conn);
  if (kind == EventKind::kReady) event.qp = conn.qp.get();
  event.bytes = uint8_t(data.size());
  std::copy(data.begin(), data.end(), event.data.begin());
}

/// Has the worker look at a queue pair.
void RoceControl::changed(RoceQp& qp) {
  WorkerRings& rings = *shared_.rings[qp.worker.value];
  if (!rings.looks.push(qp.number)) rings.look_at_all.store(true);
  rings.bell.ring();
}

/// The connection has failed, or the peer has closed it. A request that the user has not got yet is forgotten: the
/// connection is gone.
void RoceControl::end(Conn& conn, Cause cause, std::span<const std::byte> data) {
  const bool was_up = conn.state == State::kUp;
  if (conn.state == State::kOver) return;
  leave_cm(conn);
  if (!conn.active && !conn.told) {
    const ConnId id = conn.id;
    forget_events(id);
    conns_.erase(id);
    return;
  }
  conn.state = State::kOver;
  say(conn, was_up ? EventKind::kClosed : EventKind::kFailed, cause, data);
  if (conn.qp == nullptr) return;
  conn.qp->cause.store(cause, std::memory_order_release);
  changed(*conn.qp);
}

// --- The CM ----------------------------------------------------------------------------------------------------------

/// Messages for one peer take one way, so they stay in order.
void RoceControl::cm_send(const CmAddresses& addresses, std::span<const std::byte, kMadBytes> mad) {
  const auto port = port_of(addresses.local);
  if (!port) return;
  MadMessage message{*port, addresses, {}};
  std::copy(mad.begin(), mad.end(), message.mad.begin());
  const size_t ways = std::clamp<size_t>(ports_[*port].facts.workers, 1, workers_.size());
  WorkerRings& rings = *shared_.rings[uint8_t(addresses.remote.bytes[15]) % ways];
  (void)rings.mads_out.push(message);
  rings.bell.ring();
}

std::optional<RejReason> RoceControl::cm_requested(CmId id, const CmAddresses& addresses, const CmReq& req) {
  const auto port = port_of(addresses.local);
  if (!port) return RejReason::kInvalidGid;
  const auto service = port_of_service(req.service_id);
  const ListenerId listener = service ? listener_at({addresses.local, *service}) : 0;
  if (listener == 0) return RejReason::kInvalidServiceId;
  const auto header = cma_decode(std::span(req.private_data).first<kCmaHeaderBytes>());
  if (!header) return RejReason::kUnsupported;
  if (header->source != addresses.remote || header->destination != addresses.local) return RejReason::kInvalidGid;
  if (req.mtu > mtu_code(ports_[*port].facts.mtu)) return RejReason::kInvalidMtu;
  Conn& conn = add();
  conn.cm = id;
  by_cm_[id] = conn.id;
  conn.state = State::kAsked;
  conn.port = *port;
  conn.listener = listener;
  conn.local = addresses.local;
  conn.remote = {addresses.remote, header->source_port};
  conn.path = {.mtu = req.mtu,
               .traffic_class = req.traffic_class,
               .ack_timeout = req.ack_timeout,
               .retry_count = req.retry_count,
               .rnr_retry_count = req.rnr_retry_count,
               .flow_label = req.flow_label};
  conn.remote_qpn = req.qpn;
  conn.first = req.starting_psn;
  say(conn, EventKind::kRequest, Cause::kNone, std::span(req.private_data).subspan(kCmaHeaderBytes));
  return std::nullopt;
}

void RoceControl::cm_replied(CmId id, const CmRep& rep) {
  Conn& conn = *of_cm(id);
  conn.sender = make_sender(conn, *conn.qp, rep.qpn, rep.starting_psn, rep.rnr_retry_count);
  conn.qp->made.store(conn.sender.get(), std::memory_order_release);
  changed(*conn.qp);
  conn.state = State::kUp;
  cm_.ready(id);
  say(conn, EventKind::kEstablished, Cause::kNone, rep.private_data);
}

void RoceControl::cm_established(CmId id) {
  Conn& conn = *of_cm(id);
  conn.state = State::kUp;
  say(conn, EventKind::kEstablished);
}

void RoceControl::cm_ended(CmId id, Cause cause, std::span<const std::byte> data) {
  if (Conn* conn = of_cm(id)) end(*conn, cause, data);
}

// --- Workers ---------------------------------------------------------------------------------------------------------

void RoceControl::hear(const Note& note, Instant now) {
  const auto found = conns_.find(note.conn);
  if (found == conns_.end()) return;
  Conn& conn = found->second;
  if (note.failed == Cause::kNone) {
    if (conn.cm != 0) cm_.message_came(conn.cm);
    return;
  }
  if (conn.state == State::kUp || conn.state == State::kOver) return;  // the user closes what was up
  if (conn.cm != 0) cm_.close(conn.cm, now);
  end(conn, note.failed);
}

/// Strangers can send any number of them. While the user does not take the events, they stay in the rings. The workers
/// drop and count those for which there is no room.
void RoceControl::take_mads(Instant now) {
  for (const auto& rings : shared_.rings) {
    MadMessage message;
    for (uint32_t left = WorkerRings::kMads; left > 0 && events_.size() < kEventsMax && rings->mads_in.pop(message);
         --left)
      (void)cm_.received(message.addresses, message.mad, now);
  }
}

unsigned RoceControl::poll(std::span<Event> out, Instant now) {
  (void)shared_.control_bell.is_rung();
  (void)shared_.control_bell.take();
  take_mads(now);
  for (const auto& rings : shared_.rings) {
    Note note;
    for (uint32_t left = WorkerRings::kNotes; left > 0 && rings->notes.pop(note); --left) hear(note, now);
    if (rings->owes.load(std::memory_order_relaxed) && rings->owes.exchange(false, std::memory_order_seq_cst))
      rings->bell.ring();
  }
  (void)cm_.timers(now);
  unsigned count = 0;
  for (; count < out.size() && !events_.empty(); events_.pop_front()) {
    out[count] = events_.front();
    if (out[count].kind == EventKind::kRequest) mine(out[count].conn).told = true;
    ++count;
  }
  return count;
}

Instant RoceControl::next_deadline() {
  if (!events_.empty()) return kNever;
  for (const auto& rings : shared_.rings)
    if (!rings->mads_in.empty() || !rings->notes.empty()) return kNever;
  return cm_.next_deadline();
}

void RoceControl::wait_fds(std::vector<int>& out) {
  if (const int fd = shared_.control_bell.signal.fd(); fd >= 0) out.push_back(fd);
}

}  // namespace ulnet::rc::roce
