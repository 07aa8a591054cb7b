// The life of a message, as calls between its stages. Who has no Worker& cannot make them. Files: originate.cc (put,
// get, paths, resends), egress.cc (credits, LND), receive.cc (headers, payload), finish.cc (events, the end).
//
//   originate ─ select ─ lease ─▶ egress ─▶ LND        LND ─▶ receive ─ match ─ receive into MD
//       ▲                           │                              │
//       └──── resend ◀── lease returned ─▶ finish ◀────────────────┘
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

// --- originate.cc ---
/// Runs one call of an application. Requires a free operation for kPut and kGet.
void run_op(Worker& w, Submitter& submitter, const Op& op);
/// Chooses a path for the message and leases its Tx to the worker that serves the next hop; or parks it, or fails it.
/// `as_given`: to the NID that it names, though discovery of its peer has failed.
void send_message(Worker& w, Message& m, bool as_given = false);
/// The lease is back (tx.result).
void lease_returned(Worker& w, Message& m);
/// Control has looked `nid` up: those parked for it go on (`as_given`: undiscovered), or fail with `error`.
void peer_resolved(Worker& w, const Nid& nid, int32_t error, bool as_given);
/// An operation's deadline has passed.
void operation_expired(Worker& w, Message& m);

// --- egress.cc ---
/// Takes a lease, or goes on with one that was handed a credit.
void egress_continue(Worker& w, Tx& tx);
/// A lease's deadline has passed on the serving worker.
void egress_expired(Worker& w, Tx& tx);
/// At home: wants the lease of `m` back; it comes back with ECANCELED, unless something of it has been sent.
void recall_lease(Worker& w, Message& m);
/// Gives leases back that homes want back.
void run_recalls(Worker& w);
/// The LND has let go of it.
void egress_done(Worker& w, Tx& tx, Completion how);
/// The LND waits for a connection to send it over.
void egress_waits(Worker& w, Tx& tx);
/// The LND has a connection for a Tx that waited.
void egress_connected(Worker& w, Tx& tx);
/// Hands NI credits on that messages have held for kNiCreditHeldMax, where others wait for them.
void ni_credits_reclaim(Worker& w);
[[nodiscard]] Instant ni_credits_due(Worker& w);
/// A peer NI served here has so many credits from now on: those who wait for one may get it.
void peer_set_tx_credits(Worker& w, PeerSlice& slice, int32_t total);
/// Nothing more over this NI; tells control when the last message is gone.
void ni_close(Worker& w, NiSlice& slice);
void ni_check_drained(Worker& w, NiSlice& slice);

// --- receive.cc ---
/// RxSlot::core_state of a receive whose payload is discarded and counted as dropped.
inline constexpr uint8_t kSlotDropped = 0xFF;
RxVerdict receive_header(Worker& w, RxSlot& slot);
/// Its payload is on its way into an MD, or into a router buffer.
void payload_begins(Worker& w, RxSlot& slot);
void receive_done(Worker& w, RxSlot& slot, Completion how);
/// At home: decides about a header that came in on any worker.
RxVerdict home_decide(Worker& w, RxSlot& slot);
/// At home: goes on with one receive that waited for a message and may have one now; false when there is none.
bool retry_waiting(Worker& w);
/// At home: a slot that was held or taken has its verdict; it goes back to its connection's worker.
void slot_answer(Worker& w, RxSlot& slot, RxVerdict verdict);
/// Counts a drop and lets the payload be discarded.
RxVerdict drop_receive(Worker& w, RxSlot& slot, Drop reason);
/// At home: the payload of `m` is in place or lost (m.rx_result).
void received(Worker& w, Message& m);
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
void divert_receive(Worker& w, Message& m);
/// Runs diverts that homes asked for.
void run_diverts(Worker& w);

// --- incoming.cc ---
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
/// The message depends on its peer NI no more: it counts there no more. No effect for one that did not count.
void incoming_leave_share(Worker& w, Message& m);
/// Drops the receives of peer NIs that have not moved for kIncomingHoldMax; returns how many.
unsigned incoming_expire(Worker& w);

// --- finish.cc ---
/// Begins the life of `m` on its home worker: as if nothing had happened to it yet. `tx` and the window in the MD are
/// the caller's to fill.
void message_reset(Worker& w, Message& m, MsgKind kind);
/// Looks whether an operation of this node is over, and ends it.
void settle(Worker& w, Message& m);
/// Fails a message before or instead of its lease.
void fail_message(Worker& w, Message& m, int32_t error, LndStatus health);
/// Posts the message's event now or when there is room; an ACK leaves in any case. Releases it when both are over.
void finish_message(Worker& w, Message& m);
/// Retries events that found their queue full; returns how many went.
unsigned flush_events(Worker& w);
/// The ACK of a kInPut has left, or cannot leave.
void ack_ended(Worker& w, Message& m);
void release_message(Worker& w, Message& m);

// --- md_end.cc ---
/// Nothing new may use the MD; it retires when its last message is gone.
void md_close_gate(Worker& w, Md& md);
/// Ends the MD and what of its operations has not begun.
void md_unlink(Worker& w, Md& md, int32_t status);
void md_retire_if_done(Worker& w, Md& md);
/// The kUnlink event has been posted: the slot goes back to the application.
void md_event_posted(Worker& w, Md& md);
/// Closes a queue that is to be closed and whose last user is gone.
void eq_close_if_done(Worker& w, Submitter& submitter, uint32_t index);
void submitter_close(Worker& w, Submitter& submitter);
/// Reports to control each submitter that is closing and that nothing uses any more; returns how many. Control frees a
/// submitter when it reads the report, even in the same moment: call this as the last thing in a turn, from nowhere
/// else. What finds the ring full is reported in a later turn.
unsigned submitters_report(Worker& w);

/// The object cookie by which an ACK or REPLY finds its operation: kind, worker, slot, generation (docs/wire/lnet.md
/// §2.2).
inline constexpr unsigned kCookieKindBits = 2, kCookieWorkerBits = 8, kCookieIndexBits = 22;
static_assert(kCookieKindBits + kCookieWorkerBits + kCookieIndexBits == 32, "the generation has the upper half");
static_assert(kWorkersMax <= 1u << kCookieWorkerBits);
static_assert(kMessagesPerWorkerMax <= 1u << kCookieIndexBits, "an operation is one of them");
[[nodiscard]] constexpr uint64_t object_cookie(WorkerId worker, Handle handle) {
  return 1u | (uint64_t{worker.value} << kCookieKindBits) |
         (uint64_t{handle.index} << (kCookieKindBits + kCookieWorkerBits)) | (uint64_t{handle.generation} << 32);
}
[[nodiscard]] constexpr WorkerId cookie_worker(uint64_t cookie) {
  return WorkerId{uint16_t((cookie >> kCookieKindBits) & ((1u << kCookieWorkerBits) - 1))};
}
[[nodiscard]] constexpr Handle cookie_handle(uint64_t cookie) {
  const uint32_t low = uint32_t(cookie);
  return {low >> (kCookieKindBits + kCookieWorkerBits), uint32_t(cookie >> 32)};
}
static_assert(cookie_worker(object_cookie(WorkerId{kWorkersMax - 1}, {0, 0})) == WorkerId{kWorkersMax - 1});
static_assert(cookie_handle(object_cookie(WorkerId{kWorkersMax - 1}, {kMessagesPerWorkerMax - 1, UINT32_MAX})) ==
              Handle{kMessagesPerWorkerMax - 1, UINT32_MAX});

}  // namespace ulnet
