#include "control/policy/policy.h"

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet {

namespace {

/// Results that a policy keeps for the next objects.
constexpr size_t kPeerNetsKept = 4096, kRecentKept = 256;
/// Rules of all kept lists together.
constexpr size_t kRecentRules = 131072;

bool same_list(const PolicyList& a, const PolicyList& b) {
  if (a.list == nullptr || b.list == nullptr) return a.list == b.list;
  return a.list == b.list || *a.list == *b.list;
}

/// Adds `rule` to the rules that make up a list. Of rules without a priority, only the first counts (decision 77).
template <class Contributors, class Rule>
void contribute(Contributors& rules, const Rule& rule) {
  if (!rule.ranked() && std::any_of(rules.begin(), rules.end(), [](const Rule* one) { return !one->ranked(); })) return;
  rules.push_back(&rule);
}

}  // namespace

bool ByContent::before(const Preferences& a, const Preferences& b) {
  return std::lexicographical_compare(a.all.begin(), a.all.end(), b.all.begin(), b.all.end(),
                                      [](const Preferences::One& x, const Preferences::One& y) {
                                        return std::pair(x.id, x.rank) < std::pair(y.id, y.rank);
                                      });
}

bool PeerNiPolicy::same_for_workers(const PeerNiPolicy& other) const {
  return priority.priority == other.priority.priority && same_list(sources, other.sources) &&
         same_list(gateways, other.gateways);
}

// A rule without a priority has the highest (docs/wire/lnetctl.md §4); -1 stands for the lowest.
PolicyPriority Policy::Rule::priority() const {
  const int64_t value = match.priority.value_or(0);
  return {value < 0 ? kNoPriority : uint32_t(value), index};
}

Policy::Policy(std::span<const config::UdspRule> rules) {
  for (size_t i = 0; i < rules.size(); ++i) {
    auto match = config::udsp_rule_parse(rules[i]);
    ULNET_CHECK(match.has_value());
    Rule rule{std::move(*match), int32_t(i)};
    lists_sources_ |= rule.lists_sources();
    lists_gateways_ |= rule.lists_gateways();
    const bool one = !rule.lists_sources() && !rule.lists_gateways();
    auto& kind = !one                       ? peer_rules_
                 : rule.match.src           ? src_rules_
                 : rule.match.dst->is_net() ? dst_net_rules_
                                            : peer_rules_;
    kind.push_back(std::move(rule));
  }
}

void Policy::set_objects(std::vector<PolicyObjects::Source> sources, std::vector<PolicyObjects::Gateway>* gateways) {
  std::vector<uint32_t> priorities;
  for (const PolicyObjects::Source& one : sources) priorities.push_back(of_local_ni(one.nid).priority);
  objects_.sources = std::move(sources);
  if (gateways != nullptr) objects_.gateways = std::move(*gateways);
  source_priorities_ = std::move(priorities);
  recent_.clear();
  recent_rules_ = 0;
}

PolicyPriority Policy::of_local_net(Net net) const {
  for (const Rule& rule : src_rules_)
    if (rule.match.src->is_net() && rule.match.src->matches(net)) return rule.priority();
  return {};
}

PolicyPriority Policy::of_local_ni(const Nid& nid) const {
  for (const Rule& rule : src_rules_)
    if (!rule.match.src->is_net() && rule.match.src->matches(nid)) return rule.priority();
  return {};
}

PolicyPriority Policy::of_peer_net(Net net) {
  ++comparisons_;
  if (const auto known = peer_nets_.find(net); known != peer_nets_.end()) return known->second;
  if (peer_nets_.size() >= kPeerNetsKept) peer_nets_.clear();
  PolicyPriority result;
  for (Rule& rule : dst_net_rules_) {
    if (!rule.match.dst->matches(net)) continue;
    rule.dst_met = true;
    if (result.rule < 0) result = rule.priority();
  }
  comparisons_ += dst_net_rules_.size();
  return peer_nets_.emplace(net, result).first->second;
}

PeerNiPolicy Policy::of_peer_ni(const Nid& nid) {
  PeerNiPolicy result;
  Contributors sources, gateways;
  comparisons_ += peer_rules_.size() + 1;
  for (Rule& rule : peer_rules_) {
    if (rule.match.dst && !rule.match.dst->matches(nid)) continue;
    rule.dst_met = true;
    if (rule.lists_sources())
      contribute(sources, rule);
    else if (rule.lists_gateways())
      contribute(gateways, rule);
    else if (result.priority.rule < 0)
      result.priority = rule.priority();
  }
  result.sources = list_of(sources);
  result.gateways = list_of(gateways);
  return result;
}

std::vector<int64_t> Policy::router_rules(uint32_t peer) const {
  std::vector<int64_t> indexes;
  const PolicyObjects::Gateway* gateway = objects_.gateway(peer);
  for (const Rule& rule : peer_rules_)
    if (gateway != nullptr && rule.match.rte && rule.names(*gateway)) indexes.push_back(rule.index);
  return indexes;
}

// docs/decisions.md #85: the same NIDs decide wherever a rule is matched with a gateway.
bool Policy::Rule::names(const PolicyObjects::Gateway& gateway) const {
  return std::any_of(gateway.nids.begin(), gateway.nids.end(), [&](const Nid& nid) { return match.rte->matches(nid); });
}

Policy::Missing Policy::missing(const Rule& rule, size_t& looks) const {
  const auto local = [&](const PolicyObjects::Source& one) { return ++looks, rule.match.src->matches(one.nid); };
  const auto router = [&](const PolicyObjects::Gateway& one) { return ++looks, rule.names(one); };
  const auto& [sources, gateways] = objects_;
  if (rule.match.src && std::none_of(sources.begin(), sources.end(), local)) return Missing::kSrc;
  if (rule.match.dst && !rule.dst_met) return Missing::kDst;
  if (rule.match.rte && std::none_of(gateways.begin(), gateways.end(), router)) return Missing::kRte;
  return Missing::kNothing;
}

Policy::Idle Policy::idle(const std::function<bool(int32_t)>& asked, size_t max) const {
  Idle result;
  size_t looks = 0;
  for (const auto* rules : {&src_rules_, &dst_net_rules_, &peer_rules_}) {
    size_t found = 0;
    for (auto rule = rules->begin(); rule != rules->end() && found < max && result.all; ++rule) {
      if (!asked(rule->index)) continue;
      result.all = looks < kIdleLooks;
      if (!result.all) break;
      const Missing what = missing(*rule, looks);
      if (what == Missing::kNothing) continue;
      result.rules.emplace_back(rule->index, what);
      ++found;
    }
  }
  std::sort(result.rules.begin(), result.rules.end());
  if (result.rules.size() > max) result.rules.resize(max);
  return result;
}

void Policy::take_met(const Policy& former, std::span<const int32_t> former_index) noexcept {
  const auto take = [&](std::vector<Rule>& rules, const std::vector<Rule>& before) {
    for (Rule& rule : rules) {
      const int32_t index = former_index[size_t(rule.index)];
      const auto same = std::lower_bound(before.begin(), before.end(), index,
                                         [](const Rule& one, int32_t other) { return one.index < other; });
      if (same != before.end() && same->index == index) rule.dst_met |= same->dst_met;
    }
  };
  take(dst_net_rules_, former.dst_net_rules_);
  take(peer_rules_, former.peer_rules_);
}

const PolicyObjects::Gateway* PolicyObjects::gateway(uint32_t peer) const {
  const auto at = std::lower_bound(gateways.begin(), gateways.end(), peer,
                                   [](const Gateway& one, uint32_t id) { return one.peer < id; });
  return at == gateways.end() || at->peer != peer ? nullptr : &*at;
}

PolicyList Policy::list_of(const Contributors& rules) {
  if (rules.empty()) return {};
  comparisons_ += rules.size();
  if (const auto known = recent_.find(rules); known != recent_.end()) return known->second;
  if (recent_.size() >= kRecentKept || recent_rules_ + rules.size() > kRecentRules) {
    recent_.clear();
    recent_rules_ = 0;
  }
  std::map<uint32_t, PolicyPriority> ranks;  // an object that several rules name keeps the rank of the first
  for (const Rule* rule : rules) {
    if (rule->lists_sources()) {
      comparisons_ += objects_.sources.size();
      for (const PolicyObjects::Source& one : objects_.sources)
        if (rule->match.src->matches(one.nid)) ranks.emplace(one.ni.value, rule->priority());
    } else {
      comparisons_ += objects_.gateways.size();
      for (const PolicyObjects::Gateway& one : objects_.gateways)
        if (rule->names(one)) ranks.emplace(one.peer, rule->priority());
    }
  }
  PolicyList result;
  if (!ranks.empty()) {
    Preferences list;
    std::vector<int32_t> indexes;
    for (const auto& [id, rank] : ranks) {
      list.all.push_back({id, rank.priority});
      indexes.push_back(rank.rule);
    }
    result = {shared_.one_of(std::move(list)), shared_rules_.one_of(std::move(indexes))};
  }
  const PolicyList& kept = recent_.emplace(rules, std::move(result)).first->second;
  recent_rules_ += rules.size();
  return kept;
}

}  // namespace ulnet
