#include "dataplane/stages/copies.h"

#include <algorithm>

#include "dataplane/base/cold.h"
#include "dataplane/stages/egress.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"

namespace ulnet {
namespace {

uint32_t faults_of(const NiView& ni) {
  return (ni.going() || ni.fatal || ni.health == 0 ? kPathGone : 0) + kHealthMax - ni.health;
}

uint32_t faults_of(const PeerNiView& ni) {
  const bool gone = ni.down || ni.known_down || ni.slice == nullptr || ni.health == 0;
  return (gone ? kPathGone : 0) + kHealthMax - ni.health;
}

/// Of the route to `net` over this gateway. A gateway may have several routes to a net: any that is up counts.
uint32_t faults_of_route(const Worker& w, const PeerView& gateway, Net net) {
  const RouteNetView* routes = w.view->routes->find(net);
  if (routes == nullptr) return kPathGone;
  for (const RouteView& route : routes->routes) {
    const PeerRef peer = w.view->peers->find(route.gateway);
    if (route.alive && peer && peer.peer == &gateway) return 0;
  }
  return kPathGone;
}

bool receives(const Operation& op) {
  return op.state == OperationState::kReceiving || op.state == OperationState::kSendingReceiving;
}

/// Has the path come back after `when`, or shortly before? TCP connections of that time may still be silent: each waits
/// for its next attempt (docs/decisions.md #100).
bool back_since(const Way& way, Instant when) {
  const auto since = [&](const Gauge& back) {
    return back.get() != 0 && when - Instant{Duration{back.get()}} < kJustBack;
  };
  if (!way.hop || way.hop.ni().slice == nullptr) return false;
  if (since(way.hop.ni().slice->back_ns)) return true;
  return way.ni != nullptr && since(way.ni->slices[way.hop.ni().server.value]->back_ns);
}

/// Has it waited long enough since it was issued? The time depends on its path, and doubles with each copy. If the path
/// has gone down since the last attempt, the copy does not wait.
bool copy_due(const Worker& w, Operation& op) {
  const Way way = way_of(w, op);
  const uint32_t faults = faults_of(w, way).all();
  const Duration waited = w.now - op.issued;
  op.path_failed = op.path_failed || faults > 0 || (waited >= kCopyAfterFault && back_since(way, op.issued));
  if (faults >= kPathGone && !op.path_gone) return true;
  const Duration first = faults >= kPathGone ? kCopyAfter : op.path_failed ? kCopyAfterFault : kCopyAfterSilence;
  return waited >= first * (int64_t{1} << op.copies);
}

/// Updates how long a driver has had the request, or received its REPLY, while their path was down. The time goes on if
/// the path is back for less than kJustBack in between; that is not counted. True: it is down, and that for kStuckMax.
bool stuck_long(const Worker& w, Operation& op) {
  const bool sends = op.state == OperationState::kSending || op.state == OperationState::kSendingAnswered;
  if (!(sends || receives(op)) || op.tx.peer == nullptr || !may_copy(w, op)) {
    op.stuck = false;
    return false;
  }
  const bool down = faults_of(w, way_of(w, op)).all() >= kPathGone;
  if (!down) {
    op.stuck = op.stuck && w.now - op.down_at < kJustBack;
    op.path_back = true;
    return false;
  }
  if (!op.stuck) op.stuck_for = {};
  if (op.stuck && !op.path_back) op.stuck_for += w.now - op.down_at;
  op.stuck = true;
  op.path_back = false;
  op.down_at = w.now;
  return op.stuck_for >= kStuckMax;
}

/// If it has been stuck for long, and there is another path, the driver gives it back. Returns true if it has looked
/// for a path.
bool stuck_look(Worker& w, Operation& op) {
  if (!stuck_long(w, op)) return false;
  // Then the next attempt is one after a failure, unless earlier ones may still be answered.
  const bool retries = op.state == OperationState::kSending && !op.copied;
  if (retries && op.retries >= w.view->node.retry_count) return false;
  if (!has_way_out(w, op)) return true;
  op.stuck = false;
  if (receives(op))
    divert_receive(w, op);
  else
    recall_lease(w, op, Recall::kStuck);
  return true;
}

/// The look of copies_look(), which is short because each turn calls it.
[[ULNET_COLD, gnu::noinline]] unsigned look_at_waiting(Worker& w) {
  unsigned sent = 0, tries = 0;
  w.copies_first = w.deadlines.look_from(w.copies_first, [&](Operation& op) {
    if (tries == kCopiesLook) return false;
    if (op.state != OperationState::kAwaiting) {
      tries += stuck_look(w, op);
      return true;
    }
    op.stuck = false;
    if (!copy_due(w, op) || !may_copy(w, op)) return true;
    ++tries;
    sent += send_copy(w, op, true);
    return true;
  });
  w.copies_look_at = w.copies_first.is_start() ? w.now + kSilenceLook : w.now;  // else the next turn goes on there
  return sent;
}

}  // namespace

bool may_copy(const Worker& w, const Operation& op) {
  if (w.view->node.retry_count == 0 || op.copies == kCopiesMax) return false;
  if (!op.awaits_answer() || op.portal0 || op.recovery || op.md_unlinked || op.status != 0) return false;
  if (!op.armed() || w.now - op.issued >= kCopyFor) return false;  // without a deadline, nothing would end it
  const PeerRef peer = w.view->peers->find(op.want_dst);
  return peer && peer.peer->life != 0 && op.issued > peer.peer->life_since;
}

void mark_copy(const Worker& w, Operation& op) {
  wire::Header& header = op.tx.header;
  const PeerRef peer = w.view->peers->find(op.want_dst);
  const uint64_t life = uint64_t{peer ? peer.peer->life : 0u} << kCookieLifeShift;
  const auto mark = [life](wire::WireHandle& handle) {
    handle.object_cookie |= kCookieCopy;
    handle.interface_cookie = (handle.interface_cookie & kCookieOwn) | life;
  };
  if (op.is_get()) {
    wire::GetBody get = header.get();
    mark(get.return_wmd);
    header.set(get);
  } else {
    wire::PutBody put = header.put();
    mark(put.ack_wmd);
    header.set(put);
  }
}

Way way_of(const Worker& w, const Operation& op) {
  const Response& answer = op.answer;  // which may come over a gateway of which this node has no route
  if (receives(op)) return {w.view->local->ni(answer.target), w.view->peers->find(answer.sender), answer.sender};
  return {w.view->local->ni(op.tx.ni), w.view->peers->find(op.tx.next_hop), op.tx.header.dest_nid};
}

PathFaults faults_of(const Worker& w, const Way& way) {
  PathFaults faults{way.ni != nullptr ? faults_of(*way.ni) : kPathGone, way.hop ? faults_of(way.hop.ni()) : kPathGone};
  if (way.hop && way.dest.net() != way.hop.ni().nid.net())
    faults.peer_ni += faults_of_route(w, *way.hop.peer, way.dest.net());
  return faults;
}

PathFaults faults_of(const Worker& w, const PathChoice& choice) {
  const PeerRef hop{choice.hop_peer, uint32_t(choice.hop - choice.hop_peer->nis.data())};
  return faults_of(w, Way{choice.ni, hop, choice.dest});
}

unsigned copies_look(Worker& w) {
  const bool due = w.view->node.fast_detection && w.deadlines.armed() > 0 && w.now >= w.copies_look_at;
  return due ? look_at_waiting(w) : 0;
}

Instant copies_due(const Worker& w) {
  return w.view_fast && w.deadlines.armed() > 0 ? w.copies_look_at : kForever;
}

void copy_failed(Operation& op) {
  ULNET_CHECK(op.state == OperationState::kReady);
  op.state = OperationState::kAwaiting;
}

bool reply_lost(Worker& w, Operation& op) {
  if (op.status != 0 || op.md_unlinked) return false;
  const bool may = may_copy(w, op), stuck = op.rx_result.error == -ECANCELED;  // stuck_look()
  if (op.state == OperationState::kSendingReceiving) {
    if (op.copies == 0 && !may && !stuck) return false;
    op.stuck = false;  // that was the path of the REPLY
    op.state = OperationState::kSending;
  } else if (!may || !send_copy(w, op, false)) {
    if (!stuck) return false;
    op.state = OperationState::kAwaiting;
  }
  op.answer_known = false;
  return true;
}

}  // namespace ulnet
