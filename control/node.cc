#include "control/node.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "control/health/health_of_node.h"
#include "control/health/other_pair.h"
#include "control/publish/view_builder.h"
#include "control/turn.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// Pings and pushes of the node's own submitter that are under way at once. One line per holder.
constexpr size_t kOwnOperations = kPingOpsMax     // Pinger
                                  + kPingOpsMax   // DiscoveryRunner: checks of gateways
                                  + kPingOpsMax   // DiscoveryRunner: pings and pushes that a request waits for
                                  + kPingOpsMax   // Health: recovery pings
                                  + kPingOpsMax   // RailProbes
                                  + kPingOpsMax;  // DiscoveryRunner: all others
/// MDs of the node's own submitter. One line per holder.
constexpr size_t kOwnMds = kOwnOperations              // each has an MD
                           + PingTarget::kPushTargets  // PUTs of ping info
                           + PingTarget::kInfosMax;    // GETs of ping info
static_assert(kOwnMds == SelfSubmitter::kMds);
static_assert(kOwnOperations <= kOperationsReserve, "parked messages of others wait for these operations");
/// Time between two looks at the objects that a stop waits for.
constexpr Duration kStopLook = 1ms;

}  // namespace

Node::Node(const NodeConfig& config, NodeDeps deps) : c_(config, std::move(deps)), applier_(c_) {}

// Before the members go one by one: pings and changes still under way are told that it is over.
Node::~Node() {
  if (c_.pinger != nullptr) c_.pinger->abort();
  if (c_.discovery != nullptr) c_.discovery->abort();
  if (c_.health != nullptr) c_.health->abort();
  if (c_.rail_probes != nullptr) c_.rail_probes->abort();
  applier_.abort();
  c_.regions->abort();
}

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, NodeDeps deps, Instant now) {
  static_assert(kWorkersMax == 64, "the sentence names it");
  if (config.workers == 0 || config.workers > kWorkersMax)
    return fail(EINVAL, "a node has 1 to 64 workers", config.workers);
  if (deps.lnds.empty() || deps.lnds.front().type->net_type != NetType::kLo)
    return fail(EINVAL, "the first LND of a node must be loopback");
  if (deps.lnds.size() > kLndsMax) return fail(EINVAL, "too many LNDs", deps.lnds.size());
  std::unique_ptr<Node> node(new Node(config, std::move(deps)));
  if (auto opened = node->open(now); !opened) return tl::unexpected(opened.error());
  return node;
}

Result<void> Node::open(Instant now) {
  c_.now = now;
  if (c_.regions->needed()) {
    if (c_.deps.helper == nullptr) return fail(EINVAL, "a driver needs registered memory, and the node has no helper");
    if (auto opened = c_.deps.helper->open(); !opened) return opened;
  }
  if (c_.deps.real_threads) {
    if (c_.deps.control_gate == nullptr) {
      if (auto opened = c_.gate.open(); !opened) return opened;
    }
    for (auto& gate : c_.gates)
      if (auto opened = gate->open(); !opened) return opened;
  }
  NiParams lo;
  lo.id = kLoNi;
  lo.nid = kLoNid;
  if (auto started = c_.lnds[kLndLo]->ni_start(lo, now); !started) return started;

  SubmitterSize size;
  size.ops = SelfSubmitter::kOps;
  size.mds = SelfSubmitter::kMds;
  size.eqs = 1;
  size.segment_blocks = 1;
  size.reserve = true;
  auto submitter = c_.submitters->open(WorkerId{0}, size);
  if (!submitter) return tl::unexpected(submitter.error());
  own_submitter_ = *submitter;
  c_.self_submitter = std::make_unique<SelfSubmitter>(*own_submitter_, *c_.mesh);
  c_.ping_target = std::make_unique<PingTarget>(*c_.self_submitter, c_.timers);
  c_.pinger = std::make_unique<Pinger>(*c_.self_submitter, c_.timers);
  c_.pinger->set_other_pair([this](PingOp& op, unsigned number) { return other_pair(*c_.nis, *c_.peers, op, number); });
  c_.discovery = std::make_unique<DiscoveryRunner>(c_);
  make_health(c_);
  ULNET_CHECK(c_.timers.complete());
  c_.ping_target->set_hooks(
      [this](const Event& event, std::span<const std::byte> bytes, Instant) { c_.discovery->push_came(event, bytes); },
      [this](const Event& event, Instant at) { c_.net_watch->pinged(event.target, event.source, at); });
  if (c_.regions->needed()) {
    c_.ping_target->set_takes_pushes(false);
    c_.regions->add_of_node(c_.ping_target->push_memory(), [this](const auto& result) {
      if (!result) c_.log("warning: pushes of ping info come later: " + result.error().what);
      c_.ping_target->set_takes_pushes(true);
    });
  }
  if (auto opened = c_.portals->open(PortalIndex{0}, WorkerId{0}, PortalMode::kSingle, true); !opened) return opened;
  (void)publish_views(c_, true);
  return {};
}

unsigned Node::worker_wait_fds(WorkerId worker, std::span<int> out) {
  unsigned count = 0;
  for (auto& lnd : c_.workers[worker.value]->lnds)
    if (lnd != nullptr) count += lnd->wait_fds(out.subspan(count));
  return count;
}

