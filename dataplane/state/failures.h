// The classes of failed sends, one row each: the counters of a class, and if the message may be sent again. Constant,
// for every thread. Drivers choose the class of a failure (lnd/lnd.h). Source: docs/wire/lnet.md §9.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "dataplane/base/counters.h"
#include "lnd/lnd.h"

namespace ulnet {

/// When a message with a failure of this class may be sent again.
enum class Resend : uint8_t {
  kNo,
  kOtherNi,     ///< if this node has another NI
  kOtherPeerNi  ///< if the peer has another NI
};

struct FailureClass {
  LndStatus status;
  const char* name;                    ///< LNet's
  std::optional<NiFailure> at_ni;      ///< counter of the local NI
  std::optional<PeerFailure> at_peer;  ///< counter of the peer NI
  std::optional<Stat> at_node;         ///< counter of the node
  Resend resend;
  // The interfaces at fault, whose health values fall: the third column of the table in docs/wire/lnet.md §9.
  bool ni_at_fault, peer_at_fault;
};

namespace failure {

constexpr FailureClass local(LndStatus status, const char* name, NiFailure at_ni, Stat at_node, Resend resend) {
  return {status, name, at_ni, {}, at_node, resend, true, false};
}
constexpr FailureClass remote(LndStatus status, const char* name, PeerFailure at_peer, Stat at_node, Resend resend) {
  return {status, name, {}, at_peer, at_node, resend, false, true};
}
constexpr FailureClass network(LndStatus status, const char* name, PeerFailure at_peer, Stat at_node, Resend resend) {
  return {status, name, {}, at_peer, at_node, resend, true, true};
}

using enum LndStatus;
inline constexpr std::array<FailureClass, kLndStatuses> kClasses{{
    {kOk, "OK", {}, {}, {}, Resend::kNo, false, false},
    local(kLocalInterrupt, "LOCAL_INTERRUPT", NiFailure::kInterrupts, Stat::kLocalInterruptCount, Resend::kOtherNi),
    local(kLocalDropped, "LOCAL_DROPPED", NiFailure::kDropped, Stat::kLocalDroppedCount, Resend::kOtherNi),
    local(kLocalAborted, "LOCAL_ABORTED", NiFailure::kAborted, Stat::kLocalAbortedCount, Resend::kOtherNi),
    local(kLocalNoRoute, "LOCAL_NO_ROUTE", NiFailure::kNoRoute, Stat::kLocalNoRouteCount, Resend::kOtherNi),
    local(kLocalError, "LOCAL_ERROR", NiFailure::kError, Stat::kLocalErrorCount, Resend::kNo),
    local(kLocalTimeout, "LOCAL_TIMEOUT", NiFailure::kTimeouts, Stat::kLocalTimeoutCount, Resend::kOtherNi),
    remote(kRemoteError, "REMOTE_ERROR", PeerFailure::kError, Stat::kRemoteErrorCount, Resend::kNo),
    remote(kRemoteDropped, "REMOTE_DROPPED", PeerFailure::kDropped, Stat::kRemoteDroppedCount, Resend::kOtherPeerNi),
    remote(kRemoteTimeout, "REMOTE_TIMEOUT", PeerFailure::kTimeout, Stat::kRemoteTimeoutCount, Resend::kNo),
    network(kNetworkTimeout, "NETWORK_TIMEOUT", PeerFailure::kNetworkTimeout, Stat::kNetworkTimeoutCount, Resend::kNo),
}};

constexpr bool each_at_its_place() {
  for (size_t i = 0; i < kClasses.size(); ++i)
    if (size_t(kClasses[i].status) != i || kClasses[i].name == nullptr) return false;
  return true;
}
static_assert(each_at_its_place(), "each LndStatus has its row, in the order of the enum");

}  // namespace failure

[[nodiscard]] constexpr const FailureClass& failure_class(LndStatus status) {
  return failure::kClasses[size_t(status)];
}

}  // namespace ulnet
