#include "control/api/states.h"

#include <algorithm>

namespace ulnet {

const char* ni_state(const LocalNi& ni) {
  if (ni.going()) return "deleting";
  return ni.fatal ? "failed" : "created";
}

const char* net_state(const LocalNis::LocalNet& net) {
  const auto all = [&](auto&& holds) { return std::all_of(net.nis.begin(), net.nis.end(), holds); };
  if (all([](const LocalNi& ni) { return ni.going(); })) return "deleting";
  return all([](const LocalNi& ni) { return ni.going() || ni.fatal; }) ? "in-active" : "active";
}

const char* peer_ni_state(const PeerNi& ni) {
  if (ni.life.down) return "failed";
  if (ni.blocks == nullptr) return "created";
  const PeerSlice& slice = ni.blocks->slice;
  uint64_t through = 0;
  for (const auto& count : slice.counters.sent) through += count.get();
  for (const auto& count : slice.counters.received) through += count.get();
  if (through > 0) return "connected";
  return slice.tx_queued_bytes.get() > 0 ? "activating" : "created";
}

}  // namespace ulnet
