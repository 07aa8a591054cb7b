// Whole nodes under a virtual clock, over the in-memory fabric and over socklnd on simulated TCP. Hand-written scenes;
// seeded chaos is in chaos_test.cc.
#include <gtest/gtest.h>

#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

class Cluster : public ::testing::TestWithParam<std::tuple<Transport, unsigned>> {
 protected:
  Cluster() : sim({.seed = 7, .transport = std::get<0>(GetParam())}) {}
  [[nodiscard]] unsigned workers() const { return std::get<1>(GetParam()); }
  SimNode& end_node(const std::string& nid, std::vector<RouteSpec> routes = {}) {
    return sim.add_node({.nis = {nid}, .workers = workers(), .routes = std::move(routes)});
  }
  bool all_ended(Duration limit = 60s) {
    return sim.run_until(
        [&] {
          for (auto& node : sim.nodes())
            if (node->open_operations() > 0) return false;
          return true;
        },
        limit);
  }
  SimNet sim;
};

// Goal: puts and gets of every size class arrive unchanged, both ways.
TEST_P(Cluster, puts_and_gets_of_all_sizes_between_two_nodes) {
  auto& a = end_node("10.0.0.1@tcp");
  auto& b = end_node("10.0.0.2@tcp");
  for (uint32_t length : {0u, 1u, 63u, 999u, 1000u, 4096u, 4097u, 16383u, 16384u, 65536u, 1000000u, 1u << 20})
    for (SimNode* from : {&a, &b}) {
      SimNode& to = from == &a ? b : a;
      const Operation op{.length = length, .offset = length < 1000000 ? 17u : 0u};
      const auto put = from->put(to, op), get = from->get(to, op);
      ASSERT_TRUE(all_ended()) << length;
      EXPECT_EQ(from->outcome(*put).status, 0) << length;
      EXPECT_EQ(from->outcome(*get).status, 0) << length;
    }
  EXPECT_EQ(a.put_count() + b.put_count(), 24u);
}

// Goal: a router forwards between two nets; header NIDs of the ends survive; counters say so.
TEST_P(Cluster, a_router_forwards_both_ways) {
  auto& client = end_node("10.1.0.1@tcp", {{"tcp1", "10.1.0.2@tcp"}});
  auto& router = sim.add_node({.nis = {"10.1.0.2@tcp", "10.2.0.2@tcp1"}, .workers = workers(), .routing = true});
  auto& server = end_node("10.2.0.1@tcp1", {{"tcp", "10.2.0.2@tcp1"}});
  (void)client.put(server);  // discovery is over
  (void)server.put(client);
  ASSERT_TRUE(all_ended());
  sim.run_for(100ms);
  const uint64_t before = router.stat(Stat::kRouteCount);
  for (uint32_t length : {0u, 100u, 4096u, 1u << 20})
    for (SimNode* from : {&client, &server}) {
      SimNode& to = from == &client ? server : client;
      const auto put = from->put(to, {.length = length}), get = from->get(to, {.length = length});
      ASSERT_TRUE(all_ended()) << length;
      EXPECT_EQ(from->outcome(*put).status, 0) << length;
      EXPECT_EQ(from->outcome(*get).status, 0) << length;
    }
  sim.run_for(100ms);  // the last message counts when its zero-copy acknowledgement is there
  EXPECT_EQ(router.stat(Stat::kRouteCount) - before, 8u * 4) << "each operation is a request and a response";
  EXPECT_EQ(router.drops(Drop::kNoRoute), 0u);
}

// Goal: PUTs that wait for a peer credit leave in order once the link is back, and no credit is lost.
TEST_P(Cluster, queued_puts_leave_in_order_after_the_link_heals) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}, .workers = workers(), .peer_credits = 2});
  auto& b = end_node("10.0.0.2@tcp");
  const auto first = a.put(b, {.match_bits = 77});
  ASSERT_TRUE(all_ended());
  ASSERT_EQ(a.outcome(*first).status, 0);
  sim.cut(a, b);
  for (uint64_t bits : {1, 2, 3, 4}) ASSERT_TRUE(a.put(b, {.match_bits = bits}));
  sim.run_for(1s);
  EXPECT_EQ(a.open_operations(), 4u);
  EXPECT_EQ(b.put_count(), 1u);
  sim.heal(a, b);
  ASSERT_TRUE(sim.run_until([&] { return b.put_count() == 5; }, 60s)) << sim.replay_hint();
  EXPECT_EQ(b.match_bits(), (std::vector<uint64_t>{77, 1, 2, 3, 4}));
}

