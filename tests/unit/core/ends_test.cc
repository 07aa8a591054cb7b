// What starts anew upon `stats reset`, what a submitter is told after it was closed, what keeps a worker awake.
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

struct Ends : ::testing::Test {
  Ends() : bench({.workers = 2, .peer_credits = 4, .ni_credits = 2}) {
    near = &bench.add_peer(tcp(2), WorkerId{0});
    far = &bench.add_peer(tcp(3), WorkerId{1});
    bench.publish();
    submitter = &bench.submitter(WorkerId{0});
    eq = *submitter->eq_open(64);
    const Segment segment{memory.data(), 64};
    md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
    bench.settle();
  }
  void put(const Nid& to, int count) {
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(submitter->put({.md = md, .target = {to, kLnetPid}, .portal = 1, .ack = false}));
    bench.settle();
  }
  void send_all() {
    for (WorkerId w : {WorkerId{0}, WorkerId{1}})
      while (!bench.lnd(w).sent.empty()) {
        bench.lnd(w).complete_tx(*bench.lnd(w).sent[0], {});
        bench.settle();
      }
  }
  void tell_all(const ControlMsg& msg) {
    for (WorkerId w : {WorkerId{0}, WorkerId{1}}) bench.tell(w, msg);
    bench.settle();
  }
  [[nodiscard]] NiSlice& slice(WorkerId w) { return *bench.mesh->view.load()->local->nis[0].slices[w.value]; }

  Bench bench;
  PeerSlice *near, *far;
  Submitter* submitter;
  EqHandle eq;
  MdHandle md;
  std::array<std::byte, 64> memory{};
};

TEST_F(Ends, a_worker_whose_flush_has_completed_a_send_does_not_sleep) {
  put(tcp(2), 1);
  ASSERT_FALSE(bench.worker().pending());
  bench.lnd().done_in_flush = std::exchange(bench.lnd().sent, {});
  bench.turn(WorkerId{0});
  EXPECT_TRUE(bench.worker().pending());
  bench.turn(WorkerId{0});
  Event event;
  EXPECT_EQ(submitter->eq_poll(eq, {&event, 1}), 1u);
  EXPECT_FALSE(bench.worker().pending());
}

TEST_F(Ends, a_reset_starts_every_minimum_and_maximum_anew) {
  put(tcp(2), 6);
  put(tcp(3), 1);
  bench.advance(5ms);
  send_all();
  ASSERT_EQ(near->credits.free_min(), -2);
  ASSERT_EQ(far->credits.free_min(), 3);
  ASSERT_EQ(slice(WorkerId{0}).credits.free_min(), -2);
  ASSERT_EQ(slice(WorkerId{1}).credits.free_min(), 1);
  ASSERT_EQ(bench.worker().counters[Stat::kMsgsMax].get(), 7u);
  ASSERT_EQ(near->counters[NiLatency::kPutEgress].max_ns.get(), 5000000u);
  put(tcp(2), 1);
  tell_all(ResetExtremesMsg{});
  EXPECT_EQ(near->credits.free_min(), 3) << "what is free now";
  EXPECT_EQ(far->credits.free_min(), 4);
  EXPECT_EQ(slice(WorkerId{0}).credits.free_min(), 1);
  EXPECT_EQ(slice(WorkerId{1}).credits.free_min(), 2);
  EXPECT_EQ(bench.worker().counters[Stat::kMsgsMax].get(), 1u);
  bench.advance(2ms);
  send_all();
  EXPECT_EQ(near->counters[NiLatency::kPutEgress].min_ns.get(), 2000000u);
  EXPECT_EQ(near->counters[NiLatency::kPutEgress].max_ns.get(), 2000000u);
  EXPECT_EQ(slice(WorkerId{0}).counters[NiLatency::kPutEgress].max_ns.get(), 2000000u);
}

