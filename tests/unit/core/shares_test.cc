// Shares of the worker's pools: a peer that takes nothing, or cannot be reached, stops only its own messages.
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

struct Shares : ::testing::Test {
  explicit Shares(const BenchOptions& options = {.incoming = 32}) : bench(options) {
    for (uint32_t i = 2; i < 60; ++i) bench.add_peer(tcp(i));
    bench.open_portal(9, WorkerId{0});
    bench.open_portal(0, WorkerId{0});
    bench.publish();
    submitter = &bench.submitter(WorkerId{0});
    eq = *submitter->eq_open(1024);
    const Segment segment{memory.data(), uint32_t(memory.size())};
    const uint32_t options_all = kMdPut | kMdGet | kMdManageRemote | kMdTruncate;
    for (uint32_t portal : {0, 9}) {
      md[portal] = *submitter->md_bind({.segments = {&segment, 1}, .options = options_all, .eq = eq});
      EXPECT_TRUE(submitter->me_attach(PortalIndex{portal}, {}, 0, ~0ull, MePosition::kTail, md[portal]));
    }
    bench.settle();
  }
  /// GETs whose REPLYs are never taken, unless the test completes them.
  void gets(const Nid& from, int count, uint32_t portal = 9, uint64_t bits = 1) {
    for (int i = 0; i < count; ++i) bench.inject(get_header(tcp(1), from, portal, bits, 8), from);
    bench.settle();
  }
  uint32_t held_by(const Nid& peer) { return bench.mesh->view.load()->peers->find(peer).ni().locals[0]->incoming.held; }
  uint64_t drops(Drop reason) { return bench.worker().counters[reason].get(); }
  void send_all() {
    while (!bench.lnd().sent.empty()) {
      bench.lnd().complete_tx(*bench.lnd().sent[0], {});
      bench.settle();
    }
  }
  /// Lets go of all that is under way.
  void end_all() {
    for (int rounds = 0; rounds < 100 && (bench.worker().incoming.out() > 0 || !bench.lnd().sent.empty()); ++rounds)
      send_all();
    std::array<Event, 64> seen;
    while (submitter->eq_poll(eq, seen) > 0) bench.settle();
    EXPECT_EQ(bench.not_at_rest(), "");
  }

  Bench bench;
  Submitter* submitter;
  EqHandle eq;
  std::map<uint32_t, MdHandle> md;
  std::array<std::byte, 4096> memory{};
};

// Goal: GETs of a peer that does not read its REPLYs hold at most half of the messages, and nobody else waits for it.
TEST_F(Shares, a_peer_that_takes_no_answers_leaves_messages_to_the_others) {
  gets(tcp(2), 100);
  EXPECT_LE(held_by(tcp(2)), 16u);
  EXPECT_GT(bench.lnd().held.size(), 0u);
  bench.inject(put_header(tcp(1), tcp(3), 9, 5, 10, 0, false), tcp(3));
  bench.settle();
  ASSERT_EQ(bench.lnd().receiving.size(), 1u) << "another peer is served";
  bench.lnd().complete_rx(*bench.lnd().receiving[0], 0, 1);
  bench.settle();
  end_all();
  EXPECT_EQ(drops(Drop::kNoMessage), 0u) << "the peer took its answers in time";
}

// Goal: many such peers together leave something as well, and the last messages are for portal 0.
TEST_F(Shares, pings_get_through_when_many_peers_hold_their_shares) {
  for (uint32_t i = 2; i < 40; ++i) gets(tcp(i), 20);
  EXPECT_EQ(bench.worker().incoming.capacity() - bench.worker().incoming.out(), bench.worker().incoming_reserve())
      << "so many peers leave the reserve";
  gets(tcp(50), 1, 0);
  EXPECT_EQ(held_by(tcp(50)), 1u) << "a ping is answered";
  end_all();
}

