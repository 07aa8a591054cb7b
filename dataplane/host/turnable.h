// The unit that Host threads drive: one Worker of one Node, or an item of an application beside it. This is the
// smallest interface that lets a thread turn it and sleep for it. The adapter from a Node to this lives with the code
// that wires Nodes to a Host.
#pragma once
#include <span>
#include <vector>

#include "dataplane/base/idle_gate.h"
#include "dataplane/base/time.h"

namespace ulnet {

/// A worker or item as its Host thread drives it. Thread: that Host thread, from the end of add() to the end of
/// remove().
class Turnable {
 public:
  virtual ~Turnable() = default;
  /// One bounded turn; returns work done.
  virtual unsigned turn(Instant now) = 0;
  /// Would a turn find something? Called between gate().arm() and the blocking wait, with seq_cst loads. Work that
  /// cannot wake a sleeping thread (no descriptor, no notify) must be reported here. If pending() is always true, the
  /// thread never sleeps. May not use a view.
  [[nodiscard]] virtual bool pending() = 0;
  /// Waits for something that no spin makes faster: the thread may sleep at once.
  [[nodiscard]] virtual bool patient() { return false; }
  /// Earliest moment at which a turn has something to do by itself; kForever if none.
  [[nodiscard]] virtual Instant next_deadline() = 0;
  /// Descriptors that become readable when a turn has work; returns how many.
  virtual unsigned wait_fds(std::span<int> out) = 0;
  /// Opened (has a descriptor). A producer notifies it after it has put something into this worker's rings.
  [[nodiscard]] virtual IdleGate& gate() = 0;
  /// Around a sleep: asleep before the last look at the inputs, awake before anything else. `slept`: how long the
  /// thread was blocked; zero if that look has found something.
  virtual void note_asleep() = 0;
  virtual void note_awake(Duration slept) = 0;
};

/// The control side as Host::run_control() drives it. Thread: the one that called run_control().
class ControlTurnable {
 public:
  virtual ~ControlTurnable() = default;
  virtual unsigned turn(Instant now) = 0;
  /// As Turnable::pending(), between arm() and the wait on Host::control_gate().
  [[nodiscard]] virtual bool pending() = 0;
  [[nodiscard]] virtual Instant next_deadline() = 0;
  /// Appends descriptors that become readable when a turn has work.
  virtual void wait_fds(std::vector<int>& out) = 0;
};

}  // namespace ulnet
