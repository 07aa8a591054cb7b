// Messages for this node: shares of the worker's `incoming` messages, and the steps of each. Thread: the worker that is
// home of the portal. The states of an Incoming:
//
//   a PUT:  kReceiving ─ received ─▶ kReady ─ ACK ─▶ kSending ─ lease back ─▶ kFinishing ─▶ kFree
//   a GET:                           kReady ─ REPLY ─▶ kSending ─ lease back ─▶ kFinishing ─▶ kFree
//
// kReady leads to kParked and back while the path is not known, and to kFinishing if nothing is sent. A lease that has
// failed and is worth another attempt leads from kSending to kReady. The event of a PUT is posted when the payload is
// received, that of a GET when the lease of the REPLY is back.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// May a PUT or GET have a message of `incoming` now?
enum class IncomingGrant : uint8_t {
  kGo,    ///< the slot may take one with incoming_take()
  kWait,  ///< the slot is linked here until incoming_next() returns it, or until it is dropped
  kDrop   ///< its sender holds its share and has not moved for kIncomingHoldMax
};
[[nodiscard]] IncomingGrant incoming_admit(Worker& w, RxSlot& slot);
/// Puts a slot before all others of its peer NI that wait for a message.
void incoming_wait_first(Worker& w, RxSlot& slot);
/// A slot that waited and may have a message now, peer NIs in turn; null when there is none.
[[nodiscard]] RxSlot* incoming_next(Worker& w);
/// Requires: incoming_admit() or incoming_next() has just allowed it.
[[nodiscard]] Incoming& incoming_take(Worker& w, const RxSlot& slot);

// --- steps of an Incoming ---
/// Sends the ACK of a PUT, whose header `m` has. The payload is in its MD.
void send_ack(Worker& w, Incoming& m);
/// A PUT: its payload is in place or lost (rx_result).
void incoming_received(Worker& w, Incoming& m);
/// The lease of its ACK or REPLY is back (tx.result), and no other attempt follows.
void incoming_lease_back(Worker& w, Incoming& m);
/// The ACK or REPLY of `m` cannot be sent. Requires kReady.
void incoming_failed(Worker& w, Incoming& m, int32_t error);
/// Its MD was unlinked.
void incoming_unlinked(Worker& w, Incoming& m);
/// Its event, which found the queue full, has been posted.
void incoming_event_posted(Worker& w, Incoming& m);

/// Requires: shares_due has come. Drops the receives of peer NIs that have not moved for kIncomingHoldMax; returns how
/// many.
unsigned incoming_expire(Worker& w);

}  // namespace ulnet
