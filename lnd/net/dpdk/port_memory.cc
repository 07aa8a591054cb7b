#include "lnd/net/dpdk/port_memory.h"

namespace ulnet {
namespace {

constexpr uint32_t kDpdkMb = 48;  ///< DPDK's own

/// Calls `each` for every port whose device is understood, with its plan and the number of its queues.
template <class Each>
void each_plan(std::span<const dpdk::PortConfig> ports, unsigned workers, Each&& each) {
  for (const dpdk::PortConfig& port : ports) {
    const auto spec = dpdk::device_spec(port.device);
    if (!spec) continue;
    const bool chains = spec->kind == dpdk::DeviceKind::kRing || spec->kind == dpdk::DeviceKind::kTap;
    const auto plan = dpdk::pool_plan(port, dpdk::buffer_shape(port, spec->kind, chains));
    each(port, plan, port.queues != 0 ? std::min<unsigned>(port.queues, workers) : workers);
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
