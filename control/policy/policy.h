// Selection policies (UDSP): a pure function from rules and objects to priorities and lists of preferences. Thread:
// control. Policies (policies.h) decides when an object is evaluated; workers get only the results (state/view.h).
// Source: docs/wire/lnet.md §11, docs/decisions.md rows 10 to 12, 77 and 83 to 85.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "config/model.h"
#include "config/udsp.h"
#include "control/policy/result.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/nid.h"

namespace ulnet {

/// The objects that lists of preferences name.
struct PolicyObjects {
  /// A local NI that is not being deleted.
  struct Source {
    NiId ni{};
    Nid nid;
    bool fatal = false;
    uint16_t health = kHealthMax;
    [[nodiscard]] bool usable() const { return !fatal && health > 0; }
    bool operator==(const Source&) const = default;
  };
  /// A peer that routes lead through.
  struct Gateway {
    uint32_t peer = 0;  ///< Peer::id
    Nid primary;
    std::vector<Nid> nids;  ///< the primary NID, and NIDs in routes
    bool operator==(const Gateway&) const = default;
  };
  std::vector<Source> sources;
  std::vector<Gateway> gateways;  ///< in order of `peer`
  [[nodiscard]] const Gateway* gateway(uint32_t peer) const;
};

/// An order of values by their content.
struct ByContent {
  [[nodiscard]] static bool before(const Preferences& a, const Preferences& b);
  [[nodiscard]] static bool before(const std::vector<int32_t>& a, const std::vector<int32_t>& b) { return a < b; }
  template <class T>
  bool operator()(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) const {
    return before(*a, *b);
  }
};

/// Values of which equal ones are one object. Unused ones are dropped when the number of values has doubled.
template <class T>
class Interned {
 public:
  [[nodiscard]] std::shared_ptr<const T> one_of(T value) {
    if (all_.size() > 2 * used_ + 256) {
      std::erase_if(all_, [](const auto& one) { return one.use_count() == 1; });
      used_ = all_.size();
    }
    return *all_.insert(std::make_shared<const T>(std::move(value))).first;
  }
  [[nodiscard]] size_t size() const { return all_.size(); }

 private:
  std::set<std::shared_ptr<const T>, ByContent> all_;
  size_t used_ = 0;  // when unused ones were dropped last
};

/// Objects that Policy::idle() compares with rules.
inline constexpr size_t kIdleLooks = 65536;

/// A list of rules, compiled for evaluation. Equal lists of preferences are one object.
class Policy {
 public:
  Policy() = default;
  Policy(Policy&&) = default;
  Policy& operator=(Policy&&) = default;
  /// Requires: each rule is well-formed (config/change.h checks the rules).
  explicit Policy(std::span<const config::UdspRule> rules);

  [[nodiscard]] const PolicyObjects& objects() const { return objects_; }
  /// New objects for the lists; the rules stay. `gateways` null: the gateways stay, too. If memory is short, nothing
  /// has changed.
  void set_objects(std::vector<PolicyObjects::Source> sources, std::vector<PolicyObjects::Gateway>* gateways);

  [[nodiscard]] PolicyPriority of_local_net(Net net) const;
  [[nodiscard]] PolicyPriority of_local_ni(const Nid& nid) const;
  [[nodiscard]] PolicyPriority of_peer_net(Net net);
  /// Priority and lists. The source is plain_source().
  [[nodiscard]] PeerNiPolicy of_peer_ni(const Nid& nid);
  /// The one source for the NID `to` of a peer without multi-rail. `recorded`: the source without rules; `preferred`:
  /// PeerNiPolicy::sources of `to`.
  [[nodiscard]] Nid plain_source(const Nid& to, const Nid& recorded, const PolicyList& preferred);

  /// Indexes of the rules whose router descriptor matches the gateway.
  [[nodiscard]] std::vector<int64_t> router_rules(uint32_t peer) const;
  enum class Missing : uint8_t { kNothing, kSrc, kDst, kRte };
  struct Idle {
    std::vector<std::pair<int32_t, Missing>> rules;  ///< index, and the first descriptor that matches no object
    bool all = true;                                 ///< false: kIdleLooks kept it from looking at all rules
  };
  /// Rules without effect among those for which `asked` returns true; at most `max`, in order of index. Compares rules
  /// with about kIdleLooks objects. A destination is matched if of_peer_net() or of_peer_ni() has matched one.
  [[nodiscard]] Idle idle(const std::function<bool(int32_t)>& asked, size_t max) const;
  /// The destinations that rules of `former` have matched count as matched by the same rules of this policy.
  /// `former_index`: by index of a rule here, its index in `former`; negative: it is new.
  void take_met(const Policy& former, std::span<const int32_t> former_index) noexcept;

  /// True if some rule names gateways.
  [[nodiscard]] bool lists_gateways() const { return lists_gateways_; }
  [[nodiscard]] bool lists_sources() const { return lists_sources_; }
  /// Cost so far: comparisons of a rule with an object.
  [[nodiscard]] uint64_t comparisons() const { return comparisons_; }
  /// Lists of preferences that this policy keeps.
  [[nodiscard]] size_t lists_kept() const { return shared_.size(); }

 private:
  /// A rule, and its index.
  struct Rule {
    config::UdspMatch match;
    int32_t index = 0;
    bool dst_met = false;  // a destination has matched
    [[nodiscard]] PolicyPriority priority() const;
    /// A rule with a priority ranks its objects beside the objects of other rules.
    [[nodiscard]] bool ranked() const { return match.priority.has_value(); }
    [[nodiscard]] bool lists_sources() const { return match.src && match.dst; }
    [[nodiscard]] bool lists_gateways() const { return match.rte.has_value(); }
    [[nodiscard]] bool names(const PolicyObjects::Gateway& gateway) const;
  };
  /// The rules that make up a list.
  using Contributors = std::vector<const Rule*>;
  [[nodiscard]] PolicyList list_of(const Contributors& rules);
  [[nodiscard]] Missing missing(const Rule& rule, size_t& looks) const;

  std::vector<Rule> src_rules_, dst_net_rules_, peer_rules_;  // in order of index
  bool lists_sources_ = false, lists_gateways_ = false;
  PolicyObjects objects_;
  std::vector<uint32_t> source_priorities_;    // of objects_.sources
  std::map<Net, PolicyPriority> peer_nets_;    // results; bounded
  std::map<Contributors, PolicyList> recent_;  // results; bounded
  size_t recent_rules_ = 0;                    // sum of the contributors in recent_
  Interned<Preferences> shared_;
  Interned<std::vector<int32_t>> shared_rules_;
  uint64_t comparisons_ = 0;
};

/// Rules, ready to be put in force.
struct PolicyRules {
  std::vector<config::UdspRule> rules;
  Policy policy;
  PolicyRules() = default;
  explicit PolicyRules(std::span<const config::UdspRule> all) : rules(all.begin(), all.end()), policy(all) {}
};

}  // namespace ulnet
