#include "control/handlers/applier.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/export.h"
#include "config/warn.h"
#include "control/discovery/driver.h"
#include "control/handlers/ip2nets.h"
#include "control/lanes.h"
#include "control/log_level.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// Changes carried out in one turn.
constexpr unsigned kChangesBudget = 256;
/// Who waits for an NI to go is told why, so often.
constexpr Duration kExplainEvery = 2s;
/// Different lines about the machine that are remembered as written.
constexpr size_t kAdvisedMax = 1024;
/// How often a list that waits is looked at, besides when workers report.
constexpr Duration kLookAgain = 10ms;

std::string with(const char* words, const std::string& what) {
  return what.rfind(words, 0) == 0 ? what : std::string(words) + ": " + what;
}

/// What discovery keeps of its own work in Peer::state is not an operator's to change: nobody would end that work.
uint32_t kept_bits(uint32_t state) {
  return state & kPeerBusy;
}

NiDefaults ni_defaults(const config::DesiredState& state) {
  NiDefaults defaults;
  defaults.lnd_timeout = state.ulnet.socklnd.timeout;
  defaults.lnd_timeout_auto = config::lnd_timeout_of(state.global);
  defaults.conns_per_peer = state.ulnet.socklnd.conns_per_peer;
  return defaults;
}

}  // namespace

void Applier::submit(config::ChangeList changes, Done done, Note note) {
  Job& job = jobs_.emplace_back();
  job.changes = std::move(changes);
  job.done = std::move(done);
  job.note = std::move(note);
  retry_at_ = kNever;
}

void Applier::note(Job& job, const std::string& line) {
  c_.log(line);
  if (job.note) job.note(line);
}

void Applier::explain(Job& job) {
  job.explain_at = now_ + kExplainEvery;
  for (NiId id : job.leaving)
    if (const LocalNi* ni = c_.nis->find(id))
      note(job, fmt::format("{} is still {}", nid_text(ni->nid), c_.nis->in_use(*ni, untold(c_), now_)));
}

// What is wrong with a subnet is wrong for each of its NIs: the journal gets it once, who asks each time.
void Applier::advise(Job& job, const Nid& nid) {
  if (c_.deps.devices == nullptr) return;
  if (advised_.size() > kAdvisedMax) advised_.clear();
  for (const std::string& line : c_.deps.devices->advice(nid)) {
    if (advised_.insert(line).second) c_.log(line);
    if (job.note) job.note(line);
  }
}

config::ChangeList Applier::expand(const config::ChangeList& changes, std::vector<size_t>& origin,
                                   std::vector<config::ChangeError>& errors) {
  config::ChangeList all;
  const auto append = [&](const config::PlacedChange& change, size_t from) {
    all.push_back(change);
    origin.push_back(from);
  };
  Ip2nets ip2nets(c_.deps.devices);
  for (size_t i = 0; i < changes.size(); ++i) {
    if (const auto* rule = std::get_if<config::NetAddMatching>(&changes[i].change)) {
      for (const config::NetAdd& add : ip2nets.match(rule->rule, i)) append({add, changes[i].origin}, i);
      continue;
    }
    if (const auto* del = std::get_if<config::NetDel>(&changes[i].change)) {
      for (const config::NetDel& one : each_ni(*del)) append({one, changes[i].origin}, i);
      continue;
    }
    append(changes[i], i);
    const auto* configure = std::get_if<config::LnetConfigure>(&changes[i].change);
    if (configure != nullptr && configure->all && !c_.desired.configured)
      for (const config::PlacedChange& change : networks_) append(change, i);
  }
  errors = ip2nets.errors();
  return all;
}

// An NI is in force by its NID; an operator may name the interface, which stands for every NI of the net on it.
std::vector<config::NetDel> Applier::each_ni(const config::NetDel& del) {
  if (del.interface.empty() || del.nid) return {del};
  std::vector<config::NetDel> all;
  for (const LocalNi* ni : c_.nis->on_net(del.net))
    if (ni->params.interface == del.interface) all.push_back({.net = del.net, .nid = ni->nid, .now = del.now});
  const bool waits = std::any_of(c_.nis->waiting().begin(), c_.nis->waiting().end(), [&](const WaitingNi& one) {
    return one.net == del.net && one.config.interface == del.interface;
  });
  if (waits || all.empty()) all.push_back(del);
  return all;
}

void Applier::start(Job& job) {
  job.started = true;
  const config::ChangeList asked = job.changes;
  job.changes = expand(job.changes, job.origin, job.errors);
  job.before = job.after = c_.desired;
  if (!job.errors.empty()) return;
  job.errors = config::changes_apply(job.after, job.changes);
  for (config::ChangeError& error : job.errors) error.index = job.origin[error.index];
  if (!job.errors.empty()) return;
  for (const auto& warning : config::changes_warnings(asked, start_up_ ? nullptr : &c_.desired.ulnet))
    note(job, std::string(kWarning) + config::warning_text(asked, warning));
}

