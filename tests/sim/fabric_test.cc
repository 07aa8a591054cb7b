// Tests of the sim LND and its fabric: delivery, holding, windows, cancelling. Faults: fabric_fault_test.cc.
#include <numeric>

#include "tests/cluster/fabric_rig.h"

namespace ulnet::test {
namespace {

using Bits = std::vector<uint64_t>;

Bits up_to(uint64_t last) {
  Bits bits(last);
  std::iota(bits.begin(), bits.end(), 1u);
  return bits;
}

// Goal: messages of every size arrive in order, byte for byte, and both sides come to rest.
// Method: sizes around segment and half boundaries; the rig checks each byte and canaries around it.
TEST(SimFabric, puts_arrive_in_order_with_their_bytes) {
  for (const bool hold_memory : {false, true}) {
    FabricRig rig({.rules = {.bytes_per_second = 1'000'000'000, .body_delay_max = 10us, .hold_memory = hold_memory}});
    uint64_t bits = 0;
    for (uint32_t bytes : {0u, 1u, 2u, 3u, 7u, 4096u, 65537u, kMaxPayload}) rig.put(1, 2, ++bits, bytes);
    rig.run_for(1s);
    EXPECT_EQ(rig.core(2).received, up_to(bits));
    EXPECT_EQ(rig.fabric.counts().tx_done, bits);
    EXPECT_EQ(rig[1].ups + rig[2].ups, 2);
    rig.expect_quiet();
  }
}

TEST(SimFabric, what_goes_beyond_the_window_is_discarded) {
  FabricRig rig;
  rig.core(2).into_limit = 100;
  rig.put(1, 2, 1, 5000);
  rig.put(1, 2, 2, 50);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, up_to(2));
  rig.expect_quiet();
}

TEST(SimFabric, delays_are_those_of_the_rules) {
  FabricRig rig({.rules = {.delay_min = 3ms, .delay_max = 3ms, .bytes_per_second = 1'000'000}});
  const Instant begin = rig.now;
  rig.put(1, 2, 1, 1000);
  rig.run_for(1s);
  // Request and answer 3 ms each, then 3 ms for the header and 1 ms for 1000 bytes at 1 MB/s.
  const auto expected = (begin + 10ms).time_since_epoch().count();
  EXPECT_NE(rig.trace.find(fmt::format("{} n2.0 rx_done 1 0 0", expected)), std::string::npos) << rig.trace;
}

// Goal: zero copy means that tx_done waits for delivery; else it means that the message left.
TEST(SimFabric, hold_memory_keeps_the_tx_until_delivery) {
  for (const bool hold_memory : {false, true}) {
    FabricRig rig({.rules = {.delay_min = 1ms, .delay_max = 1ms, .hold_memory = hold_memory}});
    rig.core(2).on_header = [](RxSlot&) { return RxVerdict::kHold; };
    TestTx& tx = rig.put(1, 2, 1, 1000);
    rig.run_for(1s);
    EXPECT_EQ(tx.done, !hold_memory);
    rig.core(2).resume(**rig.core(2).held.begin(), rig.now);
    EXPECT_EQ(rig.core(2).received, Bits{1});
    rig.run_for(10ms);
    EXPECT_TRUE(tx.done);
    rig.expect_quiet();
  }
}

// Goal: a held message stops those behind it on its connection, the window stops the sender, other connections go on.
TEST(SimFabric, holding_pushes_back_to_the_sender) {
  FabricRig rig({.rules = {.window = 4}}, 3);
  rig.core(2).on_header = [](RxSlot& slot) {
    return RecordingCore::bits_of(slot) == 1 ? RxVerdict::kHold : RxVerdict::kReceive;
  };
  for (uint64_t bits = 1; bits <= 10; ++bits) rig.put(1, 2, bits, 100);
  for (uint64_t bits = 21; bits <= 23; ++bits) rig.put(3, 2, bits, 100);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, (Bits{21, 22, 23}));
  EXPECT_EQ(rig.fabric.counts().launched, 4u + 3u);
  EXPECT_NE(rig.fabric.check_quiescent().find("6 Tx wait for 10.0.0.2@tcp (window full)"), std::string::npos)
      << rig.fabric.check_quiescent();
  rig.core(2).resume(**rig.core(2).held.begin(), rig.now);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, (Bits{21, 22, 23, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  rig.expect_quiet();
}

TEST(SimFabric, a_protocol_error_closes_the_connection) {
  FabricRig rig({.rules = {.hold_memory = true}});
  for (const bool after_hold : {false, true}) {
    rig.core(2).on_header = [&](RxSlot&) { return after_hold ? RxVerdict::kHold : RxVerdict::kProtocolError; };
    TestTx& tx = rig.put(1, 2, 1, 100);
    rig.run_for(1s);
    if (after_hold) {
      EXPECT_FALSE(tx.done);
      rig.core(2).resume(**rig.core(2).held.begin(), rig.now, RxVerdict::kProtocolError);
      rig.run_for(1s);
    }
    EXPECT_TRUE(tx.done);
    EXPECT_EQ(tx.how.error, -ECONNRESET);
    EXPECT_EQ(tx.how.health, LndStatus::kRemoteDropped);
    rig.core(2).on_header = nullptr;
    rig.put(1, 2, 2, 100);  // over a new connection
    rig.run_for(1s);
    EXPECT_EQ(rig.core(2).received.back(), 2u);
    rig.expect_quiet();
  }
  EXPECT_EQ(rig.fabric.counts().connections, 3u);
}

// Goal: in the rdma mode a held message lets the others pass. A receive that is cut short or unwanted ends well. Memory
// comes back when the connection ends. The rig checks each byte and the canaries around it.
TEST(SimFabric, remote_writes_arrive_with_their_bytes_or_not_at_all) {
  FabricRig rig({.rules = {.bytes_per_second = 1'000'000'000, .body_delay_max = 10us}, .rdma_above = 1000});
  rig.core(2).on_header = [](RxSlot& slot) {
    EXPECT_EQ(slot.rdma_request, slot.header.payload_length > 1000);
    return RecordingCore::bits_of(slot) == 2 ? RxVerdict::kHold : RxVerdict::kReceive;
  };
  uint64_t bits = 0;
  for (uint32_t bytes : {0u, 5000u, 1000u, 1001u, kMaxPayload}) rig.put(1, 2, ++bits, bytes);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).seen, up_to(5));
  EXPECT_EQ(rig.core(2).received.size(), 4u);
  rig.core(2).into_limit = 70;
  rig.core(2).resume(**rig.core(2).held.begin(), rig.now);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received.back(), 2u);
  rig.core(2).into_limit = 0;
  TestTx& unwanted = rig.put(1, 2, 6, 5000);
  rig.run_for(1s);
  EXPECT_TRUE(unwanted.done);
  EXPECT_EQ(unwanted.how.error, 0);
  rig.core(2).into_limit = UINT32_MAX;
  rig.core(2).on_header = nullptr;
  TestTx& cut_off = rig.put(1, 2, 7, kMaxPayload);
  while (rig.core(2).receiving.empty()) rig.run_for(1us);
  RxSlot& slot = *rig.core(2).receiving[0];
  rig.lnd(2).divert(slot, rig.now);
  EXPECT_TRUE(rig.core(2).receiving.empty()) << "the peer cannot write any more";
  rig.run_for(1s);
  EXPECT_NE(cut_off.how.error, 0);
  EXPECT_EQ(rig.fabric.counts().put_requests, 5u);
  rig.expect_quiet();
}

// Goal: what the core takes along does not stop the stream, but keeps its place in the sender's window; it stays in its
// place though the connection breaks. What has still to come is not offered.
TEST(SimFabric, taken_messages_let_the_stream_go_on_until_the_window_is_full) {
  FabricRig rig({.rules = {.window = 3}});
  bool offered = true;
  rig.core(2).on_header = [&](RxSlot& slot) {
    offered = slot.movable;
    return slot.movable && RecordingCore::bits_of(slot) != 2 ? RxVerdict::kTaken : RxVerdict::kReceive;
  };
  for (uint64_t bits = 1; bits <= 6; ++bits) rig.put(1, 2, bits, 100);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).seen, (Bits{1, 2, 3, 4}));
  EXPECT_EQ(rig.core(2).received, Bits{2});
  const auto release = [&](uint64_t bits) {
    for (RxSlot* slot : rig.core(2).taken)
      if (RecordingCore::bits_of(*slot) == bits) return rig.core(2).release(*slot, rig.now);
    ADD_FAILURE() << bits << " is not taken";
  };
  release(4);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).seen, (Bits{1, 2, 3, 4, 5}));
  rig.fabric.reset(tcp(1), tcp(2));
  rig.run_for(1s);
  EXPECT_FALSE(rig.lnd(2).idle());
  for (uint64_t bits : {1, 3, 5}) release(bits);
  rig.run_for(1s);
  release(6);  // came over a new connection
  EXPECT_EQ(rig.core(2).received, (Bits{2, 4, 1, 3, 5, 6}));
  rig.fabric.rules().body_delay_max = 1ms;
  rig.fabric.rules().bytes_per_second = 1'000'000;
  rig.put(1, 2, 7, 100);
  rig.run_for(1s);
  EXPECT_FALSE(offered);
  for (RxSlot* slot : std::set(rig.core(2).taken)) rig.core(2).release(*slot, rig.now);
  rig.run_for(1s);
  rig.expect_quiet();
}

// Goal: divert gives the memory back at once and the stream goes on behind the diverted message.
TEST(SimFabric, divert_frees_the_memory_and_the_stream_goes_on) {
  FabricRig rig({.rules = {.bytes_per_second = 1'000'000}});
  rig.put(1, 2, 1, 10'000);
  rig.put(1, 2, 2, 10);
  rig.run_for(1ms);
  ASSERT_EQ(rig.core(2).receiving.size(), 1u);
  RxSlot& slot = *rig.core(2).receiving.front();
  rig.lnd(2).divert(slot, rig.now);
  EXPECT_NE(rig.trace.find(fmt::format("rx_done 1 {} 0", -ECANCELED)), std::string::npos);
  rig.lnd(2).divert(slot, rig.now);  // too late: no effect
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, Bits{2});
  rig.expect_quiet();
}

TEST(SimFabric, cancel_before_and_after_the_tx_has_begun) {
  FabricRig rig({.rules = {.hold_memory = true, .window = 1}});
  rig.core(2).on_header = [](RxSlot&) { return RxVerdict::kHold; };
  TestTx& begun = rig.put(1, 2, 1, 100);
  TestTx& waiting = rig.put(1, 2, 2, 100);
  rig.run_for(1s);
  rig.lnd(1).cancel(waiting, false, rig.now);
  EXPECT_TRUE(waiting.done);
  EXPECT_EQ(waiting.how.error, -ECANCELED);
  EXPECT_EQ(waiting.how.health, LndStatus::kOk);
  rig.lnd(1).cancel(begun, false, rig.now);
  EXPECT_FALSE(begun.done);
  rig.lnd(1).cancel(begun, true, rig.now);
  EXPECT_TRUE(begun.done);
  EXPECT_NE(begun.how.error, 0);
  rig.run_for(1s);
  ASSERT_EQ(rig.core(2).held.size(), 1u);  // the connection is dead, the core still has the slot
  rig.core(2).resume(**rig.core(2).held.begin(), rig.now);
  rig.run_for(1s);
  EXPECT_TRUE(rig.core(2).received.empty());
  EXPECT_NE(rig.trace.find(fmt::format("rx_done 1 {} 7", -ECONNRESET)), std::string::npos);
  rig.expect_quiet();
}

// Goal: calls back into the LND from within its calls to the core do no harm.
// Method: tx_done submits again, rx_header cancels by force on the very connection that it came over.
TEST(SimFabric, the_core_may_call_back) {
  FabricRig rig({.rules = {.delay_min = 1ms, .delay_max = 1ms, .hold_memory = true}});
  int rounds = 0;
  rig.core(1).on_tx_done = [&](TestTx&) {
    if (++rounds < 20) rig.put(1, 2, uint64_t(rounds) + 1, 64);
  };
  TestTx* back = nullptr;
  rig.core(2).on_header = [&](RxSlot& slot) {
    const uint64_t bits = RecordingCore::bits_of(slot);
    if (bits == 4) back = &rig.put(2, 1, 100, 64);
    if (bits == 5 && back != nullptr && !back->done) rig.lnd(2).cancel(*back, true, rig.now);
    return bits % 3 == 0 ? RxVerdict::kHold : RxVerdict::kReceive;
  };
  rig.core(1).on_header = [](RxSlot&) { return RxVerdict::kHold; };
  rig.put(1, 2, 1, 64);
  for (int i = 0; i < 40; ++i) {
    rig.run_for(10ms);
    while (!rig.core(2).held.empty()) rig.core(2).resume(**rig.core(2).held.begin(), rig.now);
  }
  EXPECT_EQ(rounds, 20);
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(back->how.error, -ECONNABORTED);
  while (!rig.core(1).held.empty()) rig.core(1).resume(**rig.core(1).held.begin(), rig.now);
  rig.run_for(1s);
  rig.expect_quiet();
}

// Goal: a NID can be reached by itself over the network (recovery pings do that).
TEST(SimFabric, a_nid_reaches_itself) {
  FabricRig rig({.rules = {.hold_memory = true}}, 1);
  for (uint64_t bits = 1; bits <= 5; ++bits) rig.put(1, 1, bits, 1000);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(1).received, up_to(5));
  rig.fabric.reset(tcp(1), tcp(1));
  rig.run_for(1s);
  rig.put(1, 1, 6, 1000);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(1).received, up_to(6));
  rig.expect_quiet();
}

