#include "control/policy/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>
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

}  // namespace

void PolicyStep::begin(const Policies& policies, const config::ChangeList& changes,
                       const std::vector<config::UdspRule>& is, const std::vector<config::UdspRule>& then) {
  seen_ = policies.revision();
  const auto clears = [](const auto& one) { return std::holds_alternative<config::LnetUnconfigure>(one.change); };
  if (is != then || std::any_of(changes.begin(), changes.end(), clears)) rules_.emplace(then);
}

void PolicyStep::put_in_force(Policies& policies, const PolicyTables& tables) {
  if (rules_) policies.set_rules(std::move(*rules_));
  policies.follow(true, tables);
  if (policies.revision() != seen_) end_ = policies.goal();
}

std::vector<std::string> idle_rules(const config::ChangeList& changes, const PolicyRules& rules) try {
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> added;
  for (const config::PlacedChange& placed : changes)
    if (const auto* add = std::get_if<config::UdspAdd>(&placed.change))
      added.emplace(add->rule.src, add->rule.dst, add->rule.rte);
  if (added.empty()) return {};
  const auto asked = [&](int32_t index) {
    const config::UdspRule& rule = rules.rules[size_t(index)];
    return added.contains({rule.src, rule.dst, rule.rte});
  };
  std::vector<std::string> notes;
  for (const auto& [index, what] : rules.policy.idle(asked, kIdleRulesNoted + 1)) {
    if (notes.size() == kIdleRulesNoted) {
      notes.emplace_back("further rules that have no effect yet are not listed");
      break;
    }
    notes.push_back(fmt::format("no effect yet: {}; the rule will hold for objects that are added later",
                                idle_text(rules.rules[size_t(index)], what)));
  }
  return notes;
} catch (const std::bad_alloc&) {
  return {};
}

void Policies::go_round(const Point& goal) {
  goal_ = std::max(goal_, goal);
  set_timer();
}

void Policies::set_rules(PolicyRules rules) noexcept {
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
    return set_timer();
  }
  stale_ = false;
  if (change == PolicyFollower::Change::kNone) return;
  if (change == PolicyFollower::Change::kLists) ++revision_;
  go_round({at_.lap + 1, at_.peer});
}

/// Evaluates NIs with results of an older revision, and the sources. False: some are left, because the budget is used
/// up or memory is short.
bool Policies::update(Peer& peer, uint64_t until, bool& changed) try {
  for (PeerNet& net : peer.nets) {
    const PolicyPriority before = std::exchange(net.policy, policy().of_peer_net(net.net));
    changed |= before.priority != net.policy.priority;
    for (PeerNi* ni : net.nis) {
      if (ni->policy_seen != revision_) {
        if (policy().comparisons() >= until) return false;
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
  failed_ = true;
  return false;
}

void Policies::evaluate(Peer& peer) {
  bool changed = false;
  if (!update(peer, flush_until_, changed)) go_round({at_.lap + 1, at_.peer});
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
    at_ < goal_ || previews_.waiting() ? timer_.set_now() : timer_.stop();
}

unsigned Policies::turn(PeerDb& peers) {
  failed_ = false;
  const bool work = !stale_ && at_ < goal_;
  if (work) walk(peers);
  flush_until_ = policy().comparisons() + kPolicyBudget;
  set_timer();
  return work ? 1 : 0;
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
