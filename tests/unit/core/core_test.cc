// The rules of the core, one by one, on the bench: receive rules of docs/wire/lnet.md §3, matching, credits,
// bounds. Lazy portals: lazy_test.cc. Forwarding: forward_test.cc.
#include "dataplane/stages/operation.h"
#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

TEST_F(CoreTest, put_is_delivered_and_acknowledged_from_the_ni_it_came_to) {
  sink(4096);
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 100), tcp(2));
  arrive_all(0xAB);
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, EventKind::kPut);
  EXPECT_FALSE(seen[0].final) << "it ends nothing that was started here";
  EXPECT_EQ(seen[0].mlength, 100u);
  EXPECT_EQ(seen[0].hdr_data, 99u);
  EXPECT_EQ(seen[0].source, tcp(2));
  EXPECT_EQ(memory[99], std::byte{0xAB});
  EXPECT_EQ(memory[100], std::byte{0});
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  const wire::Header& ack = bench.lnd().sent[0]->header;
  EXPECT_EQ(ack.type, MsgType::kAck);
  EXPECT_EQ(ack.src_nid, tcp(1));
  EXPECT_EQ(ack.dest_nid, tcp(2));
  EXPECT_EQ(ack.ack().dst_wmd, (wire::WireHandle{11, 22}));
  EXPECT_EQ(ack.ack().match_bits, 77u);
  EXPECT_EQ(ack.ack().mlength, 100u);
  send_all();
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, no_ack_when_none_is_wanted_or_the_md_disables_it) {
  sink(4096, kMdPut | kMdAckDisable, 1);
  sink(4096, kMdPut, 2);
  bench.inject(put_header(tcp(1), tcp(2), 9, 1, 10), tcp(2));
  bench.inject(put_header(tcp(1), tcp(2), 9, 2, 10, 0, false), tcp(2));
  arrive_all();
  EXPECT_EQ(events().size(), 2u);
  EXPECT_TRUE(bench.lnd().sent.empty());
}

TEST_F(CoreTest, get_is_answered_with_the_asked_window) {
  const MdHandle md = sink(4096, kMdGet | kMdManageRemote | kMdTruncate);
  (void)md;
  bench.inject(get_header(tcp(1), tcp(2), 9, 77, 1000, 4000), tcp(2));
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  const Tx& tx = *bench.lnd().sent[0];
  EXPECT_EQ(tx.header.type, MsgType::kReply);
  EXPECT_EQ(tx.header.reply().dst_wmd, (wire::WireHandle{33, 44}));
  EXPECT_EQ(tx.header.payload_length, 96u);
  EXPECT_EQ(tx.payload.offset, 4000u);
  EXPECT_TRUE(events().empty()) << "the event comes when the reply has left";
  send_all();
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, EventKind::kGet);
  EXPECT_FALSE(seen[0].final);
  EXPECT_EQ(seen[0].mlength, 96u);
  EXPECT_EQ(seen[0].offset, 4000u);
}

TEST_F(CoreTest, the_first_match_in_list_order_wins_exact_or_wild) {
  const MdHandle exact = sink(4000, kMdPut, 100);
  const MdHandle wild_behind = sink(4000, kMdPut, 0, ~0ull);
  const MdHandle wild_in_front = sink(4000, kMdPut, 0x40, 0xF, kInfinite, MePosition::kHead);
  const MdHandle exact_too_late = sink(4000, kMdPut, 0x41);
  (void)exact_too_late;
  const std::pair<uint64_t, MdHandle> cases[] = {
      {100, exact}, {101, wild_behind}, {0x4D, wild_in_front}, {0x41, wild_in_front}};
  for (const auto& [bits, md] : cases) {
    bench.inject(put_header(tcp(1), tcp(2), 9, bits, 10, 0, false), tcp(2));
    arrive_all();
    const auto seen = events();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].md, md) << bits;
  }
}

