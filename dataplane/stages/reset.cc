#include "dataplane/stages/reset.h"

namespace ulnet {
namespace {

void reset_peer_ni(Worker& w, const PeerNiView& ni) {
  if (ni.slice == nullptr) return;
  ni.locals[w.id.value]->latencies.reset_extremes();
  if (ni.server != w.id) return;
  ni.slice->credits.reset_min();
  ni.slice->rtr.reset_min();
  ni.slice->counters.reset_extremes();
}

void reset_limb(Worker& w, const PeerTable::Limb& limb) {
  for (const PeerTable::Branch* branch : limb.branches) {
    if (branch == nullptr) continue;
    for (const PeerTable::Leaf* leaf : branch->leaves) {
      if (leaf == nullptr) continue;
      for (const PeerTable::Entry& entry : leaf->entries) reset_peer_ni(w, entry.ref.ni());
    }
  }
}

}  // namespace

void reset_extremes(Worker& w) {
  reset_pool_minima(w);
  w.counters[Stat::kMsgsMax].set(messages_in_being(w));
  for (const NiView& ni : w.view->local->nis) {
    NiSlice& slice = *ni.slices[w.id.value];
    slice.credits.reset_min();
    slice.counters.reset_extremes();
  }
  for (const PeerTable::Limb* limb : w.view->peers->limbs)
    if (limb != nullptr) reset_limb(w, *limb);
}

void reset_pool_minima(Worker& w) {
  for (RouterPool& pool : w.pools) pool.credits_min.set(pool.credits.get());
}

}  // namespace ulnet
