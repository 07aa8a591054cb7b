#include "control/policy/preview.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ulnet {
namespace {

/// The ids of a list in order of preference; of equal ranks, in the order of the list.
std::vector<uint32_t> by_rank(const PolicyList& policy) {
  if (policy.list == nullptr) return {};
  std::vector<Preferences::One> sorted = policy.list->all;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::vector<uint32_t> ids;
  for (const Preferences::One& one : sorted) ids.push_back(one.id);
  return ids;
}

/// Follows the objects of both policies; their lists refer to these.
void follow(Policy& policy, LocalNis& nis, PeerDb& peers, const RouteDb& routes) {
  PolicyObjects objects = policy_objects(policy, nis, peers, routes);
  if (objects != policy.objects()) policy.set_objects(std::move(objects));
}

}  // namespace

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

std::vector<Nid> preferred_sources(const PolicyList& policy, const PolicyObjects& objects) {
  std::vector<Nid> nids;
  for (const uint32_t id : by_rank(policy))
    for (const PolicyObjects::Source& one : objects.sources)
      if (one.ni.value == id) nids.push_back(one.nid);
  return nids;
}

std::vector<Nid> preferred_gateways(const PolicyList& policy, const PolicyObjects& objects) {
  std::vector<Nid> nids;
  for (const uint32_t id : by_rank(policy))
    for (const PolicyObjects::Gateway& one : objects.gateways)
      if (one.peer == id) nids.push_back(one.primary);
  return nids;
}

PolicyPreview::PolicyPreview(std::span<const config::UdspRule> now, std::span<const config::UdspRule> then)
    : now_(now, {}), then_(then, {}) {}

bool PolicyPreview::turn(LocalNis& nis, PeerDb& peers, const RouteDb& routes, std::vector<PolicyChange>& changes) {
  follow(now_, nis, peers, routes);
  follow(then_, nis, peers, routes);
  if (!std::exchange(local_done_, true)) local(nis, changes);
  const auto& all = peers.peers();
  auto next = all.lower_bound(next_peer_);
  for (size_t cost = 0; next != all.end() && cost < kPolicyBudget; ++next) {
    cost += next->second->ni_count() * (now_.peer_rules() + then_.peer_rules() + 1);
    peer(*next->second, changes);
  }
  if (next == all.end()) return false;
  next_peer_ = next->first;
  return true;
}

void PolicyPreview::local(LocalNis& nis, std::vector<PolicyChange>& changes) {
  for (LocalNis::LocalNet& net : nis.nets()) {
    PolicyChange one{.kind = PolicyChange::Kind::kLocalNet, .net = net.net};
    one.priority_before = now_.of_local_net(net.net);
    one.priority_after = then_.of_local_net(net.net);
    if (one.priority_before.priority != one.priority_after.priority) changes.push_back(one);
    for (const LocalNi& ni : net.nis) {
      PolicyChange its{.kind = PolicyChange::Kind::kLocalNi, .net = net.net, .nid = ni.nid};
      its.priority_before = now_.of_local_ni(ni.nid);
      its.priority_after = then_.of_local_ni(ni.nid);
      if (its.priority_before.priority != its.priority_after.priority) changes.push_back(its);
    }
  }
}

void PolicyPreview::peer(const Peer& peer, std::vector<PolicyChange>& changes) {
  const Nid& primary = peer.primary().nid;
  for (const PeerNet& net : peer.nets) {
    PolicyChange one{.kind = PolicyChange::Kind::kPeerNet, .peer = primary, .net = net.net};
    one.priority_before = now_.of_peer_net(net.net);
    one.priority_after = then_.of_peer_net(net.net);
    if (one.priority_before.priority != one.priority_after.priority) changes.push_back(one);
    for (const PeerNi* ni : net.nis) {
      const PeerNiPolicy before = now_.of_peer_ni(ni->nid), after = then_.of_peer_ni(ni->nid);
      if (before.same_for_workers(after)) continue;
      PolicyChange& its = changes.emplace_back();
      its = {.kind = PolicyChange::Kind::kPeerNi, .peer = primary, .net = net.net, .nid = ni->nid};
      its.priority_before = before.priority;
      its.priority_after = after.priority;
      its.sources_before = preferred_sources(before.sources, now_.objects());
      its.sources_after = preferred_sources(after.sources, then_.objects());
      its.gateways_before = preferred_gateways(before.gateways, now_.objects());
      its.gateways_after = preferred_gateways(after.gateways, then_.objects());
    }
  }
}

}  // namespace ulnet
