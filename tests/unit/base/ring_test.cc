// Tests of the ring with both sides on one thread (dataplane/base/ring.h). Two threads: tests/race.
#include "dataplane/base/ring.h"

#include <gtest/gtest.h>

#include <deque>

namespace ulnet {
namespace {

TEST(SpscRing, capacity_is_rounded_up_to_a_power_of_two) {
  const std::pair<uint32_t, uint32_t> cases[] = {{0, 2}, {1, 2}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {1000, 1024}};
  for (const auto& [asked, given] : cases) EXPECT_EQ(SpscRing<int>(asked).capacity(), given) << asked;
}

// Goal: the ring is FIFO, loses nothing, and reports full and empty correctly.
// Method: all sequences of 14 pushes and pops on a ring of four, against a deque as model.
TEST(SpscRing, every_short_sequence_matches_a_deque) {
  for (unsigned sequence = 0; sequence < (1u << 14); ++sequence) {
    SpscRing<int> ring(4);
    std::deque<int> model;
    for (int step = 0; step < 14; ++step) {
      if ((sequence >> step) & 1) {
        ASSERT_EQ(ring.full(), model.size() == 4);
        ASSERT_EQ(ring.push(step), model.size() < 4);
        if (model.size() < 4) model.push_back(step);
      } else {
        int got = -1;
        ASSERT_EQ(ring.empty(), model.empty());
        ASSERT_EQ(ring.pop(got), !model.empty());
        if (model.empty()) continue;
        ASSERT_EQ(got, model.front());
        model.pop_front();
      }
    }
  }
}

TEST(SpscRing, goes_round_many_times) {
  SpscRing<uint32_t> ring(8);
  uint32_t in = 0, out = 0;
  for (int round = 0; round < 100'000; ++round) {
    while (ring.push(in)) ++in;
    uint32_t got;
    for (int i = 0; i < 1 + round % 8 && ring.pop(got); ++i) ASSERT_EQ(got, out++);
  }
  EXPECT_LE(in - out, 8u);
}

}  // namespace
}  // namespace ulnet
