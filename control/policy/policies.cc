#include "control/policy/policies.h"

#include <algorithm>
#include <map>

namespace ulnet {

PolicyObjects policy_objects(const Policy& policy, LocalNis& nis, PeerDb& peers, const RouteDb& routes) {
  PolicyObjects objects;
  if (policy.lists_sources())
    for (LocalNis::LocalNet& net : nis.nets())
      for (const LocalNi& ni : net.nis) objects.sources.push_back({ni.id, ni.nid});
  if (!policy.lists_gateways()) return objects;
  std::map<uint32_t, size_t> places;  // in objects.gateways, by peer
  for (const Route& route : routes.routes()) {
    const PeerNi* ni = peers.find(route.config.gateway);
    if (ni == nullptr) continue;
    const Nid& primary = ni->peer->primary().nid;
    const auto [place, fresh] = places.try_emplace(ni->peer->id, objects.gateways.size());
    if (fresh) objects.gateways.push_back({ni->peer->id, primary, {primary}});
    std::vector<Nid>& nids = objects.gateways[place->second].nids;
    if (std::find(nids.begin(), nids.end(), ni->nid) == nids.end()) nids.push_back(ni->nid);
  }
  return objects;
}

std::string unmatched(const config::UdspRule& rule, LocalNis& nis, const PeerDb& peers, const RouteDb& routes) {
  const auto match = config::udsp_rule_parse(rule);
  if (!match) return match.error();
  const auto some_local = [&] {
    for (LocalNis::LocalNet& net : nis.nets())
      for (const LocalNi& ni : net.nis)
        if (match->src->matches(ni.nid)) return true;
    return false;
  };
  const auto some_peer = [&] {
    for (const auto& [id, peer] : peers.peers())
      for (const PeerNet& net : peer->nets)
        for (const PeerNi* ni : net.nis)
          if (match->dst->matches(ni->nid)) return true;
    return false;
  };
  const auto some_gateway = [&] {
    return std::any_of(routes.routes().begin(), routes.routes().end(),
                       [&](const Route& route) { return match->rte->matches(route.config.gateway); });
  };
  if (match->src && !some_local()) return "no NI of this node matches src " + rule.src;
  if (match->dst && !some_peer()) return "no known peer matches dst " + rule.dst;
  if (match->rte && !some_gateway()) return "no gateway of a route matches rte " + rule.rte;
  return "";
}

void Policies::begin_walk() {
  ++revision_;
  next_peer_ = 0;
  walking_ = true;
  timer_.set_now();
}

void Policies::set_rules(std::span<const config::UdspRule> rules) {
  if (std::equal(rules.begin(), rules.end(), rules_.begin(), rules_.end())) return;
  rules_.assign(rules.begin(), rules.end());
  policy_ = Policy(rules_, {});
  begin_walk();
}

void Policies::follow(LocalNis& nis, PeerDb& peers, const RouteDb& routes) {
  PolicyObjects objects = policy_objects(policy_, nis, peers, routes);
  if (objects == policy_.objects()) return;
  policy_.set_objects(std::move(objects));
  begin_walk();
}

void Policies::evaluate(Peer& peer) {
  for (PeerNet& net : peer.nets) {
    net.policy = policy_.of_peer_net(net.net);
    for (PeerNi* ni : net.nis) {
      if (ni->policy_seen == revision_) continue;
      ni->policy_seen = revision_;
      ni->policy = policy_.of_peer_ni(ni->nid);
    }
  }
}

unsigned Policies::turn(PeerDb& peers) {
  if (!walking_) return 0;
  const auto& all = peers.peers();
  auto next = all.lower_bound(next_peer_);
  for (size_t cost = 0; next != all.end() && cost < kPolicyBudget; ++next) {
    Peer& peer = *next->second;
    bool changed = false;
    for (PeerNet& net : peer.nets) {
      changed |= net.policy.priority != policy_.of_peer_net(net.net).priority;
      for (PeerNi* ni : net.nis) {
        cost += policy_.peer_rules() + 1;
        if (ni->policy_seen == revision_) continue;
        const PeerNiPolicy before = ni->policy;
        ni->policy = policy_.of_peer_ni(ni->nid);
        ni->policy_seen = revision_;
        changed |= !before.same_for_workers(ni->policy);
      }
      net.policy = policy_.of_peer_net(net.net);
    }
    if (changed) peers.touch(peer);
  }
  walking_ = next != all.end();
  next_peer_ = walking_ ? next->first : 0;
  walking_ ? timer_.set_now() : timer_.stop();
  return 1;
}

}  // namespace ulnet
