// Messages that the core keeps ("takes") while the stream reads on. The tests check which messages are offered, and how
// long a taken message stays in its place. Room or slots may run out, and the connection may break.
// Source: lnd/lnd.h.
#include <gtest/gtest.h>

#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.2@tcp";
constexpr const char* kOther = "10.0.0.254@tcp";

/// A node that a foreign peer has dialled: one connection, up. Its core takes each message that may be taken, and
/// receives the others.
struct Taking {
  explicit Taking(SockNodeOptions options = {}, uint32_t version = 3) : rig({.random_segments = false}) {
    options.nids = {kUs};
    node = &rig.add(options);
    node->on_header = [this](FakeCore& fake, RxSlot& slot) {
      seen.push_back(slot.header.put().match_bits);
      if (slot.movable) return RxVerdict::kTaken;
      fake.make_room(slot, UINT32_MAX);
      return RxVerdict::kReceive;
    };
    dial(version);
  }
  void dial(uint32_t version) {
    peer = &rig.foreign("10.0.0.254");
    peer->dial("10.0.0.2");
    peer->send(raw_request(kUs) + raw_hello(version, kOther, kUs, 1));
    rig.run_for(100ms);
    peer->in.clear();
  }
  void say(const Bytes& bytes) {
    peer->send(bytes);
    rig.run_for(100ms);
  }
  FakeCore& core() { return *node->cores[0]; }
  /// All payloads, of what was received and what is given back now, are right.
  bool give_back_all() {
    while (!core().taken.empty()) core().release(*core().taken.back(), rig.now);
    return std::all_of(node->received.begin(), node->received.end(), payload_right);
  }
  SockRig rig;
  SockNode* node;
  RawPeer* peer;
  std::vector<uint64_t> seen;
};

