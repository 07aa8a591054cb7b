#include "dataplane/stages/silence.h"

#include <algorithm>
#include <array>

#include "dataplane/stages/post.h"
#include "dataplane/stages/under_way.h"

namespace ulnet {
namespace {

struct SilentPair {
  NiId ni;
  PeerNiId peer_ni;
  Duration waited;
};

/// The pairs of one look.
struct SilentPairs {
  std::array<SilentPair, kSilentPairsMax> pairs;
  size_t count = 0;
  /// False: there is no room.
  bool add(const Tx& tx, Duration waited) {
    const auto end = pairs.begin() + std::ptrdiff_t(count);
    const auto same = std::find_if(pairs.begin(), end,
                                   [&](const SilentPair& one) { return one.ni == tx.ni && one.peer_ni == tx.peer_ni; });
    if (same == end && count == pairs.size()) return false;
    if (same == end)
      pairs[count++] = {tx.ni, tx.peer_ni, waited};
    else
      same->waited = std::max(same->waited, waited);
    return true;
  }
};

bool waits(const Operation& op) {
  return op.state == OperationState::kSending || op.state == OperationState::kAwaiting;
}

}  // namespace

unsigned silence_look(Worker& w) {
  if (!w.view->node.fast_detection || w.deadlines.armed() == 0 || w.now < w.silence_look_at) return 0;
  w.silence_look_at = w.now + kSilenceLook;
  SilentPairs silent;
  uint32_t number = 0, first_left = 0;
  w.deadlines.for_each([&](Operation& op) {
    if (number++ < w.silence_first || !waits(op)) return;
    const Duration waited = under_way_age(w, op);
    if (waited >= kSilenceMin && !silent.add(op.tx, waited) && first_left == 0) first_left = number - 1;
  });
  w.silence_first = first_left;  // without room: the next look begins there, else with all
  unsigned told = 0;
  for (size_t i = 0; i < silent.count; ++i)  // a later look takes those for which the ring has no room
    told += post_control_if_room(w, SilentMsg{silent.pairs[i].ni, silent.pairs[i].peer_ni, silent.pairs[i].waited});
  return told;
}

Instant silence_due(const Worker& w) {
  return w.view_fast && w.deadlines.armed() > 0 ? w.silence_look_at : kForever;
}

}  // namespace ulnet
