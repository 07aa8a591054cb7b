// Points and spans of time as the whole project names them. There is no clock here on purpose. The driver of a worker
// (a Host thread or a simulation) reads the time once per turn and passes it down as `now`.
#pragma once
#include <chrono>
#include <cstdint>

namespace ulnet {

/// Tag of the node's time line; it has no now(), so nothing below the Host can read a clock.
struct NodeClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<NodeClock, duration>;
  static constexpr bool is_steady = true;
};

using Duration = std::chrono::nanoseconds;
using Instant = NodeClock::time_point;

/// "Not set": before every real instant. Real clocks start above it, so 0 may stand for unset.
inline constexpr Instant kNever{Duration{0}};
/// After every real instant: the deadline of something that never expires.
inline constexpr Instant kForever = Instant::max();

using namespace std::chrono_literals;

}  // namespace ulnet
