// What passes between workers, on the bench: the order of posts, what overtakes what, and messages that travel to their
// portal's home as a handle.
#include <gtest/gtest.h>

#include "dataplane/stages/driver_calls.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/post.h"
#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr WorkerId kHome{0}, kOther{1};

TEST(CoreRings, a_post_does_not_overtake_one_that_waits_for_room) {
  Bench bench({.workers = 2, .peer_credits = 64, .ring_size = 2});
  bench.add_peer(tcp(2), kOther);
  bench.publish();
  Submitter& s = bench.submitter(kHome);
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}});
  bench.settle();
  const auto put = [&](uint64_t bits) {
    ASSERT_TRUE(s.put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .match_bits = bits, .ack = false}));
  };
  for (uint64_t bits : {0, 1, 2}) put(bits);
  bench.turn(kHome);  // two fill the ring, the third waits
  ASSERT_TRUE(has_waiters(bench.worker(kHome)));
  bench.turn(kOther);  // there is room again
  put(3);
  bench.settle();
  std::vector<uint64_t> order;
  for (const Tx* tx : bench.lnd(kOther).sent) order.push_back(tx->header.put().match_bits);
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 1, 2, 3}));
}

enum class Probe : uint16_t { kOne = 1 };
struct ProbeMsg {
  static constexpr auto kKind = Probe::kOne;
  uint32_t number;
};

// Goal: if the ring to control is full, a message waits in the Owed of its sender. A newer one takes its place there,
// and its place in the order.
TEST(CoreRings, a_newer_message_replaces_one_that_waits_for_control) {
  Bench bench({.ring_size = 2});
  bench.publish();
  std::array<Owed, 4> owed;
  DriverCalls core(bench.worker(), 1);
  for (uint32_t i = 0; i < owed.size(); ++i) core.to_control(owed[i], ProbeMsg{i});  // two fill the ring
  core.to_control(owed[2], ProbeMsg{20});
  std::vector<uint32_t> numbers;
  for (int round = 0; round < 2; ++round) {
    for (const WorkerMsg& msg : bench.take_control_items())
      numbers.push_back(std::get<LndMsg>(msg).as<ProbeMsg>().number);
    bench.settle();
  }
  for (const WorkerMsg& msg : bench.take_control_items())
    numbers.push_back(std::get<LndMsg>(msg).as<ProbeMsg>().number);
  EXPECT_EQ(numbers, (std::vector<uint32_t>{0, 1, 20, 3}));
}

// Goal: a worker that sleeps is woken for all that a turn sends to it, also for what the last stage of the turn sends,
// and the worker that turned may sleep then.
// Method: gates without descriptor, armed by hand; sends that end in the driver's flush(), and go back.
TEST(CoreRings, a_turn_notifies_those_that_it_sent_something) {
  Bench bench({.workers = 3, .peer_credits = 64});
  bench.add_peer(tcp(2), kOther);
  bench.publish();
  Submitter& s = bench.submitter(kHome);
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}});
  bench.settle();
  for (IdleGate* gate : bench.mesh->gates) gate->arm();
  for (uint64_t bits : {0, 1})
    ASSERT_TRUE(s.put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .match_bits = bits, .ack = false}));
  const auto notified = [&](WorkerId id) { return bench.mesh->gates[id.value]->notified(); };
  bench.turn(kHome);
  EXPECT_TRUE(notified(kOther));
  EXPECT_FALSE(notified(WorkerId{2})) << "nothing was sent to it";
  EXPECT_FALSE(bench.worker(kHome).pending());
  bench.turn(kOther);
  bench.mesh->gates[0]->disarm();
  bench.mesh->gates[0]->arm();
  ASSERT_EQ(bench.lnd(kOther).sent.size(), 2u);
  bench.lnd(kOther).done_in_flush = std::exchange(bench.lnd(kOther).sent, {});
  bench.turn(kOther);
  EXPECT_TRUE(notified(kHome)) << "the leases have come back";
  EXPECT_TRUE(bench.worker(kHome).pending());
  EXPECT_FALSE(bench.worker(kOther).pending());
  bench.settle();
  EXPECT_EQ(bench.not_at_rest(), "");
}

