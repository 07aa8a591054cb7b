// A payload that stays where it arrived: in memory of its driver, for longer than its receive. So a router sends what
// has come without copying it. Thread: the worker of the receive.
#pragma once
#include "dataplane/state/payload.h"

namespace ulnet {

/// Region of memory that a driver has kept. A driver that sends from any memory takes it; others copy. No other region
/// has its slot, but for staging memory (lnd/o2iblnd).
inline constexpr RegionId kKeptRegion{2 * kRegionSlots};

class KeptPayload {
 public:
  /// All of it, until give_back().
  [[nodiscard]] virtual Payload payload() const = 0;
  /// The core is through with it. Once.
  virtual void give_back() = 0;

 protected:
  ~KeptPayload() = default;
};

}  // namespace ulnet