TEST_F(CoreTest, drops_have_their_reason) {
  sink(50, kMdPut, 1);
  const std::pair<wire::Header, Drop> cases[] = {
      {put_header(tcp(1), tcp(2), 9, 5, 10), Drop::kNoMatch},
      {put_header(tcp(1), tcp(2), 9, 1, 51), Drop::kTooLong},
      {put_header(tcp(1), tcp(2), 64, 1, 10), Drop::kPortalRange},
      {put_header(tcp(1), tcp(2), 10, 1, 10), Drop::kPortalClosed},
      {get_header(tcp(1), tcp(2), 9, 1, 10), Drop::kNoMatch},
      {put_header(tcp1(7), tcp(2), 9, 1, 10), Drop::kRoutingDisabled},
  };
  for (const auto& [header, reason] : cases) {
    const uint64_t before = drops(reason);
    bench.inject(header, tcp(2));
    arrive_all();
    EXPECT_EQ(drops(reason), before + 1) << text_of(reason).name;
  }
  EXPECT_EQ(bench.worker().counters[Stat::kDropCount].get(), std::size(cases));
  EXPECT_TRUE(bench.lnd().refused.empty()) << "a drop leaves the connection up";
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, protocol_errors_close_the_connection) {
  wire::Header get_with_payload = get_header(tcp(1), tcp(2), 9, 1, 10);
  get_with_payload.payload_length = 1;
  wire::Header ack_with_payload;
  ack_with_payload.type = MsgType::kAck;
  ack_with_payload.dest_nid = tcp(1);
  ack_with_payload.src_nid = tcp(2);
  ack_with_payload.payload_length = 4;
  wire::Header hello;
  hello.type = MsgType::kHello;
  hello.dest_nid = tcp(1);
  hello.src_nid = tcp(2);
  const wire::Header cases[] = {get_with_payload,
                                ack_with_payload,
                                hello,
                                put_header(tcp(1), tcp(2), 9, 1, kMaxPayload + 1),
                                put_header(tcp(200), tcp(2), 9, 1, 10),
                                put_header(tcp1(1), tcp(2), 9, 1, 10)};
  size_t refused = 0;
  for (const wire::Header& header : cases) {
    bench.inject(header, tcp(2));
    bench.settle();
    EXPECT_EQ(bench.lnd().refused.size(), ++refused);
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, threshold_and_max_size_unlink_by_themselves) {
  sink(100, kMdPut, 1, 0, 2);
  sink(100, kMdPut, 2, 0, kInfinite, MePosition::kTail, 60);
  for (int i = 0; i < 2; ++i) bench.inject(put_header(tcp(1), tcp(2), 9, 1, 10, 0, false), tcp(2));
  bench.inject(put_header(tcp(1), tcp(2), 9, 2, 41, 0, false), tcp(2));
  arrive_all();
  int unlinks = 0;
  for (const Event& e : events()) unlinks += e.kind == EventKind::kUnlink;
  EXPECT_EQ(unlinks, 2);
  EXPECT_EQ(submitter->mds_in_use(), 0u);
}

TEST_F(CoreTest, offsets_are_local_or_remote) {
  const MdHandle md = sink(100, kMdPut, 1);
  (void)md;
  sink(100, kMdPut | kMdManageRemote | kMdTruncate, 2);
  for (int i = 0; i < 2; ++i) bench.inject(put_header(tcp(1), tcp(2), 9, 1, 30, 70, false), tcp(2));
  bench.inject(put_header(tcp(1), tcp(2), 9, 2, 30, 90, false), tcp(2));
  arrive_all();
  const auto seen = events();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].offset, 0u);
  EXPECT_EQ(seen[1].offset, 30u);
  EXPECT_EQ(seen[2].offset, 90u);
  EXPECT_EQ(seen[2].mlength, 10u) << "truncated to the room";
  EXPECT_EQ(seen[2].rlength, 30u);
}

TEST_F(CoreTest, initiators_are_matched_by_nid_and_pid) {
  sink(100, kMdPut, 1, 0, kInfinite, MePosition::kTail, 0, {tcp(3), kAnyPid});
  sink(100, kMdPut, 2, 0, kInfinite, MePosition::kTail, 0, {kAnyNid, 7});
  bench.inject(put_header(tcp(1), tcp(2), 9, 1, 10, 0, false), tcp(2));
  bench.inject(put_header(tcp(1), tcp(3), 9, 1, 10, 0, false), tcp(3));
  bench.inject(put_header(tcp(1), tcp(2), 9, 2, 10, 0, false), tcp(2));
  arrive_all();
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(drops(Drop::kNoMatch), 2u);
}

