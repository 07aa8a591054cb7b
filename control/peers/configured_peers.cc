// Part of PeerDb: peers that an operator adds, refreshes and deletes, and how such a change is undone.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "control/peers/peer_db.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {

// Compares the configured peer with the peers that have its NIDs now.
config::Checked<void> PeerDb::may_add(const config::PeerConfig& config, const std::vector<Nid>& nids,
                                      const Peer* target) {
  if (target != nullptr && target->primary().nid != config.primary) {
    return config::fail(EEXIST, fmt::format("failed to add primary peer: {} belongs to peer {}",
                                            nid_text(config.primary), nid_text(target->primary().nid)));
  }
  for (const Nid& nid : nids) {
    if (deps_.nis.find(nid) != nullptr) {
      return config::fail(EINVAL, fmt::format("failed to add {}peer: {} is a NID of this node",
                                              nid == config.primary ? "primary " : "", nid_text(nid)));
    }
    const PeerNi* ni = find(nid);
    if (ni != nullptr && ni->peer->configured() && ni->peer != target) {
      return config::fail(EEXIST, fmt::format("failed to add peer: {} belongs to peer {}", nid_text(nid),
                                              nid_text(ni->peer->primary().nid)));
    }
  }
  return {};
}

config::Checked<Peer*> PeerDb::add(const config::PeerConfig& config, bool refresh) {
  PeerNi* primary = find(config.primary);
  Peer* target = primary != nullptr && primary->peer->configured() ? primary->peer : nullptr;
  std::vector<Nid> nids{config.primary};
  std::unordered_set<Nid, NidHash> listed{config.primary};
  for (const Nid& nid : config.nids)
    if (listed.insert(nid).second) nids.push_back(nid);
  if (auto may = may_add(config, nids, target); !may) return tl::unexpected(may.error());
  size_t count = nids.size();
  if (target != nullptr && !refresh)
    for (const PeerNet& net : target->nets)
      for (const PeerNi* ni : net.nis) count += listed.contains(ni->nid) ? 0 : 1;
  if (count > kPeerNidsMax)
    return config::fail(ENOSPC, fmt::format("failed to add peer: {} NIDs; a peer has at most {}", count, kPeerNidsMax));
  std::vector<PeerNi*> nis;
  for (const Nid& nid : nids) {
    auto ni = make_ni(nid, choose_source(nid.net()));
    if (!ni) {
      for (const PeerNi* made : nis)
        if (made->peer == nullptr) gone_.push_back(made->nid);
      return config::fail(ni.error().code, std::string("failed to add peer: ") + ni.error().what);
    }
    nis.push_back(*ni);
  }
  for (PeerNi* ni : nis) {
    if (target != nullptr && ni->peer == target) continue;
    if (ni->peer != nullptr) take_from_owner(*ni);  // a peer that is not configured gives way
    ni->source = kAnyNid;
    target = &attach(target, *ni);
  }
  if (refresh) {
    std::vector<PeerNi*> gone;
    for (PeerNet& net : target->nets)
      for (PeerNi* ni : net.nis)
        if (!listed.contains(ni->nid)) gone.push_back(ni);
    for (PeerNi* ni : gone) release(*ni);
    if (!gone.empty()) configuration_freed();
  }
  target->state |= kPeerConfigured;
  if (config.multi_rail)
    target->state |= kPeerMultiRail;
  else
    target->state &= ~uint32_t{kPeerMultiRail};
  if (config.lock_primary) target->state |= kPeerLockPrimary;
  follow_nis(*target);
  reconfigured(*target);
  return target;
}

