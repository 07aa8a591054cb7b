// Routers that fail or leave, between whole nodes: two ends on two networks, and one or two routers between them. The
// tests look at routes of the ends, at times, and at the router that carries the messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

using config::Change;

constexpr unsigned kUnderWay = 32;

class SimRouterHealth : public ::testing::Test {
 protected:
  struct Setup {
    unsigned routers = 2;
    bool routing = true;
    bool fast = false;
    int64_t router_check = 60;
    Duration delay = 1ms;              ///< of each message on each network
    std::vector<Change> changes = {};  ///< of both ends
  };
  SimNet sim{{.seed = 23}};
  SimNode *first = nullptr, *second = nullptr;  ///< the routers; their numbers in the fabric are 1 and 2
  SimNode *client = nullptr, *server = nullptr;
  std::map<Nid, uint64_t> puts_by_router;  ///< PUTs of the test that the ends sent, by NID of the next hop

  ~SimRouterHealth() override { sim.fabric().hook = {}; }
  static Nid nid(const std::string& text) { return nid_parse(text).value(); }

  void build(const Setup& setup) {
    sim.fabric().rules().delay_min = sim.fabric().rules().delay_max = setup.delay;
    std::vector<RouteSpec> there, back;
    for (unsigned i = 0; i < setup.routers; ++i) {
      const std::string host = std::to_string(i + 2);
      SimNode& router =
          sim.add_node({.nis = {"10.1.0." + host + "@tcp", "10.2.0." + host + "@tcp1"}, .routing = setup.routing});
      (i == 0 ? first : second) = &router;
      there.push_back({"tcp1", nid_text(router.nid(0))});
      back.push_back({"tcp", nid_text(router.nid(1))});
    }
    const auto end = [&](const char* ni, std::vector<RouteSpec> routes) {
      SimNode& node = sim.add_node(
          {.nis = {ni}, .routes = std::move(routes), .router_check = setup.router_check, .fast_detection = setup.fast});
      if (!setup.changes.empty()) apply(node, setup.changes);
      return &node;
    };
    client = end("10.1.0.1@tcp", there);
    server = end("10.2.0.1@tcp1", back);
    sim.fabric().hook = [this](const Nid& from, const Nid& to, const wire::Header& header) {
      const bool of_end = from == client->nid() || from == server->nid();
      if (of_end && header.type == wire::MsgType::kPut && header.put().portal != 0) ++puts_by_router[to];
      return sim::Fate::kPass;
    };
    if (!setup.routing) return;
    for (SimNode* from : {client, server}) {
      ASSERT_TRUE(from->put(other(from)));
      ASSERT_TRUE(sim.run_until([&] { return from->open_operations() == 0; }, 10s));
      ASSERT_EQ(from->ended(true), 1u);
    }
    sim.run_for(3s);
  }
  [[nodiscard]] SimNode& other(const SimNode* end) const { return end == client ? *server : *client; }
  void apply(SimNode& node, std::vector<Change> changes) {
    node.apply(std::move(changes));
    ASSERT_TRUE(sim.run_until([&] { return !node.applying(); }, 10s));
    ASSERT_EQ(node.apply_errors(), std::vector<std::string>{});
  }

  /// Each end has kUnderWay puts and gets under way, of small and larger messages.
  void fill() {
    for (SimNode* from : {client, server})
      for (uint32_t n = 0; from->open_operations() < kUnderWay; ++n) {
        const Operation op{.length = n % 4 == 0 ? 20000u : 64u};
        if (!(n % 2 == 0 ? from->put(other(from), op) : from->get(other(from), op))) return;
      }
  }
  template <class P>
  bool busy_until(P&& predicate, Duration limit) {
    return sim.run_until([&] { return fill(), predicate(); }, limit);
  }
  void busy_for(Duration time) {
    const Instant end = sim.now() + time;
    (void)busy_until([&] { return sim.now() >= end; }, time);
  }
  bool all_ended(Duration limit = 200s) {
    return sim.run_until([&] { return client->open_operations() + server->open_operations() == 0; }, limit);
  }
  [[nodiscard]] size_t failed() const { return client->ended(false) + server->ended(false); }

