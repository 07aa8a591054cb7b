// Packet buffers and a real port that loops back (DPDK's ring). Payload is handed on and sent without a copy. Each
// lease comes back once, and no packet is lost.
#include <gtest/gtest.h>

#include "lnd/net/dpdk/stack.h"
#include "lnd/net/packet/net_address_text.h"
#include "tests/unit/dpdk/loop_port.h"

namespace ulnet::dpdk {
namespace {

class DpdkPackets : public LoopPort {};

// Goal: a send uses exactly the memory that was lent, and the lease comes back once, after the last frame.
TEST_F(DpdkPackets, lent_memory_is_sent_without_a_copy) {
  TxLease lease;
  int back = 0;
  lease.open(&count_back, &back);
  PayloadCursor cursor(payload(9000));
  std::array<std::byte, 60> header{};
  std::vector<rte_mbuf*> frames;
  for (int i = 0; i < 3; ++i) frames.push_back(frame_make(pool(), header, cursor, 3000, &lease, true));
  lease.close();
  EXPECT_EQ(0u, cursor.left());
  EXPECT_EQ(3u, frames[0]->nb_segs);  // headers, end of the first segment, the second
  EXPECT_EQ(memory.data() + 0, rte_pktmbuf_mtod(frames[0]->next, uint8_t*));
  EXPECT_EQ(memory.data() + 3000, rte_pktmbuf_mtod(frames[1]->next, uint8_t*));
  EXPECT_EQ(3060u, packet_bytes(frames[0]));
  packet_free(frames[2]);
  packet_free(frames[0]);
  EXPECT_EQ(0, back);
  packet_free(frames[1]);
  EXPECT_EQ(1, back);
  EXPECT_FALSE(lease.is_open());
}

TEST_F(DpdkPackets, short_payload_and_single_segment_ports_copy) {
  for (const bool multi_segment : {true, false}) {
    TxLease lease;
    int back = 0;
    lease.open(&count_back, &back);
    const uint32_t bytes = multi_segment ? kCopyMax : 1500;
    PayloadCursor cursor(payload(bytes));
    rte_mbuf* frame = frame_make(pool(), {}, cursor, bytes, &lease, multi_segment);
    lease.close();
    EXPECT_EQ(1, back);  // the frame refers to none of it
    EXPECT_EQ(1u, frame->nb_segs);
    EXPECT_EQ(0, std::memcmp(rte_pktmbuf_mtod(frame, void*), memory.data(), bytes));
    packet_free(frame);
  }
}

// Goal: an empty pool gives null, moves nothing and keeps nothing.
TEST_F(DpdkPackets, empty_pools) {
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* head = pool().take_head()) all.push_back(head);
  TxLease lease;
  int back = 0;
  lease.open(&count_back, &back);
  PayloadCursor cursor(payload(4000));
  rte_mbuf* copied = frame_make(pool(), {}, cursor, 4000, &lease, true);
  ASSERT_NE(nullptr, copied) << "without a head, the payload is copied";
  EXPECT_EQ(0u, cursor.left());
  lease.close();
  EXPECT_EQ(1, back) << "no packet refers to it";
  packet_free(copied);
  cursor = PayloadCursor(payload(4000));
  while (rte_mbuf* packet = pool().take()) all.push_back(packet);
  EXPECT_EQ(nullptr, frame_make(pool(), {}, cursor, 4000, nullptr, false));
  EXPECT_EQ(4000u, cursor.left());
  // One is left: it takes the first part, and comes back.
  packet_free(all.back());
  all.pop_back();
  iovec before, after;
  ASSERT_EQ(1u, cursor.pieces({&before, 1}));
  EXPECT_EQ(nullptr, frame_make(pool(), {}, cursor, 4000, nullptr, false));
  EXPECT_EQ(4000u, cursor.left());
  ASSERT_EQ(1u, cursor.pieces({&after, 1}));
  EXPECT_EQ(before.iov_base, after.iov_base);
  rte_mbuf* one = pool().take();
  EXPECT_NE(nullptr, one);
  if (one != nullptr) all.push_back(one);
  for (rte_mbuf* packet : all) packet_free(packet);
}

// Goal: packets become the segments of a payload without a copy. When a receiver has used its share, append() fails, so
// that it copies.
TEST_F(DpdkPackets, chains_hold_packets_until_the_share_is_used) {
  auto chain = std::make_unique<PacketChain>(pool());
  PayloadCursor cursor(payload(9000));
  rte_mbuf* jumbo = frame_make(pool(), std::array<std::byte, 42>{}, cursor, 9000, nullptr, true);
  const auto* first = rte_pktmbuf_mtod(jumbo, const std::byte*);
  ASSERT_EQ(5u, jumbo->nb_segs);
  ASSERT_TRUE(chain->append(jumbo, 42, 8999));
  const Payload got = chain->payload();
  EXPECT_EQ(5u, got.segment_count);
  EXPECT_EQ(8999u, got.length);
  EXPECT_EQ(first + 42, got.segments[0].base);
  std::vector<uint8_t> seen;
  for (uint32_t i = 0; i < got.segment_count; ++i)
    seen.insert(seen.end(), reinterpret_cast<uint8_t*>(got.segments[i].base),
                reinterpret_cast<uint8_t*>(got.segments[i].base) + got.segments[i].bytes);
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), memory.begin()));
  EXPECT_EQ(5u, pool().held());
  unsigned held = 5;
  for (;; ++held) {
    rte_mbuf* packet = pool().take();
    packet->data_len = 10;
    packet->pkt_len = 10;
    if (chain->append(packet, 0, 10)) continue;
    packet_free(packet);
    break;
  }
  EXPECT_EQ(200u, held);  // 40 in flight of 5 buffers each
  EXPECT_GE(pool().free_count(), pool().capacity() / 4);
  chain.reset();
  EXPECT_EQ(0u, pool().held());
}

