// Shares of a worker's `incoming` messages. Thread: the worker that is home of the portal.
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
[[nodiscard]] Message& incoming_take(Worker& w, const RxSlot& slot);
void incoming_give(Worker& w, Message& m);
/// The message no longer depends on its peer NI and no longer counts there. No effect if the message did not count.
void incoming_leave_share(Worker& w, Message& m);
/// Drops the receives of peer NIs that have not moved for kIncomingHoldMax; returns how many.
unsigned incoming_expire(Worker& w);

}  // namespace ulnet
