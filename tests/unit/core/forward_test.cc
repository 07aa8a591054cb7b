// Forwarding on the bench: router credits, buffer pools, the half-pool rule, drops by name.
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

struct ForwardTest : ::testing::Test {
  ForwardTest() : bench({.peer_credits = 4, .rtr_credits = 3, .routing = RoutingState::kEnabled}) {
    from = &bench.add_peer(tcp(2));
    to = &bench.add_peer(tcp1(2));
    bench.add_peer(tcp1(3));
    bench.publish();
    bench.add_router_buffers(WorkerId{0}, {4, 4, 4});
    bench.settle();
  }
  RxSlot& send(uint32_t length, const Nid& dest = tcp1(2), const Nid& by = tcp(2)) {
    return bench.inject(put_header(dest, tcp(2), 9, 1, length), by);
  }
  void finish_all() {
    for (int i = 0; i < 100; ++i) {
      bench.settle();
      while (!bench.lnd().receiving.empty()) bench.lnd().complete_rx(*bench.lnd().receiving[0], 0, 1);
      while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
    }
    bench.settle();
  }
  uint64_t drops(Drop reason) { return bench.worker().counters[reason].get(); }
  Bench bench;
  PeerSlice* from;
  PeerSlice* to;
};

TEST_F(ForwardTest, header_and_payload_pass_unchanged) {
  send(5000);
  bench.settle();
  ASSERT_EQ(bench.lnd().receiving.size(), 1u);
  const RxSlot& slot = *bench.lnd().receiving[0];
  EXPECT_EQ(slot.into.length, 5000u);
  const wire::Header before = slot.header;
  const std::byte* buffer = slot.into.segments[0].base;
  bench.lnd().complete_rx(*bench.lnd().receiving[0], 0, 0x77);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  const Tx& tx = *bench.lnd().sent[0];
  EXPECT_EQ(tx.header.dest_nid, before.dest_nid);
  EXPECT_EQ(tx.header.src_nid, before.src_nid);
  EXPECT_EQ(tx.header.body, before.body);
  EXPECT_EQ(tx.payload.segments[0].base, buffer) << "sent from where it was received: no copy";
  EXPECT_EQ(tx.next_hop, tcp1(2));
  finish_all();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 1u);
  EXPECT_EQ(bench.worker().counters[Stat::kRouteLength].get(), 5000u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(ForwardTest, a_sender_holds_no_more_buffers_than_its_router_credits) {
  for (int i = 0; i < 6; ++i) send(0, i % 2 == 0 ? tcp1(2) : tcp1(3));
  bench.settle();
  EXPECT_EQ(bench.lnd().held.size(), 3u);
  EXPECT_EQ(from->rtr.free(), 0);
  finish_all();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 6u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(ForwardTest, a_pool_that_grows_and_shrinks_keeps_its_least_free_in_step) {
  EXPECT_EQ(bench.worker().pools[0].credits_min.get(), 4);
  send(0);
  bench.settle();
  EXPECT_EQ(bench.worker().pools[0].credits_min.get(), 3);
  bench.add_router_buffers(WorkerId{0}, {6, 0, 0});
  bench.settle();
  EXPECT_EQ(bench.worker().pools[0].credits_min.get(), 9);
  finish_all();
  EXPECT_EQ(bench.worker().pools[0].credits.get(), 10);
}

TEST_F(ForwardTest, no_next_hop_holds_more_than_half_a_pool) {
  bench.add_peer(tcp(3));
  bench.publish();
  for (int i = 0; i < 3; ++i) send(0);
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 2u) << "half of four";
  EXPECT_EQ(bench.lnd().held.size(), 1u);
  send(0, tcp1(3), tcp(3));
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 3u) << "the other next hop still gets through";
  finish_all();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 4u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(ForwardTest, nothing_is_dropped_however_long_it_waits_by_default_and_named_when_asked) {
  for (int i = 0; i < 5; ++i) send(0);
  bench.settle();
  bench.advance(1h);
  bench.settle();
  EXPECT_EQ(drops(Drop::kRouterHoldTimeout), 0u);
  bench.node.router_hold_timeout = 5s;
  bench.publish();
  bench.settle();
  EXPECT_EQ(drops(Drop::kRouterHoldTimeout), 3u);
  finish_all();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 2u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(ForwardTest, no_route_a_loop_and_a_lost_payload_are_dropped_by_name) {
  send(10, Nid::v4(Net::of(NetType::kTcp, 9), 1));
  finish_all();
  EXPECT_EQ(drops(Drop::kNoRoute), 1u);
  bench.add_route(Net::of(NetType::kTcp, 9), tcp(2));  // the gateway is who sent it
  bench.publish();
  send(10, Nid::v4(Net::of(NetType::kTcp, 9), 1));
  finish_all();
  EXPECT_EQ(drops(Drop::kRouteLoop), 1u);
  send(10);
  bench.settle();
  bench.lnd().complete_rx(*bench.lnd().receiving.at(0), -ECONNRESET);
  finish_all();
  EXPECT_EQ(drops(Drop::kRouterPayload), 1u);
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(ForwardTest, a_block_is_given_back_when_its_last_buffer_is_free_and_those_who_wait_are_dropped) {
  for (int i = 0; i < 3; ++i) send(0);
  bench.settle();
  ASSERT_EQ(bench.lnd().held.size(), 1u);
  ControlItem item;
  item.kind = ControlKind::kRouterRetire;
  item.object = bench.worker().pools[0].blocks.front();
  bench.tell(WorkerId{0}, item);
  bench.settle();
  EXPECT_EQ(drops(Drop::kRouterShutdown), 1u);
  EXPECT_TRUE(bench.take_control_items().empty()) << "two buffers are still out";
  finish_all();
  const auto items = bench.take_control_items();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].kind, WorkerKind::kRouterRetired);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(ForwardTest, replies_go_back_through_the_router_that_the_request_came_through) {
  const Nid far = Nid::v4(Net::of(NetType::kO2ib, 0), 5);
  bench.add_peer(tcp(3));
  bench.add_route(far.net(), tcp(2));
  bench.add_route(far.net(), tcp(3));
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  Submitter& s = bench.submitter(WorkerId{0});
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdTruncate});
  ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, 1, 0, MePosition::kTail, md));
  bench.settle();
  for (const Nid& router : {tcp(2), tcp(3), tcp(3), tcp(2)}) {
    bench.inject(get_header(tcp(1), far, 9, 1, 64), router);
    bench.settle();
    ASSERT_EQ(bench.lnd().sent.size(), 1u);
    EXPECT_EQ(bench.lnd().sent[0]->next_hop, router);
    EXPECT_EQ(bench.lnd().sent[0]->header.dest_nid, far);
    EXPECT_EQ(bench.lnd().sent[0]->header.src_nid, tcp(1));
    finish_all();
  }
}

}  // namespace
}  // namespace ulnet::test