TEST_F(DpdkPackets, linear) {
  PayloadCursor cursor(payload(2000));
  TxLease lease;
  int back = 0;
  lease.open(&count_back, &back);
  rte_mbuf* packet = frame_make(pool(), std::array<std::byte, 40>{}, cursor, 2000, &lease, true);
  lease.close();
  ASSERT_EQ(3u, packet->nb_segs);
  packet = packet_linear(pool(), packet);
  ASSERT_NE(nullptr, packet);
  EXPECT_EQ(1, back);
  EXPECT_EQ(1u, packet->nb_segs);
  EXPECT_EQ(0, std::memcmp(rte_pktmbuf_mtod_offset(packet, uint8_t*, 40), memory.data(), 2000));
  packet_free(packet);
  PayloadCursor long_cursor(payload(9000));
  rte_mbuf* jumbo = frame_make(pool(), {}, long_cursor, 9000, nullptr, true);
  EXPECT_EQ(nullptr, packet_linear(pool(), jumbo));  // does not fit
  packet_free(jumbo);
}

TEST_F(DpdkPackets, reads_and_sums_across_segments) {
  PayloadCursor cursor(payload(9000));
  rte_mbuf* packet = frame_make(pool(), {}, cursor, 9000, nullptr, true);
  std::array<std::byte, 64> scratch;
  for (uint32_t offset = 2000; offset < 2100; ++offset) {
    const Bytes part = packet_read(packet, offset, 64, scratch);
    ASSERT_EQ(64u, part.size());
    ASSERT_EQ(0, std::memcmp(part.data(), memory.data() + offset, 64));
  }
  EXPECT_TRUE(packet_read(packet, 8990, 64, scratch).empty());
  for (const uint32_t offset : {0u, 1u, 2047u, 2048u, 5001u}) {
    Checksum pieces, whole;
    packet_sum(packet, offset, 3999, pieces);
    whole.add(std::as_bytes(std::span(memory)).subspan(offset, 3999));
    EXPECT_EQ(whole.value(), pieces.value()) << offset;
  }
  packet_free(packet);
}

