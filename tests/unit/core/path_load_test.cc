// Path selection follows what the worker itself has under way.
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr WorkerId kNear{0}, kFar{1};

/// Two NIs of a peer, both served by the other worker, and messages of the home worker to them.
struct CorePathLoad : ::testing::Test {
  CorePathLoad() {
    for (const Nid& nid : {tcp(2), tcp(3)}) {
      bench.add_peer(nid, kFar);
      bench.join(tcp(2), nid);
    }
    bench.publish();
    submitter = &bench.submitter(kNear);
    md = *submitter->md_bind({.segments = {&segment, 1}});
    bench.settle();
  }
  ~CorePathLoad() override { EXPECT_EQ(bench.not_at_rest(), ""); }
  void put(unsigned count, bool ack = false) {
    for (unsigned i = 0; i < count; ++i)
      ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = ack}));
    bench.turn(kNear);
    bench.settle();
  }
  std::vector<Tx*> sent_to(const Nid& nid) {
    std::vector<Tx*> found;
    for (Tx* tx : bench.lnd(kFar).sent)
      if (tx->next_hop == nid) found.push_back(tx);
    return found;
  }
  void complete(const std::vector<Tx*>& all, Completion how = {}) {
    for (Tx* tx : all) bench.lnd(kFar).complete_tx(*tx, how);
    bench.settle();
  }

  Bench bench{{.workers = 2, .operations = 1024, .peer_credits = 64}};
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  Submitter* submitter = nullptr;
  MdHandle md;
};

// Goal: of two rails, the next message takes the one where fewer of this worker's messages are under way.
TEST_F(CorePathLoad, fewer_under_way_goes_first) {
  put(8);
  EXPECT_EQ(sent_to(tcp(2)).size(), 4u);
  EXPECT_EQ(sent_to(tcp(3)).size(), 4u);
  complete(sent_to(tcp(2)));
  put(4);
  EXPECT_EQ(sent_to(tcp(2)).size(), 4u) << "0 under way against 4";
  EXPECT_EQ(sent_to(tcp(3)).size(), 4u);
  put(2);
  EXPECT_EQ(sent_to(tcp(2)).size(), 5u) << "both have as many";
  complete(sent_to(tcp(2)));
  complete(sent_to(tcp(3)));
}

// Goal: of two peer NIs with different credits, the next message takes the one with more free credits.
TEST_F(CorePathLoad, free_credits_count) {
  bench.slice(tcp(2)).credits.set_total(8);
  bench.slice(tcp(3)).credits.set_total(4);
  bench.publish();
  put(8);
  EXPECT_EQ(sent_to(tcp(2)).size(), 6u);
  EXPECT_EQ(sent_to(tcp(3)).size(), 2u);
  complete(sent_to(tcp(2)));
  complete(sent_to(tcp(3)));
}

// Goal: a request counts until its answer is here, or it fails: the payload of a GET comes after its lease is back.
TEST_F(CorePathLoad, requests_count_until_they_are_answered) {
  put(2, true);
  const wire::Header request = sent_to(tcp(2)).front()->header;
  complete(sent_to(tcp(2)));
  complete(sent_to(tcp(3)));
  EXPECT_EQ(bench.local(tcp(2), kNear).tally->under_way(), 1u);
  EXPECT_EQ(bench.local(tcp(3), kNear).tally->under_way(), 1u);
  EXPECT_EQ(bench.local(tcp(2), kFar).tally->under_way(), 0u);
  EXPECT_EQ(bench.worker(kNear).tallies.ni_now(0, PaceKind::kSmall).under_way, 2u);
  wire::Header ack;
  ack.type = wire::MsgType::kAck;
  ack.dest_nid = tcp(1);
  ack.src_nid = tcp(2);
  ack.set(wire::AckBody{request.put().ack_wmd, 1, 64});
  bench.inject(ack, tcp(2));
  bench.settle();
  EXPECT_EQ(bench.local(tcp(2), kNear).tally->under_way(), 0u);
  put(1, true);
  put(1, true);
  EXPECT_EQ(sent_to(tcp(2)).size(), 1u);
  EXPECT_EQ(sent_to(tcp(3)).size(), 1u) << "as many are under way on both, and it is its turn";
  complete(sent_to(tcp(2)), {-ETIMEDOUT, LndStatus::kRemoteTimeout});
  complete(sent_to(tcp(3)), {-ETIMEDOUT, LndStatus::kRemoteTimeout});
  bench.now += 1000s;
  bench.settle();
}