// Goal: a slow receiver pushes back through the router onto the sender's connection; nothing is dropped.
TEST_P(Cluster, a_burst_larger_than_the_pools_is_held_back_not_dropped) {
  auto& client = end_node("10.1.0.1@tcp", {{"tcp1", "10.1.0.2@tcp"}});
  auto& router = sim.add_node(
      {.nis = {"10.1.0.2@tcp", "10.2.0.2@tcp1"}, .workers = workers(), .routing = true, .buffers = {2, 2, 2}});
  auto& server = end_node("10.2.0.1@tcp1", {{"tcp", "10.2.0.2@tcp1"}});
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(client.put(server, {.length = 200000}));
    ASSERT_TRUE(server.get(client, {.length = 3000}));
  }
  ASSERT_TRUE(all_ended(200s)) << sim.replay_hint();
  EXPECT_EQ(client.ended(true), 40u);
  EXPECT_EQ(server.ended(true), 40u);
  EXPECT_EQ(router.stat(Stat::kDropCount), 0u);
}

// Goal: what cannot be reached fails by name, and soon.
TEST_P(Cluster, unreachable_targets_fail_by_name) {
  auto& a = end_node("10.0.0.1@tcp", {{"tcp1", "10.0.0.9@tcp"}});
  SimNode no_host(sim, {.nis = {"10.0.0.8@tcp"}}, 98), no_net(sim, {.nis = {"10.0.0.8@o2ib7"}}, 99),
      dead_router(sim, {.nis = {"10.5.0.1@tcp1"}}, 97);
  const auto host = a.put(no_host), net = a.get(no_net), router = a.put(dead_router);
  ASSERT_TRUE(all_ended(151s)) << sim.replay_hint();
  EXPECT_LT(a.outcome(*host).status, 0);
  EXPECT_EQ(a.outcome(*net).status, -EHOSTUNREACH);
  EXPECT_LT(a.outcome(*router).status, 0);
  // The server has no route back: its answers are lost, and the asker is told in time.
  auto& b = end_node("10.0.0.2@tcp");
  const auto good = a.put(b);
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(a.outcome(*good).status, 0) << "others go on";
}

// Goal: ping answers with the NIs of the node, directly and through a router.
TEST_P(Cluster, ping_tells_the_nis) {
  auto& a = end_node("10.1.0.1@tcp", {{"tcp1", "10.1.0.2@tcp"}});
  sim.add_node({.nis = {"10.1.0.2@tcp", "10.2.0.2@tcp1"}, .workers = workers(), .routing = true});
  end_node("10.2.0.1@tcp1", {{"tcp", "10.2.0.2@tcp1"}});
  for (const char* nid : {"10.1.0.2@tcp", "10.2.0.1@tcp1"}) {
    a.ping(nid);
    ASSERT_TRUE(sim.run_until([&] { return a.ping_answer().has_value(); }, 20s)) << nid;
    EXPECT_EQ(a.ping_answer()->error, 0) << nid;
    EXPECT_EQ(a.ping_answer()->info.features & wire::kFeatureNiStatus, wire::kFeatureNiStatus);
    EXPECT_NE(a.ping_answer()->info.features & wire::kFeatureDiscovery, 0u);
    EXPECT_EQ(a.ping_answer()->info.nis.size(), std::string(nid) == "10.1.0.2@tcp" ? 2u : 1u);
  }
}