  static const Route& route_over(SimNode& end, const SimNode& router) {
    for (const Route& route : end.node().control().routes->routes())
      if (route.config.gateway == router.nid(0) || route.config.gateway == router.nid(1)) return route;
    std::abort();
  }
  /// Both ends agree about their routes over this router.
  bool routes_are(const SimNode& router, bool alive) {
    return route_over(*client, router).alive == alive && route_over(*server, router).alive == alive;
  }
  uint64_t puts_over(const SimNode& router) { return puts_by_router[router.nid(0)] + puts_by_router[router.nid(1)]; }
};

// --- a router that leaves --------------------------------------------------------------------------------------------

// Goal: a router that is stopped says so first: the ends send nothing over it while it still serves. No operation fails
// or is sent a second time. The router comes back, and is used again.
TEST_F(SimRouterHealth, a_router_that_leaves_says_so_first) {
  build({});
  busy_for(50ms);
  EXPECT_GT(puts_over(*first), 0u);
  EXPECT_GT(puts_over(*second), 0u);
  const Instant began = sim.now();
  first->node().stop(began);
  ASSERT_TRUE(busy_until([&] { return routes_are(*first, false); }, 1s));
  EXPECT_LT(sim.now() - began, 50ms);
  EXPECT_FALSE(first->node().control().stopping) << "it still serves";
  EXPECT_EQ(route_over(*client, *first).fault, RouteFault::kNotRouting);
  EXPECT_EQ(route_over(*server, *first).fault, RouteFault::kNotRouting);
  sim.run_for(20ms);  // messages that were chosen before
  const uint64_t over_first = puts_over(*first), over_second = puts_over(*second);
  ASSERT_TRUE(busy_until([&] { return first->node().stopped(); }, 10s));
  EXPECT_LT(sim.now() - began, 2s);
  EXPECT_EQ(first->node().stop_leftovers(), "");
  EXPECT_EQ(first->stat(Stat::kDropCount), 0u);
  first->kill();
  busy_for(100ms);
  EXPECT_EQ(puts_over(*first), over_first);
  EXPECT_GT(puts_over(*second), over_second + 100);
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(failed(), 0u);
  EXPECT_EQ(client->stat(Stat::kResendCount) + server->stat(Stat::kResendCount), 0u);

  first->start_again();
  ASSERT_TRUE(sim.run_until([&] { return routes_are(*first, true); }, 65s)) << "the next check";
  busy_for(100ms);
  EXPECT_GT(puts_over(*first), over_first);
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(failed(), 0u);
}

// Goal: the only router leaves. Operations under way end well, those that begin later fail at once with EHOSTUNREACH,
// and none hangs.
TEST_F(SimRouterHealth, without_its_only_router_an_operation_fails_at_once) {
  build({.routers = 1});
  busy_for(50ms);
  first->node().stop(sim.now());
  ASSERT_TRUE(busy_until([&] { return routes_are(*first, false); }, 1s));
  ASSERT_TRUE(all_ended(1s)) << "they end while the router still serves";
  EXPECT_FALSE(first->node().control().stopping);
  const size_t ended_badly = failed();
  std::vector<std::pair<SimNode*, uint64_t>> late;
  for (SimNode* from : {client, server})
    for (const bool get : {false, true}) late.emplace_back(from, *from->start(other(from).nid(), {}, get));
  ASSERT_TRUE(all_ended(1s));
  for (const auto& [from, number] : late) EXPECT_EQ(from->outcome(number).status, -EHOSTUNREACH);
  EXPECT_EQ(failed() - ended_badly, 4u);
  ASSERT_TRUE(sim.run_until([&] { return first->node().stopped(); }, 10s));
  first->kill();
  late.clear();
  for (SimNode* from : {client, server}) late.emplace_back(from, *from->put(other(from)));
  ASSERT_TRUE(all_ended(1s));
  for (const auto& [from, number] : late) EXPECT_EQ(from->outcome(number).status, -EHOSTUNREACH);
}

