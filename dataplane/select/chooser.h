// The ranking of paths: the one function behind choose_path(), which sends, and explain_path(), which control calls.
// Two parameters differ. A Reader gives the numbers that change with each message: tallies, and sequences of routes.
// A Recorder receives each candidate with the criterion that decided. Holds no state of its own, allocates nothing.
// Source: docs/wire/lnet.md §6.
#pragma once
#include <algorithm>
#include <cerrno>
#include <type_traits>

#include "dataplane/select/candidates.h"
#include "dataplane/select/choices.h"
#include "dataplane/select/no_recorder.h"
#include "dataplane/select/path.h"
#include "dataplane/select/tried_rank.h"
#include "dataplane/state/slices.h"

namespace ulnet {

template <class Reader, class Recorder>
class Chooser : Choices {
 public:
  Chooser(const ViewSet& view, const PathRequest& request, Reader reader, Recorder recorder)
      : view_(view), request_(request), tried_(request), reader_(reader), recorder_(recorder) {}

  PathChoice choose() {
    if (request_.dst.is_any()) return error(-EINVAL, LndStatus::kLocalError);
    const uint64_t hash = request_.dst.hash();
    if (request_.dst.is_lo() || (!request_.forward && view_.local->has(request_.dst, hash))) return loopback();
    const PeerRef dst = view_.peers->find(request_.dst, hash);
    const NetView* const net = view_.local->net(request_.dst.net());
    const bool dst_local = net != nullptr;
    const bool reached = dst || dst_local || view_.routes->find(request_.dst.net()) != nullptr;
    if (request_.discovers() && reached && (!dst || !dst.peer->up_to_date)) return park(request_.dst, bool(dst));
    if (!request_.src.is_any() && !(request_.response && source_gone())) return from_fixed(dst);
    if constexpr (kArrays)
      if (const NiView* ni = sole_ni(*view_.local, net, dst)) return path(*ni, *dst.peer, dst.ni(), request_.dst);
    if (request_.forward && dst_local && dst && may_take_another_rail(dst)) return over_rails_or(dst, true);
    const bool rails = dst && dst.peer->multi_rail && !request_.response && !request_.recovery && !request_.forward;
    if (rails) return over_rails_or(dst, false);
    if (!dst_local) return routed(dst, nullptr);
    if (!dst) return park(request_.dst);
    return to_exactly(dst);
  }

  PathChoice over_hop(const Nid& nid) {
    const PeerRef hop = view_.peers->find(nid);
    const bool is_last = view_.local->net(request_.dst.net()) != nullptr;
    const auto is_dst = [&] { return nid == request_.dst || view_.peers->find(request_.dst).peer == hop.peer; };
    const bool gone = !hop || hop.ni().slice == nullptr || hop.ni().down || view_.local->net(nid.net()) == nullptr;
    if (gone || !(is_last ? is_dst() : hop.peer->router)) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    const PeerRef dst = is_last ? hop : view_.peers->find(request_.dst);
    return over_known({hop.peer, &hop.ni(), dst ? &dst.ni() : nullptr, !is_last, view_.epoch});
  }

  PathChoice over_known(const ChosenHop& hop) {
    const NiView* ni = best_ni(*view_.local->net(hop.ni->nid.net()), hop.routed ? hop.final_ni : hop.ni);
    PathChoice choice = ni == nullptr ? error(-ENETUNREACH, LndStatus::kLocalError)
                                      : path(*ni, *hop.peer, *hop.ni, hop.routed ? request_.dst : hop.ni->nid);
    choice.routed = hop.routed;
    return choice;
  }

 private:
  /// Without a record, least_used() decides in a level net. Its result is that of the comparison one by one.
  static constexpr bool kArrays = std::remove_cvref_t<Reader>::kArrays && !Recorder::kOn;
  using Step = typename Recorder::Step;
  using Verdict = typename Recorder::Verdict;  // of a candidate against the best so far, which stays if all is equal

