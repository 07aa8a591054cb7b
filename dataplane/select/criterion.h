// The criteria of a choice of path, in the order of docs/wire/lnet.md §6, and the reasons why something is no
// candidate, with their names.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ulnet {

/// The reason why one candidate wins over another, or why there is only one. In each step a later criterion decides
/// only if all earlier criteria of the step are equal.
enum class Criterion : uint8_t {
  // There is nothing to compare.
  kOnly,      ///< there is no other candidate
  kGiven,     ///< the message names it
  kRecorded,  ///< the only source that a peer without multi-rail may see (docs/wire/lnet.md §5.7)
  kReturn,    ///< the router that the request came through
  // Nets (§6.1).
  kPeerNetHealth,
  kPeerNetPriority,
  kLocalNetHealth,
  kLocalNetPriority,
  kPeerNetSequence,
  kLocalNetSequence,
  // Routes, local NIs, peer NIs and gateway NIs (§6.2, §6.3, §6.5).
  kPreferredGateway,  ///< rank in a list of preferences
  kRoutePriority,
  kHops,
  kLink,  ///< 1: up
  kHealth,
  kPriority,
  kPreferred,       ///< rank in a list of preferences
  kDevicePriority,  ///< to the accelerator that holds the payload
  kNumaDistance,
  kExpectedWait,  ///< if rails differ in pace (docs/decisions.md #87)
  kQueuedBytes,   ///< of gateway NIs
  kCredits,
  kSequence,
  kRouteSequence,
  kCount,
};

/// Do higher values of the criterion win? Without a value: true.
[[nodiscard]] constexpr bool higher_wins(Criterion criterion) {
  switch (criterion) {
    case Criterion::kPeerNetHealth:
    case Criterion::kLocalNetHealth:
    case Criterion::kLink:
    case Criterion::kHealth:
    case Criterion::kCredits: return true;
    case Criterion::kPeerNetPriority:
    case Criterion::kLocalNetPriority:
    case Criterion::kPeerNetSequence:
    case Criterion::kLocalNetSequence:
    case Criterion::kPriority:
    case Criterion::kPreferred:
    case Criterion::kDevicePriority:
    case Criterion::kNumaDistance:
    case Criterion::kSequence:
    case Criterion::kPreferredGateway:
    case Criterion::kRoutePriority:
    case Criterion::kHops:
    case Criterion::kExpectedWait:
    case Criterion::kQueuedBytes:
    case Criterion::kRouteSequence: return false;
    case Criterion::kOnly:
    case Criterion::kGiven:
    case Criterion::kRecorded:
    case Criterion::kReturn:
    case Criterion::kCount: break;
  }
  return true;
}

/// Why something is no candidate at all.
enum class Exclusion : uint8_t {
  kNone,            ///< not excluded
  kNotLocal,        ///< this node has no NI on the net
  kOtherNet,        ///< the source NI is fixed, and is on another net
  kLeaving,         ///< the NI, or each NI of the net, is to be deleted
  kClosing,         ///< the NI is being deleted
  kNoMemory,        ///< the bound on peer NIs was reached when this one was named
  kDown,            ///< a router believes the NI dead
  kNoRoute,         ///< no route leads to the net
  kRouteDead,       ///< the route is not alive
  kGatewayUnknown,  ///< no peer has the gateway's NID
  kNoGatewayNi,     ///< the gateway has no usable NI on a net of this node
  kCount,
};

/// One step of a choice.
enum class StepKind : uint8_t {
  kNet,        ///< the net that this node and the peer share
  kLocalNi,    ///< the NI of this node
  kPeerNi,     ///< the peer's NI
  kFinalNet,   ///< the destination's net behind a route
  kFinalNi,    ///< the destination's NI behind a route
  kRoute,      ///< the route, and so the gateway
  kGatewayNi,  ///< the gateway's NI
  kCount,
};

inline constexpr std::array<std::string_view, size_t(Criterion::kCount)> kCriterionNames{
    "only candidate",
    "given",
    "recorded source",
    "router of the request",
    "peer net health",
    "peer net priority",
    "local net health",
    "local net priority",
    "peer net sequence",
    "local net sequence",
    "preferred gateway",
    "route priority",
    "hops",
    "link",
    "health",
    "priority",
    "preferred",
    "device priority",
    "NUMA distance",
    "expected wait",
    "queued bytes",
    "credits",
    "sequence",
    "route sequence",
};
inline constexpr std::array<std::string_view, size_t(Exclusion::kCount)> kExclusionNames{
    "",     "not local", "other net",  "leaving",         "closing",       "no memory",
    "down", "no route",  "route dead", "gateway unknown", "no gateway NI",
};
inline constexpr std::array<std::string_view, size_t(StepKind::kCount)> kStepNames{
    "net", "local NI", "peer NI", "final net", "final NI", "route", "gateway NI",
};
[[nodiscard]] constexpr std::string_view name(Criterion criterion) {
  return kCriterionNames[size_t(criterion)];
}
[[nodiscard]] constexpr std::string_view name(Exclusion reason) {
  return kExclusionNames[size_t(reason)];
}
[[nodiscard]] constexpr std::string_view name(StepKind step) {
  return kStepNames[size_t(step)];
}

}  // namespace ulnet