// Goal: the router waits until each peer has acknowledged that it leaves, even if the network is slow and nothing is
// under way. A peer that is cut off holds it up for 2 s at most.
TEST_F(SimRouterHealth, a_router_that_leaves_waits_for_acknowledgements) {
  build({});
  sim.fabric().link(first->nid(1), server->nid()).delay_min = 300ms;
  sim.fabric().link(first->nid(1), server->nid()).delay_max = 300ms;
  Instant began = sim.now();
  first->node().stop(began);
  ASSERT_TRUE(sim.run_until([&] { return routes_are(*first, false); }, 1s));
  EXPECT_GE(sim.now() - began, 300ms);
  EXPECT_FALSE(first->node().control().stopping);
  ASSERT_TRUE(sim.run_until([&] { return first->node().stopped(); }, 10s));
  EXPECT_LT(sim.now() - began, 2s);
  first->kill();

  sim.cut(*second, *server);
  began = sim.now();
  second->node().stop(began);
  ASSERT_TRUE(sim.run_until([&] { return second->node().control().stopping; }, 10s));
  EXPECT_GE(sim.now() - began, 1900ms);
  EXPECT_LE(sim.now() - began, 2100ms);
  ASSERT_TRUE(sim.run_until([&] { return second->node().stopped(); }, 20s));
  second->kill();
}

// Goal: a router that was killed is used again after the next check, within the interval. Meanwhile a ping to the
// router was lost. Its timeout is 150 s, and the check does not wait for it.
TEST_F(SimRouterHealth, a_router_that_was_killed_is_used_again_after_a_check) {
  build({.fast = true});
  for (const Duration away : {3s, 20s, 100s, 200s}) {
    first->kill();
    ASSERT_TRUE(sim.run_until([&] { return routes_are(*first, false); }, 70s));
    sim.run_for(away);
    first->start_again();
    EXPECT_TRUE(sim.run_until([&] { return routes_are(*first, true); }, 61s)) << away / 1s << " s away";
    ASSERT_TRUE(sim.run_until([&] { return routes_are(*first, true); }, 1000s));
  }
}

// --- a gateway that hangs --------------------------------------------------------------------------------------------

// Goal: a gateway hangs: its connections stay, and it neither answers nor forwards. Without fast detection, the check
// of gateways finds that. From then on messages go over the other gateway only. When the gateway is back, it is used.
TEST_F(SimRouterHealth, a_gateway_that_hangs_is_found_by_its_check) {
  build({.router_check = 5, .delay = 10ms, .changes = {config::UlnetSet{"router_ping_timeout", config::Doc(5)}}});
  busy_for(50ms);
  const Instant began = sim.now();
  sim.fabric().freeze(1);
  ASSERT_TRUE(busy_until([&] { return routes_are(*first, false); }, 20s));
  EXPECT_LE(sim.now() - began, 11s) << "the interval, the timeout, and a second";
  EXPECT_EQ(route_over(*client, *first).fault, RouteFault::kCheckFailed);
  sim.run_for(100ms);
  const uint64_t over_first = puts_over(*first), over_second = puts_over(*second);
  busy_for(5s);
  EXPECT_EQ(puts_over(*first), over_first);
  EXPECT_GT(puts_over(*second), over_second);
  const Instant back = sim.now();
  sim.fabric().thaw(1);
  ASSERT_TRUE(busy_until([&] { return routes_are(*first, true); }, 20s));
  EXPECT_LE(sim.now() - back, 11s);
  ASSERT_TRUE(busy_until([&] { return puts_over(*first) > over_first + 32; }, 1s));
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(failed(), 0u) << "the gateway was away for less than the transaction timeout";
}

