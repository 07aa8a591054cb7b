#include "control/health/health_value.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ulnet {

void HealthValue::note_failures(uint64_t times, Instant now) {
  failures_ = failure_rate(now) + double(times);
  failures_at_ = now;
}

double HealthValue::failure_rate(Instant now) const {
  if (failures_ == 0) return 0;
  const double age = std::chrono::duration<double>(now - failures_at_) / std::chrono::duration<double>(kFailureDecay);
  return failures_ * std::exp(-std::max(age, 0.0));
}

void HealthValue::queue(Instant now, uint16_t before) {
  if (before != kHealthMax || whole()) return;
  pings_ = 0;
  last_ping_ = now;
  next_ping_ = now + kFirstPing;
}

void HealthValue::fail(uint64_t times, const HealthRules& rules, Instant now) {
  if (times == 0) return;
  note_failures(times, now);
  if (held_ || rules.sensitivity == 0) return;
  const uint16_t before = value_;
  const auto steps = int64_t(std::min<uint64_t>(times, kHealthMax));
  value_ = uint16_t(std::max<int64_t>(value_ - steps * rules.sensitivity, 0));
  queue(now, before);
}

void HealthValue::fail_whole(const HealthRules& rules, Instant now) {
  note_failures(1, now);
  if (held_ || rules.sensitivity == 0) return;
  const uint16_t before = value_;
  value_ = 0;
  restores_whole_ = true;
  queue(now, before);
}

void HealthValue::succeed(uint64_t times, const HealthRules& rules) {
  if (times == 0 || !recovers()) return;
  if (restores_whole_ || rules.sensitivity == 0) return restore();
  const auto steps = int64_t(std::min<uint64_t>(times, kHealthMax));
  value_ = uint16_t(std::min<int64_t>(value_ + steps * rules.sensitivity, kHealthMax));
}

void HealthValue::restore() {
  if (held_) return;
  value_ = kHealthMax;
  restores_whole_ = false;
}

void HealthValue::set_by_hand(uint16_t value) {
  value_ = value;
  held_ = value != kHealthMax;
  restores_whole_ = false;
}

void HealthValue::release(Instant now) {
  if (!held_) return;
  held_ = false;
  queue(now, kHealthMax);
}

// The wait after the n-th ping is 2^n s. From the first power beyond the longest wait on, it is the longest wait.
void HealthValue::pinged(const HealthRules& rules, Instant now) {
  const auto longest = uint64_t(std::max<int64_t>(rules.interval_max / 1s, 1));
  const auto doublings = unsigned(std::bit_width(longest) - 1);
  pings_ = std::min(pings_ + 1, doublings + 1);
  last_ping_ = now;
  next_ping_ = now + (pings_ > doublings ? rules.interval_max : Duration(1s) * (int64_t{1} << pings_));
}

}  // namespace ulnet
