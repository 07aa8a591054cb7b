#include "control/policy/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ulnet {
namespace {

constexpr size_t kIdleRulesNoted = 16;

/// The part of a rule that matches nothing now, as words; "" if each part matches an object.
std::string unmatched(const config::UdspRule& rule, LocalNis& nis, const PeerDb& peers, const RouteDb& routes) {
  const auto match = config::udsp_rule_parse(rule);
  if (!match) return match.error();
  const auto some_local = [&] {
    for (LocalNis::LocalNet& net : nis.nets())
      for (const LocalNi& ni : net.nis)
        if (match->src->matches(ni.nid)) return true;
    return false;
  };
  const auto some_peer = [&] {
    for (const auto& [id, peer] : peers.peers())
      for (const PeerNet& net : peer->nets)
        for (const PeerNi* ni : net.nis)
          if (match->dst->matches(ni->nid)) return true;
    return false;
  };
  const auto some_gateway = [&] {
    return std::any_of(routes.routes().begin(), routes.routes().end(),
                       [&](const Route& route) { return match->rte->matches(route.config.gateway); });
  };
  if (match->src && !some_local()) return "no NI of this node matches src " + rule.src;
  if (match->dst && !some_peer()) return "no known peer matches dst " + rule.dst;
  if (match->rte && !some_gateway()) return "no gateway of a route matches rte " + rule.rte;
  return "";
}

}  // namespace

std::vector<std::string> idle_rules(const config::ChangeList& changes, LocalNis& nis, const PeerDb& peers,
                                    const RouteDb& routes) {
  std::vector<std::string> notes;
  for (const config::PlacedChange& placed : changes) {
    const auto* add = std::get_if<config::UdspAdd>(&placed.change);
    const std::string missing = add == nullptr ? "" : unmatched(add->rule, nis, peers, routes);
    if (missing.empty()) continue;
    if (notes.size() == kIdleRulesNoted) {
      notes.emplace_back("further rules that have no effect yet are not listed");
      break;
    }
    notes.push_back(fmt::format("no effect yet: {}; the rule will hold for objects that are added later", missing));
  }
  return notes;
}

void Policies::begin_walk() {
  ++revision_;
  next_peer_ = 0;
  walking_ = true;
  set_timer();
}

void Policies::set_rules(std::span<const config::UdspRule> rules) {
  if (std::equal(rules.begin(), rules.end(), rules_.begin(), rules_.end())) return;
  rules_.assign(rules.begin(), rules.end());
  policy_ = Policy(rules_, {});
  begin_walk();
}

void Policies::follow(LocalNis& nis, PeerDb& peers, const RouteDb& routes) {
  PolicyObjects objects = policy_objects(policy_, nis, peers, routes);
  if (objects == policy_.objects()) return;
  policy_.set_objects(std::move(objects));
  begin_walk();
}

void Policies::evaluate(Peer& peer) {
  for (PeerNet& net : peer.nets) {
    net.policy = policy_.of_peer_net(net.net);
    for (PeerNi* ni : net.nis) {
      if (ni->policy_seen == revision_) continue;
      ni->policy_seen = revision_;
      ni->policy = policy_.of_peer_ni(ni->nid);
    }
  }
}

void Policies::walk(PeerDb& peers) {
  const auto& all = peers.peers();
  auto next = all.lower_bound(next_peer_);
  for (size_t cost = 0; next != all.end() && cost < kPolicyBudget; ++next) {
    Peer& peer = *next->second;
    bool changed = false;
    for (PeerNet& net : peer.nets) {
      const PolicyPriority before = std::exchange(net.policy, policy_.of_peer_net(net.net));
      changed |= before.priority != net.policy.priority;
      for (PeerNi* ni : net.nis) {
        cost += policy_.peer_rules() + 1;
        if (std::exchange(ni->policy_seen, revision_) == revision_) continue;
        const PeerNiPolicy its = std::exchange(ni->policy, policy_.of_peer_ni(ni->nid));
        changed |= !its.same_for_workers(ni->policy);
      }
    }
    if (changed) peers.touch(peer);
  }
  walking_ = next != all.end();
  next_peer_ = walking_ ? next->first : 0;
}

unsigned Policies::turn_previews(LocalNis& nis, PeerDb& peers, const RouteDb& routes) {
  unsigned done = 0;
  for (auto& [number, one] : previews_) {
    if (one.paused || one.ended) continue;
    std::vector<PolicyChange> changes;
    const bool more = one.preview.turn(nis, peers, routes, changes);
    one.ended |= !more;
    if (!changes.empty() || !more) one.paused = !one.sink(changes, !more);
    ++done;
  }
  std::erase_if(previews_, [](const auto& one) { return one.second.ended; });
  return done;
}

void Policies::set_timer() {
  const bool previews =
      std::any_of(previews_.begin(), previews_.end(), [](const auto& one) { return !one.second.paused; });
  walking_ || previews ? timer_.set_now() : timer_.stop();
}

unsigned Policies::turn(LocalNis& nis, PeerDb& peers, const RouteDb& routes) {
  unsigned done = 0;
  if (walking_) {
    walk(peers);
    ++done;
  }
  done += turn_previews(nis, peers, routes);
  set_timer();
  return done;
}

uint64_t Policies::preview(std::span<const config::UdspRule> then, PreviewSink sink) {
  previews_.emplace(++last_preview_, Preview{PolicyPreview(rules_, then), std::move(sink)});
  set_timer();
  return last_preview_;
}

void Policies::preview_resume(uint64_t number) {
  if (const auto found = previews_.find(number); found != previews_.end()) found->second.paused = false;
  set_timer();
}

void Policies::preview_end(uint64_t number) {
  if (const auto found = previews_.find(number); found != previews_.end()) found->second.ended = true;
}

}  // namespace ulnet
