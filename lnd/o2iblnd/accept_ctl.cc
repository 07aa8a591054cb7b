#include "lnd/o2iblnd/accept_ctl.h"

#include <algorithm>
#include <array>

#include "dataplane/base/nid_text.h"
#include "lnd/o2iblnd/conn_ctl.h"
#include "lnd/o2iblnd/dial_ctl.h"
#include "lnd/o2iblnd/status.h"

namespace ulnet::o2iblnd {
namespace {

constexpr uint16_t kPrivilegedPorts = 1024;

void reject(IbControl& control, const rc::Event& event, const Reject& why) {
  std::array<std::byte, kRejectBytes> block;
  reject_encode(why, block);
  control.rc.reject(event.conn, block, control.now);
}

std::string source_text(const rc::Event& event, const Message& request, MessageFault fault) {
  const Nid address = Nid::v4(Net::of(NetType::kO2ib, 0), event.remote.address.is_v4() ? event.remote.address.v4() : 0);
  const std::string at = nid_text(address);
  const std::string from = at.substr(0, at.find('@'));
  return fault == MessageFault::kNone ? nid_text(request.ends.src) + " (" + from + ")" : from;
}

/// The NI that the request names, if it listens there.
NiCtl* target_of(IbControl& control, const rc::Event& event, const Message& request) {
  for (auto& [id, ni] : control.nis)
    if (ni.listener == event.listener && ni.params.nid == request.ends.dst && !ni.stopping) return &ni;
  return nullptr;
}

PassiveSide side_of(IbControl& control, const NiCtl* ni, const PeerCtl* peer, const rc::Event& event) {
  PassiveSide here;
  here.privileged_required = control.config.require_privileged_port;
  here.privileged = event.remote.port < kPrivilegedPorts;
  here.ni_found = ni != nullptr;
  if (ni == nullptr) return here;
  here.ni_ready = true;
  here.stamp = ni->stamp;
  here.params = ni->offer;
  if (peer == nullptr) return here;
  const bool known = std::any_of(peer->conns.begin(), peer->conns.end(), [&](rc::ConnId id) {
    const ConnStage stage = control.conns.at(id).stage;
    return stage == ConnStage::kUp || (stage != ConnStage::kEnding && !control.conns.at(id).active);
  });
  here.peer_stamp = known ? peer->stamp : 0;
  here.connecting = peer->dial.state == DialState::kDialling;
  here.races = peer->dial.races;
  return here;
}

/// Anybody can write any NID into a request. A host whose address is the NID's is the peer itself.
bool from_own_address(const rc::Event& event, const Message& request) {
  return event.remote.address == rc::IpAddress::of_v4(request.ends.src.address_v4());
}

/// Ends the connections to a former life of the peer. Attempts go on: the peer rejects their stamp.
void close_old(IbControl& control, const PeerCtl& peer) {
  const uint64_t id = peer.id;
  const std::set<rc::ConnId> all = peer.conns, attempts = peer.dial.conns;
  for (const rc::ConnId one : all)
    if (ConnCtl* conn = attempts.contains(one) ? nullptr : control.find_conn(one))
      conn_close(control, *conn, {-ESTALE, LndStatus::kRemoteDropped});
  if (PeerCtl* left = control.find_peer(id)) dial_missed(control, *left);
}

}  // namespace

void accept_request(IbControl& control, const rc::Event& event) {
  Message request;
  const MessageFault fault = message_decode(event.private_data(), request);
  NiCtl* ni = fault == MessageFault::kNone ? target_of(control, event, request) : nullptr;
  PeerCtl* peer = ni == nullptr ? nullptr : control.find_peer(PeerKey{ni->params.id, request.ends.src});
  const PassiveVerdict verdict = judge_request(event.private_data(), request, fault, side_of(control, ni, peer, event));
  if (!verdict.accepted()) {
    if (verdict.reject.reason == RejectReason::kConnRace)
      ++peer->dial.races;
    else
      control.log_limited(LogCause::kRequest, "o2iblnd: request of " + source_text(event, request, fault) +
                                                  " is rejected (" + reject_reason_text(verdict.reject.reason) +
                                                  "): " + verdict.why);
    reject(control, event, verdict.reject);
    if (verdict.close_old && from_own_address(event, request)) close_old(control, *peer);  // docs/decisions.md #117
    return;
  }
  const Reject no_room{.reason = RejectReason::kNoResources, .stamp = ni->stamp, .params = ni->offer};
  const auto found = control.half_open < control.config.half_open_max && !control.host.memory_low()
                         ? peer_ensure(control, *ni, request.ends.src, &event.remote.address)
                         : Result<PeerCtl*>(fail(ENOMEM, "too many connections are being set up"));
  if (!found || !conn_room(control, **found)) {
    control.log_limited(LogCause::kRoom, "o2iblnd: no room for a connection of " + source_text(event, request, fault) +
                                             ": " + (found ? "its worker has too many" : found.error().what));
    reject(control, event, no_room);
    if (found) peer_settle(control, **found);
    return;
  }
  ConnCtl& conn = conn_add(control, event.conn, **found, false);
  conn.params = verdict.params;
  conn.ends = ends_of_answer(request, ni->stamp);
  (*found)->stamp = request.ends.src_stamp;
  control.rc.prepare(event.conn, conn_needs(control.config, *ni, **found, conn.params.queue_depth), control.now);
}

void accept_ready(IbControl& control, ConnCtl& conn, rc::Qp& qp) {
  if (!conn_lend(control, conn, qp)) accept_failed(control, conn, failure_of(rc::Cause::kResources));
}

void accept_established(IbControl& control, ConnCtl& conn) {
  if (conn.lost) return accept_failed(control, conn, *conn.lost);
  conn_up(control, conn);
}

void accept_failed(IbControl& control, ConnCtl& conn, Completion how) {
  conn_lost(control, conn, how);
}

}  // namespace ulnet::o2iblnd
