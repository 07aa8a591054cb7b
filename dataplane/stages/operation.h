// Calls of the applications of this node: puts, gets, MDs and event queues, and the steps of their Operations. Thread:
// the worker that is home of them. The states of an Operation, with the events that lead from one to the next:
//
//   kReady ─ path ─▶ kSending ─ lease back ─▶ kAwaiting ─ REPLY begins ─▶ kReceiving ─ received ─▶ kFinishing ─▶ kFree
//      │  └─ no path yet ─▶ kParked ─ resolved ─▶ kReady
//      └─ failed ─▶ kFinishing
//
// ACK and REPLY may come before the lease is back: kSending ─▶ kSendingAnswered, kSendingReceiving. A failed lease that
// is worth another attempt leads from kSending to kReady. So does a copy of the request (stages/copies.h) from
// kAwaiting, and from kReceiving if the payload of the REPLY was lost. Without such a copy, the REPLY of another
// request may still come: kReceiving ─▶ kAwaiting, kSendingReceiving ─▶ kSending. A copy that fails leads from kReady
// or kSending to kAwaiting. In states whose names begin with kSending, the end waits for the lease, because the LND
// holds memory of the MD.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Runs one call of an application. Requires a free operation if the call starts one.
void run_call(Worker& w, Submitter& submitter, const CallMsg& msg);

// --- steps of an Operation ---
/// The lease of `op` is back (tx.result), and no other attempt follows.
void operation_lease_back(Worker& w, Operation& op);
/// Ends an Operation that cannot be sent. Requires kReady.
void operation_failed(Worker& w, Operation& op, int32_t error);
/// Its ACK is here. Requires kSending or kAwaiting.
void operation_acked(Worker& w, Operation& op, const Response& answer);
/// Its REPLY has begun: sets the window of the slot. False: the REPLY is longer than the memory, and is not received.
/// Requires kSending or kAwaiting.
[[nodiscard]] bool operation_reply_begins(Worker& w, Operation& op, const Response& answer, RxSlot& slot);
/// The payload of its REPLY is in place or lost (rx_result).
void operation_received(Worker& w, Operation& op);
/// Its deadline has passed.
void operation_expired(Worker& w, Operation& op);
/// Its MD was unlinked.
void operation_unlinked(Worker& w, Operation& op);
/// Its event, while it waits for room in the queue.
[[nodiscard]] Event operation_event(const Operation& op);
/// Its event has been posted.
void operation_release(Worker& w, Operation& op);

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
