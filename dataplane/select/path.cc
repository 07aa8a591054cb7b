#include "dataplane/select/path.h"

#include "dataplane/state/slices.h"

namespace ulnet {
namespace {

PathChoice error(int32_t code, LndStatus health) {
  PathChoice choice;
  choice.kind = PathKind::kError;
  choice.error = code;
  choice.health = health;
  return choice;
}

/// The bound on peer NIs was reached when this one was named.
PathChoice no_memory() {
  return error(-ENOMEM, LndStatus::kLocalError);
}

PathChoice park(const Nid& nid, bool discover = false) {
  PathChoice choice;
  choice.kind = PathKind::kPark;
  choice.ask = nid;
  choice.discover = discover;
  return choice;
}

/// The ranking itself, with a recorder that hears why a candidate lost. Holds no state of its own.
template <class Recorder>
class Chooser {
 public:
  Chooser(const ViewSet& view, const PathRequest& request, const PathContext& context, Recorder recorder)
      : view_(view), request_(request), context_(context), recorder_(recorder) {}

  PathChoice choose() {
    if (request_.dst.is_any()) return error(-EINVAL, LndStatus::kLocalError);
    if (request_.dst.is_lo() || (!request_.forward && view_.local->ni(request_.dst) != nullptr)) return loopback();
    const PeerRef dst = view_.peers->find(request_.dst);
    const bool dst_local = view_.local->net(request_.dst.net()) != nullptr;
    const bool reached = dst || dst_local || view_.routes->find(request_.dst.net()) != nullptr;
    if (request_.discovers() && reached && (!dst || !dst.peer->up_to_date)) return park(request_.dst, bool(dst));
    if (!request_.src.is_any() && !(request_.response && source_gone())) return from_fixed(dst);
    if (request_.forward && dst_local && dst && may_take_another_rail(dst)) {
      if (const PathChoice direct = over_rails(*dst.peer); direct.kind == PathKind::kPath) return direct;
    }
    const bool rails = dst && dst.peer->multi_rail && !request_.response && !request_.recovery && !request_.forward;
    if (rails) {
      if (const PathChoice direct = over_rails(*dst.peer); direct.kind == PathKind::kPath) return direct;
      return routed(dst, nullptr);
    }
    if (!dst_local) return routed(dst, nullptr);
    if (!dst) return park(request_.dst);
    return to_exactly(dst);
  }

  PathChoice over_hop(const Nid& nid) {
    const PeerRef hop = view_.peers->find(nid);
    const NetView* net = view_.local->net(nid.net());
    const bool is_last = view_.local->net(request_.dst.net()) != nullptr;
    const auto is_dst = [&] { return nid == request_.dst || view_.peers->find(request_.dst).peer == hop.peer; };
    const bool gone = !hop || hop.ni().slice == nullptr || hop.ni().down || net == nullptr;
    if (gone || !(is_last ? is_dst() : hop.peer->router)) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    const NiView* ni = best_ni(*net, hop.ni());
    if (ni == nullptr) return error(-ENETUNREACH, LndStatus::kLocalError);
    PathChoice choice = path(*ni, *hop.peer, hop.ni(), is_last ? nid : request_.dst);
    choice.routed = !is_last;
    return choice;
  }

 private:
  /// The last router may use another NI of the peer only if `dst` is ill, and only between multi-rail peers
  /// (docs/wire/lnet.md §8.2). A ping or push must reach the NI that it names. The sender would take the answer of
  /// another NI as news about another node, and send again at once.
  [[nodiscard]] bool may_take_another_rail(const PeerRef& dst) const {
    if (request_.portal0 || !dst.peer->multi_rail || (!dst.ni().down && dst.ni().health == kHealthMax)) return false;
    const PeerRef origin = view_.peers->find(request_.origin);
    return origin && origin.peer->multi_rail;
  }
  /// A router drops what would go to an NI that is down: there it ranks last.
  [[nodiscard]] uint16_t health_of(const PeerNiView& ni) const {
    return request_.forward && ni.down ? uint16_t(0) : ni.health;
  }
  /// A response comes from the NI that received the request. If that NI is being deleted, the response comes from
  /// another one (decision 32).
  [[nodiscard]] bool source_gone() const {
    const NiView* ni = view_.local->ni(request_.src);
    return ni == nullptr || ni->closing;
  }
  PathChoice loopback() const {
    PathChoice choice;
    choice.kind = PathKind::kLoopback;
    choice.dest = request_.dst;
    choice.src = request_.dst.is_lo() || request_.src.is_any() ? request_.dst : request_.src;
    return choice;
  }

