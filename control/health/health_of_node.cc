#include "control/health/health_of_node.h"

#include <fmt/format.h>

#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

HealthRules rules_of(const Control& c) {
  const config::Global& global = c.desired.global;
  return {global.health_sensitivity, global.recovery_limit, global.max_recovery_ping_interval,
          c.desired.ulnet.fast_detection};
}

/// An NI that falls to 0, or is whole again, is news for peers, as a link that goes or comes (docs/wire/lnet.md §4.5;
/// docs/decisions.md #91).
void ni_changed(Control& c, LocalNi& ni, const HealthChange& change) {
  c.dirty.health = true;
  if (change.usable()) c.peers->nis_changed();
  if (change.status) {
    c.dirty.ping = true;
    if (!c.routing->advertised()) c.nis->bump_sequence();
  }
  if (change.status) return c.events->ni(ni, fmt::format("health {}: {}", ni.health.value(), change.reason));
  if (change.reason_matters())
    c.log_limited(JournalCause::kHealth, fmt::format("{}: health {}, before {}: {}", nid_text(ni.nid),
                                                     ni.health.value(), change.before, change.reason));
}

void peer_changed(Control& c, PeerNi& ni, const HealthChange& change) {
  c.peers->touch(*ni.peer);
  if (change.usable()) return c.events->peer_ni(ni, fmt::format("health {}: {}", ni.health.value(), change.reason));
  if (change.reason_matters())
    c.log_limited(JournalCause::kHealth, fmt::format("peer NI {}: health {}, before {}: {}", nid_text(ni.nid),
                                                     ni.health.value(), change.before, change.reason));
}

}  // namespace

void make_health(Control& c) {
  Health::Deps deps{*c.nis, *c.peers, *c.outbox, *c.self_submitter, {}, {}, {}, {}, {}};
  deps.rules = [&c] { return rules_of(c); };
  deps.routes = [&c](const Peer& peer) {
    return c.routing->state() != RoutingState::kDisabled || c.routes->is_gateway(peer);
  };
  deps.connect_again = [&c](const Nid& peer) {
    for (const LocalNi* ni : c.nis->on_net(peer.net())) c.lnds[ni->lnd]->connect_again(ni->id, peer, c.now);
  };
  deps.ni_changed = [&c](LocalNi& ni, const HealthChange& change) { ni_changed(c, ni, change); };
  deps.peer_changed = [&c](PeerNi& ni, const HealthChange& change) { peer_changed(c, ni, change); };
  c.health = std::make_unique<Health>(std::move(deps), c.timers);
  c.peers->set_ready([&c](PeerNi& ni) { c.health->follow(ni, c.now); });
  RailProbes::Deps probes{*c.nis, *c.peers, *c.self_submitter, *c.health, {}, {}};
  probes.gateway = [&c](const Peer& peer) { return c.routes->is_gateway(peer); };
  probes.ask_moved = [&c](const LocalNi& ni, const PeerNi& peer_ni) {
    c.outbox->send(peer_ni.server, MovedAskMsg{ni.id, peer_ni.id, uint16_t(ni.lnd)});
  };
  c.rail_probes = std::make_unique<RailProbes>(std::move(probes), c.timers);
  CutOff::Deps routes{*c.nis, *c.peers, c.deps.devices, {}, {}, {}};
  routes.wanted = [&c] {
    const HealthRules rules = rules_of(c);
    return rules.fast && rules.sensitivity > 0;
  };
  routes.by_ip = [&c](const LocalNi& ni) { return c.nis->type_of(ni).by_ip; };
  routes.changed = [&c](PeerNi& ni) { c.health->cut_off_changed(ni, c.now); };
  c.cut_off = std::make_unique<CutOff>(std::move(routes), c.timers);
}

}  // namespace ulnet
