#include "dataplane/state/requests_seen.h"

#include <algorithm>
#include <bit>

namespace ulnet {
namespace {

uint32_t sets_for(uint32_t requests, unsigned ways) {
  return std::bit_ceil(std::max(requests / ways, 1u));
}

}  // namespace

RequestsSeen::RequestsSeen(uint32_t requests, WorkerMemory* memory)
    : mask_(sets_for(requests, kWays) - 1), sets_(size_t{mask_} + 1, memory) {}

bool RequestsSeen::perhaps_lost(const Set& set, uint32_t now_s) {
  const bool room =
      std::any_of(std::begin(set.ways), std::end(set.ways), [now_s](const Entry& one) { return !one.kept(now_s); });
  return !room || (set.lost_s != 0 && young(set.lost_s, now_s));
}

unsigned RequestsSeen::make_room(Set& set, uint32_t now_s) {
  unsigned best = kWays;
  uint32_t best_worth = 0;
  for (unsigned way = 0; way < kWays; ++way) {
    const Entry& one = set.ways[way];
    // Free or old ones first, then the oldest.
    const bool held = one.holds(now_s);
    const uint32_t worth = !held ? UINT32_MAX : one.kept(now_s) ? 0 : 1 + (now_s - one.seen_s);
    if (worth <= best_worth) continue;
    best_worth = worth;
    best = way;
  }
  if (best_worth != UINT32_MAX) set.lost_s = now_s;
  if (best < kWays) set.ways[best] = {};
  return best;
}

void RequestsSeen::forget(uint32_t place, const wire::WireHandle& handle) {
  if (Entry* one = at(place, handle)) one->order = kIsLost;
}

}  // namespace ulnet