  static PathChoice path(const NiView& ni, const PeerView& peer, const PeerNiView& hop, const Nid& dest) {
    PathChoice choice;
    choice.kind = PathKind::kPath;
    choice.ni = &ni;
    choice.hop = &hop;
    choice.hop_peer = &peer;
    choice.dest = dest;
    choice.src = ni.nid;
    return choice;
  }

  /// If the request has a source NI, the path uses exactly that NI (docs/wire/lnet.md §6, SRC_SPEC).
  PathChoice from_fixed(const PeerRef& dst) {
    const NiView* ni = view_.local->ni(request_.src);
    if (ni == nullptr || ni->closing) return error(-EADDRNOTAVAIL, LndStatus::kLocalError);
    if (request_.src.net() != request_.dst.net()) return routed(dst, ni);
    if (!dst) return park(request_.dst);
    if (dst.ni().slice == nullptr) return no_memory();
    return path(*ni, *dst.peer, dst.ni(), request_.dst);
  }

  /// Destination NID exactly; its recorded NI, or the best on that net.
  PathChoice to_exactly(const PeerRef& dst) {
    const PeerNiView& hop = dst.ni();
    if (hop.slice == nullptr) return no_memory();
    const NetView* net = view_.local->net(request_.dst.net());
    const NiView* ni = recorded_ni(dst, *net);
    if (ni == nullptr) ni = best_ni(*net, hop);
    if (ni == nullptr) return error(-ENETUNREACH, LndStatus::kLocalError);
    return path(*ni, *dst.peer, hop, request_.dst);
  }

  /// On this net, a peer that is not multi-rail must see only one source (docs/wire/lnet.md §5.7). Returns that NI.
  /// Null: none is recorded, the NI is being deleted, or the message may come from any NI.
  [[nodiscard]] const NiView* recorded_ni(const PeerRef& dst, const NetView& net) const {
    if (!dst || dst.peer->multi_rail || request_.portal0 || request_.forward) return nullptr;
    const NiView* ni = view_.local->ni(dst.ni().source);
    return ni != nullptr && !ni->going() && ni->nid.net() == net.net ? ni : nullptr;
  }

