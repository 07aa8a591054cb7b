#include "tests/unit/select/rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "control/publish/peer_table.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/select/after_choice.h"
#include "dataplane/select/explain.h"
#include "dataplane/state/slices.h"

namespace ulnet::test {
namespace {

constexpr WorkerId kHome{0}, kServer{1};
constexpr unsigned kWorkers = 2;
constexpr size_t kNumaNodes = 4;

/// A value that turns the order around.
uint32_t opposite(uint32_t used) {
  return 1000 - used;
}
constexpr uint32_t kTallies = 1024;  ///< of peer NIs

/// The views of a row, and all that they point to.
class World {
 public:
  World(const Row& row, bool reversed) : numa_range_(row.numa_range), level_(row.level) {
    add_nis(row.nis, reversed);
    for (const NetPriority& one : row.nets)
      std::find_if(local_.nets.begin(), local_.nets.end(), [&](const NetView& net) {
        return net.net == *net_parse(one.net);
      })->priority = one.priority;
    for (const PeerSpec& peer : row.peers) add_peer(peer, reversed);
    table_ = builder_.snapshot();
    add_preferences(row);
    for (const RouteSpec& route : row.routes) add_route(route);
    if (reversed)
      for (RouteNetView& net : routes_.nets) std::reverse(net.routes.begin(), net.routes.end());
    for (Tallies* tallies : {&home_, &server_}) {
      tallies->choices.set(100);
      tallies->route_choices.set(100);
    }
    rank_nis(local_);
    for (PeerView& peer : peers_) rank_nis(peer);
    set_.local = &local_;
    set_.peers = table_.get();
    set_.routes = &routes_;
    set_.node.discover_gateways = row.discover_gateways;
  }
  [[nodiscard]] const ViewSet& view() const { return set_; }
  [[nodiscard]] PathContext context() const { return {kHome, home_}; }
  /// The home worker sends over the path.
  void send(const PathChoice& choice, uint32_t bytes) {
    WorkerNotes notes(home_);
    note_sent(notes, choice, bytes);
  }
  /// All that the home worker counts.
  [[nodiscard]] std::vector<int64_t> numbers() const {
    std::vector<int64_t> all{home_.choices.get(), home_.route_choices.get()};
    const auto add = [&](const TallyNow& now) { all.insert(all.end(), {now.under_way, now.bytes, now.sequence}); };
    for (const NiView& ni : local_.nis) add(home_.ni_now(ni.slot, PaceKind::kSmall));
    for (uint32_t slot = 0; slot < peer_slices_.size(); ++slot) add(home_.peer_ni_now(slot, PaceKind::kSmall));
    for (uint32_t i = 0; i < routes_added_; ++i) all.push_back(home_.routes[i].get());
    return all;
  }

 private:
  /// `under_way` messages are under way, with `kib` KiB in all, and the last choice was number `used`.
  static void fill(Tally& tally, int32_t under_way, uint32_t kib, uint32_t used) {
    for (int32_t i = 0; i < under_way; ++i) tally.take(i == 0 ? uint64_t{kib} << 10 : 0);
    tally.chosen(used);
  }

