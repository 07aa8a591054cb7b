// What DPDK needs of memory before it starts, because without hugepages it cannot get more later. Pure.
#pragma once
#include <span>
#include <string>

#include "lnd/net/dpdk/pool_plan.h"

namespace ulnet {

/// MiB for the pools of these ports with at most `workers` queues each, and for DPDK's own: rings, allocator, drivers.
/// A device that is not understood counts nothing.
[[nodiscard]] uint32_t port_memory_mb(std::span<const dpdk::PortConfig> ports, unsigned workers);

/// The sum behind it, for who is told that there is too little.
[[nodiscard]] std::string port_memory_text(std::span<const dpdk::PortConfig> ports, unsigned workers);

}  // namespace ulnet
