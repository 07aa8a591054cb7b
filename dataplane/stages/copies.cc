#include "dataplane/stages/copies.h"

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

PathFaults faults_of(const Worker& w, const NiView* ni, const PeerRef& hop, const Nid& dest) {
  PathFaults faults{ni != nullptr ? faults_of(*ni) : kPathGone, hop ? faults_of(hop.ni()) : kPathGone};
  if (hop && dest.net() != hop.ni().nid.net()) faults.peer_ni += faults_of_route(w, *hop.peer, dest.net());
  return faults;
}

/// Was its path down when it left, or shortly before? TCP connections of that time may still be silent: each waits for
/// its next attempt (docs/decisions.md #100).
bool just_back(const Worker& w, const Operation& op) {
  const auto since = [&](const Gauge& back) {
    return back.get() != 0 && op.issued - Instant{Duration{back.get()}} < kJustBack;
  };
  const PeerRef hop = w.view->peers->find(op.tx.next_hop);
  if (!hop || hop.ni().slice == nullptr) return false;
  const NiView* ni = w.view->local->ni(op.tx.ni);
  return since(hop.ni().slice->back_ns) || (ni != nullptr && since(ni->slices[hop.ni().server.value]->back_ns));
}

/// Has it waited long enough since it was issued? The time depends on its path, and doubles with each copy. If the path
/// has gone down since the last attempt, the copy does not wait.
bool copy_due(const Worker& w, Operation& op) {
  const uint32_t faults = faults_of(w, op).all();
  const Duration waited = w.now - op.issued;
  op.path_failed = op.path_failed || faults > 0 || (waited >= kCopyAfterFault && just_back(w, op));
  if (faults >= kPathGone && !op.path_gone) return true;
  const Duration first = faults >= kPathGone ? kCopyAfter : op.path_failed ? kCopyAfterFault : kCopyAfterSilence;
  return waited >= first * (int64_t{1} << op.copies);
}

/// Of the path by which the REPLY comes.
uint32_t faults_of_answer(const Worker& w, const Operation& op) {
  const Response& answer = op.answer;
  return faults_of(w, w.view->local->ni(answer.target), w.view->peers->find(answer.sender), answer.sender).all();
}

/// A driver has the request, or receives its REPLY, and their path is down. After kStuckMax, the driver gives it back
/// if there is another path.
void stuck_look(Worker& w, Operation& op) {
  const bool receiving = op.state == OperationState::kReceiving || op.state == OperationState::kSendingReceiving;
  const bool sending = op.state == OperationState::kSending || op.state == OperationState::kSendingAnswered;
  if (!receiving && !sending) return;
  const bool was_stuck = op.stuck;
  const uint32_t faults = receiving ? faults_of_answer(w, op) : faults_of(w, op).all();
  op.stuck = op.tx.peer != nullptr && faults >= kPathGone && may_copy(w, op);
  if (!op.stuck) return;
  if (!was_stuck) op.stuck_since = w.now;
  if (w.now - op.stuck_since < kStuckMax) return;
  if (op.state != OperationState::kSendingAnswered && !has_way_out(w, op)) return;
  op.stuck = false;
  if (receiving) return divert_receive(w, op);
  recall_lease(w, op, Recall::kStuck);
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

PathFaults faults_of(const Worker& w, const PathChoice& choice) {
  return faults_of(w, choice.ni, {choice.hop_peer, uint32_t(choice.hop - choice.hop_peer->nis.data())}, choice.dest);
}

PathFaults faults_of(const Worker& w, const Operation& op) {
  return faults_of(w, w.view->local->ni(op.tx.ni), w.view->peers->find(op.tx.next_hop), op.tx.header.dest_nid);
}

unsigned copies_look(Worker& w) {
  if (!w.view->node.fast_detection || w.deadlines.armed() == 0 || w.now < w.copies_look_at) return 0;
  w.copies_look_at = w.now + kSilenceLook;
  unsigned sent = 0, tries = 0;
  uint32_t number = 0, first_left = 0;
  w.deadlines.for_each([&](Operation& op) {
    if (number++ < w.copies_first) return;
    if (op.state != OperationState::kAwaiting) return stuck_look(w, op);
    if (!copy_due(w, op) || !may_copy(w, op)) return;
    if (tries == kCopiesLook) {
      if (first_left == 0) first_left = number - 1;
      return;
    }
    ++tries;
    sent += send_copy(w, op, true) ? 1 : 0;
  });
  w.copies_first = first_left;  // the next turn goes on there
  if (first_left != 0) w.copies_look_at = w.now;
  return sent;
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
    op.state = OperationState::kSending;
  } else if (!may || !send_copy(w, op, false)) {
    if (!stuck) return false;
    op.state = OperationState::kAwaiting;
  }
  op.answer_known = false;
  return true;
}

}  // namespace ulnet
