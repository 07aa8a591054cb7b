// The candidates of one step of a choice: the order in which they are compared, and the load of each.
#pragma once
#include <algorithm>
#include <cstdint>

#include "dataplane/base/ids.h"
#include "dataplane/state/tallies.h"
#include "dataplane/state/view.h"

namespace ulnet {

/// The order. Of equal candidates that were never chosen, the first one wins. Each worker begins at another candidate,
/// so that the first messages of all workers do not take the same interface.
class Turns {
 public:
  Turns(WorkerId worker, uint32_t count)
      : index_(worker.value < count ? worker.value
               : count == 0         ? 0
                                    : worker.value % count),
        count_(count),
        left_(count) {}
  [[nodiscard]] uint32_t index() const { return index_; }
  [[nodiscard]] bool left() const { return left_ > 0; }
  void next() {
    --left_;
    index_ = index_ + 1 == count_ ? 0 : index_ + 1;
  }

 private:
  uint32_t index_;
  const uint32_t count_;
  uint32_t left_;
};

/// Load of a candidate by its worker, and its turn.
struct Load {
  uint32_t used = 0;    ///< messages under way, and the handicap of the NI
  uint32_t weight = 1;  ///< Weights::of()
  int64_t sequence = 0;
  /// How long one more message would take, in messages of the best rail.
  [[nodiscard]] uint64_t wait() const { return (uint64_t{used} + 1) * weight; }
};
[[nodiscard]] inline Load load_of(const Rank& rank, const TallyNow& tally) {
  return {tally.under_way + rank.handicap, tally.weight, tally.sequence};
}

/// The one local NI over which a peer with one NI is reached; null if there is a choice, or no way. `dst`: the peer;
/// `net`: the local net of its NI. Either may be absent.
[[nodiscard]] inline const NiView* sole_ni(const LocalView& local, const NetView* net, const PeerRef& dst) {
  const bool sole = net != nullptr && net->count == 1 && net->usable && dst && dst.peer->nis.size() == 1;
  return sole && dst.ni().slice != nullptr ? &local.nis[net->first] : nullptr;
}

/// Of the best NI of a net that has a link; 0 if none has one.
[[nodiscard]] inline uint16_t local_net_health(const LocalView& local, const NetView& net) {
  uint16_t health = 0;
  for (uint32_t i = net.first; i < net.first + net.count; ++i)
    if (const NiView& ni = local.nis[i]; !ni.fatal && !ni.going()) health = std::max(health, ni.health);
  return health;
}

/// Has an NI of this net a link? The NI of a gateway is chosen before the local NI. So where gateways are on several
/// nets, the links decide between the nets in the first of these choices.
[[nodiscard]] inline bool has_link(const LocalView& local, Net net) {
  const NetView* view = local.net(net);
  if (view == nullptr) return false;
  const auto first = local.nis.begin() + view->first;
  return std::any_of(first, first + view->count, [](const NiView& one) { return !one.fatal && !one.going(); });
}

/// Index of the best of interfaces that differ in nothing but their tallies. The best has the fewest messages. Of
/// equals, the one that was chosen longest ago is the best, then the first in the order of Turns.
/// `tallies`: side by side. `bits`: bit i is set if interface i is a candidate; at least one is. More than 64
/// interfaces are all candidates.
[[nodiscard]] inline uint32_t least_used(const Tally* tallies, uint32_t count, WorkerId worker, uint64_t bits) {
  const uint32_t begin = Turns(worker, count).index();
  const bool all = count > 64 || bits == UINT64_MAX;
  uint32_t best = UINT32_MAX, best_used = UINT32_MAX;
  int64_t best_sequence = INT64_MAX;
  const auto walk = [&](uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i) {
      if (!all && (bits >> i & 1) == 0) continue;
      const uint32_t used = tallies[i].under_way();
      if (used > best_used) continue;
      const int64_t sequence = tallies[i].sequence();
      if (used == best_used && sequence >= best_sequence) continue;
      best = i;
      best_used = used;
      best_sequence = sequence;
    }
  };
  walk(begin, count);
  walk(0, begin);
  return best;
}

}  // namespace ulnet