TEST_F(Ends, router_buffers_start_anew_by_themselves_when_routing_starts) {
  put(tcp(2), 3);
  bench.add_router_buffers(WorkerId{0}, {4, 4, 4});
  bench.settle();
  for (RouterPool& pool : bench.worker().pools) pool.credits_min.set(-7);
  tell_all(ResetPoolsMsg{});
  for (RouterPool& pool : bench.worker().pools) EXPECT_EQ(pool.credits_min.get(), 4);
  EXPECT_EQ(near->credits.free_min(), 1);
  for (RouterPool& pool : bench.worker().pools) pool.credits_min.set(-7);
  tell_all(ResetExtremesMsg{});
  for (RouterPool& pool : bench.worker().pools) EXPECT_EQ(pool.credits_min.get(), 4);
  send_all();
}

TEST_F(Ends, a_closed_submitter_is_told_nothing_more_and_ends_with_its_last_operation) {
  put(tcp(2), 1);
  bench.tell(WorkerId{0}, SubmitterCloseMsg{submitter});
  bench.settle();
  EXPECT_TRUE(bench.take_control_items().empty()) << "its memory is still with the LND";
  send_all();
  const auto items = bench.take_control_items();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<SubmitterClosedMsg>(items[0]));
  Event event;
  EXPECT_EQ(submitter->eq_poll(eq, {&event, 1}), 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: control frees a submitter as soon as it gets SubmitterClosedMsg, so the message is the last thing of the
// worker's turn. Method: bound MDs in several slots, and a call that lies in the ring behind the close.
TEST_F(Ends, a_closed_submitter_is_reported_when_the_turn_no_longer_uses_it) {
  const Segment segment{memory.data(), 64};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(submitter->md_bind({.segments = {&segment, 1}, .eq = eq}));
  bench.tell(WorkerId{0}, SubmitterCloseMsg{submitter});
  ASSERT_TRUE(submitter->md_bind({.segments = {&segment, 1}, .eq = eq}));
  unsigned flushes = 0;
  bench.lnd().on_flush = [&] {
    ++flushes;
    EXPECT_TRUE(bench.mesh->to_control[0]->empty());
  };
  std::vector<WorkerMsg> items;
  for (int i = 0; i < 3 && items.empty(); ++i) {
    bench.turn(WorkerId{0});
    items = bench.take_control_items();
  }
  EXPECT_GE(flushes, 1u);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<SubmitterClosedMsg>(items[0]));
  EXPECT_FALSE(bench.worker().pending());
}

// Goal: what waits for the answer of an MD that is unlinked gives its credits back at once, wherever it waits, but for
// what the transport has begun with.
TEST_F(Ends, an_unlinked_operation_takes_back_what_was_not_sent) {
  for (const Nid& to : {tcp(2), tcp(3)})
    for (int i = 0; i < 6; ++i)  // two in the LND, two wait for the NI, two for the peer
      ASSERT_TRUE(submitter->put({.md = md, .target = {to, kLnetPid}, .portal = 1}));
  bench.settle();
  ASSERT_TRUE(submitter->unlink(md));
  bench.settle();
  std::array<Event, 32> all;
  EXPECT_EQ(submitter->eq_poll(eq, all), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(all[i].status, -ECANCELED);
  for (WorkerId w : {WorkerId{0}, WorkerId{1}}) {
    ScriptLnd& lnd = bench.lnd(w);
    ASSERT_EQ(lnd.cancelled.size(), 2u);
    for (const auto& [tx, force] : lnd.cancelled) EXPECT_FALSE(force);
    ASSERT_EQ(lnd.sent.size(), 2u);
  }
  send_all();
  EXPECT_EQ(submitter->eq_poll(eq, all), 5u) << "the others, and the MD";
  for (WorkerId w : {WorkerId{0}, WorkerId{1}}) EXPECT_EQ(bench.lnd(w).cancelled.size(), 2u) << "asked once";
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a PUT without ACK is not waited for, and goes out though its MD is unlinked.
TEST_F(Ends, an_unlinked_put_without_ack_is_sent) {
  put(tcp(2), 6);
  ASSERT_TRUE(submitter->unlink(md));
  bench.settle();
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  send_all();
  std::array<Event, 32> all;
  ASSERT_EQ(submitter->eq_poll(eq, all), 7u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(all[i].status, 0);
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
