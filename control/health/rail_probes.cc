#include "control/health/rail_probes.h"

#include <algorithm>
#include <utility>

namespace ulnet {
namespace {

constexpr const char* kReason = "it does not answer a probe while others answer";
/// A peer NI that was heard so lately is there.
constexpr Duration kWitnessHeard = 10s;

bool heard_since(const PeerNi& ni, Instant since) {
  return ni.last_heard_ns() > since.time_since_epoch().count();
}

/// Calls `visit` for each peer NI that could have carried the messages instead, until it returns true. These are the
/// other NIs of the peer, and of a gateway also the NIs of other gateways.
template <class Visit>
bool any_other(PeerDb& peers, const PeerNi& silent, const std::function<bool(const Peer&)>& gateway, Visit&& visit) {
  const auto of_peer = [&](const Peer& peer) {
    for (const PeerNet& net : peer.nets)
      for (const PeerNi* one : net.nis)
        if (one != &silent && one->blocks != nullptr && visit(*one)) return true;
    return false;
  };
  if (of_peer(*silent.peer)) return true;
  if (!gateway(*silent.peer)) return false;
  for (const auto& [id, peer] : peers.peers())
    if (peer.get() != silent.peer && gateway(*peer) && of_peer(*peer)) return true;
  return false;
}

}  // namespace

RailProbes::Probed* RailProbes::may_probe(const Pair& pair, Instant now) {
  if (probed_.size() >= kProbedPairsMax && !probed_.contains(pair)) {
    forget_old(now);
    if (probed_.size() >= kProbedPairsMax) return nullptr;
  }
  Probed& probed = probed_[pair];
  if (probed.under_way || now < probed.sent + probed.gap) return nullptr;
  return &probed;
}

void RailProbes::silent(const SilentMsg& msg, Instant now) {
  now_ = now;
  const LocalNi* ni = deps_.nis.find(msg.ni);
  const PeerNi* to = deps_.peers.find(msg.peer_ni);
  if (ni == nullptr || ni->going() || ni->fatal || to == nullptr || to->peer == nullptr) return;
  if (ni->health.value() == 0 || to->health.value() == 0) return;  // out of service already
  const Pair pair{msg.ni, msg.peer_ni};
  const auto known = probed_.find(pair);
  if (known != probed_.end() && now - known->second.said > kProbeGapMax) known->second.gap = kProbeGap;
  Probed* probed = may_probe(pair, now);
  if (known != probed_.end()) known->second.said = now;
  if (probed == nullptr) return;
  probed->said = now;
  probe(pair, *probed, *ni, *to, now);
  probe_others(*ni, *to, now);
}

void RailProbes::probe(const Pair& pair, Probed& probed, const LocalNi& ni, const PeerNi& to, Instant now) {
  probed.under_way = true;
  probed.asked = false;
  probed.sent = now;
  probed.ni_received = ni.counted(NiTraffic::kReceived);
  ++sent_;
  PingOp op{.self = ni.nid, .target = to.nid, .recovery = true, .sink_bytes = kPingBufferMin};
  op.timeout = kProbeTimeout;
  deps_.ask_moved(ni, to);  // the driver compares its next look with this one
  probed.witness = false;
  pings_.start(std::move(op), [this, pair](const PingEnd& end) { ended(pair, end.error); });
}

/// An NI of this node on the net, not `than`, that may carry messages. Null: there is none.
const LocalNi* RailProbes::other_ni(Net net, const LocalNi& than) const {
  for (const LocalNi* each : deps_.nis.on_net(net))
    if (each != &than && !each->fatal && each->health.value() > 0) return each;
  return nullptr;
}

void RailProbes::probe_if_due(const LocalNi* ni, const PeerNi* to, Instant now) {
  if (ni == nullptr || to == nullptr) return;
  const Pair pair{ni->id, to->id};
  if (Probed* probed = may_probe(pair, now)) probe(pair, *probed, *ni, *to, now);
}

/// The silent NIs with others, as far as there are any: the answers show which side is at fault, and that others answer
/// at all.
void RailProbes::probe_others(const LocalNi& ni, const PeerNi& silent, Instant now) {
  const PeerNi* near = nullptr;   // on the same net
  const PeerNi* other = nullptr;  // anywhere
  (void)any_other(deps_.peers, silent, deps_.gateway, [&](const PeerNi& one) {
    if (one.health.value() == 0 || one.known_down() || deps_.nis.on_net(one.nid.net()).empty()) return false;
    if (other == nullptr) other = &one;
    if (near == nullptr && one.nid.net() == silent.nid.net()) near = &one;
    return near != nullptr;
  });
  probe_if_due(other_ni(silent.nid.net(), ni), &silent, now);
  probe_if_due(&ni, near, now);
  if (near != nullptr) other = near;
  if (other != nullptr) probe_if_due(other_ni(other->nid.net(), ni), other, now);
}

// A probe that fails at once says nothing of its pair: the failure itself is charged.
void RailProbes::ended(const Pair& pair, int32_t error) {
  const auto found = probed_.find(pair);
  if (found == probed_.end()) return;
  Probed& probed = found->second;
  probed.under_way = false;
  probed.gap = error == 0 ? std::min<Duration>(2 * probed.gap, kProbeGapMax) : kProbeGap;
  const LocalNi* ni = deps_.nis.find(pair.first);
  const PeerNi* to = deps_.peers.find(pair.second);
  if (error == 0 || ni == nullptr || to == nullptr || to->peer == nullptr) return;
  if (error != -ETIMEDOUT || now_ < probed.sent + kProbeTimeout) return;
  probed.asked = true;
  deps_.ask_moved(*ni, *to);
}

void RailProbes::moved(const MovedMsg& msg, Instant now) {
  now_ = now;
  const Pair pair{msg.ni, msg.peer_ni};
  const auto found = probed_.find(pair);
  if (found == probed_.end() || !std::exchange(found->second.asked, false)) return;
  Probed& probed = found->second;
  const Instant half = probed.sent + kProbeTimeout / 2;  // the first look was a moment after `sent`
  if (msg.moved_ns > half.time_since_epoch().count())
    probed.gap = std::min<Duration>(4 * probed.gap, kProbeGapMax);  // slow, or the node at the other end is
  else
    judge(pair, probed);
}

bool RailProbes::others_heard(const PeerNi& silent, Instant since) const {
  return any_other(deps_.peers, silent, deps_.gateway, [&](const PeerNi& one) { return heard_since(one, since); });
}

/// Of other peers on the net, the NI that was heard last, if that is not long ago: it shows if `ni` works.
const PeerNi* RailProbes::witness_of(const LocalNi& ni, const Peer& silent) const {
  const PeerNi* best = nullptr;
  for (const auto& [id, peer] : deps_.peers.peers()) {
    if (peer.get() == &silent) continue;
    for (const PeerNet& net : peer->nets) {
      if (net.net != ni.net) continue;
      for (const PeerNi* one : net.nis)
        if (one->health.value() > 0 && (best == nullptr || one->last_heard_ns() > best->last_heard_ns())) best = one;
    }
  }
  return best != nullptr && heard_since(*best, now_ - kWitnessHeard) ? best : nullptr;
}

/// The NI of this node is at fault only if it has no witness, or the witness does not answer over it either.
void RailProbes::judge_ni(LocalNi& ni, const PeerNi& to) {
  const PeerNi* witness = witness_of(ni, *to.peer);
  if (witness == nullptr) return deps_.health.silent(ni, kReason, now_);
  const Pair pair{ni.id, witness->id};
  Probed* probed = may_probe(pair, now_);
  if (probed == nullptr) return;
  probe(pair, *probed, ni, *witness, now_);
  probed->witness = true;
}

void RailProbes::judge(const Pair& pair, const Probed& probed) {
  LocalNi* ni = deps_.nis.find(pair.first);
  PeerNi* to = deps_.peers.find(pair.second);
  if (ni == nullptr || ni->going() || ni->fatal || to == nullptr || to->peer == nullptr) return;
  const bool came_to_ni = ni->counted(NiTraffic::kReceived) != probed.ni_received;
  const bool came_from_peer = heard_since(*to, probed.sent);
  const bool others = others_heard(*to, probed.sent);
  if (came_from_peer && came_to_ni) return;  // the pair alone: its messages end by their deadlines
  if (!came_to_ni && (came_from_peer || probed.witness)) return deps_.health.silent(*ni, kReason, now_);
  if (!others) return;
  if (!came_to_ni && deps_.nis.all().size() > 1) judge_ni(*ni, *to);
  deps_.health.silent(*to, kReason, now_);
}

void RailProbes::forget_old(Instant now) {
  std::erase_if(probed_, [&](const auto& one) {
    return !one.second.under_way && now - std::max(one.second.said, one.second.sent) > kProbeKept;
  });
}

unsigned RailProbes::turn(Instant now) {
  now_ = now;
  const unsigned done = pings_.turn(now);
  if (done > 0) forget_old(now);
  return done;
}

}  // namespace ulnet
