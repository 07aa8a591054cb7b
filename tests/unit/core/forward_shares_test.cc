// Router buffers and router credits are shared: next hops and senders that do not move leave some to the others.
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

// Goal: slow next hops share a pool with all others, however many they are.
TEST(ForwardShares, slow_next_hops_leave_buffers_to_the_others) {
  Bench bench({.peer_credits = 64, .rtr_credits = 64, .routing = RoutingState::kEnabled});
  bench.add_peer(tcp(2));
  for (uint32_t i = 2; i < 6; ++i) bench.add_peer(tcp1(i));
  bench.publish();
  bench.add_router_buffers(WorkerId{0}, {16, 16, 4});
  bench.settle();
  for (uint32_t slow = 2; slow < 5; ++slow)
    for (int i = 0; i < 16; ++i) bench.inject(put_header(tcp1(slow), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.local(tcp1(2)).buffers_held[0], 8u);
  EXPECT_EQ(bench.local(tcp1(3)).buffers_held[0], 4u);
  EXPECT_EQ(bench.local(tcp1(4)).buffers_held[0], 2u);
  bench.inject(put_header(tcp1(5), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.local(tcp1(5)).buffers_held[0], 1u) << "one that is not slow goes through";
  for (int i = 0; i < 100; ++i) {
    bench.settle();
    while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  }
  bench.settle();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 49u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a sender whose messages stay with next hops that take nothing gets on to other hops after a moment.
TEST(ForwardShares, router_credits_do_not_stay_with_next_hops_that_take_nothing) {
  Bench bench({.peer_credits = 64, .rtr_credits = 2, .routing = RoutingState::kEnabled});
  bench.add_peer(tcp(2));
  for (uint32_t i = 2; i < 6; ++i) bench.add_peer(tcp1(i));
  bench.publish();
  bench.add_router_buffers(WorkerId{0}, {16, 16, 16});
  bench.settle();
  for (uint32_t stuck = 2; stuck < 5; ++stuck) bench.inject(put_header(tcp1(stuck), tcp(2), 9, 1, 0), tcp(2));
  bench.inject(put_header(tcp1(5), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 2u);
  EXPECT_EQ(bench.lnd().held.size(), 2u);
  bench.advance(kRouterCreditHeldMax);
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 4u);
  EXPECT_EQ(bench.local(tcp1(5)).buffers_held[0], 1u) << "the one that waited behind the others";
  EXPECT_EQ(bench.slice(tcp(2)).rtr.held(), 2) << "passed on, not given away";
  bench.advance(kRouterCreditHeldMax);
  for (int i = 0; i < 5; ++i) bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 9u) << "the hop is known to be slow: these hold up nobody";
  while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  EXPECT_EQ(bench.worker().counters[Stat::kRouteCount].get(), 9u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a next hop that is slow, but moves, holds its sender back as before.
TEST(ForwardShares, router_credits_stay_with_next_hops_that_move) {
  Bench bench({.peer_credits = 64, .rtr_credits = 2, .routing = RoutingState::kEnabled});
  bench.add_peer(tcp(2));
  bench.add_peer(tcp1(2));
  bench.publish();
  bench.add_router_buffers(WorkerId{0}, {16, 16, 16});
  bench.settle();
  for (int i = 0; i < 8; ++i) bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  for (uint32_t left = 6; left > 0; --left) {
    bench.advance(kRouterCreditHeldMax - 1ms);
    bench.settle();
    EXPECT_EQ(bench.lnd().held.size(), left);
    EXPECT_EQ(bench.local(tcp1(2)).buffers_held[0], 2u);
    bench.lnd().complete_tx(*bench.lnd().sent.at(0), {});
    bench.settle();
  }
  while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a payload that does not come keeps its sender's credit: the sender alone can end that.
TEST(ForwardShares, router_credits_stay_with_payloads_that_do_not_come) {
  Bench bench({.rtr_credits = 1, .routing = RoutingState::kEnabled});
  bench.add_peer(tcp(2));
  bench.add_peer(tcp1(2));
  bench.publish();
  bench.add_router_buffers(WorkerId{0}, {4, 4, 4});
  bench.settle();
  bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 5000), tcp(2));
  bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  bench.advance(1h);
  bench.settle();
  EXPECT_EQ(bench.lnd().receiving.size(), 1u);
  EXPECT_EQ(bench.lnd().held.size(), 1u);
  bench.lnd().complete_rx(*bench.lnd().receiving[0], -ECONNRESET);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: NIDs that control has to look up, which takes long when nobody is there, share like one next hop.
TEST(ForwardShares, next_hops_that_nobody_knows_leave_buffers_to_the_others) {
  Bench bench({.rtr_credits = 64, .routing = RoutingState::kEnabled});
  bench.add_peer(tcp(2));
  bench.add_peer(tcp1(2));
  bench.publish();
  bench.add_router_buffers(WorkerId{0}, {8, 8, 4});
  bench.settle();
  for (uint32_t i = 0; i < 8; ++i) bench.inject(put_header(tcp1(50 + i), tcp(2), 9, i, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.worker().pools[0].free.size(), 4u);
  bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  for (uint32_t i = 0; i < 8; ++i) {
    bench.tell(WorkerId{0}, ResolvedMsg{tcp1(50 + i), -EHOSTUNREACH});
    bench.settle();
  }
  EXPECT_EQ(bench.worker().counters[Drop::kNoRoute].get(), 8u);
  EXPECT_EQ(bench.worker().hop_unknown.buffers_held[0], 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
