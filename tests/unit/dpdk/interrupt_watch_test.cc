// When a NIC's interrupts count as missing.
#include "lnd/net/dpdk/interrupt_watch.h"

#include <gtest/gtest.h>

namespace ulnet::test {
namespace {

using dpdk::InterruptWatch;
constexpr Duration kSleep = InterruptWatch::kSleepMax;

// Goal: a queue is deaf after packets have come in many sleeps, and none was reported.
TEST(InterruptWatch, deaf_after_many_misses) {
  InterruptWatch watch;
  for (unsigned i = 0; i < InterruptWatch::kMissedMax; ++i) {
    EXPECT_FALSE(watch.is_deaf()) << i;
    EXPECT_TRUE(watch.woke(kSleep, false, true));
    EXPECT_FALSE(watch.woke(kSleep, false, false)) << "nothing came";
  }
  EXPECT_TRUE(watch.is_deaf());
  watch.reset();
  EXPECT_FALSE(watch.is_deaf());
}

// Goal: one report shows that interrupts work, whatever was missed before.
TEST(InterruptWatch, a_report_counts_more) {
  InterruptWatch watch;
  for (unsigned i = 0; i < 10 * InterruptWatch::kMissedMax; ++i)
    EXPECT_NE(watch.woke(kSleep, i % InterruptWatch::kMissedMax == 0, true), i % InterruptWatch::kMissedMax == 0);
  EXPECT_FALSE(watch.is_deaf());
}

// Goal: packets that came without a sleep, or an interrupt that may still come, are no misses.
TEST(InterruptWatch, short_sleeps_say_nothing) {
  InterruptWatch watch;
  for (unsigned i = 0; i < 10 * InterruptWatch::kMissedMax; ++i) {
    EXPECT_FALSE(watch.woke({}, false, true));
    EXPECT_FALSE(watch.woke(InterruptWatch::kLate - 1ns, false, true));
  }
  EXPECT_FALSE(watch.is_deaf());
}

}  // namespace
}  // namespace ulnet::test
