#include "control/apply/applier.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "config/export.h"
#include "config/ip2nets.h"
#include "config/schema.h"
#include "config/warn.h"
#include "control/discovery/runner.h"
#include "control/health/health.h"
#include "control/node_config.h"
#include "control/turn.h"
#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// Changes carried out in one turn.
constexpr unsigned kChangesBudget = 256;
/// Time between two lines that explain to a waiting client why an NI has not left yet.
constexpr Duration kExplainEvery = 2s;
/// Most advice lines that advised_ holds.
constexpr size_t kAdvisedMax = 1024;
/// Time between two looks at a list that waits; reports of workers lead to more looks.
constexpr Duration kLookAgain = 10ms;
constexpr const char* kNoMemory =
    "there is no memory for this change, and nothing was changed: change less at a time, or free memory";

std::string with(const char* words, const std::string& what) {
  return what.rfind(words, 0) == 0 ? what : std::string(words) + ": " + what;
}

/// Bits of Peer::state that discovery keeps for its own work. If an operator changed them, that work would never end.
uint32_t kept_bits(uint32_t state) {
  return state & kPeerBusy;
}

/// True for changes that a list may hold in any number and that take memory for good.
bool makes_more(const config::Change& change) {
  return std::holds_alternative<config::PeerAdd>(change) || std::holds_alternative<config::RouteAdd>(change) ||
         std::holds_alternative<config::UdspAdd>(change);
}

NiDefaults ni_defaults(const config::DesiredState& state) {
  return {state.ulnet.driver, config::lnd_timeout_of(state.global)};
}

}  // namespace

uint64_t Applier::submit(config::ChangeList changes, Done done, Note note) {
  Job& job = jobs_.emplace_back();
  job.number = ++last_number_;
  job.changes = std::move(changes);
  job.done = std::move(done);
  job.note = std::move(note);
  retry_at_ = kNever;
  set_timer();
  return job.number;
}

void Applier::withdraw(uint64_t number) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.number == number; });
  if (found == jobs_.end() || found->started) return;
  found->errors.push_back(config::problem_of(-ECANCELED, "withdrawn before the change began"));
  finish(jobs_, found);
  set_timer();
}