TEST(SockTaken, the_stream_reads_on_behind_what_was_taken) {
  Taking t;
  t.say(raw_put(3, kOther, kUs, 1, 100) + raw_put(3, kOther, kUs, 2, 0) + raw_put(3, kOther, kUs, 3, 50000) +
        raw_put(3, kOther, kUs, 4, 10));
  t.say(raw_put(3, kOther, kUs, 5, 700));
  EXPECT_EQ(t.seen, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(t.node->received.size(), 1u) << "the one that had still to come";
  EXPECT_EQ(t.core().taken.size(), 4u);
  EXPECT_TRUE(t.give_back_all());
  EXPECT_EQ(t.node->received.size(), 5u);
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: the connection's buffer is the bound. The stream goes on when the oldest messages are back, and while it waits
// for them, the driver does not treat it as stuck.
// Method: sizes at which the buffer ends within a payload, and within a header.
TEST(SockTaken, a_full_buffer_stops_the_stream_until_the_oldest_are_back) {
  for (uint32_t bytes = 900; bytes <= 1000; bytes += 10) {
    SCOPED_TRACE(bytes);
    Taking t;
    constexpr uint64_t kCount = 100;
    for (uint64_t i = 1; i <= kCount; ++i) t.peer->send(raw_put(3, kOther, kUs, i, bytes));
    t.rig.run_for(200s);
    const size_t first = t.seen.size();
    EXPECT_GT(first, 25u);
    EXPECT_LT(first, 36u) << "32 KiB";
    EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
    t.core().release(*t.core().taken.back(), t.rig.now);
    t.rig.run_for(100ms);
    EXPECT_EQ(t.seen.size(), first) << "all before it are still out";
    for (int i = 0; i < 5; ++i) t.core().release(*t.core().taken.front(), t.rig.now);
    t.rig.run_for(100ms);
    EXPECT_EQ(t.seen.size(), first) << "so little room is not worth a read";
    for (int i = 0; i < 5; ++i) t.core().release(*t.core().taken.front(), t.rig.now);
    t.rig.run_for(100ms);
    EXPECT_GT(t.seen.size(), first);
    EXPECT_LT(t.seen.size(), first + 12) << "the others are still out";
    while (t.seen.size() < kCount) {
      const size_t before = t.seen.size();
      ASSERT_TRUE(t.give_back_all());
      t.rig.run_for(1s);
      ASSERT_GT(t.seen.size(), before);
    }
    EXPECT_TRUE(t.give_back_all());
    EXPECT_EQ(t.node->received.size(), kCount);
    EXPECT_TRUE(std::is_sorted(t.seen.begin(), t.seen.end()));
    EXPECT_TRUE(t.rig.shut_down());
  }
}

// Goal: taken messages stay in their place, whatever comes behind them, and in whichever order they are given back.
// Method: random sizes. Some messages are held, dropped or diverted while others are out.
TEST(SockTaken, nothing_is_overwritten_before_it_is_back) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng random(seed);
    Taking t;
    t.node->on_header = [&](FakeCore& fake, RxSlot& slot) {
      t.seen.push_back(slot.header.put().match_bits);
      const uint64_t what = random.below(16);
      if (what == 0) return RxVerdict::kHold;
      if (slot.movable && what < 14) return RxVerdict::kTaken;
      fake.make_room(slot, what == 15 ? 0 : UINT32_MAX);
      return RxVerdict::kReceive;
    };
    constexpr uint64_t kCount = 400;
    const auto most = 1 + random.below(4000);
    for (uint64_t i = 1; i <= kCount; ++i) {
      const uint64_t bytes = random.one_in(4) ? 0 : random.below(random.one_in(8) ? 40000 : most);
      t.peer->send(raw_put(3, kOther, kUs, i, uint32_t(bytes)));
    }
    const uint64_t behind = random.below(60);  // how far from the oldest
    for (int turn = 0; turn < 20000 && t.node->received.size() < kCount; ++turn) {
      t.rig.run_for(1ms);
      auto& out = t.core().taken;
      if (!out.empty() && !random.one_in(4))
        t.core().release(*out[random.below(std::min(uint64_t(out.size()), behind + 1))], t.rig.now);
      if (!t.core().held.empty() && random.one_in(3))
        t.node->resume(0, RxVerdict::kReceive, random.one_in(4) ? 0 : UINT32_MAX);
      if (!t.core().receiving.empty() && random.one_in(4))
        t.core().lnd->divert(*t.core().oldest_receiving(), t.rig.now);
    }
    EXPECT_EQ(t.node->received.size(), kCount);
    for (const Received& got : t.node->received)
      EXPECT_TRUE(got.how.error == -ECANCELED || (got.how.error == 0 && payload_right(got)));
    EXPECT_EQ(t.seen.size(), kCount);
    EXPECT_TRUE(std::is_sorted(t.seen.begin(), t.seen.end()));
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockTaken, without_a_slot_the_stream_waits_as_ever) {
  SockNodeOptions options;
  options.config.rx_slots = 4;  // half of them are for other connections
  Taking t(options);
  Bytes all;
  for (uint64_t i = 1; i <= 3; ++i) all = all + raw_put(3, kOther, kUs, i, 10);
  t.say(all);
  EXPECT_EQ(t.core().taken.size(), 2u);
  EXPECT_EQ(t.node->received.size(), 1u) << "not offered, so received";
  EXPECT_TRUE(t.give_back_all());
  t.say(raw_put(3, kOther, kUs, 4, 10));
  EXPECT_EQ(t.core().taken.size(), 1u) << "the slots are back";
  EXPECT_TRUE(t.give_back_all());
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockTaken, a_connection_leaves_slots_to_the_others) {
  constexpr const char* kThird = "10.0.0.253@tcp";
  SockNodeOptions options;
  options.config.rx_slots = 4;
  Taking t(options);
  for (uint64_t i = 1; i <= 6; ++i) t.say(raw_put(3, kOther, kUs, i, 10));
  ASSERT_EQ(t.core().taken.size(), 2u);
  RawPeer& third = t.rig.foreign("10.0.0.253");
  third.dial("10.0.0.2");
  third.send(raw_request(kUs) + raw_hello(3, kThird, kUs, 1));
  t.rig.run_for(100ms);
  third.send(raw_put(3, kThird, kUs, 7, 10));
  t.rig.run_for(100ms);
  EXPECT_EQ(t.core().taken.size(), 3u);
  EXPECT_TRUE(t.give_back_all());
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockTaken, a_slot_is_back_after_every_other_verdict) {
  SockNodeOptions options;
  options.config.rx_slots = 1;
  Taking t(options);
  t.node->on_header = [](FakeCore& fake, RxSlot& slot) {
    EXPECT_TRUE(slot.movable) << slot.header.put().match_bits;
    if (slot.header.put().match_bits % 2 == 0) return RxVerdict::kHold;
    fake.make_room(slot, UINT32_MAX);
    return RxVerdict::kReceive;
  };
  for (uint64_t i = 1; i <= 6; ++i) {
    t.say(raw_put(3, kOther, kUs, i, 10));
    if (i % 2 == 0) t.node->resume(0, RxVerdict::kReceive);
    t.rig.run_for(10ms);
  }
  EXPECT_EQ(t.node->received.size(), 6u);
  t.node->on_header = [](FakeCore&, RxSlot& slot) {
    EXPECT_TRUE(slot.movable);
    return RxVerdict::kProtocolError;
  };
  t.say(raw_put(3, kOther, kUs, 7, 10));
  EXPECT_NE(t.peer->end, RawPeer::End::kOpen);
  t.node->on_header = [](FakeCore&, RxSlot& slot) { return slot.movable ? RxVerdict::kTaken : RxVerdict::kHold; };
  t.dial(3);
  t.say(raw_put(3, kOther, kUs, 8, 10));
  EXPECT_EQ(t.core().taken.size(), 1u);
  EXPECT_TRUE(t.give_back_all());
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockTaken, a_broken_connection_stays_until_all_is_back) {
  Taking t;
  t.say(raw_put(3, kOther, kUs, 1, 100) + raw_put(3, kOther, kUs, 2, 200));
  t.peer->close();
  t.rig.run_for(10s);
  ASSERT_EQ(t.core().taken.size(), 2u);
  EXPECT_FALSE(t.core().lnd->idle());
  t.core().release(*t.core().taken.front(), t.rig.now);
  t.rig.run_for(1s);
  EXPECT_FALSE(t.core().lnd->idle());
  EXPECT_TRUE(t.give_back_all());
  t.rig.run_for(1s);
  EXPECT_TRUE(t.core().lnd->idle());
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockTaken, cookies_are_acknowledged_and_what_has_a_checksum_is_not_offered) {
  Taking t;
  t.say(raw_put(3, kOther, kUs, 1, 100, 7));
  EXPECT_EQ(t.peer->take(24), raw_noop(0, 7));
  EXPECT_EQ(t.core().taken.size(), 1u);
  EXPECT_TRUE(t.give_back_all());
  EXPECT_TRUE(t.rig.shut_down());
  Taking summed({}, 2);
  summed.say(raw_put(2, kOther, kUs, 1, 100, 0, 0, true));
  EXPECT_TRUE(summed.core().taken.empty());
  EXPECT_EQ(summed.node->received.size(), 1u);
  EXPECT_TRUE(summed.rig.shut_down());
}

}  // namespace
}  // namespace ulnet::test
