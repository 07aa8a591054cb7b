// Peers of whose NID there is only their own word, said in the HELLO of a connection. One address may bring only a
// share of all peers, and a peer that neither sent anything nor was sent to is forgotten with its last connection.
#include <algorithm>

#include "control/peers/peer_db.h"

namespace ulnet {
namespace {

/// Peers of one address looked at for one that can make room.
constexpr unsigned kStrangersLook = 16;

bool never_used(const Peer& peer) {
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) {
      if (ni->blocks == nullptr) continue;
      if (ni->blocks->slice.last_alive_ns.get() != 0) return false;
      for (const PeerLocal* local : ni->blocks->by_worker)
        if (local->sequence.get() != 0) return false;
    }
  return true;
}

}  // namespace

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

Result<PeerNi*> PeerDb::place_stranger(const Nid& nid, const Nid& via, const Nid& address) {
  const bool fresh = find(nid) == nullptr;
  if (fresh && !stranger_room(address))
    return fail(ENOMEM, "one address has brought too many NIDs (ulnet.memory.peer_nis)");
  auto ni = place(nid, via);
  if (!ni) look_at_ = std::min(look_at_, looked_at_ + kPeerUnusedLookMin);
  if (!ni || !fresh) return ni;
  Peer& peer = *(*ni)->peer;
  peer.met_from = address;
  strangers_[address].insert(peer.id);
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
  return done;
}

}  // namespace ulnet
