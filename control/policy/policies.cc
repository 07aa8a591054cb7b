#include "control/policy/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace ulnet {
namespace {

constexpr size_t kIdleRulesNoted = 16;

std::string idle_text(const config::UdspRule& rule, Policy::Missing what) {
  switch (what) {
    case Policy::Missing::kNothing: break;
    case Policy::Missing::kSrc: return "no NI of this node matches src " + rule.src;
    case Policy::Missing::kDst: return "no known peer matches dst " + rule.dst;
    case Policy::Missing::kRte: return "no gateway of a route matches rte " + rule.rte;
  }
  return "";
}

using RuleKey = std::tuple<std::string_view, std::string_view, std::string_view>;
RuleKey key_of(const config::UdspRule& rule) {
  return {rule.src, rule.dst, rule.rte};
}

/// For each rule of `then` its index in `is`, or -1: it is new, or gets another priority.
std::vector<int32_t> former_indexes(const std::vector<config::UdspRule>& is,
                                    const std::vector<config::UdspRule>& then) {
  std::map<RuleKey, int32_t> known;
  for (size_t i = 0; i < is.size(); ++i) known.emplace(key_of(is[i]), int32_t(i));
  std::vector<int32_t> former(then.size(), -1);
  for (size_t i = 0; i < then.size(); ++i)
    if (const auto same = known.find(key_of(then[i])); same != known.end())
      if (is[size_t(same->second)].priority == then[i].priority) former[i] = same->second;
  return former;
}

}  // namespace

void PolicyStep::begin(const Policies& policies, const config::ChangeList& changes,
                       const std::vector<config::UdspRule>& is, const std::vector<config::UdspRule>& then) {
  seen_ = policies.revision();
  const auto clears = [](const auto& one) { return std::holds_alternative<config::LnetUnconfigure>(one.change); };
  if (is == then && std::none_of(changes.begin(), changes.end(), clears)) return;
  former_ = former_indexes(is, then);
  rules_.emplace(then);
}

void PolicyStep::put_in_force(Policies& policies, const PolicyTables& tables) {
  if (rules_) policies.set_rules(std::move(*rules_), former_);
  policies.follow(true, tables);
  if (policies.revision() != seen_ || policies.stale()) end_ = policies.goal();
}

bool PolicyStep::done(const Policies& policies, const Publisher& publisher, bool unpublished, Instant now) {
  if (end_ == Policies::Point{}) return true;
  if (!out_) {
    if (!policies.reached(end_) || unpublished) return false;
    out_ = publisher.epoch();
  }
  if (now < look_at_) return false;
  look_at_ = now + kRetrySoon;
  return publisher.passed(*out_);
}

std::vector<std::string> idle_rules(const config::ChangeList& changes, const PolicyRules& rules) try {
  std::set<RuleKey> added;
  for (const config::PlacedChange& placed : changes)
    if (const auto* add = std::get_if<config::UdspAdd>(&placed.change)) added.insert(key_of(add->rule));
  if (added.empty()) return {};
  const auto asked = [&](int32_t index) { return added.contains(key_of(rules.rules[size_t(index)])); };
  const Policy::Idle found = rules.policy.idle(asked, kIdleRulesNoted + 1);
  std::vector<std::string> notes;
  for (const auto& [index, what] : found.rules) {
    if (notes.size() == kIdleRulesNoted) {
      notes.emplace_back("further rules that have no effect yet are not listed");
      return notes;
    }
    notes.push_back(fmt::format("no effect yet: {}; the rule will hold for objects that are added later",
                                idle_text(rules.rules[size_t(index)], what)));
  }
  if (!found.all) notes.emplace_back("the other rules were not checked for an effect: they and the objects are many");
  return notes;
} catch (const std::bad_alloc&) {
  return {};
}

void Policies::go_round(const Point& goal) {
  goal_ = std::max(goal_, goal);
  set_timer();
}

void Policies::set_rules(PolicyRules rules, std::span<const int32_t> former) noexcept {
  if (!former.empty()) rules.policy.take_met(policy(), former);
  std::swap(in_force_, rules);
  follower_.forget();
  stale_ = true;
  flush_until_ = 0;
  ++revision_;
  go_round({at_.lap + 1, at_.peer});
}

