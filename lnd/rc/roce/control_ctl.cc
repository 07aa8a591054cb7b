// Ports, listeners and calls of the user. Reports of the CM: events_ctl.cc.
#include "lnd/rc/roce/control_ctl.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "lnd/rc/roce/proto/cma_header.h"
#include "lnd/rc/roce/proto/path.h"

namespace ulnet::rc::roce {
namespace {

/// Segments of an operation, at least: a router writes from the packets that it has kept.
constexpr uint32_t kPieces = 16;

constexpr uint8_t kAckTimeout = 14;  ///< 67 ms, as docs/decisions.md says
constexpr uint16_t kPrivilegedFirst = 1023, kPrivilegedLast = 512;
constexpr uint16_t kOtherFirst = 60'999, kOtherLast = 32'768;

}  // namespace

RoceControl::RoceControl(Shared& shared, std::vector<RoceWorker*> workers, Rng& rng, const ProviderOptions& options)
    : shared_(shared),
      workers_(std::move(workers)),
      rng_(rng),
      cm_(*this, rng),
      numbers_(unsigned(workers_.size()), rng),
      last_listener_(options.first_listener - 1),
      last_conn_(options.first_conn - 1) {}

// --- Ports and listeners ---------------------------------------------------------------------------------------------

Result<uint8_t> RoceControl::add_port(PortFacts facts) {
  if (ports_.size() == kRocePortsMax) return fail(ENOSPC, "RoCE runs over no more ports of one node", kRocePortsMax);
  for (const IpAddress& address : facts.addresses)
    if (port_of(address)) return fail(EADDRINUSE, "another port has the same IP address");
  ports_.push_back({std::move(facts), {}});
  return uint8_t(ports_.size() - 1);
}

void RoceControl::set_link(uint8_t port, const PortLink& link) {
  ports_[port].link = link;
  for (const auto& [id, listener] : listeners_)
    if (listener.port == port) events_.push_back({.kind = EventKind::kDevice, .listener = id});
}

std::optional<uint8_t> RoceControl::port_of(const IpAddress& address) const {
  for (size_t i = 0; i < ports_.size(); ++i) {
    const auto& own = ports_[i].facts.addresses;
    if (std::find(own.begin(), own.end(), address) != own.end()) return uint8_t(i);
  }
  return std::nullopt;
}

ListenerId RoceControl::listener_at(const Endpoint& at) const {
  for (const auto& [id, listener] : listeners_)
    if (listener.at == at) return id;
  return 0;
}

Result<ListenerId> RoceControl::listen(const Endpoint& at) {
  const auto port = port_of(at.address);
  if (!port) return fail(ENODEV, "no port has this address: ports are named under ulnet: devices:");
  if (mtu_code(ports_[*port].facts.mtu) == 0) return fail(EINVAL, "the MTU of the port is too small for RoCE");
  if (ports_[*port].facts.workers < workers_.size())
    return fail(EINVAL, "the port has fewer queues than ulnet has workers: set `queues:` or `workers:`",
                ports_[*port].facts.workers);
  if (listener_at(at) != 0) return fail(EADDRINUSE, "another network listens at this address and port");
  listeners_[++last_listener_] = {at, *port};
  return last_listener_;
}

Device RoceControl::device(ListenerId id) const {
  const Port& port = ports_[listeners_.at(id).port];
  return {.name = port.facts.name,
          .usable = port.link.up,
          .speed = port.link.speed,
          .path_mtu = uint16_t(mtu_bytes(mtu_code(port.facts.mtu))),
          .any_memory = true,
          .keys_end = true};
}

// --- Connections -----------------------------------------------------------------------------------------------------

RoceControl::Conn& RoceControl::add() {
  Conn& conn = conns_[++last_conn_];
  conn.id = last_conn_;
  return conn;
}

RoceControl::Conn* RoceControl::of_cm(CmId id) {
  const auto found = by_cm_.find(id);
  return found == by_cm_.end() ? nullptr : &conns_.at(found->second);
}

void RoceControl::leave_cm(Conn& conn) {
  if (conn.cm != 0) by_cm_.erase(std::exchange(conn.cm, 0));
  if (conn.source_port != 0) source_ports_.erase({conn.local, conn.remote.address, std::exchange(conn.source_port, 0)});
}

/// The UDP port follows from the port, and decides about the queue on which the peer's packets arrive: the worker's, if
/// possible. 0: none is left.
uint16_t RoceControl::choose_source_port(const DialSpec& spec, const Port& port) const {
  const uint16_t first = spec.privileged_port ? kPrivilegedFirst : kOtherFirst;
  const uint16_t last = spec.privileged_port ? kPrivilegedLast : kOtherLast;
  uint16_t any = 0;
  for (uint16_t one = first; one >= last; --one) {
    if (source_ports_.contains({spec.local, spec.remote.address, one})) continue;
    if (any == 0) any = one;
    if (!port.facts.worker_of) break;
    const uint16_t udp = udp_source_port(flow_label(one, spec.remote.port));
    const auto worker = port.facts.worker_of(spec.remote.address, spec.local, udp);
    if (!worker || *worker == spec.needs.worker) return worker ? one : any;
  }
  return any;
}

Result<ConnId> RoceControl::dial(const DialSpec& spec, Instant now) {
  const auto port = port_of(spec.local);
  if (!port) return fail(EADDRNOTAVAIL, "no port has this address");
  if (spec.local.is_v4() != spec.remote.address.is_v4())
    return fail(EINVAL, "the two addresses are not of the same version of IP");
  if (mtu_code(ports_[*port].facts.mtu) == 0) return fail(EINVAL, "the MTU of the port is too small for RoCE");
  const uint16_t source_port = choose_source_port(spec, ports_[*port]);
  if (source_port == 0) return fail(EADDRINUSE, "no source port is left");
  Conn conn;
  conn.id = ++last_conn_;
  conn.active = true;
  conn.port = *port;
  conn.local = spec.local;
  conn.remote = spec.remote;
  conn.source_port = source_port;
  conn.give_up = now + spec.answer_max;
  conn.needs = spec.needs;
  conn.path = {.mtu = mtu_code(ports_[*port].facts.mtu),
               .traffic_class = uint8_t(std::max<int16_t>(spec.needs.tos, 0)),
               .ack_timeout = kAckTimeout,
               .retry_count = spec.needs.retry_count,
               .rnr_retry_count = spec.needs.rnr_retry_count,
               .flow_label = flow_label(source_port, spec.remote.port)};
  OwnedQp qp = make_qp(conn);  // if it throws, nothing has changed
  const auto cm = cm_.open({spec.local, spec.remote.address});
  if (!cm) return fail(ENOMEM, "too many RoCE connections", kCmConnsMax);
  conn.cm = *cm;
  by_cm_[*cm] = conn.id;
  source_ports_.insert({spec.local, spec.remote.address, source_port});
  const ConnId id = conn.id;
  made(conns_[id] = std::move(conn), std::move(qp));
  return id;
}

/// Null: no number or no memory is left. Throws std::bad_alloc. In both cases, nothing is kept.
RoceControl::OwnedQp RoceControl::make_qp(Conn& conn) {
  const QpNeeds& needs = conn.needs;
  const size_t bytes = size_t{needs.receives + needs.sends} * needs.buffer_bytes;
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]);
  if (memory == nullptr) return nullptr;
  conn.expects = Psn(uint32_t(rng_.next()));
  const ResponderConfig config{.receives = needs.receives,
                               .buffer_bytes = needs.buffer_bytes,
                               .memory = memory.get(),
                               .mtu = mtu_bytes(conn.path.mtu),
                               .first = conn.expects};
  const uint32_t keys = std::min(needs.keys, kKeysMax);
  auto unnumbered = std::make_unique<RoceQp>(config, keys, workers_[needs.worker.value]->counts(conn.port), rng_);
  const auto number = numbers_.take(needs.worker);
  if (!number) return nullptr;
  unnumbered->number = *number;
  OwnedQp qp(unnumbered.release(), QpEnd{&numbers_});
  qp->conn = conn.id;
  qp->worker = needs.worker;
  qp->receives = needs.receives;
  qp->sends = needs.sends;
  qp->buffer_bytes = needs.buffer_bytes;
  qp->work = needs.work;
  qp->keys = keys;
  qp->pieces = std::max(needs.pieces, kPieces);
  qp->receive_memory = memory.get();
  qp->send_memory = memory.get() + size_t{needs.receives} * needs.buffer_bytes;
  qp->mtu = config.mtu;
  qp->port = conn.port;
  qp->local = conn.local;
  qp->remote = conn.remote.address;
  qp->regions = &regions_;
  qp->memory = std::move(memory);
  return qp;
}

