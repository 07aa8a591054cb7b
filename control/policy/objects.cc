#include "control/policy/objects.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ulnet {
namespace {

using Source = PolicyObjects::Source;
using Gateway = PolicyObjects::Gateway;

// An NI that is being deleted gets no new messages, so no list names it.
std::vector<Source> sources_of(LocalNis& nis) {
  std::vector<Source> sources;
  for (const LocalNi* ni : nis.all())
    if (!ni->going()) sources.push_back({ni->id, ni->nid, ni->fatal, ni->health.value()});
  return sources;
}

std::vector<Gateway> gateways_of(PeerDb& peers, const RouteDb& routes) {
  std::map<uint32_t, Gateway> found;
  for (const Route& route : routes.routes()) {
    const PeerNi* ni = peers.find(route.config.gateway);
    if (ni == nullptr) continue;
    const Nid& primary = ni->peer->primary().nid;
    Gateway& one = found.try_emplace(ni->peer->id, Gateway{ni->peer->id, primary, {primary}}).first->second;
    if (std::find(one.nids.begin(), one.nids.end(), ni->nid) == one.nids.end()) one.nids.push_back(ni->nid);
  }
  std::vector<Gateway> gateways;
  for (auto& [id, one] : found) gateways.push_back(std::move(one));
  return gateways;
}

}  // namespace

bool PolicyFollower::gateways_seen(const Policy& policy, const PolicyTables& tables) const {
  return !policy.lists_gateways() || (routes_ == tables.routes.revision() && peers_ == tables.peers.gateway_revision());
}

PolicyFollower::Change PolicyFollower::follow(Policy& policy, const PolicyTables& tables) {
  const PolicyObjects& is = policy.objects();
  std::vector<Source> sources = sources_of(tables.nis);
  std::vector<Gateway> gateways;
  const bool seen = gateways_seen(policy, tables);
  if (!seen) gateways = gateways_of(tables.peers, tables.routes);
  const bool same_sources = sources == is.sources, same_gateways = seen || gateways == is.gateways;
  const bool same_nis = std::equal(sources.begin(), sources.end(), is.sources.begin(), is.sources.end(),
                                   [](const Source& a, const Source& b) { return a.ni == b.ni; });
  if (!same_sources || !same_gateways) policy.set_objects(std::move(sources), seen ? nullptr : &gateways);
  if (!seen) {
    routes_ = tables.routes.revision();
    peers_ = tables.peers.gateway_revision();
  }
  if (!same_gateways || (!same_nis && policy.lists_sources())) return Change::kLists;
  return same_sources ? Change::kNone : Change::kState;
}

}  // namespace ulnet
