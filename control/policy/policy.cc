#include "control/policy/policy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dataplane/base/check.h"

namespace ulnet {
namespace {

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

/// Objects in the order of rules. An object that several rules name keeps the rank of the first.
class ListBuilder {
 public:
  void add(uint32_t id, const PolicyPriority& rank) {
    if (!given_.insert(id).second) return;
    list_.all.push_back({id, rank.priority});
    rules_.push_back(rank.rule);
  }
  [[nodiscard]] PolicyList result() {
    if (list_.all.empty()) return {};
    return {std::make_shared<const Preferences>(std::move(list_)),
            std::make_shared<const std::vector<int32_t>>(std::move(rules_))};
  }

 private:
  std::set<uint32_t> given_;
  Preferences list_;
  std::vector<int32_t> rules_;
};

}  // namespace

bool PeerNiPolicy::same_for_workers(const PeerNiPolicy& other) const {
  return priority.priority == other.priority.priority && same_list(sources, other.sources) &&
         same_list(gateways, other.gateways);
}

// A rule without a priority has the highest (docs/wire/lnetctl.md §4); -1 stands for the lowest.
PolicyPriority Policy::Rule::priority() const {
  const int64_t value = match.priority.value_or(0);
  return {value < 0 ? kNoPriority : uint32_t(value), index};
}

Policy::Policy(std::span<const config::UdspRule> rules, PolicyObjects objects) : objects_(std::move(objects)) {
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

void Policy::set_objects(PolicyObjects objects) {
  objects_ = std::move(objects);
  shared_sources_.clear();
  shared_gateways_.clear();
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

PolicyPriority Policy::of_peer_net(Net net) const {
  for (const Rule& rule : dst_net_rules_)
    if (rule.match.dst->matches(net)) return rule.priority();
  return {};
}

PeerNiPolicy Policy::of_peer_ni(const Nid& nid) {
  PeerNiPolicy result;
  Contributors sources, gateways;
  bool ranked = false;
  for (const Rule& rule : peer_rules_) {
    if (rule.match.dst && !rule.match.dst->matches(nid)) continue;
    if (rule.lists_sources())
      contribute(sources, rule);
    else if (rule.lists_gateways())
      contribute(gateways, rule);
    else if (!std::exchange(ranked, true))
      result.priority = rule.priority();
  }
  if (!sources.empty()) result.sources = sources_of(sources);
  if (!gateways.empty()) result.gateways = gateways_of(gateways);
  return result;
}

std::vector<int64_t> Policy::router_rules(const Nid& gateway) const {
  std::vector<int64_t> indexes;
  for (const Rule& rule : peer_rules_)
    if (rule.match.rte && rule.match.rte->matches(gateway)) indexes.push_back(rule.index);
  return indexes;
}

const PolicyList& Policy::sources_of(const Contributors& rules) {
  const auto [found, fresh] = shared_sources_.try_emplace(rules);
  if (!fresh) return found->second;
  ListBuilder list;
  for (const Rule* rule : rules)
    for (const PolicyObjects::Source& one : objects_.sources)
      if (rule->match.src->matches(one.nid)) list.add(one.ni.value, rule->priority());
  return found->second = list.result();
}

const PolicyList& Policy::gateways_of(const Contributors& rules) {
  const auto [found, fresh] = shared_gateways_.try_emplace(rules);
  if (!fresh) return found->second;
  ListBuilder list;
  for (const Rule* rule : rules)
    for (const PolicyObjects::Gateway& one : objects_.gateways)
      if (std::any_of(one.nids.begin(), one.nids.end(), [&](const Nid& nid) { return rule->match.rte->matches(nid); }))
        list.add(one.peer, rule->priority());
  return found->second = list.result();
}

}  // namespace ulnet