  PathChoice loopback() const {
    PathChoice choice;
    choice.kind = PathKind::kLoopback;
    choice.dest = request_.dst;
    choice.src = request_.dst.is_lo() || request_.src.is_any() ? request_.dst : request_.src;
    return choice;
  }
  /// The last router may use another NI of the peer only if `dst` is ill, and only between multi-rail peers
  /// (docs/wire/lnet.md §8.2). A ping or push must reach the NI that it names. The sender would take the answer of
  /// another NI as news about another node, and send again at once.
  [[nodiscard]] bool may_take_another_rail(const PeerRef& dst) const {
    const bool well = !dst.ni().down && dst.ni().health == kHealthMax && !tried_.any();
    if (request_.portal0 || !dst.peer->multi_rail || well) return false;
    const PeerRef origin = view_.peers->find(request_.origin);
    return origin && origin.peer->multi_rail;
  }
  /// A router drops what would go to an NI that is down: there it ranks last, as an NI that is known to be down.
  [[nodiscard]] uint16_t health_of(const PeerNiView& ni) const {
    return ni.known_down || (request_.forward && ni.down) ? uint16_t(0) : ni.health;
  }
  /// A response comes from the NI that received the request. If that NI is being deleted, the response comes from
  /// another one (decision 32).
  [[nodiscard]] bool source_gone() const {
    const NiView* ni = view_.local->ni(request_.src);
    return ni == nullptr || ni->closing;
  }
  /// Records a step that has nothing to compare.
  template <class T>
  void given(StepKind kind, const T& object, Criterion why) {
    recorder_.chosen(recorder_.begin(kind), object, why);
  }
  /// True, and recorded, if nothing can be sent to the peer NI.
  bool without_memory(const PeerNiView& ni) {
    if (ni.slice != nullptr) return false;
    recorder_.excluded(recorder_.begin(StepKind::kPeerNi), ni, Exclusion::kNoMemory);
    return true;
  }

  /// If the request has a source NI, the path uses exactly that NI (docs/wire/lnet.md §6, SRC_SPEC).
  PathChoice from_fixed(const PeerRef& dst) {
    const NiView* ni = view_.local->ni(request_.src);
    if (ni != nullptr && ni->closing) recorder_.excluded(recorder_.begin(StepKind::kLocalNi), *ni, Exclusion::kClosing);
    if (ni == nullptr || ni->closing) return error(-EADDRNOTAVAIL, LndStatus::kLocalError);
    if (request_.src.net() != request_.dst.net()) return routed(dst, ni);
    if (!dst) return park(request_.dst);
    if (without_memory(dst.ni())) return error(-ENOMEM, LndStatus::kLocalError);
    given(StepKind::kLocalNi, *ni, Criterion::kGiven);
    given(StepKind::kPeerNi, dst.ni(), Criterion::kGiven);
    return path(*ni, *dst.peer, dst.ni(), request_.dst);
  }

  /// The result is made in place: a copy of it costs as much as the comparison of eight interfaces.
  PathChoice over_rails_or(const PeerRef& dst, bool exactly) {
    PathChoice choice = over_rails(*dst.peer);
    if (choice.kind != PathKind::kPath) choice = exactly ? to_exactly(dst) : routed(dst, nullptr);
    return choice;
  }

  /// Destination NID exactly; its recorded NI, or the best on that net.
  PathChoice to_exactly(const PeerRef& dst) {
    const PeerNiView& hop = dst.ni();
    if (without_memory(hop)) return error(-ENOMEM, LndStatus::kLocalError);
    given(StepKind::kPeerNi, hop, Criterion::kGiven);
    const NetView* net = view_.local->net(request_.dst.net());
    const NiView* ni = recorded_ni(dst, *net);
    if (ni == nullptr) ni = best_ni(*net, &hop);
    if (ni == nullptr) return error(-ENETUNREACH, LndStatus::kLocalError);
    return path(*ni, *dst.peer, hop, request_.dst);
  }

  /// On this net, a peer that is not multi-rail must see only one source (docs/wire/lnet.md §5.7). Returns that NI.
  /// Null: none is recorded, the NI is being deleted, or the message may come from any NI.
  const NiView* recorded_ni(const PeerRef& dst, const NetView& net) {
    if (!dst || dst.peer->multi_rail || request_.portal0 || request_.forward) return nullptr;
    const NiView* ni = view_.local->ni(dst.ni().source);
    if (ni == nullptr || ni->going() || ni->nid.net() != net.net) return nullptr;
    given(StepKind::kLocalNi, *ni, Criterion::kRecorded);
    return ni;
  }