// Goal: two routers that name each other as gateway don't fill up.
TEST_P(Cluster, a_loop_of_routers_drops_by_name) {
  auto& client = end_node("10.1.0.1@tcp", {{"tcp9", "10.1.0.2@tcp"}});
  auto& r1 = sim.add_node(
      {.nis = {"10.1.0.2@tcp"}, .workers = workers(), .routing = true, .routes = {{"tcp9", "10.1.0.3@tcp"}}});
  auto& r2 = sim.add_node(
      {.nis = {"10.1.0.3@tcp"}, .workers = workers(), .routing = true, .routes = {{"tcp9", "10.1.0.2@tcp"}}});
  SimNode nowhere(sim, {.nis = {"10.9.0.1@tcp9"}}, 99);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(client.put(nowhere, {.length = 5000, .ack = false}));
  ASSERT_TRUE(all_ended(200s)) << "they go when discovery has failed";
  sim.run_for(5s);
  EXPECT_EQ(r1.drops(Drop::kRouteLoop) + r2.drops(Drop::kRouteLoop), 31u) << "and so does the ping of discovery";
}

// Goal: the same over two nets and without discovery: no router has the other's NIDs in one peer.
// Method: once each has checked its gateway, messages of every kind go to a net that is nowhere.
TEST_P(Cluster, a_loop_of_two_routers_over_two_nets_ends_without_discovery) {
  const auto router = [&](const std::string& tcp, const std::string& tcp1, const std::string& gateway) -> SimNode& {
    return sim.add_node({.nis = {tcp, tcp1},
                         .workers = workers(),
                         .routing = true,
                         .routes = {{"tcp9", gateway}},
                         .discovery = config::Discovery::kOff});
  };
  auto& r1 = router("10.1.0.2@tcp", "10.2.0.2@tcp1", "10.1.0.3@tcp");
  auto& r2 = router("10.1.0.3@tcp", "10.2.0.3@tcp1", "10.2.0.2@tcp1");
  auto& client = sim.add_node({.nis = {"10.1.0.1@tcp"},
                               .workers = workers(),
                               .routes = {{"tcp9", "10.1.0.2@tcp"}},
                               .discovery = config::Discovery::kOff});
  sim.run_for(5s);
  SimNode nowhere(sim, {.nis = {"10.9.0.1@tcp9"}}, 99);
  ASSERT_TRUE(client.put(nowhere, {.ack = false}));
  sim.run_for(100s);  // those to come wait with it until a ping has failed, which takes 150 s
  const uint64_t before = r1.stat(Stat::kRouteCount) + r2.stat(Stat::kRouteCount);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client.put(nowhere, {.length = 5000, .ack = false}));
    ASSERT_TRUE(client.put(nowhere, {.length = 5000}));
    ASSERT_TRUE(client.get(nowhere, {.length = 5000}));
  }
  ASSERT_TRUE(all_ended(300s));
  sim.run_for(1s);
  EXPECT_EQ(r1.drops(Drop::kRouteLoop) + r2.drops(Drop::kRouteLoop), 32u) << "the ping, the first PUT, and all others";
  EXPECT_LE(r1.stat(Stat::kRouteCount) + r2.stat(Stat::kRouteCount) - before, 62u);
}

// Goal: a longer loop, of which no router knows more than the next, ends too; a router's own message at its first lap.
TEST_P(Cluster, a_loop_of_three_routers_ends) {
  const auto router = [&](const std::string& a, const std::string& b, const std::string& gateway) -> SimNode& {
    return sim.add_node({.nis = {a, b}, .workers = workers(), .routing = true, .routes = {{"tcp9", gateway}}});
  };
  auto& r1 = router("10.0.0.1@tcp", "10.1.0.1@tcp1", "10.1.0.2@tcp1");
  auto& r2 = router("10.1.0.2@tcp1", "10.2.0.2@tcp2", "10.2.0.3@tcp2");
  auto& r3 = router("10.2.0.3@tcp2", "10.0.0.3@tcp", "10.0.0.1@tcp");
  auto& client = end_node("10.0.0.9@tcp", {{"tcp9", "10.0.0.1@tcp"}});
  sim.run_for(5s);
  SimNode nowhere(sim, {.nis = {"10.9.0.1@tcp9"}}, 99);
  for (SimNode* from : {&client, &r2}) ASSERT_TRUE(from->put(nowhere, {.ack = false}));
  sim.run_for(100s);  // those to come wait with them until a ping has failed, which takes 150 s
  const auto dropped = [&] {
    return r1.drops(Drop::kRouteLoop) + r2.drops(Drop::kRouteLoop) + r3.drops(Drop::kRouteLoop);
  };
  const auto routed = [&] {
    return r1.stat(Stat::kRouteCount) + r2.stat(Stat::kRouteCount) + r3.stat(Stat::kRouteCount);
  };
  for (uint64_t bits = 1; bits <= 10; ++bits) {
    ASSERT_TRUE(client.put(nowhere, {.length = 5000, .match_bits = bits, .ack = false}));
    ASSERT_TRUE(client.put(nowhere, {.length = 5000}));
    ASSERT_TRUE(client.get(nowhere, {.length = 5000}));
    ASSERT_TRUE(r2.get(nowhere, {.length = 5000}));
  }
  // With remote writes a router keeps its buffer until the next router has one. In a loop these buffers wait for each
  // other, and the connections time out.
  if (sim.transport() != Transport::kRdma) {
    ASSERT_TRUE(sim.run_until([&] { return dropped() >= 44; }, 200s)) << dropped() << " of 42 and two pings";
  }
  ASSERT_TRUE(all_ended(200s));
  sim.run_for(10s);
  const uint64_t after = routed();
  sim.run_for(10s);
  EXPECT_EQ(routed(), after) << "nothing circles any more";
}

