// How many packet buffers a port needs, as a sum with a line for each holder. Also how much memory DPDK needs before it
// starts: without hugepages it cannot get more later. Pure. Thread: control.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lnd/net/dpdk/port_config.h"

namespace ulnet::dpdk {

inline constexpr unsigned kBurst = 32;              ///< packets of one receive or send call
inline constexpr unsigned kPoolCache = 128;         ///< buffers in the allocator's cache of a worker
inline constexpr unsigned kTxGather = 64;           ///< packets that wait for the end of a turn
inline constexpr unsigned kParkedPacketsMax = 256;  ///< packets that wait for a neighbour, per queue
inline constexpr unsigned kBufferOverhead = 256;    ///< bytes around a buffer's data: mbuf, headroom, allocator

/// Buffers of one queue. Each queue has a pool of its own, on the port's NUMA node.
struct PoolPlan {
  struct Line {
    const char* holder;
    uint32_t buffers;
  };
  std::vector<Line> lines;
  BufferShape shape;
  uint32_t buffers = 0;   ///< sum of lines
  uint32_t held_max = 0;  ///< limit for receivers: a quarter stays free whatever else is out
  uint32_t heads = 0;     ///< buffers without data, for sends from other memory
  uint64_t bytes = 0;     ///< of one queue, all in all
};

[[nodiscard]] PoolPlan pool_plan(const PortConfig& config, BufferShape shape);

/// The sum as it is shown when memory is short: "port rail0: 2 queues x (512 receive queue + ...) x 2304 bytes = ...".
[[nodiscard]] std::string pool_plan_text(const PortConfig& config, const PoolPlan& plan, unsigned queues);

}  // namespace ulnet::dpdk

namespace ulnet {

/// MiB for the pools of these ports with at most `workers` queues each, and for DPDK's own: rings, allocator, drivers.
/// A device that is not understood counts nothing.
[[nodiscard]] uint32_t port_memory_mb(std::span<const dpdk::PortConfig> ports, unsigned workers);

/// The sum behind port_memory_mb(), for a message about too little memory.
[[nodiscard]] std::string port_memory_text(std::span<const dpdk::PortConfig> ports, unsigned workers);

}  // namespace ulnet
