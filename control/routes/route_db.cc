#include "control/routes/route_db.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "dataplane/base/check.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// The best health of the gateway's NIs on this net that are not down; -1: all are down.
int near_side_health(const Peer& gateway, Net net) {
  int best = -1;
  for (const PeerNet& one : gateway.nets)
    for (const PeerNi* ni : one.nis)
      if (one.net == net && !ni->life.down && !ni->known_down()) best = std::max<int>(best, ni->health.value());
  return best;
}

/// True if the gateway reports an NI on this net that is not down.
bool far_side_alive(const Peer& gateway, Net net) {
  return std::any_of(gateway.gateway.said.begin(), gateway.gateway.said.end(),
                     [&](const wire::PingNi& one) { return one.nid.net() == net && one.status != wire::kNiDown; });
}

bool knows_net(const Peer& gateway, Net net) {
  return std::any_of(gateway.gateway.said.begin(), gateway.gateway.said.end(),
                     [&](const wire::PingNi& one) { return one.nid.net() == net; });
}

}  // namespace

const Peer* RouteDb::peer_of(const Nid& gateway) {
  const PeerNi* ni = peers_.find(gateway);
  return ni == nullptr ? nullptr : ni->peer;
}

uint32_t RouteDb::free_id() const {
  std::vector<bool> used(routes_.size() + 1);
  for (const Route& route : routes_)
    if (route.id < used.size()) used[route.id] = true;
  return uint32_t(std::find(used.begin(), used.end(), false) - used.begin());
}

config::Checked<void> RouteDb::add(const config::RouteConfig& config) {
  if (nis_.net_local(config.net)) {
    return config::fail(EEXIST,
                        fmt::format("Route already exists or the specified network is local: this node is on {}",
                                    net_text(config.net)));
  }
  if (!nis_.net_local(config.gateway.net())) {
    return config::fail(
        EHOSTUNREACH,
        fmt::format("No interface configured on the same net as gateway: add an NI on {} before the route through {}",
                    net_text(config.gateway.net()), nid_text(config.gateway)));
  }
  if (nis_.find(config.gateway) != nullptr)
    return config::fail(EINVAL,
                        fmt::format("invalid settings for route creation: {} is this node", nid_text(config.gateway)));
  if (routes_.size() >= kRoutesMax) return config::fail(ENOSPC, "too many routes");
  if (has(config.net, config.gateway))
    return config::fail(EEXIST, fmt::format("Route already exists or the specified network is local: {} through {}",
                                            net_text(config.net), nid_text(config.gateway)));
  auto gateway = peers_.find_or_create(config.gateway, kAnyNid);
  if (!gateway) return config::fail(gateway.error().code, gateway.error().what);
  // At a random place, so that equal routes are not tried in the same order by every node.
  const auto place = routes_.begin() + std::ptrdiff_t(rng_.below(routes_.size() + 1));
  const auto made = routes_.insert(place, Route{free_id(), config});
  made->fault = fault_of(*made);
  made->alive = made->fault == RouteFault::kNone || made->fault == RouteFault::kHealth;
  ++gateways_[config.gateway];
  peers_.touch(*(*gateway)->peer);
  ++revision_;
  return {};
}

void RouteDb::forget(size_t index) {
  ULNET_CHECK(index < routes_.size());
  const Nid gateway = routes_[index].config.gateway;
  routes_.erase(routes_.begin() + std::ptrdiff_t(index));
  const auto count = gateways_.find(gateway);
  ULNET_CHECK(count != gateways_.end() && count->second > 0);
  if (--count->second == 0) gateways_.erase(count);
  if (PeerNi* ni = peers_.find(gateway)) peers_.touch(*ni->peer);
  peers_.configuration_freed();
  ++revision_;
}

void RouteDb::restore(const std::vector<Route>& before) {
  for (const Route& route : before)
    if (!has(route.config.net, route.config.gateway)) (void)add(route.config);
  const auto place = [&](const Route& one) {
    return std::find_if(before.begin(), before.end(), [&](const Route& was) { return was.is(one.config); }) -
           before.begin();
  };
  std::stable_sort(routes_.begin(), routes_.end(), [&](const Route& a, const Route& b) { return place(a) < place(b); });
  ++revision_;
}