// Goal: `net set` changes NIs under traffic, or says which driver refuses and changes nothing.
TEST_P(Cluster, running_nis_are_changed) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.3@tcp1"}, .workers = workers()});
  auto& b = end_node("10.0.0.2@tcp");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(a.put(b, {.length = 100000}));
  sim.run_for(1ms);
  const auto set = [&](const config::NetSet& change) {
    const size_t before = a.apply_errors().size();
    a.apply({change});
    EXPECT_TRUE(sim.run_until([&] { return !a.applying(); }, 10s));
    return a.apply_errors().size() == before ? std::string() : a.apply_errors().back();
  };
  Control& c = a.node().control();
  EXPECT_EQ(set({.net = *net_parse("tcp"), .lnd_tunables = {{"timeout", 7}}}), "");
  for (const size_t i : {0u, 1u}) EXPECT_EQ(c.nis->find(a.nid(i))->transmit_timeout, 7s) << "one driver, one value";
  EXPECT_EQ(c.desired.ulnet.driver.at("ulnet.socklnd.timeout"), 7) << "for NIs to come";
  EXPECT_EQ(set({.net = *net_parse("tcp"), .lnd_tunables = {{"timeout", 0}}}), "");
  EXPECT_EQ(c.nis->find(a.nid())->transmit_timeout, 49s) << "0: its share of the transaction timeout";
  const config::NetSet more{.nid = a.nid(), .health = 500, .lnd_tunables = {{"conns_per_peer", 3}}};
  const std::string wrong = set(more);
  const LocalNi& ni = *c.nis->find(a.nid());
  if (sim.transport() == Transport::kSockTcp) {
    EXPECT_EQ(wrong, "");
    EXPECT_EQ(c.nis->tunables_in_force(ni).at("conns_per_peer"), 3);
    EXPECT_EQ(ni.health.value(), 500);
    EXPECT_EQ(c.desired.nets.front().nis.front().lnd_tunables.at("conns_per_peer"), 3) << "in a backup, too";
  } else {
    EXPECT_EQ(wrong, "cannot configure 10.0.0.1@tcp: the sim LND has one connection to each peer");
    EXPECT_EQ(c.nis->tunables_in_force(ni).at("conns_per_peer"), 1);
    EXPECT_EQ(ni.health.value(), 1000) << "whole or not at all";
  }
  EXPECT_EQ(c.nis->tunables_in_force(*c.nis->find(a.nid(1))).at("conns_per_peer"), 1);
  ASSERT_TRUE(all_ended()) << sim.replay_hint();
  EXPECT_EQ(a.ended(true), 20u);
}

