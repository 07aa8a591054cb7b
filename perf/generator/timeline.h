// Ends of a run's operations over time. For each slice of time: how many ended, how many of them failed, and the
// longest of them. Besides, the time of each failure. A script sees in it the cost of a fault of the network
// (docs/ulnet-perf.md, "Over time"). One owner, the thread that turns the generator. All memory is allocated at the
// start. A slice in which no operation ended needs no place. Hence a long silence does not push out the slices before
// it.
#pragma once
#include <cstdint>
#include <vector>

#include "dataplane/base/time.h"

namespace ulnet::perf {

inline constexpr Duration kTimelineSliceMin = 100us;  ///< a thread that has no work looks no more often
inline constexpr uint32_t kTimelineSlicesMax = 16384;
inline constexpr uint32_t kTimelineFailuresMax = 256;

struct TimelineSlice {
  uint32_t index = 0;  ///< begins at since + index * slice
  uint32_t ended = 0;  ///< operations, failed ones included
  uint32_t failed = 0;
  Duration longest{};  ///< from start to end, of these operations
};

struct FailedOperation {
  Instant at = kNever;
  Duration latency{};
  int32_t error = 0;  ///< negative errno
};

struct TimelineResult {
  Duration slice{};                       ///< 0: nothing was recorded
  Instant since = kNever;                 ///< begin of the measurement and of slice 0
  uint64_t dropped = 0;                   ///< oldest slices that gave way to newer ones
  std::vector<TimelineSlice> slices;      ///< in order, without empty ones; the newest kTimelineSlicesMax
  std::vector<FailedOperation> failures;  ///< the first kTimelineFailuresMax
};

class Timeline {
 public:
  /// With a slice of 0, records nothing and takes no memory.
  explicit Timeline(Duration slice);
  /// Forgets everything; slice 0 begins now.
  void begin(Instant now);
  /// Stops recording until begin().
  void end() { since_ = kNever; }
  /// An operation ended. `error`: negative errno, 0 = well. Requires: `now` never decreases. Cost: O(1).
  void ended(Instant now, Duration latency, int32_t error);
  /// Copies what is recorded.
  [[nodiscard]] TimelineResult result() const;

 private:
  const Duration slice_;
  Instant since_ = kNever;
  std::vector<TimelineSlice> slices_;  ///< a ring as soon as it is full
  uint64_t slices_begun_ = 0;          ///< the newest is at slices_begun_ - 1, modulo kTimelineSlicesMax
  std::vector<FailedOperation> failures_;
};

}  // namespace ulnet::perf
