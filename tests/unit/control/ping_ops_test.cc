// Pings and pushes in their one queue (control/discovery/ping_ops.h), with a worker that the test turns.
#include "control/discovery/ping_ops.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/lib/fake_worker.h"

namespace ulnet::test {
namespace {

struct PingOpsTest : testing::Test {
  PingOpsTest() { worker.hold = true; }

  /// Starts pings with these numbers in `ops`.
  void start(PingOps& ops, uint64_t first, uint64_t last) {
    for (uint64_t number = first; number <= last; ++number) {
      PingOp op;
      op.number = number;
      op.target = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000002);
      op.sink_bytes = 16;
      op.timeout = 20s;
      ops.start(std::move(op), [this, number](const PingEnd& end) { ended[number] = end.error; });
    }
  }
  /// Turns everything at `now`, until control could sleep.
  void settle() {
    do {
      (void)self.poll(UINT32_MAX, now);
      for (PingOps* ops : {&asked, &others, &waited}) (void)ops->turn(now);
      (void)worker.run();
    } while (timers.next() <= now || self.pending());
  }
  void pass(Duration time) {
    const Instant end = now + time;
    for (settle(); now < end; settle()) now = std::min(end, std::max(timers.next(), now + 1ms));
  }
  [[nodiscard]] size_t sent() const {
    return size_t(std::count_if(worker.seen.begin(), worker.seen.end(),
                                [](const CallMsg& call) { return std::holds_alternative<GetCall>(call); }));
  }

  Instant now{1h};
  Timers timers{now};
  IdleGate gate, control_gate;
  IdleGate* gates[1] = {&gate};
  Mesh mesh{1, 16, 16, gates, &control_gate};
  Submitter submitter{WorkerId{0}, 0, {.ops = SelfSubmitter::kOps, .mds = SelfSubmitter::kMds, .eqs = 1}, nullptr};
  FakeWorker worker{submitter};
  SelfSubmitter self{submitter, mesh};
  PingOps asked{self, timers, TimerName::kPings, -EIO};
  PingOps others{self, timers, TimerName::kPingsOther, -ETIMEDOUT, &others};
  PingOps waited{self, timers, TimerName::kPingsWaited, -ETIMEDOUT, &others};
  std::map<uint64_t, int32_t> ended;
};

// Goal: no more operations are under way than there are places; others follow in order, and each has its time-out from
// when it began.
TEST_F(PingOpsTest, wait_for_a_place_in_order) {
  start(asked, 1, kPingOpsMax + 2);
  settle();
  EXPECT_EQ(sent(), kPingOpsMax);
  EXPECT_EQ(timers.next(), now + 20s);
  pass(19s);
  EXPECT_TRUE(ended.empty()) << "these operations evict none";
  pass(2s);
  EXPECT_EQ(ended.size(), kPingOpsMax);
  EXPECT_EQ(ended[1], -EIO);
  EXPECT_EQ(sent(), kPingOpsMax + 2);
  EXPECT_EQ(submitter.mds_in_use(), 2u);
  worker.finish_held(0);
  settle();
  EXPECT_EQ(ended[kPingOpsMax + 2], 0);
  EXPECT_TRUE(asked.at_rest());
  EXPECT_EQ(timers.next(), kForever);
}

// Goal: a waiting operation takes the place of the oldest one after a slice. The evicted operation comes again, behind
// those that had less time, and all its turns together have one time-out.
TEST_F(PingOpsTest, evict_the_oldest_after_its_slice) {
  start(others, 1, kPingOpsMax + 1);
  settle();
  EXPECT_EQ(timers.next(), now + kPingSlice);
  pass(kPingSlice - 1ms);
  EXPECT_EQ(sent(), kPingOpsMax);
  pass(2ms);
  const size_t before = sent();
  EXPECT_GT(before, kPingOpsMax) << "the last one has a place";
  pass(17s);
  EXPECT_TRUE(ended.empty());
  EXPECT_GT(sent(), before) << "the evicted one had another turn";
  pass(3s);
  EXPECT_EQ(ended.size(), kPingOpsMax + 1);
  for (const auto& [number, error] : ended) EXPECT_EQ(error, -ETIMEDOUT) << number;
  pass(10ms);
  EXPECT_TRUE(others.at_rest());
}

// Goal: an operation that has not begun moves to another queue and has a place there at once. Others stay.
TEST_F(PingOpsTest, are_passed_on_before_they_begin) {
  start(others, 1, kPingOpsMax + 1);
  settle();
  others.pass_on(kPingOpsMax + 1, waited);
  others.pass_on(1, waited);
  settle();
  EXPECT_EQ(sent(), kPingOpsMax + 1);
  worker.finish_held(0);
  settle();
  EXPECT_EQ(ended.size(), kPingOpsMax + 1);
  EXPECT_TRUE(others.at_rest() && waited.at_rest());
}

// Goal: an end of all of them reaches those that wait, too, and their memory comes back.
TEST_F(PingOpsTest, end_with_the_node) {
  start(waited, 1, 2 * kPingOpsMax);
  pass(kPingSlice + 1ms);
  waited.abort();
  others.abort();
  EXPECT_EQ(ended.size(), 2 * kPingOpsMax);
  for (const auto& [number, error] : ended) EXPECT_EQ(error, -ESHUTDOWN) << number;
  EXPECT_FALSE(waited.at_rest());
  pass(10ms);
  EXPECT_TRUE(waited.at_rest() && others.at_rest());
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

}  // namespace
}  // namespace ulnet::test