/// An MD on a queue whose application is about to sleep.
struct Sleeper {
  explicit Sleeper(Bench& bench) : submitter(bench.submitter(kHome)) {
    eq = *submitter.eq_open(4);
    const Segment segment{memory.data(), 64};
    md = *submitter.md_bind({.segments = {&segment, 1}, .eq = eq});
    bench.settle();
    EXPECT_TRUE(submitter.eq_fd(eq));
    EXPECT_TRUE(submitter.eq_arm(eq));
  }
  void put() { EXPECT_TRUE(submitter.put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false})); }
  [[nodiscard]] bool notified() { return submitter.eq_slot(eq.index).gate.notified(); }
  [[nodiscard]] unsigned poll() {
    std::array<Event, 8> events;
    return submitter.eq_poll(eq, events);
  }
  Submitter& submitter;
  std::array<std::byte, 64> memory{};
  EqHandle eq;
  MdHandle md;
};

// Goal: an application that sleeps on its event queue is woken in the turn of the event, also by the driver's flush().
TEST(CoreRings, a_turn_notifies_the_application_whose_queue_got_an_event) {
  Bench bench;
  bench.add_peer(tcp(2));
  bench.publish();
  Sleeper idle(bench), busy(bench);
  busy.put();
  bench.turn(kHome);
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_FALSE(busy.notified()) << "the message is on its way";
  bench.lnd().done_in_flush = std::exchange(bench.lnd().sent, {});
  bench.turn(kHome);
  bench.turn(kHome);  // the lease comes back by a post
  EXPECT_TRUE(busy.notified());
  EXPECT_FALSE(idle.notified());
  EXPECT_FALSE(bench.worker().pending()) << "the mark is gone";
  EXPECT_EQ(busy.poll(), 1u);
}

// Goal: the same for events that waited for room in the queue.
TEST(CoreRings, the_application_is_notified_of_events_that_waited_for_room) {
  Bench bench({.peer_credits = 64});
  bench.add_peer(tcp(2));
  bench.publish();
  Sleeper sleeper(bench);
  for (int i = 0; i < 6; ++i) sleeper.put();
  bench.settle();
  while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.settle();
  EXPECT_EQ(sleeper.poll(), 4u);
  ASSERT_TRUE(sleeper.submitter.eq_arm(sleeper.eq));
  bench.turn(kHome);
  EXPECT_TRUE(sleeper.notified());
  EXPECT_EQ(sleeper.poll(), 2u);
}

// Goal: a queue that closes with its last event notifies the application, and no mark is left on a slot that is free.
// Method: the slot is opened again before the next turn.
TEST(CoreRings, a_queue_that_closes_notifies_first) {
  Bench bench;
  bench.publish();
  Sleeper sleeper(bench);
  ASSERT_TRUE(sleeper.submitter.unlink(sleeper.md));
  ASSERT_TRUE(sleeper.submitter.eq_close(sleeper.eq));
  bench.turn(kHome);
  EXPECT_TRUE(sleeper.notified());
  EXPECT_TRUE(bench.worker().eqs_pushed.empty());
  EXPECT_EQ(sleeper.poll(), 1u);
  const EqHandle next = *sleeper.submitter.eq_open(64);
  EXPECT_TRUE(sleeper.submitter.eq_fd(next));
  EXPECT_TRUE(sleeper.submitter.eq_arm(next));
  bench.settle();
  EXPECT_FALSE(sleeper.submitter.eq_slot(next.index).gate.notified());
}

// Goal: the question whether bytes move comes after the look at arrivals, since these may have come in this turn.
TEST(CoreRings, drivers_look_before_they_say_what_has_moved) {
  Bench bench;
  bench.publish();
  bench.lnd().moves = true;
  for (int i = 0; i < 2; ++i) {
    bench.advance(1us);
    const NiView& ni = bench.mesh->view.load()->local->nis[0];
    bench.tell(kHome, MovedAskMsg{ni.id, PeerNiId{9}, uint16_t(ni.lnd)});
    bench.turn(kHome);
    unsigned answers = 0;
    for (const WorkerMsg& msg : bench.take_control_items()) answers += std::holds_alternative<MovedMsg>(msg);
    EXPECT_EQ(answers, 1u);
  }
  EXPECT_FALSE(bench.lnd().moved_early);
}

constexpr uint32_t kMany = 8 * kLocalBudget;
constexpr uint32_t kStages = 5;  // that drain_local() comes after, at most