// Goal: a GET counts on its local NI until its payload is here. Only some GETs to a peer that does not answer count.
TEST_F(CorePathLoad, gets_count_on_their_local_ni) {
  const auto get = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      ASSERT_TRUE(submitter->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
    bench.turn(kNear);
    bench.settle();
    while (!bench.lnd(kFar).sent.empty()) complete(std::vector<Tx*>(bench.lnd(kFar).sent));
  };
  const auto on_ni = [&] { return bench.worker(kNear).tallies.ni_now(0, PaceKind::kSmall).under_way; };
  get(4);
  EXPECT_EQ(on_ni(), 4u);
  get(16);
  get(16);
  EXPECT_EQ(bench.local(tcp(2), kNear).tally->under_way() + bench.local(tcp(3), kNear).tally->under_way(), 36u);
  EXPECT_EQ(on_ni(), 20u) << "the last ones did not count: more than 16 on each peer NI";
  bench.now += 1000s;
  bench.settle();
  EXPECT_EQ(on_ni(), 0u);
}

/// Two rails to one peer: a message over the second takes ten times as long as over the first. Each carries its
/// messages one after the other.
struct UnequalRails : ::testing::Test {
  UnequalRails() {
    for (const Nid& nid : rails) {
      bench.add_peer(nid, kFar);
      bench.join(rails[0], nid);
    }
    bench.publish();
    submitter = &bench.submitter(kNear);
    eq = *submitter->eq_open(256);
    md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
    bench.settle();
  }
  void put(uint32_t bytes) {
    PutSpec spec{.md = md, .target = {rails[0], kLnetPid}, .portal = 1};
    spec.length = bytes;
    ASSERT_TRUE(submitter->put(spec));
    ++under_way;
  }
  /// Lets time pass in steps of 100 us. A rail carries `kib_per_step` KiB in a step, the second a tenth of it.
  void step(double kib_per_step) {
    bench.now += 100us;
    for (size_t rail = 0; rail < rails.size(); ++rail) {
      double& room = carried[rail];
      room += rail == 0 ? kib_per_step : kib_per_step / 10;
      bool any = false;
      for (Tx* tx : std::vector<Tx*>(bench.lnd(kFar).sent)) {
        if (tx->next_hop != rails[rail]) continue;
        const double kib = double(tx->header.payload_length + 72) / 1024;
        any = true;
        if (room < kib) break;
        room -= kib;
        wire::Header ack;
        ack.type = wire::MsgType::kAck;
        ack.dest_nid = tcp(1);
        ack.src_nid = tx->next_hop;
        ack.set(wire::AckBody{wire::Header(tx->header).put().ack_wmd, 1, tx->header.payload_length});
        bench.lnd(kFar).complete_tx(*tx, {});
        bench.inject(ack, tx->next_hop);
        total_kib += kib;
        ++done[rail];
        --under_way;
      }
      if (!any) room = 0;
    }
    bench.settle();
    std::array<Event, 64> events;
    while (submitter->eq_poll(eq, events) > 0) {
    }
  }

  const std::array<Nid, 2> rails{tcp(2), tcp(3)};
  Bench bench{{.workers = 2, .operations = 128, .peer_credits = 256}};
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  Segment segment{memory.data(), 1 << 20};
  Submitter* submitter = nullptr;
  EqHandle eq;
  MdHandle md;
  std::array<double, 2> carried{};
  std::array<unsigned, 2> done{};
  double total_kib = 0;
  unsigned under_way = 0;
};

