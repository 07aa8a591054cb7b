// GETs and PUTs of ping info to portal 0 (LNET_RESERVED_PORTAL) of other nodes; `lnetctl ping` and discovery both use
// them. Thread: control. PingOps does not read the bytes. The hard part: the memory of an operation stays until its MD
// is gone, even if nobody waits for the answer any more. Source: docs/wire/lnet.md §4.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "control/discovery/ping_op.h"
#include "control/timers.h"
#include "dataplane/state/self_submitter.h"

namespace ulnet {

/// Operations of one PingOps that are under way at once, unless its constructor gets another number. Others wait.
inline constexpr size_t kPingOpsMax = 64;

class PingOps {
 public:
  using Done = std::function<void(const PingEnd&)>;
  PingOps(SelfSubmitter& self, Timers& timers, TimerName row, size_t most = kPingOpsMax)
      : self_(self), most_(most), next_(timers, row) {}

  /// `done` comes once, from within turn(), SelfSubmitter::poll(), give_up() or abort(); `done` may start other
  /// operations. Returns the number of this operation, never 0.
  uint64_t start(PingOp op, Done done);
  /// Ends the operation with `error`, even if turn() has not sent it yet. No effect if it has ended.
  void give_up(uint64_t number, int32_t error);
  /// How many more operations can start without waiting. An ended operation takes room until its memory is back.
  [[nodiscard]] size_t room() const { return most_ - std::min(most_, ops_.size() + queue_.size()); }
  /// Starts, times out, tidies up; returns work done.
  unsigned turn(Instant now);
  /// Ends all operations with ESHUTDOWN; at_rest() is true once their memory is back.
  void abort();
  [[nodiscard]] bool at_rest() const { return ops_.empty() && queue_.empty(); }

 private:
  struct Op final : SelfSubmitterUser {
    uint64_t number = 0;
    PingOp spec;
    Done done;
    Instant deadline = kForever;
    MdHandle md;
    bool bound = false, sent = false, ended = false, unlinking = false, gone = false;
    Segment segment;
    std::vector<std::byte> sink;
    void on_event(const Event& event, Instant now) override;
    void end(const PingEnd& how);
    void fail(int32_t error) { end({error, {}, {}, {}}); }
  };
  bool begin(Op& op, Instant now);
  bool bind(Op& op);
  void unlink(Op& op);
  void set_timer();

  SelfSubmitter& self_;
  const size_t most_;
  uint64_t next_number_ = 1;
  SlowTimer next_;
  std::deque<std::unique_ptr<Op>> queue_;
  std::list<std::unique_ptr<Op>> ops_;
};

}  // namespace ulnet
