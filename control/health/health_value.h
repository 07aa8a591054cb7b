// The health value of one local NI or peer NI: failures and messages in, the value and the next recovery ping out.
// Pure: time and settings are handed in. Source: docs/wire/lnet.md §9; docs/decisions.md #2, #3, #16, #88.
#pragma once
#include <algorithm>
#include <cstdint>

#include "dataplane/base/time.h"
#include "dataplane/state/view.h"

namespace ulnet {

/// Settings of the node that decide about health values.
struct HealthRules {
  int64_t sensitivity = 100;     ///< a failure takes so much, a success gives as much; 0: nothing changes
  Duration recovery_limit{};     ///< a peer NI is pinged for this time after its last message; 0: forever
  Duration interval_max = 900s;  ///< between two recovery pings
  bool fast = false;             ///< a rail that failed is pinged every kFastPing while others carry traffic
};

/// From a failure to the first recovery ping.
inline constexpr Duration kFirstPing = 1s;
/// Between two recovery pings of a rail that failed while others carry traffic.
inline constexpr Duration kFastPing = 1s;
/// Time in which the failure rate falls to 1/e.
inline constexpr Duration kFailureDecay = 60s;

class HealthValue {
 public:
  [[nodiscard]] uint16_t value() const { return value_; }
  [[nodiscard]] bool whole() const { return value_ == kHealthMax; }
  /// An operator has set it: failures and messages do not change it.
  [[nodiscard]] bool held() const { return held_; }
  /// fail_whole() has lowered it: only an answer restores it.
  [[nodiscard]] bool silent() const { return restores_whole_; }
  /// Recovery pings are to raise it.
  [[nodiscard]] bool recovers() const { return !whole() && !held_; }

  void fail(uint64_t times, const HealthRules& rules, Instant now);
  /// Does not answer at all: down to 0. The first success restores it whole.
  void fail_whole(const HealthRules& rules, Instant now);
  /// Messages got through.
  void succeed(uint64_t times, const HealthRules& rules);
  void restore();
  /// An operator sets it. kHealthMax: failures and messages change it again; all other values are held.
  void set_by_hand(uint16_t value);
  /// A value that is held changes again by failures and messages, from where it is.
  void release(Instant now);

  // --- recovery pings ---
  /// Pings since the last message that came.
  [[nodiscard]] unsigned pings() const { return pings_; }
  /// kForever: none.
  [[nodiscard]] Instant next_ping() const { return recovers() ? next_ping_ : kForever; }
  /// True if a ping is due. `often`: the wait is at most kFastPing.
  [[nodiscard]] bool ping_due(bool often, Instant now) const {
    return recovers() && (now >= next_ping_ || (often && now >= last_ping_ + kFastPing));
  }
  /// A ping is sent now.
  void pinged(const HealthRules& rules, Instant now);
  /// A message came: the wait between pings begins again.
  void heard() { pings_ = 0; }
  void probe_at_once(Instant now) { next_ping_ = now; }
  /// The same, but not twice within kFastPing.
  void probe_soon(Instant now) { next_ping_ = std::min(next_ping_, std::max(now, last_ping_ + kFastPing)); }

  /// Failures, each counted less the older it is (kFailureDecay).
  [[nodiscard]] double failure_rate(Instant now) const;

 private:
  void note_failures(uint64_t times, Instant now);
  void queue(Instant now, uint16_t before);

  uint16_t value_ = kHealthMax;
  bool held_ = false;
  bool restores_whole_ = false;  ///< after fail_whole()
  unsigned pings_ = 0;
  Instant next_ping_ = kForever;
  Instant last_ping_ = kNever;  // or the first failure, if that is later
  double failures_ = 0;
  Instant failures_at_ = kNever;
};

}  // namespace ulnet
