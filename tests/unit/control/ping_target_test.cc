// The ping target and its MDs (control/discovery/ping_target.h), with a worker that the test turns.
#include "control/discovery/ping_target.h"

#include <gtest/gtest.h>

#include "tests/unit/lib/fake_worker.h"

namespace ulnet::test {
namespace {

// Goal: a list of NIs that changes often leaves the MDs that pings and discovery need, while REPLYs read older lists.
// The newest list is answered when an older one has ended.
// Method: the worker does not run while the list changes; then it runs.
TEST(PingTargetMds, ping_infos_take_their_share_of_the_mds) {
  IdleGate gate, control_gate;
  IdleGate* gates[] = {&gate};
  Mesh mesh(1, 16, 16, gates, &control_gate);
  Submitter submitter(WorkerId{0}, 0, {.ops = SelfSubmitter::kOps, .mds = SelfSubmitter::kMds, .eqs = 1}, nullptr);
  FakeWorker worker(submitter);
  SelfSubmitter self(submitter, mesh);
  const Instant now{1s};
  Timers timers{now};
  PingTarget target(self, timers);
  for (uint32_t sequence = 1; sequence <= 2 * PingTarget::kInfosMax; ++sequence) {
    wire::PingInfo info;
    info.sequence = sequence;
    target.set_info(info);
    EXPECT_EQ(timers.next(), now + kRetrySoon);
    (void)target.turn(now);
  }
  EXPECT_EQ(submitter.mds_in_use(), PingTarget::kPushTargets + PingTarget::kInfosMax);
  EXPECT_FALSE(target.current());
  for (unsigned i = 0; i < 4; ++i) {
    (void)worker.run();
    (void)self.poll(UINT32_MAX, Instant{1s});
    (void)target.turn(now);
  }
  EXPECT_TRUE(target.current());
  EXPECT_EQ(timers.next(), kForever);
  EXPECT_EQ(submitter.mds_in_use(), PingTarget::kPushTargets + 1);
}

}  // namespace
}  // namespace ulnet::test
