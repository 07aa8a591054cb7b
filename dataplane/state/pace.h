// The pace of an interface: how long the messages of one worker took over it lately. A choice of path weighs the
// messages under way by the pace of their rail, if rails differ by much (docs/decisions.md #87). Owner: the worker.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "dataplane/base/time.h"

namespace ulnet {

/// Messages of different size say different things about a rail: small ones its latency, bulk its rate.
enum class PaceKind : uint8_t { kSmall, kBulk };
inline constexpr size_t kPaceKinds = 2;
inline constexpr uint32_t kBulkKib = 256;  ///< a message of this size or more is bulk
[[nodiscard]] constexpr PaceKind pace_kind(uint64_t bytes) {
  return bytes >> 10 >= kBulkKib ? PaceKind::kBulk : PaceKind::kSmall;
}

class Pace {
 public:
  /// A message ended `took` after its choice. `ahead_kib`: KiB under way on the interface at its choice, its own among
  /// them. Requires: ahead_kib > 0.
  void sample(PaceKind kind, uint32_t ahead_kib, Duration took, Instant now) {
    Recent& recent = of_[size_t(kind)];
    const float value = std::max(float(took.count()) / (kind == PaceKind::kBulk ? float(ahead_kib) : 1.0f), 1.0f);
    if (now - recent.last > kFresh) recent.samples = std::min(recent.samples, kSamples - 1);
    if (recent.samples % kSamples == 0) recent.before = std::exchange(recent.best, value);
    recent.best = std::min(recent.best, value);
    recent.samples = recent.samples + 1 < 3 * kSamples ? recent.samples + 1 : 2 * kSamples;
    recent.last = now;
  }
  /// Nanoseconds of a small message, or nanoseconds per KiB of bulk: the best of the last messages, 8 to 16 of them. A
  /// single message that took long does not count. 0: too few messages lately.
  [[nodiscard]] float value(PaceKind kind, Instant now) const {
    const Recent& recent = of_[size_t(kind)];
    if (recent.samples < kSamples || now - recent.last > kFresh) return 0;
    return recent.samples == kSamples ? recent.best : std::min(recent.best, recent.before);
  }
  /// True at most once per kJudgeGap: the weights of the rails may be derived again.
  [[nodiscard]] bool judge_due(Instant now) {
    if (now - judged_ < kJudgeGap) return false;
    judged_ = now;
    return true;
  }

 private:
  static constexpr uint32_t kSamples = 8;  ///< of `best`, and of `before`
  static constexpr Duration kFresh = 2s;   ///< after this time without a sample, the rail is tried again
  static constexpr Duration kJudgeGap = 1ms;
  struct Recent {
    float best = 0;    // since the number of samples was a multiple of kSamples
    float before = 0;  // of the kSamples samples before
    uint32_t samples = 0;
    Instant last = kNever;
  };
  std::array<Recent, kPaceKinds> of_;
  Instant judged_ = kNever;
};

inline constexpr uint8_t kWeightMax = 64;
/// Rails whose latencies differ by less are equal: a busy machine adds as much. Nanoseconds.
inline constexpr float kLatencyGap = 200'000;
/// The weight of a rail whose pace is `value`, if the best rail has `best` and the weight was `before`. 1: as good as
/// the best. A rail is slow from three times the best pace on, until it is below twice. 0 stands for "not known".
[[nodiscard]] constexpr uint8_t weight_of(PaceKind kind, float value, float best, uint8_t before) {
  if (value <= 0 || best <= 0) return 1;
  if (kind == PaceKind::kSmall && value - best < kLatencyGap) return 1;
  const float ratio = value / best;
  if (ratio < (before > 1 ? 2.0f : 3.0f)) return 1;
  return uint8_t(std::min(ratio + 0.5f, float(kWeightMax)));
}

}  // namespace ulnet