Applier::Step Applier::refuse(Job& job, int code, std::string what) {
  job.errors.push_back({job.origin[job.next], code, std::move(what)});
  return Step::kFailed;
}

unsigned Applier::turn(Instant now) {
  now_ = now;
  unsigned done = 0;
  retry_at_ = now + kLookAgain;
  if (jobs_.empty()) return retry_waiting();
  while (!jobs_.empty() && done < kChangesBudget) {
    Job& job = jobs_.front();
    if (!job.started) {
      start(job);
      ++done;
      if (!job.errors.empty()) {
        finish(job);
        continue;
      }
    }
    if (!job.leaving.empty()) {
      std::erase_if(job.leaving, [&](NiId id) { return c_.nis->find(id) == nullptr; });
      if (!job.leaving.empty() && now >= job.explain_at) explain(job);
      if (!job.leaving.empty()) return done;
    }
    if (job.undoing || job.next == job.changes.size()) {
      if (must_wait_for_gateways(job)) return done;
      finish(job);
      continue;
    }
    ++done;
    const Step step = std::visit([&](const auto& change) { return run(job, change); }, job.changes[job.next].change);
    if (step == Step::kFailed)
      undo_all(job);
    else
      ++job.next;
  }
  if (done >= kChangesBudget) retry_at_ = kNever;
  return done;
}

// `check_routers_before_use`: the start is over when each gateway was tried once.
bool Applier::must_wait_for_gateways(Job& job) {
  if (!job.errors.empty() || !start_up_ || !job.after.ulnet.check_routers_before_use) return false;
  if (!std::exchange(job.in_force, true)) put_in_force(job);
  return !c_.router_checker->all_tried();
}

void Applier::undo_all(Job& job) {
  job.undoing = true;
  for (; !job.undo.empty(); job.undo.pop_back()) job.undo.back()();
}

void Applier::finish(Job& job) {
  if (job.errors.empty() && !job.in_force) put_in_force(job);
  Done done = std::move(job.done);
  const auto errors = std::move(job.errors);
  jobs_.pop_front();
  if (done) done(errors);
}

/// What is in force names each NI by its NID, too.
void Applier::name_nis() {
  for (LocalNis::LocalNet& net : c_.nis->nets()) {
    for (const LocalNi& ni : net.nis) {
      for (config::NetConfig& wanted : c_.desired.nets) {
        for (config::NiConfig& one : wanted.nis) {
          if (wanted.net != net.net || one.interface != ni.config.interface) continue;
          if (one.nid ? one.nid != ni.nid : ni.config.nid.has_value()) continue;
          one.nid = ni.nid;
          one.nid_found = ni.by_interface;
        }
      }
    }
  }
}

void Applier::put_in_force(Job& job) {
  c_.desired = std::move(job.after);
  name_nis();
  std::erase_if(c_.desired.routes, [&](const config::RouteConfig& route) {  // those that left with their net
    return !waits(route) && std::none_of(c_.routes->routes().begin(), c_.routes->routes().end(), [&](const Route& one) {
      return one.config.net == route.net && one.config.gateway == route.gateway;
    });
  });
  const config::UlnetSection& ulnet = c_.desired.ulnet;
  const Duration interval = ulnet.alive_router_check_interval;
  c_.routing->set_settle_time(interval + ulnet.router_ping_timeout);
  c_.net_watch->set_limit(interval + ulnet.router_ping_timeout);
  c_.router_checker->set_interval(interval);
  c_.routes->set_rules({.avoid_asym = ulnet.avoid_asym_router_failure,
                        .tried_first = ulnet.check_routers_before_use && interval > Duration::zero()});
  c_.peers->set_watch_aliveness(c_.routing->state() != RoutingState::kDisabled);
  c_.dirty.node = c_.dirty.local = true;
  if (job.ulnet && ulnet_changed_) ulnet_changed_();
}

void Applier::abort() {
  while (!jobs_.empty()) {
    Job& job = jobs_.front();
    if (job.errors.empty()) job.errors.push_back({0, -ESHUTDOWN, "the node stops"});
    finish(job);
  }
}

// --- LNet and its NIs ------------------------------------------------------------------------------------------------

Applier::Step Applier::run(Job&, const config::LnetConfigure&) {
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::LnetUnconfigure&) {
  if (in_use_) {
    if (const std::string user = in_use_(); !user.empty()) return refuse(job, -EBUSY, "LNet is in use by " + user);
  }
  c_.nis->waiting().clear();
  c_.routes->clear();
  c_.routing->abort();
  for (LocalNis::LocalNet& net : c_.nis->nets())
    for (LocalNi& ni : net.nis) begin_remove(job, ni, true);
  nis_changed(c_);
  c_.peers->clear();
  c_.dirty.node = true;
  job.undo.clear();  // there is no way back to what has been taken down
  job.before = config::DesiredState{};
  job.before.ulnet = c_.desired.ulnet;
  c_.desired = job.before;
  return Step::kDone;
}