// Goal: a call finds the portal that was opened before it, also when the turn that carries it out began before. Method:
// both in a callback, which comes in the midst of a turn.
TEST_F(CoreTest, a_call_finds_what_was_there_when_it_was_made) {
  struct Application {
    Bench& bench;
    Submitter& submitter;
    MdHandle md;
    static void called(void* self, const Event&) {
      auto& its = *static_cast<Application*>(self);
      its.bench.open_portal(12, WorkerId{0});
      its.bench.publish();
      EXPECT_TRUE(its.submitter.me_attach(PortalIndex{12}, {}, 5, 0, MePosition::kTail, its.md));
    }
  };
  Segment segment{memory.data(), uint32_t(memory.size())};
  Application its{bench, *submitter,
                  *submitter->md_bind({.segments = {&segment, 1}, .options = kMdPut | kMdManageRemote, .eq = eq})};
  const EqHandle told = *submitter->eq_open(&Application::called, &its);
  const MdHandle first = *submitter->md_bind({.segments = {&segment, 1}, .eq = told});
  bench.settle();
  ASSERT_TRUE(submitter->unlink(first));
  bench.settle();
  EXPECT_TRUE(events().empty()) << "the entry is not refused";
  bench.inject(put_header(tcp(1), tcp(2), 12, 5, 10, 0, false), tcp(2));
  arrive_all();
  EXPECT_EQ(events().size(), 1u);
}

TEST_F(CoreTest, an_empty_message_pool_holds_receives_and_loses_none) {
  Bench small({.incoming = 4});  // of which one peer may hold half
  small.add_peer(tcp(2));
  small.open_portal(9, WorkerId{0});
  small.publish();
  Submitter& s = small.submitter(WorkerId{0});
  const EqHandle q = *s.eq_open(64);
  Segment segment{memory.data(), 8192};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}, .options = kMdPut, .eq = q});
  ASSERT_TRUE(s.me_attach(PortalIndex{9}, {}, 1, 0, MePosition::kTail, md));
  for (int i = 0; i < 5; ++i) small.inject(put_header(tcp(1), tcp(2), 9, 1, 10, 0, false), tcp(2));
  small.settle();
  EXPECT_EQ(small.lnd().receiving.size(), 2u);
  EXPECT_EQ(small.lnd().held.size(), 3u);
  while (!small.lnd().receiving.empty()) {
    small.lnd().complete_rx(*small.lnd().receiving[0], 0, 1);
    small.settle();
  }
  Event seen[64];
  EXPECT_EQ(s.eq_poll(q, seen), 5u);
  EXPECT_EQ(small.not_at_rest(), "");
}

