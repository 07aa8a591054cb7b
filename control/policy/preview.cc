#include "control/policy/preview.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace ulnet {
namespace {

/// The entries of a list in order of preference; those without a NID are left out.
template <class NidOf>
std::vector<PreferredNid> by_rank(const PolicyList& policy, NidOf&& nid_of) {
  std::vector<PreferredNid> entries;
  for (size_t i = 0; policy.list != nullptr && i < policy.list->all.size(); ++i) {
    const Preferences::One& one = policy.list->all[i];
    if (const Nid* nid = nid_of(one.id)) entries.push_back({*nid, {one.rank, (*policy.rules)[i]}});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.rank.priority < b.rank.priority; });
  return entries;
}

}  // namespace

std::vector<PreferredNid> preferred_sources(const PolicyList& policy, const PolicyObjects& objects) {
  return by_rank(policy, [&](uint32_t id) -> const Nid* {
    for (const PolicyObjects::Source& one : objects.sources)
      if (one.ni.value == id) return &one.nid;
    return nullptr;
  });
}

std::vector<PreferredNid> preferred_gateways(const PolicyList& policy, const PolicyObjects& objects) {
  return by_rank(policy, [&](uint32_t id) {
    const PolicyObjects::Gateway* gateway = objects.gateway(id);
    return gateway == nullptr ? nullptr : &gateway->primary;
  });
}

bool PolicyPreview::turn(const PolicyTables& tables, std::vector<PolicyChange>& changes) {
  (void)now_follower_.follow(now_.policy, tables);
  (void)then_follower_.follow(then_.policy, tables);
  if (!std::exchange(local_done_, true)) local(tables.nis, changes);
  const auto spent = [&] { return now_.policy.comparisons() + then_.policy.comparisons(); };
  const uint64_t until = spent() + kPolicyBudget;
  size_t part = changes.size();
  const auto& all = tables.peers.peers();
  auto next = all.lower_bound(next_peer_);
  for (; next != all.end(); ++next) {
    const Peer& peer = *next->second;
    if (next->first != std::exchange(next_peer_, next->first)) shown_.clear();
    std::vector<Nid> evaluated;
    for (const PeerNet& net : peer.nets) {
      const auto is_shown = [&](const PeerNi* ni) { return shown_.contains(ni->nid); };
      bool net_shown = std::any_of(net.nis.begin(), net.nis.end(), is_shown);
      for (const PeerNi* ni : net.nis) {
        if (is_shown(ni)) continue;
        if (spent() >= until || part >= kPreviewPart) {
          shown_.insert(evaluated.begin(), evaluated.end());
          return true;
        }
        if (!std::exchange(net_shown, true)) peer_net(peer, net, changes);
        part += peer_ni(peer, *ni, changes);
        evaluated.push_back(ni->nid);
      }
    }
  }
  return false;
}

void PolicyPreview::local(LocalNis& nis, std::vector<PolicyChange>& changes) {
  const auto add = [&](PolicyChange one, const PolicyPriority& before, const PolicyPriority& after) {
    one.before.priority = before;
    one.after.priority = after;
    if (before.priority != after.priority) changes.push_back(std::move(one));
  };
  for (LocalNis::LocalNet& net : nis.nets()) {
    add({.kind = PolicyChange::Kind::kLocalNet, .net = net.net}, now_.policy.of_local_net(net.net),
        then_.policy.of_local_net(net.net));
    for (const LocalNi& ni : net.nis)
      add({.kind = PolicyChange::Kind::kLocalNi, .net = net.net, .nid = ni.nid}, now_.policy.of_local_ni(ni.nid),
          then_.policy.of_local_ni(ni.nid));
  }
}

void PolicyPreview::peer_net(const Peer& peer, const PeerNet& net, std::vector<PolicyChange>& changes) {
  PolicyChange one{.kind = PolicyChange::Kind::kPeerNet, .peer = peer.primary().nid, .net = net.net};
  one.before.priority = now_.policy.of_peer_net(net.net);
  one.after.priority = then_.policy.of_peer_net(net.net);
  if (one.before.priority.priority != one.after.priority.priority) changes.push_back(std::move(one));
}

/// Returns the part of kPreviewPart that the change takes.
size_t PolicyPreview::peer_ni(const Peer& peer, const PeerNi& ni, std::vector<PolicyChange>& changes) {
  const auto evaluate = [&](Policy& policy) {
    PeerNiPolicy its = policy.of_peer_ni(ni.nid);
    if (!peer.multi_rail()) its.source = policy.plain_source(ni.nid, ni.source, its.sources);
    return its;
  };
  const PeerNiPolicy was = evaluate(now_.policy), will = evaluate(then_.policy);
  if (was.same_for_workers(will) && was.source == will.source) return 0;
  const auto results = [](const PeerNiPolicy& its, const PolicyObjects& objects) {
    return PolicyChange::Results{its.priority, preferred_sources(its.sources, objects),
                                 preferred_gateways(its.gateways, objects), its.source};
  };
  PolicyChange one{.kind = PolicyChange::Kind::kPeerNi, .peer = peer.primary().nid, .net = ni.nid.net(), .nid = ni.nid};
  one.before = results(was, now_.policy.objects());
  one.after = results(will, then_.policy.objects());
  size_t names = 0;
  for (const PolicyChange::Results* side : {&one.before, &one.after})
    names += side->sources.size() + side->gateways.size();
  changes.push_back(std::move(one));
  return 1 + names / kNamesPerChange;
}

uint64_t PolicyPreviews::add(PolicyPreview preview, Sink sink) {
  if (all_.size() >= kPreviewsMax) {
    const auto paused = std::find_if(all_.begin(), all_.end(), [](const auto& one) { return one.second.paused; });
    if (paused == all_.end()) return 0;
    (void)paused->second.sink(Part{.error = -EAGAIN});
    all_.erase(paused);
  }
  all_.emplace(++last_number_, One{std::move(preview), std::move(sink)});
  return last_number_;
}

void PolicyPreviews::resume(uint64_t number) {
  if (const auto found = all_.find(number); found != all_.end()) found->second.paused = false;
}

bool PolicyPreviews::waiting() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& one) { return !one.second.paused; });
}

unsigned PolicyPreviews::turn(const PolicyTables& tables) {
  const auto ready = [](const auto& one) { return !one.second.paused; };
  auto next = std::find_if(all_.upper_bound(last_turn_), all_.end(), ready);
  if (next == all_.end()) next = std::find_if(all_.begin(), all_.end(), ready);
  if (next == all_.end()) return 0;
  last_turn_ = next->first;
  One& one = next->second;
  try {
    Part part;
    if (!one.failed && !one.preview.turn(tables, part.changes)) part.then = &one.preview.then();
    part.error = one.failed ? -ENOMEM : 0;
    const Next then = part.changes.empty() && !part.last() ? Next::kGoOn : one.sink(part);
    one.paused = then == Next::kPause;
    if (then == Next::kEnd || part.last()) all_.erase(next);
  } catch (const std::bad_alloc&) {
    one.failed = true;  // the sink gets the error in the next turn
  }
  return 1;
}

}  // namespace ulnet