  /// Any of the peer's NIs over any shared net (docs/wire/lnet.md §6.1-6.3).
  PathChoice over_rails(const PeerView& peer) {
    const Step step = recorder_.begin(StepKind::kNet);
    const PeerNetView* best = nullptr;
    const NetView* best_local = nullptr;
    for (Turns turns(reader_.worker(), uint32_t(peer.nets.size())); turns.left(); turns.next()) {
      const PeerNetView& peer_net = peer.nets[turns.index()];
      const NetView* local = view_.local->net(peer_net.net);
      if (local == nullptr || !local->usable) {
        recorder_.excluded(step, peer_net, local == nullptr ? Exclusion::kNotLocal : Exclusion::kLeaving);
        continue;
      }
      recorder_.considered(step, peer_net);
      if (best != nullptr) {
        const Verdict verdict = net_compare(peer, peer_net, *local, *best, *best_local);
        recorder_.compared(step, peer_net, *best, verdict);
        if (!verdict.better) continue;
      }
      best = &peer_net;
      best_local = local;
    }
    if (best == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    recorder_.chosen(step, *best);
    const NiView* ni = best_ni(*best_local, nullptr);
    if (ni == nullptr) return error(-ENETUNREACH, LndStatus::kLocalError);
    const PeerNiView& hop = best_peer_ni(peer, *best, ni, StepKind::kPeerNi);
    return path(*ni, peer, hop, hop.nid);
  }

  [[nodiscard]] uint16_t peer_net_health(const PeerView& peer, const PeerNetView& net) const {
    uint16_t health = 0;
    for (uint32_t i = 0; i < net.count; ++i) health = std::max(health, health_of(peer.nis[net.first + i]));
    return health;
  }
  struct NetWait {
    int64_t least = 0;  ///< of its NIs
    bool slow = false;  ///< an NI has a weight above 1
  };
  [[nodiscard]] NetWait net_wait(const PeerView& peer, const PeerNetView& net) const {
    NetWait wait{INT64_MAX, false};
    for (uint32_t i = net.first; i < net.first + net.count; ++i) {
      const Load load = load_of(peer.ranks[i], reader_.peer_ni(peer.ranks[i].slot));
      wait.least = std::min(wait.least, int64_t(load.wait()));
      wait.slow |= load.weight > 1;
    }
    return wait;
  }
  /// A net's sequence is that of its NI chosen last (docs/wire/lnet.md §6.4).
  [[nodiscard]] int64_t peer_net_sequence(const PeerView& peer, const PeerNetView& net) const {
    int64_t sequence = 0;
    for (uint32_t i = 0; i < net.count; ++i)
      sequence = std::max(sequence, reader_.peer_ni(peer.ranks[net.first + i].slot).sequence);
    return sequence;
  }
  [[nodiscard]] int64_t local_net_sequence(const NetView& net) const {
    int64_t sequence = 0;
    for (uint32_t i = 0; i < net.count; ++i)
      sequence = std::max(sequence, reader_.ni(view_.local->ranks[net.first + i].slot).sequence);
    return sequence;
  }

  [[nodiscard]] Verdict net_compare(const PeerView& peer, const PeerNetView& a, const NetView& a_local,
                                    const PeerNetView& b, const NetView& b_local) const {
    const auto key = [&](auto i) { return request_.forward ? key_of(peer.nis[i], peer.ranks[i]) : peer.ranks[i].key; };
    const NetGrade a_grade = tried_.grade_of(peer, a, *view_.local, a_local, key);
    const NetGrade b_grade = tried_.grade_of(peer, b, *view_.local, b_local, key);
    if (a_grade.tried != b_grade.tried) return Verdict::lower(Criterion::kPeerNetHealth, a_grade.tried, b_grade.tried);
    if (a_grade.down != b_grade.down) return Verdict::higher(Criterion::kPeerNetHealth, !a_grade.down, !b_grade.down);
    if (const auto x = peer_net_health(peer, a), y = peer_net_health(peer, b); x != y)
      return Verdict::higher(Criterion::kPeerNetHealth, x, y);
    if (a.priority != b.priority) return Verdict::lower(Criterion::kPeerNetPriority, a.priority, b.priority);
    if (const auto x = local_net_health(*view_.local, a_local), y = local_net_health(*view_.local, b_local); x != y)
      return Verdict::higher(Criterion::kLocalNetHealth, x, y);
    if (a_local.priority != b_local.priority)
      return Verdict::lower(Criterion::kLocalNetPriority, a_local.priority, b_local.priority);
    if (reader_.weighted())
      if (const auto x = net_wait(peer, a), y = net_wait(peer, b); x.slow || y.slow)
        if (x.least != y.least) return Verdict::lower(Criterion::kExpectedWait, x.least, y.least);
    if (const auto x = peer_net_sequence(peer, a), y = peer_net_sequence(peer, b); x != y)
      return Verdict::lower(Criterion::kPeerNetSequence, x, y);
    return Verdict::lower(Criterion::kLocalNetSequence, local_net_sequence(a_local), local_net_sequence(b_local));
  }

  /// Best local NI of a net (docs/wire/lnet.md §6.2). `dest` is the destination's NI, if no criterion chooses it
  /// after the local NI; else null.
  const NiView* best_ni(const NetView& net, const PeerNiView* dest) {
    const Step step = recorder_.begin(StepKind::kLocalNi);
    const NiView* const nis = view_.local->nis.data() + net.first;
    const Rank* const ranks = view_.local->ranks.data() + net.first;
    const Reader& reader = reader_;
    if constexpr (kArrays)
      if (net.count == 1) return net.usable ? nis : nullptr;
    const Placing placing = placing_of(net, dest);
    if constexpr (kArrays)
      if (net.level.yes && !placing.any() && !reader.weighted() && !tried_.any())
        return &nis[least_used(reader.nis_from(net.level.slot), net.count, reader.worker(), UINT64_MAX)];
    NiCandidate best;
    for (Turns turns(reader.worker(), net.count); turns.left(); turns.next()) {
      const NiView& ni = nis[turns.index()];
      const Rank& rank = ranks[turns.index()];
      if (rank.key == Rank::kNone) {
        recorder_.excluded(step, ni, ni.closing ? Exclusion::kClosing : Exclusion::kLeaving);
        continue;
      }
      recorder_.considered(step, ni);
      const uint64_t key = rank.key + tried_.key_of_ni(rank.slot);
      if (key > best.key) {
        if constexpr (Recorder::kOn) recorder_.compared(step, ni, *best.ni, key_verdict(key, best.key));
        continue;
      }
      const NiCandidate one{&ni, key, placing.any() ? place_of(ni, placing) : Place{},
                            load_of(rank, reader.ni(rank.slot))};
      if (best.ni != nullptr) {
        const Verdict verdict = ni_compare(one, best, placing.any(), net.credits_most);
        recorder_.compared(step, ni, *best.ni, verdict);
        if (!verdict.better) continue;
      }
      best = one;
    }
    if (best.ni != nullptr) recorder_.chosen(step, *best.ni);
    return best.ni;
  }

  /// The recorded values are credits, as if only this worker's messages used them.
  static Verdict load_compare(const Load& a, const Load& b, int64_t credits_most) {
    if (a.weight != 1 || b.weight != 1) {
      if (a.wait() != b.wait()) return Verdict::lower(Criterion::kExpectedWait, int64_t(a.wait()), int64_t(b.wait()));
    } else if (a.used != b.used) {
      return Verdict::higher(Criterion::kCredits, credits_most - a.used, credits_most - b.used);
    }
    return Verdict::lower(Criterion::kSequence, a.sequence, b.sequence);
  }

  /// The properties of a message that rank local NIs by their place in the machine, or in a list of preferences.
  struct Placing {
    const Preferences* list = nullptr;
    bool memory = false, accelerator = false;
    [[nodiscard]] bool any() const { return list != nullptr || memory || accelerator; }
  };
  [[nodiscard]] Placing placing_of(const NetView& net, const PeerNiView* dest) const {
    const auto differs = [](uint32_t index, uint64_t level) {
      return index != UINT32_MAX && (index >= 64 || (level >> index & 1) == 0);
    };
    return {dest == nullptr ? nullptr : dest->sources, differs(request_.numa, net.level_memory),
            differs(request_.accelerator, net.level_accelerator)};
  }
  /// Where an NI stands to the message: lower is better, in this order.
  struct Place {
    uint32_t preferred = 0, device = 0, distance = 0;
  };
  [[nodiscard]] Place place_of(const NiView& ni, const Placing& placing) const {
    return {placing.list == nullptr ? 0 : placing.list->rank(ni.id.value), device_priority(ni), distance(ni)};
  }
  struct NiCandidate {
    const NiView* ni = nullptr;
    uint64_t key = Rank::kNone;
    Place place;
    Load load;
  };
  /// Requires: the key of `a` is not higher.
  static Verdict ni_compare(const NiCandidate& a, const NiCandidate& b, bool placed, int64_t credits_most) {
    if (a.key != b.key) return key_verdict(a.key, b.key);
    if (placed) {
      if (a.place.preferred != b.place.preferred)
        return Verdict::lower(Criterion::kPreferred, a.place.preferred, b.place.preferred);
      if (a.place.device != b.place.device)
        return Verdict::lower(Criterion::kDevicePriority, a.place.device, b.place.device);
      if (a.place.distance != b.place.distance)
        return Verdict::lower(Criterion::kNumaDistance, a.place.distance, b.place.distance);
    }
    return load_compare(a.load, b.load, credits_most);
  }

  /// Of a peer NI; a forwarded message avoids one that is down.
  [[nodiscard]] uint64_t key_of(const PeerNiView& ni, const Rank& rank) const {
    return request_.forward && ni.down ? Rank::key_of(false, 0, ni.priority) : rank.key;
  }
  static Verdict key_verdict(uint64_t a, uint64_t b) {
    if constexpr (!Recorder::kOn) return {a < b};
    const auto link = [](uint64_t key) { return (key >> 48) == 0; };
    const auto health = [](uint64_t key) { return UINT16_MAX - uint16_t(key >> 32); };
    if (link(a) != link(b)) return Verdict::higher(Criterion::kLink, link(a), link(b));
    if (health(a) != health(b)) return Verdict::higher(Criterion::kHealth, health(a), health(b));
    return Verdict::lower(Criterion::kPriority, uint32_t(a), uint32_t(b));
  }
  /// Of the accelerator that holds the payload; 0 if none does.
  [[nodiscard]] uint32_t device_priority(const NiView& ni) const {
    if (request_.accelerator == UINT32_MAX) return 0;
    return request_.accelerator < ni.device_priorities.size() ? ni.device_priorities[request_.accelerator]
                                                              : kNoPriority;
  }
  /// Between the memory of the payload and the device of the NI; 0 if the memory's place is not known.
  [[nodiscard]] uint32_t distance(const NiView& ni) const {
    return request_.numa < ni.distances.size() ? ni.distances[request_.numa] : 0;
  }

  /// Best peer NI of a net (docs/wire/lnet.md §6.3); `from` null when the local NI is not chosen yet.
  const PeerNiView& best_peer_ni(const PeerView& peer, const PeerNetView& net, const NiView* from, StepKind kind) {
    const Step step = recorder_.begin(kind);
    const PeerNiView* const nis = peer.nis.data() + net.first;
    const Rank* const ranks = peer.ranks.data() + net.first;
    if (net.count == 1) {
      recorder_.considered(step, *nis);
      recorder_.chosen(step, *nis);
      return *nis;
    }
    const Reader& reader = reader_;
    const NiView* const listed = net.lists_differ ? from : nullptr;
    if constexpr (kArrays)
      if (net.level.yes && !request_.forward && !reader.weighted() && !tried_.any() &&
          (listed == nullptr || net.count <= 64))
        return nis[least_used(reader.peer_nis_from(net.level.slot), net.count, reader.worker(),
                              listed == nullptr ? UINT64_MAX : net.preferring.bits(listed->id))];
    PeerCandidate best;
    for (Turns turns(reader.worker(), net.count); turns.left(); turns.next()) {
      const PeerNiView& ni = nis[turns.index()];
      const Rank& rank = ranks[turns.index()];
      recorder_.considered(step, ni);
      const uint64_t key = (request_.forward ? key_of(ni, rank) : rank.key) + tried_.key_of_peer_ni(rank.slot, from);
      const PeerCandidate one{&ni, key, listed == nullptr ? 0 : source_rank(ni, *listed),
                              load_of(rank, reader.peer_ni(rank.slot))};
      if (best.ni != nullptr) {
        const Verdict verdict = peer_ni_compare(one, best, net.credits_most);
        recorder_.compared(step, ni, *best.ni, verdict);
        if (!verdict.better) continue;
      }
      best = one;
    }
    recorder_.chosen(step, *best.ni);
    return *best.ni;
  }
  struct PeerCandidate {
    const PeerNiView* ni = nullptr;
    uint64_t key = Rank::kNone;
    uint32_t preferred = 0;
    Load load;
  };
  static Verdict peer_ni_compare(const PeerCandidate& a, const PeerCandidate& b, int64_t credits_most) {
    if (a.key != b.key) return key_verdict(a.key, b.key);
    if (a.preferred != b.preferred) return Verdict::lower(Criterion::kPreferred, a.preferred, b.preferred);
    return load_compare(a.load, b.load, credits_most);
  }
  /// Rank of the local NI in the list of the peer NI; kNoPriority: not in the list.
  static uint32_t source_rank(const PeerNiView& ni, const NiView& from) {
    return ni.sources == nullptr ? kNoPriority : ni.sources->rank(from.id.value);
  }

  /// A way over a gateway: candidate of routed().
  struct Way {
    const RouteView* route = nullptr;
    const PeerView* gateway = nullptr;
    const PeerNiView* hop = nullptr;
    uint32_t preferred = kNoPriority;  ///< rank in the list of the destination; kNoPriority: not in the list
  };

  /// Over a gateway (docs/wire/lnet.md §6.5). `from` null: any local NI.
  PathChoice routed(const PeerRef& dst, const NiView* from) {
    if (!request_.via.is_any() && !tried_.has_via(view_))
      if (const PathChoice back = over_gateway_ni(dst, from); back.kind == PathKind::kPath) return back;
    const PeerNiView* final_ni = dst && dst.ni().slice != nullptr ? &dst.ni() : nullptr;
    const bool rails =
        dst && dst.peer->multi_rail && !request_.response && !request_.recovery && !request_.forward && from == nullptr;
    if (rails)
      final_ni = best_routed_ni(*dst.peer);
    else if (final_ni != nullptr)
      given(StepKind::kFinalNi, *final_ni, Criterion::kGiven);
    const Nid dest = final_ni != nullptr ? final_ni->nid : request_.dst;
    const RouteNetView* net = view_.routes->find(dest.net());
    if (net == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    const Way best = best_way(*net, from, final_ni);
    if (best.route == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    if (view_.node.discover_gateways && request_.discovers() && !best.gateway->up_to_date)
      return park(best.route->gateway, true);
    PathChoice choice = to_gateway(dst, *best.gateway, *best.hop, from, dest, final_ni);
    choice.route = best.route;
    choice.final_ni = final_ni;
    return choice;
  }

  /// Of the routes to a net; a null route if none can be used.
  Way best_way(const RouteNetView& net, const NiView* from, const PeerNiView* final_ni) {
    const Step step = recorder_.begin(StepKind::kRoute);
    const Preferences* const list = final_ni == nullptr ? nullptr : final_ni->gateways;
    Way best;
    for (Turns turns(reader_.worker(), uint32_t(net.routes.size())); turns.left(); turns.next()) {
      const RouteView& route = net.routes[turns.index()];
      const PeerRef gateway = view_.peers->find(route.gateway);
      const Way way{&route, gateway.peer,
                    gateway && route.alive ? best_gateway_ni(route, *gateway.peer, from) : nullptr,
                    gateway && list != nullptr ? list->rank(gateway.peer->id) : kNoPriority};
      if (way.hop == nullptr) {
        recorder_.excluded(step, route,
                           !route.alive ? Exclusion::kRouteDead
                           : !gateway   ? Exclusion::kGatewayUnknown
                                        : Exclusion::kNoGatewayNi);
        continue;
      }
      recorder_.considered(step, route);
      if (best.route != nullptr) {
        const Verdict verdict = way_compare(way, best);
        recorder_.compared(step, route, *best.route, verdict);
        if (!verdict.better) continue;
      }
      best = way;
    }
    if (best.route != nullptr) recorder_.chosen(step, *best.route);
    return best;
  }

  /// `dst` and `final_ni` may be null: no peer has the destination.
  PathChoice to_gateway(const PeerRef& dst, const PeerView& gateway, const PeerNiView& hop, const NiView* from,
                        const Nid& dest, const PeerNiView* final_ni) {
    const NiView* ni = from;
    if (ni != nullptr) given(StepKind::kLocalNi, *ni, Criterion::kGiven);
    if (ni == nullptr)
      if (const NetView* net = view_.local->net(hop.nid.net())) {
        ni = recorded_ni(dst, *net);
        if (ni == nullptr) ni = best_ni(*net, final_ni);
      }
    if (ni == nullptr) return error(-ENETUNREACH, LndStatus::kLocalError);
    PathChoice choice = path(*ni, gateway, hop, dest);
    choice.routed = true;
    return choice;
  }

  /// A response goes back through the router that the request came through, if a route names it as gateway. The net
  /// of that route does not matter (docs/wire/lnet.md §6.5).
  PathChoice over_gateway_ni(const PeerRef& dst, const NiView* from) {
    const Nid& via = request_.via;
    const PeerRef gateway = view_.peers->find(via);
    if (!gateway || (from != nullptr && from->nid.net() != via.net()))
      return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    if (!gateway.peer->router || gateway.ni().slice == nullptr) return error(-EHOSTUNREACH, LndStatus::kRemoteError);
    given(StepKind::kGatewayNi, gateway.ni(), Criterion::kReturn);
    return to_gateway(dst, *gateway.peer, gateway.ni(), from, request_.dst, dst ? &dst.ni() : nullptr);
  }

  /// Of the peer's NIs behind routes: best net, then best NI on it.
  const PeerNiView* best_routed_ni(const PeerView& peer) {
    const Step step = recorder_.begin(StepKind::kFinalNet);
    const PeerNetView* best = nullptr;
    for (Turns turns(reader_.worker(), uint32_t(peer.nets.size())); turns.left(); turns.next()) {
      const PeerNetView& net = peer.nets[turns.index()];
      if (view_.routes->find(net.net) == nullptr) {
        recorder_.excluded(step, net, Exclusion::kNoRoute);
        continue;
      }
      recorder_.considered(step, net);
      if (best != nullptr) {
        const Verdict verdict = final_net_compare(peer, net, *best);
        recorder_.compared(step, net, *best, verdict);
        if (!verdict.better) continue;
      }
      best = &net;
    }
    if (best == nullptr) return nullptr;
    recorder_.chosen(step, *best);
    return &best_peer_ni(peer, *best, nullptr, StepKind::kFinalNi);
  }
  [[nodiscard]] Verdict final_net_compare(const PeerView& peer, const PeerNetView& a, const PeerNetView& b) const {
    if (const auto x = peer_net_health(peer, a), y = peer_net_health(peer, b); x != y)
      return Verdict::higher(Criterion::kPeerNetHealth, x, y);
    if (a.priority != b.priority) return Verdict::lower(Criterion::kPeerNetPriority, a.priority, b.priority);
    return Verdict::lower(Criterion::kPeerNetSequence, peer_net_sequence(peer, a), peer_net_sequence(peer, b));
  }

  /// The gateway's best NI on the source NI's net, or on any local net, ranked as peer NIs are (docs/wire/lnet.md
  /// §6.3). Bytes under way count between gateways only.
  const PeerNiView* best_gateway_ni(const RouteView& route, const PeerView& gateway, const NiView* from) {
    const Step step = recorder_.begin(StepKind::kGatewayNi, &route);
    PeerCandidate best;
    int64_t credits_most = 0;
    for (const PeerNetView& net : gateway.nets) credits_most = std::max<int64_t>(credits_most, net.credits_most);
    const bool several = from == nullptr && gateway.nets.size() > 1;
    for (Turns turns(reader_.worker(), uint32_t(gateway.nis.size())); turns.left(); turns.next()) {
      const uint32_t i = turns.index();
      const PeerNiView& ni = gateway.nis[i];
      if (const Exclusion reason = gateway_ni_excluded(ni, from); reason != Exclusion::kNone) {
        recorder_.excluded(step, ni, reason);
        continue;
      }
      recorder_.considered(step, ni);
      const uint64_t link = several && !has_link(*view_.local, ni.nid.net()) ? Rank::key_of(true, UINT16_MAX, 0) : 0;
      const Rank rank{(key_of(ni, gateway.ranks[i]) | link) + tried_.key_of_peer_ni(ni.slot, from), ni.slot,
                      uint32_t(credits_most - ni.tx_credits)};
      const PeerCandidate one{&ni, rank.key, 0, load_of(rank, reader_.peer_ni(ni.slot))};
      if (best.ni != nullptr) {
        const Verdict verdict = peer_ni_compare(one, best, credits_most);
        recorder_.compared(step, ni, *best.ni, verdict);
        if (!verdict.better) continue;
      }
      best = one;
    }
    if (best.ni != nullptr) recorder_.chosen(step, *best.ni);
    return best.ni;
  }
  [[nodiscard]] Exclusion gateway_ni_excluded(const PeerNiView& ni, const NiView* from) const {
    if (ni.slice == nullptr) return Exclusion::kNoMemory;
    if (ni.down) return Exclusion::kDown;
    if (from != nullptr && from->nid.net() != ni.nid.net()) return Exclusion::kOtherNet;
    const NetView* net = view_.local->net(ni.nid.net());
    if (net == nullptr) return Exclusion::kNotLocal;
    return net->usable ? Exclusion::kNone : Exclusion::kLeaving;
  }

  [[nodiscard]] Verdict way_compare(const Way& a, const Way& b) const {
    if (const auto x = tried_.at_peer(a.hop->slot, nullptr), y = tried_.at_peer(b.hop->slot, nullptr); x != y)
      return Verdict::lower(Criterion::kHealth, x, y);
    if (a.hop->nid.net() != b.hop->nid.net())
      if (const bool x = has_link(*view_.local, a.hop->nid.net()), y = has_link(*view_.local, b.hop->nid.net()); x != y)
        return Verdict::higher(Criterion::kLink, x, y);
    if (a.preferred != b.preferred) return Verdict::lower(Criterion::kPreferredGateway, a.preferred, b.preferred);
    if (a.route->priority != b.route->priority)
      return Verdict::lower(Criterion::kRoutePriority, a.route->priority, b.route->priority);
    const auto hops = [](const RouteView& route) { return route.hops < 0 ? 1 : route.hops; };
    if (const int32_t x = hops(*a.route), y = hops(*b.route); x != y) return Verdict::lower(Criterion::kHops, x, y);
    if (a.hop->health != b.hop->health) return Verdict::higher(Criterion::kHealth, a.hop->health, b.hop->health);
    const TallyNow x = reader_.peer_ni(a.hop->slot), y = reader_.peer_ni(b.hop->slot);
    if (x.bytes != y.bytes) return Verdict::lower(Criterion::kQueuedBytes, x.bytes, y.bytes);
    const int64_t free = a.hop->tx_credits - int64_t{x.under_way}, its_free = b.hop->tx_credits - int64_t{y.under_way};
    if (free != its_free) return Verdict::higher(Criterion::kCredits, free, its_free);
    return Verdict::lower(Criterion::kRouteSequence, reader_.route_sequence(*a.route),
                          reader_.route_sequence(*b.route));
  }

  const ViewSet& view_;
  const PathRequest& request_;
  const TriedRank tried_;
  const Reader reader_;
  Recorder recorder_;
};

}  // namespace ulnet