// Goal: with fast detection, a gateway that hangs is found within 500 ms because another one answers. Messages that
// have not begun move to it. The gateway is used again within 2 s after it is back.
TEST_F(SimRouterHealth, a_gateway_that_hangs_is_found_fast) {
  build({.fast = true, .delay = 10ms});
  busy_for(50ms);
  sim.fabric().freeze(1);
  const Instant began = sim.now();
  ASSERT_TRUE(busy_until([&] { return routes_are(*first, false); }, 5s));
  EXPECT_LE(sim.now() - began, 500ms);
  EXPECT_EQ(route_over(*client, *first).fault, RouteFault::kHealth);
  EXPECT_EQ(route_over(*server, *first).fault, RouteFault::kHealth);
  sim.run_for(100ms);
  const uint64_t over_first = puts_over(*first), over_second = puts_over(*second);
  busy_for(20s);
  EXPECT_EQ(puts_over(*first), over_first);
  EXPECT_GT(puts_over(*second), over_second);
  sim.fabric().thaw(1);
  const Instant back = sim.now();
  ASSERT_TRUE(busy_until([&] { return routes_are(*first, true); }, 70s));
  EXPECT_LE(sim.now() - back, 2s);
  ASSERT_TRUE(busy_until([&] { return puts_over(*first) > over_first + 32; }, 1s));
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(failed(), 0u);
}

// --- router_sensitivity ----------------------------------------------------------------------------------------------

class SimRouterSensitivity : public SimRouterHealth {
 protected:
  /// The route over `first` has the better priority, so `second` is used only if `first` is not.
  void build_with_favourite() {
    build({.router_check = 2, .changes = {config::UlnetSet{"router_ping_timeout", config::Doc(2)}}});
    for (SimNode* end : {client, server}) {
      config::RouteConfig to_second = route_over(*end, *second).config;
      apply(*end, {config::RouteDel{to_second.net, to_second.gateway}});
      to_second.priority = 1;
      apply(*end, {config::RouteAdd{to_second}});
    }
    sim.run_for(3s);
  }
  void set_sensitivity(int64_t percent) { apply(*client, {config::SetValue{"router_sensitivity", percent}}); }
  void set_health(const SimNode& router, int64_t health) {
    apply(*client, {config::PeerSet{.nid = router.nid(0), .health = health}});
  }
  /// Sends from the client only: "first", "second", or "both".
  std::string used() {
    puts_by_router.clear();
    const size_t bad = client->ended(false);
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(client->put(*server));
    EXPECT_TRUE(sim.run_until([&] { return client->open_operations() == 0; }, 10s));
    EXPECT_EQ(client->ended(false), bad);
    const uint64_t a = puts_over(*first), b = puts_over(*second);
    return a + b != 8 ? "?" : b == 0 ? "first" : a == 0 ? "second" : "both";
  }
};

// Goal: a gateway with less than `router_sensitivity` percent of its health is not used, however good its route is.
// With the whole health as the limit each loss counts; without a limit none does.
TEST_F(SimRouterSensitivity, a_gateway_below_the_threshold_is_not_used) {
  build_with_favourite();
  EXPECT_EQ(used(), "first");
  set_health(*first, 300);
  EXPECT_EQ(used(), "second") << "the default is 100";
  EXPECT_EQ(route_over(*client, *first).fault, RouteFault::kHealth);
  struct Case {
    int64_t percent, health;
    const char* used;
  };
  for (const Case& one : {Case{31, 300, "second"}, Case{30, 300, "first"}, Case{30, 299, "second"}, Case{0, 0, "first"},
                          Case{1, 0, "second"}, Case{1, 9, "second"}, Case{1, 10, "first"}, Case{100, 999, "second"},
                          Case{100, 1000, "first"}}) {
    set_sensitivity(one.percent);
    set_health(*first, one.health);
    EXPECT_EQ(used(), one.used) << one.percent << " percent, health " << one.health;
  }
}

