// One submitter does not hurt the others of its worker: calls that wait for an operation, event queues that nobody
// polls, rings that are always full.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr WorkerId kHomeWorker{0};

/// Two applications on one worker, with a portal each.
struct Submitters : ::testing::Test {
  explicit Submitters(const BenchOptions& options = {.operations = 16, .incoming = 16, .peer_credits = 64})
      : bench(options) {
    bench.add_peer(tcp(2));
    bench.add_peer(tcp(3));
    bench.open_portal(8, kHomeWorker);
    bench.open_portal(9, kHomeWorker);
    bench.publish();
    greedy = &bench.submitter(kHomeWorker);
    modest = &bench.submitter(kHomeWorker);
    bench.settle();
  }
  MdHandle bind(Submitter& by, EqHandle eq, uint32_t options = 0) {
    const Segment segment{memory.data(), uint32_t(memory.size())};
    return *by.md_bind({.segments = {&segment, 1}, .options = options, .eq = eq});
  }
  void attach(Submitter& by, EqHandle eq, uint32_t portal) {
    const MdHandle md = bind(by, eq, kMdPut | kMdManageRemote);
    ASSERT_TRUE(by.me_attach(PortalIndex{portal}, {}, 77, 0, MePosition::kTail, md));
    bench.settle();
  }
  void arrive(uint32_t portal, unsigned count, bool ack = false, const Nid& from = tcp(2)) {
    for (unsigned i = 0; i < count; ++i) bench.inject(put_header(tcp(1), from, portal, 77, 0, 0, ack), from);
    bench.settle();
  }
  /// The transport takes everything, also what comes up meanwhile.
  void send_all() {
    for (bench.settle(); !bench.lnd().sent.empty(); bench.settle())
      while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  }
  static unsigned count(const std::vector<Event>& events, EventKind kind) {
    return unsigned(std::count_if(events.begin(), events.end(), [&](const Event& e) { return e.kind == kind; }));
  }
  std::vector<Event> poll(Submitter& by, EqHandle eq, unsigned most = 256) {
    std::vector<Event> all(most);
    all.resize(by.eq_poll(eq, all));
    return all;
  }
  uint64_t drops(Drop reason) { return bench.worker().counters[reason].get(); }

  Bench bench;
  Submitter *greedy, *modest;
  std::array<std::byte, 64> memory{};
};

