// Transmit credits: how many messages may be under way at once over one NI or to one peer NI. Local to the sender, so
// slicing them over workers changes nothing on the wire. Source: docs/wire/lnet.md §7.
#pragma once
#include <algorithm>
#include <cstdint>

#include "dataplane/base/gauge.h"
#include "dataplane/base/list.h"

namespace ulnet {

/// How many credits an item may take that are not there: none.
struct NoOverdraft {
  template <class T>
  [[nodiscard]] static int32_t of(const T&) {
    return 0;
  }
};

/// Credits with a FIFO of those who wait for one. T is linked by Tag. Thread: one owner.
/// Invariant: free + held == total; nobody waits while a credit is free. `free` is negative only by an overdraft, and
/// after set_total() has taken away what was held. After give_back() or leave(), the first that waits may have an
/// overdraft left: hand_on() gives it.
template <class T, class Tag, class Overdraft = NoOverdraft>
class Credits {
 public:
  explicit Credits(int32_t total) : total_(total), free_(total) {
    ULNET_CHECK(total >= 0);
    gauge_.set(total);
    free_min_.set(total);
  }

  /// Takes a credit for `item` (true), or queues it FIFO (false): it stays linked here until give_back() hands it over
  /// or leave() takes it out.
  [[nodiscard]] bool take(T& item) {
    if (free_ <= -Overdraft::of(item) || !waiting_.empty()) {
      waiting_.push_back(item);
      note_min(free_ - int32_t(waiting_.size()));
      gauge_.set(free_ - int32_t(waiting_.size()));
      return false;
    }
    --free_;
    note_min(free_);
    gauge_.set(free_);
    return true;
  }
  /// Returns a credit. If somebody waits, the credit is theirs now, and they are returned (unlinked); else null.
  [[nodiscard]] T* give_back() {
    ULNET_CHECK(free_ < total_);
    ++free_;
    T* next = hand_on();
    gauge_.set(free_ - int32_t(waiting_.size()));
    return next;
  }
  /// From now on there are so many. The least ever free moves with it. Whoever waits may be helped by that: call
  /// hand_on() until it returns null.
  void set_total(int32_t total) {
    ULNET_CHECK(total >= 0);
    free_ += total - total_;
    free_min_.add(total - total_);
    total_ = total;
    gauge_.set(free_ - int32_t(waiting_.size()));
  }
  /// Gives a free credit to who waits longest, and returns them (unlinked); null when none is free or nobody waits.
  [[nodiscard]] T* hand_on() {
    T* next = waiting_.front();
    if (next == nullptr || free_ <= -Overdraft::of(*next)) return nullptr;
    waiting_.remove(*next);
    --free_;
    return next;
  }
  /// Takes a waiting item out of the queue; it holds no credit.
  void leave(T& item) {
    waiting_.remove(item);
    gauge_.set(free_ - int32_t(waiting_.size()));
  }
  [[nodiscard]] int32_t total() const { return total_; }
  [[nodiscard]] int32_t free() const { return free_; }
  [[nodiscard]] int32_t held() const { return total_ - free_; }
  /// Least of free, less those who waited, since the last reset (as LNet shows it: negative when messages queued).
  [[nodiscard]] int32_t free_min() const { return int32_t(free_min_.get()); }
  void reset_min() { free_min_.set(free_ - int32_t(waiting_.size())); }
  [[nodiscard]] uint32_t waiting() const { return waiting_.size(); }
  [[nodiscard]] T* first_waiting() { return waiting_.front(); }
  /// free less waiting, readable by control (stale).
  [[nodiscard]] const Gauge& gauge() const { return gauge_; }
  /// All credits back and nobody waits.
  [[nodiscard]] bool at_rest() const { return free_ == total_ && waiting_.empty(); }

 private:
  void note_min(int32_t free) {
    if (free < free_min_.get()) free_min_.set(free);
  }
  int32_t total_;
  int32_t free_;
  Gauge gauge_;     // owner: w, control: r
  Gauge free_min_;  // owner: w, control: r
  List<T, Tag> waiting_;
};

}  // namespace ulnet
