// A bound on how often something may happen, for floods of packets. Time is handed in. Thread: one at a time.
#pragma once
#include <algorithm>
#include <cstdint>

#include "dataplane/base/time.h"

namespace ulnet::rc::roce {

/// `burst` times at once. Each use comes back after `every`, one behind the other.
struct Rate {
  Duration every;
  uint32_t burst = 1;
};

/// The rest of a Rate. All calls for one Allowance have the same rate, which the owner keeps.
class Allowance {
 public:
  [[nodiscard]] uint32_t left(const Rate& rate, Instant now) const {
    const Duration used = std::max(whole_, now) - now;
    return used >= all_of(rate) ? 0 : uint32_t((all_of(rate) - used) / rate.every);
  }
  /// False: nothing is left.
  [[nodiscard]] bool take(const Rate& rate, Instant now) {
    if (left(rate, now) == 0) return false;
    spend(rate, 1, now);
    return true;
  }
  /// Takes `count`, also if less is left. There is no debt.
  void spend(const Rate& rate, uint32_t count, Instant now) {
    whole_ = std::min(std::max(whole_, now) + rate.every * int64_t{count}, now + all_of(rate));
  }

 private:
  [[nodiscard]] static Duration all_of(const Rate& rate) { return rate.every * int64_t{rate.burst}; }
  Instant whole_ = kNever;  ///< when all of the burst is back
};

}  // namespace ulnet::rc::roce