// Goal: peers that do not take their answers leave the portal's event queue, however small, to the others.
TEST_F(Shares, peers_that_take_no_answers_leave_room_in_the_event_queue) {
  bench.open_portal(8, WorkerId{0});
  bench.publish();
  const EqHandle small = *submitter->eq_open(8);
  const Segment segment{memory.data(), uint32_t(memory.size())};
  const MdHandle one = *submitter->md_bind(
      {.segments = {&segment, 1}, .options = kMdPut | kMdGet | kMdManageRemote | kMdTruncate, .eq = small});
  ASSERT_TRUE(submitter->me_attach(PortalIndex{8}, {}, 0, ~0ull, MePosition::kTail, one));
  bench.settle();
  for (uint32_t i = 2; i < 4; ++i) gets(tcp(i), 20, 8);
  bench.inject(put_header(tcp(1), tcp(4), 8, 5, 10, 0, false), tcp(4));
  bench.settle();
  ASSERT_EQ(bench.lnd().receiving.size(), 1u) << "another peer is served";
  bench.lnd().complete_rx(*bench.lnd().receiving[0], 0, 1);
  bench.settle();
  unsigned events = 0;
  std::array<Event, 64> seen;
  for (int i = 0; i < 100; ++i) {
    send_all();
    events += submitter->eq_poll(small, seen);
    bench.advance(1ms);
    bench.settle();
  }
  EXPECT_EQ(events, 41u);
  end_all();
}

// Goal: receives that turn out to need no message do not keep those behind them from being looked at.
TEST_F(Shares, receives_that_need_no_message_make_way) {
  bench.open_portal(10, WorkerId{0});
  bench.publish();
  for (uint32_t i = 2; i < 7; ++i) gets(tcp(i), 100);
  gets(tcp(7), 5, 10);
  ASSERT_EQ(held_by(tcp(7)), 0u);
  bench.open_portal(10, WorkerId{0}, false, PortalMode::kClosed);
  bench.publish();
  bench.settle();
  bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  EXPECT_EQ(drops(Drop::kPortalClosed), 5u);
  end_all();
}

