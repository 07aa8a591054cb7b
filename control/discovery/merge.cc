#include "control/discovery/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

std::vector<PeerNi*> all_nis(const Peer& peer) {
  std::vector<PeerNi*> all;
  for (const PeerNet& net : peer.nets) all.insert(all.end(), net.nis.begin(), net.nis.end());
  return all;
}

bool names(const wire::PingInfo& info, const Nid& nid) {
  return std::any_of(info.nis.begin(), info.nis.end(), [&](const wire::PingNi& one) { return one.nid == nid; });
}

// docs/wire/lnet.md §5.6. A message from the NI shows that the NI is up, whatever its node reported before.
void set_status(const MergeDeps& deps, PeerNi& ni, wire::NiStatus status) {
  if (status != wire::kNiUp && status != wire::kNiDown) return;
  const bool was_down = ni.said_down();
  const bool news = status == wire::kNiDown ? !was_down : ni.status != wire::kNiUp;
  ni.status = status;
  ni.heard_ns = ni.last_heard_ns();
  const bool never_heard = status == wire::kNiUp && ni.heard_ns == 0 && !ni.health.whole();
  if (!news && !never_heard) return;
  deps.said(ni, status == wire::kNiUp);
  deps.peers.touch(*ni.peer);
}

enum Difference : uint32_t { kMore = 1, kLess, kOtherPrimary, kClaimed, kOurs, kTaken };

/// Differences between a peer's list and this node's table, as they are logged: the first few, then the number of the
/// others. Nothing is logged if the differences are the same as last time: every push and check brings the same list.
class Differences {
 public:
  /// Calls `line` only for a difference that tell() may log.
  template <class F>
  void add(uint32_t kind, const Nid& nid, F&& line) {
    mark_ += (nid.hash() + kind) * 0x9E3779B97F4A7C15ull | 1;  // a sum: order does not count
    ++count_;
    if (lines_.size() < kDifferencesSaid) lines_.push_back(line());
  }
  /// Logs the differences, unless their mark is `seen`; afterwards `seen` is their mark.
  void tell(uint64_t& seen, const std::function<void(const std::string&)>& log, const std::string& peer) const {
    const bool news = mark_ != seen;
    seen = mark_;
    if (!news) return;
    for (const std::string& line : lines_) log(line);
    if (count_ > lines_.size())
      log("peer " + peer + ": and " + std::to_string(count_ - lines_.size()) + " more such differences");
  }

 private:
  uint64_t mark_ = 0;
  size_t count_ = 0;
  std::vector<std::string> lines_;
};

/// The state of one merge, which its steps share.
struct Merging {
  const MergeDeps& deps;
  Peer& peer;
  const uint32_t from;  ///< the peer whose NID sent `info`
  const wire::PingInfo& info;
  MergeResult result;
  Nid locked_nid = kAnyNid;                    ///< primary NID of a locked peer that this one absorbed
  std::unordered_set<Nid, NidHash> nids = {};  ///< all in `info`
  Differences differences = {};

  [[nodiscard]] bool listed(const Nid& nid) const { return nids.contains(nid); }

  /// Notes what the node reports about its NIs and its routing. `of`: `peer`, or another peer that has a NID of the
  /// node.
  void note_state(Peer& of) const {
    of.state &= ~uint32_t{kPeerRouterEnabled};
    if ((info.features & wire::kFeatureRteDisabled) == 0) of.state |= kPeerRouterEnabled;
    if (deps.peers.is_gateway(of)) {
      of.gateway.said = info.nis;
      deps.peers.touch(of);
    }
    for (const wire::PingNi& one : info.nis)
      if (PeerNi* ni = deps.peers.find(one.nid); ni != nullptr && ni->peer == &of)
        set_status(deps, *ni, wire::NiStatus(one.status));
  }

  /// Adds each difference between the table and the node's list. `mode`: why the table stays, the start of each line.
  void compare(const char* mode) {
    const std::string name = nid_text(peer.primary().nid);
    for (const wire::PingNi& one : info.nis) {
      const PeerNi* ni = deps.peers.find(one.nid);
      if (ni != nullptr && ni->peer == &peer) continue;
      differences.add(kMore, one.nid, [&] {
        const std::string owner = ni == nullptr ? std::string("no peer has it")
                                                : fmt::format("peer {} has it", nid_text(ni->peer->primary().nid));
        return fmt::format("{}: peer {} reports {}; {}", mode, name, nid_text(one.nid), owner);
      });
    }
    for (const PeerNi* ni : all_nis(peer))
      if (!listed(ni->nid))
        differences.add(kLess, ni->nid,
                        [&] { return fmt::format("{}: peer {} does not report {}", mode, name, nid_text(ni->nid)); });
    const Nid& primary = info.nis.front().nid;
    if (primary != peer.primary().nid && listed(peer.primary().nid))
      differences.add(kOtherPrimary, primary, [&] {
        return fmt::format("{}: peer {} reports the primary NID {}", mode, name, nid_text(primary));
      });
  }

