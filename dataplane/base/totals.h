// Sums of the workers' counters, as plain numbers. Thread: control. A reset changes no sum: control keeps a baseline
// and subtracts it from the sums that are shown. Minima and maxima cannot be subtracted: at a reset, the workers start
// them again (ResetExtremesMsg).
#pragma once
#include <array>

#include "dataplane/base/counters.h"

namespace ulnet {

/// Nanoseconds, but for `samples`.
struct LatencyTotals {
  uint64_t samples = 0, min_ns = 0, max_ns = 0, sum_ns = 0;
  void add(const LatencyCounters& counters);
  void subtract(const LatencyTotals& baseline);
  [[nodiscard]] uint64_t average_ns() const { return samples == 0 ? 0 : sum_ns / samples; }
};

/// Of one NI or peer NI, over all workers.
struct InterfaceTotals : InterfaceTable<uint64_t, LatencyTotals> {
  void add(const InterfaceCounters& counters);
  void add(const ResponseLatencies& counters);
  void subtract(const InterfaceTotals& baseline);
};

/// Of one worker, or of the node when several are added up.
struct NodeTotals {
  std::array<uint64_t, size_t(Stat::kCount)> stats{};
  std::array<uint64_t, size_t(Drop::kCount)> drops{};
  std::array<uint64_t, size_t(TurnStat::kCount)> turn{};
  uint64_t& operator[](Stat stat) { return stats[size_t(stat)]; }
  void add(const WorkerCounters& counters);
  void subtract(const NodeTotals& baseline);
};

}  // namespace ulnet
