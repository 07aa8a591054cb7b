// GETs and PUTs of ping info to portal 0 (LNET_RESERVED_PORTAL) of other nodes; `lnetctl ping` and discovery both use
// them. Thread: control. PingOps does not read the bytes. Each PingOps has a bound of operations that are under way;
// the others wait in its queue. A waiting operation may take the place of the oldest one that has got no answer for a
// while. The evicted operation waits again, behind all that had less time, and gets more time. The hard parts: the
// memory of an operation stays until its MD is gone, even if nobody waits for the answer any more. And no peer gets
// less time in all than if it were the only one (PingOp::timeout). If an operation has got no answer for a while, other
// pairs of NIs that lead to its peer are tried, one after the other. The first answer counts: a ping may come twice
// without harm. Source: docs/wire/lnet.md §4.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "control/discovery/ping_op.h"
#include "control/timers.h"
#include "dataplane/state/self_submitter.h"

namespace ulnet {

/// Operations of one PingOps that are under way at once. Each takes a credit of an NI, so the sum of all PingOps of
/// discovery stays well below the credits of an NI (256).
inline constexpr size_t kPingOpsMax = 64;
/// How long an operation keeps its place at first, before a waiting one may take it. A live peer needs less, even if a
/// packet is lost while connecting.
inline constexpr Duration kPingSlice = 1s;
inline constexpr Duration kPingSliceMax = 64s;

/// The wait between two tries of an operation over different pairs of NIs doubles, from kPingTryMin on. The bounds are
/// a part of its timeout, and kPingTryMax.
inline constexpr int kPingTryParts = 5;
inline constexpr Duration kPingTryMin = 100ms;
inline constexpr Duration kPingTryMax = 1s;
inline constexpr unsigned kPingTriesMax = 8;
/// Places that only further tries take.
inline constexpr size_t kPingTriesPlaces = 64;

class PingOps {
 public:
  using Done = std::function<void(const PingEnd&)>;
  /// Sets source and target of the operation to another pair of NIs that leads to the peer of `op`; `number` counts the
  /// pairs from 0. False: no pair has that number.
  using OtherPair = std::function<bool(PingOp& op, unsigned number)>;
  /// `late`: the error of an operation that has no answer in time. `evicted`: where evicted operations wait, in this
  /// PingOps or another; null: none is evicted.
  PingOps(SelfSubmitter& self, Timers& timers, TimerName row, int32_t late, PingOps* evicted = nullptr)
      : self_(self), late_(late), evicted_(evicted), next_(timers, row) {}

  /// `done` comes once, from within turn(), SelfSubmitter::poll() or abort(); `done` may start other operations.
  void start(PingOp op, Done done);
  /// From now on, operations are tried over other pairs, too.
  void set_other_pair(OtherPair other) { other_pair_ = std::move(other); }
  /// Lets the operation with this number wait in `to`. No effect if the operation has begun, or has ended.
  void pass_on(uint64_t number, PingOps& to);
  /// Starts operations, evicts some for waiting ones, times out, tidies up; returns work done.
  unsigned turn(Instant now);
  /// Ends all operations with ESHUTDOWN; at_rest() is true once their memory is back.
  void abort();
  [[nodiscard]] bool at_rest() const { return ops_.empty() && queue_.empty(); }

 private:
  /// The tries of one operation.
  struct Tries {
    Done done;
    unsigned open = 0;    // tries that have not ended
    unsigned others = 0;  // pairs that were tried besides the first
    bool more = false;    // there may be other pairs
    bool over = false;
    void end(const PingEnd& how);
  };
  struct Op final : SelfSubmitterUser {
    PingOp spec;
    std::shared_ptr<Tries> tries;
    Instant next_try = kForever;
    Duration slice = kPingSlice;
    Instant begun = kNever;
    Instant until = kForever;  // kForever: it has never begun
    MdHandle md;
    bool bound = false, sent = false, ended = false, unlinking = false, gone = false;
    int32_t failed_with = 0;
    Segment segment;
    std::vector<std::byte> sink;
    void on_event(const Event& event, Instant now) override;
    void end(const PingEnd& how);
    void fail(int32_t error) { end({error, {}, {}, {}}); }
    [[nodiscard]] bool needless() const { return !ended && tries->over; }
  };
  /// By slice, which is the order of starting: an operation that had less time comes first.
  using Queue = std::multimap<Duration, std::unique_ptr<Op>>;
  void wait(std::unique_ptr<Op> op);
  unsigned fill_places(Instant now);
  bool send(Op& op);
  /// The wait before the next try; `tries`: the number of tries before it.
  [[nodiscard]] static Duration try_wait(const PingOp& op, unsigned tries);
  bool try_other_pair(Op& op, Instant now);
  void failed(Op& op, Instant now);
  bool bind(Op& op);
  void unlink(Op& op);
  unsigned evict(Instant now);
  [[nodiscard]] size_t evictions() const;
  void set_timer();

  SelfSubmitter& self_;
  const int32_t late_;
  PingOps* const evicted_;
  OtherPair other_pair_;
  Queue queue_;
  std::unordered_map<uint64_t, Queue::iterator> unsent_;  // operations in queue_ that have never begun, by number
  std::list<std::unique_ptr<Op>> ops_;                    // in the order in which they began
  SlowTimer next_;
};

}  // namespace ulnet