  /// Any of the peer's NIs over any shared net (docs/wire/lnet.md §6.1-6.3).
  PathChoice over_rails(const PeerView& peer) {
    const PeerNetView* best = nullptr;
    const NetView* best_local = nullptr;
    for (const PeerNetView& peer_net : peer.nets) {
      const NetView* local = view_.local->net(peer_net.net);
      if (local == nullptr || !usable(*local)) continue;
      if (best == nullptr || net_beats(peer, peer_net, *local, *best, *best_local)) {
        best = &peer_net;
        best_local = local;
      }
    }
    if (best == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    const NiView* ni = best_ni(*best_local, peer.nis[best->first]);
    if (ni == nullptr) return error(-ENETUNREACH, LndStatus::kLocalError);
    const PeerNiView& hop = best_peer_ni(peer, *best, ni);
    return path(*ni, peer, hop, hop.nid);
  }

  [[nodiscard]] bool usable(const NetView& net) const {
    for (uint32_t i = 0; i < net.count; ++i)
      if (!view_.local->nis[net.first + i].going()) return true;
    return false;
  }

  [[nodiscard]] uint16_t peer_net_health(const PeerView& peer, const PeerNetView& net) const {
    uint16_t health = 0;
    for (uint32_t i = 0; i < net.count; ++i) health = std::max(health, health_of(peer.nis[net.first + i]));
    return health;
  }
  [[nodiscard]] uint16_t local_net_health(const NetView& net) const {
    uint16_t health = 0;
    for (uint32_t i = 0; i < net.count; ++i) {
      const NiView& ni = view_.local->nis[net.first + i];
      if (!ni.fatal && !ni.going()) health = std::max(health, ni.health);
    }
    return health;
  }
  /// A net's sequence is that of its NI chosen last (docs/wire/lnet.md §6.4).
  [[nodiscard]] uint32_t peer_net_sequence(const PeerView& peer, const PeerNetView& net) const {
    uint32_t sequence = 0;
    for (uint32_t i = 0; i < net.count; ++i) sequence = std::max(sequence, peer_sequence(peer.nis[net.first + i]));
    return sequence;
  }
  [[nodiscard]] uint32_t local_net_sequence(const NetView& net) const {
    uint32_t sequence = 0;
    for (uint32_t i = 0; i < net.count; ++i)
      sequence = std::max(sequence, ni_sequence(view_.local->nis[net.first + i]));
    return sequence;
  }
  [[nodiscard]] uint32_t peer_sequence(const PeerNiView& ni) const {
    return uint32_t(ni.locals[context_.worker.value]->sequence.get());
  }
  [[nodiscard]] uint32_t ni_sequence(const NiView& ni) const { return ni.slices[context_.worker.value]->sequence; }

  /// Free credits of the NI at the worker `server`, less the messages that wait for a credit there.
  [[nodiscard]] int32_t ni_credits(const NiView& ni, WorkerId server) const {
    const Gauge& gauge = ni.slices[server.value]->credits.gauge();
    if (context_.turn == 0) return int32_t(gauge.get());
    NiLoad& load = ni.slices[context_.worker.value]->loads[server.value];
    if (load.turn != context_.turn) load = {context_.turn, int32_t(gauge.get())};
    return load.credits;
  }
  /// The same of a peer NI, and the bytes that are on their way to it.
  [[nodiscard]] PeerLoad load_of(const PeerNiView& ni) const {
    const auto read = [&] {
      return PeerLoad{context_.turn, int32_t(ni.slice->credits.gauge().get()), ni.slice->tx_queued_bytes.get()};
    };
    if (context_.turn == 0) return read();
    PeerLoad& load = ni.locals[context_.worker.value]->load;
    if (load.turn != context_.turn) load = read();
    return load;
  }

  bool net_beats(const PeerView& peer, const PeerNetView& a, const NetView& a_local, const PeerNetView& b,
                 const NetView& b_local) const {
    if (const auto x = peer_net_health(peer, a), y = peer_net_health(peer, b); x != y) return x > y;
    if (a.priority != b.priority) return a.priority < b.priority;
    if (const auto x = local_net_health(a_local), y = local_net_health(b_local); x != y) return x > y;
    if (a_local.priority != b_local.priority) return a_local.priority < b_local.priority;
    if (const auto x = peer_net_sequence(peer, a), y = peer_net_sequence(peer, b); x != y) return x < y;
    return local_net_sequence(a_local) < local_net_sequence(b_local);
  }

  /// Best local NI of a net for a message that the hop's worker will serve (docs/wire/lnet.md §6.2).
  const NiView* best_ni(const NetView& net, const PeerNiView& hop) {
    const NiView* best = nullptr;
    for (uint32_t i = 0; i < net.count; ++i) {
      const NiView& ni = view_.local->nis[net.first + i];
      if (ni.going()) continue;
      if (best == nullptr) {
        best = &ni;
        continue;
      }
      const char* why = ni_compare(ni, *best, hop.server);
      if (why[0] == '+') {
        recorder_.ni_lost(*best, ni, why + 1);
        best = &ni;
      } else {
        recorder_.ni_lost(ni, *best, why + 1);
      }
    }
    return best;
  }
  /// "+reason" when `a` beats `b`, else "-reason".
  const char* ni_compare(const NiView& a, const NiView& b, WorkerId server) const {
    if (a.fatal != b.fatal) return b.fatal ? "+link down" : "-link down";
    if (a.health != b.health) return a.health > b.health ? "+health" : "-health";
    if (a.priority != b.priority) return a.priority < b.priority ? "+UDSP priority" : "-UDSP priority";
    if (const uint32_t x = distance(a), y = distance(b); x != y) return x < y ? "+NUMA distance" : "-NUMA distance";
    if (const int32_t x = ni_credits(a, server), y = ni_credits(b, server); x != y)
      return x > y ? "+credits" : "-credits";
    return ni_sequence(a) < ni_sequence(b) ? "+rotation" : "-rotation";
  }
  /// Between the memory of the payload and the device of the NI; 0 if either is not known.
  [[nodiscard]] uint32_t distance(const NiView& ni) const {
    return request_.numa < ni.distances.size() ? ni.distances[request_.numa] : 0;
  }

  /// Best peer NI of a net (docs/wire/lnet.md §6.3); `from` null when the local NI is not chosen yet.
  const PeerNiView& best_peer_ni(const PeerView& peer, const PeerNetView& net, const NiView* from) {
    const PeerNiView* best = &peer.nis[net.first];
    for (uint32_t i = 1; i < net.count; ++i) {
      const PeerNiView& ni = peer.nis[net.first + i];
      const char* why = peer_ni_compare(ni, *best, from);
      recorder_.peer_ni_lost(why[0] == '+' ? *best : ni, why[0] == '+' ? ni : *best, why + 1);
      if (why[0] == '+') best = &ni;
    }
    return *best;
  }
  /// Rank of the local NI in the list of the peer NI; kNoPriority: not in the list.
  static uint32_t source_rank(const PeerNiView& ni, const NiView* from) {
    return from == nullptr || ni.sources == nullptr ? kNoPriority : ni.sources->rank(from->id.value);
  }
  const char* peer_ni_compare(const PeerNiView& a, const PeerNiView& b, const NiView* from) const {
    if (const auto x = health_of(a), y = health_of(b); x != y) return x > y ? "+health" : "-health";
    if (a.priority != b.priority) return a.priority < b.priority ? "+UDSP priority" : "-UDSP priority";
    if (const uint32_t x = source_rank(a, from), y = source_rank(b, from); x != y)
      return x < y ? "+preferred" : "-preferred";
    if (const int32_t x = load_of(a).credits, y = load_of(b).credits; x != y) return x > y ? "+credits" : "-credits";
    return peer_sequence(a) < peer_sequence(b) ? "+rotation" : "-rotation";
  }

  /// Over a gateway (docs/wire/lnet.md §6.5). `from` null: any local NI.
  PathChoice routed(const PeerRef& dst, const NiView* from) {
    if (!request_.via.is_any())
      if (const PathChoice back = over_gateway_ni(dst, from); back.kind == PathKind::kPath) return back;
    const PeerNiView* final_ni = dst && dst.ni().slice != nullptr ? &dst.ni() : nullptr;
    const bool rails =
        dst && dst.peer->multi_rail && !request_.response && !request_.recovery && !request_.forward && from == nullptr;
    if (rails) final_ni = best_routed_ni(*dst.peer);
    const Nid dest = final_ni != nullptr ? final_ni->nid : request_.dst;
    const RouteNetView* net = view_.routes->find(dest.net());
    if (net == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    const RouteView* best = nullptr;
    PeerRef best_gateway;
    const PeerNiView* best_hop = nullptr;
    for (const RouteView& route : net->routes) {
      const PeerRef gateway = view_.peers->find(route.gateway);
      const PeerNiView* hop = gateway && route.alive ? best_gateway_ni(*gateway.peer, from) : nullptr;
      if (hop == nullptr) {
        recorder_.route_lost(route, nullptr, route.alive ? "no local net" : "dead");
        continue;
      }
      if (best == nullptr || route_beats(route, *gateway.peer, *hop, *best, *best_gateway.peer, *best_hop, final_ni)) {
        if (best != nullptr) recorder_.route_lost(*best, &route, "rank");
        best = &route;
        best_gateway = gateway;
        best_hop = hop;
      } else {
        recorder_.route_lost(route, best, "rank");
      }
    }
    if (best == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    if (view_.node.discover_gateways && request_.discovers() && !best_gateway.peer->up_to_date)
      return park(best->gateway, true);
    PathChoice choice = to_gateway(dst, *best_gateway.peer, *best_hop, from, dest);
    choice.route = best;
    choice.final_ni = final_ni;
    return choice;
  }

  /// `dst` may be null: no peer has the destination.
  PathChoice to_gateway(const PeerRef& dst, const PeerView& gateway, const PeerNiView& hop, const NiView* from,
                        const Nid& dest) {
    const NiView* ni = from;
    if (ni == nullptr)
      if (const NetView* net = view_.local->net(hop.nid.net())) {
        ni = recorded_ni(dst, *net);
        if (ni == nullptr) ni = best_ni(*net, hop);
      }
    if (ni == nullptr) return error(-ENETUNREACH, LndStatus::kLocalError);
    PathChoice choice = path(*ni, gateway, hop, dest);
    choice.routed = true;
    return choice;
  }

  /// A response goes back through the router that the request came through, if a route names it as gateway. The net of
  /// that route does not matter (docs/wire/lnet.md §6.5).
  PathChoice over_gateway_ni(const PeerRef& dst, const NiView* from) {
    const Nid& via = request_.via;
    const PeerRef gateway = view_.peers->find(via);
    if (!gateway || (from != nullptr && from->nid.net() != via.net()))
      return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    if (!gateway.peer->router || gateway.ni().slice == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    return to_gateway(dst, *gateway.peer, gateway.ni(), from, request_.dst);
  }

  /// Of the peer's NIs behind routes: best net, then best NI on it.
  const PeerNiView* best_routed_ni(const PeerView& peer) {
    const PeerNetView* best = nullptr;
    for (const PeerNetView& net : peer.nets) {
      if (view_.routes->find(net.net) == nullptr) continue;
      if (best == nullptr || peer_net_health(peer, net) > peer_net_health(peer, *best) ||
          (peer_net_health(peer, net) == peer_net_health(peer, *best) &&
           (net.priority < best->priority ||
            (net.priority == best->priority && peer_net_sequence(peer, net) < peer_net_sequence(peer, *best)))))
        best = &net;
    }
    return best == nullptr ? nullptr : &best_peer_ni(peer, *best, nullptr);
  }

  /// The gateway's best NI on the source NI's net, or on any local net, ranked as peer NIs are (docs/wire/lnet.md
  /// §6.3). Bytes under way count between gateways only.
  const PeerNiView* best_gateway_ni(const PeerView& gateway, const NiView* from) {
    const PeerNiView* best = nullptr;
    for (const PeerNiView& ni : gateway.nis) {
      const NetView* net = view_.local->net(ni.nid.net());
      if (ni.slice == nullptr || net == nullptr || !usable(*net) || ni.down ||
          (from != nullptr && from->nid.net() != ni.nid.net()))
        continue;
      if (best == nullptr || peer_ni_compare(ni, *best, nullptr)[0] == '+') best = &ni;
    }
    return best;
  }
  [[nodiscard]] uint32_t route_sequence(const RouteView& route) const {
    return route.id < context_.route_count ? context_.route_sequences[route.id] : 0;
  }
  /// Rank of the gateway in the list of the destination; kNoPriority: not in the list.
  static uint32_t gateway_rank(const PeerNiView* final_ni, const PeerView& gateway) {
    return final_ni == nullptr || final_ni->gateways == nullptr ? kNoPriority : final_ni->gateways->rank(gateway.id);
  }
  bool route_beats(const RouteView& a, const PeerView& a_gw, const PeerNiView& a_hop, const RouteView& b,
                   const PeerView& b_gw, const PeerNiView& b_hop, const PeerNiView* final_ni) const {
    if (const uint32_t x = gateway_rank(final_ni, a_gw), y = gateway_rank(final_ni, b_gw); x != y) return x < y;
    if (a.priority != b.priority) return a.priority < b.priority;
    const int32_t a_hops = a.hops < 0 ? 1 : a.hops, b_hops = b.hops < 0 ? 1 : b.hops;
    if (a_hops != b_hops) return a_hops < b_hops;
    if (a_hop.health != b_hop.health) return a_hop.health > b_hop.health;
    const PeerLoad x = load_of(a_hop), y = load_of(b_hop);
    if (x.queued_bytes != y.queued_bytes) return x.queued_bytes < y.queued_bytes;
    if (x.credits != y.credits) return x.credits > y.credits;
    return route_sequence(a) < route_sequence(b);
  }

  const ViewSet& view_;
  const PathRequest& request_;
  const PathContext& context_;
  Recorder recorder_;
};

}  // namespace

PathChoice choose_path(const ViewSet& view, const PathRequest& request, const PathContext& context) {
  return Chooser<NoRecorder>(view, request, context, NoRecorder{}).choose();
}

PathChoice path_over(const ViewSet& view, const PathRequest& request, const PathContext& context, const Nid& hop) {
  return Chooser<NoRecorder>(view, request, context, NoRecorder{}).over_hop(hop);
}

}  // namespace ulnet
