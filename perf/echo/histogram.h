// Latencies in buckets of 1/16 of their size: percentiles without keeping samples. One writer.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

namespace ulnet::perf {

class Histogram {
 public:
  void add(uint64_t ns) {
    ++counts_[bucket_of(ns)];
    ++total_;
    if (ns > max_) max_ = ns;
  }
  void merge(const Histogram& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    if (other.max_ > max_) max_ = other.max_;
  }
  /// Upper end of the bucket in which `fraction` (0..1) of the samples is reached; 0 without samples.
  [[nodiscard]] uint64_t percentile(double fraction) const {
    const auto wanted = uint64_t(fraction * double(total_));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > wanted || (seen == total_ && seen > 0)) return std::min(upper_end(i), max_);
    }
    return 0;
  }
  [[nodiscard]] uint64_t total() const { return total_; }
  [[nodiscard]] uint64_t max() const { return max_; }

 private:
  static constexpr unsigned kSteps = 16;
  static size_t bucket_of(uint64_t ns) {
    if (ns < kSteps) return size_t(ns);
    const unsigned width = unsigned(std::bit_width(ns));  // 5 and more
    return size_t(width - 4) * kSteps + size_t(ns >> (width - 5)) - kSteps;
  }
  static uint64_t upper_end(size_t bucket) {
    if (bucket < kSteps) return bucket;
    const unsigned width = unsigned(bucket / kSteps) + 4;
    return ((uint64_t(bucket % kSteps) + kSteps + 1) << (width - 5)) - 1;
  }
  std::array<uint64_t, 61 * kSteps> counts_{};
  uint64_t total_ = 0;
  uint64_t max_ = 0;
};

}  // namespace ulnet::perf
