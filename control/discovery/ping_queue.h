// Decides which pings and pushes of discovery are under way and which wait; PingOps carries them out. Thread: control.
// An operation that a waiter needs has places of its own: neither pushes to thousands of peers nor peers that failed
// before delay it. A waiting operation takes the place of the oldest one that has got no answer for a while. The
// evicted operation waits again, behind all that had less time, and gets more time. The hard part: no peer gets less
// time in all than if it were the only one (PingOp::timeout).
#pragma once
#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>

#include "control/discovery/ping_ops.h"

namespace ulnet {

/// Places for operations that a waiter needs, of peers that have not failed; and places for all other operations. Each
/// place takes a credit of an NI, so the sum stays well below the credits of an NI (256).
inline constexpr size_t kPingsWaitedMax = 64;
inline constexpr size_t kPingsOtherMax = 64;
/// How long an operation keeps its place at first, before a waiting one may take it. A live peer needs less, even if a
/// packet is lost while connecting.
inline constexpr Duration kPingSlice = 1s;
inline constexpr Duration kPingSliceMax = 64s;

class PingQueue {
 public:
  PingQueue(SelfSubmitter& self, Timers& timers)
      : waited_(self, timers, TimerName::kPingsWaited, kPingsWaitedMax),
        others_(self, timers, TimerName::kPingsOther, kPingsOtherMax),
        next_(timers, TimerName::kPingQueue) {}

  /// `done` comes once, as with PingOps::start(); with ETIMEDOUT if the operation has not ended in time.
  void start(PingOp op, PingOps::Done done);
  /// From now on a waiter needs this operation. No effect if it was sent already, or has ended.
  void hurry(uint64_t number);
  /// Starts operations, evicts some for waiting ones, times out, tidies up; returns work done.
  unsigned turn(Instant now);
  /// Ends all operations with ESHUTDOWN; at_rest() is true once their memory is back.
  void abort();
  [[nodiscard]] bool at_rest() const;

 private:
  struct Entry {
    PingOp op;
    PingOps::Done done;
    Duration slice = kPingSlice;
    Instant begun = kNever;
    Instant until = kForever;
    uint64_t operation = 0;  // PingOps' number of it
  };
  /// By slice, which is the order of starting: an entry that had less time comes first.
  using Queue = std::multimap<Duration, std::unique_ptr<Entry>>;
  struct Lane {
    Lane(SelfSubmitter& self, Timers& timers, TimerName row, size_t places)
        : most(places), ops(self, timers, row, places) {}
    /// Places that are free, or become free without another eviction.
    [[nodiscard]] size_t coming() const { return most - under_way.size(); }
    [[nodiscard]] size_t wanted() const { return std::min(most, queue.size()); }
    const size_t most;
    PingOps ops;
    Queue queue;
    std::list<std::unique_ptr<Entry>> under_way;  // in the order in which they began
  };
  unsigned turn(Lane& lane, Instant now);
  void begin(Lane& lane, std::unique_ptr<Entry> entry);
  void ended(Lane& lane, std::list<std::unique_ptr<Entry>>::iterator at, const PingEnd& how);
  void wait_on(std::unique_ptr<Entry> entry);
  unsigned take_places(Lane& lane);
  void set_timer();

  Lane waited_, others_;
  std::unordered_map<uint64_t, Queue::iterator> unsent_;  // entries of others_ that were never sent, by number
  Instant now_ = kNever;
  SlowTimer next_;
};

}  // namespace ulnet
