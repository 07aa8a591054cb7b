// Selection policies (UDSP): a pure function from rules and objects to priorities and lists of preferences. Thread:
// control. Policies (policies.h) decides when an object is evaluated; workers get only the results (state/view.h).
// Source: docs/wire/lnet.md §11, docs/decisions.md rows 10 to 12 and 77.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "config/model.h"
#include "config/udsp.h"
#include "control/policy/result.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/nid.h"

namespace ulnet {

/// The objects that lists of preferences name.
struct PolicyObjects {
  struct Source {
    NiId ni{};
    Nid nid;
    bool operator==(const Source&) const = default;
  };
  /// A peer that routes lead through.
  struct Gateway {
    uint32_t peer = 0;  ///< Peer::id
    Nid primary;
    std::vector<Nid> nids;  ///< NIDs in routes
    bool operator==(const Gateway&) const = default;
  };
  std::vector<Source> sources;
  std::vector<Gateway> gateways;
  bool operator==(const PolicyObjects&) const = default;
};

/// A list of rules, compiled for evaluation. Peer NIs that match the same rules share one list of preferences.
class Policy {
 public:
  Policy() = default;
  Policy(Policy&&) = default;
  Policy& operator=(Policy&&) = default;
  /// Requires: each rule is well-formed (config/change.h checks the rules).
  Policy(std::span<const config::UdspRule> rules, PolicyObjects objects);

  [[nodiscard]] const PolicyObjects& objects() const { return objects_; }
  /// New objects for the lists; the rules stay.
  void set_objects(PolicyObjects objects);

  [[nodiscard]] PolicyPriority of_local_net(Net net) const;
  [[nodiscard]] PolicyPriority of_local_ni(const Nid& nid) const;
  [[nodiscard]] PolicyPriority of_peer_net(Net net) const;
  /// Cost: one match for each of peer_rules().
  [[nodiscard]] PeerNiPolicy of_peer_ni(const Nid& nid);

  /// Indexes of the rules whose router descriptor matches the NID.
  [[nodiscard]] std::vector<int64_t> router_rules(const Nid& gateway) const;

  /// Rules that of_peer_ni() compares a NID with.
  [[nodiscard]] size_t peer_rules() const { return peer_rules_.size(); }
  /// True if some rule names local NIs, or gateways, for a list.
  [[nodiscard]] bool lists_sources() const { return lists_sources_; }
  [[nodiscard]] bool lists_gateways() const { return lists_gateways_; }

 private:
  /// A rule, and its index.
  struct Rule {
    config::UdspMatch match;
    int32_t index = 0;
    [[nodiscard]] PolicyPriority priority() const;
    /// A rule with a priority ranks its objects beside the objects of other rules.
    [[nodiscard]] bool ranked() const { return match.priority.has_value(); }
    [[nodiscard]] bool lists_sources() const { return match.src && match.dst; }
    [[nodiscard]] bool lists_gateways() const { return match.rte.has_value(); }
  };
  /// The rules that make up a list.
  using Contributors = std::vector<const Rule*>;
  using Shared = std::map<Contributors, PolicyList>;
  [[nodiscard]] const PolicyList& sources_of(const Contributors& rules);
  [[nodiscard]] const PolicyList& gateways_of(const Contributors& rules);

  std::vector<Rule> src_rules_, dst_net_rules_, peer_rules_;  // in order of index
  bool lists_sources_ = false, lists_gateways_ = false;
  PolicyObjects objects_;
  Shared shared_sources_, shared_gateways_;
};

}  // namespace ulnet