TEST_F(CoreTest, puts_beyond_the_peer_credits_wait_in_order_and_leave_in_order) {
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  for (uint64_t i = 0; i < 20; ++i)
    ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .match_bits = i, .ack = false}));
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 8u);
  std::vector<uint64_t> order;
  while (!bench.lnd().sent.empty()) {
    order.push_back(bench.lnd().sent[0]->header.put().match_bits);
    bench.lnd().complete_tx(*bench.lnd().sent[0], {});
    bench.settle();
    EXPECT_LE(bench.lnd().sent.size(), 8u);
  }
  ASSERT_EQ(order.size(), 20u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(events().size(), 20u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: where the driver copies small payloads, more of these are under way than there are credits; large ones are not.
TEST_F(CoreTest, puts_that_the_driver_copies_go_beyond_the_peer_credits) {
  bench.lnd().copied = 64;
  std::array<Segment, 2> segments{Segment{memory.data(), 64}, Segment{memory.data(), 65}};
  for (const auto& [segment, most] : {std::pair{segments[0], 8u + kCopiedOverdraft}, std::pair{segments[1], 8u}}) {
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
    for (uint64_t i = 0; i < 40; ++i)
      ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .match_bits = i, .ack = false}));
    bench.settle();
    EXPECT_EQ(bench.lnd().sent.size(), most);
    for (uint64_t i = 0; i < 40; ++i) {
      ASSERT_EQ(bench.lnd().sent[0]->header.put().match_bits, i);
      bench.lnd().complete_tx(*bench.lnd().sent[0], {});
      bench.settle();
    }
    EXPECT_EQ(events().size(), 40u);
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

/// Sends `count` puts to each of two peers over one NI; returns the match bits in the order in which they left.
std::vector<uint64_t> send_over(Bench& bench, WorkerId home, WorkerId server, uint64_t count) {
  bench.add_peer(tcp(2), server);
  bench.add_peer(tcp(3), server);
  bench.publish();
  Submitter& s = bench.submitter(home);
  const EqHandle q = *s.eq_open(256);
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}, .eq = q});
  for (uint64_t i = 0; i < 2 * count; ++i)
    EXPECT_TRUE(s.put({.md = md, .target = {tcp(2 + i % 2), kLnetPid}, .portal = 1, .match_bits = i, .ack = false}));
  bench.settle();
  std::vector<uint64_t> order;
  while (!bench.lnd(server).sent.empty()) {
    order.push_back(bench.lnd(server).sent[0]->header.put().match_bits);
    bench.lnd(server).complete_tx(*bench.lnd(server).sent[0], {});
    bench.settle();
  }
  Event seen[256];
  EXPECT_EQ(s.eq_poll(q, seen), 2 * count);
  EXPECT_EQ(bench.not_at_rest(), "");
  return order;
}

TEST(CoreCredits, puts_beyond_the_ni_credits_wait_in_order_and_all_leave) {
  Bench bench({.peer_credits = 64, .ni_credits = 3});
  const auto order = send_over(bench, WorkerId{0}, WorkerId{0}, 20);
  EXPECT_EQ(order.size(), 40u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(CoreRings, what_finds_a_ring_full_waits_its_turn_and_nothing_is_lost) {
  Bench bench({.workers = 2, .peer_credits = 64, .ring_size = 2});
  const auto order = send_over(bench, WorkerId{0}, WorkerId{1}, 20);
  EXPECT_EQ(order.size(), 40u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << "one worker's posts arrive in the order they were made";
  EXPECT_GT(bench.worker().counters[TurnStat::kRingFull].get(), 0u);
}

TEST_F(CoreTest, an_md_is_free_while_the_ack_of_its_last_put_is_still_under_way) {
  sink(100, kMdPut, 1, 0, 1);
  bench.inject(put_header(tcp(1), tcp(2), 9, 1, 10), tcp(2));
  arrive_all();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  const auto seen = events();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].kind, EventKind::kUnlink);
  send_all();
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, a_put_that_waits_for_credit_past_its_deadline_fails_and_frees_its_place) {
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  for (int i = 0; i < 9; ++i)
    ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false}));
  bench.settle();
  bench.advance(152s);
  auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].status, -ETIMEDOUT);
  EXPECT_EQ(bench.lnd().cancelled.size(), 8u) << "what the LND has is asked for back, by force";
  send_all();
  EXPECT_EQ(events().size(), 8u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, an_unknown_peer_is_asked_for_once_and_the_messages_wait) {
  constexpr uint32_t kParked = 32;
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  for (uint32_t i = 0; i < kParked; ++i)
    ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(50), kLnetPid}, .portal = 1, .ack = false}));
  bench.settle();
  auto asked = bench.take_control_items();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(std::get<ResolveMsg>(asked[0]).nid, tcp(50));
  bench.add_peer(tcp(50));
  bench.publish();
  bench.tell(WorkerId{0}, ResolvedMsg{tcp(50)});
  send_all();
  EXPECT_EQ(events().size(), kParked);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, control_may_say_that_a_peer_cannot_be_reached) {
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(50), kLnetPid}, .portal = 1, .ack = true, .user_data = 17}));
  bench.settle();
  bench.tell(WorkerId{0}, ResolvedMsg{tcp(50), -EHOSTUNREACH});
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].status, -EHOSTUNREACH);
  EXPECT_EQ(seen[0].user_data, 17u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a PUT that fails on each rail ends when each was tried once, however many resends are allowed.
TEST_F(CoreTest, a_message_is_resent_over_each_rail) {
  constexpr unsigned kRetries = 300;
  bench.join(tcp(2), tcp(2));
  bench.join(tcp(2), tcp(3));
  bench.node.retry_count = kRetries;
  bench.publish();
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
  bench.settle();
  unsigned sends = 0;
  for (; !bench.lnd().sent.empty() && sends < 2 * kRetries; ++sends) {
    bench.lnd().complete_tx(*bench.lnd().sent[0], {-ECONNRESET, LndStatus::kRemoteDropped});
    bench.settle();
  }
  EXPECT_EQ(sends, 2u);
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].status, -ECONNRESET);
  EXPECT_EQ(bench.worker().counters[Stat::kFailedResends].get(), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, no_route_is_an_error_at_once) {
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  ASSERT_TRUE(submitter->get({.md = md, .target = {Nid::v4(Net::of(NetType::kO2ib, 4), 1), kLnetPid}, .portal = 1}));
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].status, -EHOSTUNREACH);
  EXPECT_EQ(seen[0].kind, EventKind::kReply);
}

