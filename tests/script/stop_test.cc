// An NI is stopped with messages in every place. Each message ends once, and its completion states whether it may be
// sent again over another NI. A resend is permitted if the peer cannot have all of the message.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/script/once.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.1@tcp";
constexpr const char* kThem = "10.0.0.2@tcp";
constexpr Completion kElsewhere{-ESHUTDOWN, LndStatus::kLocalAborted};
constexpr Completion kLost{-ESHUTDOWN, LndStatus::kLocalError};

bool same(const Completion& a, const Completion& b) {
  return a.error == b.error && a.health == b.health;
}

SockNodeOptions node_at(const char* nid, uint32_t zc_min_payload) {
  SockNodeOptions options;
  options.nids = {nid};
  options.config.zc_min_payload = zc_min_payload;
  return options;
}

/// Two nodes; messages go from the first, which is stopped.
struct Stop {
  explicit Stop(const SimTcpOptions& tcp = {}, uint32_t zc_min_payload = 16384)
      : rig(tcp), us(rig.add(node_at(kUs, zc_min_payload))), them(rig.add(node_at(kThem, zc_min_payload))) {}
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
  // Before control has the request; dialling; in the handshake.
  for (const Duration after : {0us, 50us, 150us, 250us, 350us}) {
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

// Goal: whenever and however the connections end, a message that may be sent elsewhere did not arrive.
// Method: every second seed requests zero-copy acknowledgements. Every second send of the simulated engine reports its
// bytes only when all have gone, as io_uring does.
TEST(SockStop, nothing_arrives_twice) {
  OnceSums sums;
  for (const Ending ending : kEndings)
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(testing::Message() << "ending " << int(ending) << ", seed " << seed);
      Stop t({.seed = seed, .delay = 1ms, .bytes_per_second = seed % 2 == 0 ? 5'000'000u : 0u, .send_buffer = 65536},
             seed % 4 < 2 ? 16384 : 0);
      if (seed % 3 != 0) t.connect();
      if (ending == Ending::kTheyReset) t.them.put(kUs, 1'000'000);
      check_once(t.rig, t.us, t.them, kThem, ending, Duration(int64_t(t.rig.rng.below(15'000'000))), sums);
      EXPECT_TRUE(t.rig.shut_down());
    }
  EXPECT_GT(sums.again, 200u);
  EXPECT_GT(sums.well, 200u);
  EXPECT_GT(sums.lost, 20u);
}

}  // namespace
}  // namespace ulnet::test
