// Tests of the timer wheel (dataplane/base/wheel.h).
#include "dataplane/base/wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "dataplane/base/rng.h"

namespace ulnet {
namespace {

struct TestTimer : Timer {
  int fired = 0;
};
using SmallWheel = Wheel<TestTimer, 8>;
constexpr Duration kTick = SmallWheel::kTick;

Instant at(Duration d) {
  return Instant{d};
}

// A worker may arm before its first turn; the clock then stands anywhere.
TEST(Wheel, armed_before_the_first_advance_fires_at_it) {
  Wheel<TestTimer> wheel;
  TestTimer timer;
  wheel.arm(timer, at(100ms));
  EXPECT_EQ(wheel.next_deadline(), at(100ms));
  EXPECT_EQ(wheel.advance(at(1s), 10, [](TestTimer& t) { ++t.fired; }), 1u);
  EXPECT_EQ(timer.fired, 1);
}

// Goal: a deadline fires at the first advance at or after it and never before, wherever deadline and advances lie.
// Method: every (arm time, deadline, two advance times) on a grid of half ticks over three turns of a wheel of eight.
TEST(Wheel, fires_at_the_first_advance_at_or_after) {
  const Duration step = kTick / 2;
  for (int start : {0, 1, 5, 1000})
    for (int deadline = 0; deadline < 48; ++deadline)
      for (int first = 0; first < 48; ++first)
        for (int second = first; second < 50; second += 3) {
          SmallWheel wheel;
          TestTimer timer;
          auto fire = [](TestTimer& t) { ++t.fired; };
          wheel.advance(at(start * step), 10, fire);
          wheel.arm(timer, at((start + deadline) * step));
          ASSERT_EQ(wheel.next_deadline(), at((start + deadline) * step));
          wheel.advance(at((start + first) * step), 10, fire);
          ASSERT_EQ(timer.fired, deadline <= first) << start << " " << deadline << " " << first;
          wheel.advance(at((start + second) * step), 10, fire);
          ASSERT_EQ(timer.fired, deadline <= second) << start << " " << deadline << " " << first << " " << second;
          ASSERT_EQ(timer.armed(), timer.fired == 0);
          ASSERT_EQ(wheel.armed(), timer.fired == 0 ? 1u : 0u);
        }
}

// Goal: looks of a few at a time reach all, in the order of one look at all. If timers were disarmed in between, those
// that are left are reached with the next round at the latest.
TEST(Wheel, a_look_goes_on_where_the_last_one_stopped) {
  SmallWheel wheel;
  std::vector<TestTimer> timers(50);
  for (size_t i = 0; i < timers.size(); ++i) wheel.arm(timers[i], at(int64_t(i % 5) * kTick));
  std::vector<TestTimer*> all, seen;
  wheel.for_each([&](TestTimer& one) { all.push_back(&one); });
  SmallWheel::Place place;
  const auto look = [&](unsigned most) {
    place = wheel.look_from(place, [&](TestTimer& one) {
      if (most-- == 0) return false;
      seen.push_back(&one);
      return true;
    });
  };
  for (unsigned looks = 0; looks < 7; ++looks) {
    look(7);
    EXPECT_EQ(seen.size(), 7 * (looks + 1));
    EXPECT_FALSE(place.is_start());
  }
  look(7);
  EXPECT_EQ(seen, all);
  EXPECT_TRUE(place.is_start());
  look(25);
  for (size_t i = 0; i < timers.size(); i += 2) wheel.disarm(timers[i]);
  seen.clear();
  while (!place.is_start()) look(3);
  do look(3);
  while (!place.is_start());
  EXPECT_EQ(std::set<TestTimer*>(seen.begin(), seen.end()).size(), 25u);
  look(3);
  for (TestTimer& one : timers) wheel.disarm(one);
  look(3);
  EXPECT_TRUE(place.is_start()) << "of an empty wheel";
}

// Goal: with many timers armed, re-armed and disarmed, also from within fire(), each timer fires when a sorted model
// says.
TEST(Wheel, random_use_matches_a_model) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    SmallWheel wheel;
    std::vector<std::unique_ptr<TestTimer>> timers;
    std::vector<Instant> model(40, kForever);
    for (int i = 0; i < 40; ++i) timers.push_back(std::make_unique<TestTimer>());
    Instant now = at(Duration{int64_t(rng.below(1'000'000'000))});
    for (int round = 0; round < 400; ++round) {
      for (int change = 0; change < 5; ++change) {
        const size_t i = rng.below(40);
        if (rng.one_in(4)) {
          wheel.disarm(*timers[i]);
          model[i] = kForever;
        } else {
          model[i] = now + Duration{int64_t(rng.below(400'000'000))} - 10ms;
          wheel.arm(*timers[i], model[i]);
        }
      }
      ASSERT_EQ(wheel.next_deadline(), *std::min_element(model.begin(), model.end()));
      now += Duration{int64_t(rng.below(rng.one_in(10) ? 500'000'000 : 30'000'000))};
      const unsigned budget = rng.one_in(3) ? 2 : 100;
      unsigned due = 0;
      for (const Instant deadline : model) due += deadline <= now;
      const unsigned fired = wheel.advance(now, budget, [&](TestTimer& t) {
        for (size_t i = 0; i < 40; ++i) {
          if (timers[i].get() != &t) continue;
          ASSERT_LE(model[i], now);
          model[i] = rng.one_in(2) ? kForever : now + 50ms;
          wheel.arm(t, model[i]);
        }
      });
      ASSERT_EQ(fired, std::min(due, budget)) << "seed " << seed << " round " << round;
    }
  }
}

// Goal: a thread that always sleeps until next_deadline() wakes at each deadline. Few of its wake-ups find no timer
// due.
// Method: thousands of timers, most of them further away than one turn of the wheel, against a sorted list.
TEST(Wheel, next_deadline_of_thousands_is_never_late_and_seldom_early) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    Wheel<TestTimer> wheel;
    std::vector<TestTimer> timers(rng.one_in(2) ? 5000 : 50);
    std::multiset<Instant> model;
    Instant now = at(Duration{int64_t(rng.below(1'000'000'000))});
    wheel.advance(now, 1, [](TestTimer&) {});
    for (TestTimer& timer : timers) {
      const Instant deadline = now + Duration{int64_t(rng.below(150'000'000'000))};
      wheel.arm(timer, deadline);
      model.insert(deadline);
    }
    const Instant end = now + 200s;
    unsigned wakes = 0, fired = 0;
    while (wheel.armed() > 0 && now < end) {
      const Instant next = wheel.next_deadline();
      ASSERT_LE(next, *model.begin()) << "too late";
      ASSERT_GT(next, now) << "no sleep at all";
      if (timers.size() == 50) {
        ASSERT_EQ(next, *model.begin()) << "of few timers none wakes for nothing";
      }
      now = next;
      ++wakes;
      fired += wheel.advance(now, UINT32_MAX, [&](TestTimer& timer) {
        ASSERT_LE(*model.begin(), now);
        (void)timer;
        model.erase(model.begin());
      });
    }
    EXPECT_EQ(fired, timers.size());
    EXPECT_LE(wakes, fired + 150'000 / 16 + 1);
    EXPECT_EQ(wheel.next_deadline(), kForever);
  }
}

TEST(Wheel, fire_may_disarm_its_neighbours) {
  SmallWheel wheel;
  TestTimer timers[4];
  for (auto& timer : timers) wheel.arm(timer, at(10ms));
  const unsigned fired = wheel.advance(at(1s), 10, [&](TestTimer& t) {
    ++t.fired;
    for (auto& other : timers) wheel.disarm(other);
  });
  EXPECT_EQ(fired, 1u);
  EXPECT_EQ(wheel.armed(), 0u);
  EXPECT_EQ(wheel.next_deadline(), kForever);
}

// A Tx is a Timer and has a deadline that the wheel must neither read nor write.
TEST(Wheel, deadline_of_the_item_itself_is_left_alone) {
  struct Item : Timer {
    Instant deadline = at(7s);
    bool slot = true;
  };
  Wheel<Item, 8> wheel;
  Item item;
  wheel.arm(item, at(1s));
  EXPECT_EQ(item.deadline, at(7s));
  EXPECT_EQ(wheel.next_deadline(), at(1s));
  EXPECT_EQ(wheel.advance(at(1s), 1, [](Item&) {}), 1u);
}

TEST(Wheel, forever_is_not_armed) {
  SmallWheel wheel;
  TestTimer timer;
  wheel.arm(timer, at(1s));
  wheel.arm(timer, kForever);
  EXPECT_FALSE(timer.armed());
}

}  // namespace
}  // namespace ulnet
