// RoCE's queue of a packet port, between the stack of a real port and the provider's worker. Packets are taken,
// refused, given back and sent.
#include <gtest/gtest.h>
#include <rte_mempool.h>

#include "lnd/net/packet/eth.h"
#include "lnd/rc/roce/port_queue.h"
#include "lnd/rc/roce/proto/headers.h"
#include "tests/payload_bytes.h"
#include "tests/unit/rc/roce_port.h"

namespace ulnet::test {
namespace {

using dpdk::FrameDrop;
using rc::roce::Arrival;
using rc::roce::Departure;
using rc::roce::kArrivalPieces;
using rc::roce::kInboxPackets;
using rc::roce::RoceQueue;
using rc::roce::WorkerPort;

constexpr unsigned kLead = dpdk::kIpv4Bytes + dpdk::kUdpBytes;

FrameBytes bytes_of(const Arrival& arrival) {
  FrameBytes bytes;
  for (unsigned i = 0; i < arrival.piece_count; ++i)
    bytes.insert(bytes.end(), arrival.pieces[i].begin(), arrival.pieces[i].end());
  return bytes;
}

/// The provider has each queue of the port.
class RoceQueueTest : public ::testing::Test {
 protected:
  void open(const dpdk::PortConfig& config, unsigned workers = 1) {
    provider = std::make_unique<NotedProvider>(workers);
    ASSERT_TRUE(port = ring_open(config, now, workers));
    ASSERT_EQ(port->queue_count(), workers);
    for (unsigned i = 0; i < workers; ++i) {
      stacks.push_back(
          std::make_unique<dpdk::Stack>(stack_config(port->config(), port->mac()), port->queue(i), nullptr));
      queues.push_back(
          std::make_unique<RoceQueue>(*provider, number, WorkerId{uint16_t(i)}, port->queue(i), *stacks.back()));
      ASSERT_TRUE(queues.back()->open());
      EXPECT_EQ(queues.back()->turn(now), 0u) << "the port has no number yet";
    }
    number = *provider->add_port({.name = config.name, .workers = workers});
    for (auto& queue : queues) EXPECT_EQ(queue->turn(now), 1u);
    ASSERT_EQ(provider->queues.size(), workers);
  }
  void open() { open(ring_config("roce")); }
  void TearDown() override {
    for (auto& queue : queues) queue->finish(now);
    for (auto& stack : stacks) stack->shut(now);
    if (port == nullptr) return;
    EXPECT_TRUE(provider->queues.empty());
    ring_stop(*port, now);
    for (unsigned i = 0; i < port->queue_count(); ++i) EXPECT_TRUE(pool(i).whole()) << i;
    EXPECT_TRUE(port->packets_conserved());
  }
  dpdk::PacketPool& pool(unsigned index = 0) { return port->queue(index).pool(); }
  [[nodiscard]] uint64_t dropped(FrameDrop reason, unsigned index = 0) {
    return port->queue(index).counters().drops[reason].get();
  }
  /// As the provider's worker sees the queue.
  WorkerPort& side(uint16_t worker = 0) { return *provider->queues.at({0, worker}); }
  /// Frames come, and the stack hands them on.
  void come(const FrameBytes& frame, const std::vector<uint32_t>& cuts = {}, unsigned index = 0) {
    ring_put(port->queue(index), frame, now, cuts);
    EXPECT_EQ(stacks[index]->poll(dpdk::kBurst, now), 1u);
  }
  [[nodiscard]] unsigned take(Arrival& one, uint16_t worker = 0) { return side(worker).take({&one, 1}, now); }
  /// Takes all, and returns the first byte behind UDP of each.
  std::vector<uint8_t> take_all() {
    std::vector<uint8_t> first;
    for (Arrival one; take(one) == 1; side().release(one)) first.push_back(uint8_t(bytes_of(one).at(kLead)));
    return first;
  }
  /// A packet of these parts for end 2. The parts stay until the object ends.
  struct Parts {
    FrameBytes head, payload, tail;
    Segment segment{};
    Departure departure;
  };
  static void fill(Parts& parts, uint32_t payload_bytes) {
    const FrameBytes frame = frame_of(1, 2, FrameBytes(12 + payload_bytes + 4));
    parts.head.assign(frame.begin() + dpdk::kEthBytes, frame.begin() + dpdk::kEthBytes + kLead + 12);
    parts.payload = test::bytes_of(payload_bytes, 3);
    parts.tail = test::bytes_of(4, 99);
    parts.segment = {parts.payload.data(), payload_bytes, {}};
    parts.departure.to = ring_address(2);
    parts.departure.head = parts.head;
    parts.departure.payload = PayloadCursor(Payload{&parts.segment, 1, 0, payload_bytes});
    parts.departure.bytes = payload_bytes;
    parts.departure.tail = parts.tail;
  }
  /// All packets that have been sent, from IP on.
  std::vector<FrameBytes> sent() {
    side().flush(now);
    std::vector<FrameBytes> frames = ring_take(port->queue(0), now);
    for (FrameBytes& frame : frames) frame.erase(frame.begin(), frame.begin() + dpdk::kEthBytes);
    return frames;
  }

