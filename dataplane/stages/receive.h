// Headers and payloads that come in. Thread: the worker of the connection; "at home": the worker that is home of the
// portal or of the operation.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

RxVerdict receive_header(Worker& w, RxSlot& slot);
/// The slot no longer counts for its NI and its peer NI. An NI that closes may be drained by that.
void rx_count_remove(Worker& w, RxSlot& slot);
/// A delay rule has held the slot, and its time is over: decides about it.
void receive_delayed(Worker& w, RxSlot& slot);
/// Its payload is on its way into an MD, or into a router buffer.
void payload_begins(Worker& w, RxSlot& slot);
void receive_done(Worker& w, RxSlot& slot, Completion how);
/// At home: decides about a header that came in on any worker.
RxVerdict home_decide(Worker& w, RxSlot& slot);
/// At home: goes on with one receive that waited for a message and may have one now; false when there is none.
bool retry_waiting(Worker& w);
/// At home: a slot that was held or taken has its verdict; it goes back to its connection's worker.
void slot_answer(Worker& w, RxSlot& slot, RxVerdict verdict);
/// At home: the lease of a GET is back, and the answer in its sink counts (tx.answer). Counts it as a REPLY.
[[nodiscard]] Response sink_answer(Worker& w, const Operation& op);
/// At home: the answer of the operation is complete: counts how long it took, for `net show` and `peer show`.
void sample_response(Worker& w, const Operation& op);
/// Counts a drop and lets the payload be discarded, or a request with a token be refused.
RxVerdict drop_receive(Worker& w, RxSlot& slot, Drop reason);
/// At home: the payload of `m` is in place or lost (m.rx_result).
void received(Worker& w, Receiving& m);
/// All who wait on the lazy portal are tried again.
void retry_lazy(Worker& w, uint32_t portal);
/// `md` has become a match entry: those who wait for it on its lazy portal, and no more than it takes, are tried again.
void lazy_attached(Worker& w, Md& md);
/// May another receive, whose event goes to this queue, begin? Not when the submitter owes as many events as messages
/// are left for others, and more than the queue has room for.
[[nodiscard]] bool queue_takes(const Worker& w, const Submitter& submitter, const EventQueue& eq);
/// Events have waited for kEqStuckMax and none has found room.
[[nodiscard]] bool queue_stuck(const Worker& w, const EventQueue& eq);
/// All receives that wait for room in the event queue are tried again.
void retry_held(Worker& w, EventQueue& eq);
/// Wants the MD memory of a receive under way back.
void divert_receive(Worker& w, Receiving& m);
/// Runs diverts that homes asked for.
void run_diverts(Worker& w);

}  // namespace ulnet
