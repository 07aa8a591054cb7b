#include "control/turn.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "control/discovery/runner.h"
#include "control/health/cut_off.h"
#include "control/health/rail_probes.h"
#include "control/publish/view_builder.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

bool no_room(Control& c, const Nid& nid) {
  return c.peers->find(nid) == nullptr && c.memory_low();
}

void run(Control& c, WorkerId worker, const ResolveMsg& msg) {
  const Nid& nid = msg.nid;
  auto found = c.stopping        ? Result<PeerNi*>(fail(ESHUTDOWN, "the node is stopping"))
               : no_room(c, nid) ? Result<PeerNi*>(fail(ENOMEM, "there is no memory for another peer: delete some"))
                                 : c.peers->resolve(nid);
  if (found && msg.discover) return c.discovery->resolve(worker, **found);
  c.resolved.push_back({worker, {nid, found ? 0 : found.error().code}});
}

void run(Control& c, WorkerId worker, const LndMsg& msg) {
  if (msg.lnd < c.lnds.size()) c.lnds[msg.lnd]->from_worker(worker, msg, c.now);
}

void run(Control& c, WorkerId, const SubmitterClosedMsg& msg) {
  c.submitters->closed(*msg.submitter);
}

void run(Control& c, WorkerId, const RouterRetiredMsg& msg) {
  c.routing->retired(*msg.block);
}

void run(Control& c, WorkerId, const PeerAnswerMsg& msg) {
  c.peers->answered(msg, c.now);
}

// Nothing counts while the node stops (docs/wire/lnet.md §9).
void run(Control& c, WorkerId, const ChargedMsg& msg) {
  if (!c.stopping) c.health->charged(msg, c.now);
}

void run(Control& c, WorkerId, const SilentMsg& msg) {
  if (!c.stopping) c.rail_probes->silent(msg, c.now);
}

void run(Control& c, WorkerId, const MovedMsg& msg) {
  if (!c.stopping) c.rail_probes->moved(msg, c.now);
}

void run(Control& c, WorkerId, const NiDrainedMsg& msg) {
  c.nis->drained(*msg.slice);
}

std::span<Segment> segments_of(Submitter& submitter, uint32_t md) {
  return {submitter.md_slot(md).segments, submitter.md_slot(md).segment_count};
}

void run(Control& c, WorkerId worker, const MdRegisterMsg& msg) {
  c.registrar->segments_add(
      segments_of(*msg.submitter, msg.md), [&c, worker, msg](const auto& result, const auto& refused) {
        if (!result)
          c.log_limited(JournalCause::kMemory,
                        fmt::format("an MD ends: cannot register {} bytes at {}: {}", refused.memory.size(),
                                    fmt::ptr(refused.memory.data()), result.error().what));
        c.outbox->send(worker, MdRegisteredMsg{msg.submitter, msg.md, result ? 0 : result.error().code});
      });
}

void run(Control& c, WorkerId worker, const MdReleaseMsg& msg) {
  c.registrar->segments_remove(segments_of(*msg.submitter, msg.md), [&c, worker, msg] {
    c.outbox->send(worker, MdReleasedMsg{msg.submitter, msg.md});
  });
}

}  // namespace

unsigned run_worker_messages(Control& c) {
  unsigned done = 0;
  for (uint16_t worker = 0; worker < c.config.workers; ++worker) {
    WorkerMsg msg;
    for (unsigned i = 0; i < kInboxBudget && c.mesh->to_control[worker]->pop(msg); ++i, ++done)
      std::visit([&](const auto& kind) { run(c, WorkerId{worker}, kind); }, msg);
  }
  return done;
}

void nis_changed(Control& c) {
  c.peers->nis_changed();
  for (const config::RouteConfig& route : c.routes->remove_unreachable()) {
    c.log(fmt::format("warning: route to {} through {} deleted: this node has no NI left on the net of the gateway",
                      net_text(route.net), nid_text(route.gateway)));
    std::erase_if(c.desired.routes,
                  [&](const auto& one) { return one.net == route.net && one.gateway == route.gateway; });
  }
  if (c.nis->closing_now()) c.portals->retry_lazy();
  c.dirty.local = c.dirty.ping = true;
}

Untold untold(const Control& c) {
  Untold all;
  all.count = c.discovery->untold(&all.first);
  return all;
}

// A pool's gauge says how many buffers are free, less those who wait for one.
bool router_buffers_idle(const Control& c) {
  for (uint16_t worker = 0; worker < c.config.workers; ++worker)
    for (unsigned pool = 0; pool < kRouterPools; ++pool)
      if (c.workers[worker]->pools[pool].credits.get() < int64_t(c.routing->given(WorkerId{worker}, pool)))
        return false;
  return true;
}

unsigned run_health(Control& c) {
  unsigned done = 0;
  if (c.nis->turn(c.now, [&c] { return c.discovery->all_told(); })) {
    nis_changed(c);
    ++done;
  }
  c.peers->revive(c.now, [&](PeerNi&) { ++done; });
  done += c.peers->turn(c.now);
  if (!c.stopping) done += c.router_checker->turn(c.now);
  if (c.net_watch->turn(c.now, c.routing->advertised())) {
    c.dirty.ping = true;
    ++done;
  }
  if (c.routing->turn(c.now, [&c] { return router_buffers_idle(c); })) {
    c.dirty.node = c.dirty.ping = true;
    c.peers->set_watch_aliveness(c.routing->state() != RoutingState::kDisabled);
    ++done;
  }
  return done;
}

unsigned run_connections(Control& c) {
  unsigned done = 0;
  for (auto& lnd : c.lnds) done += lnd->turn(c.now);
  return done;
}

unsigned run_pings(Control& c) {
  unsigned done = c.self_submitter->poll(kInboxBudget, c.now);
  done += c.ping_target->turn(c.now);
  done += c.pinger->turn(c.now);
  done += c.discovery->turn(c.now);
  done += c.cut_off->turn(c.now);
  done += c.health->turn(c.now);
  done += c.rail_probes->turn(c.now);
  return done;
}

unsigned run_views(Control& c) {
  const Epoch before = c.publisher->epoch();
  (void)publish_views(c);
  const unsigned announced = c.events->turn();
  const unsigned previewed = c.policies->turn_previews({*c.nis, *c.peers, *c.routes});
  const unsigned freed = c.publisher->retire();
  return announced + previewed + freed + c.outbox->flush() + (c.publisher->epoch() != before ? 1 : 0);
}

}  // namespace ulnet