/// Reports kReady, or kFailed if make_qp() has returned null.
void RoceControl::made(Conn& conn, OwnedQp qp) {
  if (qp != nullptr) {
    conn.qp = std::move(qp);
    conn.state = State::kReady;
    return say(conn, EventKind::kReady);
  }
  if (conn.active)
    cm_.close(conn.cm, kNever);  // nothing was sent
  else
    cm_.reject(conn.cm, RejReason::kNoResources, {});
  end(conn, Cause::kResources);
}

std::unique_ptr<Sender> RoceControl::make_sender(const Conn& conn, const RoceQp& qp, uint32_t qpn, Psn first,
                                                 uint8_t rnr_retry_count) {
  const Path& path = conn.path;
  const uint32_t label = path.flow_label != 0 ? path.flow_label : flow_label_of_qpns(qp.number, qpn);
  const FlowAddresses flow{conn.local, conn.remote.address, udp_source_port(label), path.traffic_class};
  const RequesterConfig config{.work = qp.work,
                               .pieces = qp.pieces,
                               .mtu = mtu_bytes(path.mtu),
                               .first = first,
                               .retry_count = path.retry_count,
                               .rnr_retry_count = rnr_retry_count,
                               .timeout = path.ack_timeout == 0 ? Duration{} : timeout_of(path.ack_timeout)};
  return std::make_unique<Sender>(flow, qpn, config, qp.counts);
}

