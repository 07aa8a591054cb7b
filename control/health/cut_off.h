// Peer NIs that cannot be reached while a link of this node is down. The kernel would send packets for them to the
// interface that is down, whichever NI they come from. Health takes them as if their node had reported them as down.
// So requests that wait for them move at once. A peer with one NI is left out: nothing could move. With
// `fast_detection` only. Thread: control.
#pragma once
#include <functional>

#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/timers.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

/// Peer NIs that are looked at in a turn.
inline constexpr unsigned kCutOffLook = 256;
/// The kernel announces a link before it has changed its routes, so that there is a second look.
inline constexpr Duration kCutOffAgain = 5ms;
/// After those of a turn, unless a link has just changed.
inline constexpr Duration kCutOffPause = 50ms;
/// Between looks while a link is down or a peer NI is cut off: routes may come back later than the link.
inline constexpr Duration kCutOffEvery = 500ms;

class CutOff {
 public:
  struct Deps {
    LocalNis& nis;
    PeerDb& peers;
    Devices* devices = nullptr;  ///< null: nothing is looked at
    std::function<bool()> wanted;
    std::function<bool(const LocalNi&)> by_ip;  ///< is the traffic of this NI routed as IP by the kernel?
    /// PeerNi::cut_off has changed.
    std::function<void(PeerNi&)> changed;
  };
  CutOff(Deps deps, Timers& timers) : deps_(std::move(deps)), look_(timers, TimerName::kCutOff) {}

  /// The link of an NI is down, or up again.
  void link_changed();
  /// Looks at peer NIs, if that is due; returns how many have changed.
  unsigned turn(Instant now);

 private:
  [[nodiscard]] bool has_way(const PeerNi& ni) const;
  [[nodiscard]] bool any_link_down() const;
  const Deps deps_;
  SlowTimer look_;
  uint32_t next_peer_ = 0;  ///< where the look under way goes on
  bool again_ = false;      ///< another look is due soon after this one
  bool found_ = false;      ///< the look under way has found a peer NI that is cut off
};

}  // namespace ulnet
