#include "control/api/show_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "control/discovery/runner.h"
#include "control/turn.h"

namespace ulnet {
namespace {

InterfaceTotals raw_totals(const LocalNi& ni) {
  InterfaceTotals totals;
  for (const auto& slice : ni.slices) totals.add(slice->counters);
  return totals;
}

InterfaceTotals raw_totals(const PeerNi& ni) {
  InterfaceTotals totals;
  if (ni.blocks == nullptr) return totals;
  totals.add(ni.blocks->slice.counters);
  for (const PeerLocal* local : ni.blocks->by_worker) totals.add(local->latencies);
  return totals;
}

NodeTotals raw_totals(const Control& c) {
  NodeTotals totals;
  for (const auto& worker : c.workers) totals.add(worker->counters);
  return totals;
}

// The states of the state machines in the documents of Multi-Rail (figures 10, 11 and 13), derived from what control
// knows: words to show, nothing decides by them. A peer's (figure 12) is discovery_state().

/// created, failed (its link is down, or its health is 0), degraded (its link is slower than its device can), deleting.
/// Of an NI that waits for its interface: init.
const char* ni_state(const LocalNi& ni) {
  if (ni.going()) return "deleting";
  if (!ni.usable()) return "failed";
  return ni.degraded() ? "degraded" : "created";
}

std::string speed_text(const LinkSpeed& speed) {
  return fmt::format("{} of {} Mbit/s", speed.mbps, speed.best_mbps);
}

/// active, in-active (no NI of it can carry messages), deleting.
const char* net_state(const LocalNis::LocalNet& net) {
  const auto all = [&](auto&& holds) { return std::all_of(net.nis.begin(), net.nis.end(), holds); };
  if (all([](const LocalNi& ni) { return ni.going(); })) return "deleting";
  return all([](const LocalNi& ni) { return ni.going() || !ni.usable(); }) ? "in-active" : "active";
}

/// Neither reported as down nor without health.
bool works(const PeerNi& ni) {
  return !ni.life.down && !ni.known_down() && ni.health.value() > 0;
}

/// created (nothing was sent to it), activating (the first message is under way), connected, failed.
const char* peer_ni_state(const PeerNi& ni) {
  if (!works(ni)) return "failed";
  if (ni.blocks == nullptr) return "created";
  const PeerSlice& slice = ni.blocks->slice;
  uint64_t through = 0;
  for (const Counter& count : slice.counters[NiTraffic::kSent]) through += count.get();
  for (const Counter& count : slice.counters[NiTraffic::kReceived]) through += count.get();
  if (through > 0) return "connected";
  return slice.tx_queued_bytes.get() > 0 ? "activating" : "created";
}

}  // namespace

std::string discovery_letters(const Peer& peer, uint32_t sequence) {
  std::string letters;
  const auto add = [&](bool holds, char letter) {
    if (holds) letters += letter;
  };
  add(peer.discovery.node_seqno >= sequence, 'L');
  add(peer.has(kPeerNidsUptodate), 'P');
  add(peer.has(kPeerMultiRail), 'M');
  add(peer.has(kPeerDataPresent), 'D');
  add(peer.has(kPeerPingSent), 'R');
  add(peer.has(kPeerPushSent), 'A');
  add(peer.has(kPeerDiscovering), 'Q');
  add(peer.has(kPeerConfigured), 'C');
  add(peer.discovery.resize, 'S');
  return letters;
}

const char* discovery_state(const Peer& peer) {
  if (peer.has(kPeerDataPresent)) return "data received";
  if (peer.has(kPeerPushSent)) return "push sent";
  if (peer.has(kPeerPingSent) && !peer.has(kPeerNidsUptodate)) return "ping sent";
  if (peer.has(kPeerDiscovering)) return "discover";
  bool any_up = false;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) any_up |= works(*ni);
  if (!any_up) return "inactive";
  return peer.has(kPeerDiscovered) ? "active" : "init";
}