bool RouteDb::has(Net net, const Nid& gateway) const {
  return std::any_of(routes_.begin(), routes_.end(),
                     [&](const Route& one) { return one.config.net == net && one.config.gateway == gateway; });
}

config::Checked<void> RouteDb::remove(Net net, const Nid& gateway) {
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (routes_[i].config.net != net || routes_[i].config.gateway != gateway) continue;
    forget(i);
    return {};
  }
  return config::fail(
      ENOENT, fmt::format("failed to delete route: there is none to {} through {}", net_text(net), nid_text(gateway)));
}

std::vector<config::RouteConfig> RouteDb::remove_unreachable() {
  std::vector<config::RouteConfig> removed;
  for (size_t i = 0; i < routes_.size();) {
    if (nis_.net_local(routes_[i].config.gateway.net())) {
      ++i;
      continue;
    }
    removed.push_back(routes_[i].config);
    forget(i);
  }
  return removed;
}

void RouteDb::clear() {
  while (!routes_.empty()) forget(routes_.size() - 1);
}

// docs/wire/lnet.md §8.6. A gateway that has reported nothing yet counts as alive, unless RouteRules::tried_first is
// set.
RouteFault RouteDb::fault_of(const Route& route) {
  const Peer* gateway = peer_of(route.config.gateway);
  if (gateway == nullptr) return RouteFault::kNoPeer;
  if (!gateway->gateway.alive(route.config.gateway.net())) return RouteFault::kCheckFailed;
  if (rules_.tried_first && !gateway->has(kPeerRtrDiscovered)) return RouteFault::kNotTried;
  const int health = near_side_health(*gateway, route.config.gateway.net());
  if (health < 0) return RouteFault::kNearSide;
  const RouteFault ill = health * 100 < rules_.sensitivity * kHealthMax ? RouteFault::kHealth : RouteFault::kNone;
  if (gateway->gateway.said.empty()) return ill;
  const bool single_hop = route.config.hop == 1 || knows_net(*gateway, route.config.net);
  if (!gateway->has(kPeerRouterEnabled)) return RouteFault::kNotRouting;
  const bool far = !rules_.avoid_asym || !single_hop || far_side_alive(*gateway, route.config.net);
  return far ? ill : RouteFault::kFarSide;
}

void RouteDb::set_rules(const RouteRules& rules) {
  if (rules == rules_) return;
  rules_ = rules;
  refresh();
}

bool RouteDb::refresh() {
  std::vector<RouteFault> faults;
  std::set<Net> well;  // nets to which a route without fault leads
  for (const Route& route : routes_) {
    faults.push_back(fault_of(route));
    if (faults.back() == RouteFault::kNone) well.insert(route.config.net);
  }
  bool changed = false;
  for (size_t i = 0; i < routes_.size(); ++i) {
    Route& route = routes_[i];
    faults_changed_ += std::exchange(route.fault, faults[i]) != faults[i];
    const bool last_resort = faults[i] == RouteFault::kHealth && !well.contains(route.config.net);
    const bool alive = faults[i] == RouteFault::kNone || last_resort;
    changed |= std::exchange(route.alive, alive) != alive;
  }
  if (changed) ++revision_;
  return changed;
}

bool RouteDb::reaches(Net net) const {
  return std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) { return route.config.net == net; });
}

bool RouteDb::is_gateway(const Peer& peer) const {
  if (gateways_.empty()) return false;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis)
      if (gateways_.contains(ni->nid)) return true;
  return false;
}

std::shared_ptr<const RouteTable> RouteDb::view() const {
  auto table = std::make_shared<RouteTable>();
  for (const Route& route : routes_) {
    auto at = std::lower_bound(table->nets.begin(), table->nets.end(), route.config.net,
                               [](const RouteNetView& one, Net net) { return one.remote < net; });
    if (at == table->nets.end() || at->remote != route.config.net)
      at = table->nets.insert(at, RouteNetView{route.config.net, {}});
    at->routes.push_back(
        {route.config.gateway, int32_t(route.config.hop), uint32_t(route.config.priority), route.alive, route.id});
  }
  return table;
}

}  // namespace ulnet