// Goal: both sides dial at the same moment and end with one connection that serves both.
TEST(SimFabric, crossed_connects_make_one_connection) {
  FabricRig rig;
  rig.put(1, 2, 1, 10);
  rig.put(2, 1, 2, 10);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, Bits{1});
  EXPECT_EQ(rig.core(1).received, Bits{2});
  EXPECT_EQ(rig.fabric.counts().connections, 1u);
  rig.expect_quiet();
}

// Goal: whatever the moment at which the second side dials, everything arrives.
TEST(SimFabric, crossed_connects_at_any_distance) {
  for (int gap = 0; gap < 80; ++gap) {
    for (const uint32_t first : {1u, 2u}) {
      FabricRig rig({.seed = uint64_t(gap) + 1, .rules = {.delay_min = 5us, .delay_max = 20us}});
      rig.put(first, 3 - first, 1, 10);
      rig.run_for(gap * 1us);
      rig.put(3 - first, first, 2, 10);
      rig.run_for(1s);
      EXPECT_EQ(rig.core(3 - first).received, Bits{1});
      EXPECT_EQ(rig.core(first).received, Bits{2});
      rig.expect_quiet();
    }
  }
}

// Goal: a peer's traffic stays on the worker that control placed it on, both ways, with several workers.
TEST(SimFabric, peers_stay_on_their_workers) {
  FabricRig rig({}, 6, 3);
  for (uint32_t from = 1; from <= 6; ++from)
    for (uint32_t to = 1; to <= 6; ++to) rig.put(from, to, from * 10 + to, 500);
  rig.run_for(1s);
  for (uint32_t to = 1; to <= 6; ++to) {
    size_t count = 0;
    for (uint16_t w = 0; w < 3; ++w) {
      for (const uint64_t bits : rig[to].cores[w]->received) EXPECT_EQ((bits / 10 + 0x0A000000) % 3, w);
      count += rig[to].cores[w]->received.size();
    }
    EXPECT_EQ(count, 6u);
  }
  rig.expect_quiet();
}

