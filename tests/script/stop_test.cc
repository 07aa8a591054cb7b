// An NI that is stopped with messages in every place: each ends once, and says whether it may be sent again over
// another NI. It may where the peer cannot have all of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.1@tcp";
constexpr const char* kThem = "10.0.0.2@tcp";
constexpr Completion kElsewhere{-ESHUTDOWN, LndStatus::kLocalAborted};
constexpr Completion kLost{-ESHUTDOWN, LndStatus::kLocalError};

bool same(const Completion& a, const Completion& b) {
  return a.error == b.error && a.health == b.health;
}

SockNodeOptions node_at(const char* nid) {
  SockNodeOptions options;
  options.nids = {nid};
  options.config.zc_min_payload = 16384;
  return options;
}

/// Two nodes; messages go from the first, which is stopped.
struct Stop {
  explicit Stop(const SimTcpOptions& tcp = {}) : rig(tcp), us(rig.add(node_at(kUs))), them(rig.add(node_at(kThem))) {}
  /// Connections of each type are there.
  void connect() {
    us.put(kThem, 0);
    us.put(kThem, 100000);
    EXPECT_TRUE(rig.run_until([&] { return us.unfinished() == 0; }, 10s));
    rig.run_for(100ms);
  }
  bool stop() {
    us.stop();
    return rig.run_until([&] { return us.stopped(); }, 10s);
  }
  SockRig rig;
  SockNode& us;
  SockNode& them;
};

TEST(SockStop, before_there_is_a_connection) {
  for (const Duration after : {0us, 50us, 150us, 250us, 350us}) {  // control does not know; dialling; in the handshake
    Stop t;
    TestTx& first = t.us.put(kThem, 100);
    TestTx& second = t.us.put(kThem, 100000);
    t.rig.run_for(after);
    ASSERT_TRUE(t.stop()) << after.count();
    EXPECT_EQ(first.done + second.done, 2u);
    EXPECT_TRUE(same(first.how, kElsewhere)) << after.count() << ": " << first.how.error;
    EXPECT_TRUE(same(second.how, kElsewhere)) << after.count() << ": " << second.how.error;
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockStop, half_sent_and_behind_it) {
  SimTcpOptions tcp;
  tcp.receive_buffer = tcp.send_buffer = 65536;
  tcp.bytes_per_second = 1'000'000;
  Stop t(tcp);
  t.connect();
  TestTx& half = t.us.put(kThem, 1'000'000);
  TestTx& behind = t.us.put(kThem, 50'000);
  t.rig.run_for(20ms);
  ASSERT_EQ(half.done + behind.done, 0u);
  ASSERT_TRUE(t.stop());
  EXPECT_TRUE(same(half.how, kElsewhere)) << half.how.error << " " << int(half.how.health);
  EXPECT_TRUE(same(behind.how, kElsewhere)) << behind.how.error << " " << int(behind.how.health);
  t.rig.run_for(1s);
  ASSERT_EQ(t.them.received.size(), 2u + 1u) << "those of connect(), and one that broke";
  EXPECT_NE(t.them.received.back().how.error, 0);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockStop, sent_whole_but_not_acknowledged) {
  Stop t({.delay = 50ms});
  t.connect();
  TestTx& sent = t.us.put(kThem, 20'000);
  t.rig.run_for(10ms);
  ASSERT_EQ(sent.done, 0u);
  ASSERT_TRUE(t.stop());
  EXPECT_TRUE(same(sent.how, kLost)) << "they may have it: " << sent.how.error << " " << int(sent.how.health);
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: at whatever moment it comes, what may go elsewhere did not arrive.
TEST(SockStop, nothing_arrives_twice) {
  unsigned elsewhere = 0, well = 0, lost = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Stop t({.seed = seed, .delay = 1ms, .bytes_per_second = seed % 2 == 0 ? 5'000'000u : 0u, .send_buffer = 65536});
    if (seed % 3 != 0) t.connect();
    const size_t before = t.us.txs.size();
    for (int i = 0; i < 12; ++i) t.us.put(kThem, uint32_t(t.rig.rng.below(i % 2 == 0 ? 2000 : 100'000)));
    t.rig.run_for(Duration(int64_t(t.rig.rng.below(15'000'000))));
    ASSERT_TRUE(t.stop()) << seed;
    t.rig.run_for(1s);
    for (size_t i = before; i < t.us.txs.size(); ++i) {
      const TestTx& tx = t.us.txs[i];
      ASSERT_EQ(tx.done, 1u) << seed;
      const auto arrived = std::count_if(t.them.received.begin(), t.them.received.end(), [&](const Received& one) {
        return one.how.error == 0 && one.header.put().match_bits == tx.number;
      });
      if (same(tx.how, kElsewhere)) {
        ++elsewhere;
        EXPECT_EQ(arrived, 0) << seed << ": message " << tx.number << " would come twice";
      } else if (tx.how.error == 0) {
        ++well;
        EXPECT_LE(arrived, 1) << seed << ": message " << tx.number;  // sent is not arrived
      } else {
        ++lost;
        EXPECT_TRUE(same(tx.how, kLost)) << seed << ": " << tx.how.error << " " << int(tx.how.health);
      }
    }
    EXPECT_TRUE(t.rig.shut_down()) << seed;
  }
  EXPECT_GT(elsewhere, 20u);
  EXPECT_GT(well, 20u);
  EXPECT_GT(lost, 0u);
}

}  // namespace
}  // namespace ulnet::test
