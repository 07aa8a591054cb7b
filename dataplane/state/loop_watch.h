// Finds messages that circle among routers. LNet headers carry no hop count, so a router in a chain remembers which
// messages came from one router and went on to another. A message that keeps coming circles. Thread: one owner.
// Bounded: kLoopSightsKept messages. If more are under way, entries are replaced almost at random, so that a loop is
// found later.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/limits.h"
#include "dataplane/base/time.h"
#include "dataplane/wire/header.h"

namespace ulnet {

class LoopWatch {
 public:
  /// Notes that the message came; true when it came so often, with no gap above kLoopSightGap, that it circles. A
  /// sender that tries again sends the same header a few times. PUTs without a handle for an ACK may be equal without
  /// being the same message, so they may come more often. Cost: O(1).
  [[nodiscard]] bool circles(const wire::Header& header, Instant now);

 private:
  static constexpr unsigned kWays = 4;
  struct Sight {
    uint64_t identity = 0;
    uint32_t seen_ms = 0;  // wraps; only differences count
    uint32_t count = 0;    // 0: free
  };
  [[nodiscard]] Sight& entry_of(uint64_t identity, uint32_t now_ms);

  std::array<Sight, kLoopSightsKept> sights_{};
  unsigned next_way_ = 0;
};

}  // namespace ulnet
