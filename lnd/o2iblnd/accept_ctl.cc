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

/// Of the connections that are being set up, the oldest of the address with the most gives way to a new one. So a node
/// that connects keeps its place while another address sends requests without end.
void half_open_drop(IbControl& control) {
  const auto& shares = control.half_open_of;
  size_t most = 0;
  for (const auto& [address, share] : shares) most = std::max(most, share.size());
  std::pair<Instant, rc::ConnId> oldest{kForever, 0};
  for (const auto& [address, share] : shares)
    if (share.size() == most) oldest = std::min(oldest, *share.begin());
  if (ConnCtl* conn = control.find_conn(oldest.second)) conn_lost(control, *conn, failure_of(rc::Cause::kResources));
}

/// A peer NI that has its share of connections gets another only in place of its oldest. Without `own_address`, the
/// request may be a stranger's.
bool passive_room(IbControl& control, const PeerCtl& peer, bool own_address) {
  uint32_t passives = 0;
  ConnCtl* oldest = nullptr;
  for (const rc::ConnId id : peer.conns) {
    ConnCtl& conn = control.conns.at(id);
    if (conn.active || conn.stage == ConnStage::kEnding) continue;
    ++passives;
    if (oldest == nullptr || conn.began < oldest->began) oldest = &conn;
  }
  if (passives < control.config.passives_max) return true;
  if (!own_address || oldest == nullptr) return false;
  conn_lost(control, *oldest, failure_of(rc::Cause::kPeerClosed));
  return true;
}

/// The peer, if it may have one more connection.
Result<PeerCtl*> room_for(IbControl& control, NiCtl& ni, const rc::Event& event, const Message& request) {
  if (control.half_open >= control.config.half_open_max || control.host.memory_low())
    return fail(ENOMEM, "too many connections are being set up");
  const PeerKey key{ni.params.id, request.ends.src};
  if (const PeerCtl* known = control.find_peer(key))
    if (!passive_room(control, *known, from_own_address(event, request)))
      return fail(ENOMEM, "the peer has too many, and the request comes from another address");
  const auto found = peer_ensure(control, ni, request.ends.src, &event.remote.address);
  if (!found || conn_room(control, **found)) return found;
  peer_settle(control, **found);
  return fail(ENOMEM, "its worker has too many");
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
  if (control.half_open >= control.config.half_open_max) half_open_drop(control);
  const auto found = room_for(control, *ni, event, request);
  if (!found) {
    control.log_limited(LogCause::kRoom, "o2iblnd: no room for a connection of " + source_text(event, request, fault) +
                                             ": " + found.error().what);
    return reject(control, event, {.reason = RejectReason::kNoResources, .stamp = ni->stamp, .params = ni->offer});
  }
  ConnCtl& conn = conn_add(control, event.conn, **found, &event.remote.address);
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
