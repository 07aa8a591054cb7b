#include "control/health/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// A node is active if a message came so lately: a rail of its that does not answer is pinged often.
constexpr Duration kActive = 2s;
/// A peer NI that was heard so lately can show that an NI of this node works.
constexpr Duration kPartnerHeard = 10s;

uint64_t received(const PeerNi& ni) {
  uint64_t count = 0;
  for (const Counter& one : ni.blocks->slice.counters[NiTraffic::kReceived]) count += one.get();
  return count;
}

uint64_t read_charges(LocalNi& ni) {
  uint64_t count = 0;
  for (const auto& slice : ni.slices) count += slice->charges.read();
  return count - std::exchange(ni.watch.charged, count);
}

uint64_t read_charges(PeerNi& ni) {
  uint64_t count = 0;
  for (PeerLocal* local : ni.blocks->by_worker) count += local->charges.read();
  return count - std::exchange(ni.watch.charged, count);
}

std::string failures(uint64_t count) {
  return fmt::format("{} failed message{}", count, count == 1 ? "" : "s");
}

}  // namespace

Health::Health(Deps deps, Timers& timers)
    : deps_(std::move(deps)),
      pings_(deps_.self, timers, TimerName::kRecoveryPings, -ETIMEDOUT, &pings_),
      look_(timers, TimerName::kRecovery) {}

void Health::avoid(LocalNi& ni, bool avoid) {
  if (ni.closing || std::exchange(ni.watch.avoided, avoid) == avoid) return;
  unpublished_.push_back({ni.id, {}, avoid});
}

void Health::avoid(PeerNi& ni, bool avoid) {
  if (ni.blocks == nullptr || ni.peer == nullptr || std::exchange(ni.watch.avoided, avoid) == avoid) return;
  unpublished_.push_back({{}, ni.id, avoid});
  deps_.peers.touch(*ni.peer);  // PeerNiView::known_down
}

// Without health, no ping would find out that its node is wrong.
void Health::avoid_known_down(PeerNi& ni) {
  if (ni.cut_off || deps_.rules().sensitivity > 0) avoid(ni, true);
}

// The memory of an NI that closes, or of a peer NI that was removed, may be freed before a message about it is read.
void Health::tell_avoided(const Avoided& one) {
  if (LocalNi* ni = deps_.nis.find(one.ni); ni != nullptr && !ni->closing)
    for (uint16_t worker = 0; worker < ni->slices.size(); ++worker)
      deps_.outbox.send(WorkerId{worker}, AvoidNiMsg{ni->slices[worker].get(), one.avoid});
  if (PeerNi* ni = deps_.peers.find(one.peer_ni); ni != nullptr && ni->peer != nullptr)
    deps_.outbox.send(ni->server, AvoidPeerMsg{&ni->blocks->slice, one.avoid});
}

void Health::published() {
  for (const Avoided& one : std::exchange(unpublished_, {})) tell_avoided(one);
}

// The NI status in this node's ping info falls at 0 and rises at the whole value (docs/wire/lnet.md §9).
void Health::changed(LocalNi& ni, uint16_t before, const std::string& reason) {
  const uint16_t value = ni.health.value();
  const bool sick = value == 0 || (ni.sick && value != kHealthMax);
  const bool status = std::exchange(ni.sick, sick) != sick;
  if (ni.health.whole() && !ni.fatal) avoid(ni, false);
  if (value != before) deps_.ni_changed(ni, {before, value, reason, status});
}

void Health::changed(PeerNi& ni, uint16_t before, const std::string& reason) {
  if (ni.blocks != nullptr && (ni.health.recovers() || ni.watch.avoided)) ill_.insert(ni.id);
  if (ni.health.value() != before) deps_.peer_changed(ni, {before, ni.health.value(), reason});
}

void Health::follow(LocalNi& ni, Instant now) {
  ni.watch.sent = ni.counted(NiTraffic::kSent);
  ni.watch.received = ni.counted(NiTraffic::kReceived);
  const bool sick = ni.health.value() == 0 || (ni.sick && !ni.health.whole());
  if (std::exchange(ni.sick, sick) != sick)
    deps_.ni_changed(ni, {ni.health.value(), ni.health.value(), "it was set", true});
  if (!ni.health.silent() && !ni.fatal) avoid(ni, false);
  if (ni.health.recovers()) look_.set_by(now);
}