  void add_nis(std::vector<NiSpec> specs, bool reversed) {
    if (reversed) std::reverse(specs.begin(), specs.end());
    for (const NiSpec& first : specs) {
      const Net net = nid(first.nid).net();
      if (local_.net(net) != nullptr) continue;
      local_.nets.push_back({net, kNoPriority, uint32_t(local_.nis.size()), 0});
      for (const NiSpec& spec : specs)
        if (nid(spec.nid).net() == net) add_ni(spec);
      local_.nets.back().count = uint32_t(local_.nis.size()) - local_.nets.back().first;
    }
  }
  void add_ni(const NiSpec& spec) {
    NiView& ni = local_.nis.emplace_back();
    ni.id = NiId{uint32_t(local_.nis.size())};
    ni.nid = nid(spec.nid);
    ni.fatal = spec.fatal;
    ni.leaving = spec.leaving;
    ni.closing = spec.closing;
    ni.health = spec.health;
    ni.priority = spec.priority;
    if (spec.numa != UINT32_MAX) {
      ni.distances.assign(kNumaNodes, std::max(20u, numa_range_));
      ni.distances[spec.numa] = std::max(10u, numa_range_);
    }
    ni.device_priorities = spec.device_priorities;
    ni.slot = uint16_t(local_.nis.size() - 1);
    ni.tx_credits = level_ ? 300 : 300 + 10 * int32_t(ni.slot);  // the free ones count, not these
    fill(home_.ni(ni.slot).tally(), ni.tx_credits - spec.credits, 0, spec.used);
    fill(server_.ni(ni.slot).tally(), 300 + spec.credits, 0, opposite(spec.used));
  }

  void add_peer(const PeerSpec& spec, bool reversed) {
    PeerView& peer = peers_.emplace_back();
    peer.id = uint32_t(peers_.size());
    peer.multi_rail = spec.multi_rail;
    peer.router = spec.router;
    peer.up_to_date = !spec.stale;
    std::vector<PeerNiSpec> specs = spec.nis;
    if (reversed) std::reverse(specs.begin() + (spec.router ? 1 : 0), specs.end());  // a gateway keeps its primary NID
    for (const PeerNiSpec& first : specs) {
      const Net net = nid(first.nid).net();
      if (first.no_memory || peer.net(net) != nullptr) continue;
      peer.nets.push_back({net, kNoPriority, uint32_t(peer.nis.size()), 0});
      for (const PeerNiSpec& one : specs)
        if (!one.no_memory && nid(one.nid).net() == net) add_peer_ni(peer, one);
      peer.nets.back().count = uint32_t(peer.nis.size()) - peer.nets.back().first;
    }
    for (const PeerNiSpec& one : specs)
      if (one.no_memory) add_peer_ni(peer, one);
    for (const NetPriority& one : spec.nets)
      for (PeerNetView& net : peer.nets)
        if (net.net == *net_parse(one.net)) net.priority = one.priority;
    // The world owns the peer.
    const std::shared_ptr<const PeerView> shared(std::shared_ptr<void>(), &peer);
    for (uint32_t i = 0; i < peer.nis.size(); ++i) builder_.set(peer.nis[i].nid, shared, i);
  }
  void add_peer_ni(PeerView& peer, const PeerNiSpec& spec) {
    PeerNiView& ni = peer.nis.emplace_back();
    ni.id = PeerNiId{uint32_t(peer_slices_.size() + 1)};
    ni.nid = nid(spec.nid);
    ni.server = kServer;
    ni.health = spec.health;
    ni.known_down = spec.known_down;
    ni.down = spec.down;
    ni.priority = spec.priority;
    if (spec.no_memory) return;
    ni.slot = uint32_t(peer_slices_.size());
    for (Tallies* tallies : {&home_, &server_}) tallies->ensure(ni.slot, nullptr);
    ni.tx_credits = level_ ? 40 : 40 + int32_t(ni.slot) % 7;
    fill(home_.peer_ni(ni.slot).tally(), ni.tx_credits - spec.credits, spec.queued_kib, spec.used);
    fill(server_.peer_ni(ni.slot).tally(), 40 + spec.credits, 10000 - spec.queued_kib, opposite(spec.used));
    ni.slice = &peer_slices_.emplace_back(ni.id, 0, 0);
  }

