// IdlePolicy and IdleGate by one thread; the race test is tests/race/idle_test.cc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "dataplane/base/idle_gate.h"
#include "dataplane/host/idle_policy.h"

namespace ulnet {
namespace {

Instant clock_now() {
  return Instant{std::chrono::steady_clock::now().time_since_epoch()};
}

/// One letter per turn: 'w' = found work, '.' = empty, 'o' = empty, and another thread had the CPU for 1 ms before it.
/// Empty, too, are 'p', which follows a preemption while the worker spun, and 'q', where a driver is patient. One turn
/// takes `turn`. Gives one letter per decision: 't' turn, 'y' yield, 's' sleep.
std::string decide(IdlePolicy::Config config, const std::string& turns, Duration turn) {
  IdlePolicy policy{config};
  std::string out;
  Instant now{1s};
  for (const char c : turns) {
    if (c == 'o') now += 1ms;
    if (c == 'p' && policy.spinning()) policy.preempted();
    switch (policy.next(now, c == 'w', c == 'q')) {
      case IdleAction::kTurn: out += 't'; break;
      case IdleAction::kYield: out += 'y'; break;
      case IdleAction::kSleep: out += 's'; break;
    }
    now += turn;
  }
  return out;
}

constexpr uint32_t kNoYield = 1000;

IdlePolicy::Config adaptive(Duration spin, uint32_t empty_turns_min) {
  return {.mode = IdleMode::kAdaptive, .spin = spin, .empty_turns_min = empty_turns_min, .yield_every = kNoYield};
}

TEST(IdlePolicy, busy_never_sleeps) {
  EXPECT_EQ("tttttttt", decide({.mode = IdleMode::kBusy, .spin = 0us, .empty_turns_min = 0}, "w.......", 1s));
}

TEST(IdlePolicy, busy_yields_now_and_then) {
  EXPECT_EQ("ttyttytty", decide({.mode = IdleMode::kBusy, .busy_yield_every = 3}, "..o..o..o", 1us));
}

TEST(IdlePolicy, interrupt_sleeps_at_once) {
  EXPECT_EQ("tstsst", decide({.mode = IdleMode::kInterrupt, .spin = 1s, .empty_turns_min = 99}, "w.w..w", 1us));
}

TEST(IdlePolicy, an_adaptive_worker_that_is_patient_sleeps_at_once) {
  EXPECT_EQ("tstttst", decide(adaptive(30us, 2), "wqw..qw", 10us));
  EXPECT_EQ("ttt", decide({.mode = IdleMode::kBusy}, "wqq", 10us));
}

TEST(IdlePolicy, adaptive_needs_both_turns_and_time) {
  // 10 us per turn, 30 us to spin: time decides (0, 10, 20, 30 us idle).
  EXPECT_EQ("tttts", decide(adaptive(30us, 2), "w....", 10us));
  // Slow turns: the number of turns decides.
  EXPECT_EQ("tttts", decide(adaptive(30us, 3), "w....", 1s));
  EXPECT_EQ("tttttts", decide(adaptive(30us, 2), "..w....", 10us)) << "work starts the count again";
}

TEST(IdlePolicy, adaptive_sleeps_again_after_a_vain_wake_up) {
  EXPECT_EQ("ttttssstttts", decide(adaptive(30us, 2), "w......w....", 10us));
}

TEST(IdlePolicy, adaptive_yields_while_it_spins) {
  const IdlePolicy::Config config{.spin = 1s, .yield_every = 2};
  EXPECT_EQ("ttytytt", decide(config, "w....w.", 1us));
}

TEST(IdlePolicy, a_long_yield_stops_the_spinning_for_some_idle_times) {
  const IdlePolicy::Config config{.spin = 1s, .yield_every = 2, .crowded = 10us, .crowded_idles = 3};
  // The third empty turn comes late: the rest of this idle time and the next two sleep; the one after that spins.
  EXPECT_EQ("ttysststsstty", decide(config, "w..o.w.w..w..", 1us));
}

TEST(IdlePolicy, a_long_yield_that_ends_with_work_counts_as_well) {
  const IdlePolicy::Config config{.spin = 1s, .yield_every = 1, .crowded = 10us, .crowded_idles = 2};
  IdlePolicy policy{config};
  EXPECT_EQ(IdleAction::kYield, policy.next(Instant{1s}, false));
  EXPECT_EQ(IdleAction::kTurn, policy.next(Instant{1s} + 50us, true));
  EXPECT_EQ(IdleAction::kSleep, policy.next(Instant{1s} + 51us, false));
}

TEST(IdlePolicy, a_slow_turn_without_yield_is_not_taken_as_a_crowded_cpu) {
  const IdlePolicy::Config config{.spin = 1s, .yield_every = kNoYield};
  EXPECT_EQ("tttt", decide(config, "w.o.", 1us));
}

TEST(IdlePolicy, a_preempted_worker_stops_the_spinning_for_some_idle_times) {
  IdlePolicy::Config config{.spin = 1s, .yield_every = kNoYield, .crowded_idles = 3};
  EXPECT_EQ("ttststsstt", decide(config, "w.pw.w..w.", 1us)) << "the rest of this idle time, and the next two";
  EXPECT_EQ("tt", decide(config, "wp", 1us)) << "it has worked, and not spun";
  config.mode = IdleMode::kBusy;
  EXPECT_EQ("tttt", decide(config, "w.p.", 1us));
}

TEST(IdlePolicy, the_time_asleep_is_not_taken_as_a_crowded_cpu) {
  const IdlePolicy::Config config{.spin = 0us, .empty_turns_min = 1, .yield_every = 1};
  EXPECT_EQ("tystys", decide(config, "w..w..", 1us));
  EXPECT_EQ("tyssty", decide(config, "w..ow.", 1us)) << "woken after 1 ms without work";
}

TEST(IdleGate, marks_without_descriptor) {
  IdleGate gate;
  EXPECT_EQ(-1, gate.fd());
  gate.notify_stored();
  EXPECT_FALSE(gate.notified()) << "awake: the owner looks anyway";
  gate.arm();
  EXPECT_FALSE(gate.notified());
  gate.notify_stored();
  gate.notify_stored();
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
  gate.notify_stored();
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
