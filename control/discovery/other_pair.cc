#include "control/discovery/other_pair.h"

#include <algorithm>
#include <vector>

namespace ulnet {
namespace {

struct Pair {
  const LocalNi* ni;
  const PeerNi* to;
};

/// By the health of both, in steps, so that pairs of equal steps keep their order.
int grade(const Pair& pair) {
  const bool up = !pair.ni->fatal && !pair.to->said_down();
  return up ? std::min<int>(pair.ni->health.value(), pair.to->health.value()) : -1;
}

}  // namespace

bool other_pair(LocalNis& nis, PeerDb& peers, PingOp& op, unsigned number) {
  const PeerNi* target = peers.find(op.target);
  if (target == nullptr || !target->peer->multi_rail()) return false;
  std::vector<Pair> pairs;
  // The n-th NI of the peer with the n-th NI of this node, then each with the next one, and so on.
  for (size_t round = 0, fresh = 1; fresh > 0 && round < kNisMax; ++round) {
    fresh = 0;
    size_t place = round;
    for (const PeerNet& net : target->peer->nets) {
      const auto ours = nis.on_net(net.net);
      for (const PeerNi* one : net.nis) {
        if (round < ours.size()) {
          pairs.push_back({ours[place % ours.size()], one});
          ++fresh;
        }
        ++place;
      }
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return grade(a) > grade(b); });
  if (number >= pairs.size()) return false;
  op.self = pairs[number].ni->nid;
  op.target = pairs[number].to->nid;
  return true;
}

}  // namespace ulnet