std::vector<uint16_t> groups_of(const LocalNi& ni, const WorkerGroups& groups) {
  if (!ni.config.cpts.empty()) return ni.config.cpts;
  std::vector<uint16_t> found;
  for (WorkerId worker : ni.workers) found.push_back(groups.group(worker));
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

namespace {

int64_t device_group(const LocalNi& ni, const WorkerGroups& groups) {
  for (size_t w = 0; ni.device_numa != UINT32_MAX && w < groups.numa_of.size(); ++w)
    if (groups.numa_of[w] == ni.device_numa) return groups.group(WorkerId{uint16_t(w)});
  return -1;
}

/// As lnetctl shows a priority; -1: none.
int64_t shown_priority(const PolicyPriority& policy) {
  return policy.priority == kNoPriority ? -1 : int64_t(policy.priority);
}

std::vector<Nid> nids_of(const std::vector<PreferredNid>& preferred) {
  std::vector<Nid> nids;
  for (const PreferredNid& one : preferred) nids.push_back(one.nid);
  return nids;
}

api::UdspInfo policies_of(Control& c, const LocalNi& ni) {
  const Policy& policy = c.policies->policy();
  return {shown_priority(policy.of_local_net(ni.net)), shown_priority(policy.of_local_ni(ni.nid)), {}, {}};
}

api::UdspInfo policies_of(Control& c, const PeerNet& net, const PeerNi& ni) {
  const PolicyObjects& objects = c.policies->policy().objects();
  return {shown_priority(net.policy), shown_priority(ni.policy.priority),
          nids_of(preferred_sources(ni.policy.sources, objects)),
          nids_of(preferred_gateways(ni.policy.gateways, objects))};
}

void health_set(api::HealthShow& show, const HealthValue& health, Instant now) {
  show.health_value = health.value();
  show.ping_count = health.pings();
  show.next_ping = health.next_ping() == kForever ? 0 : health.next_ping().time_since_epoch() / 1s;
  show.held = health.held();
  show.failure_rate = health.failure_rate(now);
}

api::LocalNiShow ni_value(Control& c, const LocalNi& ni) {
  const WorkerGroups& groups = c.nis->groups();
  api::LocalNiShow show;
  show.nid = ni.nid;
  show.up = ni.up();
  show.interface = ni.params.interface;
  show.counted = totals_of(ni);
  show.udsp = policies_of(c, ni);
  show.health.fatal_error = ni.fatal ? 1 : 0;
  health_set(show.health, ni.health, c.now);
  show.tunables = ni.config.tunables;
  show.lnd_tunables = c.nis->tunables_in_force(ni);
  show.dev_cpt = device_group(ni, groups);
  show.cpts = groups_of(ni, groups);
  show.state = ni_state(ni);
  if (ni.degraded()) show.speed = speed_text(ni.speed);
  show.in_use = c.nis->in_use(ni, untold(c), c.now);
  if (c.deps.devices != nullptr) show.warnings = c.deps.devices->advice(ni.nid);
  for (const ConnectionShow& one : c.lnds[ni.lnd]->connections(ni.id, kAnyNid)) {
    ++show.connections[one.state];
    for (const auto& [name, number] : one.numbers) show.connections[name] += number;
  }
  show.peer_faults = c.lnds[ni.lnd]->peer_faults(ni.id);
  return show;
}

api::LocalNiShow waiting_value(const WaitingNi& waiting) {
  api::LocalNiShow show;
  show.nid = waiting.config.nid.value_or(kAnyNid);
  show.interface = waiting.config.interface;
  show.state = "init";
  show.waits_for = waiting.why;
  show.tunables = waiting.config.tunables;
  show.lnd_tunables = waiting.config.lnd_tunables;
  show.cpts = waiting.config.cpts;
  return show;
}

api::PeerNiShow peer_ni_value(Control& c, const PeerNet& net, const PeerNi& ni, bool router) {
  api::PeerNiShow show;
  show.nid = ni.nid;
  const bool watched = router || c.routing->state() != RoutingState::kDisabled;
  if (watched) show.state = ni.life.down || ni.known_down() ? "down" : "up";
  show.ni_state = peer_ni_state(ni);
  if (ni.blocks != nullptr && c.nis->net_local(ni.nid.net())) {  // a NID behind routers has no credits of its own
    const PeerSlice& slice = ni.blocks->slice;
    show.max_ni_tx_credits = ni.tx_credits;
    show.available_tx_credits = slice.credits.gauge().get();
    show.min_tx_credits = slice.credits.free_min();
    show.available_rtr_credits = slice.rtr.gauge().get();
    show.min_rtr_credits = slice.rtr.free_min();
  }
  show.tx_q_num_of_buf = ni.blocks == nullptr ? 0 : ni.blocks->slice.tx_queued_bytes.get();
  show.counted = totals_of(ni);
  show.udsp = policies_of(c, net, ni);
  health_set(show.health, ni.health, c.now);
  for (const LocalNi* local : c.nis->on_net(ni.nid.net()))
    for (ConnectionShow& one : c.lnds[local->lnd]->connections(local->id, ni.nid))
      show.connections.emplace_back(local->nid, std::move(one));
  return show;
}

api::WorkerShow worker_value(Control& c, const Worker& worker) {
  const unsigned w = worker.id.value;
  NodeTotals counted;
  counted.add(worker.counters);
  const auto of = [&](TurnStat stat) { return counted.turn[size_t(stat)]; };
  api::WorkerShow show;
  show.worker = worker.id.value;
  show.group = c.nis->groups().group(worker.id);
  show.peers = w < c.peers->load().size() ? c.peers->load()[w] : 0;
  show.events = of(TurnStat::kInboxItems) + of(TurnStat::kLndEvents) + of(TurnStat::kTimersFired);
  show.turns_busy = of(TurnStat::kTurnsBusy);
  for (size_t i = 0; i < counted.turn.size(); ++i)
    show.turn.emplace_back(texts_of<TurnStat>()[i].name, counted.turn[i]);
  Mesh& mesh = *c.mesh;
  for (unsigned other = 0; other < mesh.worker_count; ++other) {
    show.from_workers += mesh.pair(other, w).work.depth() + mesh.pair(other, w).back.depth();
    show.to_workers += mesh.pair(w, other).work.depth() + mesh.pair(w, other).back.depth();
  }
  show.ring_size = mesh.pair(w, w).work.capacity();
  show.from_control = mesh.to_worker[w]->depth();
  show.to_control = mesh.to_control[w]->depth();
  return show;
}

}  // namespace

InterfaceTotals totals_of(const LocalNi& ni) {
  InterfaceTotals totals = raw_totals(ni);
  totals.subtract(ni.baseline);
  return totals;
}

InterfaceTotals totals_of(const PeerNi& ni) {
  InterfaceTotals totals = raw_totals(ni);
  totals.subtract(ni.baseline);
  return totals;
}

NodeTotals totals_of(const Control& c) {
  NodeTotals totals = raw_totals(c);
  totals.subtract(c.baseline);
  return totals;
}

std::vector<api::NetShow> net_values(Control& c, std::optional<Net> only, bool closing) {
  std::vector<api::NetShow> shows;
  if (!only || *only == kLoNid.net()) shows.push_back(api::lo_show(c.nis->groups().all()));
  for (LocalNis::LocalNet& net : c.nis->nets()) {
    if (only && *only != net.net) continue;
    api::NetShow show;
    show.net = net.net;
    show.state = net_state(net);
    for (const LocalNi& ni : net.nis)
      if (closing || !ni.closing) show.nis.push_back(ni_value(c, ni));
    if (!show.nis.empty()) shows.push_back(std::move(show));
  }
  for (const WaitingNi& one : c.nis->waiting()) {
    if (only && *only != one.net) continue;
    auto net = std::find_if(shows.begin(), shows.end(), [&](const api::NetShow& show) { return show.net == one.net; });
    if (net == shows.end()) net = shows.insert(shows.end(), api::NetShow{one.net, {}, "init"});
    net->nis.push_back(waiting_value(one));
  }
  return shows;
}

api::PeerShow peer_value(Control& c, const Peer& peer) {
  api::PeerShow show;
  show.primary = peer.primary().nid;
  show.multi_rail = peer.multi_rail();
  show.lock_primary = (peer.state & kPeerLockPrimary) != 0;
  show.state = peer.state;
  show.discovery = api::DiscoveryShow{discovery_state(peer), discovery_letters(peer, c.discovery->sequence()),
                                      peer.discovery.peer_seqno, peer.discovery.node_seqno, peer.discovery.error};
  const bool router = c.routes->is_gateway(peer);
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) show.nis.push_back(peer_ni_value(c, net, *ni, router));
  return show;
}

