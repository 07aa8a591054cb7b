// The generator with several concurrencies, and by a rate: the schedule, and latencies that omit nothing.
#include "tests/unit/perf/generator_rig.h"

namespace ulnet::perf {
namespace {

// Each size is measured with each concurrency, and never has more under way.
TEST_F(GeneratorTest, concurrencies_run_one_after_the_other) {
  Job j = job();
  j.sizes = {100, 200};
  j.concurrency = {8, 1, 3};
  j.count = 40;
  begin(j);
  std::vector<uint32_t> most(6);
  while (!generator->done()) {
    step();
    const Snapshot shot = generator->snapshot(now);
    EXPECT_EQ(shot.runs, 6u);
    if (shot.run < most.size()) most[shot.run] = std::max(most[shot.run], shot.in_flight);
  }
  ASSERT_EQ(generator->results().size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(generator->results()[i].size, j.sizes[i / 3]);
    EXPECT_EQ(generator->results()[i].concurrency, j.concurrency[i % 3]);
    EXPECT_EQ(generator->results()[i].completed, 40u);
    EXPECT_TRUE(generator->results()[i].ok());
    EXPECT_LE(most[i], j.concurrency[i % 3]);
  }
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

TEST_F(GeneratorTest, a_rate_begins_operations_on_schedule) {
  Job j = job();
  j.rate = 2000;  // one every 500 us; a turn comes every 100 us
  j.concurrency = {64};
  begin(j);
  run();
  EXPECT_EQ(only().completed, 20u);  // in 10 ms
  EXPECT_EQ(only().unsent, 0u);
  EXPECT_EQ(only().rate, 2000);
  EXPECT_DOUBLE_EQ(only().messages_per_second(), 2000);
  EXPECT_LE(only().latency_max, Duration{200us});
  EXPECT_TRUE(only().ok());
}

// The target stands still for 5 ms. A closed loop sees one slow operation; the operations that were due meanwhile see
// it, too, and so do those that end after the measurement.
TEST_F(GeneratorTest, a_rate_omits_no_latency) {
  Job j = job();
  j.rate = 2000;
  j.warmup = 0ms;
  j.concurrency = {64};
  begin(j);
  while (generator->snapshot(now).phase != Phase::kMeasure) step();
  const Instant began = now;
  worker.hold = true;
  while (now < began + 15ms) step();
  EXPECT_EQ(generator->snapshot(now).phase, Phase::kDrain);
  worker.hold = false;
  run();
  EXPECT_EQ(only().completed, 20u);
  EXPECT_EQ(only().unsent, 0u);
  EXPECT_GE(only().latency_max, Duration{14ms});
  EXPECT_NEAR(double(only().latency_p50.count()), 10e6, 1e6);
  EXPECT_EQ(only().elapsed, Duration{10ms});
  EXPECT_TRUE(only().ok());
}

// The one slot is busy for 5 ms. Operations that were due meanwhile begin late, and their latencies have that delay.
TEST_F(GeneratorTest, a_latency_begins_when_the_operation_was_due) {
  Job j = job();
  j.rate = 2000;
  j.warmup = 0ms;
  j.concurrency = {1};
  begin(j);
  while (generator->snapshot(now).phase != Phase::kMeasure) step();
  worker.hold = true;
  for (const Instant until = now + 5ms; now < until;) step();
  worker.hold = false;
  run();
  EXPECT_EQ(only().completed + only().unsent, 20u);
  EXPECT_LE(only().unsent, 1u);
  EXPECT_GE(only().latency_p90, Duration{3ms});
}

TEST_F(GeneratorTest, a_rate_counts_what_no_slot_was_free_for) {
  Job j = job();
  j.rate = 2000;
  j.warmup = 0ms;
  j.concurrency = {3};
  begin(j);
  while (generator->snapshot(now).phase != Phase::kMeasure) step();
  worker.hold = true;
  while (generator->snapshot(now).phase == Phase::kMeasure) step();
  worker.hold = false;
  run();
  EXPECT_EQ(only().completed + only().unsent, 20u);
  EXPECT_GE(only().unsent, 16u);
}

// More operations are due within a turn than a turn begins.
TEST_F(GeneratorTest, a_rate_above_what_a_turn_begins_is_kept) {
  Job j = job();
  j.rate = 300000;
  j.concurrency = {64};
  begin(j);
  run();
  EXPECT_EQ(only().completed + only().unsent, 3000u);
  EXPECT_EQ(only().unsent, 0u);
}

}  // namespace
}  // namespace ulnet::perf
