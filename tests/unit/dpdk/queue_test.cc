// Packet queues besides bursts: the last check before the worker sleeps, the stop, and the start.
#include "tests/unit/dpdk/loop_port.h"

namespace ulnet::dpdk {
namespace {

class DpdkQueue : public LoopPort {
 protected:
  void send(uint8_t number) {
    rte_mbuf* packets[1] = {packet_of(std::vector<std::byte>(60, std::byte(number)))};
    ASSERT_EQ(1u, queue().send(packets, now));
  }
  std::vector<int> receive(unsigned room) {
    std::vector<rte_mbuf*> packets(room);
    packets.resize(queue().receive(packets, now));
    std::vector<int> numbers;
    for (rte_mbuf* packet : packets) {
      numbers.push_back(int(*rte_pktmbuf_mtod(packet, uint8_t*)));
      packet_free(packet);
    }
    return numbers;
  }
};

// Goal: no wake-up is lost on a device that cannot count waiting packets. A packet between the last receive() and the
// arming of the interrupt keeps the worker awake. The packet is neither lost nor out of order.
TEST_F(DpdkQueue, checks_once_more_after_arming) {
  EXPECT_TRUE(receive(8).empty());
  queue().arm_interrupt();
  EXPECT_FALSE(queue().has_packets());  // the worker would sleep
  queue().disarm_interrupt(10ms);
  EXPECT_TRUE(receive(8).empty());
  send(1);  // sent before the interrupt is armed
  send(2);
  queue().arm_interrupt();
  EXPECT_TRUE(queue().has_packets());
  EXPECT_TRUE(queue().has_packets());
  queue().disarm_interrupt(10ms);
  send(3);
  EXPECT_EQ(std::vector<int>{1}, receive(1));
  EXPECT_TRUE(queue().has_packets());
  EXPECT_EQ(std::vector<int>{2}, receive(8));
  EXPECT_EQ(std::vector<int>{3}, receive(8));
  EXPECT_FALSE(queue().has_packets());
  EXPECT_EQ(3u, queue().counters().rx_packets.get());
}

TEST_F(DpdkQueue, a_kept_packet_is_dropped_when_the_queue_stops) {
  send(1);
  send(2);
  EXPECT_TRUE(queue().has_packets());
  EXPECT_EQ(std::vector<int>{1}, receive(1));
  stop();
  EXPECT_FALSE(queue().has_packets());
  EXPECT_EQ(1u, queue().counters().drops[FrameDrop::kStopped].get());
  start();
  EXPECT_TRUE(receive(8).empty());
}

// Goal: the worker sees a new device only after the start, so that control may change it before.
TEST_F(DpdkQueue, a_reset_reaches_the_worker_at_the_start) {
  EXPECT_TRUE(queue().offloads().scatter);
  stop();
  ASSERT_TRUE(port->reopen().has_value());
  EXPECT_EQ(-1, queue().wait_fd());
  EXPECT_TRUE(receive(8).empty());  // still stopped
  port->start();
  EXPECT_TRUE(port->stopped());  // the worker has not yet followed
  port->stop_begin();
  EXPECT_TRUE(receive(8).empty());
  EXPECT_TRUE(port->stopped());
  start();
  EXPECT_FALSE(port->stopped());
  EXPECT_TRUE(queue().offloads().scatter);
  send(7);
  EXPECT_EQ(std::vector<int>{7}, receive(8));
  EXPECT_EQ(1u, port->show().resets);
  EXPECT_EQ(0u, port->show().resets_failed);
}

}  // namespace
}  // namespace ulnet::dpdk