// Goal: GETs that nobody answers, as many as there are operations and more, can be unlinked.
TEST_F(Submitters, an_unlink_does_not_wait_for_the_operations_that_it_frees) {
  const EqHandle eq = *greedy->eq_open(256);
  const MdHandle md = bind(*greedy, eq, kMdNoTrack), other = bind(*greedy, eq);
  bench.settle();
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(greedy->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .user_data = uint64_t(i)}));
  const MdHandle late = bind(*greedy, eq);
  ASSERT_TRUE(greedy->unlink(late));  // is not bound before its turn comes
  ASSERT_TRUE(greedy->unlink(other));
  bench.settle();
  EXPECT_FALSE(bench.worker().pending()) << "nothing can be done: the worker sleeps";
  EXPECT_EQ(count(poll(*greedy, eq), EventKind::kUnlink), 1u);
  ASSERT_TRUE(greedy->unlink(md));
  std::vector<Event> events;
  for (int round = 0; round < 100 && greedy->mds_in_use() > 0; ++round) {
    bench.settle();
    while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {-ECANCELED, LndStatus::kOk});
    bench.settle();
    for (const Event& event : poll(*greedy, eq)) events.push_back(event);
  }
  EXPECT_EQ(count(events, EventKind::kUnlink), 2u);
  std::map<uint64_t, int> finals;
  for (const Event& event : events)
    if (event.final) ++finals[event.user_data];
  EXPECT_EQ(finals.size(), 50u);
  for (const auto& [number, times] : finals) EXPECT_EQ(times, 1) << number;
  EXPECT_EQ(greedy->mds_in_use(), 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a submitter that takes as many operations as it gets leaves some to the others, and their calls do not wait.
TEST_F(Submitters, another_submitter_has_its_share_of_operations) {
  const EqHandle eq = *greedy->eq_open(256);
  const MdHandle md = bind(*greedy, eq, kMdNoTrack);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(greedy->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
  bench.settle();
  const size_t taken = bench.lnd().sent.size();
  EXPECT_GE(taken, 6u) << "most of the 8 that are not kept for the node itself";
  const EqHandle mine = *modest->eq_open(16);
  attach(*modest, mine, 8);
  ASSERT_TRUE(modest->put({.md = bind(*modest, mine), .target = {tcp(3), kLnetPid}, .portal = 1, .ack = false}));
  arrive(8, 1);
  ASSERT_EQ(bench.lnd().sent.size(), taken + 1);
  bench.lnd().complete_tx(*bench.lnd().sent.back(), {});
  bench.settle();
  const auto events = poll(*modest, mine);
  EXPECT_EQ(count(events, EventKind::kSend), 1u);
  EXPECT_EQ(count(events, EventKind::kPut), 1u);
}

// Goal: when operations are scarce, each submitter gets some, however many submitters wait and whatever their numbers
// are. Method: more submitters than operations, each with calls that never run out; PUTs end one after the other.
TEST_F(Submitters, every_submitter_has_its_turn_when_operations_are_scarce) {
  std::vector<Submitter*> all{greedy, modest};
  while (all.size() < 12) all.push_back(&bench.submitter(kHomeWorker));
  std::vector<MdHandle> mds;
  for (Submitter* one : all) mds.push_back(bind(*one, *one->eq_open(256)));
  bench.settle();
  std::set<uint64_t> served;
  for (int round = 0; round < 200; ++round) {
    for (size_t i = 0; i < all.size(); ++i)
      while (all[i]->put({.md = mds[i], .target = {tcp(2), kLnetPid}, .portal = 1, .match_bits = i, .ack = false})) {
      }
    bench.settle();
    ASSERT_FALSE(bench.lnd().sent.empty());
    served.insert(bench.lnd().sent[0]->header.put().match_bits);
    bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  }
  EXPECT_EQ(served.size(), all.size());
  send_all();
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: an event queue that nobody polls takes a share of the messages for receives, not all; the worker sleeps; when
// somebody polls again, everything that was taken or held arrives, once and in order.
TEST_F(Submitters, a_full_event_queue_leaves_messages_for_others) {
  const EqHandle full = *greedy->eq_open(2), mine = *modest->eq_open(16);
  attach(*greedy, full, 9);
  attach(*modest, mine, 8);
  for (uint32_t i = 0; i < 40; ++i) bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0, i, false), tcp(2));
  bench.settle();
  EXPECT_LE(bench.worker().incoming.out(), 8u);
  EXPECT_EQ(drops(Drop::kQueueFull), 0u);
  arrive(8, 3, false, tcp(3));
  EXPECT_EQ(count(poll(*modest, mine), EventKind::kPut), 3u);
  EXPECT_FALSE(bench.worker().pending());
  EXPECT_LE(bench.worker().next_deadline(), bench.now + 2ms);
  std::vector<uint32_t> offsets;
  for (int i = 0; i < 100; ++i) {
    for (const Event& event : poll(*greedy, full)) offsets.push_back(event.offset);
    bench.advance(1ms);
    bench.settle();
  }
  ASSERT_EQ(offsets.size(), 40u);
  for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(offsets[i], i);
  EXPECT_EQ(drops(Drop::kQueueFull), 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the same of GETs, whose events come when their REPLYs have left.
TEST_F(Submitters, a_queue_full_of_gets_leaves_messages_for_others) {
  const EqHandle full = *greedy->eq_open(2), mine = *modest->eq_open(16);
  const MdHandle md = bind(*greedy, full, kMdGet | kMdManageRemote);
  ASSERT_TRUE(greedy->me_attach(PortalIndex{9}, {}, 77, 0, MePosition::kTail, md));
  attach(*modest, mine, 8);
  for (uint32_t i = 0; i < 40; ++i) bench.inject(get_header(tcp(1), tcp(2), 9, 77, 8), tcp(2));
  send_all();
  EXPECT_LE(bench.worker().incoming.out(), 8u);
  arrive(8, 3, false, tcp(3));
  EXPECT_EQ(count(poll(*modest, mine), EventKind::kPut), 3u);
  unsigned gets = 0;
  for (int i = 0; i < 100; ++i) {
    gets += count(poll(*greedy, full), EventKind::kGet);
    send_all();
    bench.advance(1ms);
  }
  EXPECT_EQ(gets, 40u);
  EXPECT_EQ(greedy->events_owed, 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a message whose event waits for room counts for its submitter, not for its sender: other portals still receive
// from that sender.
TEST_F(Submitters, a_full_event_queue_takes_nothing_of_its_senders_share) {
  const EqHandle full = *greedy->eq_open(2), mine = *modest->eq_open(16);
  attach(*greedy, full, 9);
  attach(*modest, mine, 8);
  for (const bool ack : {false, true}) {
    arrive(9, 20, ack, tcp(2));
    send_all();
    ASSERT_GT(greedy->events_owed, 2u) << "events wait for room";
    EXPECT_EQ(bench.local(tcp(2)).incoming.held, 0u);
    arrive(8, 2, false, tcp(2));
    EXPECT_EQ(count(poll(*modest, mine), EventKind::kPut), 2u);
    for (int i = 0; i < 100; ++i) {
      (void)poll(*greedy, full);
      send_all();
      bench.advance(1ms);
      bench.settle();
    }
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: what waits for a queue that nobody polls is dropped after a while, with a reason, so that its connection goes
// on; what is taken already is not lost.
TEST_F(Submitters, receives_for_a_queue_that_nobody_polls_are_dropped_after_a_while) {
  const EqHandle full = *greedy->eq_open(2);
  attach(*greedy, full, 9);
  arrive(9, 40);
  const size_t held = bench.lnd().held.size();
  ASSERT_GT(held, 0u);
  bench.advance(kEqStuckMax);
  bench.settle();
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_EQ(drops(Drop::kQueueFull), held);
  arrive(9, 1);
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_EQ(drops(Drop::kQueueFull), held + 1);
  size_t arrived = 0;
  for (int i = 0; i < 100; ++i) {
    arrived += count(poll(*greedy, full), EventKind::kPut);
    bench.advance(1ms);
    bench.settle();
  }
  EXPECT_EQ(arrived, 40 - held);
  arrive(9, 2);
  EXPECT_EQ(count(poll(*greedy, full), EventKind::kPut), 2u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the application that closes while receives wait for its queue: they are dropped, and nothing is left.
TEST_F(Submitters, closing_ends_what_waits_for_its_queue) {
  attach(*greedy, *greedy->eq_open(2), 9);
  arrive(9, 40);
  ASSERT_FALSE(bench.lnd().held.empty());
  bench.tell(kHomeWorker, SubmitterCloseMsg{greedy});
  bench.settle();
  EXPECT_TRUE(bench.lnd().held.empty());
  EXPECT_EQ(bench.take_control_items().size(), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the sender has its ACK as soon as the payload is in its place, though the event waits for room; and there is
// one event, whichever of the two ends first.
TEST_F(Submitters, an_ack_does_not_wait_for_room_in_the_event_queue) {
  for (const bool ack_ends_first : {true, false})
    for (const bool ack_fails : {false, true}) {
      const EqHandle eq = *greedy->eq_open(2);
      attach(*greedy, eq, 9);
      arrive(9, 2);
      arrive(9, 1, true);
      ASSERT_EQ(bench.lnd().sent.size(), 1u);
      EXPECT_EQ(bench.lnd().sent[0]->header.type, wire::MsgType::kAck);
      const Completion how = ack_fails ? Completion{-EPIPE, LndStatus::kRemoteError} : Completion{};
      std::vector<Event> events;
      for (const bool ack : {ack_ends_first, !ack_ends_first}) {
        if (ack)
          bench.lnd().complete_tx(*bench.lnd().sent[0], how);
        else
          events = poll(*greedy, eq);
        bench.settle();
      }
      for (const Event& event : poll(*greedy, eq)) events.push_back(event);
      EXPECT_EQ(count(events, EventKind::kPut), 3u);
      ASSERT_TRUE(greedy->unlink(events.at(0).md));
      bench.settle();
      EXPECT_EQ(count(poll(*greedy, eq), EventKind::kUnlink), 1u);
      ASSERT_TRUE(greedy->eq_close(eq));
      bench.settle();
      EXPECT_EQ(bench.not_at_rest(), "");
    }
}

// Goal: rings of other workers that are always full starve no other ring. Method: items that mean nothing.
TEST(SubmitterRings, every_ring_has_its_turn_beside_rings_that_are_always_full) {
  Bench bench({.workers = 4, .ring_size = 256});
  Posted nothing;
  const auto fill = [&](unsigned from) {
    while (bench.mesh->pair(from, 0).back.push({PostKind::kNone, &nothing})) {
    }
  };
  ASSERT_TRUE(bench.mesh->pair(3, 0).back.push({PostKind::kNone, &nothing}));
  for (unsigned from : {1u, 3u}) ASSERT_TRUE(bench.mesh->pair(from, 0).work.push({PostKind::kNone, &nothing}));
  for (int turns = 0; turns < 8; ++turns) {
    for (unsigned from : {1u, 2u}) fill(from);
    bench.turn(kHomeWorker);
  }
  EXPECT_TRUE(bench.mesh->pair(3, 0).back.empty());
  for (unsigned from : {1u, 3u}) EXPECT_TRUE(bench.mesh->pair(from, 0).work.empty());
}

}  // namespace
}  // namespace ulnet::test