  Instant now = kNever + 1s;
  std::unique_ptr<NotedProvider> provider;
  rc::roce::PortNumber number{-1};
  std::unique_ptr<dpdk::Port> port;
  std::vector<std::unique_ptr<dpdk::Stack>> stacks;
  std::vector<std::unique_ptr<RoceQueue>> queues;
};

TEST_F(RoceQueueTest, a_packet) {
  open();
  EXPECT_FALSE(side().pending());
  const FrameBytes frame = frame_of(2, 1, test::bytes_of(100), {.traffic_class = 0x6B});
  come(frame);
  EXPECT_TRUE(side().pending());
  Arrival one;
  ASSERT_EQ(take(one), 1u);
  EXPECT_FALSE(side().pending());
  EXPECT_EQ(one.source, ring_address(2));
  EXPECT_EQ(one.destination, ring_address(1));
  EXPECT_EQ(one.traffic_class, 0x6B);
  EXPECT_EQ(one.bytes, 100u);
  EXPECT_EQ(one.piece_count, 1u);
  EXPECT_EQ(bytes_of(one), FrameBytes(frame.begin() + dpdk::kEthBytes, frame.end()));
  side().release(one);
}

// Goal: bytes that pad a short frame are not part of the packet.
TEST_F(RoceQueueTest, a_padded_frame) {
  open();
  FrameBytes frame = frame_of(2, 1, test::bytes_of(5));
  frame.resize(60);
  come(frame);
  come(frame, {50});  // the second buffer has padding alone
  for (int i = 0; i < 2; ++i) {
    Arrival one;
    ASSERT_EQ(take(one), 1u);
    EXPECT_EQ(one.bytes, 5u);
    EXPECT_EQ(bytes_of(one), FrameBytes(frame.begin() + dpdk::kEthBytes, frame.begin() + dpdk::kEthBytes + kLead + 5));
    side().release(one);
  }
}

// Goal: the inbox has a bound. Packets beyond are counted, and their buffers are free at once.
TEST_F(RoceQueueTest, an_inbox_that_is_full) {
  open();
  constexpr unsigned kMore = 40;
  for (unsigned i = 0; i < kInboxPackets; ++i) come(frame_of(2, 1, {std::byte(uint8_t(i))}));
  EXPECT_EQ(queues[0]->room(), 0u);
  EXPECT_EQ(dropped(FrameDrop::kRoceBusy), 0u);
  const uint32_t free = pool().free_count();
  for (unsigned i = 0; i < kMore; ++i) come(frame_of(2, 1, {std::byte{0xFF}}));
  EXPECT_EQ(dropped(FrameDrop::kRoceBusy), kMore);
  EXPECT_EQ(pool().free_count(), free);
  const std::vector<uint8_t> all = take_all();
  ASSERT_EQ(all.size(), kInboxPackets);
  for (unsigned i = 0; i < kInboxPackets; ++i) ASSERT_EQ(all[i], uint8_t(i));
  EXPECT_EQ(queues[0]->room(), rc::roce::kTurnPackets);
}

// Goal: the worker of a connection stands still. The packets stay in the device, and all come later, in order.
TEST_F(RoceQueueTest, a_full_inbox_holds_the_port_back) {
  constexpr unsigned kMore = 40;
  provider = std::make_unique<NotedProvider>();
  ASSERT_TRUE(port = ring_open(ring_config("held"), now));
  const PortAppMaker maker = [&](unsigned, dpdk::PortQueue& queue, dpdk::Stack& stack,
                                 const dpdk::Mac&) -> Result<std::unique_ptr<PortApp>> {
    auto made = std::make_unique<RoceQueue>(*provider, number, WorkerId{0}, queue, stack);
    EXPECT_TRUE(made->open());
    return made;
  };
  number = *provider->add_port({.name = "held"});
  auto worker = std::move(*PortWorker::make(maker, *port, 0, nullptr));
  for (unsigned i = 0; i < kInboxPackets + kMore; ++i) {
    ring_put(port->queue(0), frame_of(2, 1, {std::byte(uint8_t(i))}), now);
    worker->turn(now);
  }
  EXPECT_EQ(dropped(FrameDrop::kRoceBusy), 0u);
  std::vector<uint8_t> all = take_all();
  EXPECT_EQ(all.size(), kInboxPackets);
  while (worker->turn(now) > 0) continue;
  for (const uint8_t one : take_all()) all.push_back(one);
  ASSERT_EQ(all.size(), kInboxPackets + kMore);
  for (unsigned i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], uint8_t(i));
  worker->finish(now);
}

// Goal: the CRC of RoCE and the places of its headers go by an IP header of 20 bytes. Other packets are refused, also
// if the 20 bytes before UDP look like such a header.
TEST_F(RoceQueueTest, ip_options) {
  open();
  for (const unsigned option_bytes : {4u, 40u})
    come(frame_of(2, 1, test::bytes_of(100), {.option_bytes = option_bytes}));
  come(frame_of(2, 1, test::bytes_of(100), {.option_bytes = 4, .identification = 0x4500}));
  come(frame_of(2, 1, {std::byte{7}}));
  EXPECT_EQ(take_all(), std::vector<uint8_t>{7});
  EXPECT_EQ(dropped(FrameDrop::kRoceHeader), 3u);
}

// Goal: pieces begin with the IP header, with or without a tag before it.
TEST_F(RoceQueueTest, a_priority_tag) {
  open();
  const FrameBytes plain = frame_of(2, 1, test::bytes_of(100));
  come(frame_of(2, 1, test::bytes_of(100), {.vlan_tags = {0x6000}}));
  Arrival one;
  ASSERT_EQ(take(one), 1u);
  EXPECT_EQ(bytes_of(one), FrameBytes(plain.begin() + dpdk::kEthBytes, plain.end()));
  side().release(one);
  come(frame_of(2, 1, test::bytes_of(100), {.vlan_tags = {7}}));
  EXPECT_FALSE(side().pending()) << "another VLAN";
}

TEST_F(RoceQueueTest, a_port_of_a_vlan) {
  dpdk::PortConfig config = ring_config("vlan");
  config.vlan = 7;
  open(config);
  come(frame_of(2, 1, test::bytes_of(100), {.vlan_tags = {0xE007}}));
  Arrival one;
  ASSERT_EQ(take(one), 1u);
  EXPECT_EQ(uint8_t(bytes_of(one)[0]), 0x45);
  EXPECT_EQ(bytes_of(one).size(), kLead + 100);
  side().release(one);
  Parts parts;
  fill(parts, 1000);
  ASSERT_TRUE(side().send(parts.departure, now));
  side().flush(now);
  const auto frames = ring_take(port->queue(0), now);
  ASSERT_EQ(frames.size(), 1u);
  FrameBytes expected = frame_of(1, 2, {}, {.vlan_tags = {7}});
  expected.resize(dpdk::kEthBytes + dpdk::kVlanBytes);
  const FrameBytes behind = test::bytes_of(parts.departure);
  expected.insert(expected.end(), behind.begin(), behind.end());
  EXPECT_EQ(frames[0], expected);
}

// Goal: a frame in several buffers is handed on as it lies there, if all headers are in the first buffer.
TEST_F(RoceQueueTest, a_frame_in_several_buffers) {
  dpdk::PortConfig config = ring_config("scatter");
  config.mtu = 9000;
  config.in_flight = 64;
  open(config);
  constexpr unsigned kHeaders = dpdk::kEthBytes + kLead + rc::roce::kRoceHeadersMax;
  const FrameBytes frame = frame_of(2, 1, test::bytes_of(8000));
  const FrameBytes packet(frame.begin() + dpdk::kEthBytes, frame.end());
  const std::vector<std::vector<uint32_t>> all = {{}, {2048}, {kHeaders, 2000, 2000}, {kHeaders, 1, 2000}, {1000, 999}};
  for (const auto& cuts : all) {
    come(frame, cuts);
    Arrival one;
    ASSERT_EQ(take(one), 1u) << cuts.size();
    EXPECT_GT(one.piece_count, 3u);
    EXPECT_EQ(one.bytes, 8000u);
    EXPECT_EQ(bytes_of(one), packet);
    side().release(one);
  }
  EXPECT_EQ(dropped(FrameDrop::kRoceHeader), 0u);
  come(frame, {kHeaders - 1});
  come(frame, {dpdk::kEthBytes + 1});
  come(frame, {1000, 1, 1, 1});  // into more pieces than an Arrival has
  EXPECT_EQ(take_all(), std::vector<uint8_t>{});
  EXPECT_EQ(dropped(FrameDrop::kRoceHeader), 3u);
  static_assert(kArrivalPieces == 6);
}

// Goal: as many buffers as `in_flight` covers can be kept, also those of a frame in several. Each goes back once.
TEST_F(RoceQueueTest, packets_that_are_kept) {
  dpdk::PortConfig config = ring_config("keep");
  config.in_flight = 5;
  open(config);
  const FrameBytes frame = frame_of(2, 1, test::bytes_of(400));
  std::vector<void*> kept;
  for (unsigned i = 0; i < 4; ++i) {
    come(frame, i % 2 == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{200});
    Arrival one;
    ASSERT_EQ(take(one), 1u);
    if (side().keep(one)) {
      kept.push_back(one.packet);
      continue;
    }
    side().release(one);
    EXPECT_EQ(i, 3u) << "1, 2 and 1 buffers are kept, and 2 are too many";
  }
  EXPECT_EQ(kept.size(), 3u);
  EXPECT_EQ(pool().held(), 4u);
  EXPECT_EQ(port->queue(0).counters().copied.get(), 1u);
  for (void* packet : kept) side().let_go(packet);
  EXPECT_EQ(pool().held(), 0u);
  EXPECT_TRUE(pool().whole());
}

// Goal: only its own worker counts the buffers of a pool, so packets that were handed over are not kept.
TEST_F(RoceQueueTest, a_packet_of_another_worker_is_not_kept) {
  open(ring_config("others"), 2);
  come(frame_of(2, 1, test::bytes_of(400)));
  Arrival one;
  ASSERT_EQ(take(one), 1u);
  EXPECT_FALSE(side(1).keep(one));
  side(1).release(one);
  EXPECT_EQ(pool(1).held(), 0u);
}

// Goal: in pages of 4 KiB, as in this process, nothing is kept unless that was configured.
TEST_F(RoceQueueTest, small_pages) {
  dpdk::PortConfig config = ring_config("small");
  config.hold_small = false;
  open(config);
  come(frame_of(2, 1, test::bytes_of(400)));
  Arrival one;
  ASSERT_EQ(take(one), 1u);
  EXPECT_FALSE(side().keep(one));
  side().release(one);
}

// Goal: with too few buffers, nothing is sent and nothing is kept, and the packet can be sent when there are some.
TEST_F(RoceQueueTest, no_buffer_is_left) {
  dpdk::PortConfig config = ring_config("empty");
  config.mtu = 4200;
  config.in_flight = 64;
  open(config);
  const uint32_t one_buffer = pool().data_bytes() - kLead - 12;  // so that the CRC needs another one
  const std::vector<std::pair<uint32_t, bool>> all = {
      // bytes, and whether they are lent
      {0, false}, {100, false}, {one_buffer, false}, {one_buffer - 2, false}, {4096, false}, {4096, true}};
  for (const auto& [bytes, lent] : all) {
    Parts parts;
    fill(parts, bytes);
    rc::roce::Loan loan;
    if (lent) parts.departure.loan = &loan;
    bool was_sent = false;
    for (uint32_t left = 0; !was_sent; ++left) {
      ASSERT_LT(left, 8u);
      std::vector<rte_mbuf*> taken;
      while (rte_mbuf* one = pool().take()) taken.push_back(one);
      for (uint32_t i = 0; i < left; ++i, taken.pop_back()) dpdk::packet_free(taken.back());
      const uint64_t before = dropped(FrameDrop::kNoBuffer);
      was_sent = side().send(parts.departure, now);
      EXPECT_EQ(dropped(FrameDrop::kNoBuffer), before + (was_sent ? 0 : 1));
      EXPECT_TRUE(was_sent || pool().free_count() == left) << left;
      EXPECT_TRUE(was_sent || sent().empty());
      EXPECT_TRUE(left > 0 || !was_sent);
      for (rte_mbuf* one : taken) dpdk::packet_free(one);
    }
    const auto frames = sent();
    ASSERT_EQ(frames.size(), 1u) << bytes;
    EXPECT_EQ(frames[0], test::bytes_of(parts.departure)) << bytes;
    EXPECT_EQ(loan.is_open(), lent);
    EXPECT_TRUE(loan.end()) << "no packet is left";
  }
}

// Goal: a stopped port takes packets and drops them: they are sent again when it runs.
TEST_F(RoceQueueTest, a_stopped_port) {
  open();
  Parts parts;
  fill(parts, 1000);
  const uint32_t free = pool().free_count();
  ring_stop(*port, now);
  for (unsigned i = 1; i <= 3; ++i) {
    EXPECT_GT(side().room(now), 0u);
    EXPECT_TRUE(side().send(parts.departure, now));
    EXPECT_EQ(dropped(FrameDrop::kStopped), i);
  }
  EXPECT_EQ(pool().free_count(), free);
  ring_start(*port, now);
  EXPECT_EQ(sent().size(), 0u);
  ASSERT_TRUE(side().send(parts.departure, now));
  EXPECT_EQ(sent().size(), 1u);
}

// Goal: while the device is full, the queue has no room. All packets that were sent before leave later.
TEST_F(RoceQueueTest, a_device_that_is_full) {
  open();
  Parts parts;
  fill(parts, 64);
  size_t count = 0;
  for (; side().room(now) > 0; ++count) {
    ASSERT_LT(count, 5000u);
    ASSERT_TRUE(side().send(parts.departure, now));
  }
  EXPECT_GT(count, 64u);
  size_t left = 0;
  for (auto frames = ring_take(port->queue(0), now); !frames.empty(); frames = sent()) left += frames.size();
  EXPECT_EQ(left, count);
  EXPECT_GT(side().room(now), 0u);
  EXPECT_EQ(dropped(FrameDrop::kTxQueueFull) + dropped(FrameDrop::kTxRefused), 0u);
}

// Goal: when the port is closed, packets that nobody took are given back, and the provider has no queue of it.
TEST_F(RoceQueueTest, an_end_with_a_full_inbox) {
  open();
  for (unsigned i = 0; i < 100; ++i) come(frame_of(2, 1, test::bytes_of(100)));
  const uint32_t free = pool().free_count();
  queues[0]->finish(now);
  EXPECT_EQ(pool().free_count(), free + 100);
  EXPECT_TRUE(provider->queues.empty());
  come(frame_of(2, 1, test::bytes_of(100)));
  EXPECT_EQ(dropped(FrameDrop::kUdpPort), 1u) << "the UDP port is free again";
  queues[0] = std::make_unique<RoceQueue>(*provider, number, WorkerId{0}, port->queue(0), *stacks[0]);
  EXPECT_TRUE(queues[0]->open());
}

TEST_F(RoceQueueTest, the_udp_port_is_taken) {
  open();
  RoceQueue second(*provider, number, WorkerId{0}, port->queue(0), *stacks[0]);
  const auto opened = second.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, -EADDRINUSE);
  EXPECT_STREQ(opened.error().what, "RoCE needs UDP port 4791 of the packet port, which is bound to something else");
  come(frame_of(2, 1, {std::byte{7}}));
  EXPECT_EQ(take_all(), std::vector<uint8_t>{7}) << "the first one has it still";
}