// Goal: a turn runs a bounded number of posts of the worker to itself. Posts that are left keep the worker awake. They
// run in order, and each once.
// Method: very many sends that end in one flush(), the last stage of a turn.
TEST(CoreRings, local_posts_beyond_the_budget_run_in_later_turns) {
  Bench bench({.operations = 2 * kMany, .peer_credits = kMany, .ni_credits = kMany});
  bench.add_peer(tcp(2));
  bench.publish();
  Submitter& s = bench.submitter(kHome);
  const EqHandle eq = *s.eq_open(2 * kMany);
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}, .eq = eq});
  for (uint64_t i = 0; i < kMany; ++i) {
    if (i % 32 == 0) bench.settle();
    ASSERT_TRUE(s.put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false, .user_data = i}));
  }
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), kMany);
  bench.lnd().done_in_flush = std::exchange(bench.lnd().sent, {});
  bench.turn(kHome);
  ASSERT_EQ(bench.worker().local.size(), kMany);
  EXPECT_GT(bench.turn(kHome), 0u);
  EXPECT_GE(bench.worker().local.size(), kMany - kStages * kLocalBudget);
  EXPECT_TRUE(bench.worker().pending());
  bench.settle();
  std::vector<Event> events(2 * kMany);
  events.resize(s.eq_poll(eq, events));
  ASSERT_EQ(events.size(), kMany);
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(events[i].user_data, i);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the same for held receives that may go on, and a long list of posts does not keep them waiting.
// Method: twice as many receives as posts; posts that mean nothing.
TEST(CoreRings, ready_receives_have_a_budget_of_their_own) {
  Bench bench;
  bench.publish();
  Worker& w = bench.worker();
  NiSlice& slice = *bench.mesh->view.load()->local->nis[0].slices[0];
  std::vector<Posted> posts(kMany);
  for (Posted& post : posts) w.local.push_back(post);
  std::vector<RxSlot> slots(2 * kMany);
  for (RxSlot& slot : slots) {
    slot.ni_slice = &slice;
    slot.verdict = RxVerdict::kProtocolError;  // the LND takes it back
    slice.rx_count.add(1);
    bench.lnd().held.push_back(&slot);
    w.ready_slots.push_back(slot);
  }
  const std::vector<RxSlot*> order = bench.lnd().held;
  bench.turn(kHome);
  EXPECT_FALSE(w.local.empty());
  EXPECT_GE(bench.lnd().refused.size(), kLocalBudget);
  EXPECT_LE(bench.lnd().refused.size(), kStages * kLocalBudget);
  while (!w.local.empty()) bench.turn(kHome);
  EXPECT_FALSE(w.ready_slots.empty());
  EXPECT_TRUE(w.pending());
  bench.settle();
  EXPECT_EQ(bench.lnd().refused, order);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the same for receives that wait for a message.
// Method: one peer NI has its share; behind it wait very many GETs without a match, which need no message.
TEST(CoreRings, receives_that_wait_for_a_message_have_a_budget_of_their_own) {
  Bench bench({.incoming = 16});
  bench.add_peer(tcp(2));
  bench.open_portal(9, kHome);
  bench.publish();
  Submitter& s = bench.submitter(kHome);
  std::array<std::byte, 64> memory{};
  const Segment segment{memory.data(), 64};
  const MdHandle source = *s.md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdManageRemote | kMdTruncate});
  ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, 1, 0, MePosition::kTail, source));
  bench.settle();
  const auto request = [&](uint64_t bits) { bench.inject(get_header(tcp(1), tcp(2), 9, bits, 8), tcp(2)); };
  while (bench.lnd().held.empty()) request(1), bench.settle();
  for (uint32_t i = 0; i < kMany; ++i) request(2);
  bench.settle();
  ASSERT_EQ(bench.lnd().held.size(), kMany + 1);
  const Counter& without_match = bench.worker().counters.drops[size_t(Drop::kNoMatch)];
  ASSERT_EQ(without_match.get(), 0u);
  for (int i = 0; i < 2; ++i) bench.lnd().complete_tx(*bench.lnd().sent.at(0), {});
  bench.turn(kHome);
  EXPECT_GE(without_match.get(), kLocalBudget / 2);
  EXPECT_LE(without_match.get(), kStages * kLocalBudget);
  EXPECT_TRUE(bench.worker().pending());
  bench.settle();
  EXPECT_EQ(without_match.get(), kMany);
  while (!bench.lnd().sent.empty()) bench.lnd().complete_tx(*bench.lnd().sent[0], {}), bench.settle();
  EXPECT_EQ(bench.not_at_rest(), "");
}

