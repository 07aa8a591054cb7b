#include "control/publish/view_builder.h"

#include <algorithm>

#include "control/discovery/runner.h"
#include "control/health/health.h"

namespace ulnet {
namespace {

std::shared_ptr<const LocalView> build_local_view(LocalNis& nis, const Policy& policy, const config::Global& global) {
  auto view = std::make_shared<LocalView>();
  const Topology& machine = nis.groups().machine;
  for (LocalNis::LocalNet& net : nis.nets()) {
    const uint32_t priority = policy.of_local_net(net.net).priority;
    view->nets.push_back({net.net, priority, uint32_t(view->nis.size()), uint32_t(net.nis.size())});
    for (const LocalNi& ni : net.nis) {
      NiView& one = view->nis.emplace_back();
      one.id = ni.id;
      one.nid = ni.nid;
      one.lnd = uint8_t(ni.lnd);
      one.slot = ni.slot;
      one.tx_credits = std::max(ni.params.credits / int32_t(ni.slices.size()), 1);
      one.fatal = ni.fatal;
      one.leaving = ni.leaving;
      one.closing = ni.closing;
      one.health = ni.health.value();
      one.priority = policy.of_local_ni(ni.nid).priority;
      one.distances = machine.distances_to(ni.device_numa);
      for (uint32_t& distance : one.distances) distance = std::max(distance, uint32_t(global.numa_range));
      one.device_priorities = machine.accelerator_priorities(ni.params.interface);
      one.message_timeout = message_timeout(ni, global.retry_count);
      for (const auto& slice : ni.slices) one.slices.push_back(slice.get());
    }
  }
  rank_nis(*view);
  return view;
}

NodeView build_node_view(const Control& c) {
  const config::Global& global = c.desired.global;
  NodeView node;
  node.routing = c.routing->state();
  node.drop_asym_route = global.drop_asym_route != 0;
  node.discover_gateways = c.router_checker->interval() <= Duration::zero();
  node.stopping = c.stopping;
  node.fast_detection = c.desired.ulnet.fast_detection && global.health_sensitivity > 0;
  node.retry_count = uint32_t(global.retry_count);
  node.numa_range = uint32_t(global.numa_range);
  node.response_tracking = uint8_t(global.response_tracking);
  node.transaction_timeout = global.transaction_timeout;
  node.router_hold_timeout = c.desired.ulnet.router_hold_timeout;
  for (const auto& lnd : c.lnds) node.regions_above = std::min(node.regions_above, lnd->regions_above());
  return node;
}

/// True when something differs from what was published last.
bool refresh_parts(Control& c) {
  bool changed = c.dirty.local || c.dirty.node || c.dirty.health;
  const bool nis_changed = c.dirty.local || c.dirty.health;
  const config::Global& global = c.desired.global;
  if (c.parts.node.numa_range != uint32_t(global.numa_range)) c.dirty.node = c.dirty.local = changed = true;
  if (c.dirty.local || c.dirty.health) c.parts.local = build_local_view(*c.nis, c.policies->policy(), global);
  if (c.dirty.node) c.parts.node = build_node_view(c);
  c.dirty.local = c.dirty.node = c.dirty.health = false;
  c.peers->follow_sources();
  if (c.peers->changed()) c.routes->refresh();
  if (c.routes_seen != c.routes->revision()) c.peers->routes_changed();
  c.policies->follow(nis_changed, {*c.nis, *c.peers, *c.routes});
  (void)c.policies->turn(*c.peers);
  if (c.peers->flush(*c.peer_table) || c.parts.peers == nullptr) {
    c.parts.peers = c.peer_table->snapshot();
    changed = true;
  }
  const auto renew = [&](auto& part, const auto& source, uint64_t& seen) {
    if (part != nullptr && seen == source.revision()) return;
    part = source.view();
    seen = source.revision();
    changed = true;
  };
  renew(c.parts.routes, *c.routes, c.routes_seen);
  renew(c.parts.portals, *c.portals, c.portals_seen);
  renew(c.parts.regions, *c.regions, c.regions_seen);
  renew(c.parts.faults, c.faults, c.faults_seen);
  return changed;
}

/// An answer waits until the NI is in the table, or is no NI of a peer any more.
void answer_resolved(Control& c) {
  std::erase_if(c.resolved, [&c](const Resolved& answer) {
    const Nid& nid = answer.msg.nid;
    if (answer.msg.error == 0 && c.peers->find(nid) != nullptr && !c.parts.peers->find(nid)) return false;
    c.outbox->send(answer.worker, answer.msg);
    return true;
  });
}

}  // namespace

Duration message_timeout(const LocalNi& ni, int64_t retry_count) {
  return ni.transmit_timeout * (retry_count + 1) + 1s;
}

wire::PingInfo build_ping_info(Control& c) {
  wire::PingInfo info;
  const uint32_t life = life_of(c.workers.front()->interface_cookie);
  info.features = wire::kFeatureNiStatus | wire::kFeatureMultiRail | wire::kFeatureCopies | life << wire::kLifeShift;
  if (c.desired.global.discovery != config::Discovery::kOff) info.features |= wire::kFeatureDiscovery;
  if (!c.routing->advertised()) info.features |= wire::kFeatureRteDisabled;
  info.features &= ~c.config.features_hidden;
  info.sequence = c.nis->sequence();
  for (LocalNis::LocalNet& net : c.nis->nets())
    for (const LocalNi& ni : net.nis)
      if (!ni.going()) info.nis.push_back({ni.nid, ni.up() ? wire::kNiUp : wire::kNiDown});
  return info;
}

void refresh_ping_info(Control& c) {
  if (!c.dirty.ping) return;
  c.dirty.ping = false;
  const wire::PingInfo info = build_ping_info(c);
  c.ping_target->set_info(info);
  c.discovery->local_changed(info);
}

bool publish_views(Control& c, bool force) {
  refresh_ping_info(c);
  c.unpublished |= refresh_parts(c);
  if (c.unpublished && !c.publisher->publish(c.parts, force)) return false;
  c.unpublished = false;
  c.peers->published(c.publisher->epoch());
  c.nis->published();
  if (c.health != nullptr) c.health->published();
  c.portals->published();
  answer_resolved(c);
  return true;
}

}  // namespace ulnet
