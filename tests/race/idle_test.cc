// IdleGate under real threads: no wake-up is lost. Bounded by counts; a lost wake-up shows as a sleep that ran into its
// long deadline with something in the ring. Run under TSan, too.
#include "dataplane/base/idle_gate.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "dataplane/base/rng.h"

namespace ulnet {
namespace {

constexpr auto kLost = 20s;

Instant clock_now() {
  return Instant{std::chrono::steady_clock::now().time_since_epoch()};
}

/// A thread's inbox: one ring per producer, one gate.
struct Inbox {
  explicit Inbox(size_t producers) {
    EXPECT_TRUE(gate.open().has_value());
    for (size_t i = 0; i < producers; ++i) rings.push_back(std::make_unique<SpscRing<uint64_t>>(8));
  }
  bool empty() const {
    for (const auto& ring : rings)
      if (!ring->empty()) return false;
    return true;
  }
  /// One turn's end: arm, re-check, sleep. False when a wake-up was lost.
  bool idle() {
    const Instant now = clock_now();
    gate.arm();
    if (empty()) gate.wait({}, now + kLost, now);
    gate.disarm();
    return clock_now() - now < kLost || empty();
  }
  IdleGate gate;
  std::vector<std::unique_ptr<SpscRing<uint64_t>>> rings;
};

void dawdle(Rng& rng) {
  switch (rng.below(16)) {
    case 0: usleep(useconds_t(rng.below(50))); break;
    case 1: sched_yield(); break;
    default: break;
  }
}

/// Pops everything until `each` items of each ring have come; sleeps whenever nothing is there.
void take_all(Inbox& inbox, uint64_t each) {
  std::vector<uint64_t> expected(inbox.rings.size());
  Rng rng{9};
  bool lost = false;
  for (uint64_t left = each * expected.size(); !lost && left > 0;) {
    bool any = false;
    for (size_t p = 0; p < expected.size(); ++p)
      for (uint64_t item; inbox.rings[p]->pop(item); any = true, --left) ASSERT_EQ(expected[p]++, item);
    if (any) continue;
    dawdle(rng);
    lost = !inbox.idle();
  }
  EXPECT_FALSE(lost) << "asleep with items to come";
}

// Goal: a consumer that sleeps whenever it finds nothing gets all of 200,000 items of two producers.
// Method: small rings, random pauses on all sides, so that pushes fall into every step of arm, re-check, block and
// disarm.
TEST(RaceIdle, consumer_gets_everything) {
  constexpr uint64_t kEach = 100'000;
  Inbox inbox{2};
  std::vector<std::thread> producers;
  for (size_t p = 0; p < 2; ++p)
    producers.emplace_back([&inbox, p] {
      Rng rng{p + 1};
      for (uint64_t i = 0; i < kEach; ++i) {
        while (!inbox.rings[p]->push(i)) sched_yield();
        inbox.gate.notify(*inbox.rings[p]);
        dawdle(rng);
      }
    });
  take_all(inbox, kEach);
  for (auto& producer : producers) producer.join();
}

// Goal: one notify() wakes for all that was pushed before it, into however many rings.
// Method: as above, but each producer has two rings and fills both, up to 8 items, before it notifies.
TEST(RaceIdle, consumer_gets_batches) {
  constexpr uint64_t kEach = 100'000;
  Inbox inbox{4};
  std::vector<std::thread> producers;
  for (size_t p = 0; p < 2; ++p)
    producers.emplace_back([&inbox, p] {
      Rng rng{p + 1};
      auto &work = *inbox.rings[2 * p], &back = *inbox.rings[2 * p + 1];
      for (uint64_t works = 0, backs = 0; works < kEach || backs < kEach;) {
        for (uint64_t left = rng.below(8) + 1; left > 0; --left) {
          if (works < kEach && rng.one_in(2)) works += work.push(works);
          if (backs < kEach && rng.one_in(2)) backs += back.push(backs);
        }
        inbox.gate.notify(work, back);
        if (work.full() || back.full()) sched_yield();
        dawdle(rng);
      }
    });
  take_all(inbox, kEach);
  for (auto& producer : producers) producer.join();
}

// Goal: two threads that hand one token to and fro, each asleep while the other has it, never both sleep.
TEST(RaceIdle, ping_pong) {
  constexpr uint64_t kRounds = 100'000;
  std::array<Inbox, 2> sides{Inbox{1}, Inbox{1}};
  std::atomic<bool> lost{false};
  const auto play = [&](size_t me) {
    Rng rng{me + 20};
    for (uint64_t round = me; round < 2 * kRounds && !lost;) {
      uint64_t token = 0;
      if (me == 0 && round == 0) {
        token = 0;
      } else if (!sides[me].rings[0]->pop(token)) {
        if (!sides[me].idle()) lost = true;
        continue;
      }
      if (rng.one_in(64)) dawdle(rng);
      round = token + 2;
      if (token + 1 >= 2 * kRounds) return;
      ASSERT_TRUE(sides[1 - me].rings[0]->push(token + 1));
      sides[1 - me].gate.notify(*sides[1 - me].rings[0]);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_FALSE(lost);
}

/// Pins this thread to the CPU with this index among those that it may use, if there are enough. Without the pin, two
/// threads that yield to each other would share one CPU on a busy machine.
void pin(int number) {
  cpu_set_t all, one;
  ASSERT_EQ(0, sched_getaffinity(0, sizeof all, &all));
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && number-- == 0) CPU_SET(cpu, &one);
  if (CPU_COUNT(&one) == 1) (void)sched_setaffinity(0, sizeof one, &one);
}

// Goal: the order itself: an owner that saw an empty ring after arm() has been notified once the producer is through.
// Method: both sides are hot, without a system call between the four operations. They start together with random
// offsets of a few ns and go over many gates each time. So one moment on two CPUs gives many attempts. Batches have one
// and two items.
// No store in fence_pushes(), or a relaxed one in arm(), fails here on x86 whenever both threads really run at once.
TEST(RaceIdle, empty_after_arm_means_notified) {
#ifdef ULNET_SANITIZED
  constexpr uint32_t kRounds = 1000;
#else
  constexpr uint32_t kRounds = 10'000;
#endif
  struct Pair {
    IdleGate gate;
    SpscRing<uint32_t> ring{2};
    bool empty = false;  // owner
  };
  std::vector<Pair> pairs(64);
  std::atomic<uint32_t> go{0}, done{0};
  const auto wait_for = [](const std::atomic<uint32_t>& what, uint32_t value) {
    for (uint32_t spins = 0; what.load(std::memory_order_acquire) < value; ++spins)
      if (spins % 32768 == 32767) sched_yield();  // the other thread has lost its CPU
  };
  const auto pause = [](Rng& rng) {
    for (volatile uint64_t spins = rng.below(128); spins > 0;) spins = spins - 1;
  };
  const auto items = [](uint32_t round) { return round % 2 == 0 ? 2u : 1u; };
  std::thread producer([&] {
    pin(1);
    Rng rng{1};
    for (uint32_t round = 1; round <= kRounds; ++round) {
      wait_for(go, round);
      pause(rng);
      for (Pair& pair : pairs) {
        for (uint32_t left = items(round); left > 0; --left) ASSERT_TRUE(pair.ring.push(round));
        pair.gate.notify(pair.ring);
      }
      done.store(round, std::memory_order_release);
    }
  });
  uint32_t missed = 0, lost = 0;
  std::thread owner([&] {
    pin(0);
    Rng rng{2};
    for (uint32_t round = 1; round <= kRounds; ++round) {
      go.store(round, std::memory_order_release);
      pause(rng);
      for (Pair& pair : pairs) {
        pair.gate.arm();
        pair.empty = pair.ring.empty();
      }
      wait_for(done, round);
      for (Pair& pair : pairs) {
        missed += pair.empty && !pair.gate.notified();
        pair.gate.disarm();
        uint32_t item = 0;
        for (uint32_t left = items(round); left > 0; --left) lost += !pair.ring.pop(item) || item != round;
      }
    }
  });
  producer.join();
  owner.join();
  EXPECT_EQ(0u, missed);
  EXPECT_EQ(0u, lost);
}

// Goal: signals that come late are read off: a gate does not stay readable and turn sleep into a spin.
TEST(RaceIdle, late_signals_are_read_off) {
  IdleGate gate;
  ASSERT_TRUE(gate.open().has_value());
  std::atomic<bool> stop{false};
  std::thread notifier([&] {
    while (!stop) gate.notify_stored();
  });
  for (int i = 0; i < 20'000; ++i) {
    const Instant now = clock_now();
    gate.arm();
    if (i % 2 == 0) gate.wait({}, now + kLost, now);
    gate.disarm();
  }
  stop = true;
  notifier.join();
  // At most one late signal may be left; after it, a sleep lasts until its deadline.
  Instant started = kNever, ended = kNever;
  for (int i = 0; i < 3; ++i) {
    started = clock_now();
    gate.arm();
    gate.wait({}, started + 5ms, started);
    gate.disarm();
    ended = clock_now();
  }
  EXPECT_GE(ended - started, 5ms);
}

}  // namespace
}  // namespace ulnet