void RoceControl::prepare(ConnId id, const QpNeeds& needs, Instant) {
  Conn& conn = mine(id);
  if (conn.state == State::kOver) return;  // its kFailed is on the way
  ULNET_CHECK(conn.state == State::kAsked);
  conn.needs = needs;
  if (needs.tos >= 0) conn.path.traffic_class = uint8_t(needs.tos);
  OwnedQp qp = make_qp(conn);
  if (qp != nullptr) {
    conn.sender = make_sender(conn, *qp, conn.remote_qpn, conn.first, conn.path.rnr_retry_count);
    qp->made.store(conn.sender.get(), std::memory_order_release);
  }
  made(conn, std::move(qp));
}

void RoceControl::reject(ConnId id, std::span<const std::byte> private_data, Instant) {
  ULNET_CHECK(private_data.size() <= kRejectDataMax);
  Conn& conn = mine(id);
  ULNET_CHECK(conn.qp == nullptr);
  if (conn.cm != 0) cm_.reject(conn.cm, RejReason::kConsumer, private_data);
  leave_cm(conn);
  forget_events(id);
  conns_.erase(id);
}

void RoceControl::proceed(ConnId id, std::span<const std::byte> private_data, Instant now) {
  Conn& conn = mine(id);
  if (conn.state == State::kOver) return;
  ULNET_CHECK(conn.state == State::kReady);
  ULNET_CHECK(private_data.size() <= (conn.active ? kRequestDataMax : kReplyDataMax));
  conn.state = State::kSent;
  const uint64_t guid = guid_of(ports_[conn.port].facts.mac);
  if (!conn.active) {
    CmRep rep;
    rep.qpn = conn.qp->number;
    rep.starting_psn = conn.expects;
    rep.rnr_retry_count = conn.needs.rnr_retry_count;
    rep.ca_guid = guid;
    rep.private_data = private_data;
    return cm_.reply(conn.cm, rep, now + kAnswerMax, now);
  }
  std::array<std::byte, kReqDataMax> data{};
  cma_encode({conn.local, conn.remote.address, conn.source_port}, std::span(data).first<kCmaHeaderBytes>());
  std::copy(private_data.begin(), private_data.end(), data.begin() + kCmaHeaderBytes);
  CmReq req;
  req.service_id = service_id_of(conn.remote.port);
  req.ca_guid = guid;
  req.qpn = conn.qp->number;
  req.starting_psn = conn.expects;
  req.retry_count = conn.path.retry_count;
  req.rnr_retry_count = conn.path.rnr_retry_count;
  req.mtu = conn.path.mtu;
  req.flow_label = conn.path.flow_label;
  req.traffic_class = conn.path.traffic_class;
  req.ack_timeout = conn.path.ack_timeout;
  req.private_data = data;
  cm_.request(conn.cm, req, conn.give_up, now);
}

void RoceControl::disconnect(ConnId id, Instant now) {
  Conn& conn = mine(id);
  if (std::exchange(conn.disconnected, true)) return;
  forget_events(id);
  if (conn.cm != 0) cm_.close(conn.cm, now);
  leave_cm(conn);
  conn.state = State::kOver;
  if (conn.qp == nullptr) return;
  if (conn.qp->cause.load(std::memory_order_relaxed) == Cause::kNone)
    conn.qp->cause.store(Cause::kClosed, std::memory_order_release);
  conn.qp->disconnected.store(true, std::memory_order_release);
  changed(*conn.qp);
}

void RoceControl::destroy(ConnId id, Instant) {
  Conn& conn = mine(id);
  ULNET_CHECK(conn.disconnected && (conn.qp == nullptr || conn.qp->user == nullptr));
  conns_.erase(id);
}

Result<void> RoceControl::region_add(RegionId region, std::span<std::byte> memory) {
  regions_.add(region, memory);
  return {};
}

}  // namespace ulnet::rc::roce