unsigned Node::turn_control(Instant now) {
  c_.now = now;
  unsigned done = run_worker_messages(c_);
  done += run_health(c_);
  done += applier_.turn(now);
  done += run_connections(c_);
  done += run_pings(c_);
  if (leaving_) turn_leave();
  if (c_.stopping) turn_stop();
  done += c_.regions->turn(now);
  done += run_views(c_);
  return done;
}

bool Node::control_pending() {
  for (auto& ring : c_.mesh->to_control)
    if (!ring->empty()) return true;
  return c_.self_submitter->pending() || c_.registrar->pending();
}

Instant Node::next_deadline() {
  Instant next = std::min(c_.timers.next(), c_.registrar->next_deadline());
  for (auto& lnd : c_.lnds) next = std::min(next, lnd->next_deadline());
  return next;
}

void Node::wait_fds(std::vector<int>& out) {
  for (auto& lnd : c_.lnds) lnd->wait_fds(out);
  if (c_.nis->waiting().empty()) return;
  if (const int fd = c_.deps.devices->wait_fd(); fd >= 0) out.push_back(fd);
}

void Node::ping(const PingRequest& request, Pinger::Done done) {
  c_.pinger->start(request, uint32_t(c_.desired.global.max_interfaces),
                   [this, done = std::move(done)](std::vector<PingAnswer> answers) {
                     for (const PingAnswer& one : answers)
                       if (one.error == 0) c_.discovery->ping_seen(one.nid, one.info);
                     done(std::move(answers));
                   });
}

Result<Submitter*> Node::submitter_open(WorkerId home, const SubmitterSize& size) {
  if (c_.stopping) return fail(ESHUTDOWN, "the node is stopping");
  return c_.submitters->open(home, size);
}

Result<void> Node::portal_open(PortalIndex portal, WorkerId home, PortalMode mode, bool lazy) {
  if (home.value >= worker_count()) return fail(EINVAL, "there is no such worker", home.value);
  if (auto opened = c_.portals->open(portal, home, mode, lazy); !opened) return opened;
  (void)publish_views(c_, true);
  return {};
}

Result<void> Node::portal_close(PortalIndex portal) {
  if (portal.value == 0) return fail(EINVAL, "portal 0 belongs to LNet itself");
  if (auto closed = c_.portals->close(portal); !closed) return closed;
  (void)publish_views(c_, true);
  return {};
}

void Node::stop(Instant now) {
  if (stopping()) return;
  if (!c_.routing->advertised()) return stop_now(now);
  leaving_ = true;
  leave_deadline_ = std::min(leave_deadline_, now + kRouterLeaveMax);
  c_.routing->disable(now);
  c_.dirty.node = c_.dirty.ping = true;
  stop_timer_.set_in(kStopLook);
}

void Node::turn_leave() {
  stop_timer_.set_in(kStopLook);
  const bool idle = c_.discovery->all_told() && router_buffers_idle(c_);
  idle_since_ = idle ? std::min(idle_since_, c_.now) : kForever;
  const bool left = idle && c_.now - idle_since_ >= kRouterLeaveIdle;
  if (!left && c_.now < leave_deadline_) return;
  leaving_ = false;
  stop_now(c_.now);
}

// What is under way still needs portal 0 and the NIs for a moment: they go as they fall silent.
void Node::stop_now(Instant now) {
  c_.stopping = true;
  c_.dirty.node = true;
  stop_deadline_ = now + kStopMax;
  c_.pinger->abort();
  c_.discovery->abort();
  c_.health->abort();
  c_.rail_probes->abort();
  applier_.abort();
  c_.routing->abort();
  c_.router_checker->stop();
  c_.regions->stop();
  c_.ping_target->close();
  c_.portals->close_all();  // what waits on a lazy portal would keep its NI from coming to rest
  c_.submitters->close_all_but(own_submitter_);
  for (LocalNi* ni : c_.nis->all()) c_.nis->remove(*ni, now);
  c_.dirty.local = true;
  c_.lnds[kLndLo]->ni_stop(kLoNi, now);
  c_.faults.clear();  // the stop waits for no delayed message
  stop_timer_.set_in(kStopLook);
}

void Node::turn_stop() {
  if (stopped_) return;
  stop_timer_.set_in(kStopLook);
  const bool quiet = c_.ping_target->at_rest() && c_.pinger->at_rest() && c_.discovery->at_rest() &&
                     c_.health->at_rest() && c_.rail_probes->at_rest();
  if (quiet && !own_closed_) {
    own_closed_ = true;
    c_.submitters->close(*own_submitter_);
  }
  std::string left;
  if (!quiet) left += " pings";
  if (!c_.submitters->all_closed()) left += fmt::format(" {} submitters", c_.submitters->open_count());
  for (const LocalNi* ni : c_.nis->all())
    left +=
        fmt::format(" {} ({} workers drain{})", nid_text(ni->nid), ni->undrained, ni->stopped ? "" : ", connections");
  if (!c_.lo_stopped) left += " loopback";
  if (!c_.routing->empty()) left += " router buffers";
  if (c_.submitters->all_closed()) c_.regions->remove_all();
  if (!c_.registrar->idle()) left += " registered memory";
  if (c_.outbox->waiting()) left += " messages to workers";
  if (left.empty()) {
    stopped_ = true;
  } else if (c_.now >= stop_deadline_) {
    stopped_ = true;
    leftovers_ = left.substr(1);
    c_.log("warning: stopped without waiting any longer for: " + leftovers_);
  }
  if (stopped_) stop_timer_.stop();
}

}  // namespace ulnet
