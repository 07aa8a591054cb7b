#include "control/control.h"

#include <algorithm>

#include "control/discovery/runner.h"
#include "control/health/cut_off.h"
#include "control/health/rail_probes.h"
#include "control/lnd_host.h"
#include "control/publish/view_builder.h"
#include "dataplane/stages/driver_calls.h"

namespace ulnet {
namespace {

constexpr uint64_t kWorkerSeedStep = 0x9E3779B97F4A7C15ull;  // workers draw apart from each other

std::vector<IdleGate*> pointers(const std::vector<std::unique_ptr<IdleGate>>& gates) {
  std::vector<IdleGate*> all;
  for (const auto& gate : gates) all.push_back(gate.get());
  return all;
}

/// The interface cookie in the handles of requests: of this life of the node, and of no other node.
uint64_t request_cookie(const NodeDeps& deps) {
  return kCookieOfRequests | (Rng(deps.seed ^ Rng(deps.incarnation).next()).next() & kCookieOwn);
}

}  // namespace

void Control::log_limited(JournalCause cause, const std::string& line) {
  const auto left_out = log_limits[size_t(cause)].allows(now);
  if (left_out) log(*left_out == 0 ? line : line + " (" + std::to_string(*left_out) + " such lines left out before)");
}

// Peers can cause changes of peer NIs, and of all routes at once. An operator may add many routes.
void Control::log_event(const StateEvent& event, const std::string& line) {
  switch (event.kind) {
    case StateKind::kPeerNi:
      return log_limited(event.to == "up" ? JournalCause::kReachable : JournalCause::kUnreachable, line);
    case StateKind::kRoute:
    case StateKind::kGateway: return log_limited(JournalCause::kRoutes, line);
    case StateKind::kNi:
    case StateKind::kRouting:
    case StateKind::kCount: return log(line);
  }
}

void Control::make_watchers() {
  net_watch = std::make_unique<NetWatch>(*nis, timers);
  StateEvents::Deps deps_of_events{*nis, *peers, *routes, *routing, {}};
  deps_of_events.log = [this](const StateEvent& event, const std::string& line) { log_event(event, line); };
  events = std::make_unique<StateEvents>(std::move(deps_of_events), timers, now);
}

Control::Control(const NodeConfig& node_config, NodeDeps node_deps)
    : config(node_config),
      deps(std::move(node_deps)),
      rng(deps.seed),
      gate(deps.control_gate != nullptr ? *deps.control_gate : own_gate),
      memory(deps.memory != nullptr ? *deps.memory : own_memory),
      near(deps.worker_memory, config.groups.numa_of, config.workers) {
  for (unsigned i = 0; i < config.workers; ++i) gates.push_back(std::make_unique<IdleGate>());
  mesh = std::make_unique<Mesh>(config.workers, config.ring_size, config.peers_max, pointers(gates).data(), &gate,
                                near.by_worker());
  outbox = std::make_unique<Outbox>(*mesh, timers);
  publisher = std::make_unique<Publisher>(*mesh, timers);
  peer_table = std::make_unique<PeerTableBuilder>();
  for (unsigned i = 0; i < config.workers; ++i) {
    WorkerMemory* place = near.of(WorkerId{uint16_t(i)});
    workers.emplace_back(near_new<Worker>(place, WorkerId{uint16_t(i)}, *mesh, config.worker_size, request_cookie(deps),
                                          deps.seed + (i + 1) * kWorkerSeedStep, place),
                         NearDelete<Worker>{place});
  }
  LocalNis::Deps nis_deps{*mesh, *outbox, *publisher, deps.devices, config.groups, {}, {}, near.by_worker()};
  for (unsigned i = 0; i < deps.lnds.size(); ++i) {
    lnd_hosts.push_back(std::make_unique<LndHost>(*this, i));
    lnds.push_back(deps.lnds[i].make_control_half(*lnd_hosts.back()));
    for (auto& worker : workers) {
      lnd_cores.push_back(std::make_unique<DriverCalls>(*worker, i));
      worker->add_lnd(i, deps.lnds[i].make_worker_half(*lnd_cores.back()));
    }
    nis_deps.types.push_back(deps.lnds[i].type);
    nis_deps.lnds.push_back(lnds.back().get());
  }
  std::vector<Registrar::User> registering;
  for (size_t i = 0; i < lnds.size(); ++i)
    if (lnds[i]->regions_above() != UINT32_MAX) registering.push_back({lnds[i].get(), deps.lnds[i].type->name});
  registrar = std::make_unique<Registrar>(std::move(registering), deps.helper);
  Regions::Deps regions_deps{*registrar, {}, {}, {}};
  regions_deps.users_of = [this](RegionId id) {
    int64_t users = 0;
    for (auto& worker : workers) users += worker->region_users[region_slot(id)].get_acquire();
    return users;
  };
  regions_deps.publish = [this] { return (void)publish_views(*this, true), publisher->epoch(); };
  regions_deps.passed = [this](Epoch epoch) { return publisher->passed(epoch); };
  regions = std::make_unique<Regions>(std::move(regions_deps), timers);
  nis = std::make_unique<LocalNis>(std::move(nis_deps), timers);
  PeerDb::Deps peer_deps{*nis, config.workers, config.peers_max, {}, {}, {}, {}};
  peer_deps.routed = [this](Net net) { return routes->reaches(net); };
  peer_deps.gateway = [this](const Peer& peer) { return routes->is_gateway(peer); };
  peer_deps.gateway_nid = [this](const Nid& nid) { return routes->is_gateway(nid); };
  peer_deps.credits_changed = [this](const PeerNi& ni) {
    outbox->send(ni.server, PeerCreditsMsg{&ni.blocks->slice, ni.tx_credits, ni.rtr_credits});
  };
  peer_deps.log = [this](const std::string& line) { log_limited(JournalCause::kDiscovery, line); };
  peer_deps.evaluate = [this](Peer& peer) { return events->peer(peer), policies->evaluate(peer); };
  peer_deps.near = near.by_worker();
  for (auto& tallies : mesh->tallies) peer_deps.tallies.push_back(tallies.get());
  peers = std::make_unique<PeerDb>(std::move(peer_deps), timers);
  PeerEnds::Deps ends;
  ends.named = [this](const PeerSlice& slice) {
    return std::any_of(lnds.begin(), lnds.end(), [&](const auto& lnd) { return lnd->names(slice); });
  };
  ends.passed = [this](Epoch epoch) { return publisher->passed(epoch); };
  ends.send = [this](WorkerId worker, const PeerAskMsg& ask) { outbox->send(worker, ask); };
  peers->set_ends(std::move(ends));
  routes = std::make_unique<RouteDb>(*nis, *peers, rng);
  policies = std::make_unique<Policies>(timers, [this](const std::string& line) { log(line); });
  router_checker = std::make_unique<RouterChecker>(
      RouterChecker::Deps{*nis, *peers, *routes, [this](Peer& peer, Net net) { discovery->check_gateway(peer, net); },
                          [this](const std::string& line) { log(line); }},
      timers);
  routing = std::make_unique<Routing>(Routing::Deps{*outbox, memory, *registrar, config.groups, config.workers,
                                                    [this](const std::string& line) { log(line); }},
                                      timers);
  make_watchers();
  portals = std::make_unique<Portals>(*outbox);
  submitters = std::make_unique<Submitters>(*mesh, *outbox);
}

Control::~Control() = default;

}  // namespace ulnet
