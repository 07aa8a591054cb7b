// Forwarding on the bench: router credits, buffer pools, the half-pool rule, drops by name.
#include "dataplane/stages/forward.h"

#include <gtest/gtest.h>

#include <set>

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

/// A part of a payload that a driver has left in the kernel.
struct FakePiped final : PipedPayload {
  void to_memory(const Payload& window) override {
    EXPECT_EQ(window.length, 5000u);
    EXPECT_FALSE(is_begun);
    ++copied;
  }
  bool begun() const override { return is_begun; }
  void give_back() override { ++given_back; }
  bool is_begun = false;
  unsigned copied = 0, given_back = 0;
};

TEST_F(ForwardTest, a_part_that_stays_in_the_kernel_goes_out_by_the_same_driver) {
  FakePiped piped;
  RxSlot& slot = send(5000);
  bench.settle();
  ASSERT_TRUE(slot.may_pipe);
  slot.piped = &piped;
  bench.lnd().complete_rx(slot, 0, 0x77);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_EQ(bench.lnd().sent[0]->piped, &piped);
  EXPECT_EQ(piped.given_back, 0u);
  piped.is_begun = true;
  finish_all();
  EXPECT_EQ(piped.given_back, 1u);
  EXPECT_EQ(piped.copied, 0u);
  EXPECT_EQ(bench.worker().counters[TurnStat::kForwardedUncopied].get(), 1u);
  EXPECT_EQ(bench.worker().counters[Stat::kRouteLength].get(), 5000u);
  for (int i = 0; i < 4; ++i) send(5000);  // the buffers are used again
  bench.settle();
  while (!bench.lnd().receiving.empty()) bench.lnd().complete_rx(*bench.lnd().receiving[0], 0, 1);
  bench.settle();
  for (const Tx* tx : bench.lnd().sent) EXPECT_EQ(tx->piped, nullptr);
  finish_all();
  EXPECT_EQ(piped.given_back, 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: only the driver that left the part in the kernel can send it. For another, it is copied to its place.
TEST_F(ForwardTest, a_part_that_stays_in_the_kernel_is_copied_for_another_driver) {
  FakePiped piped;
  RxSlot& slot = send(5000);
  NiSlice other(slot.ni, slot.ni_slice->slot, 8, uint8_t(slot.ni_slice->lnd + 1));
  bench.settle();
  slot.piped = &piped;
  NiSlice* const was = std::exchange(slot.ni_slice, &other);
  bench.lnd().complete_rx(slot, 0, 0x77);
  bench.settle();
  slot.ni_slice = was;
  was->rx_count.set(0);  // its end was counted at the other slice
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_EQ(bench.lnd().sent[0]->piped, nullptr);
  EXPECT_EQ(piped.copied, 1u);
  finish_all();
  EXPECT_EQ(piped.given_back, 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(ForwardTest, a_driver_of_another_net_may_leave_nothing_in_the_kernel) {
  RxSlot& slot = send(5000);
  NiSlice other(slot.ni, slot.ni_slice->slot, 8, uint8_t(slot.ni_slice->lnd + 1));
  NiSlice* const was = std::exchange(slot.ni_slice, &other);
  bench.settle();
  EXPECT_FALSE(slot.may_pipe);
  finish_all();
  slot.ni_slice = was;
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

TEST_F(ForwardTest, nothing_is_dropped_before_the_hop_is_stuck_by_default_and_named_when_asked) {
  for (int i = 0; i < 5; ++i) send(0);
  bench.settle();
  bench.advance(kHopHoldMax - 1ms);
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
  bench.tell(WorkerId{0}, RouterRetireMsg{bench.worker().pools[0].blocks.front()});
  bench.settle();
  EXPECT_EQ(drops(Drop::kRouterShutdown), 1u);
  EXPECT_TRUE(bench.take_control_items().empty()) << "two buffers are still out";
  finish_all();
  const auto items = bench.take_control_items();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<RouterRetiredMsg>(items[0]));
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

// A net that only one of the peer's rails has a route to: the answer goes the way that the request came.
TEST_F(ForwardTest, a_reply_to_a_net_without_a_route_goes_back_over_the_gateway_that_the_request_came_over) {
  const Nid far = Nid::v4(Net::of(NetType::kO2ib, 0), 5);
  bench.add_peer(tcp(3));
  bench.add_route(Net::of(NetType::kTcp, 9), tcp(2));  // a gateway, though to another net
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  Submitter& s = bench.submitter(WorkerId{0});
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdTruncate});
  ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, 1, 0, MePosition::kTail, md));
  bench.settle();
  bench.inject(get_header(tcp(1), far, 9, 1, 64), tcp(2));
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_EQ(bench.lnd().sent[0]->next_hop, tcp(2));
  EXPECT_EQ(bench.lnd().sent[0]->header.dest_nid, far);
  finish_all();
  bench.inject(get_header(tcp(1), far, 9, 1, 64), tcp(3));
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty()) << "no route names this one as gateway";
  EXPECT_EQ(drops(Drop::kNoRoute), 1u);
}

