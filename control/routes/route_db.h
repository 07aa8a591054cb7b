// Routes: which gateway leads to which remote net, and whether the route is alive, as far as control can see. Thread:
// control. Gateways are peers. router_checker.h and the drivers find out whether a gateway is alive; RouteDb decides
// what that means for a route (docs/wire/lnet.md §8.6). RouteDb forwards nothing: routing.h and the workers do.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "config/model.h"
#include "config/problem.h"
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "dataplane/base/rng.h"
#include "dataplane/state/view.h"

namespace ulnet {

/// The criterion of docs/wire/lnet.md §8.6 that a route fails, the first in their order.
enum class RouteFault : uint8_t {
  kNone,         ///< alive
  kNoPeer,       ///< no peer has the gateway's NID
  kCheckFailed,  ///< the gateway did not answer its last check over its net
  kNotTried,     ///< RouteRules::tried_first, and the gateway was not checked yet
  kNearSide,     ///< no NI of the gateway on its net is up
  kNotRouting,   ///< the gateway reports that it does not route
  kHealth,       ///< all NIs of the gateway on its net are below RouteRules::sensitivity
  kFarSide       ///< the gateway reports no NI on the remote net that is up
};

struct Route {
  uint32_t id = 0;  ///< dense: the least number that no other route has
  config::RouteConfig config;
  /// `fault` is kNone; or it is kHealth, and no route to the net is without fault.
  bool alive = true;
  RouteFault fault = RouteFault::kNone;
  /// The same net and gateway.
  [[nodiscard]] bool is(const config::RouteConfig& other) const {
    return config.net == other.net && config.gateway == other.gateway;
  }
};

/// Settings that decide, together with the state of the gateways, whether a route is alive.
struct RouteRules {
  bool avoid_asym = true;     ///< avoid_asym_router_failure: the gateway's far side must be up, too
  bool tried_first = false;   ///< check_routers_before_use: dead until its first check
  int64_t sensitivity = 100;  ///< router_sensitivity: percent of the whole health that an NI of a gateway needs
  bool operator==(const RouteRules&) const = default;
};

class RouteDb {
 public:
  RouteDb(LocalNis& nis, PeerDb& peers, Rng& rng) : nis_(nis), peers_(peers), rng_(rng) {}

  /// Errors: EEXIST (the net is local, or there is such a route), EHOSTUNREACH (gateway on no local net), EINVAL (the
  /// gateway is this node). Also ENOSPC (kRoutesMax) and ENOMEM. Source: docs/wire/lnet.md §8.6. Several routes may
  /// name NIDs of one gateway (docs/decisions.md #6).
  [[nodiscard]] config::Checked<void> add(const config::RouteConfig& config);
  /// Errors: ENOENT.
  [[nodiscard]] config::Checked<void> remove(Net net, const Nid& gateway);
  /// Deletes routes whose gateway is on no local net any more; returns them.
  std::vector<config::RouteConfig> remove_unreachable();
  /// Adds the routes of `before` that are missing, and restores the order of `before`.
  void restore(const std::vector<Route>& before);
  [[nodiscard]] bool has(Net net, const Nid& gateway) const;
  void clear();

  void set_rules(const RouteRules& rules);
  /// Looks again at the gateways' liveness; true when a route changed.
  bool refresh();
  /// True when some route leads to the net, alive or not.
  [[nodiscard]] bool reaches(Net net) const;
  [[nodiscard]] bool is_gateway(const Peer& peer) const;
  [[nodiscard]] bool is_gateway(const Nid& nid) const { return gateways_.contains(nid); }
  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }
  [[nodiscard]] std::shared_ptr<const RouteTable> view() const;
  /// Grows with every change of view().
  [[nodiscard]] uint64_t revision() const { return revision_; }
  /// Grows with every route that comes or goes, and with every change of Route::fault.
  [[nodiscard]] uint64_t fault_revision() const { return revision_ + faults_changed_; }

 private:
  [[nodiscard]] const Peer* peer_of(const Nid& gateway);
  [[nodiscard]] RouteFault fault_of(const Route& route);
  [[nodiscard]] uint32_t free_id() const;
  void forget(size_t index);

  LocalNis& nis_;
  PeerDb& peers_;
  Rng& rng_;
  RouteRules rules_;
  std::vector<Route> routes_;
  std::unordered_map<Nid, unsigned, NidHash> gateways_;  // routes through each
  uint64_t revision_ = 0;
  uint64_t faults_changed_ = 0;
};

}  // namespace ulnet
