// Counters: one writer each, summed by control; a reset is a baseline that control keeps. Names are LNet's where it has
// one (docs/wire/lnet.md §13). Every dropped message has a reason here. Each kind of counter is an enum with a table of
// texts. Sums, resets and output iterate over both, so that a new counter needs only a value and its row.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "dataplane/base/limits.h"

namespace ulnet {

/// A counter with one writer; readers may be a moment behind.
class Counter {
 public:
  void add(uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  /// Keeps the largest value seen.
  void raise(uint64_t n) {
    if (n > value_.load(std::memory_order_relaxed)) value_.store(n, std::memory_order_relaxed);
  }
  void set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

/// Node-wide counters, kept per worker. Order is that of `stats show`.
enum class Stat : uint8_t {
  kMsgsAlloc,
  kMsgsMax,
  kRstAlloc,
  kErrors,
  kSendCount,
  kResendCount,
  kResponseTimeoutCount,
  kLocalInterruptCount,
  kLocalDroppedCount,
  kLocalAbortedCount,
  kLocalNoRouteCount,
  kLocalTimeoutCount,
  kLocalErrorCount,
  kRemoteDroppedCount,
  kRemoteErrorCount,
  kRemoteTimeoutCount,
  kNetworkTimeoutCount,
  kFailedResends,
  kSuccessfulResends,
  kRecvCount,
  kRouteCount,
  kDropCount,
  kSendLength,
  kRecvLength,
  kRouteLength,
  kDropLength,
  kCount
};

/// Why a message was dropped.
enum class Drop : uint8_t {
  kRoutingDisabled,
  kNoRoute,
  kNextHopDown,
  kRouteLoop,
  kRouterHoldTimeout,
  kNextHopFull,
  kNoRouterBuffer,
  kRouterShutdown,
  kRouterPayload,
  kNoMatch,
  kPortalRange,
  kPortalClosed,
  kLazyFull,
  kQueueFull,
  kTooLong,
  kStaleHandle,
  kForeignHandle,
  kReplyTooLong,
  kReplyTwice,
  kMdUnlinked,
  kReceiveFailed,
  kAsymmetricRoute,
  kNodeStopping,
  kNoMessage,
  kNoConnection,
  kFault,
  kCopy,
  kCopyUnknown,
  kCount
};

/// Work of a worker's turn.
enum class TurnStat : uint8_t {
  kTurns,
  kTurnsBusy,
  kSleeps,
  kInboxItems,
  kLndEvents,
  kTimersFired,
  kRingFull,
  kParked,
  kParkedRefused,
  kHeldNoMessage,
  kHeldRouter,
  kForwardedUncopied,
  kViewsSeen,
  kCount
};

/// LNet's message types; dataplane/state/slices.h checks the number.
inline constexpr unsigned kMessageTypes = 5;

/// Messages of an NI or peer NI, each counted by message type. The order is that of `net show -v 2`.
enum class NiTraffic : uint8_t { kSent, kReceived, kDropped, kCount };

/// Latencies of an NI or peer NI, in the order of `net show -v`. The worker that sends counts those before kGetRtt; the
/// home worker of the operation counts kGetRtt and the following.
enum class NiLatency : uint8_t { kPutEgress, kGetRtt, kPutAck, kCount };

/// Failed sends at a local NI, in the order of its `health stats`.
enum class NiFailure : uint8_t { kInterrupts, kDropped, kAborted, kNoRoute, kTimeouts, kError, kCount };

/// Failed sends at a peer NI, in the order of its `health stats`.
enum class PeerFailure : uint8_t { kDropped, kTimeout, kError, kNetworkTimeout, kCount };

/// Name, unit and meaning of a counter, for output and the reference.
struct CounterText {
  const char* name;
  const char* unit;
  const char* help;
  bool level = false;  ///< an amount at present or a maximum: no baseline is subtracted
};

/// The rows of one kind of counter, in the order of its enum: `texts_of<Stat>()`.
template <class Kind>
[[nodiscard]] std::span<const CounterText> texts_of();
template <>
std::span<const CounterText> texts_of<Stat>();
template <>
std::span<const CounterText> texts_of<Drop>();
template <>
std::span<const CounterText> texts_of<TurnStat>();
template <>
std::span<const CounterText> texts_of<NiTraffic>();
template <>
std::span<const CounterText> texts_of<NiLatency>();
template <>
std::span<const CounterText> texts_of<NiFailure>();
template <>
std::span<const CounterText> texts_of<PeerFailure>();

[[nodiscard]] inline const CounterText& text_of(Stat stat) {
  return texts_of<Stat>()[size_t(stat)];
}
[[nodiscard]] inline const CounterText& text_of(Drop reason) {
  return texts_of<Drop>()[size_t(reason)];
}

/// One worker's counters.
struct WorkerCounters {
  std::array<Counter, size_t(Stat::kCount)> stats;
  std::array<Counter, size_t(Drop::kCount)> drops;
  std::array<Counter, size_t(TurnStat::kCount)> turn;
  Counter& operator[](Stat s) { return stats[size_t(s)]; }
  Counter& operator[](Drop d) { return drops[size_t(d)]; }
  Counter& operator[](TurnStat t) { return turn[size_t(t)]; }
};

/// Latency of one kind of operation: how many, least, most, sum (ns).
struct LatencyCounters {
  Counter samples, min_ns, max_ns, sum_ns;
  void sample(uint64_t ns) {
    if (samples.get() == 0 || ns < min_ns.get()) min_ns.set(ns);
    max_ns.raise(ns);
    sum_ns.add(ns);
    samples.add();
  }
  /// Minimum and maximum start again; samples and sum do so by a baseline.
  void reset_extremes() {
    min_ns.set(UINT64_MAX);
    max_ns.set(0);
  }
};

/// The latencies that the home worker of an operation counts: kGetRtt and the following.
struct ResponseLatencies {
  static constexpr size_t kFirst = size_t(NiLatency::kGetRtt);
  std::array<LatencyCounters, size_t(NiLatency::kCount) - kFirst> each;
  LatencyCounters& operator[](NiLatency which) { return each[size_t(which) - kFirst]; }
  const LatencyCounters& operator[](NiLatency which) const { return each[size_t(which) - kFirst]; }
  void reset_extremes() {
    for (LatencyCounters& latency : each) latency.reset_extremes();
  }
};

/// Everything that is counted of one NI or peer NI, by kind: as workers count it (`Count` is Counter), or in sums.
template <class Count, class Latency>
struct InterfaceTable {
  using ByType = std::array<Count, kMessageTypes>;
  std::array<ByType, size_t(NiTraffic::kCount)> traffic{};
  std::array<Latency, size_t(NiLatency::kCount)> latencies{};
  std::array<Count, size_t(NiFailure::kCount)> failures{};
  std::array<Count, size_t(PeerFailure::kCount)> peer_failures{};
  ByType& operator[](NiTraffic which) { return traffic[size_t(which)]; }
  Latency& operator[](NiLatency which) { return latencies[size_t(which)]; }
  Count& operator[](NiFailure which) { return failures[size_t(which)]; }
  Count& operator[](PeerFailure which) { return peer_failures[size_t(which)]; }
  const ByType& operator[](NiTraffic which) const { return traffic[size_t(which)]; }
  const Latency& operator[](NiLatency which) const { return latencies[size_t(which)]; }
  const Count& operator[](NiFailure which) const { return failures[size_t(which)]; }
  const Count& operator[](PeerFailure which) const { return peer_failures[size_t(which)]; }
};

/// Counters of one NI or peer NI on one worker (docs/wire/lnet.md §13; see there for the counting quirk of responses).
struct InterfaceCounters : InterfaceTable<Counter, LatencyCounters> {
  void reset_extremes() {
    for (LatencyCounters& latency : latencies) latency.reset_extremes();
  }
};

}  // namespace ulnet