// Goal: what becomes free goes to the peers in turn, and in order within one peer.
TEST_F(Shares, peers_that_wait_are_served_in_turn_and_each_in_order) {
  for (uint32_t peer : {2, 3})
    for (uint64_t bits = 0; bits < 40; ++bits) bench.inject(get_header(tcp(1), tcp(peer), 9, bits, 8), tcp(peer));
  bench.settle();
  EXPECT_LE(held_by(tcp(2)), 14u);
  EXPECT_GE(held_by(tcp(3)), 7u);
  send_all();
  std::array<Event, 128> seen;
  std::map<Nid, std::vector<uint64_t>> order;
  for (unsigned n = submitter->eq_poll(eq, seen), i = 0; i < n; ++i)
    order[seen[i].initiator].push_back(seen[i].match_bits);
  for (uint32_t peer : {2, 3}) {
    EXPECT_EQ(order[tcp(peer)].size(), 40u);
    EXPECT_TRUE(std::is_sorted(order[tcp(peer)].begin(), order[tcp(peer)].end()));
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a stream is not held for ever: behind the GETs may be the REPLYs that the peer waits for (and it holds ours).
TEST_F(Shares, receives_of_a_share_that_does_not_move_are_dropped_and_the_stream_goes_on) {
  gets(tcp(2), 40);
  const size_t held = bench.lnd().held.size();
  ASSERT_GT(held, 0u);
  bench.advance(kIncomingHoldMax - 1s);
  bench.settle();
  ASSERT_EQ(bench.lnd().held.size(), held);
  EXPECT_LE(bench.worker().next_deadline(), bench.now + 1s) << "the worker wakes for it";
  bench.advance(1s);
  bench.settle();
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_EQ(drops(Drop::kNoMessage), held);
  gets(tcp(2), 5);
  EXPECT_EQ(drops(Drop::kNoMessage), held + 5) << "at once, while nothing moves";
  bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  gets(tcp(2), 5);
  EXPECT_EQ(drops(Drop::kNoMessage), held + 5) << "it moves: its receives wait again";
  end_all();
}

struct SharesOverRing : Shares {
  SharesOverRing() : Shares({.workers = 2, .incoming = 8}) {
    bench.add_peer(tcp(70), WorkerId{1});
    bench.publish();
  }
};

TEST_F(SharesOverRing, receives_that_came_in_on_another_worker_count_and_are_dropped_as_well) {
  for (int i = 0; i < 20; ++i) {
    RxSlot& slot = bench.inject(get_header(tcp(1), tcp(70), 9, 1, 8), tcp(70));
    if (i % 2 == 0) bench.lnd(WorkerId{1}).make_movable(slot, 0);
  }
  bench.settle();
  EXPECT_EQ(held_by(tcp(70)), 4u);
  EXPECT_EQ(bench.lnd(WorkerId{1}).held.size() + bench.lnd(WorkerId{1}).taken.size(), 16u);
  bench.advance(kIncomingHoldMax + 1s);
  bench.settle();
  EXPECT_TRUE(bench.lnd(WorkerId{1}).held.empty() && bench.lnd(WorkerId{1}).taken.empty());
  EXPECT_EQ(drops(Drop::kNoMessage), 16u);
  while (!bench.lnd(WorkerId{1}).sent.empty()) {
    bench.lnd(WorkerId{1}).complete_tx(*bench.lnd(WorkerId{1}).sent[0], {});
    bench.settle();
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: 34 peers that take nothing hold all NI credits by their number, and do not keep them.
TEST_F(Shares, ni_credits_of_messages_that_do_not_end_go_to_others) {
  Bench small({.incoming = 256, .ni_credits = 8});
  for (uint32_t i = 2; i < 10; ++i) small.add_peer(tcp(i));
  small.publish();
  Submitter& s = small.submitter(WorkerId{0});
  const Segment segment{memory.data(), 64};
  const EqHandle queue = *s.eq_open(64);
  const MdHandle source = *s.md_bind({.segments = {&segment, 1}, .eq = queue});
  const auto put = [&](uint32_t peer, int count) {
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(s.put({.md = source, .target = {tcp(peer), kLnetPid}, .portal = 1, .ack = false}));
    small.settle();
  };
  put(2, 8);  // hangs
  ASSERT_EQ(small.lnd().sent.size(), 8u);
  put(3, 2);
  EXPECT_EQ(small.lnd().sent.size(), 8u) << "no credit is left";
  EXPECT_LE(small.worker().next_deadline(), small.now + kNiCreditHeldMax);
  small.advance(kNiCreditHeldMax);
  small.settle();
  ASSERT_EQ(small.lnd().sent.size(), 10u) << "two credits went on";
  EXPECT_EQ(small.lnd().sent[9]->next_hop, tcp(3));
  NiSlice& slice = *small.mesh->view.load()->local->nis[0].slices[0];
  EXPECT_EQ(slice.credits.held(), 8) << "never more are held than there are";
  while (!small.lnd().sent.empty()) {
    small.lnd().complete_tx(*small.lnd().sent[0], {});
    small.settle();
  }
  std::array<Event, 64> seen;
  EXPECT_EQ(s.eq_poll(queue, seen), 10u);
  EXPECT_EQ(small.not_at_rest(), "");
}

// Goal: a message whose driver waits for a connection holds no NI credit.
TEST_F(Shares, a_message_that_waits_for_a_connection_holds_no_ni_credit) {
  NiSlice& slice = *bench.mesh->view.load()->local->nis[0].slices[0];
  gets(tcp(2), 3);
  ASSERT_EQ(slice.credits.held(), 3);
  for (Tx* tx : bench.lnd().sent) bench.calls().tx_waits(*tx, bench.now);
  EXPECT_EQ(slice.credits.held(), 0);
  bench.calls().tx_waits(*bench.lnd().sent[0], bench.now);
  for (Tx* tx : bench.lnd().sent) bench.calls().tx_connected(*tx, bench.now);
  EXPECT_EQ(slice.credits.held(), 0) << "they end without one";
  end_all();
}

// Goal: an answer to a source that cannot be reached ends soon, and with it all that wait for the same peer.
TEST_F(Shares, answers_to_a_peer_without_connection_are_dropped_early) {
  gets(tcp(2), 14);
  ASSERT_EQ(bench.lnd().sent.size(), 8u) << "the others wait for peer credits";
  for (Tx* tx : bench.lnd().sent) bench.calls().tx_waits(*tx, bench.now);
  const std::vector<Tx*> waiting = bench.lnd().sent;
  bench.advance(kNoConnectionMax);
  for (int i = 0; i < 20 && bench.lnd().cancelled.size() < waiting.size(); ++i) bench.turn(WorkerId{0});
  ASSERT_EQ(bench.lnd().cancelled.size(), 8u);
  for (const auto& [tx, force] : bench.lnd().cancelled) EXPECT_FALSE(force);
  for (Tx* tx : waiting) bench.lnd().complete_tx(*tx, {-ECANCELED, LndStatus::kOk});
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty()) << "those behind them are dropped with them";
  EXPECT_EQ(drops(Drop::kNoConnection), 14u);
  gets(tcp(2), 1);
  EXPECT_EQ(bench.lnd().sent.size(), 1u) << "the next one tries again";
  end_all();
}

TEST_F(Shares, an_answer_whose_connection_comes_up_in_time_is_sent) {
  gets(tcp(2), 2);
  for (Tx* tx : bench.lnd().sent) bench.calls().tx_waits(*tx, bench.now);
  bench.advance(kNoConnectionMax - 1s);
  for (Tx* tx : bench.lnd().sent) bench.calls().tx_connected(*tx, bench.now);
  bench.advance(kNoConnectionMax);
  gets(tcp(2), 1);
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  EXPECT_EQ(bench.lnd().sent.size(), 3u);
  EXPECT_EQ(drops(Drop::kNoConnection), 0u);
  end_all();
}

// Goal: this node's own operations wait for a connection as long as their deadline says.
TEST_F(Shares, own_operations_wait_for_a_connection_until_their_deadline) {
  const Segment segment{memory.data(), 64};
  const MdHandle source = *submitter->md_bind({.segments = {&segment, 1}});
  ASSERT_TRUE(submitter->put({.md = source, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false}));
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  bench.calls().tx_waits(*bench.lnd().sent[0], bench.now);
  bench.advance(100s);
  bench.settle();
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  bench.advance(60s);
  bench.settle();
  EXPECT_EQ(bench.lnd().cancelled.size(), 1u);
  end_all();
}

// Goal: a lease whose timer fires while its peer credit is on the way to it ends in that turn: the timer does not fire
// again, so the lease may wait for nothing more. Method: one credit of each kind, which a REPLY to another peer holds;
// of two REPLYs to one peer the first waits for the NI and the second for the first; both expire in one turn.
TEST(CoreCredits, a_lease_that_gets_its_peer_credit_too_late_ends) {
  Bench bench({.peer_credits = 1, .ni_credits = 1});
  bench.add_peer(tcp(2));
  bench.add_peer(tcp(3));
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  Submitter& s = bench.submitter(WorkerId{0});
  const EqHandle queue = *s.eq_open(16);
  std::array<std::byte, 64> memory{};
  const Segment segment{memory.data(), 64};
  const MdHandle source =
      *s.md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdManageRemote | kMdTruncate, .eq = queue});
  ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, 1, 0, MePosition::kTail, source));
  bench.settle();
  for (uint32_t peer : {3, 2, 2}) bench.inject(get_header(tcp(1), tcp(peer), 9, 1, 8), tcp(peer));
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_EQ(bench.worker().nis_waiting.size(), 1u);
  bench.advance(bench.mesh->view.load()->local->nis[0].message_timeout + 1s);
  bench.turn(WorkerId{0});
  EXPECT_TRUE(bench.worker().nis_waiting.empty());
  EXPECT_EQ(bench.worker().tx_deadlines.armed(), 0u);
  std::array<Event, 16> seen;
  EXPECT_EQ(s.eq_poll(queue, seen), 2u) << "those to the peer whose credit came too late";
  while (!bench.lnd().sent.empty()) {
    bench.lnd().complete_tx(*bench.lnd().sent[0], {});
    bench.settle();
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the worker does not sleep while a message is free for a peer that waits, however many others wait before it.
// Method: each of very many peers holds one message and waits for a second; the last one gives its first back.
TEST(SharesOfMany, the_worker_turns_until_each_that_waits_was_looked_at) {
  constexpr uint32_t kPeers = 300;
  constexpr uint32_t kReserve = 42;  // of 342
  Bench bench({.incoming = kPeers + kReserve, .ni_credits = 1024});
  for (uint32_t i = 0; i < kPeers; ++i) bench.add_peer(tcp(2 + i));
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  ASSERT_EQ(bench.worker().incoming_reserve(), kReserve);
  Submitter& s = bench.submitter(WorkerId{0});
  std::array<std::byte, 64> memory{};
  const Segment segment{memory.data(), 64};
  const MdHandle source = *s.md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdManageRemote | kMdTruncate});
  ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, 1, 0, MePosition::kTail, source));
  bench.settle();
  for (int gets = 0; gets < 2; ++gets) {
    for (uint32_t i = 0; i < kPeers; ++i) bench.inject(get_header(tcp(1), tcp(2 + i), 9, 1, 8), tcp(2 + i));
    bench.settle();
  }
  ASSERT_EQ(bench.lnd().sent.size(), kPeers);
  ASSERT_EQ(bench.lnd().held.size(), kPeers);
  ASSERT_EQ(bench.lnd().sent.back()->next_hop, tcp(1 + kPeers));
  bench.lnd().complete_tx(*bench.lnd().sent.back(), {});
  while (bench.worker().pending()) bench.turn(WorkerId{0});
  EXPECT_EQ(bench.lnd().sent.size(), kPeers);
  EXPECT_EQ(bench.lnd().sent.back()->next_hop, tcp(1 + kPeers));
  for (int i = 0; i < 10 && !bench.lnd().sent.empty(); ++i) {
    while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
    bench.settle();
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: no REPLY is longer than LNet's largest message, whatever the GET and the MD say.
TEST(CoreGet, a_get_of_more_than_a_mebibyte_is_cut_or_dropped) {
  Bench bench;
  bench.add_peer(tcp(2));
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  Submitter& s = bench.submitter(WorkerId{0});
  std::vector<std::byte> memory(3u << 20);
  const Segment segment{memory.data(), uint32_t(memory.size())};
  for (uint64_t bits : {1, 2}) {
    const uint32_t truncate = bits == 2 ? uint32_t(kMdTruncate) : 0u;
    const MdHandle source = *s.md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdManageRemote | truncate});
    ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, bits, 0, MePosition::kTail, source));
  }
  bench.settle();
  for (uint64_t bits : {1, 2}) {
    bench.inject(get_header(tcp(1), tcp(2), 9, bits, kMaxPayload + 1), tcp(2));
    bench.inject(get_header(tcp(1), tcp(2), 9, bits, kMaxPayload), tcp(2));
  }
  bench.settle();
  EXPECT_EQ(bench.worker().counters[Drop::kTooLong].get(), 1u);
  ASSERT_EQ(bench.lnd().sent.size(), 3u);
  for (const Tx* tx : bench.lnd().sent) {
    EXPECT_EQ(tx->header.payload_length, kMaxPayload);
    EXPECT_EQ(tx->payload.length, kMaxPayload);
  }
  while (!bench.lnd().sent.empty()) {
    bench.lnd().complete_tx(*bench.lnd().sent[0], {});
    bench.settle();
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: answers to sources that nobody knows do not take all places for messages that wait for control.
TEST(CoreParked, answers_to_unknown_sources_leave_places_to_our_own_operations) {
  Bench bench({.parked_peers = 8});
  bench.add_peer(tcp(2));
  bench.open_portal(9, WorkerId{0});
  bench.publish();
  Submitter& s = bench.submitter(WorkerId{0});
  std::array<std::byte, 64> memory{};
  const Segment segment{memory.data(), 64};
  const MdHandle source = *s.md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdManageRemote | kMdTruncate});
  ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, 0, ~0ull, MePosition::kTail, source));
  bench.settle();
  for (uint32_t i = 0; i < 20; ++i) {
    wire::Header forged = get_header(tcp(1), tcp(1000 + i), 9, 1, 8);
    bench.inject(forged, tcp(2));
  }
  bench.settle();
  EXPECT_EQ(bench.worker().counters[TurnStat::kParkedRefused].get(), 16u);
  const EqHandle queue = *s.eq_open(16);
  const MdHandle own = *s.md_bind({.segments = {&segment, 1}, .eq = queue});
  ASSERT_TRUE(s.put({.md = own, .target = {tcp(2000), kLnetPid}, .portal = 1, .ack = false}));
  bench.settle();
  Event event;
  EXPECT_EQ(s.eq_poll(queue, {&event, 1}), 0u) << "it waits for control and is not refused";
  const auto resolve = [&](const Nid& nid) {
    bench.tell(WorkerId{0}, ResolvedMsg{nid, -EHOSTUNREACH});
    bench.settle();
  };
  for (uint32_t i = 0; i < 20; ++i) resolve(tcp(1000 + i));
  resolve(tcp(2000));
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