std::vector<api::RouteShow> route_values(Control& c, bool rules) {
  std::map<std::pair<Net, Nid>, size_t> order;
  for (const config::RouteConfig& route : c.desired.routes)
    order.emplace(std::pair(route.net, route.gateway), order.size());
  std::vector<std::pair<size_t, api::RouteShow>> placed;
  for (const Route& route : c.routes->routes()) {
    const auto place = order.find({route.config.net, route.config.gateway});
    placed.emplace_back(place == order.end() ? order.size() : place->second,
                        api::RouteShow{route.config, route.alive, route.config.hop > 1, {}});
    const PeerNi* gateway = rules ? c.peers->find(route.config.gateway) : nullptr;
    if (gateway != nullptr) placed.back().second.rules = c.policies->policy().router_rules(gateway->peer->id);
  }
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<api::RouteShow> shows;
  for (auto& [place, show] : placed) shows.push_back(std::move(show));
  for (const config::RouteConfig& route : c.desired.routes) {  // those that wait for an NI on their gateway's net
    if (!c.routes->has(route.net, route.gateway)) shows.push_back({route, false, route.hop > 1, {}});
  }
  return shows;
}

std::vector<api::CptPools> pool_values(Control& c) {
  if (c.routing->empty()) return {};
  constexpr std::array<int64_t, kRouterPools> kPages{0, 1, kMaxPayload / 4096};
  const WorkerGroups& groups = c.nis->groups();
  std::vector<api::CptPools> shows(groups.count());
  for (const auto& worker : c.workers) {
    for (unsigned i = 0; i < kRouterPools; ++i) {
      api::PoolShow& show = shows[groups.group(worker->id)][i];
      show.npages = kPages[i];
      show.nbuffers += c.routing->given(worker->id, i);
      show.credits += worker->pools[i].credits.get();
      show.mincredits += worker->pools[i].credits_min.get();
    }
  }
  return shows;
}

config::Doc stats_values_doc(Control& c, int verbosity, const WorkerTimes& times) {
  const NodeTotals t = totals_of(c);
  config::Doc doc = api::stats_doc(t);
  if (verbosity < 1) return doc;
  std::vector<api::DropShow> drops;
  for (size_t i = 0; i < t.drops.size(); ++i)
    drops.push_back({text_of(Drop(i)).name, t.drops[i], text_of(Drop(i)).help});
  std::vector<api::WorkerShow> workers;
  for (const auto& worker : c.workers) {
    workers.push_back(worker_value(c, *worker));
    if (times) workers.back().time = times(worker->id);
  }
  api::stats_details_set(doc, drops, net_values(c, {}), workers, verbosity);
  return doc;
}

void stats_reset(Control& c) {
  c.baseline = raw_totals(c);
  for (LocalNis::LocalNet& net : c.nis->nets())
    for (LocalNi& ni : net.nis) ni.baseline = raw_totals(ni);
  for (const auto& [id, peer] : c.peers->peers())
    for (PeerNet& net : peer->nets)
      for (PeerNi* ni : net.nis) ni->baseline = raw_totals(*ni);
  c.outbox->send_all(ResetExtremesMsg{});
}

}  // namespace ulnet