/// Takes datagrams and records the place of their bytes.
class Sink final : public UdpSink {
 public:
  void udp_received(std::span<Datagram> datagrams, Instant) override {
    for (Datagram& its : datagrams) {
      bytes.push_back(its.bytes);
      segments = its.packet->nb_segs;
      for (const rte_mbuf* segment = its.packet; segment != nullptr && where == nullptr; segment = segment->next)
        if (RTE_MBUF_HAS_EXTBUF(segment)) where = rte_pktmbuf_mtod(segment, uint8_t*);
      packet_free(its.packet);
    }
  }
  std::vector<uint32_t> bytes;
  unsigned segments = 0;
  const uint8_t* where = nullptr;
};

// Goal: a multi-segment datagram passes two stacks and a port without a copy, checksums right, and its lease returns.
// Method: the ring hands our own frames back; a second stack with the other addresses takes them from the queue.
TEST_F(DpdkPackets, datagram_through_a_port) {
  Stack sender(stack_config(port->config(), mac_parse("02:00:00:00:00:01").value()), port->queue(0), nullptr);
  PortConfig other = port->config();
  other.addresses.own = {prefix_parse("10.0.0.2/24").value()};
  Stack receiver(stack_config(other, mac_parse("02:00:00:00:00:02").value()), port->queue(0), nullptr);
  Sink sink;
  ASSERT_TRUE(receiver.udp_bind(4791, sink).has_value());
  EXPECT_EQ(-EADDRINUSE, receiver.udp_bind(4791, sink).error().code);
  UdpFlow flow;
  flow.destination = ip_parse("10.0.0.2").value();
  flow.source_port = 1234;
  flow.destination_port = 4791;
  TxLease lease;
  int back = 0;
  lease.open(&count_back, &back);
  PayloadCursor cursor(payload(8000));
  rte_mbuf* frame = frame_make(pool(), {}, cursor, 8000, &lease, true);
  EXPECT_TRUE(sender.udp_send(flow, frame, now));
  lease.close();
  sender.flush(now);
  EXPECT_EQ(0, back);
  EXPECT_EQ(1u, receiver.poll(64, now));
  EXPECT_EQ(std::vector<uint32_t>{8000}, sink.bytes);
  EXPECT_EQ(3u, sink.segments);  // headers, and the two pieces
  EXPECT_EQ(memory.data(), sink.where);
  EXPECT_EQ(1, back);
  // Three datagrams are counted: without a route, too long, and to a port without a sink.
  flow.destination = ip_parse("10.1.0.2").value();
  EXPECT_FALSE(sender.udp_send(flow, pool().take(), now));
  flow.destination = ip_parse("10.0.0.2").value();
  PayloadCursor long_cursor(payload(8990));
  EXPECT_FALSE(sender.udp_send(flow, frame_make(pool(), {}, long_cursor, 8990, nullptr, true), now));
  flow.destination_port = 9;
  EXPECT_TRUE(sender.udp_send(flow, pool().take(), now));
  sender.flush(now);
  EXPECT_EQ(1u, receiver.poll(64, now));
  auto& drops = port->queue(0).counters().drops;
  EXPECT_EQ(1u, drops[FrameDrop::kNoRoute].get());
  EXPECT_EQ(1u, drops[FrameDrop::kTxTooLong].get());
  EXPECT_EQ(1u, drops[FrameDrop::kUdpPort].get());
  sender.shut(now);
  receiver.shut(now);
}

