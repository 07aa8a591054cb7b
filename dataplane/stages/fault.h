// The effect of fault rules (dataplane/state/fault_rules.h) on messages of one worker. Call these functions only if the
// view has rules: without a rule, a message costs the look at one pointer. A message on loopback is not sent over an
// NI, so that it meets rules on receive only. Thread: the worker of the connection; of a Tx, the worker that serves it.
#pragma once
#include <optional>

#include "dataplane/stages/worker.h"

namespace ulnet {

/// A drop rule loses the receive. Counts for the rule.
[[nodiscard]] bool fault_drops(Worker& w, const RxSlot& slot);
/// A delay rule holds the receive: it is in Worker::delayed_receives until receive_delayed().
[[nodiscard]] bool fault_holds(Worker& w, RxSlot& slot);
/// A delay rule holds the Tx: it is in Worker::delayed_sends until egress_continue() or fault_leave(). At most once in
/// each lease.
[[nodiscard]] bool fault_holds(Worker& w, Tx& tx);
/// A drop rule lets the send fail, with this result.
[[nodiscard]] std::optional<Completion> fault_fails(Worker& w, const Tx& tx);
/// The result of a send that a rule lets fail with this status. Requires: not kOk.
[[nodiscard]] Completion fault_completion(LndStatus status);

/// Takes a Tx out of Worker::delayed_sends.
void fault_leave(Worker& w, Tx& tx);
/// Requires: delays_due has come. Lets delayed messages go on if their time is over, their rule is gone, or their NI
/// closes. Returns how many.
unsigned delays_run(Worker& w);
/// A rule is gone, or an NI closes: delays_run() looks at all delayed messages.
inline void delays_look(Worker& w) {
  w.delays_due = kNever;
}

}  // namespace ulnet