// Goal: a worker gives back packets that another worker's queue received. Each buffer is where its owner can take it:
// not in the allocator's cache of this thread.
TEST_F(RoceQueueTest, packets_of_another_worker) {
  dpdk::PortConfig config = ring_config("two", 1);
  config.mtu = 9000;
  config.in_flight = 64;
  open(config, 2);
  const rte_mempool_cache* cache = rte_mempool_default_cache(pool(1).mempool(), rte_lcore_id());
  ASSERT_NE(cache, nullptr);
  for (const bool drops : {false, true}) {
    for (const size_t bytes : {100u, 8000u}) {
      come(frame_of(2, 1, test::bytes_of(bytes)), {}, 1);
      Arrival one;
      ASSERT_EQ(take(one, 1), 1u);
      const uint32_t cached = cache->len, free = pool(1).free_count();
      if (drops)
        side(0).drop(one, FrameDrop::kRoceQp, now);
      else
        side(0).release(one);
      EXPECT_EQ(cache->len, cached) << drops << bytes;
      EXPECT_EQ(pool(1).free_count(), free + one.piece_count) << drops << bytes;
    }
  }
  EXPECT_EQ(dropped(FrameDrop::kRoceQp, 0), 2u) << "the worker that drops it counts it";
  EXPECT_EQ(dropped(FrameDrop::kRoceQp, 1), 0u);
}

}  // namespace
}  // namespace ulnet::test