TextResult<LocalNi*> Applier::ni_add(Net net, const config::NiConfig& ni, const config::DesiredState& state) {
  auto added = c_.nis->add(net, ni, state.global.max_interfaces, ni_defaults(state), now_);
  if (added) nis_changed(c_);
  return added;
}

void Applier::begin_remove(Job& job, LocalNi& ni, bool at_once) {
  if (ni.going()) return;
  job.leaving.push_back(ni.id);
  job.explain_at = now_ + kExplainEvery;
  if (at_once)
    c_.nis->remove(ni, now_);
  else
    c_.nis->leave(ni, now_);
}

Applier::Step Applier::run(Job& job, const config::NetAdd& change) {
  auto added = ni_add(change.net, change.ni, job.after);
  if (!added && waits(job, change, added.error())) return Step::kDone;
  if (!added) return refuse(job, added.error().code, with("cannot add LNet NI", added.error().what));
  job.undo.push_back([this, &job, id = (*added)->id] {
    if (LocalNi* ni = c_.nis->find(id)) begin_remove(job, *ni, true);
    nis_changed(c_);
  });
  c_.log(fmt::format("{} added{}{}", nid_text((*added)->nid), (*added)->params.interface.empty() ? "" : " on ",
                     (*added)->params.interface));
  advise(job, (*added)->nid);
  return Step::kDone;
}

Applier::Step Applier::run(Job&, const config::NetAddMatching&) {
  return Step::kDone;
}  // expanded before

Applier::Step Applier::run(Job& job, const config::NetDel& change) {
  std::vector<LocalNi*> leaving;
  for (LocalNi* ni : c_.nis->on_net(change.net)) {
    if (!change.interface.empty() && ni->params.interface != change.interface) continue;
    if (!change.nid || *change.nid == ni->nid) leaving.push_back(ni);
  }
  const std::vector<WaitingNi> waited = stop_waiting(change.net, change.interface, change.nid);
  if (!waited.empty()) {
    job.undo.push_back(
        [this, waited] { c_.nis->waiting().insert(c_.nis->waiting().end(), waited.begin(), waited.end()); });
  }
  if (leaving.empty() && waited.empty()) return refuse(job, -EINVAL, "cannot del network: there is no such NI");
  for (LocalNi* ni : leaving) {
    c_.log(fmt::format("{} is being deleted", nid_text(ni->nid)));
    job.undo.push_back([this, net = change.net, config = ni->config] {
      if (!ni_add(net, config, c_.desired))
        c_.log("error: an NI that was taken down for changes that failed could not be added again");
    });
    begin_remove(job, *ni, change.now);
  }
  nis_changed(c_);
  return Step::kDone;
}

Applier::Step Applier::tune(Job& job, LocalNi& ni, const std::map<std::string, int64_t>& lnd_tunables) {
  auto was = ni.config.lnd_tunables;
  if (auto done = c_.nis->tune(ni, lnd_tunables, ni_defaults(job.after), now_); !done)
    return refuse(job, done.error().code, "cannot configure " + done.error().what);
  job.undo.push_back([this, id = ni.id, was = std::move(was)] {
    if (LocalNi* one = c_.nis->find(id)) (void)c_.nis->tune(*one, was, ni_defaults(c_.desired), now_);
  });
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::NetSet& change) {
  bool found = change.all;
  for (LocalNis::LocalNet& net : c_.nis->nets()) {
    for (LocalNi& ni : net.nis) {
      if (ni.closing) continue;
      const bool meant = config::net_set_means(change, ni.nid);
      auto tunables = ni.config.lnd_tunables;
      const bool tuned = config::net_set_tune(change, ni.nid, tunables);
      found |= meant || tuned;
      if (meant && change.health) {
        job.undo.push_back([this, id = ni.id, was = ni.health] {
          if (LocalNi* one = c_.nis->find(id)) one->health = was;
        });
        ni.health = uint16_t(*change.health);
      }
      if (tuned && tune(job, ni, tunables) == Step::kFailed) return Step::kFailed;
    }
  }
  if (!found) return refuse(job, -ENOENT, "cannot configure net: there is no such NI");
  c_.dirty.local = c_.dirty.ping = true;
  return Step::kDone;
}

// --- routes and peers ------------------------------------------------------------------------------------------------

