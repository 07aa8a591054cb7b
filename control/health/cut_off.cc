#include "control/health/cut_off.h"

#include <algorithm>

namespace ulnet {

void CutOff::link_changed() {
  if (deps_.devices == nullptr) return;
  next_peer_ = 0;
  again_ = true;
  look_.set_now();
}

// A net with an NI whose traffic is not IP of the kernel: its driver finds out by itself.
bool CutOff::has_way(const PeerNi& ni) const {
  if (!deps_.wanted()) return true;
  bool asked = false;
  for (const LocalNi* from : deps_.nis.on_net(ni.nid.net())) {
    if (!deps_.by_ip(*from)) return true;
    if (from->fatal) continue;
    if (deps_.devices->reaches(from->nid, ni.nid)) return true;
    asked = true;
  }
  return !asked;
}

bool CutOff::any_link_down() const {
  const auto& nets = deps_.nis.nets();
  return std::any_of(nets.begin(), nets.end(), [](const LocalNis::LocalNet& net) {
    return std::any_of(net.nis.begin(), net.nis.end(), [](const LocalNi& ni) { return ni.fatal; });
  });
}

unsigned CutOff::turn(Instant now) {
  if (!look_.due(now)) return 0;
  unsigned looked = 0, done = 0;
  if (next_peer_ == 0) found_ = false;
  auto it = deps_.peers.peers().lower_bound(next_peer_);
  for (; it != deps_.peers.peers().end() && looked < kCutOffLook; ++it)
    for (const PeerNet& net : it->second->nets)
      for (PeerNi* ni : net.nis) {
        ++looked;
        const bool cut_off = it->second->ni_count() > 1 && !has_way(*ni);
        found_ |= cut_off;
        if (std::exchange(ni->cut_off, cut_off) == cut_off) continue;
        deps_.changed(*ni);
        ++done;
      }
  if (it != deps_.peers.peers().end()) {
    next_peer_ = it->first;
    look_.set(again_ ? now : now + kCutOffPause);
    return done + 1;
  }
  next_peer_ = 0;
  if (std::exchange(again_, false))
    look_.set(now + kCutOffAgain);
  else if (found_ || any_link_down())
    look_.set(now + kCutOffEvery);
  else
    look_.stop();
  return done + 1;
}

}  // namespace ulnet
