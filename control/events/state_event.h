// One change of the state of an NI, a peer NI, a route, a gateway, or of routing: plain values. Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/base/nid.h"
#include "dataplane/base/time.h"

namespace ulnet {

enum class StateKind : uint8_t { kNi, kPeerNi, kRoute, kGateway, kRouting, kCount };
inline constexpr std::array<std::string_view, size_t(StateKind::kCount)> kStateKinds = {"ni", "peer_ni", "route",
                                                                                        "gateway", "routing"};

/// The state of an object that is not there.
inline constexpr std::string_view kStateNone = "none";

struct StateEvent {
  uint64_t sequence = 0;  ///< 1, 2, 3 ... over the life of the node; of StateEvents::now(): of the last event
  Instant time = kNever;
  StateKind kind{};
  std::string object;             ///< a NID; of a route "NET GATEWAY"; of routing "this node"
  Nid nid = kAnyNid;              ///< that NID; of a route its gateway; of routing ANY
  std::string_view from, to;      ///< static words; of StateEvents::now() both are the present state
  std::string reason;             ///< empty from StateEvents::now()
  std::optional<int64_t> health;  ///< of an NI or peer NI that is there
};

}  // namespace ulnet