/// Portal 9 at home on worker 0, its sender's connection on worker 1, an application on worker 0.
struct Travel : ::testing::Test {
  explicit Travel(const BenchOptions& options = {.workers = 2}) : bench(options) {
    bench.add_peer(tcp(2), kOther);
    bench.add_peer(tcp(3), kHome);
    bench.open_portal(9, kHome);
    bench.open_portal(8, kHome, true);
    bench.publish();
    submitter = &bench.submitter(kHome);
    eq = *submitter->eq_open(64);
    bench.settle();
  }
  MdHandle attach(uint32_t portal, uint64_t bits, uint32_t options = kMdPut, uint32_t offset = 0) {
    Segment segment{memory.data() + offset, uint32_t(memory.size()) - offset};
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .options = options, .eq = eq});
    EXPECT_TRUE(submitter->me_attach(PortalIndex{portal}, {}, bits, bits == kAll ? ~0ull : 0, MePosition::kTail, md));
    return md;
  }
  /// A PUT that was read whole; its payload is `fill`.
  RxSlot& whole(uint32_t portal, uint64_t bits, uint32_t length, uint8_t fill, bool ack = false) {
    RxSlot& slot = bench.inject(put_header(tcp(1), tcp(2), portal, bits, length, 0, ack), tcp(2));
    bench.lnd(kOther).make_movable(slot, fill);
    return slot;
  }
  std::vector<Event> events() {
    bench.settle();
    std::vector<Event> all(64);
    all.resize(submitter->eq_poll(eq, all));
    return all;
  }
  static std::vector<uint64_t> bits_of(const std::vector<Event>& events) {
    std::vector<uint64_t> bits;
    for (const Event& e : events)
      if (e.kind == EventKind::kPut) bits.push_back(e.match_bits);
    return bits;
  }
  uint64_t drops(Drop reason) { return bench.worker(kHome).counters[reason].get(); }

  static constexpr uint64_t kAll = ~0ull;
  Bench bench;
  Submitter* submitter;
  EqHandle eq;
  std::array<std::byte, 8192> memory{};
};

