#include "lnd/net/dpdk/pool_plan.h"

namespace ulnet::dpdk {

PoolPlan pool_plan(const PortConfig& config, BufferShape shape) {
  PoolPlan plan;
  plan.shape = shape;
  const uint32_t in_flight = config.in_flight * shape.segments;
  plan.lines = {
      {"receive queue", config.rx_depth * shape.segments},
      {"send queue", config.tx_depth * shape.segments},
      {"allocator's caches", 2 * (kPoolCache * 3 / 2)},  // the worker's, and control's after a reset
      {"burst being received", kBurst * shape.segments},
      {"gathered to be sent", kTxGather * shape.segments},
      {"waiting for neighbours", kParkedPacketsMax * shape.segments},
      {"in flight", in_flight},
  };
  if (shape.kept_by_device != 0) plan.lines.push_back({"device's own rings", shape.kept_by_device});
  uint32_t sum = 0;
  for (const PoolPlan::Line& line : plan.lines) sum += line.buffers;
  plan.lines.push_back({"kept free: a quarter", (sum + 2) / 3});
  plan.buffers = sum + (sum + 2) / 3;
  plan.held_max = in_flight;
  plan.heads = 2 * (config.tx_depth + kTxGather) * shape.segments;
  plan.bytes = uint64_t{plan.buffers} * (shape.data_bytes + kBufferOverhead) + uint64_t{plan.heads} * kBufferOverhead;
  return plan;
}

std::string pool_plan_text(const PortConfig& config, const PoolPlan& plan, unsigned queues) {
  std::string out = "port " + config.name + ": " + std::to_string(queues) + " queues x (";
  for (size_t i = 0; i < plan.lines.size(); ++i)
    out += (i == 0 ? "" : " + ") + std::to_string(plan.lines[i].buffers) + " " + plan.lines[i].holder;
  const uint64_t total = plan.bytes * queues;
  out += " = " + std::to_string(plan.buffers) + " buffers) x " +
         std::to_string(plan.shape.data_bytes + kBufferOverhead) + " bytes + " + std::to_string(plan.heads) +
         " heads x " + std::to_string(kBufferOverhead) + " bytes = " + std::to_string((total + (1 << 20) - 1) >> 20) +
         " MiB";
  return out;
}

}  // namespace ulnet::dpdk

namespace ulnet {
namespace {

constexpr uint32_t kDpdkMb = 48;  ///< DPDK's own

/// The plan of a device that is not open yet. If only the open device reports whether it scatters: the larger plan.
dpdk::PoolPlan plan_before_open(const dpdk::PortConfig& port, dpdk::DeviceKind kind) {
  const dpdk::Scatter scatter = dpdk::traits_of(kind).scatter;
  dpdk::PoolPlan one = dpdk::pool_plan(port, dpdk::buffer_shape(port, kind, scatter == dpdk::Scatter::kAlways));
  if (scatter != dpdk::Scatter::kReported) return one;
  dpdk::PoolPlan other = dpdk::pool_plan(port, dpdk::buffer_shape(port, kind, true));
  return other.bytes > one.bytes ? other : one;
}

/// Calls `each` for every port whose device is understood, with its plan and the number of its queues.
template <class Each>
void each_plan(std::span<const dpdk::PortConfig> ports, unsigned workers, Each&& each) {
  for (const dpdk::PortConfig& port : ports) {
    const auto spec = dpdk::device_spec(port.device);
    if (!spec) continue;
    each(port, plan_before_open(port, spec->kind),
         port.queues != 0 ? std::min<unsigned>(port.queues, workers) : workers);
  }
}

}  // namespace

uint32_t port_memory_mb(std::span<const dpdk::PortConfig> ports, unsigned workers) {
  uint64_t bytes = 0;
  each_plan(ports, workers, [&](const dpdk::PortConfig&, const dpdk::PoolPlan& plan, unsigned queues) {
    bytes += plan.bytes * queues * 5 / 4;
  });
  return uint32_t(std::min<uint64_t>((bytes >> 20) + kDpdkMb, UINT32_MAX));
}

std::string port_memory_text(std::span<const dpdk::PortConfig> ports, unsigned workers) {
  std::string out;
  each_plan(ports, workers, [&](const dpdk::PortConfig& port, const dpdk::PoolPlan& plan, unsigned queues) {
    out += pool_plan_text(port, plan, queues) + "; ";
  });
  return out + "with what DPDK needs itself and a quarter to spare: " + std::to_string(port_memory_mb(ports, workers)) +
         " MiB";
}

}  // namespace ulnet
