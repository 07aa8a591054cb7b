// Coarse timer wheel: LNet deadlines are seconds and many. One per owner, no clock of its own. A deadline fires at the
// first advance() at or after it, never before; the tick only bounds how often slots are looked at.
#pragma once
#include <algorithm>
#include <array>
#include <bit>

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
    occupied_[timer.slot / 64] |= uint64_t{1} << (timer.slot % 64);
    ++armed_;
  }
  void disarm(T& item) {
    Timer& timer = item;
    if (!timer.armed()) return;
    ULNET_CHECK(armed_ > 0);
    slots_[timer.slot].remove(item);
    if (slots_[timer.slot].empty()) occupied_[timer.slot / 64] &= ~(uint64_t{1} << (timer.slot % 64));
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
  /// No deadline is earlier than this; kForever when nothing is armed. Exact when few timers lie before the next
  /// deadline's slot; else the time at which the next occupied slot has to be looked at. For going to sleep: looks at
  /// occupied slots only.
  [[nodiscard]] Instant next_deadline() {
    if (armed_ == 0) return kForever;
    Instant best = kForever;
    unsigned looks = 0;
    const unsigned first = unsigned(size_t(next_tick_) % kSlots);
    for (const bool wrapped : {false, true}) {
      const unsigned end = wrapped ? first : kSlots;
      for (unsigned i = occupied_from(wrapped ? 0 : first); i < end; i = occupied_from(i + 1)) {
        const int64_t tick = next_tick_ + int64_t((i + kSlots - first) % kSlots);
        if (!jumped_ && looks >= kLooksMax) return std::min(best, Instant{tick * kTick});
        for (T* timer = slots_[i].front(); timer != nullptr; timer = slots_[i].after(*timer), ++looks)
          best = std::min(best, deadline_of(*timer));
        if (!jumped_ && tick_of(best) <= tick) return best;
      }
    }
    return best;
  }
  [[nodiscard]] uint32_t armed() const { return armed_; }
  /// Calls `look(T&)` for each that is armed; it must not disarm any. Scans slots.
  template <class F>
  void for_each(F&& look) {
    if (armed_ == 0) return;
    for (unsigned i = occupied_from(0); i < kSlots; i = occupied_from(i + 1))
      for (T* timer = slots_[i].front(); timer != nullptr; timer = slots_[i].after(*timer)) look(*timer);
  }
  /// A place in the order of look_from(), which goes round.
  struct Place {
    unsigned slot = 0;
    uint32_t index = 0;  ///< in the slot
    [[nodiscard]] bool is_start() const { return slot == 0 && index == 0; }
  };
  /// Calls `look(T&)` for those that are armed, from `place` to the end of the order, until it returns false; it must
  /// not disarm any. Returns where it did so; the start if it did not. Timers that are armed or disarmed between two
  /// calls move the places in their slot.
  template <class F>
  [[nodiscard]] Place look_from(Place place, F&& look) {
    for (unsigned i = occupied_from(place.slot); i < kSlots; i = occupied_from(i + 1)) {
      uint32_t index = 0;
      for (T* timer = slots_[i].front(); timer != nullptr; timer = slots_[i].after(*timer), ++index)
        if ((i > place.slot || index >= place.index) && !look(*timer)) return {i, index};
    }
    return {};
  }

 private:
  static Instant deadline_of(const Timer& timer) { return timer.deadline; }
  static int64_t tick_of(Instant t) { return t.time_since_epoch() / kTick; }
  /// The first occupied slot from this one on; kSlots when there is none.
  [[nodiscard]] unsigned occupied_from(unsigned slot) const {
    for (unsigned word = slot / 64; word < kWords; ++word) {
      const uint64_t from = word == slot / 64 ? ~uint64_t{0} << (slot % 64) : ~uint64_t{0};
      if (const uint64_t bits = occupied_[word] & from; bits != 0) return word * 64 + unsigned(std::countr_zero(bits));
    }
    return kSlots;
  }

  static constexpr unsigned kWords = (kSlots + 63) / 64;
  static constexpr unsigned kLooksMax = 64;  // timers of later turns that next_deadline() looks at before it gives in
  std::array<List<T, WheelTag>, kSlots> slots_;
  std::array<uint64_t, kWords> occupied_{};  // a bit for each slot that holds a timer
  int64_t next_tick_ = 0;                    // slots of earlier ticks hold nothing that is due
  bool jumped_ = false;  // advance() skipped ticks and ran out of budget: any slot may hold what is due
  uint32_t armed_ = 0;
};

}  // namespace ulnet