// Goal: bulk uses both rails fully, and none of it waits for the slow rail alone.
// Method: 16 messages of 1 MiB in flight; 100 KiB per step over both rails together are 91 and 9.
TEST_F(UnequalRails, bulk_uses_the_sum_of_both) {
  for (int i = 0; i < 20000; ++i) {
    while (under_way < 16) put(1 << 20);
    bench.settle();
    step(100);
    if (i == 2000) total_kib = 0;
  }
  EXPECT_GE(total_kib / (18000 * 110.0), 0.97);
  EXPECT_EQ(bench.worker(kNear).tallies.peer_ni(1).weights().of(PaceKind::kBulk), 10);
  while (under_way > 0) step(100);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: a few messages in flight take the fast rail, but for one try of the slow one in two seconds.
TEST_F(UnequalRails, small_messages_keep_the_latency_of_the_fast_rail) {
  for (int i = 0; i < 40000; ++i) {  // 4 s
    if (under_way == 0) put(4096);
    bench.settle();
    step(4.1);
    if (i == 1000) done = {};
  }
  EXPECT_GT(done[0], 20000u) << "of 39,000 steps: one in two is the fast rail's latency";
  EXPECT_LE(done[1], 4u);
  while (under_way > 0) step(100);
}

// Goal: a rail whose connection takes long to come is not slow.
// Method: the second rail has no connection for 1 ms. Half of its messages are there before that shows.
TEST_F(UnequalRails, a_missing_connection_is_not_the_pace) {
  const auto on_second = [&] {
    std::vector<Tx*> found;
    for (Tx* tx : bench.lnd(kFar).sent)
      if (tx->next_hop == rails[1]) found.push_back(tx);
    return found;
  };
  for (int i = 0; i < 16; ++i) put(4096);
  bench.settle();
  for (Tx* tx : on_second()) bench.calls(kFar).tx_waits(*tx, bench.now);
  for (int i = 0; i < 16; ++i) put(4096);
  bench.settle();
  ASSERT_EQ(on_second().size(), 16u);
  carried[1] = -1900;
  for (int i = 0; i < 9; ++i) step(2000);
  ASSERT_EQ(done, (std::array{16u, 0u}));
  for (Tx* tx : on_second()) bench.calls(kFar).tx_connected(*tx, bench.now);
  step(2000);
  ASSERT_EQ(done, (std::array{16u, 16u}));
  bench.now += 1ms;  // the weights are derived once per millisecond
  put(4096);
  bench.settle();
  step(2000);
  ASSERT_EQ(done, (std::array{17u, 16u}));
  EXPECT_FALSE(bench.worker(kNear).tallies.weighted());
  for (int i = 0; i < 16; ++i) put(4096);
  bench.settle();
  EXPECT_EQ(on_second().size(), 8u);
  step(2000);
  EXPECT_EQ(under_way, 0u);
}

// Goal: rails whose pace becomes the same share evenly again.
TEST_F(UnequalRails, equal_again) {
  for (int i = 0; i < 5000; ++i) {
    while (under_way < 16) put(1 << 20);
    bench.settle();
    step(100);
  }
  ASSERT_EQ(bench.worker(kNear).tallies.peer_ni(1).weights().of(PaceKind::kBulk), 10);
  while (under_way > 0) step(100);
  carried = {};
  done = {};
  for (int i = 0; i < 5000; ++i) {
    while (under_way < 16) put(1 << 20);
    bench.settle();
    carried[1] += 90;
    step(100);
  }
  EXPECT_EQ(bench.worker(kNear).tallies.peer_ni(1).weights().of(PaceKind::kBulk), 1);
  EXPECT_NEAR(double(done[1]) / done[0], 1, 0.1);
  EXPECT_FALSE(bench.worker(kNear).tallies.weighted());
  while (under_way > 0) step(100);
}

}  // namespace
}  // namespace ulnet::test