TEST_F(CoreTest, loopback_carries_puts_and_gets_to_this_node) {
  sink(4096, kMdPut | kMdGet | kMdManageRemote | kMdTruncate, 77);
  std::array<std::byte, 256> mine;
  mine.fill(std::byte{0x42});
  Segment segment{mine.data(), 256};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  for (const Nid& self : {kLoNid, tcp(1)}) {
    ASSERT_TRUE(submitter->put({.md = md, .target = {self, kLnetPid}, .portal = 9, .match_bits = 77, .ack = true}));
    auto seen = events();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].status | seen[1].status, 0);
    ASSERT_TRUE(submitter->get({.md = md, .target = {self, kLnetPid}, .portal = 9, .match_bits = 77}));
    seen = events();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].status | seen[1].status, 0);
  }
  EXPECT_EQ(memory[255], std::byte{0x42});
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, response_tracking_decides_whether_a_lost_answer_ends_the_operation) {
  Segment segment{memory.data(), 64};
  struct {
    uint8_t node;
    uint32_t options;
    bool get;
    bool ends;
  } const cases[] = {{3, 0, true, true},        {3, 0, false, true},          {2, 0, true, false},
                     {2, 0, false, true},       {1, 0, true, true},           {1, 0, false, false},
                     {0, kMdTrack, true, true}, {3, kMdNoTrack, true, false}, {0, 0, false, false}};
  for (const auto& c : cases) {
    bench.node.response_tracking = c.node;
    bench.publish();
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .options = c.options, .eq = eq});
    const PutSpec spec{.md = md, .target = {tcp(2), kLnetPid}, .portal = 1};
    ASSERT_TRUE(c.get ? submitter->get(spec) : submitter->put(spec));
    send_all();
    bench.advance(151s);
    const auto seen = events();
    EXPECT_EQ(seen.size(), c.ends ? 1u : 0u) << int(c.node) << " " << c.options << " " << c.get;
    if (c.ends && !seen.empty()) {
      EXPECT_EQ(seen[0].status, -ETIMEDOUT);
    }
    ASSERT_TRUE(submitter->unlink(md));
    EXPECT_EQ(events().size(), c.ends ? 1u : 2u) << "unlinking ends it in any case";
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(CoreTest, latencies_are_counted_at_the_ni_and_the_peer) {
  Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
  bench.settle();
  Tx& tx = *bench.lnd().sent.at(0);
  const wire::PutBody put = tx.header.put();
  bench.advance(3ms);
  bench.lnd().complete_tx(tx, {});
  bench.settle();
  bench.advance(2ms);
  wire::Header ack;
  ack.type = MsgType::kAck;
  ack.dest_nid = tcp(1);
  ack.src_nid = tcp(2);
  ack.set(wire::AckBody{put.ack_wmd, 0, 64});
  bench.inject(ack, tcp(2));
  bench.settle();
  const PeerRef peer = bench.mesh->view.load()->peers->find(tcp(2));
  EXPECT_EQ(peer.ni().slice->counters[NiLatency::kPutEgress].max_ns.get(), 3000000u);
  EXPECT_EQ(peer.ni().locals[0]->latencies[NiLatency::kPutAck].max_ns.get(), 5000000u);
  EXPECT_EQ(bench.mesh->view.load()->local->nis[0].slices[0]->counters[NiLatency::kPutAck].samples.get(), 1u);
}