TEST_F(Travel, a_put_that_was_read_whole_goes_home_as_a_handle) {
  attach(9, 77);
  bench.settle();
  whole(9, 77, 100, 0xAB, true);
  bench.turn(kOther);
  ASSERT_EQ(bench.lnd(kOther).taken.size(), 1u);
  EXPECT_TRUE(bench.lnd(kOther).held.empty()) << "the stream is not stopped";
  bench.turn(kHome);
  Event event;
  ASSERT_EQ(submitter->eq_poll(eq, {&event, 1}), 1u) << "one hop, and it is there";
  EXPECT_EQ(event.kind, EventKind::kPut);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(event.mlength, 100u);
  EXPECT_EQ(event.sender, tcp(2));
  EXPECT_EQ(memory[0], std::byte{0xAB});
  EXPECT_EQ(memory[99], std::byte{0xAB});
  EXPECT_EQ(memory[100], std::byte{0});
  bench.settle();
  EXPECT_TRUE(bench.lnd(kOther).taken.empty()) << "the slot is back";
  ASSERT_EQ(bench.lnd(kOther).sent.size(), 1u);
  EXPECT_EQ(bench.lnd(kOther).sent[0]->header.type, wire::MsgType::kAck);
  EXPECT_EQ(bench.lnd(kOther).sent[0]->header.ack().mlength, 100u);
  bench.lnd(kOther).complete_tx(*bench.lnd(kOther).sent[0], {});
  EXPECT_TRUE(events().empty());
  EXPECT_EQ(bench.worker(kOther).counters[Stat::kRecvCount].get(), 1u);
  EXPECT_EQ(bench.worker(kOther).counters[Stat::kRecvLength].get(), 100u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Travel, what_still_comes_or_is_at_home_here_does_not_travel) {
  bench.add_peer(tcp(4), kHome);
  bench.publish();
  attach(9, 77);
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 10, 0, false), tcp(2));
  RxSlot& here = bench.inject(put_header(tcp(1), tcp(4), 9, 77, 10, 0, false), tcp(4));
  bench.lnd(kHome).make_movable(here, 1);
  bench.settle();
  for (WorkerId w : {kHome, kOther}) {
    EXPECT_TRUE(bench.lnd(w).taken.empty());
    ASSERT_EQ(bench.lnd(w).receiving.size(), 1u);
    bench.lnd(w).complete_rx(*bench.lnd(w).receiving[0], 0, 1);
  }
  EXPECT_EQ(events().size(), 2u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Travel, drops_gets_and_stale_answers_travel_as_well) {
  attach(9, 1, kMdGet | kMdManageRemote | kMdTruncate);
  bench.settle();
  wire::Header stale;
  stale.type = wire::MsgType::kAck;
  stale.dest_nid = tcp(1);
  stale.src_nid = tcp(2);
  stale.set(wire::AckBody{{bench.worker(kHome).interface_cookie, object_cookie(kHome, {3, 77})}, 0, 0});
  whole(9, 5, 10, 1);
  for (const wire::Header& header : {get_header(tcp(1), tcp(2), 9, 1, 100), stale})
    bench.lnd(kOther).make_movable(bench.inject(header, tcp(2)), 0);
  bench.turn(kOther);
  EXPECT_EQ(bench.lnd(kOther).taken.size(), 3u);
  bench.settle();
  EXPECT_TRUE(bench.lnd(kOther).taken.empty());
  EXPECT_EQ(drops(Drop::kNoMatch), 1u);
  EXPECT_EQ(drops(Drop::kStaleHandle), 1u);
  EXPECT_EQ(bench.worker(kOther).counters[Stat::kRecvCount].get(), 1u) << "the GET";
  ASSERT_EQ(bench.lnd(kOther).sent.size(), 1u);
  EXPECT_EQ(bench.lnd(kOther).sent[0]->header.type, wire::MsgType::kReply);
  bench.lnd(kOther).complete_tx(*bench.lnd(kOther).sent[0], {});
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Travel, a_reply_that_was_read_whole_ends_its_get) {
  bench.add_peer(tcp(5), kOther);
  bench.publish();
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  ASSERT_TRUE(submitter->get({.md = md, .target = {tcp(5), kLnetPid}, .portal = 1}));
  bench.settle();
  Tx& request = *bench.lnd(kOther).sent.at(0);
  wire::Header h;
  h.type = wire::MsgType::kReply;
  h.dest_nid = tcp(1);
  h.src_nid = tcp(5);
  h.payload_length = 64;
  h.set(wire::ReplyBody{request.header.get().return_wmd});
  bench.lnd(kOther).make_movable(bench.inject(h, tcp(5)), 0x42);
  EXPECT_TRUE(events().empty()) << "the lease is still out";
  bench.lnd(kOther).complete_tx(request, {});
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, EventKind::kReply);
  EXPECT_EQ(seen[0].status, 0);
  EXPECT_EQ(memory[63], std::byte{0x42});
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Travel, one_that_waits_on_a_lazy_portal_stops_nobody_and_ends_when_an_entry_comes) {
  attach(9, kAll);
  whole(8, 1, 10, 1);
  whole(9, 2, 10, 2);
  EXPECT_EQ(bits_of(events()), (std::vector<uint64_t>{2}));
  EXPECT_EQ(bench.lnd(kOther).taken.size(), 1u);
  const MdHandle late = attach(8, 1);
  ASSERT_TRUE(submitter->unlink(late));  // in the same turn: the match comes first
  const auto seen = events();
  ASSERT_EQ(bits_of(seen), (std::vector<uint64_t>{1}));
  EXPECT_EQ(seen.size(), 2u) << "and the unlink";
  EXPECT_TRUE(bench.lnd(kOther).taken.empty());
  EXPECT_EQ(bench.not_at_rest(), "");
}

struct TravelFewMessages : Travel {
  TravelFewMessages() : Travel({.workers = 2, .incoming = 1}) {}
};

