// Coarse timer wheel: LNet deadlines are seconds and many. One per owner, no clock of its own. A deadline fires at the
// first advance() at or after it, never before; the tick only bounds how often slots are looked at.
#pragma once
#include <algorithm>
#include <array>

#include "dataplane/base/list.h"
#include "dataplane/base/time.h"

namespace ulnet {

struct WheelTag {};

/// What a wheel holds: derive from it. `deadline` belongs to the wheel while armed().
struct Timer : Linked<WheelTag> {
  Instant deadline = kNever;
  uint32_t slot = 0;  ///< the wheel's own: where it lies
  [[nodiscard]] bool armed() const { return linked(); }
};

template <class T, unsigned kSlots = 1024>
class Wheel {
 public:
  static constexpr Duration kTick = 16ms;

  /// Arms or re-arms. kForever disarms. Cost O(1).
  void arm(T& item, Instant deadline) {
    disarm(item);
    if (deadline == kForever) return;
    Timer& timer = item;  // T may have a deadline of its own, which is none of the wheel's business
    timer.deadline = deadline;
    const int64_t tick = std::max(tick_of(deadline), next_tick_);
    timer.slot = uint32_t(size_t(tick) % kSlots);
    slots_[timer.slot].push_back(item);
    ++armed_;
  }
  void disarm(T& item) {
    Timer& timer = item;
    if (!timer.armed()) return;
    slots_[timer.slot].remove(item);
    --armed_;
  }
  /// Calls `fire(T&)` for each timer whose deadline has passed (disarmed before the call, may be re-armed in it), at
  /// most `budget`; returns how many fired.
  template <class F>
  unsigned advance(Instant now, unsigned budget, F&& fire) {
    const int64_t now_tick = tick_of(now);
    unsigned fired = 0;
    if (armed_ == 0) {
      next_tick_ = now_tick;
      return 0;
    }
    if (now_tick - next_tick_ >= int64_t(kSlots)) {  // one look at each slot finds everything
      next_tick_ = now_tick - int64_t(kSlots) + 1;
      jumped_ = true;
    }
    for (;;) {
      auto& slot = slots_[size_t(next_tick_) % kSlots];
      for (T* timer = slot.front(); timer != nullptr;) {
        T* after = slot.after(*timer);
        if (deadline_of(*timer) <= now) {
          if (fired == budget) return fired;
          disarm(*timer);
          ++fired;
          fire(*timer);
          after = slot.front();  // fire() may have disarmed others
        }
        timer = after;
      }
      if (next_tick_ >= now_tick) {
        jumped_ = false;
        return fired;
      }
      ++next_tick_;
    }
  }
  /// No deadline is earlier than this; kForever when nothing is armed. Scans slots: for going to sleep.
  [[nodiscard]] Instant next_deadline() {
    if (armed_ == 0) return kForever;
    Instant best = kForever;
    for (unsigned i = 0; i < kSlots; ++i) {
      auto& slot = slots_[size_t(next_tick_ + i) % kSlots];
      for (T* timer = slot.front(); timer != nullptr; timer = slot.after(*timer)) {
        best = std::min(best, deadline_of(*timer));
      }
      if (!jumped_ && best != kForever && tick_of(best) <= next_tick_ + int64_t(i)) break;
    }
    return best;
  }
  [[nodiscard]] uint32_t armed() const { return armed_; }
  /// Calls `look(T&)` for each that is armed; it must not disarm any. Scans slots.
  template <class F>
  void for_each(F&& look) {
    if (armed_ == 0) return;
    for (auto& slot : slots_)
      for (T* timer = slot.front(); timer != nullptr; timer = slot.after(*timer)) look(*timer);
  }

 private:
  static Instant deadline_of(const Timer& timer) { return timer.deadline; }
  static int64_t tick_of(Instant t) { return t.time_since_epoch() / kTick; }
  std::array<List<T, WheelTag>, kSlots> slots_;
  int64_t next_tick_ = 0;  // slots of earlier ticks hold nothing that is due
  bool jumped_ = false;    // advance() skipped ticks and ran out of budget: any slot may hold what is due
  uint32_t armed_ = 0;
};

}  // namespace ulnet