  /// The configured NIDs stay: a NID that its node does not report is marked as down (docs/wire/lnet.md §5.5).
  void keep_configured() {
    compare("configured");
    for (PeerNi* ni : all_nis(peer))
      if (!listed(ni->nid)) set_status(deps, *ni, wire::kNiDown);
  }

  /// True if the peer is a gateway, answers over a net that it shares with this node, and itself reports the NID.
  [[nodiscard]] bool is_living_gateway_with(const Peer& other, const Nid& nid) const {
    if (!deps.peers.is_gateway(other)) return false;
    const auto& said = other.gateway.said;
    if (std::none_of(said.begin(), said.end(), [&](const wire::PingNi& one) { return one.nid == nid; })) return false;
    return std::any_of(other.nets.begin(), other.nets.end(),
                       [&](const PeerNet& net) { return deps.nis.net_local(net.net) && other.gateway.alive(net.net); });
  }

  /// True when this peer may have the NID (docs/decisions.md: two peers that claim one NID).
  bool claim(const Nid& nid) {
    const PeerNi* ni = deps.peers.find(nid);
    if (ni == nullptr || ni->peer == &peer) return true;
    Peer& other = *ni->peer;
    const auto refuse = [&](const char* why) {
      differences.add(kClaimed, nid, [&] {
        return fmt::format("peer {} reports {}, which stays with peer {}: {}", nid_text(peer.primary().nid),
                           nid_text(nid), nid_text(other.primary().nid), why);
      });
      return false;
    };
    if (other.configured()) {
      peer.discovery.held_back = true;
      return refuse("that peer is configured");
    }
    if (other.id != from && is_living_gateway_with(other, nid)) {
      peer.discovery.held_back = true;
      return refuse("a route leads through that peer, and it answers");
    }
    if (other.id != from && other.multi_rail()) {
      differences.add(kTaken, nid, [&] {
        return fmt::format("peer {} reports {}, which belonged to peer {}: the newest report counts",
                           nid_text(peer.primary().nid), nid_text(nid), nid_text(other.primary().nid));
      });
    }
    if (&other.primary() != ni) return true;
    if (other.has(kPeerLockPrimary) && other.ni_count() > 1) {
      peer.state |= kPeerBadConfig;
      other.state |= kPeerBadConfig;
      return refuse("its primary NID is locked");
    }
    if (other.has(kPeerLockPrimary) && !peer.has(kPeerLockPrimary)) locked_nid = nid;
    return true;
  }

  /// False for a locked primary NID, and for a NID that routes name as a gateway.
  [[nodiscard]] bool may_go(const PeerNi& ni) const {
    const bool locked = peer.has(kPeerLockPrimary) && &peer.primary() == &ni;
    return !locked && !deps.peers.is_gateway(ni.nid);
  }

  void add_listed() {
    peer.discovery.held_back = false;
    size_t most = kPeerNidsMax;  // plus the NIDs that leave only after the new ones have come
    for (const PeerNi* ni : all_nis(peer)) most += !listed(ni->nid) && may_go(*ni) ? 1 : 0;
    for (const wire::PingNi& one : info.nis) {
      const PeerNi* there = deps.peers.find(one.nid);
      if (there != nullptr && there->peer == &peer) continue;
      if (deps.nis.find(one.nid) != nullptr) {
        differences.add(kOurs, one.nid, [&] {
          return fmt::format("peer {} reports {}, which is a NID of this node", nid_text(peer.primary().nid),
                             nid_text(one.nid));
        });
        continue;
      }
      const auto on_net = [&](const PeerNet& net) { return net.net == one.nid.net(); };
      if (!peer.multi_rail() && std::any_of(peer.nets.begin(), peer.nets.end(), on_net)) continue;
      if (peer.ni_count() >= most || !claim(one.nid)) continue;
      auto taken = deps.peers.take_nid(peer, one.nid);
      if (!taken) {
        result.error = taken.error().code;
        return;
      }
      set_status(deps, **taken, wire::NiStatus(one.status));
    }
  }

  void remove_unlisted() const {
    for (PeerNi* ni : all_nis(peer)) {
      if (listed(ni->nid)) continue;
      peer.discovery.held_back |= deps.peers.is_gateway(ni->nid);
      if (!may_go(*ni) || peer.ni_count() == 1)
        set_status(deps, *ni, wire::kNiDown);
      else
        deps.peers.lose_nid(*ni);
    }
  }

