// The time line of a run: slices, bounds, failures.
#include "perf/generator/timeline.h"

#include <gtest/gtest.h>

namespace ulnet::perf {
namespace {

constexpr Instant kBegin{5s};

TEST(PerfTimeline, an_operation_counts_in_the_slice_of_its_end) {
  Timeline line(1ms);
  line.begin(kBegin);
  line.ended(kBegin, 300us, 0);
  line.ended(kBegin + 999us, 100us, 0);
  line.ended(kBegin + 1ms, 7ms, 0);
  line.ended(kBegin + 30s, 30s, -ETIMEDOUT);
  line.ended(kBegin + 30s, 40us, 0);
  const TimelineResult result = line.result();
  EXPECT_EQ(result.slice, Duration{1ms});
  EXPECT_EQ(result.since, kBegin);
  EXPECT_EQ(result.dropped, 0u);
  ASSERT_EQ(result.slices.size(), 3u);  // the silence of 30 s takes no place
  EXPECT_EQ(result.slices[0].index, 0u);
  EXPECT_EQ(result.slices[0].ended, 2u);
  EXPECT_EQ(result.slices[0].longest, Duration{300us});
  EXPECT_EQ(result.slices[1].index, 1u);
  EXPECT_EQ(result.slices[1].longest, Duration{7ms});
  EXPECT_EQ(result.slices[2].index, 30000u);
  EXPECT_EQ(result.slices[2].ended, 2u);
  EXPECT_EQ(result.slices[2].failed, 1u);
  EXPECT_EQ(result.slices[2].longest, Duration{30s});
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_EQ(result.failures[0].at, kBegin + 30s);
  EXPECT_EQ(result.failures[0].latency, Duration{30s});
  EXPECT_EQ(result.failures[0].error, -ETIMEDOUT);
}

TEST(PerfTimeline, the_newest_slices_stay_and_the_first_failures) {
  Timeline line(1ms);
  line.begin(kBegin);
  const uint32_t count = kTimelineSlicesMax + 10;
  for (uint32_t i = 0; i < count; ++i) line.ended(kBegin + i * 1ms, Duration{i}, -EIO);
  const TimelineResult result = line.result();
  EXPECT_EQ(result.dropped, 10u);
  ASSERT_EQ(result.slices.size(), kTimelineSlicesMax);
  for (uint32_t i = 0; i < kTimelineSlicesMax; ++i) {
    ASSERT_EQ(result.slices[i].index, i + 10);
    ASSERT_EQ(result.slices[i].longest, Duration{i + 10});
  }
  ASSERT_EQ(result.failures.size(), kTimelineFailuresMax);
  EXPECT_EQ(result.failures.back().at, kBegin + (kTimelineFailuresMax - 1) * 1ms);
}

TEST(PerfTimeline, records_between_begin_and_end_only) {
  Timeline line(1ms);
  line.ended(kBegin, 1us, 0);
  line.begin(kBegin);
  line.ended(kBegin, 1us, -EIO);
  line.end();
  line.ended(kBegin + 1ms, 1us, -EIO);
  EXPECT_EQ(line.result().slices.size(), 1u);
  EXPECT_EQ(line.result().failures.size(), 1u);
  line.begin(kBegin + 2ms);
  EXPECT_TRUE(line.result().slices.empty());
  EXPECT_TRUE(line.result().failures.empty());
}

TEST(PerfTimeline, without_a_slice_nothing_is_recorded) {
  Timeline line(Duration{0});
  line.begin(kBegin);
  line.ended(kBegin, 1us, -EIO);
  EXPECT_TRUE(line.result().slices.empty());
  EXPECT_TRUE(line.result().failures.empty());
}

}  // namespace
}  // namespace ulnet::perf