void Health::follow(PeerNi& ni, Instant now) {
  if (ni.blocks == nullptr) return;
  ni.watch.heard_ns = ni.last_heard_ns();
  ni.watch.received = received(ni);
  if (ni.known_down())
    avoid_known_down(ni);
  else if (!ni.health.silent())
    avoid(ni, false);
  if (!ni.health.recovers() && !ni.watch.avoided) return;
  ill_.insert(ni.id);
  look_.set_by(now);
}

/// The only way to its peer: a lower value would help nobody (docs/wire/lnet.md §9). A router, or the peer of one, may
/// have other ways.
bool Health::single(const PeerNi& ni) const {
  return ni.peer->ni_count() == 1 && !deps_.routes(*ni.peer);
}

void Health::charged(const ChargedMsg& msg, Instant now) {
  const HealthRules rules = deps_.rules();
  if (!msg.of_peer) {
    LocalNi* ni = deps_.nis.find(NiId{msg.id});
    if (ni == nullptr || ni->closing) return;
    const uint64_t count = read_charges(*ni);
    const uint16_t before = ni->health.value();
    if (before == kHealthMax) follow(*ni, now);
    ni->health.fail(count, rules, now);
    if (ni->health.recovers()) look_.set_by(now + kRecoveryLook);
    return changed(*ni, before, failures(count));
  }
  PeerNi* ni = deps_.peers.find(PeerNiId{msg.id});
  if (ni == nullptr || ni->blocks == nullptr) return;
  const uint64_t count = read_charges(*ni);
  if (ni->peer == nullptr || single(*ni)) return;
  const uint16_t before = ni->health.value();
  if (before == kHealthMax) follow(*ni, now);
  ni->health.fail(count, rules, now);
  if (ni->health.recovers()) look_.set_by(now + kRecoveryLook);
  changed(*ni, before, failures(count));
}

// A link that comes back is pinged at once if failures have lowered the value (docs/decisions.md #3).
void Health::link_changed(LocalNi& ni, Instant now) {
  avoid(ni, ni.fatal || ni.health.silent());
  if (ni.fatal || !ni.health.recovers()) return;
  ni.health.probe_at_once(now);
  look_.set_now();
}

void Health::said(PeerNi& ni, bool up, Instant now) {
  if (!up || !ni.cut_off) known(ni, up, up ? "its node reports it as up" : "its node reports it as down", now);
}

void Health::cut_off_changed(PeerNi& ni, Instant now) {
  if (ni.cut_off) return known(ni, false, "the link that leads to it is down", now);
  if (!ni.said_down()) known(ni, true, "the link that leads to it is up", now);
}

void Health::known(PeerNi& ni, bool up, const char* reason, Instant now) {
  const uint16_t before = ni.health.value();
  if (before == kHealthMax) follow(ni, now);
  if (up) {
    ni.health.probe_at_once(now);
    look_.set_now();
    if (!ni.health.silent()) ni.health.restore();
    return changed(ni, before, reason);
  }
  const HealthRules rules = deps_.rules();
  ni.health.fail(1, rules, now);
  if (ni.health.recovers()) ni.health.probe_at_once(now + kRecoveryLook);
  look_.set_by(now + kRecoveryLook);
  avoid_known_down(ni);
  changed(ni, before, reason);
}

void Health::silent(LocalNi& ni, const std::string& reason, Instant now) {
  const uint16_t before = ni.health.value();
  follow(ni, now);
  ni.health.fail_whole(deps_.rules(), now);
  if (!ni.health.recovers()) return;
  look_.set_by(now + kRecoveryLook);
  avoid(ni, true);
  changed(ni, before, reason);
}

void Health::silent(PeerNi& ni, const std::string& reason, Instant now) {
  const uint16_t before = ni.health.value();
  follow(ni, now);
  ni.health.fail_whole(deps_.rules(), now);
  if (!ni.health.recovers()) return;
  look_.set_by(now + kRecoveryLook);
  avoid(ni, true);
  changed(ni, before, reason);
}

// --- recovery --------------------------------------------------------------------------------------------------------

