// Part of Applier: changes that need no work, because they are in force already or are not for this node. Also the
// undoing of a list that fails.
#include <fmt/format.h>

#include <algorithm>

#include "control/api/show_values.h"
#include "control/apply/applier.h"
#include "control/health/health.h"
#include "control/turn.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {

// docs/decisions.md: the changes of a file may be in force already, all or some of them.
bool Applier::is_in_force(const config::PlacedChange& placed) {
  if (placed.origin.file.empty()) return false;
  if (const auto* net = std::get_if<config::NetAdd>(&placed.change)) return is_in_force(*net);
  if (const auto* route = std::get_if<config::RouteAdd>(&placed.change))
    return std::find(c_.desired.routes.begin(), c_.desired.routes.end(), route->route) != c_.desired.routes.end();
  return false;
}

// A file may come from an export, which also prints values that were never set. So values of the file are compared with
// the effective values of the NI.
bool Applier::is_in_force(const config::NetAdd& change) {
  const config::NiConfig& wanted = change.ni;
  const auto named = [&](const config::NiConfig& ni) {
    return wanted.nid ? wanted.nid == ni.nid : !wanted.interface.empty() && wanted.interface == ni.interface;
  };
  for (const LocalNi* ni : c_.nis->on_net(change.net)) {
    config::NiConfig is = ni->config;
    is.nid = ni->nid;
    is.interface = ni->params.interface;
    if (!named(is)) continue;
    const auto shown = c_.nis->tunables_in_force(*ni);
    for (const auto& [key, value] : wanted.lnd_tunables)
      if (!shown.contains(key) || shown.at(key) != value) return false;
    for (const auto& [key, value] : ni->config.lnd_tunables)
      if (!wanted.lnd_tunables.contains(key)) return false;
    const bool cpts = wanted.cpts == ni->config.cpts || wanted.cpts == groups_of(*ni, c_.nis->groups());
    const bool interface = wanted.interface.empty() || wanted.interface == is.interface;
    return cpts && interface && wanted.tunables == is.tunables;
  }
  const auto& waiting = c_.nis->waiting();
  return std::any_of(waiting.begin(), waiting.end(), [&](const WaitingNi& one) {
    config::NiConfig is = one.config;
    if (is.cpts.empty() && wanted.cpts == c_.nis->groups().all()) is.cpts = wanted.cpts;  // a backup names all groups
    return one.net == change.net && named(one.config) && is == wanted;
  });
}

bool Applier::is_own(const Nid& nid, const std::vector<Nid>& others) const {
  return c_.nis->find(nid) != nullptr ||
         std::any_of(others.begin(), others.end(), [&](const Nid& one) { return c_.nis->find(one) != nullptr; });
}

// docs/decisions.md: one file may list all nodes and routes of a cluster. The entry of this node, and routes to its own
// nets, were skipped when the file was imported, so there is nothing to delete.
bool Applier::is_not_for_here(const config::PlacedChange& placed) const {
  if (placed.origin.file.empty()) return false;
  if (const auto* peer = std::get_if<config::PeerDel>(&placed.change)) return is_own(peer->primary, peer->nids);
  const auto* route = std::get_if<config::RouteDel>(&placed.change);
  const auto& nets = c_.desired.nets;
  return route != nullptr && !c_.routes->has(route->net, route->gateway) &&
         std::any_of(nets.begin(), nets.end(), [&](const auto& one) { return one.net == route->net; });
}

bool Applier::skips(Job& job, const config::PeerAdd& change) {
  const Nid& primary = change.peer.primary;
  if (job.changes[job.next].origin.file.empty() || !is_own(primary, change.peer.nids)) return false;
  const auto is_it = [&](const config::PeerConfig& one) { return one.primary == primary; };
  if (std::none_of(job.before.peers.begin(), job.before.peers.end(), is_it)) std::erase_if(job.after.peers, is_it);
  note(job, fmt::format("peer {} is skipped: it is this node", nid_text(primary)));
  return true;
}

bool Applier::skips(Job& job, const config::RouteAdd& change) {
  const auto& routes = job.after.routes;
  if (job.changes[job.next].origin.file.empty()) return false;
  if (std::find(routes.begin(), routes.end(), change.route) != routes.end()) return false;
  note(job, fmt::format("the route to {} through {} is skipped: this node is on {} itself", net_text(change.route.net),
                        nid_text(change.route.gateway), net_text(change.route.net)));
  return true;
}

// An NI that has not begun to close stays. An NI that closes is added again when it has left, at its old place.
bool Applier::undo_all(Job& job) {
  const bool changed = job.next > 0 || !job.undo.empty();
  for (; !job.undo.empty(); job.undo.pop_back())
    if (!job.undo.back()()) return false;
  if (!all_left(job)) return false;
  if (!changed) return true;
  c_.desired = job.before;
  c_.nis->reorder(job.order);
  nis_changed(c_);
  c_.routes->restore(job.routes);
  c_.desired = std::move(job.before);
  c_.dirty.node = true;
  return true;
}

/// Undoes the deletion of an NI. False: the NI closes, and can be added again only after it has left.
bool Applier::ni_back(NiId id, Net net, const config::NiConfig& config, const HealthValue& health) {
  if (LocalNi* ni = c_.nis->find(id)) {
    if (ni->closing) return false;
    c_.nis->stay(*ni);
    c_.health->follow(*ni, now_);
    nis_changed(c_);
    return true;
  }
  if (auto added = ni_add(net, config, c_.desired)) {
    (*added)->health = health;
    c_.health->follow(**added, now_);
  } else {
    c_.log("the changes failed, and an NI that was taken down for them cannot be added again: " + added.error().what);
  }
  return true;
}

/// To call before a change of the peer. When the change is undone, the peers that have these NIDs now get them again.
void Applier::undo_peers(Job& job, const Nid& primary, const std::vector<Nid>& nids) {
  std::vector<Nid> all = nids;
  all.push_back(primary);
  job.undo.push_back([this, primary, memos = c_.peers->remember(all)] {
    if (PeerNi* ni = c_.peers->find(primary)) c_.peers->forget(*ni->peer);
    for (const PeerMemo& memo : memos) {
      c_.peers->restore(memo);
      for (const PeerMemo::Ni& one : memo.nis)
        if (PeerNi* ni = c_.peers->find(one.nid)) c_.health->follow(*ni, now_);
    }
    c_.peers->configuration_freed();
    return true;
  });
}

}  // namespace ulnet
