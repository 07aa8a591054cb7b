// Results of selection policies (UDSP) as control keeps them with its nets and NIs. Thread: control. policy.h
// evaluates.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/state/view.h"

namespace ulnet {

/// The priority of a net or NI, and the index of the rule that gives it.
struct PolicyPriority {
  uint32_t priority = kNoPriority;
  int32_t rule = -1;  ///< -1: no rule matches
  bool operator==(const PolicyPriority&) const = default;
};

/// A list of preferences in order of id, and for each entry the index of its rule.
struct PolicyList {
  std::shared_ptr<const Preferences> list;  ///< null: no rule matches, or the rule names no object
  std::shared_ptr<const std::vector<int32_t>> rules;
};

/// The result for a peer NI.
struct PeerNiPolicy {
  PolicyPriority priority;
  PolicyList sources, gateways;
  Nid source = kAnyNid;  ///< the one source that a peer without multi-rail sees; ANY: multi-rail, or none yet
  /// True if a worker cannot tell the two apart.
  [[nodiscard]] bool same_for_workers(const PeerNiPolicy& other) const;
};

}  // namespace ulnet
