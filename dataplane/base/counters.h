// Counters: one writer each, summed by control; a reset is a baseline that control keeps. Names are LNet's where it has
// one (docs/wire/lnet.md §13). Every dropped message has a reason here.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "dataplane/base/limits.h"
#include "dataplane/wire/header.h"

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
  kViewsSeen,
  kCount
};

/// Name, unit and meaning of a counter, for shows and the reference.
struct CounterText {
  const char* name;
  const char* unit;
  const char* help;
};
[[nodiscard]] const CounterText& text_of(Stat stat);
[[nodiscard]] const CounterText& text_of(Drop reason);
[[nodiscard]] const CounterText& text_of(TurnStat stat);

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
  /// Least and most start anew; samples and sum do so by a baseline.
  void reset_extremes() {
    min_ns.set(UINT64_MAX);
    max_ns.set(0);
  }
};

/// Counters of one NI or peer NI on one worker (docs/wire/lnet.md §13; see there for the counting quirk of responses).
struct InterfaceCounters {
  std::array<Counter, wire::kMsgTypes> sent, received, dropped;
  LatencyCounters put_egress, get_rtt, put_ack;
  // Failures by class, for `health stats`.
  Counter interrupts, local_dropped, aborted, no_route, timeouts, error;
  Counter remote_dropped, remote_timeout, remote_error, network_timeout;
  void reset_extremes() {
    for (LatencyCounters* latency : {&put_egress, &get_rtt, &put_ack}) latency->reset_extremes();
  }
};

}  // namespace ulnet