TEST_F(CoreTest, a_stale_or_foreign_handle_is_dropped_quietly) {
  wire::Header h;
  h.type = MsgType::kAck;
  h.dest_nid = tcp(1);
  h.src_nid = tcp(2);
  h.set(wire::AckBody{{0x9999, 1}, 0, 0});
  bench.inject(h, tcp(2));
  bench.settle();
  EXPECT_EQ(drops(Drop::kForeignHandle), 1u);
  h.set(wire::AckBody{{bench.worker().interface_cookie, object_cookie(WorkerId{0}, {3, 77})}, 0, 0});
  bench.inject(h, tcp(2));
  h.set(wire::AckBody{{bench.worker().interface_cookie, object_cookie(WorkerId{40}, {3, 77})}, 0, 0});
  bench.inject(h, tcp(2));
  bench.settle();
  EXPECT_EQ(drops(Drop::kStaleHandle), 2u);
}

TEST_F(CoreTest, a_reply_longer_than_the_md_is_dropped_unless_it_truncates) {
  Segment segment{memory.data(), 64};
  for (uint32_t options : {0u, uint32_t(kMdTruncate)}) {
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .options = options, .eq = eq});
    ASSERT_TRUE(submitter->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
    bench.settle();
    const wire::WireHandle wmd = bench.lnd().sent.at(0)->header.get().return_wmd;
    send_all();
    wire::Header h;
    h.type = MsgType::kReply;
    h.dest_nid = tcp(1);
    h.src_nid = tcp(2);
    h.payload_length = 100;
    h.set(wire::ReplyBody{wmd});
    bench.inject(h, tcp(2));
    arrive_all();
    const auto seen = events();
    if (options == 0) {
      EXPECT_TRUE(seen.empty());
      EXPECT_EQ(drops(Drop::kReplyTooLong), 1u);
      ASSERT_TRUE(submitter->unlink(md));
      EXPECT_EQ(events().size(), 2u);
    } else {
      ASSERT_EQ(seen.size(), 1u);
      EXPECT_EQ(seen[0].mlength, 64u);
      EXPECT_EQ(seen[0].status, 0);
    }
  }
}

// Goal: a driver that needs registered memory does not write a long REPLY into memory that lies in no region.
TEST_F(CoreTest, a_long_reply_into_memory_without_a_region_is_dropped) {
  for (const bool copied : {true, false}) {
    bench.node.regions_above = copied ? 100 : 99;  // the REPLY has 100 bytes, the sink 64
    bench.publish();
    Segment segment{memory.data(), 64};
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .options = kMdTruncate, .eq = eq});
    ASSERT_TRUE(submitter->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
    bench.settle();
    const wire::WireHandle wmd = bench.lnd().sent.at(0)->header.get().return_wmd;
    send_all();
    wire::Header h;
    h.type = MsgType::kReply;
    h.dest_nid = tcp(1);
    h.src_nid = tcp(2);
    h.payload_length = 100;
    h.set(wire::ReplyBody{wmd});
    bench.inject(h, tcp(2));
    arrive_all();
    EXPECT_EQ(events().size(), copied ? 1u : 0u);
    EXPECT_EQ(drops(Drop::kReplyTooLong), copied ? 0u : 1u);
    ASSERT_TRUE(submitter->unlink(md));
    EXPECT_EQ(events().size(), copied ? 1u : 2u);
  }
}

TEST(Core, a_worker_is_as_patient_as_its_most_patient_driver) {
  Bench bench;
  EXPECT_FALSE(bench.worker().patient());
  bench.lnd().is_patient = true;
  EXPECT_TRUE(bench.worker().patient());
}

}  // namespace
}  // namespace ulnet::test
