// The calls of an application, on their way from its Submitter to the home worker. Each kind is a struct of its own,
// copied into the ring. The worker visits the variant: a kind without a handler does not compile
// (dataplane/stages/operation.cc).
#pragma once
#include <cstdint>
#include <type_traits>
#include <variant>

#include "dataplane/base/ids.h"
#include "dataplane/base/nid.h"
#include "dataplane/state/md.h"

namespace ulnet {

/// The MD in this slot is to be bound. The slot is the worker's from here on.
struct BindCall {
  uint32_t md;
};
/// The MD is to match at a portal.
struct AttachCall {
  Handle md;
  PortalIndex portal;
  MePosition position;
  ProcessId initiator;
  uint64_t match_bits, ignore_bits;
};
/// The MD is to end.
struct UnlinkCall {
  Handle md;
};

/// The part that a put and a get share.
struct OperationCall {
  Handle md;
  uint32_t eq;  ///< queue of the MD, for an operation whose MD has ended meanwhile; all ones = none
  PortalIndex portal;
  Nid self;  ///< ANY = choose among all NIs
  ProcessId target;
  uint32_t offset;  ///< in the target's MD
  uint64_t match_bits, user_data;
  uint32_t md_offset, length;  ///< the part of `md`
};
struct PutCall {
  OperationCall operation;
  uint64_t hdr_data;
  bool ack;
};
struct GetCall {
  OperationCall operation;
  bool recovery;  ///< as PutSpec::recovery
};

/// The event queue in this slot is open. The slot is the worker's from here on.
struct EqOpenCall {
  uint32_t eq;
};
/// The event queue is to close with its last MD.
struct EqCloseCall {
  uint32_t eq;
};

using CallMsg = std::variant<BindCall, AttachCall, UnlinkCall, PutCall, GetCall, EqOpenCall, EqCloseCall>;
// A put has two NIDs of 20 bytes and three numbers of 64 bits. Hence a call fits into two cache lines, not into one as
// the other ring messages do.
static_assert(std::is_trivially_copyable_v<CallMsg> && sizeof(CallMsg) == 112);

/// A kind that starts an operation has a member `operation`.
template <class T>
concept StartsOperation = requires(const T& call) {
  call.operation;
};

[[nodiscard]] inline bool starts_operation(const CallMsg& msg) {
  return std::visit([]<class T>(const T&) { return StartsOperation<T>; }, msg);
}

}  // namespace ulnet
