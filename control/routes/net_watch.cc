#include "control/routes/net_watch.h"

#include <algorithm>

namespace ulnet {

void NetWatch::pinged(const Nid& target, const Nid& source, Instant now) {
  const LocalNi* ni = nis_.find(target);
  if (ni != nullptr && nis_.find(source) == nullptr) heard_[ni->net] = now;
}

bool NetWatch::turn(Instant now, bool routing) {
  std::erase_if(heard_, [&](const auto& one) { return !nis_.net_local(one.first); });
  next_ = kForever;
  bool changed = false;
  for (LocalNis::LocalNet& net : nis_.nets()) {
    const Instant silent_at = heard_.try_emplace(net.net, now).first->second + limit_;
    const bool silent = routing && now >= silent_at;
    if (routing && !silent) next_ = std::min(next_, silent_at);
    for (LocalNi& ni : net.nis) changed |= std::exchange(ni.silent, silent) != silent;
  }
  return changed;
}

}  // namespace ulnet
