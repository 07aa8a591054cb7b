#include "control/discovery/ping_choice.h"

#include <algorithm>

namespace ulnet {

const std::vector<PeerNi*>& check_targets(const Peer& peer) {
  static const std::vector<PeerNi*> kNone;
  for (const PeerNet& net : peer.nets)
    if (net.net == peer.gateway.check_net) return net.nis;
  return kNone;
}

PingOp peer_ping(const Peer& peer) {
  PingOp op{.target = peer.primary().nid};
  if (peer.discovery.failures == 0 || peer.ni_count() == 1) return op;
  op.exactly = true;
  uint32_t index = (peer.discovery.failures - 1) % uint32_t(peer.ni_count());
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis)
      if (index-- == 0) op.target = ni->nid;
  return op;
}

PingOp check_ping(const Peer& peer, LocalNis& nis) {
  PingOp op{.target = peer.primary().nid, .check = true};
  const auto& theirs = check_targets(peer);
  std::vector<LocalNi*> ours = nis.on_net(peer.gateway.check_net);
  if (std::any_of(ours.begin(), ours.end(), [](const LocalNi* ni) { return !ni->fatal; }))
    std::erase_if(ours, [](const LocalNi* ni) { return ni->fatal; });
  if (theirs.empty() || ours.empty()) return op;
  op.target = theirs[peer.gateway.checks % theirs.size()]->nid;
  op.self = ours[peer.gateway.checks % ours.size()]->nid;
  return op;
}

}  // namespace ulnet
