// Failed messages, charged to the interfaces at fault (state/charges.h). Thread: the worker that sees the failure. The
// classes of failures say who is at fault (state/failures.h); control decides about health. Source: docs/wire/lnet.md
// §9.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// A Tx that names interfaces has ended with an error. Nothing is charged if the Tx is late, or its NI is closing.
void charge_send(Worker& w, const Tx& tx, Completion how);
/// The payload of a message that was coming in is lost.
void charge_receive(Worker& w, const RxSlot& slot, Completion how);
/// No answer to a request came in time: its next hop is at fault. Requires: `hop` is in use by the request.
void charge_no_answer(Worker& w, const PeerSlice& hop);
/// Reports charges to control while its ring has room; returns the number of interfaces.
unsigned charges_report(Worker& w);

}  // namespace ulnet