// Goal: where no gateway is left above the threshold, those below it are used, and not those that fail their check.
TEST_F(SimRouterSensitivity, gateways_below_the_threshold_are_the_last_resort) {
  build_with_favourite();
  set_health(*first, 300);
  set_health(*second, 900);
  EXPECT_EQ(used(), "first") << "both are below, and its route is better";
  set_health(*second, 1000);
  EXPECT_EQ(used(), "second");
  second->kill();
  ASSERT_TRUE(sim.run_until([&] { return !route_over(*client, *second).alive; }, 20s));
  EXPECT_EQ(used(), "first");
  second->start_again();
  ASSERT_TRUE(sim.run_until([&] { return route_over(*client, *second).alive; }, 20s));
  EXPECT_FALSE(route_over(*client, *first).alive);
  EXPECT_EQ(used(), "second");
  first->kill();
  set_health(*second, 300);
  ASSERT_TRUE(sim.run_until([&] { return route_over(*client, *first).fault == RouteFault::kCheckFailed; }, 20s));
  EXPECT_EQ(used(), "second");
}

// --- peer_timeout ----------------------------------------------------------------------------------------------------

/// A node and a hop behind it that takes nothing any more. Connections and drivers' own timeouts notice nothing.
class SimPeerTimeout : public SimRouterHealth {
 protected:
  static constexpr unsigned kMoreThanItTakes = 24;  ///< the fabric's window is 16 messages
  SimNode* router = nullptr;
  const Nid near = nid("10.2.0.2@tcp1");

  void build_router(int64_t peer_timeout, bool routing = true) {
    router = &sim.add_node({.nis = {"10.1.0.2@tcp"}, .routing = routing});
    config::NetAdd add{.net = near.net()};
    add.ni.nid = near;
    add.ni.tunables.peer_timeout = config::Seconds(peer_timeout);
    add.ni.lnd_tunables["timeout"] = 1000;
    apply(*router, {add});
    client = &sim.add_node({.nis = {"10.1.0.1@tcp"}, .routes = {{"tcp1", "10.1.0.2@tcp"}}, .router_check = 0});
    server = &sim.add_node({.nis = {"10.2.0.1@tcp1"}, .routes = {{"tcp", nid_text(near)}}, .router_check = 0});
    if (routing) {
      ASSERT_TRUE(client->put(*server) && server->put(*client));
    } else {
      ASSERT_TRUE(router->put(*server));
    }
    ASSERT_TRUE(sim.run_until([&] { return server->put_count() == 1; }, 10s));
    ASSERT_TRUE(!routing || sim.run_until([&] { return client->put_count() == 1; }, 10s));
    sim.run_for(1s);
  }
  PeerNi& hop() { return *router->node().control().peers->find(server->nid()); }
  /// The hop is cut off, and messages for it wait.
  void cut_off(SimNode& from) {
    sim.fabric().cut(near, server->nid());
    for (unsigned i = 0; i < kMoreThanItTakes; ++i) ASSERT_TRUE(from.put(*server, {.ack = false}));
  }
  bool down_within(Duration limit) {
    return sim.run_until([&] { return hop().life.down; }, limit);
  }
};