// Goal: a stopped NI has nothing left anywhere; what had been accepted and copied arrives, what waited fails.
TEST(SimFabric, stopping_an_ni_drains_it) {
  FabricRig rig({.rules = {.delay_min = 1ms, .delay_max = 1ms, .window = 2}}, 2, 2);
  std::vector<TestTx*> txs;
  for (uint64_t bits = 1; bits <= 5; ++bits) txs.push_back(&rig.put(1, 2, bits, 100));
  rig.run_for(2500us);  // connected, two launched and under way
  rig[1].control->ni_stop(rig[1].ni, rig.now);
  rig.run_for(1s);
  EXPECT_TRUE(rig[1].stopped);
  for (const auto& lnd : rig[1].lnds) EXPECT_TRUE(lnd->idle());
  EXPECT_EQ(rig[2].cores[rig[2].worker_of(tcp(1))]->received, up_to(2));
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(txs[i]->how.error, i < 2 ? 0 : -ESHUTDOWN) << i;
  EXPECT_EQ(rig.put(1, 2, 9).how.error, -ESHUTDOWN);
  TestTx& refused = rig.put(2, 1, 10);
  rig.run_for(1s);
  EXPECT_EQ(refused.how.error, -ECONNREFUSED);
  EXPECT_EQ(rig[2].last_down, -ECONNREFUSED);
  rig.expect_quiet();
}

