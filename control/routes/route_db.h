// Routes: which gateway leads to which remote net, and whether it is alive as far as this node knows. Thread: control.
// Gateways are peers (docs/wire/lnet.md §8.5); until discovery watches them, a route is alive unless the gateway's
// driver said that it cannot be reached, and is tried again after a while (peers/peer_db.h, Liveness). It forwards
// nothing: that is routing.h and the workers.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "config/model.h"
#include "control/nis/local_nis.h"
#include "control/peers/peer_db.h"
#include "control/text_error.h"
#include "dataplane/base/rng.h"
#include "dataplane/worker/view.h"

namespace ulnet {

struct Route {
  uint32_t id = 0;  ///< dense: the least number that no other route has
  config::RouteConfig config;
  bool alive = true;
};

class RouteDb {
 public:
  RouteDb(LocalNis& nis, PeerDb& peers, Rng& rng) : nis_(nis), peers_(peers), rng_(rng) {}

  /// Errors: EEXIST (the net is local, or there is such a route), EHOSTUNREACH (gateway on no local net), EINVAL
  /// (the gateway is this node), ENOSPC (kRoutesMax), ENOMEM (docs/wire/lnet.md §8.6).
  [[nodiscard]] TextResult<void> add(const config::RouteConfig& config);
  /// Errors: ENOENT.
  [[nodiscard]] TextResult<void> remove(Net net, const Nid& gateway);
  /// Deletes routes whose gateway is on no local net any more; returns them.
  std::vector<config::RouteConfig> remove_unreachable();
  void clear();

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

 private:
  [[nodiscard]] const Peer* peer_of(const Nid& gateway);
  [[nodiscard]] uint32_t free_id() const;
  void forget(size_t index);

  LocalNis& nis_;
  PeerDb& peers_;
  Rng& rng_;
  std::vector<Route> routes_;
  std::unordered_map<Nid, unsigned, NidHash> gateways_;  // routes through each
  uint64_t revision_ = 0;
};

}  // namespace ulnet
