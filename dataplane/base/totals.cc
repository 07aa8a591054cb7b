#include "dataplane/base/totals.h"

#include <algorithm>

namespace ulnet {
namespace {

template <size_t N>
void add_all(std::array<uint64_t, N>& sums, const std::array<Counter, N>& counters) {
  for (size_t i = 0; i < N; ++i) sums[i] += counters[i].get();
}
// Counters are read one by one while they grow, so a sum may be less than its baseline: the result is 0 then.
void take(uint64_t& sum, uint64_t baseline) {
  sum -= std::min(sum, baseline);
}
template <size_t N>
void take_all(std::array<uint64_t, N>& sums, const std::array<uint64_t, N>& baseline) {
  for (size_t i = 0; i < N; ++i) take(sums[i], baseline[i]);
}

}  // namespace

void LatencyTotals::add(const LatencyCounters& counters) {
  const uint64_t more = counters.samples.get();
  if (more == 0) return;
  min_ns = samples == 0 ? counters.min_ns.get() : std::min(min_ns, counters.min_ns.get());
  max_ns = std::max(max_ns, counters.max_ns.get());
  samples += more;
  sum_ns += counters.sum_ns.get();
}

void LatencyTotals::subtract(const LatencyTotals& baseline) {
  take(samples, baseline.samples);
  take(sum_ns, baseline.sum_ns);
  if (samples == 0) min_ns = max_ns = 0;
}

void InterfaceTotals::add(const InterfaceCounters& counters) {
  for (size_t i = 0; i < traffic.size(); ++i) add_all(traffic[i], counters.traffic[i]);
  for (size_t i = 0; i < latencies.size(); ++i) latencies[i].add(counters.latencies[i]);
  add_all(failures, counters.failures);
  add_all(peer_failures, counters.peer_failures);
}

void InterfaceTotals::add(const ResponseLatencies& counters) {
  for (size_t i = 0; i < counters.each.size(); ++i) latencies[ResponseLatencies::kFirst + i].add(counters.each[i]);
}

void InterfaceTotals::subtract(const InterfaceTotals& baseline) {
  for (size_t i = 0; i < traffic.size(); ++i) take_all(traffic[i], baseline.traffic[i]);
  for (size_t i = 0; i < latencies.size(); ++i) latencies[i].subtract(baseline.latencies[i]);
  take_all(failures, baseline.failures);
  take_all(peer_failures, baseline.peer_failures);
}

void NodeTotals::add(const WorkerCounters& counters) {
  add_all(stats, counters.stats);
  add_all(drops, counters.drops);
  add_all(turn, counters.turn);
}

void NodeTotals::subtract(const NodeTotals& baseline) {
  for (size_t i = 0; i < stats.size(); ++i)
    if (!text_of(Stat(i)).level) take(stats[i], baseline.stats[i]);
  take_all(drops, baseline.drops);
  take_all(turn, baseline.turn);
}

}  // namespace ulnet
