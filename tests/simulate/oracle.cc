#include "tests/simulate/oracle.h"

#include <algorithm>

#include "control/health/health.h"

namespace ulnet::simulate {
namespace {

bool has(const std::vector<Nid>& nids, const Nid& nid) {
  return std::find(nids.begin(), nids.end(), nid) != nids.end();
}

std::vector<Nid> nids_of(const Peer& peer) {
  std::vector<Nid> nids;
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* ni : net.nis) nids.push_back(ni->nid);
  return nids;
}

std::string text_of(const std::vector<Nid>& nids) {
  std::vector<std::string> texts;
  for (const Nid& nid : nids) texts.push_back(nid_text(nid));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string text_of(const Peer* peer) {
  if (peer == nullptr) return "nothing";
  return fmt::format("{} (state {:#x}{})", text_of(nids_of(*peer)), peer->state,
                     peer->up_to_date ? ", up to date" : "");
}

bool advertises(const Member& b) {
  return !b.downrev && b.discovery != config::Discovery::kOff;
}

/// Has `a` no peer that mixes NIDs of `b` with what is not its?
bool clean(const Member& a, const Member& b) {
  for (const Nid& nid : b.nids) {
    const PeerNi* ni = a.control().peers->find(nid);
    if (ni == nullptr) continue;
    for (const Nid& one : nids_of(*ni->peer))
      if (!has(b.nids, one)) return false;
  }
  return true;
}

/// Did the operator of `a` configure the router, if at all, as what it is?
bool sound(const Member& a, const Member& router) {
  const auto& peers = a.control().desired.peers;
  return std::all_of(peers.begin(), peers.end(), [&](const config::PeerConfig& peer) {
    std::vector<Nid> nids = peer.nids;
    nids.push_back(peer.primary);
    const auto its = [&](const Nid& nid) { return has(router.nids, nid); };
    if (std::none_of(nids.begin(), nids.end(), its)) return true;
    return peer.multi_rail != router.downrev && nids.size() == router.nids.size() &&
           std::all_of(nids.begin(), nids.end(), its);
  });
}

/// Does `a`, in `verify`, keep what it learnt of the router before: NIDs that are another's by now?
bool stale(const Member& a, const Member& router) {
  return a.discovery == config::Discovery::kVerify && !clean(a, router);
}

/// Has the operator of `a` configured a peer with this NID?
bool has_configured(const Member& a, const Nid& nid) {
  const auto& peers = a.control().desired.peers;
  return std::any_of(peers.begin(), peers.end(),
                     [&](const auto& one) { return one.primary == nid || has(one.nids, nid); });
}

/// Is all between them that carries their messages what it must be? A net of both carries everything if `a` takes
/// `b` for one peer, else what is for the NIDs on it.
bool carried(const Cluster& cluster, const Member& a, const Member& b) {
  const auto direct = [&](const Nid& nid) { return a.on_net(nid.net()); };
  const bool one_peer = a.discovery == config::Discovery::kOn && advertises(b) &&
                        std::none_of(b.nids.begin(), b.nids.end(), [&](const Nid& n) { return has_configured(a, n); });
  if (one_peer && std::any_of(b.nids.begin(), b.nids.end(), direct)) return true;
  if (std::all_of(b.nids.begin(), b.nids.end(), [&](const Nid& n) { return direct(n) || !cluster.reaches(a, n); }))
    return true;
  return std::all_of(cluster.members().begin(), cluster.members().end(), [&](const Member& one) {
    return !one.router ||
           (clean(one, a) && clean(one, b) && sound(a, one) && sound(b, one) && !stale(a, one) && !stale(b, one));
  });
}

/// A silent NI recovers by the answer to a ping. Nobody on its net can answer one.
bool waits_alone(const Cluster& cluster, const Member& a, const LocalNi& ni) {
  if (!ni.health.silent()) return false;
  return std::none_of(cluster.members().begin(), cluster.members().end(),
                      [&](const Member& b) { return &b != &a && b.on_net(ni.net); });
}

/// Looks at one node's table.
struct Asked {
  const Cluster& cluster;
  const Member& a;
  const bool asked;
  Control& control = a.control();

  [[nodiscard]] const Peer* peer_of(const Nid& nid) const {
    const PeerNi* ni = control.peers->find(nid);
    return ni == nullptr ? nullptr : ni->peer;
  }
  [[nodiscard]] bool is_configured(const Nid& nid) const { return has_configured(a, nid); }
  [[nodiscard]] std::string wrong(const std::string& what, const Peer* peer) const {
    return fmt::format("{} (discovery {}) has {} for {}", a.name(), int(a.discovery), text_of(peer), what);
  }

  [[nodiscard]] std::string own() const {
    std::vector<Nid> nids;
    for (LocalNis::LocalNet& net : control.nis->nets())
      for (const LocalNi& ni : net.nis) nids.push_back(ni.nid);
    const auto& said = a.nids;
    if (nids.size() != said.size() ||
        !std::all_of(said.begin(), said.end(), [&](const Nid& n) { return has(nids, n); }))
      return fmt::format("{} has the NIs {}, was told to have {}", a.name(), text_of(nids), text_of(said));
    return "";
  }

  /// Rule 1.
  [[nodiscard]] std::string configured() const {
    for (const config::PeerConfig& config : control.desired.peers) {
      std::vector<Nid> wanted = config.nids;
      wanted.insert(wanted.begin(), config.primary);
      const Peer* peer = peer_of(config.primary);
      const bool right =
          peer != nullptr && peer->configured() && peer->multi_rail() == config.multi_rail &&
          peer->primary().nid == config.primary && peer->ni_count() == wanted.size() &&
          std::all_of(wanted.begin(), wanted.end(), [&](const Nid& nid) { return peer_of(nid) == peer; });
      if (!right) return wrong("the configured " + text_of(wanted), peer);
    }
    return "";
  }

  /// Rule 2.
  [[nodiscard]] std::string one_peer(const Member& b) const {
    std::vector<Nid> nids;
    for (LocalNis::LocalNet& net : b.control().nis->nets())
      for (const LocalNi& ni : net.nis) nids.push_back(ni.nid);
    const std::string what = fmt::format("{} with {}", b.name(), text_of(nids));
    const Peer* peer = peer_of(nids.front());
    if (peer == nullptr || peer->primary().nid != nids.front() || !peer->multi_rail()) return wrong(what, peer);
    constexpr uint32_t kFull = kPeerDiscovered | kPeerNidsUptodate;
    if ((peer->state & kFull) != kFull || peer->has(kPeerNoDiscovery) || !peer->up_to_date) return wrong(what, peer);
    for (const Nid& nid : nids)
      if (peer_of(nid) != peer) return wrong(what, peer);
    for (const Nid& nid : nids_of(*peer))
      if (!has(nids, nid) && !control.routes->is_gateway(nid)) return wrong(what, peer);
    for (const Nid& nid : nids)
      if (!b.router && !waits_alone(cluster, b, *b.control().nis->find(nid)) &&
          control.peers->find(nid)->status == wire::kNiDown)
        return wrong(fmt::format("{}, but takes {} for down", what, nid_text(nid)), peer);
    return "";
  }

  /// True if a member checks the router over its NI on this net. If no node pings an NI, its router treats it as down.
  [[nodiscard]] bool is_checked(const Member& router, Net net) const {
    return std::any_of(cluster.members().begin(), cluster.members().end(), [&](const Member& one) {
      return sound(one, router) && clean(one, router) && clean(router, one) &&
             std::any_of(one.routes.begin(), one.routes.end(), [&](const auto& route) {
               return route.second.net() == net && has(router.nids, route.second);
             });
    });
  }

  /// Rule 7.
  [[nodiscard]] std::string routes() const {
    for (const Route& route : control.routes->routes())
      for (const Member& b : cluster.members()) {
        if (!b.router || !has(b.nids, route.config.gateway) || !is_checked(b, route.config.net)) continue;
        if (!route.alive && sound(a, b) && clean(a, b) && clean(b, a))
          return wrong(fmt::format("the gateway {}, through which {} is said to be dead",
                                   nid_text(route.config.gateway), net_text(route.config.net)),
                       peer_of(route.config.gateway));
      }
    return "";
  }

  /// Rules 4 and 5.
  [[nodiscard]] std::string peer_each(const Member& b) const {
    for (const Nid& nid : b.nids) {
      if (!cluster.reaches(a, nid) || is_configured(nid)) continue;
      const Peer* peer = peer_of(nid);
      if (peer == nullptr || peer->ni_count() != 1 || peer->multi_rail())
        return wrong(fmt::format("{} of {}, which {}", nid_text(nid), b.name(),
                                 advertises(b) ? "it is not to discover" : "does not discover"),
                     peer);
    }
    return "";
  }

  /// Rule 6.
  [[nodiscard]] std::string mixed() const {
    for (const auto& [id, peer] : control.peers->peers()) {
      if (peer->configured()) continue;
      const Member* owner = nullptr;
      for (const Nid& nid : nids_of(*peer))
        for (const Member& b : cluster.members()) {
          if (!has(b.nids, nid) || !cluster.reaches(a, nid)) continue;
          if (owner != nullptr && owner != &b)
            return wrong("NIDs of " + owner->name() + " and " + b.name(), peer.get());
          owner = &b;
        }
    }
    return "";
  }

  /// True if the configuration of `b` mixes this node's NIDs with NIDs of others, or declares this node not multi-rail.
  /// Then `b` pushes to other NIDs, or not at all.
  [[nodiscard]] bool misled(const Member& b) const {
    const auto mine = [&](const Nid& nid) { return has(a.nids, nid); };
    const auto& peers = b.control().desired.peers;
    return std::any_of(peers.begin(), peers.end(), [&](const config::PeerConfig& peer) {
      const bool all = mine(peer.primary) && std::all_of(peer.nids.begin(), peer.nids.end(), mine);
      return !(all && peer.multi_rail) && (mine(peer.primary) || std::any_of(peer.nids.begin(), peer.nids.end(), mine));
    });
  }

  [[nodiscard]] std::string of(const Member& b) const {
    const bool excused =
        std::any_of(b.nids.begin(), b.nids.end(), [&](const Nid& nid) { return is_configured(nid); }) ||
        (!asked && (b.discovery == config::Discovery::kVerify || misled(b)));
    if (a.discovery == config::Discovery::kOn && advertises(b)) return excused ? "" : one_peer(b);
    return asked ? peer_each(b) : "";
  }
};

}  // namespace

std::string table_wrong(const Cluster& cluster, const Member& a, bool asked) {
  const Asked look{cluster, a, asked};
  std::string wrong = look.own();
  if (wrong.empty()) wrong = look.configured();
  if (wrong.empty() && asked) wrong = look.routes();
  if (a.discovery == config::Discovery::kVerify) return wrong;
  for (const Member& b : cluster.members())
    if (wrong.empty() && &b != &a && cluster.reaches(a, b) && carried(cluster, a, b)) wrong = look.of(b);
  if (wrong.empty() && asked) wrong = look.mixed();
  return wrong;
}

std::string unfinished(const Cluster& cluster) {
  for (const Member& member : cluster.members()) {
    for (const auto& [id, peer] : member.control().peers->peers())
      if (peer->has(kPeerDiscovering | kPeerPingSent | kPeerPushSent))
        return fmt::format("{} is still at work on {}", member.name(), text_of(peer.get()));
  }
  return "";
}

namespace {

/// A peer NI with failures that no message ever came from gets no recovery pings (docs/wire/lnet.md §9).
bool never_pinged(const PeerNi& ni) {
  return ni.last_heard_ns() == 0 && !ni.health.silent();
}

}  // namespace

std::string health_wrong(const Cluster& cluster, const Member& a) {
  Control& control = a.control();
  for (const LocalNi* ni : control.nis->all())
    if (!ni->going() && !ni->health.whole() && !waits_alone(cluster, a, *ni))
      return fmt::format("{}: the NI {} has health {}", a.name(), nid_text(ni->nid), ni->health.value());
  for (const Nid& nid : control.health->recovering_local())
    if (!waits_alone(cluster, a, *control.nis->find(nid)))
      return fmt::format("{}: the NI {} recovers", a.name(), nid_text(nid));
  for (const Member& b : cluster.members())
    for (const Nid& nid : b.nids) {
      const PeerNi* ni = &b == &a ? nullptr : control.peers->find(nid);
      if (ni == nullptr || ni->health.whole() || never_pinged(*ni) || !a.on_net(nid.net())) continue;
      return fmt::format("{}: the peer NI {} of {} has health {}", a.name(), nid_text(nid), b.name(),
                         ni->health.value());
    }
  return "";
}

bool must_use_rails(const Cluster& cluster, const Member& a, const Member& b) {
  return a.discovery == config::Discovery::kOn && advertises(b) && must_arrive(cluster, a, b) &&
         std::none_of(b.nids.begin(), b.nids.end(), [&](const Nid& nid) { return has_configured(a, nid); }) &&
         std::any_of(b.nids.begin(), b.nids.end(), [&](const Nid& nid) { return a.on_net(nid.net()); });
}

std::map<Nid, uint64_t> rails_sent(const Member& a, const Member& b) {
  std::map<Nid, uint64_t> sent;
  for (const Nid& nid : a.nids)
    if (b.on_net(nid.net())) sent[nid] = a.control().nis->find(nid)->counted(NiTraffic::kSent);
  for (const Nid& nid : b.nids) {
    if (!a.on_net(nid.net())) continue;
    const PeerNi* ni = a.control().peers->find(nid);
    if (ni->blocks == nullptr || (!ni->health.whole() && never_pinged(*ni))) continue;
    for (const Counter& one : ni->blocks->slice.counters[NiTraffic::kSent]) sent[nid] += one.get();
  }
  return sent;
}

size_t credits_apart(const Member& a, const Member& b) {
  int32_t least = INT32_MAX, most = 0;
  for (const Nid& nid : b.nids) {
    const PeerNi* ni = a.on_net(nid.net()) ? a.control().peers->find(nid) : nullptr;
    if (ni == nullptr || ni->blocks == nullptr) continue;
    least = std::min(least, ni->tx_credits);
    most = std::max(most, ni->tx_credits);
  }
  return least < most ? size_t(most - least) : 0;
}

std::string rail_text(const Member& a, const Nid& nid) {
  if (const LocalNi* ni = a.control().nis->find(nid); ni != nullptr)
    return fmt::format("health {}{}", ni->health.value(), ni->fatal ? ", no link" : "");
  const PeerNi* ni = a.control().peers->find(nid);
  if (ni == nullptr) return "not a peer NI";
  std::string text = fmt::format("health {}, status {}", ni->health.value(), int(ni->status));
  if (ni->blocks == nullptr) return text;
  for (const auto& tallies : a.control().mesh->tallies) {
    const TallyNow now = tallies->peer_ni_now(ni->blocks->slice.slot, PaceKind::kSmall);
    text += fmt::format(", worker: {} under way, weight {}, sequence {}", now.under_way, now.weight, now.sequence);
  }
  return text;
}

bool must_arrive(const Cluster& cluster, const Member& a, const Member& b) {
  return clean(a, b) && carried(cluster, a, b);
}

}  // namespace ulnet::simulate