// Goal: a router declares a hop down that takes nothing for peer_timeout, and drops further messages for it instead of
// holding them. Trying again does not fill the buffers. The first message that comes from the hop brings it back.
TEST_F(SimPeerTimeout, a_silent_hop_is_down_until_it_is_heard) {
  build_router(5);
  cut_off(*client);
  EXPECT_FALSE(down_within(4900ms));
  ASSERT_TRUE(down_within(2s));
  EXPECT_EQ(router->drops(Drop::kNextHopDown), 0u);
  ASSERT_TRUE(client->put(*server, {.ack = false}));
  sim.run_for(100ms);
  EXPECT_EQ(router->drops(Drop::kNextHopDown), 1u);

  ASSERT_TRUE(sim.run_until([&] { return hop().life.failures >= 5; }, 60s)) << "tried again, in vain";
  ASSERT_TRUE(hop().life.down);
  const size_t came = server->put_count();
  sim.fabric().heal(near, server->nid());
  ASSERT_TRUE(server->put(*client, {.ack = false}));
  ASSERT_TRUE(sim.run_until([&] { return !hop().life.down; }, 500ms)) << "long before the next try";
  EXPECT_EQ(hop().life.failures, 0u);
  ASSERT_TRUE(sim.run_until([&] { return server->put_count() >= came + kMoreThanItTakes; }, 1s));
  const auto last = client->put(*server);
  ASSERT_TRUE(sim.run_until([&] { return client->outcome(*last).ended; }, 1s));
  EXPECT_EQ(client->outcome(*last).status, 0);
}

TEST_F(SimPeerTimeout, zero_is_no_check) {
  build_router(0);
  cut_off(*client);
  EXPECT_FALSE(down_within(60s));
  sim.fabric().heal_all();
}

// Goal: a node that does not route leaves its peers to its drivers.
TEST_F(SimPeerTimeout, means_nothing_without_routing) {
  build_router(5, false);
  cut_off(*router);
  EXPECT_FALSE(down_within(60s));
  sim.fabric().heal_all();
}

// Goal: a hop that takes nothing but is heard is alive, and so is a hop for which nothing waits.
TEST_F(SimPeerTimeout, a_hop_that_sends_or_has_nothing_to_take_is_not_silent) {
  build_router(5);
  sim.fabric().cut_one_way(near, server->nid());
  for (unsigned i = 0; i < kMoreThanItTakes; ++i) ASSERT_TRUE(client->put(*server, {.ack = false}));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(server->put(*client, {.ack = false}));
    EXPECT_FALSE(down_within(1s)) << i;
  }
  sim.fabric().heal_all();
  ASSERT_TRUE(sim.run_until([&] { return server->put_count() == 1 + kMoreThanItTakes; }, 10s));
  sim.fabric().cut(near, server->nid());
  EXPECT_FALSE(down_within(60s)) << "idle";
  sim.fabric().heal_all();
}

// --- set routing 1 ---------------------------------------------------------------------------------------------------

// Goal: `set routing 1` on a running node shows "starting" until its peers may believe it. Until then it forwards, and
// the ends send nothing over it. Method: the settle time is the interval plus the timeout, 5 s each.
TEST_F(SimRouterHealth, a_router_that_starts_is_used_when_it_says_so) {
  const std::vector<Change> settings{config::UlnetSet{"alive_router_check_interval", config::Doc(5)},
                                     config::UlnetSet{"router_ping_timeout", config::Doc(5)}};
  build({.routers = 1, .routing = false, .router_check = 5, .changes = settings});
  first->node().applier().set_start_up(false);
  apply(*first, settings);
  ASSERT_TRUE(sim.run_until([&] { return routes_are(*first, false); }, 20s));
  Routing& routing = *first->node().control().routing;
  EXPECT_EQ(routing.state(), RoutingState::kDisabled);
  EXPECT_EQ(route_over(*client, *first).fault, RouteFault::kNotRouting);

  apply(*first, {config::SetBuffers{16, 16, 4}, config::SetRouting{true}});
  const Instant began = sim.now();
  EXPECT_EQ(routing.state(), RoutingState::kStarting);
  while (sim.now() - began < 9900ms) {
    sim.run_for(100ms);
    ASSERT_EQ(routing.state(), RoutingState::kStarting);
    ASSERT_TRUE(routes_are(*first, false));
  }
  ASSERT_TRUE(sim.run_until([&] { return routes_are(*first, true); }, 300ms)) << "it pushes, no check is needed";
  EXPECT_EQ(routing.state(), RoutingState::kEnabled);
  busy_for(100ms);
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(failed(), 0u);
}

}  // namespace
}  // namespace ulnet::test