// Goal: a router that is killed and comes back is used again, and each operation ends once.
TEST_P(Cluster, traffic_resumes_after_the_router_was_killed_and_restarted) {
  auto& client = sim.add_node({.nis = {"10.1.0.1@tcp"},
                               .workers = workers(),
                               .routes = {{"tcp1", "10.1.0.2@tcp"}},
                               .transaction_timeout = 20,
                               .lnd_timeout = 6});
  auto& router = sim.add_node({.nis = {"10.1.0.2@tcp", "10.2.0.2@tcp1"}, .workers = workers(), .routing = true});
  auto& server = sim.add_node({.nis = {"10.2.0.1@tcp1"},
                               .workers = workers(),
                               .routes = {{"tcp", "10.2.0.2@tcp1"}},
                               .transaction_timeout = 20,
                               .lnd_timeout = 6});
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(client.put(server, {.length = 100000}));
      ASSERT_TRUE(client.get(server, {.length = 1000}));
    }
    sim.run_for(2ms);
    router.kill();
    sim.run_for(3s);
    router.start_again();
    ASSERT_TRUE(all_ended(100s)) << sim.replay_hint();
    const size_t well = client.ended(true);
    ASSERT_TRUE(sim.run_until(
        [&] {
          if (client.open_operations() == 0) (void)client.put(server);
          return client.ended(true) > well;
        },
        100s))
        << "round " << round;
    ASSERT_TRUE(all_ended(100s));
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Cluster,
                         ::testing::Combine(::testing::Values(Transport::kFabric, Transport::kRdma,
                                                              Transport::kSockTcp),
                                            ::testing::ValuesIn(worker_counts())),
                         [](const auto& instance) {
                           return transport_name(std::get<0>(instance.param)) + "_" +
                                  std::to_string(std::get<1>(instance.param)) + "_workers";
                         });

TEST(Replay, the_hint_names_the_seed_and_the_command) {
  const std::string hint = SimNet({.seed = 7}).replay_hint();
  EXPECT_TRUE(hint.starts_with("seed 7, ")) << hint;
  EXPECT_TRUE(hint.ends_with(" --gtest_filter=Replay.the_hint_names_the_seed_and_the_command")) << hint;
}

// Goal: hundreds of nodes live in one process, each pings its neighbour.
TEST(ManyNodes, three_hundred_nodes_in_one_process) {
  SimNet sim({.seed = 3});
  constexpr unsigned kNodes = 300;
  for (unsigned i = 0; i < kNodes; ++i)
    sim.add_node({.nis = {"10.0." + std::to_string(i / 200) + "." + std::to_string(i % 200 + 1) + "@tcp"}});
  for (unsigned i = 0; i < kNodes; ++i)
    ASSERT_TRUE(sim.nodes()[i]->put(*sim.nodes()[(i + 1) % kNodes], {.length = 3000}));
  ASSERT_TRUE(sim.run_until(
      [&] {
        for (auto& node : sim.nodes())
          if (node->open_operations() > 0) return false;
        return true;
      },
      60s));
  for (auto& node : sim.nodes()) EXPECT_EQ(node->ended(true), 1u);
}

// Goal: a node can be built, used and torn down a thousand times in one process. ASan finds a leak of one round, so
// that it needs fewer.
TEST(ManyNodes, a_thousand_start_and_stop_rounds) {
#ifdef ULNET_SANITIZED
  constexpr int kRounds = 300;
#else
  constexpr int kRounds = 1000;
#endif
  SimNet sim({.seed = 4});
  auto& stays = sim.add_node({.nis = {"10.0.0.1@tcp"}});
  auto& comes_and_goes = sim.add_node({.nis = {"10.0.0.2@tcp"}});
  for (int round = 0; round < kRounds; ++round) {
    if (round % 2 == 0) {
      ASSERT_TRUE(comes_and_goes.put(stays, {.length = 100}));
    }
    sim.run_for(round % 3 == 0 ? 1ms : 20us);
    if (round % 2 == 1) {
      ASSERT_EQ(comes_and_goes.stop_cleanly(), "") << round;
    }
    comes_and_goes.restart();
  }
  const auto last = comes_and_goes.get(stays);
  ASSERT_TRUE(sim.run_until([&] { return comes_and_goes.open_operations() == 0; }, 60s));
  EXPECT_EQ(comes_and_goes.outcome(*last).status, 0);
}

}  // namespace
}  // namespace ulnet::test
