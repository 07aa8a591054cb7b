// Copies of very many requests at once: the bound of one look (dataplane/stages/copies.h).
#include <gtest/gtest.h>

#include "dataplane/stages/copies.h"
#include "tests/unit/core/copies_rig.h"

namespace ulnet::test {
namespace {

struct ManyCopiesSent : CopiesSent {
  static constexpr unsigned kCount = 2 * kCopiesLook + 10;
  ManyCopiesSent() : CopiesSent({.operations = 2 * kCount, .peer_credits = kCount, .ni_credits = kCount}) {}
  /// Stuck requests that have not been called back.
  [[nodiscard]] uint64_t stuck() {
    uint64_t count = 0;
    bench.worker().operations.for_each_out([&](const Operation& op) { count += op.stuck; });
    return count;
  }
  [[nodiscard]] uint64_t copies() { return bench.worker().counters[Stat::kResendCount].get(); }
};

// Goal: the path of very many requests goes down. One turn looks for paths of kCopiesLook of them, and further turns of
// the others.
TEST_F(ManyCopiesSent, each_request_gets_its_copy) {
  bench.set_known_down(tcp(3), true);
  bench.publish();
  for (unsigned i = 0; i < kCount; ++i) {
    ASSERT_TRUE(submitter->put(spec()));
    send_all();
  }
  bench.set_known_down(tcp(2), true);
  bench.set_known_down(tcp(3), false);
  bench.publish();
  bench.advance(kSilenceLook);
  for (const uint64_t most : {kCopiesLook, 2 * kCopiesLook, kCount}) {
    bench.turn(WorkerId{0});
    EXPECT_EQ(copies(), most);
  }
  send_all();
  EXPECT_EQ(copies(), kCount);
  bench.advance(200s);
  size_t ended = 0;
  for (std::vector<Event> some = events(); !some.empty(); some = events()) ended += some.size();
  EXPECT_EQ(ended, kCount);
  expect_rest();
}

// Goal: the same while the driver has them, and their path is down for long. In one turn, kCopiesLook of them are
// called back.
TEST_F(ManyCopiesSent, each_stuck_request_is_called_back) {
  bench.set_known_down(tcp(3), true);
  bench.publish();
  for (unsigned i = 0; i < kCount; ++i) {
    ASSERT_TRUE(submitter->put(spec()));
    bench.settle();
  }
  ASSERT_EQ(bench.lnd().sent.size(), kCount);
  bench.set_known_down(tcp(2), true);
  bench.set_known_down(tcp(3), false);
  bench.publish();
  bench.settle();
  EXPECT_EQ(stuck(), kCount);
  bench.lnd().moves = true;  // so that the driver keeps them
  bench.advance(kStuckMax);
  for (const uint64_t left : {kCount - kCopiesLook, kCount - 2 * kCopiesLook, 0u}) {
    bench.turn(WorkerId{0});
    EXPECT_EQ(stuck(), left);
  }
  send_all();
  bench.advance(200s);
  size_t ended = 0;
  for (std::vector<Event> some = events(); !some.empty(); some = events()) ended += some.size();
  EXPECT_EQ(ended, kCount);
  expect_rest();
}

}  // namespace
}  // namespace ulnet::test