bool Health::may_be_pinged(const PeerNi& ni, const HealthRules& rules, Instant now) const {
  const int64_t heard = ni.last_heard_ns();
  // A silent peer NI gets no messages. Without pings, no message would ever come from it.
  const bool known = heard != 0 || ni.health.silent();
  if (!known || !deps_.nis.net_local(ni.nid.net())) return false;
  return rules.recovery_limit == Duration::zero() || now <= Instant{Duration{heard}} + rules.recovery_limit;
}

/// The peer NI over which an NI of this node is tested: of the healthiest, the last that a message came from. Unless
/// the NI is silent, a peer NI that is silent itself shows nothing.
const PeerNi* Health::partner(const LocalNi& ni, Instant now) const {
  const PeerNi* best = nullptr;
  const auto better = [](const PeerNi& a, const PeerNi& b) {
    if (a.health.value() != b.health.value()) return a.health.value() > b.health.value();
    return a.last_heard_ns() > b.last_heard_ns();
  };
  for (const auto& [id, peer] : deps_.peers.peers())
    for (const PeerNet& net : peer->nets) {
      if (net.net != ni.net) continue;
      for (const PeerNi* one : net.nis)
        if (one->last_heard_ns() != 0 && (best == nullptr || better(*one, *best))) best = one;
    }
  const bool fresh = best != nullptr && now - Instant{Duration{best->last_heard_ns()}} < kPartnerHeard;
  return fresh || ni.health.silent() ? best : nullptr;
}

bool Health::others_active(const PeerNi& ni, Instant now) const {
  for (const PeerNet& net : ni.peer->nets)
    for (const PeerNi* one : net.nis)
      if (one != &ni && now - Instant{Duration{one->last_heard_ns()}} < kActive) return true;
  return false;
}

// Nobody to test it with: the link alone counts. For a silent NI, partner() is null only if no peer NI of its net was
// ever heard.
void Health::test_alone(LocalNi& ni, const HealthRules& rules, Instant now) {
  const uint16_t before = ni.health.value();
  ni.health.heard();  // as an answer, and before the next time is set: 2 s from now, however long the last wait was
  ni.health.pinged(rules, now);
  ni.health.succeed(1, rules);
  changed(ni, before, "its link is up, and no peer on its net was heard lately");
}

/// An active rail that failed is pinged often: then a ping has less time for its answer.
template <class Ni, class Active>
bool Health::ping_is_due(const Ni& ni, const HealthRules& rules, const Active& active, Instant now) const {
  if (ni.watch.pinged) return false;
  return ni.health.ping_due(false, now) || (rules.fast && ni.health.ping_due(true, now) && active());
}

/// One ping of each NI at a time: so the pings that wait for their turn have a bound.
template <class Ni>
void Health::ping(Ni& ni, const PeerNi& to, const HealthRules& rules, Instant now) {
  PingOp op{.target = to.nid, .recovery = true, .sink_bytes = kPingBufferMin};
  if constexpr (std::is_same_v<Ni, LocalNi>) op.self = ni.nid;
  op.timeout = ni.health.next_ping() - now;
  if (rules.fast) op.timeout = std::min<Duration>(op.timeout, kFastPing);
  op.timeout = std::max<Duration>(op.timeout - kRecoveryLook, kRecoveryLook);  // the next is due after its end
  ni.watch.pinged = true;
  if (rules.fast) deps_.connect_again(to.nid);
  pings_.start(std::move(op), [this, id = ni.id](const PingEnd& end) {
    Ni* one = nullptr;
    if constexpr (std::is_same_v<Ni, LocalNi>)
      one = deps_.nis.find(id);
    else
      one = deps_.peers.find(id);
    if (one == nullptr) return;
    one->watch.pinged = false;
    ping_ended(*one, end.error == 0);
  });
}

void Health::ping_ended(LocalNi& ni, bool answered) {
  if (!answered || ni.closing) return;
  const uint16_t before = ni.health.value();
  ni.health.heard();
  ni.health.succeed(1, deps_.rules());
  changed(ni, before, "a recovery ping was answered");
}

// The answer is also a message from it, which the next look sees.
void Health::ping_ended(PeerNi& ni, bool answered) {
  if (!answered) return;
  look_.set_now();
  if (!ni.health.silent() || ni.peer == nullptr) return;
  const uint16_t before = ni.health.value();
  ni.health.restore();
  changed(ni, before, "a recovery ping was answered");
}

