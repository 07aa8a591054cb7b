// A payload that stays where it arrived, for longer than its receive: in memory of its driver, or in the kernel. So a
// router sends what has come without copying it.
#pragma once
#include "dataplane/state/payload.h"

namespace ulnet {

/// Region of memory that a driver has kept. A driver that sends from any memory takes it; others copy. No other region
/// has its slot, but for staging memory (lnd/o2iblnd).
inline constexpr RegionId kKeptRegion{2 * kRegionSlots};

/// Thread: the worker of the receive.
class KeptPayload {
 public:
  /// All of it, until give_back().
  [[nodiscard]] virtual Payload payload() const = 0;
  /// The core is through with it. Once.
  virtual void give_back() = 0;

 protected:
  ~KeptPayload() = default;
};

/// The part of a payload that lies in a pipe of the kernel, and in no memory of this process. The bytes before and
/// behind this part lie at their place in the window of the receive. Only the driver that filled the pipe can send it.
/// Thread: the holder of the message.
class PipedPayload {
 public:
  /// Copies the part to its place in the window, and empties the pipe. Requires !begun().
  virtual void to_memory(const Payload& window) = 0;
  /// A part of it has been sent, and has left the pipe: the message cannot be sent again.
  [[nodiscard]] virtual bool begun() const = 0;
  /// The core is through with it. Once, on the worker of the receive.
  virtual void give_back() = 0;

 protected:
  ~PipedPayload() = default;
};

}  // namespace ulnet