  /// The lists name other objects; without multi-rail, a preferred NID is the one source.
  void add_preferences(const Row& row) {
    for (const PeerSpec& spec : row.peers)
      for (const PeerNiSpec& one : spec.nis) {
        const PeerRef ref = table_->find(nid(one.nid));
        PeerNiView& ni = const_cast<PeerView*>(ref.peer)->nis[ref.ni_index];
        if (!spec.multi_rail && !one.preferred.empty()) ni.source = nid(one.preferred.front().nid);
        Preferences sources, gateways;
        for (const Preferred& local : one.preferred)
          if (const NiView* view = local_.ni(nid(local.nid)); view != nullptr)
            sources.all.push_back({view->id.value, local.rank});
        for (const Preferred& gateway : one.preferred_gateways)
          gateways.all.push_back({table_->find(nid(gateway.nid)).peer->id, gateway.rank});
        for (Preferences* list : {&sources, &gateways})
          std::sort(list->all.begin(), list->all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
        if (!sources.all.empty()) ni.sources = &lists_.emplace_back(sources);
        if (!gateways.all.empty()) ni.gateways = &lists_.emplace_back(gateways);
      }
  }

  void add_route(const RouteSpec& spec) {
    const Net remote = *net_parse(spec.net);
    auto at = std::find_if(routes_.nets.begin(), routes_.nets.end(),
                           [&](const RouteNetView& one) { return !(one.remote < remote); });
    if (at == routes_.nets.end() || at->remote != remote) at = routes_.nets.insert(at, RouteNetView{remote, {}});
    at->routes.push_back({nid(spec.gateway), spec.hops, spec.priority, !spec.dead, routes_added_});
    home_.routes[routes_added_].set(spec.used);
    server_.routes[routes_added_++].set(opposite(spec.used));
  }

  const uint32_t numa_range_;
  const bool level_;
  std::deque<PeerSlice> peer_slices_;
  std::deque<Preferences> lists_;
  Tallies home_{kTallies}, server_{kTallies};
  uint32_t routes_added_ = 0;
  LocalView local_;
  RouteTable routes_;
  std::deque<PeerView> peers_;
  PeerTableBuilder builder_;
  std::shared_ptr<const PeerTable> table_;
  ViewSet set_;
};

/// `ask` outlives the result.
PathRequest request_of(const Ask& ask) {
  const auto optional = [](const char* name) { return name == nullptr ? kAnyNid : nid(name); };
  PathRequest request;
  request.src = optional(ask.src);
  request.dst = optional(ask.dst);
  request.via = optional(ask.via);
  request.origin = optional(ask.origin);
  request.response = ask.response;
  request.portal0 = ask.portal0;
  request.recovery = ask.recovery;
  request.forward = ask.forward;
  request.as_given = ask.as_given;
  request.numa = ask.numa;
  request.accelerator = ask.accelerator;
  request.tried = ask.tried ? &*ask.tried : nullptr;
  request.tried_any = ask.tried_any;
  return request;
}

std::string text_of_error(int32_t error) {
  switch (-error) {
    case EINVAL: return "EINVAL";
    case ENOMEM: return "ENOMEM";
    case ENETUNREACH: return "ENETUNREACH";
    case EHOSTUNREACH: return "EHOSTUNREACH";
    case EADDRNOTAVAIL: return "EADDRNOTAVAIL";
    default: return std::to_string(error);
  }
}

/// A path in the words of Row::expect. Members of the choice that follow from others are checked here.
std::string text_of(const PathChoice& choice) {
  switch (choice.kind) {
    case PathKind::kLoopback: return "loopback " + text(choice.src) + " > " + text(choice.dest);
    case PathKind::kPark: return (choice.discover ? "discover " : "look up ") + text(choice.ask);
    case PathKind::kError:
      return text_of_error(choice.error) + (choice.health == LndStatus::kRemoteError ? " remote" : " local");
    case PathKind::kPath: break;
  }
  EXPECT_EQ(choice.src, choice.ni->nid);
  const auto& hops = choice.hop_peer->nis;
  EXPECT_TRUE(std::any_of(hops.begin(), hops.end(), [&](const PeerNiView& ni) { return &ni == choice.hop; }));
  EXPECT_TRUE(choice.final_ni == nullptr || (choice.routed && choice.final_ni->nid == choice.dest));
  EXPECT_TRUE(choice.route == nullptr || choice.routed);
  EXPECT_EQ(choice.routed, choice.dest != choice.hop->nid);
  std::string out = text(choice.ni->nid) + " > " + text(choice.hop->nid);
  if (choice.routed) out += " > " + text(choice.dest);
  return out;
}

std::string text_of(const Trace::Object& object) {
  if (const auto* net = std::get_if<const PeerNetView*>(&object)) return net_text((*net)->net);
  if (const auto* ni = std::get_if<const NiView*>(&object)) return text((*ni)->nid);
  if (const auto* ni = std::get_if<const PeerNiView*>(&object)) return text((*ni)->nid);
  return text(std::get<const RouteView*>(object)->gateway);
}
std::string text_of(int64_t value) {
  return value == kNoPriority ? "none" : std::to_string(value);
}
std::string text_of(const Trace::Step& step) {
  std::string out(name(step.kind));
  if (step.route != nullptr) out += " of " + text(step.route->gateway);
  for (const Trace::Candidate& one : step.candidates) {
    out += "; " + text_of(one.object);
    if (one.excluded != Exclusion::kNone) {
      out += " not: " + std::string(name(one.excluded));
      continue;
    }
    out += (one.won ? " wins: " : " loses: ") + std::string(name(one.by));
    if (one.against == Trace::kNobody) continue;
    out +=
        " " + text_of(one.value) + " to " + text_of(one.other) + " of " + text_of(step.candidates[one.against].object);
  }
  return out + "\n";
}

/// Each step that the choice came from names the winner as the choice does, and each loser lost by its values.
void check_winners(const Trace& trace, const PathChoice& choice) {
  for (const Trace::Step& step : trace.steps) {
    EXPECT_LE(std::count_if(step.candidates.begin(), step.candidates.end(), [](const auto& one) { return one.won; }),
              1);
    for (const Trace::Candidate& one : step.candidates) {
      if (one.excluded != Exclusion::kNone || one.against == Trace::kNobody) continue;
      const int64_t better = higher_wins(one.by) ? one.value - one.other : one.other - one.value;
      EXPECT_TRUE(one.won ? better >= 0 : better <= 0) << text_of(step);
      EXPECT_TRUE(better != 0 || one.by == Criterion::kSequence || one.by == Criterion::kRouteSequence ||
                  one.by == Criterion::kLocalNetSequence || one.by == Criterion::kPeerNetSequence)
          << text_of(step);
    }
  }
  if (choice.kind != PathKind::kPath) return;
  const auto winner = [&](StepKind kind) {
    const Trace::Step* step = trace.step(kind);
    return step == nullptr || step->winner() == nullptr ? nullptr : &step->winner()->object;
  };
  const Trace::Object* ni = winner(StepKind::kLocalNi);
  ASSERT_NE(ni, nullptr);
  EXPECT_EQ(*ni, Trace::Object(choice.ni));
  if (!choice.routed) {
    const Trace::Object* hop = winner(StepKind::kPeerNi);
    ASSERT_NE(hop, nullptr);
    EXPECT_EQ(*hop, Trace::Object(choice.hop));
  }
  if (choice.route != nullptr) {
    const Trace::Object* route = winner(StepKind::kRoute);
    ASSERT_NE(route, nullptr);
    EXPECT_EQ(*route, Trace::Object(choice.route));
  }
  if (choice.final_ni != nullptr) {
    const Trace::Object* final_ni = winner(StepKind::kFinalNi);
    ASSERT_NE(final_ni, nullptr);
    EXPECT_EQ(*final_ni, Trace::Object(choice.final_ni));
  }
}

}  // namespace

Nid nid(const std::string& name) {
  const size_t at = name.find('@');
  return Nid::v4(*net_parse(name.substr(at + 1)), uint32_t(std::stoul(name.substr(0, at))));
}
std::string text(const Nid& nid) {
  return nid.is_any() ? "ANY" : std::to_string(nid.address_v4()) + "@" + net_text(nid.net());
}

PeerSpec multi_rail(std::vector<PeerNiSpec> nis, std::vector<NetPriority> nets) {
  return {.nis = std::move(nis), .nets = std::move(nets), .multi_rail = true};
}
PeerSpec plain(std::vector<PeerNiSpec> nis) {
  return {.nis = std::move(nis)};
}
PeerSpec gateway(std::vector<PeerNiSpec> nis) {
  return {.nis = std::move(nis), .multi_rail = true, .router = true};
}
PeerSpec stale(PeerSpec peer) {
  peer.stale = true;
  return peer;
}

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows)
    for (const bool reversed : {false, true}) {
      if (reversed && row.one_order) continue;
      const World world(row, reversed);
      const PathRequest request = request_of(row.ask);
      const std::string where = std::string("row: ") + row.why + (reversed ? ", candidates in the opposite order" : "");
      const PathChoice choice = choose_path(world.view(), request, world.context());
      EXPECT_EQ(text_of(choice), row.expect) << where;
      if (request.forward && choice.kind == PathKind::kPath) {
        const ChosenHop hop{choice.hop_peer, choice.hop, choice.final_ni, choice.routed, world.view().epoch};
        EXPECT_EQ(text_of(path_over(world.view(), request, world.context(), hop)), row.expect) << where << ", kept";
      }
      Trace trace;
      EXPECT_EQ(text_of(explain_path(world.view(), request, world.context(), trace)), row.expect)
          << where << ", explained";
    }
}

