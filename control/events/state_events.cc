#include "control/events/state_events.h"

#include <fmt/format.h>

#include <cstring>

#include "dataplane/base/nid_text.h"

namespace ulnet {
namespace {

/// Texts about a criterion of docs/wire/lnet.md §8.6, as a predicate of the gateway: while it fails, and after that.
struct FaultText {
  const char* fails;
  const char* over;
};
FaultText text_of(RouteFault fault) {
  switch (fault) {
    case RouteFault::kNone: return {"works", "works"};
    case RouteFault::kNoPeer: return {"is the NID of no peer", "is the NID of a peer again"};
    case RouteFault::kCheckFailed: return {"did not answer its check", "answered its check"};
    case RouteFault::kNotTried: return {"was not checked yet", "answered its first check"};
    case RouteFault::kNearSide: return {"has no NI on this net that is up", "has an NI on this net again that is up"};
    case RouteFault::kHealth: return {"has too little health (router_sensitivity)", "has enough health again"};
    case RouteFault::kFarSide:
      return {"reports no NI on the far net that is up", "reports an NI on the far net again that is up"};
    case RouteFault::kNotRouting: return {"reports that it does not route", "reports that it routes"};
  }
  return {"", ""};
}

/// The far side is no matter of the gateway, but of the route.
RouteFault of_gateway(RouteFault fault) {
  return fault == RouteFault::kFarSide ? RouteFault::kNone : fault;
}

std::string_view word(RouteFault fault) {
  return fault == RouteFault::kNone ? "up" : "down";
}

const char* change_text(RouteFault before, RouteFault after) {
  return after == RouteFault::kNone ? text_of(before).over : text_of(after).fails;
}

std::string line_of(const StateEvent& event) {
  constexpr std::array<const char*, size_t(StateKind::kCount)> kPrefixes = {"", "peer NI ", "route ", "gateway ",
                                                                            "routing of "};
  return fmt::format("{}{}: {} ({} -> {})", kPrefixes[size_t(event.kind)], event.object, event.reason, event.from,
                     event.to);
}

std::string route_object(Net net, const Nid& gateway) {
  return fmt::format("{} {}", net_text(net), nid_text(gateway));
}

constexpr const char* kThisNode = "this node";
/// Time between two looks at the peer NIs that are not up.
constexpr Duration kStateLookEvery = 1s;

}  // namespace

std::string_view ni_state_word(const LocalNi& ni) {
  if (ni.going()) return "deleting";
  if (ni.fatal) return "failed";
  if (!ni.up()) return "down";
  return ni.degraded() ? "degraded" : "up";
}

std::string_view peer_ni_state_word(const PeerNi& ni) {
  if (ni.life.failures > 0 || ni.health.value() == 0) return "failed";
  return ni.known_down() ? "down" : "up";
}

const char* routing_state_word(RoutingState state) {
  switch (state) {
    case RoutingState::kDisabled: return "disabled";
    case RoutingState::kStarting: return "starting";
    case RoutingState::kEnabled: return "enabled";
    case RoutingState::kStopping: return "stopping";
  }
  return "";
}

uint64_t StateEvents::subscribe(Subscriber subscriber) {
  subscribers_.emplace(++last_subscriber_, std::move(subscriber));
  return last_subscriber_;
}

void StateEvents::announce(StateEvent event) {
  event.sequence = ++sequence_;
  event.time = now_;
  if (deps_.log) deps_.log(event, line_of(event));
  for (const auto& [number, subscriber] : subscribers_) subscriber(event);
}

// --- local NIs -------------------------------------------------------------------------------------------------------

bool StateEvents::ni_changed(const LocalNi& ni) const {
  const auto known = nis_.find(ni.id);
  return known == nis_.end() || known->second.state != ni_state_word(ni);
}

void StateEvents::announce_ni(const LocalNi& ni, std::string reason) {
  NiMemory& memory = nis_.try_emplace(ni.id, NiMemory{ni.nid, kStateNone}).first->second;
  const auto from = std::exchange(memory.state, ni_state_word(ni));
  announce({.kind = StateKind::kNi,
            .object = nid_text(ni.nid),
            .nid = ni.nid,
            .from = from,
            .to = memory.state,
            .reason = std::move(reason),
            .health = ni.health.value()});
}

void StateEvents::turn_nis() {
  for (const LocalNi* one : deps_.nis.all()) {
    ni(*one, [&]() -> std::string {
      const auto known = nis_.find(one->id);
      if (known == nis_.end()) return "added";
      if (one->going()) return "being deleted";
      if (known->second.state == "deleting") return "stays: its deletion was undone";
      if (one->fatal) return "link down";
      if (one->silent) return "no node pings it over this net any more";
      if (one->sick) return "its health fell to 0";
      if (known->second.state == "failed") return "link up";
      return known->second.silent ? "a node pings it over this net" : "its health is whole again";
    });
    nis_.at(one->id).silent = one->silent;
  }
  if (nis_.size() == deps_.nis.all().size()) return;
  for (auto one = nis_.begin(); one != nis_.end();) {
    if (deps_.nis.find(one->first) != nullptr) {
      ++one;
      continue;
    }
    const NiMemory gone = one->second;
    one = nis_.erase(one);
    announce({.kind = StateKind::kNi,
              .object = nid_text(gone.nid),
              .nid = gone.nid,
              .from = gone.state,
              .to = kStateNone,
              .reason = "deleted",
              .health = {}});
  }
}

// --- peer NIs --------------------------------------------------------------------------------------------------------

bool StateEvents::peer_ni_changed(const PeerNi& ni) const {
  const auto word = peer_ni_state_word(ni);
  if (peer_nis_.empty()) return word != "up";
  const auto known = peer_nis_.find(ni.nid);
  return word != (known == peer_nis_.end() ? "up" : known->second);
}

void StateEvents::announce_peer_ni(const PeerNi& ni, std::string reason) {
  const auto known = peer_nis_.find(ni.nid);
  const std::string_view from = known == peer_nis_.end() ? "up" : known->second, to = peer_ni_state_word(ni);
  if (to == "up")
    peer_nis_.erase(ni.nid);
  else
    peer_nis_[ni.nid] = to;
  if (!peer_nis_.empty()) look_.set_by(now_ + kStateLookEvery);
  announce({.kind = StateKind::kPeerNi,
            .object = nid_text(ni.nid),
            .nid = ni.nid,
            .from = from,
            .to = to,
            .reason = std::move(reason),
            .health = ni.health.value()});
}

void StateEvents::peer(const Peer& peer) {
  for (const PeerNet& net : peer.nets)
    for (const PeerNi* one : net.nis)
      peer_ni(*one, [&]() -> std::string {
        if (one->life.failures > 0) return fmt::format("cannot be reached: {}", std::strerror(-one->life.error));
        if (one->cut_off) return "the link that leads to it is down";
        if (one->said_down()) return "its node is silent, or reports it as down";
        return one->status == wire::kNiUp ? "its node reports it as up" : "a message came from it";
      });
}

unsigned StateEvents::turn_peer_nis() {
  if (!look_.due(now_)) return 0;
  look_.stop();
  unsigned done = 0;
  std::vector<Nid> nids;
  for (const auto& [nid, state] : peer_nis_) nids.push_back(nid);
  for (const Nid& nid : nids) {
    const uint64_t before = sequence_;
    const PeerNi* one = deps_.peers.find(nid);
    if (one != nullptr) {
      peer_ni(*one, "a message came from it");
    } else {
      const auto from = peer_nis_.extract(nid).mapped();
      announce({.kind = StateKind::kPeerNi,
                .object = nid_text(nid),
                .nid = nid,
                .from = from,
                .to = kStateNone,
                .reason = "no peer has this NID any more",
                .health = {}});
    }
    done += sequence_ != before ? 1 : 0;
  }
  if (!peer_nis_.empty()) look_.set(now_ + kStateLookEvery);
  return done;
}

// --- routes, gateways, routing ---------------------------------------------------------------------------------------

void StateEvents::gateway(const Nid& nid, RouteFault fault) {
  const auto [known, fresh] = gateways_.try_emplace(nid, RouteMemory{fault});
  const RouteFault before = known->second.fault;
  known->second.seen = true;
  if (!fresh && word(before) == word(fault)) return;
  known->second.fault = fault;
  announce({.kind = StateKind::kGateway,
            .object = nid_text(nid),
            .nid = nid,
            .from = fresh ? kStateNone : word(before),
            .to = word(fault),
            .reason = fresh ? "a route leads through it" : change_text(before, fault),
            .health = {}});
}

void StateEvents::route(const Route& route) {
  const auto& [net, nid] = std::pair(route.config.net, route.config.gateway);
  const auto [known, fresh] = routes_.try_emplace({net, nid}, RouteMemory{route.fault});
  const RouteFault before = known->second.fault;
  known->second.seen = true;
  if (!fresh && word(before) == word(route.fault)) return;
  known->second.fault = route.fault;
  announce({.kind = StateKind::kRoute,
            .object = route_object(net, nid),
            .nid = nid,
            .from = fresh ? kStateNone : word(before),
            .to = word(route.fault),
            .reason = fresh ? "added" : std::string("its gateway ") + change_text(before, route.fault),
            .health = {}});
}

void StateEvents::turn_routes() {
  if (std::exchange(routes_seen_, deps_.routes.fault_revision()) == deps_.routes.fault_revision()) return;
  for (auto& [name, memory] : routes_) memory.seen = false;
  for (auto& [name, memory] : gateways_) memory.seen = false;
  for (const Route& one : deps_.routes.routes()) gateway(one.config.gateway, of_gateway(one.fault));
  for (const Route& one : deps_.routes.routes()) route(one);
  const auto forget = [this](auto& known, StateKind kind, auto object, auto nid, const char* reason) {
    for (auto one = known.begin(); one != known.end();) {
      if (one->second.seen) {
        ++one;
        continue;
      }
      const auto [name, memory] = *one;
      one = known.erase(one);
      announce({.kind = kind,
                .object = object(name),
                .nid = nid(name),
                .from = word(memory.fault),
                .to = kStateNone,
                .reason = reason,
                .health = {}});
    }
  };
  forget(
      routes_, StateKind::kRoute, [](const RouteName& name) { return route_object(name.first, name.second); },
      [](const RouteName& name) { return name.second; }, "deleted");
  forget(
      gateways_, StateKind::kGateway, [](const Nid& name) { return nid_text(name); },
      [](const Nid& name) { return name; }, "no route leads through it any more");
}

void StateEvents::turn_routing() {
  const RoutingState state = deps_.routing.state();
  if (state == routing_) return;
  const RoutingState before = std::exchange(routing_, state);
  const auto reason = [&] {
    switch (state) {
      case RoutingState::kStarting: return "it forwards, and does not report this to other nodes yet";
      case RoutingState::kEnabled: return "it forwards, and reports this to other nodes";
      case RoutingState::kStopping: return "it still forwards, and reports to other nodes that it does not";
      case RoutingState::kDisabled: return "it forwards no messages";
    }
    return "";
  };
  announce({.kind = StateKind::kRouting,
            .object = kThisNode,
            .from = routing_state_word(before),
            .to = routing_state_word(state),
            .reason = reason(),
            .health = {}});
}

unsigned StateEvents::turn() {
  turn_routing();
  turn_nis();
  turn_routes();
  return turn_peer_nis();
}

void StateEvents::now(const Subscriber& each) const {
  const auto tell = [&](StateKind kind, std::string object, const Nid& nid, std::string_view state,
                        std::optional<int64_t> health = {}) {
    each({sequence_, now_, kind, std::move(object), nid, state, state, {}, health});
  };
  tell(StateKind::kRouting, kThisNode, kAnyNid, routing_state_word(routing_));
  for (const auto& [id, memory] : nis_) {
    const LocalNi* ni = deps_.nis.find(id);
    tell(StateKind::kNi, nid_text(memory.nid), memory.nid, memory.state,
         ni == nullptr ? std::nullopt : std::optional<int64_t>(ni->health.value()));
  }
  for (const auto& [nid, memory] : gateways_) tell(StateKind::kGateway, nid_text(nid), nid, word(memory.fault));
  for (const auto& [name, memory] : routes_)
    tell(StateKind::kRoute, route_object(name.first, name.second), name.second, word(memory.fault));
  for (const auto& [nid, state] : peer_nis_) {
    const PeerNi* ni = deps_.peers.find(nid);
    tell(StateKind::kPeerNi, nid_text(nid), nid, state,
         ni == nullptr ? std::nullopt : std::optional<int64_t>(ni->health.value()));
  }
}

}  // namespace ulnet