// Goal: the checksum result of a NIC counts, good or bad. Without a result, the stack computes the checksum itself.
// Method: a good datagram is taken from the ring, damaged or not, marked as a NIC would, and put back.
TEST_F(DpdkPackets, checksums_as_the_device_says) {
  Stack sender(stack_config(port->config(), mac_parse("02:00:00:00:00:01").value()), port->queue(0), nullptr);
  PortConfig other = port->config();
  other.addresses.own = {prefix_parse("10.0.0.2/24").value()};
  Stack receiver(stack_config(other, mac_parse("02:00:00:00:00:02").value()), port->queue(0), nullptr);
  Sink sink;
  ASSERT_TRUE(receiver.udp_bind(4791, sink).has_value());
  UdpFlow flow;
  flow.destination = ip_parse("10.0.0.2").value();
  flow.source_port = 1234;
  flow.destination_port = 4791;
  constexpr unsigned kIpSum = kEthBytes + 10, kUdpSum = kEthBytes + kIpv4Bytes + 6;
  struct Case {
    uint64_t flags;
    unsigned damaged;  ///< offset; 0: nothing
    std::optional<FrameDrop> dropped;
  };
  for (const Case& its : std::initializer_list<Case>{{0, 0, {}},
                                                     {0, kIpSum, FrameDrop::kIpChecksum},
                                                     {0, kUdpSum, FrameDrop::kUdpChecksum},
                                                     {RTE_MBUF_F_RX_IP_CKSUM_GOOD, kIpSum, {}},
                                                     {RTE_MBUF_F_RX_IP_CKSUM_GOOD, kUdpSum, FrameDrop::kUdpChecksum},
                                                     {RTE_MBUF_F_RX_IP_CKSUM_BAD, 0, FrameDrop::kIpChecksum},
                                                     {RTE_MBUF_F_RX_L4_CKSUM_GOOD, kUdpSum, {}},
                                                     {RTE_MBUF_F_RX_L4_CKSUM_GOOD, kIpSum, FrameDrop::kIpChecksum},
                                                     {RTE_MBUF_F_RX_L4_CKSUM_BAD, 0, FrameDrop::kUdpChecksum}}) {
    const size_t taken = sink.bytes.size();
    auto& drops = port->queue(0).counters().drops;
    const uint64_t before = its.dropped ? drops[*its.dropped].get() : 0;
    PayloadCursor cursor(payload(500));
    ASSERT_TRUE(sender.udp_send(flow, frame_make(pool(), {}, cursor, 500, nullptr, false), now));
    sender.flush(now);
    std::array<rte_mbuf*, 4> frames{};
    ASSERT_EQ(1u, queue().receive(frames, now));
    if (its.damaged != 0) *rte_pktmbuf_mtod_offset(frames[0], std::byte*, its.damaged) ^= std::byte{0x55};
    frames[0]->ol_flags = its.flags;
    ASSERT_EQ(1u, queue().send({frames.data(), 1}, now));
    EXPECT_EQ(1u, receiver.poll(64, now));
    EXPECT_EQ(taken + (its.dropped ? 0 : 1), sink.bytes.size()) << its.flags << " " << its.damaged;
    if (its.dropped) {
      EXPECT_EQ(before + 1, drops[*its.dropped].get()) << its.flags << " " << its.damaged;
    }
  }
  sender.shut(now);
  receiver.shut(now);
}

TEST_F(DpdkPackets, reset_keeps_what_is_held) {
  rte_mbuf* held = pool().take();
  EXPECT_FALSE(port->reopen().has_value());  // in use
  port->stop_begin();
  (void)port->queue(0).receive({}, now);
  ASSERT_TRUE(port->reopen().has_value());
  port->start();
  packet_free(held);
  rte_mbuf* packets[1] = {pool().take()};
  rte_mbuf* received[1];
  packets[0]->data_len = 60;
  packets[0]->pkt_len = 60;
  (void)port->queue(0).receive({}, now);
  ASSERT_EQ(1u, port->queue(0).send(packets, now));
  ASSERT_EQ(1u, port->queue(0).receive(received, now));
  packet_free(received[0]);
  EXPECT_EQ(1u, port->show().resets);
}

}  // namespace
}  // namespace ulnet::dpdk
