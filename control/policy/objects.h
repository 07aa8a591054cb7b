// The objects that rules of selection policies name, as they are in the tables of control. Thread: control.
#pragma once
#include <cstdint>

#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/policy/policy.h"
#include "control/routes/route_db.h"

namespace ulnet {

/// The tables that objects come from.
struct PolicyTables {
  LocalNis& nis;
  PeerDb& peers;
  const RouteDb& routes;
};

/// Follows the objects of one Policy. Gateways are looked up only if routes or peers have changed.
class PolicyFollower {
 public:
  enum class Change : uint8_t {
    kNone,
    kState,  ///< link or health of NIs: other sources of peers that are not multi-rail, and the same lists
    kLists,
  };
  /// True if the gateways of `policy` are up to date.
  [[nodiscard]] bool gateways_seen(const Policy& policy, const PolicyTables& tables) const;
  /// Brings the objects of `policy` up to date. If memory is short, nothing has changed.
  Change follow(Policy& policy, const PolicyTables& tables);
  /// To call if the Policy is another one.
  void forget() { routes_ = peers_ = UINT64_MAX; }

 private:
  uint64_t routes_ = UINT64_MAX, peers_ = UINT64_MAX;  // revisions
};

}  // namespace ulnet
