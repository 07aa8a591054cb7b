// The health value alone: events and the time in, value and recovery pings out.
#include "control/health/health_value.h"

#include <gtest/gtest.h>

#include <vector>

namespace ulnet::test {
namespace {

constexpr Instant kStart{1000s};
constexpr HealthRules kDefaults{};

TEST(HealthValue, each_failure_takes_the_sensitivity_and_each_success_gives_it) {
  HealthValue health;
  health.fail(1, kDefaults, kStart);
  EXPECT_EQ(health.value(), 900);
  health.fail(3, kDefaults, kStart);
  EXPECT_EQ(health.value(), 600);
  health.succeed(2, kDefaults);
  EXPECT_EQ(health.value(), 800);
  EXPECT_TRUE(health.recovers());
  health.succeed(5, kDefaults);
  EXPECT_EQ(health.value(), 1000) << "no more than whole";
  EXPECT_FALSE(health.recovers());
}

TEST(HealthValue, ends_at_zero_however_many_fail) {
  for (const int64_t sensitivity : {1, 250, 1000}) {
    HealthValue health;
    health.fail(UINT64_MAX, {.sensitivity = sensitivity}, kStart);
    EXPECT_EQ(health.value(), 0) << sensitivity;
  }
}

TEST(HealthValue, sensitivity_zero_switches_health_off) {
  HealthValue health;
  health.fail(5, {.sensitivity = 0}, kStart);
  health.fail_whole({.sensitivity = 0}, kStart);
  EXPECT_EQ(health.value(), 1000);
  EXPECT_EQ(health.next_ping(), kForever);
  EXPECT_GT(health.failure_rate(kStart), 5.0) << "the failures count all the same";
  health.fail(20, {}, kStart);
  EXPECT_EQ(health.value(), 0);
  health.succeed(1, {.sensitivity = 0});
  EXPECT_EQ(health.value(), 1000) << "switched off while it was ill";
}

// Goal: the times of pings are those of a kernel node (docs/wire/lnet.md §9.2). The wait after the n-th ping in a row
// is 2^n s. From the longest power below the setting on, it is the setting.
TEST(HealthValue, waits_between_pings_double_up_to_the_setting) {
  const auto waits = [](Duration longest, unsigned count) {
    const HealthRules rules{.interval_max = longest};
    HealthValue health;
    health.fail(1, rules, kStart);
    std::vector<int64_t> seconds;
    Instant now = kStart;
    for (unsigned i = 0; i < count; ++i) {
      const Instant next = health.next_ping();
      seconds.push_back((next - now) / 1s);
      EXPECT_FALSE(health.ping_due(false, next - 1ns));
      EXPECT_TRUE(health.ping_due(false, next));
      health.pinged(rules, next);
      now = next;
    }
    return seconds;
  };
  EXPECT_EQ(waits(900s, 13), (std::vector<int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900}));
  EXPECT_EQ(waits(8s, 6), (std::vector<int64_t>{1, 2, 4, 8, 8, 8}));
  EXPECT_EQ(waits(1s, 4), (std::vector<int64_t>{1, 1, 1, 1}));
}

// Goal: a message that comes begins the waits again, but leaves the date of the next ping (capture g6).
TEST(HealthValue, a_message_resets_the_wait_and_not_the_date) {
  HealthValue health;
  health.fail(5, kDefaults, kStart);
  for (int i = 0; i < 3; ++i) health.pinged(kDefaults, health.next_ping());
  const Instant date = health.next_ping();
  health.heard();
  EXPECT_EQ(health.pings(), 0u);
  EXPECT_EQ(health.next_ping(), date);
  health.pinged(kDefaults, date);
  EXPECT_EQ(health.next_ping(), date + 2s);
}

TEST(HealthValue, another_failure_does_not_put_the_ping_off) {
  HealthValue health;
  health.fail(1, kDefaults, kStart);
  health.fail(1, kDefaults, kStart + 900ms);
  EXPECT_EQ(health.next_ping(), kStart + kFirstPing);
}

TEST(HealthValue, pings_come_often_while_others_carry_traffic) {
  HealthValue health;
  health.fail_whole(kDefaults, kStart);
  for (int i = 0; i < 5; ++i) health.pinged(kDefaults, kStart + i * 1s);
  EXPECT_FALSE(health.ping_due(false, kStart + 6s));
  EXPECT_FALSE(health.ping_due(true, kStart + 4900ms));
  EXPECT_TRUE(health.ping_due(true, kStart + 5s));
}

// Goal: a rail that did not answer at all is out at once, and in again with the first message that gets through.
TEST(HealthValue, silence_takes_all_and_one_message_restores_all) {
  HealthValue health;
  health.fail(1, kDefaults, kStart);
  health.fail_whole(kDefaults, kStart);
  EXPECT_EQ(health.value(), 0);
  health.fail(1, kDefaults, kStart);
  health.succeed(1, kDefaults);
  EXPECT_EQ(health.value(), 1000);
}

TEST(HealthValue, stays_where_an_operator_has_set_it) {
  HealthValue health;
  health.set_by_hand(400);
  health.fail(1, kDefaults, kStart);
  health.fail_whole(kDefaults, kStart);
  health.succeed(9, kDefaults);
  health.restore();
  EXPECT_EQ(health.value(), 400);
  EXPECT_EQ(health.next_ping(), kForever);
  EXPECT_FALSE(health.ping_due(true, kStart + 1h));
}

TEST(HealthValue, a_held_value_is_released_where_it_is) {
  HealthValue health;
  health.set_by_hand(400);
  health.release(kStart);
  EXPECT_EQ(health.value(), 400);
  EXPECT_EQ(health.next_ping(), kStart + kFirstPing);
  health.succeed(1, kDefaults);
  EXPECT_EQ(health.value(), 500);
}

TEST(HealthValue, a_thousand_by_hand_is_well_and_automatic) {
  HealthValue health;
  health.set_by_hand(400);
  health.set_by_hand(1000);
  EXPECT_FALSE(health.held());
  health.fail(1, kDefaults, kStart);
  EXPECT_EQ(health.value(), 900);
}

TEST(HealthValue, failure_rate_decays) {
  HealthValue health;
  EXPECT_EQ(health.failure_rate(kStart), 0);
  health.fail(10, kDefaults, kStart);
  EXPECT_DOUBLE_EQ(health.failure_rate(kStart), 10);
  EXPECT_NEAR(health.failure_rate(kStart + kFailureDecay), 3.68, 0.01);
  health.fail(1, kDefaults, kStart + kFailureDecay);
  EXPECT_NEAR(health.failure_rate(kStart + kFailureDecay), 4.68, 0.01);
  EXPECT_LT(health.failure_rate(kStart + 20 * kFailureDecay), 1e-6);
}

}  // namespace
}  // namespace ulnet::test
