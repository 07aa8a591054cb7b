#include "perf/generator/histogram.h"

#include <gtest/gtest.h>

#include <vector>

#include "dataplane/base/rng.h"
#include "perf/generator/pattern.h"

namespace ulnet::perf {
namespace {

// Every value lies in exactly one bucket, buckets are in order and without gaps, and none is wider than 1/128 of its
// values.
TEST(Histogram, buckets_tile_the_range_within_the_resolution) {
  uint64_t first = 0;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    const uint64_t last = Histogram::last_of(i);
    ASSERT_GE(last, first) << i;
    ASSERT_EQ(Histogram::bucket_of(first), i);
    ASSERT_EQ(Histogram::bucket_of(last), i);
    ASSERT_LE(double(last - first), double(first) * Histogram::kResolution) << i;
    first = last + 1;
  }
  EXPECT_EQ(first - 1, Histogram::kValueMax);
}

TEST(Histogram, empty_says_zero) {
  Histogram h;
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.min(), Duration{0});
  EXPECT_EQ(h.max(), Duration{0});
  EXPECT_EQ(h.mean(), Duration{0});
  EXPECT_EQ(h.quantile(0.5), Duration{0});
}

TEST(Histogram, small_values_are_exact) {
  Histogram h;
  for (int64_t ns = 1; ns <= 100; ++ns) h.record(Duration(ns));
  EXPECT_EQ(h.quantile(0.5), Duration{50});
  EXPECT_EQ(h.quantile(0.99), Duration{99});
  EXPECT_EQ(h.quantile(0.999), Duration{100});
  EXPECT_EQ(h.quantile(0), Duration{1});
  EXPECT_EQ(h.quantile(1), Duration{100});
  EXPECT_EQ(h.mean(), Duration{50});
}

TEST(Histogram, quantiles_are_never_below_and_at_most_one_128th_above) {
  Rng rng(3);
  std::vector<int64_t> values;
  Histogram h;
  for (int i = 0; i < 50000; ++i) {
    const int64_t ns = int64_t(rng.below(uint64_t{1} << (1 + rng.below(41))));
    values.push_back(ns);
    h.record(Duration(ns));
  }
  std::sort(values.begin(), values.end());
  for (double share : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999}) {
    const int64_t exact = values[size_t(std::ceil(share * double(values.size()))) - 1];
    const int64_t shown = h.quantile(share).count();
    EXPECT_GE(shown, exact) << share;
    EXPECT_LE(double(shown), double(exact) * (1 + Histogram::kResolution)) << share;
  }
  EXPECT_EQ(h.min().count(), values.front());
  EXPECT_EQ(h.max().count(), values.back());
}

TEST(Histogram, values_out_of_range_count_as_the_nearest_end) {
  Histogram h;
  h.record(Duration{-5});
  h.record(Duration::max());
  EXPECT_EQ(h.min(), Duration{0});
  EXPECT_EQ(uint64_t(h.max().count()), Histogram::kValueMax);
  EXPECT_EQ(h.count(), 2u);
}

TEST(Histogram, merge_is_as_if_recorded_in_one) {
  Histogram a, b, both;
  for (int64_t ns : {5, 5000, 5000000}) {
    a.record(Duration(ns));
    both.record(Duration(ns));
  }
  for (int64_t ns : {7, 70000}) {
    b.record(Duration(ns));
    both.record(Duration(ns));
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.mean(), both.mean());
  EXPECT_EQ(a.min(), both.min());
  EXPECT_EQ(a.max(), both.max());
  for (double share : {0.2, 0.5, 0.8}) EXPECT_EQ(a.quantile(share), both.quantile(share));
  a.clear();
  EXPECT_EQ(a.count(), 0u);
}

TEST(Pattern, parts_equal_the_whole_at_every_offset) {
  std::vector<std::byte> whole(257), part(64);
  pattern_fill(whole, 9);
  for (size_t offset = 0; offset < 100; ++offset) {
    for (size_t length : {0u, 1u, 7u, 8u, 9u, 33u, 64u}) {
      const std::span<std::byte> out(part.data(), length);
      pattern_fill(out, 9, offset);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), whole.begin() + ptrdiff_t(offset)));
      ASSERT_EQ(pattern_match(out, 9, offset), length);
    }
  }
}

TEST(Pattern, finds_the_first_wrong_byte) {
  std::vector<std::byte> data(100);
  pattern_fill(data, 4, 3);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] ^= std::byte{0x10};
    EXPECT_EQ(pattern_match(data, 4, 3), i);
    data[i] ^= std::byte{0x10};
  }
  EXPECT_LT(pattern_match(data, 5, 3), 8u);   // another seed
  EXPECT_LT(pattern_match(data, 4, 11), 8u);  // another offset: one word too far
}

}  // namespace
}  // namespace ulnet::perf
