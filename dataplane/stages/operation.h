// Calls of the applications of this node: puts, gets, MDs and event queues. Thread: the worker that is home of them.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Runs one call of an application. Requires a free operation for kPut and kGet.
void run_op(Worker& w, Submitter& submitter, const Op& op);
/// An operation's deadline has passed.
void operation_expired(Worker& w, Message& m);

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
