// Tests of the seeded generator (dataplane/base/rng.h).
#include "dataplane/base/rng.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ulnet {
namespace {

// The sequence is part of every recorded seed: it must never change.
TEST(Rng, first_values_of_a_seed_are_fixed) {
  Rng rng(1);
  EXPECT_EQ(rng.next(), 0xb3f2af6d0fc710c5u);
  EXPECT_EQ(rng.next(), 0x853b559647364ceau);
  EXPECT_EQ(rng.next(), 0x92f89756082a4514u);
}

TEST(Rng, seeds_differ_and_repeat) {
  std::set<uint64_t> firsts;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Rng a(seed), b(seed);
    const uint64_t first = a.next();
    EXPECT_EQ(first, b.next());
    firsts.insert(first);
  }
  EXPECT_EQ(firsts.size(), 1000u);
}

TEST(Rng, below_is_even_and_in_bounds) {
  Rng rng(7);
  EXPECT_EQ(rng.below(0), 0u);
  EXPECT_EQ(rng.below(1), 0u);
  for (uint64_t bound : {2u, 3u, 7u, 10u}) {
    std::vector<int> seen(bound);
    for (int i = 0; i < 10'000; ++i) ++seen.at(rng.below(bound));
    for (const int count : seen) EXPECT_NEAR(count, 10'000 / double(bound), 400);
  }
  for (int i = 0; i < 1000; ++i) EXPECT_LT(rng.below(uint64_t{1} << 63), uint64_t{1} << 63);
}

TEST(Rng, chances) {
  Rng rng(9);
  int quarter = 0, third = 0;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(rng.chance(0));
    EXPECT_TRUE(rng.chance(1));
    EXPECT_FALSE(rng.one_in(0));
    EXPECT_TRUE(rng.one_in(1));
    quarter += rng.chance(0.25);
    third += rng.one_in(3);
  }
  EXPECT_NEAR(quarter, 2500, 200);
  EXPECT_NEAR(third, 3333, 200);
}

}  // namespace
}  // namespace ulnet