// docs/wire/lnet.md §8.2: only between multi-rail peers, and only when the NI that is named is not healthy.
TEST_F(ForwardTest, the_last_router_takes_another_ni_of_a_multi_rail_peer_when_the_named_one_is_ill) {
  bench.add_peer(tcp(3));
  bench.join(tcp1(2), tcp1(3));
  bench.join(tcp(2), tcp(3));
  const auto next_hop = [&](const Nid& by, uint32_t portal = 9) {
    bench.publish();
    RxSlot& slot = bench.inject(put_header(tcp1(2), by, portal, 1, 0), by);
    (void)slot;
    bench.settle();
    EXPECT_EQ(bench.lnd().sent.size(), 1u);
    const Tx& tx = *bench.lnd().sent.at(0);
    EXPECT_EQ(tx.header.dest_nid, tx.next_hop);
    const Nid hop = tx.next_hop;
    finish_all();
    return hop;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next_hop(tcp(2)), tcp1(2)) << "healthy: exactly as named";
  bench.set_health(tcp1(2), 900);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next_hop(tcp(2)), tcp1(3));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next_hop(tcp(2), kReservedPortal), tcp1(2)) << "a ping means the NI it names";
  bench.set_health(tcp1(3), 800);
  EXPECT_EQ(next_hop(tcp(2)), tcp1(2)) << "the healthier one";
  bench.set_down(tcp1(2), true);
  EXPECT_EQ(next_hop(tcp(2)), tcp1(3)) << "what is down is dropped, so the other";
  bench.set_down(tcp1(2), false);
  bench.set_health(tcp1(3), kHealthMax);
  bench.add_peer(tcp(4));
  EXPECT_EQ(next_hop(tcp(4)), tcp1(2)) << "a sender that is not multi-rail names one NID and means it";
}

struct TwoGateways : ForwardTest {
  TwoGateways() {
    for (const Nid& gateway : gateways) bench.add_route(far.net(), gateway);
    bench.publish();
  }
  [[nodiscard]] Nid charged() {
    for (const Nid& gateway : gateways)
      if (bench.local(gateway).buffers_held[2] > 0) return gateway;
    return kAnyNid;
  }
  void payload_comes() {
    bench.lnd().complete_rx(*bench.lnd().receiving.at(0), 0, 1);
    bench.settle();
  }
  const Nid far = Nid::v4(Net::of(NetType::kTcp, 9), 1);
  const std::array<Nid, 2> gateways{tcp1(2), tcp1(3)};
};

