#include "dataplane/state/pace.h"

#include <gtest/gtest.h>

#include "dataplane/state/tallies.h"

namespace ulnet::test {
namespace {

constexpr PaceKind kSmall = PaceKind::kSmall, kBulk = PaceKind::kBulk;

// Goal: a pace is known after enough messages, and for two seconds.
TEST(Pace, known_after_eight_messages_and_while_fresh) {
  Pace pace;
  Instant now{1s};
  for (int i = 0; i < 7; ++i) pace.sample(kSmall, 4, 50us, now);
  EXPECT_EQ(pace.value(kSmall, now), 0);
  pace.sample(kSmall, 4, 50us, now);
  EXPECT_FLOAT_EQ(pace.value(kSmall, now), 50000);
  EXPECT_EQ(pace.value(kBulk, now), 0) << "the kinds are apart";
  EXPECT_FLOAT_EQ(pace.value(kSmall, now + 2s), 50000);
  EXPECT_EQ(pace.value(kSmall, now + 2001ms), 0);
  now += 3s;
  pace.sample(kSmall, 4, 50us, now);
  EXPECT_FLOAT_EQ(pace.value(kSmall, now), 50000) << "one message confirms the old value";
}

// Goal: bulk is timed by all that was under way, so that a queue does not make a rail look slow.
TEST(Pace, bulk_counts_what_was_ahead) {
  Pace alone, queued;
  for (uint32_t i = 1; i <= 8; ++i) {
    alone.sample(kBulk, 1024, 1ms, Instant{1s});
    queued.sample(kBulk, 1024 * i, i * 1ms, Instant{1s});
  }
  EXPECT_NEAR(alone.value(kBulk, Instant{1s}), queued.value(kBulk, Instant{1s}), 1);
}

TEST(Pace, follows_a_change) {
  Pace pace;
  for (int i = 0; i < 16; ++i) pace.sample(kSmall, 4, 50us, Instant{1s});
  for (int i = 0; i < 16; ++i) pace.sample(kSmall, 4, 500us, Instant{1s});
  EXPECT_FLOAT_EQ(pace.value(kSmall, Instant{1s}), 500000);
  pace.sample(kSmall, 4, 60us, Instant{1s});
  EXPECT_FLOAT_EQ(pace.value(kSmall, Instant{1s}), 60000);
}

// Goal: messages that waited, for a connection or behind others, do not make a rail slow.
TEST(Pace, leaves_out_what_took_long_once) {
  Pace pace;
  pace.sample(kSmall, 4, 3s, Instant{1s});
  for (int i = 0; i < 7; ++i) pace.sample(kSmall, 4, i % 2 == 0 ? 50us : 20ms, Instant{1s});
  EXPECT_FLOAT_EQ(pace.value(kSmall, Instant{1s}), 50000);
}

TEST(Pace, is_judged_once_per_millisecond) {
  Pace pace;
  EXPECT_TRUE(pace.judge_due(Instant{1s}));
  EXPECT_FALSE(pace.judge_due(Instant{1s} + 999us));
  EXPECT_TRUE(pace.judge_due(Instant{1s} + 1ms));
}

// Goal: a rail becomes slow at three times the best pace, and equal again below twice. An unknown pace counts as equal.
TEST(Pace, weights) {
  struct Row {
    float value, best;
    int before, expect;
  };
  for (const Row& row :
       {Row{0, 10, 1, 1}, Row{10, 0, 1, 1}, Row{10, 10, 1, 1}, Row{29, 10, 1, 1}, Row{30, 10, 1, 3}, Row{29, 10, 3, 3},
        Row{20, 10, 3, 2}, Row{19, 10, 3, 1}, Row{100, 10, 1, 10}, Row{1e9f, 10, 1, 64}, Row{0, 10, 10, 1}})
    EXPECT_EQ(weight_of(kBulk, row.value, row.best, uint8_t(row.before)), row.expect)
        << row.value << " before " << row.before;
}

TEST(Pace, latencies_that_differ_little_are_equal) {
  EXPECT_EQ(weight_of(kSmall, 209'000, 10'000, 1), 1);
  EXPECT_EQ(weight_of(kSmall, 210'000, 10'000, 1), 21);
  EXPECT_EQ(weight_of(kSmall, 209'000, 10'000, 21), 1);
}

// Goal: weighted() is true while any interface has a weight above 1.
TEST(Pace, tallies_count_their_weights) {
  Tallies tallies(300);
  tallies.ensure(299, nullptr);
  EXPECT_FALSE(tallies.weighted());
  tallies.set_weight(tallies.peer_ni(299), kBulk, 10);
  tallies.set_weight(tallies.ni(3), kSmall, 3);
  tallies.set_weight(tallies.ni(3), kSmall, 4);
  EXPECT_TRUE(tallies.weighted());
  EXPECT_EQ(tallies.peer_ni_now(299, kBulk).weight, 10u);
  EXPECT_EQ(tallies.peer_ni_now(299, kSmall).weight, 1u);
  EXPECT_EQ(tallies.ni_now(3, kSmall).weight, 4u);
  tallies.set_weight(tallies.peer_ni(299), kBulk, 1);
  tallies.set_weight(tallies.ni(3), kSmall, 1);
  EXPECT_FALSE(tallies.weighted());
}

}  // namespace
}  // namespace ulnet::test
