// Everything that leaves: the path, the lease to the worker that serves the next hop, and sending again. Thread: the
// worker that is home of the message. The life of a message, as calls between the stages:
//
//   operation ─ send ─ select ─ lease ─▶ egress ─▶ LND        LND ─▶ receive ─ match ─ receive into MD
//                 ▲                        │                            │
//                 └── resend ◀─ lease_returned ─▶ finish ◀──────────────┘
//
// A forwarded message comes from receive by way of forward. Each function takes the Worker that it runs on.
#pragma once
#include "dataplane/select/path.h"
#include "dataplane/stages/worker.h"

namespace ulnet {

/// This worker's part in choosing a path.
[[nodiscard]] inline PathContext path_context(const Worker& w) {
  return {w.id, w.tallies};
}

/// Chooses a path for the message and leases its Tx to the worker that serves the next hop; or parks it, or fails it.
/// Requires: the message is ready (the kReady of its kind).
/// `as_given`: to the NID that it names, though discovery of its peer has failed.
void send_message(Worker& w, Sending& m, bool as_given = false);
/// Sends a copy of `op` over another pair of NIs. `only_better`: over a pair with fewer faults, or none, and the
/// requests before may still be answered. False: there is no such pair, and nothing has changed. Requires kAwaiting or
/// kReceiving, with no payload under way; may_copy() (stages/copies.h).
[[nodiscard]] bool send_copy(Worker& w, Operation& op, bool only_better);
/// Could a driver give `op` back, so that it takes another pair of NIs that is not down? Changes nothing.
[[nodiscard]] bool has_way_out(Worker& w, Operation& op);
/// The lease is back (tx.result).
void lease_returned(Worker& w, Sending& m);
/// Control has looked `nid` up: those parked for it go on (`as_given`: undiscovered), or fail with `error`.
void peer_resolved(Worker& w, const Nid& nid, int32_t error, bool as_given);

}  // namespace ulnet
