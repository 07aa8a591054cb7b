// The process's clock: the one place that reads it for Nodes. A turn reads it once, at its top, and hands it down.
#pragma once
#include <cstdint>
#include <ctime>

#include "dataplane/base/time.h"

namespace ulnet {

/// Monotonic time on the nodes' time line.
[[nodiscard]] inline Instant clock_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{std::chrono::seconds{t.tv_sec} + Duration{t.tv_nsec}};
}

/// Wall-clock time in ns: names a life of a node (incarnation), never used for intervals.
[[nodiscard]] inline uint64_t real_time_ns() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

/// The CPU's time-stamp counter, for costs in cycles; 0 where there is none. Its frequency is constant but not the
/// core's.
[[nodiscard]] inline uint64_t cycle_count() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

}  // namespace ulnet
