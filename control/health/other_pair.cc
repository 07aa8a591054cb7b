#include "control/health/other_pair.h"

#include <algorithm>
#include <vector>

namespace ulnet {
namespace {

/// Pairs that are looked at: far more than PingOps tries.
constexpr size_t kPairsMax = 64;

struct Pair {
  const LocalNi* ni;
  const PeerNi* to;
};

int grade(const LocalNi& ni) {
  return ni.fatal ? -1 : ni.health.value();
}
int grade(const PeerNi& ni) {
  return ni.known_down() ? -1 : ni.health.value();
}
/// By the health of both, in steps, so that pairs of equal steps keep their order.
int grade(const Pair& pair) {
  return std::min(grade(*pair.ni), grade(*pair.to));
}

/// The NIs that are well first; the others keep their order.
template <class Ni>
void sort_by_grade(std::vector<Ni*>& nis) {
  std::stable_sort(nis.begin(), nis.end(), [](const Ni* a, const Ni* b) { return grade(*a) > grade(*b); });
}

/// A net of the peer, with the NIs of both sides.
struct Shared {
  std::vector<const LocalNi*> ours;
  std::vector<const PeerNi*> theirs;
};

std::vector<Shared> shared_nets(LocalNis& nis, const Peer& peer) {
  std::vector<Shared> nets;
  for (const PeerNet& net : peer.nets) {
    const auto ours = nis.on_net(net.net);
    if (ours.empty()) continue;
    Shared& shared = nets.emplace_back();
    shared.ours.assign(ours.begin(), ours.end());
    shared.theirs.assign(net.nis.begin(), net.nis.end());
    sort_by_grade(shared.ours);
    sort_by_grade(shared.theirs);
  }
  return nets;
}

/// The n-th NI of the peer with the n-th NI of this node, then each with the next one, and so on.
std::vector<Pair> pairs_of(const std::vector<Shared>& nets) {
  std::vector<Pair> pairs;
  for (size_t round = 0, fresh = 1; fresh > 0; ++round) {
    fresh = 0;
    for (const Shared& net : nets) {
      if (round >= net.ours.size()) continue;
      for (size_t i = 0; i < net.theirs.size(); ++i, ++fresh) {
        if (pairs.size() == kPairsMax) return pairs;
        pairs.push_back({net.ours[(round + i) % net.ours.size()], net.theirs[i]});
      }
    }
  }
  return pairs;
}

}  // namespace

bool other_pair(LocalNis& nis, PeerDb& peers, PingOp& op, unsigned number) {
  const PeerNi* target = peers.find(op.target);
  if (target == nullptr || target->peer == nullptr || !target->peer->multi_rail()) return false;
  auto pairs = pairs_of(shared_nets(nis, *target->peer));
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return grade(a) > grade(b); });
  if (number >= pairs.size()) return false;
  op.self = pairs[number].ni->nid;
  op.target = pairs[number].to->nid;
  return true;
}

}  // namespace ulnet
