// Room for new peers: when the bounds come near, peers are forgotten that nobody configured and nobody has used for a
// while: first those of addresses that brought many (strangers.cc), then the longest unused. Met again, such a peer is
// discovered again.
#include <algorithm>

#include "control/peers/peer_db.h"

namespace ulnet {
namespace {

/// Changes with every message from the peer's NIs, and with every one that is sent to them, over routers, too.
uint64_t use_mark(const Peer& peer) {
  uint64_t mark = 0;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) {
      if (ni->blocks == nullptr) continue;
      mark = mark * 31 + uint64_t(ni->blocks->slice.last_alive_ns.get());
      for (const PeerLocal* local : ni->blocks->by_worker) mark = mark * 31 + uint64_t(local->sequence.get());
    }
  return mark;
}

/// When one of its NIs was last heard of; `now` when none ever was: it may be sent to over a router.
Instant last_heard(const Peer& peer, Instant now) {
  int64_t last = 0;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis)
      if (ni->blocks != nullptr) last = std::max(last, ni->blocks->slice.last_alive_ns.get());
  return last == 0 ? now : Instant{Duration{last}};
}

size_t beyond(size_t count, size_t bound) {
  return count > bound ? count - bound : 0;
}

}  // namespace

bool PeerDb::crowded() const {
  return ends_.working() && (by_id_.size() > deps_.peers_max / 4 * 3 || nis_.size() > names_max() / 4 * 3);
}

bool PeerDb::may_be_forgotten(const Peer& peer) const {
  constexpr uint32_t kStays = kPeerConfigured | kPeerLockPrimary | kPeerDiscovering;
  if (peer.has(kStays) || is_gateway(peer) || peer.discovery.ping != 0 || peer.discovery.push != 0) return false;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis)
      if (is_gateway(ni->nid) || (ni->blocks != nullptr && ends_.named(ni->blocks->slice))) return false;
  return true;
}

unsigned PeerDb::forget_unused(Instant now) {
  if (!crowded() || now < look_at_) return 0;
  looked_at_ = now;
  look_at_ = now + kPeerUnusedLook;
  std::vector<Peer*> unused;
  for (auto& [id, peer] : peers_) {
    const uint64_t mark = use_mark(*peer);
    if (peer->used_at == kNever) {
      peer->used_at = last_heard(*peer, now);
    } else if (mark != peer->use_mark) {
      peer->used_at = now;
    }
    peer->use_mark = mark;
    const Duration unused_min = over_share(*peer) ? kPeerUnusedLook : kPeerUnusedMin;
    if (now - peer->used_at >= unused_min && may_be_forgotten(*peer)) unused.push_back(peer.get());
  }
  std::stable_sort(unused.begin(), unused.end(), [this](const Peer* a, const Peer* b) {
    const bool a_first = over_share(*a), b_first = over_share(*b);
    return a_first != b_first ? a_first : a->used_at < b->used_at;
  });
  size_t memory = beyond(by_id_.size(), ends_.size() + deps_.peers_max / 2),
         names = beyond(nis_.size(), names_max() / 2);
  unsigned forgotten = 0;
  for (Peer* peer : unused) {
    if (memory == 0 && names == 0) break;
    for (const PeerNet& net : peer->nets) {
      for (const PeerNi* ni : net.nis) memory = beyond(memory, ni->blocks == nullptr ? 0 : 1);
      names = beyond(names, net.nis.size());
    }
    drop_peer(*peer);
    ++forgotten;
  }
  return forgotten;
}

}  // namespace ulnet
