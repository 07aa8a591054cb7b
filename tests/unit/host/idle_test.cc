// IdlePolicy and IdleGate by one thread; the race test is tests/race/idle_test.cc.
#include "dataplane/worker/idle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

namespace ulnet {
namespace {

Instant clock_now() {
  return Instant{std::chrono::steady_clock::now().time_since_epoch()};
}

/// One letter per turn, 'w' = found work; one turn takes `turn`. Gives one letter per decision: 't' turn, 's' sleep.
std::string decide(IdlePolicy::Config config, const std::string& turns, Duration turn) {
  IdlePolicy policy{config};
  std::string out;
  Instant now{1s};
  for (const char c : turns) {
    out += policy.next(now, c == 'w') == IdleAction::kSleep ? 's' : 't';
    now += turn;
  }
  return out;
}

TEST(IdlePolicy, busy_never_sleeps) {
  EXPECT_EQ("tttttttt", decide({IdleMode::kBusy, 0us, 0}, "w.......", 1s));
}

TEST(IdlePolicy, interrupt_sleeps_at_once) {
  EXPECT_EQ("tstsst", decide({IdleMode::kInterrupt, 1s, 99}, "w.w..w", 1us));
}

TEST(IdlePolicy, adaptive_wants_both_turns_and_time) {
  // 10 us per turn, 30 us to spin: time decides (0, 10, 20, 30 us idle).
  EXPECT_EQ("tttts", decide({IdleMode::kAdaptive, 30us, 2}, "w....", 10us));
  // Slow turns: the number of turns decides.
  EXPECT_EQ("tttts", decide({IdleMode::kAdaptive, 30us, 3}, "w....", 1s));
  EXPECT_EQ("tttttts", decide({IdleMode::kAdaptive, 30us, 2}, "..w....", 10us)) << "work starts the count anew";
}

TEST(IdlePolicy, adaptive_sleeps_again_after_a_vain_wake_up) {
  EXPECT_EQ("ttttssstttts", decide({IdleMode::kAdaptive, 30us, 2}, "w......w....", 10us));
}

TEST(IdleGate, marks_without_descriptor) {
  IdleGate gate;
  EXPECT_EQ(-1, gate.fd());
  gate.notify();
  EXPECT_FALSE(gate.notified()) << "awake: the owner looks anyway";
  gate.arm();
  EXPECT_FALSE(gate.notified());
  gate.notify();
  gate.notify();
  EXPECT_TRUE(gate.notified());
  gate.wait({}, kForever, Instant{1s});  // returns at once
  EXPECT_TRUE(gate.disarm());
  EXPECT_FALSE(gate.disarm());
}

TEST(IdleGate, sleeps_until_notify_deadline_or_descriptor) {
  IdleGate gate;
  ASSERT_TRUE(gate.open().has_value());
  Instant now = clock_now();
  gate.arm();
  gate.wait({}, now + 3ms, now);
  EXPECT_GE(clock_now() - now, 3ms);
  EXPECT_FALSE(gate.disarm());

  gate.arm();
  gate.notify();
  gate.wait({}, kForever, clock_now());
  EXPECT_TRUE(gate.disarm());
  EXPECT_FALSE(wait_readable(std::span<const int>(std::array{gate.fd()}), kNever, Instant{1s}))
      << "signal was read off";

  std::array<int, 2> ends;
  ASSERT_EQ(0, pipe(ends.data()));
  ASSERT_EQ(1, write(ends[1], "x", 1));
  gate.arm();
  gate.wait(std::span<const int>(std::array{-1, ends[0]}), kForever, clock_now());
  EXPECT_FALSE(gate.disarm());
  gate.arm();
  now = clock_now();
  gate.wait({}, now - 1s, now);  // a deadline that has passed
  EXPECT_FALSE(gate.disarm());
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace ulnet
