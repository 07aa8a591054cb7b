#include "dataplane/stages/charge.h"

#include "dataplane/stages/post.h"
#include "dataplane/state/failures.h"

namespace ulnet {
namespace {

void charge(Worker& w, Charges& charges) {
  if (charges.add()) w.charged.push_back(charges);
}

Charges& charges_of(const Worker& w, const PeerSlice& slice) {
  return slice.locals[w.id.value]->charges;
}

}  // namespace

void charge_send(Worker& w, const Tx& tx, Completion how) {
  const bool late = !tx.routed && tx.deadline <= w.now;
  if (late || tx.ni_slice->closing) return;
  const FailureClass& failure = failure_class(how.health);
  // A node pings each peer NI that is gone again and again. This must not cost the health of its own NI.
  const bool pinged_gone = tx.recovery && failure.peer_at_fault;
  if (failure.ni_at_fault && !pinged_gone) charge(w, tx.ni_slice->charges);
  if (failure.peer_at_fault) charge(w, charges_of(w, *tx.peer));
}

void charge_receive(Worker& w, const RxSlot& slot, Completion how) {
  if (slot.from == nullptr || slot.ni_slice->closing) return;
  if (failure_class(how.health).peer_at_fault) charge(w, charges_of(w, *slot.from));
}

void charge_no_answer(Worker& w, const PeerSlice& hop) {
  charge(w, charges_of(w, hop));
}

unsigned charges_report(Worker& w) {
  unsigned reported = 0;
  for (; Charges* charges = w.charged.front(); ++reported) {
    if (!post_control_if_room(w, ChargedMsg{charges->id(), charges->of_peer()})) break;
    w.charged.remove(*charges);
  }
  return reported;
}

}  // namespace ulnet