void Policies::follow(bool nis_changed, const PolicyTables& tables) {
  if (!nis_changed && !stale_ && follower_.gateways_seen(policy(), tables)) return;
  stale_ = true;
  auto change = PolicyFollower::Change::kNone;
  try {
    change = follower_.follow(policy(), tables);
  } catch (const std::bad_alloc&) {
    go_round({at_.lap + 1, at_.peer});
    return failed("the objects of selection rules");
  }
  stale_ = false;
  if (change == PolicyFollower::Change::kNone) return;
  if (change == PolicyFollower::Change::kLists) ++revision_;
  go_round({at_.lap + 1, at_.peer});
}

/// Evaluates NIs with results of an older revision, and the sources. False: some are left, because the budget is used
/// up or memory is short.
bool Policies::update(Peer& peer, uint64_t until, bool& changed) try {
  // A new primary NI does not keep the other NIs from workers.
  const bool known = std::any_of(peer.nets.begin(), peer.nets.end(), [](const PeerNet& net) {
    return std::any_of(net.nis.begin(), net.nis.end(), [](const PeerNi* ni) { return ni->policy_seen != 0; });
  });
  for (PeerNet& net : peer.nets) {
    const PolicyPriority before = std::exchange(net.policy, policy().of_peer_net(net.net));
    changed |= before.priority != net.policy.priority;
    for (PeerNi* ni : net.nis) {
      if (ni->policy_seen != revision_) {
        const bool must = known && !stale_ && ni->policy_seen == 0 && ni == &peer.primary();
        if (policy().comparisons() >= until && !must) return false;
        PeerNiPolicy now = policy().of_peer_ni(ni->nid);
        now.source = ni->policy.source;
        changed |= !now.same_for_workers(ni->policy);
        ni->policy = std::move(now);
        ni->policy_seen = revision_;
      }
      const Nid source = peer.multi_rail() ? kAnyNid : policy().plain_source(ni->nid, ni->source, ni->policy.sources);
      changed |= std::exchange(ni->policy.source, source) != source;
    }
  }
  return true;
} catch (const std::bad_alloc&) {
  failed("the results of selection rules");
  return false;
}

/// The timer starts another try.
void Policies::failed(const char* what) try {
  failed_ = true;
  set_timer();
  if (said_failed_) return;
  log_(fmt::format("there is no memory for {}; the former ones stay until there is", what));
  said_failed_ = true;
} catch (const std::bad_alloc&) {
}

bool Policies::evaluate(Peer& peer) {
  bool changed = false;
  if (update(peer, flush_until_, changed)) return true;
  bool held = false;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) held |= ni->policy_seen == 0;
  held_ |= held;
  held ? set_timer() : go_round({at_.lap + 1, at_.peer});
  return !held;
}

void Policies::walk(PeerDb& peers) {
  const auto& all = peers.peers();
  const uint64_t until = policy().comparisons() + kPolicyBudget;
  size_t seen = 0;
  auto next = all.lower_bound(at_.peer);
  while (at_ < goal_) {
    if (next == all.end()) {
      at_ = {at_.lap + 1, 0};
      next = all.begin();
      continue;
    }
    Peer& peer = *next->second;
    at_.peer = next->first;
    seen += peer.ni_count();
    if (policy().comparisons() + seen >= until) return;
    bool changed = false;
    const bool done = update(peer, until - seen, changed);
    if (changed) peers.touch(peer);
    if (!done) return;
    ++at_.peer;
    ++next;
  }
}

void Policies::set_timer() {
  if (stale_ || failed_)
    timer_.retry(true);
  else
    at_ < goal_ || walked_ || held_ || previews_.waiting() ? timer_.set_now() : timer_.stop();
}

unsigned Policies::turn(PeerDb& peers) {
  said_failed_ &= failed_ || stale_;
  failed_ = held_ = false;
  walked_ = !stale_ && at_ < goal_;
  if (walked_) walk(peers);
  flush_until_ = stale_ ? 0 : policy().comparisons() + kPolicyBudget;
  set_timer();
  return walked_ ? 1 : 0;
}

unsigned Policies::turn_previews(const PolicyTables& tables) {
  const unsigned done = previews_.turn(tables);
  set_timer();
  return done;
}

uint64_t Policies::preview(std::span<const config::UdspRule> then, PolicyPreviews::Sink sink) {
  const uint64_t number = previews_.add(PolicyPreview(in_force_.rules, then), std::move(sink));
  set_timer();
  return number;
}

void Policies::preview_resume(uint64_t number) {
  previews_.resume(number);
  set_timer();
}

void Policies::preview_end(uint64_t number) {
  previews_.end(number);
  set_timer();
}

}  // namespace ulnet
