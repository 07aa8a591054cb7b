#include "control/stats/totals.h"

#include <algorithm>

namespace ulnet {
namespace {

template <size_t N>
void add_all(std::array<uint64_t, N>& sums, const std::array<Counter, N>& counters) {
  for (size_t i = 0; i < N; ++i) sums[i] += counters[i].get();
}
// Counters are read one by one while they grow: never wrap around.
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

void InterfaceTotals::add(const InterfaceCounters& c) {
  add_all(sent, c.sent);
  add_all(received, c.received);
  add_all(dropped, c.dropped);
  put_egress.add(c.put_egress);
  get_rtt.add(c.get_rtt);
  put_ack.add(c.put_ack);
  interrupts += c.interrupts.get();
  local_dropped += c.local_dropped.get();
  aborted += c.aborted.get();
  no_route += c.no_route.get();
  timeouts += c.timeouts.get();
  error += c.error.get();
  remote_dropped += c.remote_dropped.get();
  remote_timeout += c.remote_timeout.get();
  remote_error += c.remote_error.get();
  network_timeout += c.network_timeout.get();
}

void InterfaceTotals::subtract(const InterfaceTotals& b) {
  take_all(sent, b.sent);
  take_all(received, b.received);
  take_all(dropped, b.dropped);
  put_egress.subtract(b.put_egress);
  get_rtt.subtract(b.get_rtt);
  put_ack.subtract(b.put_ack);
  take(interrupts, b.interrupts);
  take(local_dropped, b.local_dropped);
  take(aborted, b.aborted);
  take(no_route, b.no_route);
  take(timeouts, b.timeouts);
  take(error, b.error);
  take(remote_dropped, b.remote_dropped);
  take(remote_timeout, b.remote_timeout);
  take(remote_error, b.remote_error);
  take(network_timeout, b.network_timeout);
}

void NodeTotals::add(const WorkerCounters& counters) {
  add_all(stats, counters.stats);
  add_all(drops, counters.drops);
  add_all(turn, counters.turn);
}

// What says how much there is at the moment is not counted from a baseline.
void NodeTotals::subtract(const NodeTotals& baseline) {
  for (size_t i = 0; i < stats.size(); ++i) {
    const bool level = i == size_t(Stat::kMsgsAlloc) || i == size_t(Stat::kMsgsMax) || i == size_t(Stat::kRstAlloc);
    if (!level) take(stats[i], baseline.stats[i]);
  }
  take_all(drops, baseline.drops);
  take_all(turn, baseline.turn);
}

}  // namespace ulnet