TEST_F(TwoGateways, the_one_that_a_buffer_is_charged_to_gets_the_message) {
  for (int i = 0; i < 4; ++i) {
    send(5000, far);
    bench.settle();
    const Nid hop = charged();
    bench.local(hop).tally->take(1 << 20);  // chosen again, the other one would win
    payload_comes();
    ASSERT_EQ(bench.lnd().sent.size(), 1u);
    EXPECT_EQ(bench.lnd().sent[0]->next_hop, hop);
    EXPECT_EQ(bench.lnd().sent[0]->header.dest_nid, far);
    finish_all();
    bench.local(hop).tally->give_back(1 << 20);
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: headers that come before any payload is here take the gateways in turn.
TEST_F(TwoGateways, headers_take_turns_though_no_payload_is_here_yet) {
  for (int i = 0; i < 2; ++i) send(5000, far);
  bench.settle();
  ASSERT_EQ(bench.lnd().receiving.size(), 2u);
  for (const Nid& gateway : gateways) EXPECT_EQ(bench.local(gateway).buffers_held[2], 1u);
  finish_all();
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a message whose only next hop goes down while its payload comes is dropped by that name, and not sent.
TEST_F(ForwardTest, next_hop_that_goes_down_while_the_payload_comes) {
  send(5000);
  bench.settle();
  bench.set_down(tcp1(2), true);
  bench.publish();
  bench.lnd().complete_rx(*bench.lnd().receiving.at(0), 0, 1);
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(drops(Drop::kNextHopDown), 1u);
  EXPECT_EQ(drops(Drop::kNoRoute), 0u);
  finish_all();
  EXPECT_EQ(bench.local(tcp1(2)).buffers_held[2], 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(TwoGateways, the_charge_moves_when_the_message_has_to_go_another_way) {
  send(5000, far);
  bench.settle();
  const Nid hop = charged(), other = hop == gateways[0] ? gateways[1] : gateways[0];
  bench.set_down(hop, true);
  bench.publish();
  payload_comes();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_EQ(bench.lnd().sent[0]->next_hop, other);
  EXPECT_EQ(bench.local(hop).buffers_held[2], 0u);
  EXPECT_EQ(bench.local(other).buffers_held[2], 1u);
  finish_all();
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(TwoGateways, what_was_no_loop_at_the_header_may_be_one_at_the_payload) {
  bench.add_route(Net::of(NetType::kTcp, 8), tcp1(2));
  bench.publish();
  send(5000, Nid::v4(Net::of(NetType::kTcp, 8), 1));
  bench.settle();
  bench.join(tcp1(2), tcp(2));  // discovered meanwhile: the gateway is who sent it
  bench.publish();
  payload_comes();
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(drops(Drop::kRouteLoop), 1u);
  finish_all();
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a message is sent again over the other gateway only while all of it is there.
TEST_F(TwoGateways, a_part_that_has_left_the_kernel_is_sent_no_second_time) {
  bench.join(tcp1(2), tcp1(3));
  bench.publish();
  for (const bool begun : {false, true}) {
    SCOPED_TRACE(begun);
    FakePiped piped;
    send(5000, far);
    bench.settle();
    bench.lnd().receiving.at(0)->piped = &piped;
    payload_comes();
    ASSERT_EQ(bench.lnd().sent.size(), 1u);
    const Nid first = bench.lnd().sent[0]->next_hop;
    piped.is_begun = begun;
    bench.lnd().complete_tx(*bench.lnd().sent[0], {-ECONNREFUSED, LndStatus::kRemoteDropped});
    bench.settle();
    ASSERT_EQ(bench.lnd().sent.size(), begun ? 0u : 1u);
    EXPECT_EQ(piped.given_back, begun ? 1u : 0u);
    if (!begun) {
      EXPECT_NE(bench.lnd().sent[0]->next_hop, first);
      EXPECT_EQ(bench.lnd().sent[0]->piped, &piped);
    }
    finish_all();
    EXPECT_EQ(piped.given_back, 1u);
  }
  EXPECT_EQ(drops(Drop::kNextHopDown), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(TwoGateways, a_gateway_that_fails_is_tried_again_over_the_other) {
  bench.join(tcp1(2), tcp1(3));  // of several NIs of one peer another may work
  bench.publish();
  send(5000, far);
  bench.settle();
  payload_comes();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  const Nid first = bench.lnd().sent[0]->next_hop;
  bench.local(first).tally->take(1 << 20);
  bench.lnd().complete_tx(*bench.lnd().sent[0], {-ECONNREFUSED, LndStatus::kRemoteDropped});
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  const Nid second = bench.lnd().sent[0]->next_hop;
  EXPECT_NE(second, first);
  EXPECT_EQ(bench.local(first).buffers_held[2], 0u);
  EXPECT_EQ(bench.local(second).buffers_held[2], 1u);
  finish_all();
  bench.local(first).tally->give_back(1 << 20);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a next hop that has its share of buffers and takes nothing holds up its senders for kHopHoldMax at most.
TEST_F(ForwardTest, a_hop_that_takes_nothing_gets_nothing_more_until_it_moves) {
  for (int i = 0; i < 3; ++i) send(0);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 2u);
  ASSERT_EQ(bench.lnd().held.size(), 1u);
  bench.advance(kHopHoldMax);
  bench.settle();
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_EQ(drops(Drop::kNextHopFull), 1u);
  send(0);
  bench.settle();
  EXPECT_EQ(drops(Drop::kNextHopFull), 2u) << "at once";
  send(0, tcp1(3));
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 3u) << "the other hop";
  bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  send(0);
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 3u) << "it moves again";
  finish_all();
  EXPECT_EQ(drops(Drop::kNextHopFull), 2u);
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 4u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a hop's share grows when other hops give buffers back, although the hop itself takes nothing.
TEST_F(ForwardTest, a_receive_goes_on_when_the_share_of_its_hop_has_grown) {
  peer_set_rtr_credits(bench.worker(), *from, 4);
  for (int i = 0; i < 2; ++i) send(0, tcp1(3));
  for (int i = 0; i < 2; ++i) send(0);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 3u);
  ASSERT_EQ(bench.lnd().held.size(), 1u);
  for (int i = 0; i < 2; ++i) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.advance(kRouterHoldLook);
  bench.settle();
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_EQ(bench.lnd().sent.size(), 2u);
  finish_all();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 4u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: next hops that take nothing, so many that no buffer is left, hold up receives for others for kPoolHoldMax at
// most.
TEST_F(ForwardTest, a_pool_that_does_not_move_drops_what_needs_a_buffer) {
  peer_set_rtr_credits(bench.worker(), *from, 8);
  for (uint32_t i = 4; i < 6; ++i) bench.add_peer(tcp1(i));
  bench.publish();
  for (const uint32_t hop : {2u, 2u, 3u, 4u, 5u}) send(0, tcp1(hop));
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 4u);
  ASSERT_EQ(bench.lnd().held.size(), 1u);
  bench.advance(kPoolHoldMax - 1s);
  bench.settle();
  EXPECT_EQ(bench.lnd().held.size(), 1u);
  EXPECT_LE(bench.worker().next_deadline(), bench.now + kRouterHoldLook) << "it is looked at";
  bench.advance(1s);
  bench.settle();
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_EQ(drops(Drop::kNoRouterBuffer), 1u);
  send(0, tcp1(5));
  bench.settle();
  EXPECT_EQ(drops(Drop::kNoRouterBuffer), 2u) << "at once";
  bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  send(0, tcp1(5));
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 4u) << "it moves again";
  finish_all();
  EXPECT_EQ(drops(Drop::kNoRouterBuffer), 2u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: payloads that never come do not keep a hop's share of buffers from payloads that would, and do not count as
// the hop's fault.
TEST_F(ForwardTest, payloads_that_do_not_come_make_room_for_others) {
  bench.add_peer(tcp(3));
  bench.publish();
  for (int i = 0; i < 2; ++i) send(5000);
  bench.settle();
  ASSERT_EQ(bench.lnd().receiving.size(), 2u);
  bench.advance(kComingMax * 2);
  bench.settle();
  EXPECT_TRUE(bench.lnd().diverted.empty()) << "nobody needs the buffers";
  send(5000, tcp1(2), tcp(3));
  bench.settle();
  ASSERT_EQ(bench.lnd().held.size(), 1u);
  bench.advance(kRouterHoldLook);
  bench.settle();
  ASSERT_EQ(bench.lnd().diverted.size(), 2u);
  EXPECT_EQ(drops(Drop::kNextHopFull), 0u);
  for (RxSlot* slot : bench.lnd().diverted) bench.lnd().complete_rx(*slot, -ECANCELED);
  finish_all();
  EXPECT_EQ(drops(Drop::kRouterPayload), 2u);
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// The buffer that was used last is in the cache still.
TEST_F(ForwardTest, the_buffer_that_came_back_last_is_used_first) {
  std::set<const std::byte*> used;
  for (int i = 0; i < 6; ++i) {
    send(5000);
    bench.settle();
    used.insert(bench.lnd().receiving.at(0)->into.segments[0].base);
    finish_all();
  }
  EXPECT_EQ(used.size(), 1u);
}

// A chain of routers: this one cannot know that the next hops lead back to it, but sees the same message again.
TEST_F(TwoGateways, a_message_that_comes_again_and_again_is_dropped) {
  const Nid origin = Nid::v4(Net::of(NetType::kO2ib, 0), 5);
  wire::Header circling = get_header(far, origin, 9, 1, 64);
  wire::Header anonymous = put_header(far, origin, 9, 1, 0, 0, false);
  const auto sights_until_dropped = [&](const wire::Header& header) {
    const uint64_t before = drops(Drop::kRouteLoop);
    for (int i = 1; i < 10000; ++i) {
      bench.advance(1ms);
      bench.inject(header, tcp(2));
      finish_all();
      if (drops(Drop::kRouteLoop) != before) return i;
    }
    return 0;
  };
  EXPECT_EQ(sights_until_dropped(circling), int(kLoopSightsMax) + 1);
  EXPECT_EQ(sights_until_dropped(anonymous), int(kLoopSightsAnonymousMax) + 1)
      << "PUTs that nobody answers may be alike without being the same";
  bench.add_route(origin.net(), tcp(2));
  bench.publish();
  anonymous = put_header(far, origin, 9, 2, 0, 0, false);
  EXPECT_EQ(sights_until_dropped(anonymous), 0) << "from where its origin lies, alike or not";
  const uint64_t before = drops(Drop::kRouteLoop);
  for (uint64_t bits = 100; bits < 20000; ++bits) {
    bench.inject(get_header(far, origin, 9, bits, 64), tcp(2));
    if (bits % 64 == 0) finish_all();
  }
  finish_all();
  EXPECT_EQ(drops(Drop::kRouteLoop), before) << "each but once";
  for (unsigned i = 0; i < 3 * kLoopSightsMax; ++i) {
    bench.advance(kLoopSightGap + 1ms);
    bench.inject(get_header(far, origin, 9, 7, 64), tcp(2));
    finish_all();
  }
  EXPECT_EQ(drops(Drop::kRouteLoop), before) << "a sender that tries again now and then";
  bench.inject(get_header(far, tcp(1), 9, 7, 64), tcp(2));
  finish_all();
  EXPECT_EQ(drops(Drop::kRouteLoop), before + 1) << "this node's own message, to be forwarded by it";
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
