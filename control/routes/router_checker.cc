#include "control/routes/router_checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// Time between two looks at the gateways when no check is due: NIs come and go.
constexpr Duration kLook = 1s;
/// Bound of the doublings of kRouterRetryMin: more than any interval needs.
constexpr unsigned kDoublingsMax = 30;

}  // namespace

void RouterChecker::set_interval(Duration interval) {
  if (interval == interval_) return;
  interval_ = interval;
  next_.set_now();
}

void RouterChecker::hurry(const PeerNi& ni, bool up) {
  if (ni.peer == nullptr || interval_ <= Duration::zero()) return;
  const auto found = times_.find({ni.peer->id, ni.nid.net()});
  if (found == times_.end() || found->second.under_way) return;
  if (up == (found->second.failures == 0)) return;
  found->second.at_once = true;
  next_.set_now();
}

Instant RouterChecker::due(const Times& times) const {
  if (times.at_once) return kNever;
  Duration wait = interval_;
  if (times.failures > 0)
    wait = std::min<Duration>(wait, kRouterRetryMin * (1u << std::min(times.failures - 1, kDoublingsMax)));
  return times.started + wait;
}

void RouterChecker::find_gateways() {
  for (auto& [key, times] : times_) times.wanted = false;
  for (const Route& route : deps_.routes.routes()) {
    const Nid& nid = route.config.gateway;
    const auto gateway = deps_.peers.find_or_create(nid, kAnyNid);
    if (!gateway) {
      if (missing_.insert(nid).second && deps_.log)
        deps_.log(fmt::format("gateway {} is not checked: {}", nid_text(nid), gateway.error().what));
      continue;
    }
    missing_.erase(nid);
    for (const PeerNet& net : (*gateway)->peer->nets)
      if (deps_.nis.net_local(net.net)) times_[{(*gateway)->peer->id, net.net}].wanted = true;
  }
  std::erase_if(times_, [](const auto& one) { return !one.second.wanted; });
}

unsigned RouterChecker::turn(Instant now) {
  if (deps_.routes.revision() == routes_seen_ && !next_.due(now)) return 0;
  routes_seen_ = deps_.routes.revision();
  find_gateways();
  next_.stop();
  if (times_.empty() || interval_ <= Duration::zero()) return 0;
  next_.set(now + kLook);
  unsigned begun = 0;
  for (auto& [key, times] : times_) {
    Peer& peer = *deps_.peers.find_peer(key.first);
    if (peer.has(kPeerRtrDiscovery)) continue;  // the nets of a gateway are checked one after the other
    if (std::exchange(times.under_way, false)) times.failures = peer.gateway.alive(key.second) ? 0 : times.failures + 1;
    if (now < due(times)) {
      next_.set_by(due(times));
      continue;
    }
    times.started = now;
    times.at_once = false;
    times.under_way = true;
    deps_.check(peer, key.second);
    ++begun;
  }
  return begun;
}

void RouterChecker::stop() {
  times_.clear();
  next_.stop();
}

bool RouterChecker::all_tried() const {
  if (interval_ <= Duration::zero()) return true;
  const auto& routes = deps_.routes.routes();
  return std::all_of(routes.begin(), routes.end(), [&](const Route& route) {
    const PeerNi* gateway = deps_.peers.find(route.config.gateway);
    return gateway == nullptr || gateway->peer->has(kPeerRtrDiscovered);
  });
}

}  // namespace ulnet
