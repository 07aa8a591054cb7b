#include "control/discovery/runner.h"

#include <algorithm>
#include <utility>

#include "control/control.h"
#include "control/health/health.h"
#include "control/health/other_pair.h"
#include "control/publish/view_builder.h"

namespace ulnet {
namespace {

/// When a peer that could not be told our newest list is told again: after this, then twice as long each time, at most
/// so long, at most so many times (docs/decisions.md #43). Dead ones thus cost little, and end.
constexpr Duration kTellAgain = 30s;
constexpr Duration kTellAgainMax = 900s;
constexpr uint32_t kTellAgainMost = 7;

MergeDeps merge_deps(Control& c) {
  return {*c.peers, *c.nis, [&c](const std::string& line) { c.log_limited(JournalCause::kDiscovery, line); },
          [&c](PeerNi& ni, bool up) { c.health->said(ni, up, c.now); }};
}

/// Did something change that others act on, though the list of NIs is the same (docs/wire/lnet.md §4.5)? DISCOVERY is
/// the machine's own matter, and the NI status of a node that is no router is seen when it is pinged.
bool news_for_others(const wire::PingInfo& before, const wire::PingInfo& after) {
  if (((before.features ^ after.features) & wire::kFeatureRteDisabled) != 0) return true;
  if ((after.features & wire::kFeatureRteDisabled) != 0) return false;
  return !std::equal(before.nis.begin(), before.nis.end(), after.nis.begin(), after.nis.end(),
                     [](const auto& a, const auto& b) { return a.nid == b.nid && a.status == b.status; });
}

}  // namespace

struct DiscoveryRunner::Batch {
  std::vector<DiscoverAnswer> answers;
  size_t open = 0;
  Done done;
};

DiscoveryRunner::DiscoveryRunner(Control& control)
    : c_(control),
      waited_(*control.self_submitter, control.timers, TimerName::kPingsWaited, -ETIMEDOUT, &others_),
      others_(*control.self_submitter, control.timers, TimerName::kPingsOther, -ETIMEDOUT, &others_),
      checks_(*control.self_submitter, control.timers, TimerName::kGatewayChecks, -EIO),
      machine_(merge_deps(control), *this, control.timers),
      again_timer_(control.timers, TimerName::kTellAgain) {
  // Not for the checks of gateways: each says something about one net.
  for (PingOps* ops : {&waited_, &others_})
    ops->set_other_pair([this](PingOp& op, unsigned number) { return other_pair(*c_.nis, *c_.peers, op, number); });
}

void DiscoveryRunner::wait(PeerNi& ni, bool force, Told told) {
  if (stopped_) return told(-ESHUTDOWN);
  const uint64_t waiter = next_waiter_++;
  waiting_[waiter] = std::move(told);
  machine_.discover(ni, waiter, force);
}

void DiscoveryRunner::discovered(uint64_t waiter, int32_t error) {
  auto found = waiting_.extract(waiter);
  if (!found.empty()) found.mapped()(error);
}

void DiscoveryRunner::resolve(WorkerId worker, PeerNi& ni) {
  wait(ni, false, [this, worker, nid = ni.nid](int32_t error) {
    if (error == -ESHUTDOWN)
      c_.resolved.push_back({worker, {nid, error}});
    else
      c_.resolved.push_back({worker, {nid, 0, error != 0}});
  });
}

void DiscoveryRunner::discover(const std::vector<Nid>& nids, bool force, Done done) {
  auto batch = std::make_shared<Batch>();
  batch->done = std::move(done);
  batch->open = nids.size() + 1;
  for (const Nid& nid : nids) batch->answers.push_back({.nid = nid});
  const auto ended = [batch] {
    if (--batch->open == 0) batch->done(std::move(batch->answers));
  };
  const auto tell = [this, batch, ended](size_t i, int32_t error) {
    DiscoverAnswer& answer = batch->answers[i];
    const PeerNi* ni = error == 0 ? c_.peers->find(answer.nid) : nullptr;
    answer.error = error != 0 ? error : ni == nullptr ? -ENOENT : 0;
    if (ni != nullptr) {
      answer.multi_rail = ni->peer->multi_rail();
      for (const PeerNet& net : ni->peer->nets)
        for (const PeerNi* one : net.nis) answer.nids.push_back(one->nid);
    }
    ended();
  };
  for (size_t i = 0; i < nids.size(); ++i) {
    if (nids[i].is_lo() || c_.nis->find(nids[i]) != nullptr) {  // this node: there is nobody to ask
      batch->answers[i].multi_rail = true;
      for (const wire::PingNi& one : info_.nis) batch->answers[i].nids.push_back(one.nid);
      if (info_.nis.empty()) batch->answers[i].nids.push_back(kLoNid);
      ended();
      continue;
    }
    auto ni = c_.peers->resolve(nids[i]);
    if (ni)
      wait(**ni, force, [tell, i](int32_t error) { tell(i, error); });
    else
      tell(i, ni.error().code);
  }
  ended();
}

void DiscoveryRunner::local_changed(const wire::PingInfo& info) {
  const wire::PingInfo before = std::exchange(info_, info);
  payload_ = std::make_shared<const std::vector<std::byte>>(wire::ping_info_encode(info));
  if (info.sequence != machine_.sequence())
    machine_.set_sequence(info.sequence, c_.nis->nids_sequence());
  else if (news_for_others(before, info))
    machine_.push_all();
}

bool DiscoveryRunner::all_told() const {
  return !c_.dirty.ping && machine_.untold() == 0;
}

PingData DiscoveryRunner::decode(std::span<const std::byte> bytes) const {
  PingData data;
  auto decoded = wire::ping_info_decode(bytes, uint32_t(c_.desired.global.max_interfaces));
  if (decoded)
    data.decode = std::move(*decoded);
  else
    data.error = -EPROTO;
  return data;
}

void DiscoveryRunner::push_came(const Event& event, std::span<const std::byte> bytes) {
  if (stopped_) return;
  PingData data = decode(bytes);
  data.from = event.source;
  data.to = event.target;
  machine_.push_came(std::move(data));
}

/// An NI of this node that reaches the NID; ANY when there is none. With a source given, the target is not chosen anew.
Nid DiscoveryRunner::source_for(const Nid& target, uint64_t number) const {
  auto nis = c_.nis->on_net(target.net());
  for (const Route& route : c_.routes->routes())
    if (nis.empty() && route.config.net == target.net()) nis = c_.nis->on_net(route.config.gateway.net());
  return nis.empty() ? kAnyNid : nis[number % nis.size()]->nid;
}

void DiscoveryRunner::start(PingOp op, PingOps::Done done) {
  if (op.exactly) op.self = source_for(op.target, op.number);
  op.timeout = op.check ? c_.desired.ulnet.router_ping_timeout : c_.desired.global.transaction_timeout;
  PingOps& ops = op.check ? checks_ : op.waited ? waited_ : others_;
  ops.start(std::move(op), std::move(done));
}

void DiscoveryRunner::send_ping(const PingOp& op) {
  start(op, [this, number = op.number](const PingEnd& end) {
    if (stopped_) return;
    if (end.error != 0) return machine_.ping_failed(number, end.error);
    if (PeerNi* ni = c_.peers->find(end.source)) c_.health->answered(*ni, c_.now);
    PingData data = decode(end.bytes);
    data.from = end.source;
    data.to = end.target;
    machine_.ping_answered(number, std::move(data));
  });
}

void DiscoveryRunner::send_push(const PingOp& op) {
  PingOp push = op;
  push.payload = payload_;
  start(std::move(push), [this, number = op.number](const PingEnd& end) {
    if (!stopped_) machine_.push_ended(number, end.error, end.source);
  });
}

// Whoever fails because somebody has sent to it is told again that much later: at most one entry of each peer.
bool DiscoveryRunner::not_told(uint32_t peer, uint32_t times) {
  if (stopped_ || times >= kTellAgainMost) return false;
  const Instant at = c_.now + std::min<Duration>(kTellAgain * (1u << times), kTellAgainMax);
  const auto [entry, fresh] = again_of_.try_emplace(peer, at);
  if (!fresh) again_.erase({std::exchange(entry->second, at), peer});
  again_.insert({at, peer});
  again_timer_.set_first(again_);
  return true;
}

unsigned DiscoveryRunner::tell_again(Instant now) {
  unsigned done = 0;
  for (; !again_.empty() && again_.begin()->first <= now; ++done) {
    const uint32_t peer = again_.begin()->second;
    again_.erase(again_.begin());
    again_of_.erase(peer);
    machine_.tell_again(peer);
  }
  again_timer_.set_first(again_);
  return done;
}

// What this node says of itself is brought up to date first, so that no push says what was.
unsigned DiscoveryRunner::turn(Instant now) {
  if (machine_.mode() != c_.desired.global.discovery) c_.dirty.ping = true;
  refresh_ping_info(c_);
  machine_.set_mode(c_.desired.global.discovery);
  unsigned done = stopped_ ? 0 : tell_again(now) + machine_.turn();
  for (PingOps* ops : {&waited_, &others_, &checks_}) done += ops->turn(now);
  return done;
}

void DiscoveryRunner::abort() {
  stopped_ = true;
  waited_.abort();
  others_.abort();
  checks_.abort();
  machine_.stop();
  again_.clear();
  again_of_.clear();
  again_timer_.stop();
  for (auto& [waiter, told] : std::exchange(waiting_, {})) told(-ESHUTDOWN);
}

}  // namespace ulnet