  /// Adds new NIDs before it removes old ones: the list may replace all NIDs.
  void apply() {
    add_listed();
    if (result.error != 0) return;
    Nid primary = info.nis.front().nid;
    if (!locked_nid.is_any()) {
      primary = locked_nid;
      peer.state |= kPeerLockPrimary;
    }
    const PeerNi* first = deps.peers.find(primary);
    const bool keep = peer.has(kPeerLockPrimary) && locked_nid.is_any();
    if (first != nullptr && first->peer == &peer && !keep) deps.peers.set_primary(peer, primary);
    remove_unlisted();
    deps.peers.follow_nis(peer);
    deps.peers.touch(peer);
  }
};

/// The peer that `info` is about (docs/wire/lnet.md §5.5): its primary NID decides.
Peer& owner_of(const MergeDeps& deps, Peer& peer, const wire::PingInfo& info, MergeKind kind) {
  const Nid& primary = info.nis.front().nid;
  if (peer.primary().nid == primary || kind == MergeKind::kCompare) return peer;
  const bool status_only = kind == MergeKind::kStatusOnly || peer.has(kPeerNoDiscovery);
  if (status_only && names(info, peer.primary().nid)) return peer;
  const PeerNi* ni = deps.peers.find(primary);
  if (ni == nullptr || ni->peer == &peer || peer.configured()) return peer;
  Peer& other = *ni->peer;
  constexpr uint32_t kKnown = kPeerMultiRail | kPeerNoDiscovery;
  if (!other.configured()) {
    other.state = (other.state & ~kKnown) | (peer.state & kKnown);
    if (!other.multi_rail() && other.ni_count() > 1) other.state |= kPeerMarkDeletion;  // one peer per NID then
  }
  peer.discovery.held_back = other.configured();
  other.discovery.push_src = peer.discovery.push_src;
  other.discovery.push_dst = peer.discovery.push_dst;
  return other;
}

}  // namespace

bool may_be_overtaken(const Peer& peer, const wire::PingInfo& info) {
  const uint32_t known = peer.discovery.peer_seqno;
  const bool other_life = known != 0 && peer.life != 0 && wire::life_in(info.features) != peer.life;
  return other_life || info.sequence < known;
}

MergeResult merge_ping_info(const MergeDeps& deps, Peer& peer, const wire::PingInfo& info, MergeKind kind,
                            uint32_t sure) {
  if (info.nis.empty()) return {peer.id, 0};
  Peer& owner = owner_of(deps, peer, info, kind);
  const wire::PingInfo* waits = &owner != &peer ? owner.discovery.data.get() : nullptr;
  if (waits != nullptr && wire::life_in(waits->features) == wire::life_in(info.features) &&
      waits->sequence >= info.sequence)
    return {owner.id, 0};
  const uint32_t later = owner.discovery.peer_seqno;
  if (&owner != &peer && may_be_overtaken(owner, info) && later != sure) return {owner.id, 0, later};
  Merging merging{deps, owner, peer.id, info, {owner.id}, kAnyNid};
  for (const wire::PingNi& one : info.nis) merging.nids.insert(one.nid);
  merging.note_state(owner);
  // The peer that answered may be a gateway that keeps its NID, because another peer with the primary NID is
  // configured.
  if (&owner != &peer) merging.note_state(peer);
  if (kind == MergeKind::kStatusOnly || owner.has(kPeerNoDiscovery)) return merging.result;
  if (kind == MergeKind::kCompare)
    merging.compare("verify");
  else if (owner.configured())
    merging.keep_configured();
  else
    merging.apply();
  if (deps.peers.is_gateway(owner)) owner.gateway.said = info.nis;  // this merge may have made it a gateway
  merging.differences.tell(owner.discovery.differences, deps.log, nid_text(owner.primary().nid));
  return merging.result;
}

void peer_is_down(const MergeDeps& deps, Peer& peer, Net net) {
  for (PeerNi* ni : all_nis(peer))
    if (ni->nid.net() == net) set_status(deps, *ni, wire::kNiDown);
}

void peer_reduce(const MergeDeps& deps, Peer& peer, const Nid& nid) {
  const PeerNi* known = deps.peers.find(nid);
  const PeerNi* kept = known != nullptr && known->peer == &peer ? known : &peer.primary();
  for (PeerNi* ni : all_nis(peer))
    if (kept != ni) deps.peers.lose_nid(*ni);
  peer.state &= ~uint32_t{kPeerMultiRail};
  deps.peers.follow_nis(peer);
  deps.peers.touch(peer);
}

}  // namespace ulnet
