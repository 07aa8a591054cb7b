// Latencies of a run: counts in log-linear buckets, in fixed memory, so that recording costs the same for the first and
// for the billionth. One owner. Below 128 ns each bucket is one nanosecond; above, every power of two is split into 128
// buckets. A reported quantile is therefore at most 1/128 (0.79 %) above the true value, and never below it. Least,
// most, mean and count are exact.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "dataplane/base/time.h"

namespace ulnet::perf {

class Histogram {
 public:
  static constexpr unsigned kSplitBits = 7;  ///< 128 buckets per power of two
  static constexpr uint64_t kSplit = 1u << kSplitBits;
  static constexpr unsigned kValueBits = 42;  ///< up to 73 minutes; longer values count as that
  static constexpr uint64_t kValueMax = (uint64_t{1} << kValueBits) - 1;
  static constexpr double kResolution = 1.0 / double(kSplit);
  static constexpr size_t kBuckets = (kValueBits - kSplitBits + 1) * kSplit;

  void record(Duration latency) {
    const uint64_t ns = latency.count() < 0 ? 0 : std::min(uint64_t(latency.count()), kValueMax);
    ++buckets_[bucket_of(ns)];
    ++count_;
    sum_ += ns;
    min_ = std::min(min_, ns);
    max_ = std::max(max_, ns);
  }
  void merge(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }
  void clear() { *this = Histogram{}; }

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] Duration min() const { return Duration(count_ == 0 ? 0 : min_); }
  [[nodiscard]] Duration max() const { return Duration(max_); }
  [[nodiscard]] Duration mean() const { return Duration(count_ == 0 ? 0 : sum_ / count_); }
  /// The least value that at least `share` (0..1) of all records do not exceed, rounded up to its bucket's end; 0 when
  /// nothing was recorded.
  [[nodiscard]] Duration quantile(double share) const {
    if (count_ == 0) return Duration{0};
    const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * double(count_));
    const uint64_t rank = std::clamp(uint64_t(wanted), uint64_t{1}, count_);
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen >= rank) return Duration(std::min(last_of(i), max_));
    }
    return max();
  }

  /// Number of the bucket that holds `ns`, and the largest value in a bucket.
  [[nodiscard]] static constexpr size_t bucket_of(uint64_t ns) {
    if (ns < kSplit) return size_t(ns);
    const unsigned shift = unsigned(std::bit_width(ns)) - kSplitBits - 1;
    return (shift + 1) * kSplit + size_t((ns >> shift) - kSplit);
  }
  [[nodiscard]] static constexpr uint64_t last_of(size_t bucket) {
    if (bucket < kSplit) return bucket;
    const size_t shift = bucket / kSplit - 1;
    return ((kSplit + bucket % kSplit + 1) << shift) - 1;
  }

 private:
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
};

}  // namespace ulnet::perf
