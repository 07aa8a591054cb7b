// Events of RoCE queue pairs that a port shows: repeats, refusals, congestion. One writer: the worker. Any thread
// reads.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/counters.h"

namespace ulnet::rc::roce {

enum class Count : uint8_t {
  kPacketsResent,
  kTimeouts,
  kAcksReceived,
  kAcksSent,
  kNaksSequenceReceived,
  kNaksSequenceSent,
  kNaksRnrReceived,
  kNaksRnrSent,
  kNaksInvalidReceived,
  kNaksInvalidSent,
  kNaksAccessReceived,
  kNaksAccessSent,
  kAnswersStale,
  kDuplicates,
  kOutOfOrder,
  kPacketsKept,
  kHandedOver,
  kCnpsReceived,
  kCnpsSent,
  kCount
};

/// Name, unit and meaning.
[[nodiscard]] const CounterText& text_of(Count count);

struct Counts {
  std::array<Counter, size_t(Count::kCount)> counts;
  Counter& operator[](Count count) { return counts[size_t(count)]; }
  [[nodiscard]] const Counter& operator[](Count count) const { return counts[size_t(count)]; }
};

}  // namespace ulnet::rc::roce