std::string over(const Row& row, const char* hop) {
  const World world(row, false);
  return text_of(path_over(world.view(), request_of(row.ask), world.context(), nid(hop)));
}

std::string explained(const Row& row) {
  const World world(row, false);
  Trace trace;
  const PathChoice choice = explain_path(world.view(), request_of(row.ask), world.context(), trace);
  EXPECT_EQ(text_of(choice), row.expect) << row.why;
  check_winners(trace, choice);
  std::string out;
  for (const Trace::Step& step : trace.steps) out += text_of(step);
  return out;
}

void check_explained(const Row& row, const std::string& where) {
  const World world(row, false);
  const PathRequest request = request_of(row.ask);
  const std::vector<int64_t> before = world.numbers();
  Trace trace;
  const PathChoice explained = explain_path(world.view(), request, world.context(), trace);
  EXPECT_EQ(world.numbers(), before) << where;
  EXPECT_EQ(text_of(explained), text_of(choose_path(world.view(), request, world.context()))) << where;
  if (!row.ask.tried) check_winners(trace, explained);  // no criterion is a failed attempt
}

std::vector<std::string> check_play(const Row& row, unsigned count, uint32_t bytes, const std::string& where) {
  World world(row, false);
  const PathRequest request = request_of(row.ask);
  const std::vector<int64_t> before = world.numbers();
  SendOverlay overlay(world.context(), request), silent(world.context(), request);
  std::vector<std::string> played, sent, spread;
  for (unsigned i = 0; i < count; ++i) {
    Trace trace;
    const PathChoice choice = explain_path(world.view(), request, overlay, trace);
    played.push_back(text_of(choice));
    if (choice.kind == PathKind::kPath) note_sent(overlay, choice, bytes);
    const PathChoice same = choose_path(world.view(), request, silent);
    spread.push_back(text_of(same));
    if (same.kind == PathKind::kPath) note_sent(silent, same, bytes);
  }
  EXPECT_EQ(world.numbers(), before) << where;
  EXPECT_EQ(spread, played) << where << ", without reasons";
  for (unsigned i = 0; i < count; ++i) {
    const PathChoice choice = choose_path(world.view(), request, world.context());
    sent.push_back(text_of(choice));
    if (choice.kind == PathKind::kPath) world.send(choice, bytes);
  }
  EXPECT_EQ(played, sent) << where;
  return played;
}

}  // namespace ulnet::test
