// The selection policies in force, and when objects get their results: a changed peer before it is published, all other
// peers in slices after a change of rules or of the objects that lists name. Thread: control. The rules themselves are
// evaluated by policy.h; local nets and NIs, which are few, are evaluated when their view is built.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "config/model.h"
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/policy/policy.h"
#include "control/routes/route_db.h"
#include "control/timers.h"

namespace ulnet {

/// Comparisons of a NID with a rule in one turn of control.
inline constexpr size_t kPolicyBudget = 32768;

class Policies {
 public:
  explicit Policies(Timers& timers) : timer_(timers, TimerName::kPolicies) {}

  /// Puts these rules in force. No effect if they are in force already.
  void set_rules(std::span<const config::UdspRule> rules);
  /// To call before a view is built, if NIs, peers or routes may have changed.
  void follow(LocalNis& nis, PeerDb& peers, const RouteDb& routes);
  /// Brings the results of `peer` up to date, for the view that is about to be built.
  void evaluate(Peer& peer);
  /// Evaluates the next peers, and touches those whose results differ; returns work done.
  unsigned turn(PeerDb& peers);
  /// All objects have the results of the rules in force.
  [[nodiscard]] bool settled() const { return !walking_; }

  [[nodiscard]] Policy& policy() { return policy_; }
  [[nodiscard]] std::span<const config::UdspRule> rules() const { return rules_; }

 private:
  void begin_walk();

  std::vector<config::UdspRule> rules_;
  Policy policy_;
  uint64_t revision_ = 1;  // of rules and objects; PeerNi::policy_seen is the last that a peer NI was evaluated with
  uint32_t next_peer_ = 0;
  bool walking_ = false;
  SlowTimer timer_;  // while walking_
};

/// The part of a rule that matches nothing now, as words; "" if each part matches an object. Cost: one comparison for
/// each NI, peer NI and route.
[[nodiscard]] std::string unmatched(const config::UdspRule& rule, LocalNis& nis, const PeerDb& peers,
                                    const RouteDb& routes);

/// The objects that lists of `policy` may name.
[[nodiscard]] PolicyObjects policy_objects(const Policy& policy, LocalNis& nis, PeerDb& peers, const RouteDb& routes);

}  // namespace ulnet
