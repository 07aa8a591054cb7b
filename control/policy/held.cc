// Part of PeerDb: peer NIs that workers do not see yet, because policies have not given results to them. Thread:
// control.
#include <algorithm>

#include "control/peers/peer_db.h"

namespace ulnet {
namespace {

size_t with_results(const Peer& peer) {
  size_t count = 0;
  for (const PeerNet& net : peer.nets)
    count +=
        size_t(std::count_if(net.nis.begin(), net.nis.end(), [](const PeerNi* ni) { return ni->policy_seen != 0; }));
  return count;
}

}  // namespace

bool PeerDb::held(const PeerNi& ni) const {
  if (!deps_.evaluate || ni.peer->never_held) return false;
  return ni.policy_seen == 0 || ni.peer->primary().policy_seen == 0;
}

// An NI that is held may still lead to a view of its former peer, which may name NIs whose memory is given back.
void PeerDb::renew_view(Peer& peer, PeerTableBuilder& table) {
  peer.never_held = is_gateway(peer);
  const auto view = view_of(peer);
  for (uint32_t i = 0; i < view->nis.size(); ++i) table.set(view->nis[i].nid, view, i);
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis)
      if (held(*ni)) table.erase(ni->nid);
}

/// Goes on with peers that wait for results; returns how many have got some.
unsigned PeerDb::flush_waiting(PeerTableBuilder& table) {
  unsigned renewed = 0, over = 0;
  for (uint32_t id : waiting_) {
    Peer& peer = *peers_.at(id);
    const size_t before = with_results(peer);
    const bool done = deps_.evaluate(peer);
    if (done || with_results(peer) != before) {
      renew_view(peer, table);
      ++renewed;
    }
    if (!done) break;
    ++over;
  }
  for (unsigned i = 0; i < over; ++i) peers_.at(waiting_[i])->waits = false;
  waiting_.erase(waiting_.begin(), waiting_.begin() + over);
  return renewed;
}

}  // namespace ulnet
