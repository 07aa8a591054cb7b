// Which of discovery's pings and pushes are under way, and which wait; PingOps carries them out. What somebody
// waits for has places of its own, so that neither pushes to thousands of peers nor peers that failed before hold it
// up. Who waits for a place gets that of one who has not answered for a while; that one comes again behind the others,
// with more time. Thread: control. The hard part: no peer is given less time in all than when it alone is asked
// (PingOp::timeout).
#pragma once
#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>

#include "control/discovery/ping_ops.h"

namespace ulnet {

/// Places for what somebody waits for, of peers that have not failed; and for all else. Together they stay well below
/// the credits of an NI (256), of which each takes one.
inline constexpr size_t kPingsWaitedMax = 64;
inline constexpr size_t kPingsOtherMax = 64;
/// How long a place is kept from others at first. More than a live peer needs, a lost packet at connecting included.
inline constexpr Duration kPingSlice = 1s;
inline constexpr Duration kPingSliceMax = 64s;

class PingQueue {
 public:
  explicit PingQueue(SelfSubmitter& self) : waited_(self, kPingsWaitedMax), others_(self, kPingsOtherMax) {}

  /// `done` comes once, as PingOps::start() has it; with ETIMEDOUT when the operation has not ended in time.
  void start(PingOp op, PingOps::Done done);
  /// Somebody waits for this one now. No effect when it was sent already, or has ended.
  void hurry(uint64_t number);
  /// Starts, lets others have their turn, times out, tidies up; returns work done.
  unsigned turn(Instant now);
  [[nodiscard]] Instant next_deadline() const;
  /// Gives up everything with ESHUTDOWN; at_rest() tells when the memory is back.
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
  /// In the order in which they go: who has had less time first.
  using Queue = std::multimap<Duration, std::unique_ptr<Entry>>;
  struct Lane {
    Lane(SelfSubmitter& self, size_t places) : most(places), ops(self, places) {}
    /// Places that are free, or will be without anybody's giving one up.
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
  [[nodiscard]] static Instant next_deadline(const Lane& lane);

  Lane waited_, others_;
  std::unordered_map<uint64_t, Queue::iterator> unsent_;  // of others_, those that were never sent; by number
  Instant now_ = kNever;
};

}  // namespace ulnet
