// The speed of a link, as its device reports it. Plain values. Any thread.
#pragma once
#include <cstdint>

namespace ulnet {

/// In Mbit/s; 0 = unknown.
struct LinkSpeed {
  uint32_t mbps = 0;       ///< at which the link runs now
  uint32_t best_mbps = 0;  ///< the highest that the device supports, or at which it ran before

  /// The link runs, but slower than its device can.
  [[nodiscard]] bool reduced() const { return mbps > 0 && mbps < best_mbps; }
  bool operator==(const LinkSpeed&) const = default;
};

}  // namespace ulnet
