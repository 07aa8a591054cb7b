// A port that gives back the packets that it sends (DPDK's ring), for tests of code above ports. DPDK starts once in a
// process: before the first test, for all of them.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lnd/net/dpdk/port.h"

namespace ulnet::dpdk {

class LoopPort : public testing::Test {
 public:
  /// Unique in the process.
  static unsigned next_index();

 protected:
  void SetUp() override;
  /// Checks that all packets are back.
  void TearDown() override;

  PacketPool& pool() { return queue().pool(); }
  PortQueue& queue() { return port->queue(0); }
  /// The next bytes of `memory`, in two pieces.
  Payload payload(uint32_t bytes);
  /// A packet with a copy of these bytes, in several segments when they are many.
  rte_mbuf* packet_of(std::vector<std::byte> bytes);
  /// Requests that the queue stops, and completes the stop in the worker's place.
  void stop();
  void start();
  static void count_back(TxLease&, void* count) { ++*static_cast<int*>(count); }

  std::unique_ptr<Port> port;
  std::vector<uint8_t> memory;
  Segment segments[2];
  Instant now = kNever + 1s;
};

}  // namespace ulnet::dpdk
