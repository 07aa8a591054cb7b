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
    EXPECT_EQ(most[i], j.concurrency[i % 3]);
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

// Durations and rates of which the product is no exact binary fraction.
TEST_F(GeneratorTest, a_schedule_is_counted_exactly) {
  for (const auto duration : {9ms, 11ms, 13ms, 15ms, 29ms, 60ms})
    for (const int rate : {1000, 3000, 7000}) {
      SCOPED_TRACE(std::to_string(duration.count()) + " ms, " + std::to_string(rate) + "/s");
      Job j = job();
      j.rate = rate;
      j.concurrency = {64};
      j.duration = duration;
      begin(j);
      run();
      EXPECT_EQ(only().unsent, 0u);
      EXPECT_EQ(only().completed + only().late, uint64_t(duration.count()) * uint64_t(rate) / 1000);
    }
}

// The target stands still for 5 ms. A closed loop sees one slow operation; the operations that were due meanwhile see
// it, too, and so do those that end after the measurement.
TEST_F(GeneratorTest, a_rate_omits_no_latency) {
  measure(2000, 64);
  const Instant began = now;
  worker.hold = true;
  while (now < began + 15ms) step();
  EXPECT_EQ(generator->snapshot(now).phase, Phase::kDrain);
  worker.hold = false;
  run();
  EXPECT_EQ(only().completed, 0u);
  EXPECT_EQ(only().late, 20u);
  EXPECT_EQ(only().bytes, 0u);
  EXPECT_EQ(only().unsent, 0u);
  EXPECT_GE(only().latency_max, Duration{14ms});
  EXPECT_NEAR(double(only().latency_p50.count()), 10e6, 1e6);
  EXPECT_EQ(only().elapsed, Duration{10ms});
  EXPECT_TRUE(only().ok());
}

// The one slot is busy for 5 ms. Operations that were due meanwhile begin late, and their latencies have that delay.
TEST_F(GeneratorTest, a_latency_begins_when_the_operation_was_due) {
  measure(2000, 1);
  worker.hold = true;
  for (const Instant until = now + 5ms; now < until;) step();
  worker.hold = false;
  run();
  EXPECT_EQ(only().completed + only().late, 20u);
  EXPECT_EQ(only().unsent, 0u);
  EXPECT_GE(only().latency_p90, Duration{3ms});
}

TEST_F(GeneratorTest, a_rate_counts_what_no_slot_was_free_for) {
  measure(2000, 3);
  worker.hold = true;
  while (generator->snapshot(now).phase == Phase::kMeasure) step();
  worker.hold = false;
  run();
  EXPECT_EQ(only().completed, 1u);  // before the target held
  EXPECT_EQ(only().late, 3u);
  EXPECT_EQ(only().unsent, 16u);
}

// The thread is away over the end of the measurement. Operations that were due meanwhile begin when it comes back.
TEST_F(GeneratorTest, a_rate_omits_no_pause_at_the_end) {
  measure(10000, 64);
  for (const Instant until = now + 5ms; now < until;) step();
  now += 400ms;
  run();
  EXPECT_EQ(only().unsent, 0u);
  EXPECT_EQ(only().completed + only().late, 100u);
  EXPECT_GE(only().late, 49u);
  EXPECT_GE(only().latency_max, Duration{400ms});
  EXPECT_EQ(only().elapsed, Duration{10ms});
  EXPECT_LE(only().longest_pause, Duration{10ms});
}

TEST_F(GeneratorTest, a_rate_ends_at_the_second_of_a_stop) {
  measure(2000, 2);
  worker.hold = true;
  for (const Instant until = now + 4ms; now < until;) step();
  generator->stop(now);
  worker.hold = false;
  run();
  EXPECT_TRUE(only().interrupted);
  EXPECT_EQ(only().elapsed, Duration{4100us});
  EXPECT_EQ(only().completed + only().late + only().unsent, 9u);  // from 0 to 4 ms, one each 500 us
  EXPECT_EQ(only().late, 2u);
}

// A put is read back before its slot is free again; it counts once.
TEST_F(GeneratorTest, a_rate_of_verified_puts) {
  Job j = job();
  j.rate = 2000;
  j.verify = true;
  j.concurrency = {4};
  serve_as_target();
  begin(j);
  run();
  EXPECT_EQ(only().completed + only().late, 20u);
  EXPECT_EQ(only().unsent, 0u);
  EXPECT_GE(only().verified, 20u);
  EXPECT_TRUE(only().ok());
}

// Slots of failed operations rest. Due operations that find none are counted.
TEST_F(GeneratorTest, a_rate_with_failures_accounts_for_all) {
  Job j = job();
  j.rate = 10000;
  j.warmup = 0ms;
  j.concurrency = {8};
  worker.on_operation = [](const FakeWorker::Started&, const Md&) { return FakeWorker::Outcome{.status = -EIO}; };
  begin(j);
  run();
  EXPECT_EQ(only().completed + only().late, 0u);
  EXPECT_EQ(only().failed + only().unsent, 100u);
  EXPECT_GE(only().unsent, 80u);
}

// More operations are due within a turn than a turn begins.
TEST_F(GeneratorTest, a_rate_above_what_a_turn_begins_is_kept) {
  Job j = job();
  j.rate = 300000;
  j.concurrency = {64};
  begin(j);
  run();
  EXPECT_EQ(only().completed + only().late, 3000u);
  EXPECT_EQ(only().unsent, 0u);
}

}  // namespace
}  // namespace ulnet::perf