TEST(SimFabric, a_nid_belongs_to_one_node_and_one_net_type) {
  FabricRig rig;
  const auto again = rig[2].control->ni_start({.id = NiId{7}, .nid = tcp(1)}, rig.now);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, -EADDRINUSE);
  const auto other = rig[2].control->ni_start({.id = NiId{8}, .nid = Nid::v4(Net::of(NetType::kO2ib, 0), 1)}, rig.now);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, -EINVAL);
}

// Goal: in the rdma mode a device refuses a remote write from or to memory outside its regions, as an HCA does. The
// connection breaks. Payloads that the driver copies may lie anywhere.
TEST(SimFabric, a_device_refuses_writes_outside_its_regions) {
  FabricRig rig({.rdma_above = 1000, .regions = true});
  uint32_t last_id = 0;
  const auto add = [&](uint32_t node, std::span<Segment> segments, size_t cut = 0) {
    for (Segment& one : segments) {
      one.region = RegionId{++last_id};
      EXPECT_TRUE(rig[node].control->region_add(one.region, {one.base, one.bytes - cut}));
    }
  };
  uint64_t bits = 0;
  const auto put = [&](uint32_t bytes, const std::function<void(std::span<Segment>)>& prepare) {
    TestTx& tx = rig.core(1).make_put(rig[1].ni, rig[1].nid, tcp(2), ++bits, bytes);
    tx.peer_ni = PeerNiId{tcp(2).address_v4()};
    if (prepare) prepare(tx.segments);
    rig.lnd(1).submit(tx, rig.now);
    rig.run_for(1s);
    EXPECT_TRUE(tx.done);
    return tx.how.error;
  };
  const auto source = [&](std::span<Segment> segments) { add(1, segments); };
  const auto target = [&](std::span<Segment> segments) { add(2, segments); };
  const auto refused = [&] { return rig.fabric.counts().unregistered; };
  EXPECT_EQ(put(1000, nullptr), 0);
  EXPECT_EQ(put(5000, nullptr), -ECONNRESET);
  EXPECT_EQ(refused(), 1u);
  EXPECT_EQ(put(5000, source), -ECONNRESET);
  EXPECT_EQ(refused(), 2u);
  rig.core(2).on_memory = [&](std::span<Segment> segments) { add(2, segments, 10); };
  EXPECT_EQ(put(5000, source), -ECONNRESET);  // the last bytes of a segment lie outside
  EXPECT_EQ(refused(), 3u);
  rig.core(2).on_memory = target;
  EXPECT_EQ(put(5000, [&](std::span<Segment> segments) { add(1, segments, 1); }), -ECONNRESET);
  EXPECT_EQ(refused(), 4u);
  const auto swapped = [&](std::span<Segment> segments) {
    add(1, segments);
    std::swap(segments[0].region, segments[1].region);
  };
  EXPECT_EQ(put(5000, swapped), -ECONNRESET);
  EXPECT_EQ(refused(), 5u);
  EXPECT_EQ(put(5000, source), 0);
  EXPECT_EQ(refused(), 5u);
  EXPECT_EQ(rig.core(2).received, (Bits{1, 7}));
}

}  // namespace
}  // namespace ulnet::test