Applier::Step Applier::run(Job& job, const config::RouteAdd& change) {
  if (auto added = c_.routes->add(change.route); !added) {
    if (added.error().code != -EHOSTUNREACH || !waits(change.route))
      return refuse(job, added.error().code, added.error().what);
    note(job, fmt::format("the route to {} waits for an NI on {}", net_text(change.route.net),
                          net_text(change.route.gateway.net())));
    return Step::kDone;
  }
  job.undo.push_back([this, route = change.route] { (void)c_.routes->remove(route.net, route.gateway); });
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::RouteDel& change) {
  const auto& routes = c_.routes->routes();
  const auto found = std::find_if(routes.begin(), routes.end(), [&](const Route& one) {
    return one.config.net == change.net && one.config.gateway == change.gateway;
  });
  if (found != routes.end()) {
    job.undo.push_back([this, route = found->config] { (void)c_.routes->add(route); });
  }
  if (auto removed = c_.routes->remove(change.net, change.gateway); !removed) {
    return refuse(job, removed.error().code, removed.error().what);
  }
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::PeerAdd& change) {
  const auto& known = job.before.peers;
  const auto was =
      std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.primary == change.peer.primary; });
  auto added = c_.peers->add(change.peer, change.refresh);
  if (!added) return refuse(job, added.error().code, added.error().what);
  if (was != known.end())
    job.undo.push_back([this, peer = *was] { (void)c_.peers->add(peer, true); });
  else
    job.undo.push_back([this, primary = change.peer.primary] { (void)c_.peers->remove(primary, {}, true); });
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::PeerDel& change) {
  auto removed = c_.peers->remove(change.primary, change.nids, change.force);
  if (!removed) return refuse(job, removed.error().code, removed.error().what);
  const auto& known = job.before.peers;
  const auto was =
      std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.primary == change.primary; });
  if (was != known.end()) job.undo.push_back([this, peer = *was] { (void)c_.peers->add(peer); });
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::PeerSet& change) {
  bool found = change.all;
  for (const auto& [id, peer] : c_.peers->peers()) {
    bool touched = false;
    for (PeerNet& net : peer->nets) {
      for (PeerNi* ni : net.nis) {
        if (!change.all && change.nid != ni->nid) continue;
        found = touched = true;
        if (change.health) ni->health = uint16_t(*change.health);
      }
    }
    if (touched && change.state) {
      const uint32_t was = std::exchange(peer->state, kept_bits(peer->state) | (uint32_t(*change.state) & ~kPeerBusy));
      job.undo.push_back([this, id = peer->id, was] {
        Peer* one = c_.peers->find_peer(id);
        if (one != nullptr) one->state = kept_bits(one->state) | (was & ~kPeerBusy);
      });
      c_.discovery->refresh(*peer);
    }
    if (touched) c_.peers->touch(*peer);
  }
  return found ? Step::kDone : refuse(job, -ENOENT, "cannot configure peer: there is no such peer NI");
}

// --- settings: in force with the whole list --------------------------------------------------------------------------

Applier::Step Applier::run(Job&, const config::SetValue&) {
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::SetRouting& change) {
  const bool was = c_.routing->state() == RoutingState::kEnabled || c_.routing->state() == RoutingState::kStarting;
  if (change.enable) {
    auto enabled = c_.routing->enable(start_up_ || job.after.ulnet.forwarding == config::Forwarding::kEnabled, now_);
    if (!enabled) return refuse(job, enabled.error().code, "cannot configure routing: " + enabled.error().what);
  } else {
    c_.routing->disable(now_);
  }
  if (was != change.enable) {
    job.undo.push_back([this, was] {
      if (was)
        (void)c_.routing->enable(true, now_);
      else
        c_.routing->abort();
    });
  }
  c_.dirty.node = c_.dirty.ping = true;
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::SetBuffers& change) {
  const config::Buffers old = c_.routing->buffers();
  config::Buffers buffers = old;
  buffers.tiny = change.tiny.value_or(buffers.tiny);
  buffers.small = change.small.value_or(buffers.small);
  buffers.large = change.large.value_or(buffers.large);
  if (auto set = c_.routing->set_buffers(buffers); !set) {
    return refuse(job, set.error().code, "cannot configure buffers: " + set.error().what);
  }
  job.undo.push_back([this, old] { (void)c_.routing->set_buffers(old); });
  return Step::kDone;
}

Applier::Step Applier::run(Job&, const config::UdspAdd&) {
  return Step::kDone;
}
Applier::Step Applier::run(Job&, const config::UdspDel&) {
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::UlnetSet& change) {
  job.ulnet = true;
  if (change.key == "socklnd.timeout" || change.key == "socklnd.conns_per_peer") {
    for (LocalNis::LocalNet& net : c_.nis->nets())
      for (LocalNi& ni : net.nis)
        if (!ni.closing && tune(job, ni, ni.config.lnd_tunables) == Step::kFailed) return Step::kFailed;
  }
  return Step::kDone;
}

}  // namespace ulnet