config::Checked<void> PeerDb::remove(const Nid& primary, const std::vector<Nid>& nids, bool force) {
  PeerNi* ni = find(primary);
  if (ni == nullptr)
    return config::fail(ENOENT, fmt::format("failed to del primary peer: there is no peer {}", nid_text(primary)));
  Peer& peer = *ni->peer;
  if (&peer.primary() != ni) {
    return config::fail(ENOENT, fmt::format("failed to del primary peer: {} is a NID of peer {}, not its primary NID",
                                            nid_text(primary), nid_text(peer.primary().nid)));
  }
  if (nids.empty() || std::find(nids.begin(), nids.end(), primary) != nids.end()) {
    if (is_gateway(peer))
      return config::fail(EBUSY, "failed to del primary peer: it is a gateway; delete its routes first");
    if ((peer.state & kPeerLockPrimary) != 0 && !force) {
      return config::fail(EPERM,
                          fmt::format("failed to del primary peer: {} is locked; use --force", nid_text(primary)));
    }
    drop_peer(peer);
    configuration_freed();
    return {};
  }
  for (const Nid& nid : nids) {
    const PeerNi* one = find(nid);
    if (one == nullptr || one->peer != &peer) {
      return config::fail(ENOENT,
                          fmt::format("failed to del peer: {} is not a NID of {}", nid_text(nid), nid_text(primary)));
    }
    if (is_gateway(nid)) {
      return config::fail(EBUSY,
                          fmt::format("failed to del peer: {} is a gateway; delete its routes first", nid_text(nid)));
    }
  }
  for (const Nid& nid : nids)
    if (PeerNi* one = find(nid)) detach(*one);
  reconfigured(peer);
  configuration_freed();
  return {};
}

std::vector<PeerMemo> PeerDb::remember(const std::vector<Nid>& nids) {
  std::vector<PeerMemo> memos;
  std::unordered_set<uint32_t> seen;
  for (const Nid& nid : nids) {
    const PeerNi* known = find(nid);
    if (known == nullptr || !seen.insert(known->peer->id).second) continue;
    const Peer& peer = *known->peer;
    const PeerDiscovery& d = peer.discovery;
    PeerMemo& memo = memos.emplace_back();
    for (const PeerNet& net : peer.nets)
      for (const PeerNi* ni : net.nis) memo.nis.push_back({ni->nid, ni->health, ni->source, ni->status, ni->heard_ns});
    memo.state = peer.state & ~kPeerBusy;
    if (peer.has(kPeerBusy)) memo.state &= ~uint32_t{kPeerNidsUptodate};  // its discovery begins again
    memo.node_seqno = d.node_seqno;
    memo.peer_seqno = d.peer_seqno;
    memo.sink_bytes = d.sink_bytes;
    memo.told_via = d.told_via;
    memo.heard_from = d.heard_from;
    memo.gateway = peer.gateway;
    memo.up_to_date = peer.up_to_date && !peer.has(kPeerBusy);
  }
  return memos;
}

void PeerDb::restore(const PeerMemo& memo) {
  std::vector<std::pair<PeerNi*, const PeerMemo::Ni*>> nis;
  for (const PeerMemo::Ni& one : memo.nis) {
    auto ni = make_ni(one.nid, choose_source(one.nid.net()));
    if (!ni || ((*ni)->peer != nullptr && (*ni)->peer->configured())) continue;
    nis.emplace_back(*ni, &one);
  }
  if (nis.empty()) return;
  Peer* made = nullptr;
  for (const auto& [ni, was] : nis) {
    if (ni->peer != nullptr) take_from_owner(*ni);
    made = &attach(made, *ni);
    ni->health = was->health;
    ni->source = was->source;
    ni->status = was->status;
    ni->heard_ns = was->heard_ns;
  }
  Peer& peer = *made;
  peer.state = memo.state;
  PeerDiscovery& d = peer.discovery;
  d.node_seqno = memo.node_seqno;
  d.peer_seqno = memo.peer_seqno;
  d.sink_bytes = memo.sink_bytes;
  d.told_via = memo.told_via;
  d.heard_from = memo.heard_from;
  peer.gateway = memo.gateway;
  peer.up_to_date = memo.up_to_date;
  follow_nis(peer);
}

}  // namespace ulnet
