// Part of PeerDb: which peers are forgotten, so that there is room for others. A forgotten peer is discovered again
// when this node meets it again.
// - Peers that are not configured and were not used for a while are forgotten when the bounds come near. First go
//   peers from addresses that brought many, then the longest unused.
// - A stranger is a peer whose NID is known only from its own HELLO on a connection. One address may bring only a share
//   of all peers. If a stranger never sent or received a message, it is forgotten with its last connection.
#include <algorithm>

#include "control/peers/peer_db.h"

namespace ulnet {
namespace {

/// Changes with every message from the peer's NIs, and with every message to them, also over routers.
uint64_t use_mark(const Peer& peer) {
  uint64_t mark = 0;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) {
      if (ni->blocks == nullptr) continue;
      mark = mark * 31 + uint64_t(ni->blocks->slice.last_alive_ns.get());
      for (const PeerLocal* local : ni->blocks->by_worker) mark = mark * 31 + uint64_t(local->tally->sequence());
    }
  return mark;
}

/// When the last message came from one of its NIs. `now` if none ever came: the peer may be in use over a router.
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

/// Peers of one address looked at for one that can make room.
constexpr unsigned kStrangersLook = 16;

bool never_used(const Peer& peer) {
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) {
      if (ni->blocks == nullptr) continue;
      if (ni->blocks->slice.last_alive_ns.get() != 0) return false;
      for (const PeerLocal* local : ni->blocks->by_worker)
        if (local->tally->sequence() != 0) return false;
    }
  return true;
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

size_t PeerDb::strangers_max() const {
  return std::max<size_t>(deps_.peers_max / kStrangersShare, kStrangersFree);
}

bool PeerDb::over_share(const Peer& peer) const {
  const auto found = peer.met_from.is_any() ? strangers_.end() : strangers_.find(peer.met_from);
  return found != strangers_.end() && found->second.size() > kStrangersFree;
}

bool PeerDb::stranger_room(const Nid& address) {
  const auto found = strangers_.find(address);
  if (found == strangers_.end() || found->second.size() < strangers_max()) return true;
  unsigned looked = 0;
  for (const uint32_t id : found->second) {
    Peer& peer = *find_peer(id);
    if (may_be_forgotten(peer)) {
      drop_peer(peer);
      return true;
    }
    if (++looked == kStrangersLook) break;
  }
  return false;
}

Result<PeerNi*> PeerDb::place_stranger(const Nid& nid, const Nid& via, const Stranger& stranger) {
  const bool fresh = find(nid) == nullptr;
  if (fresh && !stranger_room(stranger.address))
    return fail(ENOMEM, "one address has brought too many NIDs (ulnet.memory.peer_nis)");
  auto ni = place(nid, via, stranger.arrives_at);
  if (!ni) look_at_ = std::min(look_at_, looked_at_ + kPeerUnusedLookMin);
  if (!ni || !fresh) return ni;
  Peer& peer = *(*ni)->peer;
  peer.met_from = stranger.address;
  strangers_[stranger.address].insert(peer.id);
  return ni;
}

void PeerDb::forget_stranger(const Peer& peer) {
  const auto found = strangers_.find(peer.met_from);
  if (found == strangers_.end()) return;
  found->second.erase(peer.id);
  if (found->second.empty()) strangers_.erase(found);
}

unsigned PeerDb::forget_left() {
  unsigned done = 0;
  for (; done < kPeerEndsBudget && !left_.empty(); ++done) {
    const PeerNi* ni = find(left_.back());
    left_.pop_back();
    if (ni == nullptr || ni->peer == nullptr || ni->peer->met_from.is_any()) continue;
    if (never_used(*ni->peer) && may_be_forgotten(*ni->peer)) drop_peer(*ni->peer);
  }
  if (left_.empty()) left_timer_.stop();
  return done;
}

}  // namespace ulnet