unsigned Health::look(LocalNi& ni, const HealthRules& rules, Instant now) {
  const uint64_t sent = ni.counted(NiTraffic::kSent), came = ni.counted(NiTraffic::kReceived);
  const uint64_t got_out = sent - std::exchange(ni.watch.sent, sent);
  const uint64_t got_in = came - std::exchange(ni.watch.received, came);
  const uint16_t before = ni.health.value();
  if (got_in > 0) ni.health.heard();
  // Neither messages that the driver has taken nor messages that came end a silence: the link may be open to one side.
  // The answer to a ping ends it.
  if (!ni.health.silent())
    ni.health.succeed(got_out, rules);
  else if (got_in > 0)
    ni.health.probe_soon(now);
  changed(ni, before, "messages get through");
  if (!ni.health.recovers() || ni.fatal) return ni.health.value() != before;
  if (!ping_is_due(
          ni, rules, [&] { return now - node_active_ < kActive; }, now))
    return 0;
  const PeerNi* to = partner(ni, now);
  if (to == nullptr) return test_alone(ni, rules, now), 1;
  ni.health.pinged(rules, now);
  ping(ni, *to, rules, now);
  return 1;
}

unsigned Health::look(PeerNi& ni, const HealthRules& rules, Instant now) {
  const int64_t heard = ni.last_heard_ns();
  const uint16_t before = ni.health.value();
  if (heard > ni.watch.heard_ns) {
    const uint64_t count = received(ni);
    ni.health.heard();
    if (ni.health.silent())
      ni.health.probe_soon(now);
    else if (deps_.routes(*ni.peer))
      ni.health.restore();
    else
      ni.health.succeed(std::max<uint64_t>(count - ni.watch.received, 1), rules);
    ni.watch.received = count;
    ni.watch.heard_ns = heard;
    changed(ni, before, "messages come from it");
  }
  if ((ni.health.whole() || ni.health.held()) && !ni.known_down()) avoid(ni, false);
  if (!ni.health.recovers() || !may_be_pinged(ni, rules, now)) return ni.health.value() != before;
  if (!ping_is_due(
          ni, rules, [&] { return others_active(ni, now); }, now))
    return 0;
  ni.health.pinged(rules, now);
  ping(ni, ni, rules, now);
  return 1;
}

void Health::answered(PeerNi& ni, Instant now) {
  if (ni.blocks == nullptr || !ni.health.recovers()) return;
  if (ni.health.silent()) ping_ended(ni, true);
  (void)look(ni, deps_.rules(), now);
}

unsigned Health::turn(Instant now) {
  unsigned done = pings_.turn(now);
  if (!look_.due(now)) return done;
  look_.stop();
  const HealthRules rules = deps_.rules();
  uint64_t came = 0;
  for (LocalNi* ni : deps_.nis.all()) came += ni->counted(NiTraffic::kReceived);
  if (std::exchange(node_received_, came) != came) node_active_ = now;
  bool any = false;
  for (LocalNi* ni : deps_.nis.all()) {
    if (!ni->health.recovers() || ni->going()) continue;
    done += look(*ni, rules, now);
    any |= ni->health.recovers();
  }
  for (auto at = ill_.begin(); at != ill_.end();) {
    PeerNi* ni = deps_.peers.find(*at);
    const bool there = ni != nullptr && ni->peer != nullptr && ni->blocks != nullptr;
    if (there) done += look(*ni, rules, now);
    at = there && (ni->health.recovers() || ni->watch.avoided) ? std::next(at) : ill_.erase(at);
  }
  if (any || !ill_.empty()) look_.set_by(now + kRecoveryLook);
  return done + pings_.turn(now);
}

void Health::abort() {
  pings_.abort();
  look_.stop();
}

std::vector<Nid> Health::recovering_local() const {
  std::vector<Nid> nids;
  for (const LocalNi* ni : deps_.nis.all())
    if (ni->health.recovers() && !ni->going()) nids.push_back(ni->nid);
  return nids;
}

std::vector<Nid> Health::recovering_peers() const {
  std::vector<Nid> nids;
  for (const PeerNiId id : ill_) {
    const PeerNi* ni = deps_.peers.find(id);
    if (ni != nullptr && ni->peer != nullptr && ni->health.recovers()) nids.push_back(ni->nid);
  }
  return nids;
}

}  // namespace ulnet
