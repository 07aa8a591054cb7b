#include "lnd/o2iblnd/dial_ctl.h"

#include <algorithm>

#include "dataplane/base/nid_text.h"
#include "lnd/o2iblnd/conn_ctl.h"
#include "lnd/o2iblnd/status.h"

namespace ulnet::o2iblnd {
namespace {

constexpr Duration kConnectAgain = 900ms;  ///< then an attempt without answer is made again
constexpr Duration kResolveMax = 5s;
constexpr Duration kAcceptMax = 5s;  ///< then dial_again() closes a passive connection that is not up

/// All attempts have failed: messages that wait end.
void dial_failed(IbControl& control, PeerCtl& peer, Completion how) {
  peer.dial = {.offer = control.find_ni(peer.key.first)->offer};
  if (!has_up(control, peer)) {
    peer_fail(control, peer, how);
    control.host.peer_down(peer.place.id, how.error);
  }
  peer_settle(control, peer);
}

/// False: the attempt could not begin; the Completion is why.
bool dial_one(IbControl& control, NiCtl& ni, PeerCtl& peer, Completion& why_not) {
  const Nid& nid = peer.key.second;
  const auto id = control.rc.dial({.local = ni.address,
                                   .remote = {rc::IpAddress::of_v4(nid.address_v4()), control.config.service},
                                   .privileged_port = control.config.use_privileged_port,
                                   .resolve_max = kResolveMax,
                                   .answer_max = std::max<Duration>(5s, ni.tunables.timeout / 4),
                                   .needs = conn_needs(control.config, ni, peer, peer.dial.offer.queue_depth)},
                                  control.now);
  if (!id) {
    control.log_limited(LogCause::kDial, "o2iblnd: dialling " + nid_text(nid) + ": " + id.error().what);
    why_not = {id.error().code, LndStatus::kLocalDropped};
    return false;
  }
  ConnCtl& conn = conn_add(control, *id, peer, nullptr);
  conn.params = peer.dial.offer;
  conn.ends = {ni.params.nid, nid, ni.stamp, peer.stamp};
  peer.dial.conns.insert(*id);
  return true;
}

/// A connection that is up, or can come up. A stranger can write the peer's NID into a request, and never answer. So a
/// connection from another address counts when it is up.
bool is_living(const ConnCtl& conn) {
  return conn.stage == ConnStage::kUp || (conn.stage != ConnStage::kEnding && !conn.foreign);
}
size_t living(IbControl& control, const PeerCtl& peer) {
  return size_t(std::count_if(peer.conns.begin(), peer.conns.end(),
                              [&](rc::ConnId id) { return is_living(control.conns.at(id)); }));
}

bool passive_in_progress(IbControl& control, const PeerCtl& peer) {
  return std::any_of(peer.conns.begin(), peer.conns.end(), [&](rc::ConnId id) {
    const ConnCtl& conn = control.conns.at(id);
    return !conn.active && is_living(conn);
  });
}

void dial_start(IbControl& control, PeerCtl& peer) {
  NiCtl* ni = control.find_ni(peer.key.first);
  if (ni == nullptr || ni->stopping || peer.abandoned)
    return dial_failed(control, peer, {-ESHUTDOWN, LndStatus::kLocalAborted});
  // The connection of the peer will carry the messages. If that fails, dial_missed() dials.
  if (passive_in_progress(control, peer)) {
    peer.dial.state = DialState::kIdle;
    return;
  }
  Completion why_not{-ENOBUFS, LndStatus::kLocalDropped};
  peer.dial.state = DialState::kDialling;
  const size_t wanted = size_t(ni->tunables.conns_per_peer);
  while (living(control, peer) < wanted && conn_room(control, peer))
    if (!dial_one(control, *ni, peer, why_not)) break;
  if (!peer.dial.conns.empty()) return;
  if (has_up(control, peer))
    peer.dial.state = DialState::kIdle;  // `wanted` stays: the worker may have lost the connection already
  else
    dial_failed(control, peer, why_not);
}

/// The reason of a CM REJ.
uint16_t reason_of(rc::Cause cause) {
  switch (cause) {
    case rc::Cause::kRejected: return kCmConsumer;
    case rc::Cause::kNoListener: return kCmInvalidService;
    case rc::Cause::kStale: return kCmStaleConnection;
    default: return 0;
  }
}

void pause_until(IbControl& control, PeerCtl& peer, Instant at) {
  peer.dial.at = at;
  control.pauses.insert({at, peer.id});
}

void reconnect(IbControl& control, PeerCtl& peer) {
  const Duration pause = reconnect_pause(peer.dial.reconnects++);
  if (pause == Duration{0}) return dial_start(control, peer);
  peer.dial.state = DialState::kPause;
  pause_until(control, peer, control.now + pause);
}

/// Closes connections that the peer has begun, and that hang: nothing is dialled beside them.
void passives_drop(IbControl& control, const PeerCtl& peer) {
  const std::set<rc::ConnId> all = peer.conns;  // closing one may end the peer
  for (const rc::ConnId id : all) {
    ConnCtl* conn = control.find_conn(id);
    if (conn == nullptr || conn->active || conn->stage == ConnStage::kUp || conn->stage == ConnStage::kEnding) continue;
    if (control.now - conn->began >= kAcceptMax) conn_lost(control, *conn, {-ETIMEDOUT, LndStatus::kNetworkTimeout});
  }
}

}  // namespace

void dial_wanted(IbControl& control, PeerCtl& peer) {
  peer.dial.wanted = true;
  if (peer.dial.state == DialState::kIdle) dial_start(control, peer);
}

void dial_unwanted(IbControl& control, PeerCtl& peer) {
  peer.dial.wanted = false;
  if (peer.dial.state != DialState::kPause) return;
  peer.dial.state = DialState::kIdle;
  peer_settle(control, peer);
}

void dial_ready(IbControl& control, ConnCtl& conn, rc::Qp& qp) {
  if (conn_lend(control, conn, qp)) return;
  dial_refused(control, conn, rc::Cause::kResources, {});
}

namespace {

/// Closes an attempt. Null: others are under way, or the peer is gone.
PeerCtl* attempt_close(IbControl& control, ConnCtl& conn, Completion how) {
  const uint64_t id = conn.peer;
  PeerCtl& peer = *control.find_peer(id);
  const DialState state =
      std::exchange(peer.dial.state, DialState::kDialling);  // the peer stays while the attempt goes
  conn_close(control, conn, how);
  PeerCtl* left = control.find_peer(id);
  if (left == nullptr) return nullptr;
  left->dial.state = left->dial.conns.empty() ? DialState::kIdle : state;
  return left->dial.conns.empty() ? left : nullptr;
}

}  // namespace

void dial_answered(IbControl& control, ConnCtl& conn, std::span<const std::byte> data) {
  PeerCtl& peer = *control.find_peer(conn.peer);
  Message answer;
  const MessageFault fault = message_decode(data, answer);
  const AnswerFault wrong = judge_answer(answer, fault, conn.ends, conn.params);
  if (wrong != AnswerFault::kNone) {
    if (!std::exchange(conn.blamed, true)) ++control.find_ni(conn.ni)->faults[size_t(PeerFault::kAnswer)];
    control.log_limited(LogCause::kAnswer, "o2iblnd: " + nid_text(peer.key.second) + ": " + answer_fault_text(wrong));
    return dial_lost(control, conn, {-EPROTO, LndStatus::kRemoteDropped});
  }
  if (conn.lost) return dial_lost(control, conn, *conn.lost);
  conn.params = answer.params;
  conn.ends = ends_of_answer(answer, conn.ends.src_stamp);
  peer.stamp = answer.ends.src_stamp;
  former_lives_end(control, conn.ends.dst, peer.stamp);  // reports the peer as down; conn_up() has the last word
  conn_up(control, conn);
}

void dial_refused(IbControl& control, ConnCtl& conn, rc::Cause cause, std::span<const std::byte> data) {
  PeerCtl& peer = *control.find_peer(conn.peer);
  const Reaction reaction =
      react(reason_of(cause), data, {conn.params, peer.dial.wanted, passive_in_progress(control, peer)});
  Completion how = failure_of(cause);
  if (reason_of(cause) != 0) how.error = reaction.error;
  if (reaction.stamp != 0) peer.stamp = reaction.stamp;
  if (reaction.kind == Reaction::Kind::kReconnect) peer.dial.offer = reaction.params;
  PeerCtl* left = attempt_close(control, conn, how);
  if (left == nullptr) return;
  switch (reaction.kind) {
    case Reaction::Kind::kReconnect: return reconnect(control, *left);
    case Reaction::Kind::kFail: return dial_failed(control, *left, how);
    case Reaction::Kind::kNothing: return peer_settle(control, *left);
  }
}

void dial_lost(IbControl& control, ConnCtl& conn, Completion how) {
  if (PeerCtl* left = attempt_close(control, conn, how)) dial_failed(control, *left, how);
}

void dial_satisfied(IbControl& control, PeerCtl& peer, const ConnCtl& conn) {
  peer.dial.conns.erase(conn.id);
  peer.dial.wanted = false;
  peer.dial.reconnects = peer.dial.races = 0;
  peer.dial.offer = control.find_ni(peer.key.first)->offer;
  if (peer.dial.conns.empty()) peer.dial.state = DialState::kIdle;
}

void dial_missed(IbControl& control, PeerCtl& peer) {
  if (peer.dial.wanted && peer.dial.state == DialState::kIdle && !has_up(control, peer)) dial_start(control, peer);
}

void dial_again(IbControl& control, PeerCtl& peer) {
  const uint64_t id = peer.id;
  passives_drop(control, peer);
  PeerCtl* left = control.find_peer(id);
  if (left == nullptr) return;
  if (left->dial.state == DialState::kPause) return pause_until(control, *left, control.now);
  const std::set<rc::ConnId> attempts = left->dial.conns;
  bool closed = false;
  for (const rc::ConnId one : attempts) {
    ConnCtl* conn = control.find_conn(one);
    if (conn == nullptr || control.now - conn->began < kConnectAgain) continue;
    closed = true;
    conn_close(control, *conn, {-ETIMEDOUT, LndStatus::kNetworkTimeout});
  }
  left = control.find_peer(id);
  if (!closed || left == nullptr || !left->dial.conns.empty()) return;
  if (left->dial.wanted) return dial_start(control, *left);
  left->dial.state = DialState::kIdle;
  peer_settle(control, *left);
}

unsigned dial_due(IbControl& control) {
  unsigned done = 0;
  for (; !control.pauses.empty() && control.pauses.begin()->first <= control.now; ++done) {
    const auto [at, id] = *control.pauses.begin();
    control.pauses.erase(control.pauses.begin());
    PeerCtl* peer = control.find_peer(id);
    if (peer != nullptr && peer->dial.state == DialState::kPause && peer->dial.at == at) dial_start(control, *peer);
  }
  return done;
}

Instant dial_next(const IbControl& control) {
  return control.pauses.empty() ? kForever : control.pauses.begin()->first;
}

void former_lives_end(IbControl& control, const Nid& nid, uint64_t stamp) {
  for (const auto& [ni, unused] : control.nis) {
    PeerCtl* peer = control.find_peer(PeerKey{ni, nid});
    if (peer == nullptr) continue;
    peer->stamp = stamp;
    const uint64_t id = peer->id;
    const std::set<rc::ConnId> all = peer->conns, attempts = peer->dial.conns;
    for (const rc::ConnId one : all) {
      ConnCtl* conn = attempts.contains(one) ? nullptr : control.find_conn(one);
      if (conn != nullptr && conn->ends.dst_stamp != 0 && conn->ends.dst_stamp != stamp)
        conn_close(control, *conn, {-ESTALE, LndStatus::kRemoteDropped});
    }
    if (PeerCtl* left = control.find_peer(id)) dial_missed(control, *left);
  }
}

}  // namespace ulnet::o2iblnd