// Goal: PUTs of one connection to one portal match in the order in which they came, whatever each of them waited for.
// Method: one message in all, held by a receive that does not end; what comes next waits for it, what waited on the
// lazy portal before is tried first.
TEST_F(TravelFewMessages, puts_match_in_order_though_some_waited_for_an_entry_and_some_for_a_message) {
  attach(9, kAll);
  whole(8, 1, 10, 1);
  whole(8, 2, 10, 2);
  bench.settle();
  bench.inject(put_header(tcp(1), tcp(3), 9, 50, 10, 0, false), tcp(3));  // has the message
  bench.settle();
  ASSERT_EQ(bench.lnd(kHome).receiving.size(), 1u);
  whole(8, 3, 10, 3);
  bench.settle();
  attach(8, kAll);
  bench.settle();
  whole(8, 4, 10, 4);
  bench.settle();
  EXPECT_EQ(bench.lnd(kOther).taken.size(), 4u);
  bench.lnd(kHome).complete_rx(*bench.lnd(kHome).receiving[0], 0, 1);
  EXPECT_EQ(bits_of(events()), (std::vector<uint64_t>{50, 1, 2, 3, 4}));
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(TravelFewMessages, one_that_comes_with_the_news_of_a_free_message_does_not_overtake_who_waits_for_it) {
  attach(9, kAll);
  bench.settle();
  bench.inject(put_header(tcp(1), tcp(2), 9, 50, 10, 0, false), tcp(2));  // has the message
  bench.settle();
  ASSERT_EQ(bench.lnd(kOther).receiving.size(), 1u);
  whole(9, 1, 10, 1);
  bench.settle();
  bench.lnd(kOther).complete_rx(*bench.lnd(kOther).receiving[0], 0, 1);
  whole(9, 2, 10, 2);
  EXPECT_EQ(bits_of(events()), (std::vector<uint64_t>{50, 1, 2}));
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(TravelFewMessages, those_who_wait_for_a_message_and_need_none_do_not_leave_the_others_waiting) {
  attach(9, 7);
  bench.inject(put_header(tcp(1), tcp(3), 9, 7, 10, 0, false), tcp(3));
  bench.settle();
  for (uint64_t bits : {1, 2, 7}) whole(9, bits, 10, 1);
  bench.settle();
  EXPECT_EQ(bench.lnd(kOther).taken.size(), 3u);
  bench.lnd(kHome).complete_rx(*bench.lnd(kHome).receiving[0], 0, 1);
  EXPECT_EQ(bits_of(events()), (std::vector<uint64_t>{7, 7}));
  EXPECT_EQ(drops(Drop::kNoMatch), 2u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

struct TravelSmallRing : Travel {
  TravelSmallRing() : Travel({.workers = 2, .ring_size = 2}) {}
};

TEST_F(TravelSmallRing, handles_and_match_requests_keep_their_order_through_a_full_ring) {
  attach(9, kAll);
  bench.settle();
  for (uint64_t bits = 0; bits < 12; ++bits)
    if (bits % 3 == 2)
      bench.inject(put_header(tcp(1), tcp(2), 9, bits, 10, 0, false), tcp(2));
    else
      whole(9, bits, 10, uint8_t(bits));
  bench.turn(kOther);
  EXPECT_TRUE(has_waiters(bench.worker(kOther)));
  bench.settle();
  std::vector<uint64_t> offsets;
  while (!bench.lnd(kOther).receiving.empty()) {
    bench.lnd(kOther).complete_rx(*bench.lnd(kOther).receiving[0], 0, 1);
    bench.settle();
  }
  const auto seen = events();
  ASSERT_EQ(seen.size(), 12u);
  for (const Event& e : seen) EXPECT_EQ(e.offset, 10 * e.match_bits) << "matched in the order in which they came";
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: an unlink at home reaches a receive whose match answer is still on its way, or the MD's memory would be held
// for as long as the peer likes. Method: the ring back is full, so the answer waits at home while the wish for the
// memory, which travels by a flag, is already looked at.
TEST_F(TravelSmallRing, a_divert_that_overtakes_its_match_answer_is_not_lost) {
  Submitter& far = bench.submitter(kOther);
  Segment segment{memory.data(), 64};
  const MdHandle source = *far.md_bind({.segments = {&segment, 1}});
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(far.put({.md = source, .target = {tcp(3), kLnetPid}, .portal = 1, .ack = false}));
  bench.inject(put_header(tcp(1), tcp(2), 8, 1, 100, 0, false), tcp(2));  // waits on the lazy portal
  bench.settle();
  ASSERT_EQ(bench.lnd(kHome).sent.size(), 2u);
  while (!bench.lnd(kHome).sent.empty()) bench.lnd(kHome).complete_tx(*bench.lnd(kHome).sent[0], {});
  bench.turn(kHome);  // two returns fill the ring
  const MdHandle md = attach(8, 1);
  ASSERT_TRUE(submitter->unlink(md));
  bench.turn(kHome);
  ASSERT_TRUE(has_waiters(bench.worker(kHome))) << "the answer waits";
  bench.turn(kOther);
  EXPECT_TRUE(bench.lnd(kOther).receiving.empty());
  bench.settle();
  ASSERT_EQ(bench.lnd(kOther).receiving.size(), 1u);
  EXPECT_EQ(bench.lnd(kOther).diverted, bench.lnd(kOther).receiving);
  bench.lnd(kOther).complete_rx(*bench.lnd(kOther).receiving[0], -ECANCELED);
  const auto seen = events();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].status, -ECANCELED);
  EXPECT_EQ(seen[1].kind, EventKind::kUnlink);
  ASSERT_TRUE(far.unlink(source));
  bench.settle();
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
