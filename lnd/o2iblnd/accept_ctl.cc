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

/// The connections that the peer has begun.
struct Passives {
  uint32_t count = 0;
  ConnCtl* oldest = nullptr;
};
Passives passives_of(IbControl& control, const PeerCtl& peer) {
  Passives found;
  for (const rc::ConnId id : peer.conns) {
    ConnCtl& conn = control.conns.at(id);
    if (conn.active || conn.stage == ConnStage::kEnding) continue;
    ++found.count;
    if (found.oldest == nullptr || conn.began < found.oldest->began) found.oldest = &conn;
  }
  return found;
}

/// The peer, if it may have one more connection. Another gives way for it only when all else is clear.
Result<PeerCtl*> room_for(IbControl& control, NiCtl& ni, const rc::Event& event, const Message& request) {
  if (control.config.half_open_max == 0 || control.host.memory_low())
    return fail(ENOMEM, "too many connections are being set up");
  const auto foreign = control.foreign_of.find(event.remote.address);
  if (!from_own_address(event, request) && foreign != control.foreign_of.end() &&
      foreign->second >= control.config.foreign_max)
    return fail(ENOMEM, "its address has too many under other NIDs");
  const auto found = peer_ensure(control, ni, request.ends.src, &event);
  if (!found) return found;
  PeerCtl& peer = **found;
  const auto refuse = [&](const char* why) {
    peer_settle(control, peer);
    return Result<PeerCtl*>(fail(ENOMEM, why));
  };
  if (!conn_room(control, peer)) return refuse("its worker has too many");
  const Passives passives = passives_of(control, peer);
  const bool replaces = passives.count >= control.config.passives_max;
  if (replaces && (!from_own_address(event, request) || passives.oldest == nullptr))
    return refuse("the peer has too many, and the request comes from another address");
  // Either may end the peer.
  if (replaces) conn_lost(control, *passives.oldest, failure_of(rc::Cause::kPeerClosed));
  if (control.half_open >= control.config.half_open_max) half_open_drop(control);
  return peer_ensure(control, ni, request.ends.src, &event);
}

/// Connections to a former life of the peer end, if the request is the peer's own (docs/decisions.md #117).
void note_life(IbControl& control, const rc::Event& event, const Message& request) {
  if (from_own_address(event, request)) former_lives_end(control, request.ends.src, request.ends.src_stamp);
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
    if (verdict.close_old) note_life(control, event, request);
    return;
  }
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
  note_life(control, event, request);
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
