// The effect of a list of rules, found before the rules are in force: each object whose results would differ. Thread:
// control. Nothing changes. The peers are evaluated in slices, like those of Policies.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/policy/policy.h"
#include "control/routes/route_db.h"

namespace ulnet {

/// Comparisons of a NID with a rule in one turn of control.
inline constexpr size_t kPolicyBudget = 32768;

/// The objects that lists of `policy` may name.
[[nodiscard]] PolicyObjects policy_objects(const Policy& policy, LocalNis& nis, PeerDb& peers, const RouteDb& routes);

/// A net or NI, and its results that would change.
struct PolicyChange {
  enum class Kind : uint8_t { kLocalNet, kLocalNi, kPeerNet, kPeerNi, kCount };
  Kind kind{};
  Nid peer;  ///< primary NID, of kPeerNet and kPeerNi
  Net net;   ///< of kLocalNet and kPeerNet
  Nid nid;   ///< of kLocalNi and kPeerNi
  PolicyPriority priority_before, priority_after;
  std::vector<Nid> sources_before, sources_after;    ///< in order of preference
  std::vector<Nid> gateways_before, gateways_after;  ///< primary NIDs
};

/// The NIDs of a list, in order of preference: those of local NIs, or primary NIDs of gateways.
[[nodiscard]] std::vector<Nid> preferred_sources(const PolicyList& policy, const PolicyObjects& objects);
[[nodiscard]] std::vector<Nid> preferred_gateways(const PolicyList& policy, const PolicyObjects& objects);

class PolicyPreview {
 public:
  /// `now` and `then`: the rules in force and the rules to come.
  PolicyPreview(std::span<const config::UdspRule> now, std::span<const config::UdspRule> then);
  /// Adds changes of the next objects to `changes`; false when all objects have been evaluated. If NIs, peers or routes
  /// change meanwhile, each object is evaluated as it is at its time.
  bool turn(LocalNis& nis, PeerDb& peers, const RouteDb& routes, std::vector<PolicyChange>& changes);

 private:
  void local(LocalNis& nis, std::vector<PolicyChange>& changes);
  void peer(const Peer& peer, std::vector<PolicyChange>& changes);

  Policy now_, then_;
  bool local_done_ = false;
  uint32_t next_peer_ = 0;
};

}  // namespace ulnet
