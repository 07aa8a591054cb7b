#include "control/ports/port_memory.h"

namespace ulnet {
namespace {

constexpr uint32_t kDpdkMb = 48;  ///< DPDK's own

}  // namespace

uint32_t port_memory_mb(std::span<const dpdk::PortConfig> ports, unsigned workers) {
  uint64_t bytes = 0;
  for (const dpdk::PortConfig& port : ports) {
    const auto spec = dpdk::device_spec(port.device);
    if (!spec) continue;
    const bool chains = spec->kind == dpdk::DeviceKind::kRing || spec->kind == dpdk::DeviceKind::kTap;
    const auto plan = dpdk::pool_plan(port, dpdk::buffer_shape(port, spec->kind, chains));
    bytes += plan.bytes * (port.queues != 0 ? std::min<unsigned>(port.queues, workers) : workers) * 5 / 4;
  }
  return uint32_t(bytes >> 20) + kDpdkMb;
}

}  // namespace ulnet