void Applier::set_timer() {
  const bool busy = !jobs_.empty() || !leaving_.empty();
  next_.set(busy ? retry_at_ : c_.nis->waiting().empty() ? kForever : retry_waiting_at_);
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

// All NIs of a subnet have the same advice: the journal gets each line once, the client gets it every time.
void Applier::advise(Job& job, const Nid& nid) {
  if (c_.deps.devices == nullptr) return;
  if (advised_.size() > kAdvisedMax) advised_.clear();
  for (const std::string& line : c_.deps.devices->advice(nid)) {
    if (advised_.insert(line).second) c_.log(line);
    if (job.note) job.note(line);
  }
}

config::ChangeList Applier::expand(const config::ChangeList& changes, std::vector<size_t>& origin,
                                   config::Problems& errors) {
  config::ChangeList all;
  const auto append = [&](const config::PlacedChange& change, size_t from) {
    if (is_in_force(change) || is_not_for_here(change)) return;
    all.push_back(change);
    origin.push_back(from);
  };
  config::Ip2nets ip2nets(c_.deps.devices);
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

// The configuration in force names an NI by its NID. An operator may name the interface, which stands for every NI of
// the net on it.
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
  job.order = c_.nis->order();
  job.routes = c_.routes->routes();
  if (!job.errors.empty()) return;
  std::vector<std::string> notes;
  job.errors = config::changes_apply(job.after, job.changes, &notes);
  for (config::Problem& error : job.errors) error.index = job.origin[error.index];
  if (!job.errors.empty()) return;
  job.policies.begin(*c_.policies, job.changes, c_.desired.udsp, job.after.udsp);
  for (const std::string& line : notes) note(job, line);
  for (const auto& warning : config::changes_warnings(asked, start_up_ ? nullptr : &c_.desired.ulnet))
    note(job, std::string(kWarning) + config::problem_text(warning));
}

Applier::Step Applier::refuse(Job& job, int code, std::string what) {
  job.errors.push_back(config::problem_of(code, std::move(what), job.origin[job.next]));
  return Step::kFailed;
}

unsigned Applier::turn(Instant now) {
  now_ = now;
  retry_at_ = now + kLookAgain;
  const unsigned done = run_jobs();
  set_timer();
  return done;
}

unsigned Applier::run_jobs() {
  unsigned done = turn_leaving();
  if (jobs_.empty()) return done + retry_waiting();
  while (!jobs_.empty() && done < kChangesBudget) {
    Job& job = jobs_.front();
    if (job.undoing) {
      if (!undo_all(job)) return done;
      finish(jobs_, jobs_.begin());
      continue;
    }
    if (!job.started || job.next < job.changes.size()) {
      const Step step = carry_out(job);
      if (step == Step::kWait) return done;
      ++done;
      if (step == Step::kFailed) job.undoing = true;
      continue;
    }
    if (must_wait_for_gateways(job)) return done;
    if (!std::exchange(job.in_force, true)) put_in_force(job);
    job.undo.clear();
    leaving_.splice(leaving_.end(), jobs_, jobs_.begin());
    done += turn_leaving();
  }
  if (done >= kChangesBudget) retry_at_ = kNever;
  return done;
}

// A change that is large enough may run out of memory anywhere: that is an error like others.
Applier::Step Applier::carry_out(Job& job) {
  try {
    if (!job.started) {
      start(job);
      return job.errors.empty() ? Step::kDone : Step::kFailed;
    }
    if (makes_more(job.changes[job.next].change) && c_.memory_low()) return refuse(job, -ENOMEM, kNoMemory);
    const Step step = std::visit([&](const auto& change) { return run(job, change); }, job.changes[job.next].change);
    if (step == Step::kDone) ++job.next;
    return step;
  } catch (const std::bad_alloc&) {
    const size_t index = job.next < job.origin.size() ? job.origin[job.next] : 0;
    job.errors.push_back(config::problem_of(-ENOMEM, kNoMemory, index));
    return Step::kFailed;
  }
}

/// True if the NIs of `leaving` have left. An NI that stays after all does not count.
bool Applier::all_left(Job& job) {
  std::erase_if(job.leaving, [&](NiId id) {
    const LocalNi* ni = c_.nis->find(id);
    return ni == nullptr || !ni->going();
  });
  if (job.leaving.empty()) return true;
  if (now_ >= job.explain_at) explain(job);
  return false;
}

unsigned Applier::turn_leaving() {
  for (unsigned done = 0;; ++done) {
    const auto gone = std::find_if(leaving_.begin(), leaving_.end(), [&](Job& job) {
      if (job.policies.done(*c_.policies, *c_.publisher, c_.unpublished, now_)) return all_left(job);
      retry_at_ = std::min(retry_at_, job.policies.look_at());
      return false;
    });
    if (gone == leaving_.end()) return done;
    for (const auto& line : start_up_ ? std::vector<std::string>() : idle_rules(gone->changes, c_.policies->rules()))
      note(*gone, line);
    finish(leaving_, gone);
  }
}

// `check_routers_before_use`: the start is over when each gateway was tried once.
bool Applier::must_wait_for_gateways(Job& job) {
  if (!job.errors.empty() || !start_up_ || !job.after.ulnet.check_routers_before_use) return false;
  if (!std::exchange(job.in_force, true)) put_in_force(job);
  return !c_.router_checker->all_tried();
}

void Applier::finish(std::list<Job>& jobs, std::list<Job>::iterator job) {
  Done done = std::move(job->done);
  const auto errors = std::move(job->errors);
  jobs.erase(job);
  if (done) done(errors);
}

/// Adds the NID of each NI to the configuration in force.
void Applier::name_nis() {
  for (const LocalNi* ni : c_.nis->all()) {
    if (ni->going()) continue;
    for (config::NetConfig& wanted : c_.desired.nets) {
      for (config::NiConfig& one : wanted.nis) {
        if (wanted.net != ni->net || one.interface != ni->config.interface) continue;
        if (one.nid ? one.nid != ni->nid : ni->config.nid.has_value()) continue;
        one.nid = ni->nid;
        one.nid_found = ni->by_interface;
      }
    }
  }
}

void Applier::put_in_force(Job& job) {
  c_.desired = std::move(job.after);
  name_nis();
  std::erase_if(c_.desired.routes, [&](const config::RouteConfig& route) {  // routes that left with their net
    return !waits(route) && !c_.routes->has(route.net, route.gateway);
  });
  const config::UlnetSection& ulnet = c_.desired.ulnet;
  const Duration interval = ulnet.alive_router_check_interval;
  c_.routing->set_settle_time(interval + ulnet.router_ping_timeout);
  c_.net_watch->set_limit(interval + ulnet.router_ping_timeout);
  c_.router_checker->set_interval(interval);
  c_.routes->set_rules({.avoid_asym = ulnet.avoid_asym_router_failure,
                        .tried_first = ulnet.check_routers_before_use && interval > Duration::zero(),
                        .sensitivity = c_.desired.global.router_sensitivity});
  c_.peers->set_watch_aliveness(c_.routing->state() != RoutingState::kDisabled);
  job.policies.put_in_force(*c_.policies, {*c_.nis, *c_.peers, *c_.routes});
  c_.dirty.node = c_.dirty.local = true;
  if (job.ulnet && ulnet_changed_) ulnet_changed_();
}

void Applier::abort() {
  for (std::list<Job>* jobs : {&leaving_, &jobs_})
    while (!jobs->empty()) {
      Job& job = jobs->front();
      if (job.errors.empty()) job.errors.push_back(config::problem_of(-ESHUTDOWN, "the node is stopping"));
      finish(*jobs, jobs->begin());
    }
  set_timer();
}

// --- LNet and its NIs ------------------------------------------------------------------------------------------------

Applier::Step Applier::run(Job& job, const config::LnetUnconfigure&) {
  if (in_use_) {
    if (const std::string user = in_use_(); !user.empty()) return refuse(job, -EBUSY, "LNet is in use by " + user);
  }
  if (!networks_.empty() && c_.desired.configured)
    note(job, "the configuration file is no longer in force; 'lnet configure --all' adds its networks");
  c_.nis->waiting().clear();
  c_.routes->clear();
  c_.routing->abort();
  for (LocalNi* ni : c_.nis->all()) begin_remove(job, *ni, true);
  nis_changed(c_);
  c_.peers->clear();
  c_.dirty.node = true;
  job.undo.clear();  // there is no way back to what has been taken down
  job.order.clear();
  job.routes.clear();
  job.before = config::DesiredState{};
  job.before.ulnet = c_.desired.ulnet;
  c_.desired = job.before;
  c_.policies->set_rules({});
  c_.faults.clear();
  return Step::kDone;
}

config::Checked<LocalNi*> Applier::ni_add(Net net, const config::NiConfig& ni, const config::DesiredState& state) {
  auto added = c_.nis->add(net, ni, state.global.max_interfaces, ni_defaults(state), now_);
  if (added) nis_changed(c_);
  return added;
}

void Applier::begin_remove(Job& job, LocalNi& ni, bool at_once) {
  if (ni.going()) return;
  if (job.leaving.empty()) job.explain_at = now_ + kExplainEvery;
  job.leaving.push_back(ni.id);
  if (at_once)
    c_.nis->remove(ni, now_);
  else
    c_.nis->leave(ni, now_);
}

Applier::Step Applier::run(Job& job, const config::NetAdd& change) {
  auto added = ni_add(change.net, change.ni, job.after);
  if (!added && added.error().code == -EBUSY) return Step::kWait;  // the NID is still being deleted
  if (!added && waits(job, change, added.error())) return Step::kDone;
  if (!added) return refuse(job, added.error().code, with("cannot add LNet NI", added.error().what));
  job.undo.push_back([this, &job, id = (*added)->id] {
    if (LocalNi* ni = c_.nis->find(id)) begin_remove(job, *ni, true);
    nis_changed(c_);
    return true;
  });
  c_.events->ni(**added, (*added)->params.interface.empty() ? "added" : "added on " + (*added)->params.interface);
  advise(job, (*added)->nid);
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::NetDel& change) {
  std::vector<LocalNi*> leaving;
  for (LocalNi* ni : c_.nis->on_net(change.net)) {
    if (!change.interface.empty() && ni->params.interface != change.interface) continue;
    if (!change.nid || *change.nid == ni->nid) leaving.push_back(ni);
  }
  const std::vector<WaitingNi> waited = stop_waiting(change.net, change.interface, change.nid);
  if (!waited.empty()) {
    job.undo.push_back([this, waited] {
      c_.nis->waiting().insert(c_.nis->waiting().end(), waited.begin(), waited.end());
      return true;
    });
  }
  if (leaving.empty() && waited.empty()) return refuse(job, -EINVAL, "cannot del network: there is no such NI");
  for (LocalNi* ni : leaving) {
    job.undo.push_back([this, id = ni->id, net = change.net, config = ni->config, health = ni->health] {
      return ni_back(id, net, config, health);
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
    return true;
  });
  return Step::kDone;
}

/// With kHealthAuto, a value that was set by hand follows failures and messages again.
void Applier::set_health(HealthValue& health, int64_t value) const {
  if (value == config::kHealthAuto)
    health.release(now_);
  else
    health.set_by_hand(uint16_t(value));
}

Applier::Step Applier::run(Job& job, const config::NetSet& change) {
  bool found = change.all;
  for (LocalNi* ni : c_.nis->all()) {
    if (ni->closing) continue;
    const bool meant = config::net_set_means(change, ni->nid);
    auto tunables = ni->config.lnd_tunables;
    const bool tuned = config::net_set_tune(change, ni->nid, tunables);
    found |= meant || tuned;
    if (meant && change.health) {
      job.undo.push_back([this, id = ni->id, was = ni->health] {
        LocalNi* one = c_.nis->find(id);
        if (one == nullptr) return true;
        one->health = was;
        c_.health->follow(*one, now_);
        return true;
      });
      set_health(ni->health, *change.health);
      c_.health->follow(*ni, now_);
    }
    if (tuned && tune(job, *ni, tunables) == Step::kFailed) return Step::kFailed;
  }
  if (!found) return refuse(job, -ENOENT, "cannot configure net: there is no such NI");
  nis_changed(c_);
  return Step::kDone;
}

// --- routes and peers ------------------------------------------------------------------------------------------------

Applier::Step Applier::run(Job& job, const config::RouteAdd& change) {
  if (skips(job, change)) return Step::kDone;
  if (auto added = c_.routes->add(change.route); !added) {
    if (added.error().code != -EHOSTUNREACH || !waits(change.route))
      return refuse(job, added.error().code, added.error().what);
    note(job, fmt::format("the route to {} waits for an NI on {}", net_text(change.route.net),
                          net_text(change.route.gateway.net())));
    return Step::kDone;
  }
  job.undo.push_back([this, route = change.route] {
    (void)c_.routes->remove(route.net, route.gateway);
    return true;
  });
  return Step::kDone;
}

// Undone with the whole list (undo_all).
Applier::Step Applier::run(Job& job, const config::RouteDel& change) {
  auto removed = c_.routes->remove(change.net, change.gateway);
  return removed ? Step::kDone : refuse(job, removed.error().code, removed.error().what);
}

Applier::Step Applier::run(Job& job, const config::PeerAdd& change) {
  if (skips(job, change)) return Step::kDone;
  undo_peers(job, change.peer.primary, change.peer.nids);
  auto added = c_.peers->add(change.peer, change.refresh);
  if (added) return Step::kDone;
  job.undo.pop_back();  // nothing has changed
  return refuse(job, added.error().code, added.error().what);
}

Applier::Step Applier::run(Job& job, const config::PeerDel& change) {
  undo_peers(job, change.primary, {});
  auto removed = c_.peers->remove(change.primary, change.nids, change.force);
  if (removed) return Step::kDone;
  job.undo.pop_back();  // nothing has changed
  return refuse(job, removed.error().code, removed.error().what);
}

Applier::Step Applier::run(Job& job, const config::PeerSet& change) {
  bool found = change.all;
  std::vector<std::pair<Nid, HealthValue>> healths;  // before
  for (const auto& [id, peer] : c_.peers->peers()) {
    bool touched = false;
    for (PeerNet& net : peer->nets) {
      for (PeerNi* ni : net.nis) {
        if (!change.all && change.nid != ni->nid) continue;
        found = touched = true;
        if (!change.health) continue;
        healths.emplace_back(ni->nid, ni->health);
        set_health(ni->health, *change.health);
        c_.health->follow(*ni, now_);
      }
    }
    if (touched && change.state) {
      const uint32_t was = std::exchange(peer->state, kept_bits(peer->state) | (uint32_t(*change.state) & ~kPeerBusy));
      job.undo.push_back([this, id = peer->id, was] {
        Peer* one = c_.peers->find_peer(id);
        if (one != nullptr) one->state = kept_bits(one->state) | (was & ~kPeerBusy);
        return true;
      });
      c_.discovery->refresh(*peer);
    }
    if (touched) c_.peers->touch(*peer);
  }
  job.undo.push_back([this, healths = std::move(healths)] {
    for (const auto& [nid, health] : healths)
      if (PeerNi* ni = c_.peers->find(nid)) {
        ni->health = health;
        c_.health->follow(*ni, now_);
        c_.peers->touch(*ni->peer);
      }
    return true;
  });
  return found ? Step::kDone : refuse(job, -ENOENT, "cannot configure peer: there is no such peer NI");
}

// --- settings: in force with the whole list --------------------------------------------------------------------------

// Uses the buffer counts of the whole list (Job::after), wherever the list sets them. Else buffers might be made that a
// later change of the list withdraws at once.
Applier::Step Applier::run(Job& job, const config::SetRouting& change) {
  const RoutingState state = c_.routing->state();
  const bool was = state == RoutingState::kEnabled || state == RoutingState::kStarting;
  if (change.enable) {
    if (!was) {
      job.undo.push_back([this, old = c_.routing->buffers()] { return (void)c_.routing->set_buffers(old), true; });
      (void)c_.routing->set_buffers(job.after.buffers);
    }
    const bool at_once = start_up_ || job.after.ulnet.forwarding == config::Forwarding::kEnabled;
    auto enabled = c_.routing->enable(at_once, now_);
    if (!enabled) return refuse(job, enabled.error().code, "cannot configure routing: " + enabled.error().what);
    if (!was && !at_once)
      note(job, fmt::format("this node forwards from now on, and reports this to its peers in {} s",
                            c_.routing->settle_time() / 1s));
  } else {
    c_.routing->disable(now_);
  }
  if (was != change.enable) {
    job.undo.push_back([this, was] {
      if (was)
        (void)c_.routing->enable(true, now_);
      else
        c_.routing->abort();
      return true;
    });
  }
  c_.dirty.node = c_.dirty.ping = true;
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::SetBuffers&) {
  const config::Buffers old = c_.routing->buffers();
  if (auto set = c_.routing->set_buffers(job.after.buffers); !set)
    return refuse(job, set.error().code, "cannot configure buffers: " + set.error().what);
  job.undo.push_back([this, old] { return (void)c_.routing->set_buffers(old), true; });
  return Step::kDone;
}

Applier::Step Applier::run(Job& job, const config::UlnetSet& change) {
  job.ulnet = true;
  if (config::ni_setting_is("ulnet." + change.key)) {
    for (LocalNi* ni : c_.nis->all())
      if (!ni->closing && tune(job, *ni, ni->config.lnd_tunables) == Step::kFailed) return Step::kFailed;
  }
  return Step::kDone;
}

}  // namespace ulnet
