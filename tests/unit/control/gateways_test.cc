// Gateways: how they are checked, and how checks change routes (docs/wire/lnet.md §8.4-8.6).
#include "control/api/show_values.h"
#include "control/discovery/runner.h"
#include "control/lnd_host.h"
#include "dataplane/select/path.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// A client on tcp, whose route to tcp1 leads through a router with an NI on each.
class Gateways : public testing::Test {
 protected:
  NodeRig rig;
  RigNode& client = rig.add({"10.1.0.1@tcp"});
  RigNode& router = rig.add({"10.1.0.2@tcp", "10.2.0.2@tcp1"});

  void set_ulnet(RigNode& node, const std::function<void(config::UlnetSection&)>& how) {
    how(node.node->control().desired.ulnet);
    ASSERT_EQ(rig.apply(node, config::LnetConfigure{}), "");  // in force with the next list
  }
  void add_route(const std::string& gateway = "10.1.0.2@tcp", int64_t hop = -1) {
    auto add = NodeRig::route_add("tcp1", gateway);
    add.route.hop = hop;
    ASSERT_EQ(rig.apply(client, add), "");
  }
  bool alive(size_t index = 0) { return client.node->control().routes->routes().at(index).alive; }
  bool alive_in_view() {
    rig.run_for(10ms);
    return client.node->control().publisher->current().routes->find(net("tcp1"))->routes.front().alive;
  }
  const Peer& gateway() { return *client.node->control().peers->find(nid("10.1.0.2@tcp"))->peer; }
  static uint64_t received(RigNode& node, const std::string& ni, wire::MsgType type) {
    return totals_of(*node.node->control().nis->find(nid(ni)))[NiTraffic::kReceived][size_t(type)];
  }
  void cut(bool on) {
    if (on)
      rig.fabric.cut(nid("10.1.0.1@tcp"), nid("10.1.0.2@tcp"));
    else
      rig.fabric.heal_all();
  }
  void TearDown() override { rig.stop_all(); }
};

// Goal: a gateway gets a ping and a push at once and then every interval, also when nothing has changed.
TEST_F(Gateways, are_checked_at_once_and_then_every_interval) {
  rig.start_routing(router);
  set_ulnet(client, [](auto& ulnet) { ulnet.alive_router_check_interval = 5s; });
  add_route();
  for (uint64_t checks = 1; checks <= 4; ++checks) {
    rig.run_for(100ms);
    EXPECT_EQ(received(router, "10.1.0.2@tcp", wire::MsgType::kGet), checks);
    EXPECT_EQ(received(router, "10.1.0.2@tcp", wire::MsgType::kPut), checks);
    EXPECT_TRUE(gateway().has(kPeerRtrDiscovered));
    EXPECT_FALSE(gateway().has(kPeerRtrDiscovery));
    EXPECT_TRUE(gateway().has(kPeerRouterEnabled));
    EXPECT_TRUE(alive());
    rig.run_for(4900ms);
  }
}

TEST_F(Gateways, are_checked_over_each_shared_net) {
  auto& both = rig.add({"10.1.0.5@tcp", "10.2.0.5@tcp1"});
  ASSERT_EQ(rig.apply(router, NodeRig::net_add("10.3.0.2@o2ib")), "");
  rig.start_routing(router);
  auto add = NodeRig::route_add("o2ib", "10.1.0.2@tcp");
  ASSERT_EQ(rig.apply(both, add), "");
  rig.run_for(2500ms);  // the first check finds the other net
  EXPECT_EQ(received(router, "10.1.0.2@tcp", wire::MsgType::kGet), 1u);
  EXPECT_EQ(received(router, "10.2.0.2@tcp1", wire::MsgType::kGet), 1u);
}

// Goal: a gateway's answer reaches its routes also if the operator has configured its primary NID as another peer's.
TEST_F(Gateways, routes_come_back_when_a_configured_peer_has_the_primary_nid) {
  RigNode& far_first = rig.add({"10.2.0.3@tcp1", "10.1.0.3@tcp"});
  rig.start_routing(far_first);
  set_ulnet(client, [](auto& ulnet) { ulnet.alive_router_check_interval = 5s; });
  add_route("10.1.0.3@tcp");
  ASSERT_TRUE(rig.run_until([&] { return alive(); }, 20s));
  ASSERT_EQ(rig.apply(far_first, config::SetRouting{false}), "");
  ASSERT_TRUE(rig.run_until([&] { return !alive(); }, 200s));
  config::PeerAdd add;
  add.peer.primary = nid("10.2.0.3@tcp1");
  add.peer.multi_rail = true;
  ASSERT_EQ(rig.apply(client, add), "");
  rig.run_for(200s);  // a router that stops takes its time
  rig.start_routing(far_first);
  EXPECT_TRUE(rig.run_until([&] { return alive(); }, 200s));
}

// Goal: NIs of a gateway on one net take turns. A dead NI does not make the gateway dead.
TEST_F(Gateways, one_dead_ni_of_several_is_no_dead_gateway) {
  ASSERT_EQ(rig.apply(router, NodeRig::net_add("10.1.0.3@tcp")), "");
  rig.start_routing(router);
  set_ulnet(client, [](auto& ulnet) {
    ulnet.alive_router_check_interval = 20s;
    ulnet.router_ping_timeout = 2s;
  });
  add_route();
  rig.run_for(100ms);
  rig.fabric.cut(nid("10.1.0.1@tcp"), nid("10.1.0.3@tcp"));
  const uint64_t before = received(router, "10.1.0.2@tcp", wire::MsgType::kGet);
  rig.run_for(60s);
  EXPECT_TRUE(gateway().gateway.alive(net("tcp")));
  EXPECT_TRUE(alive());
  EXPECT_GT(received(router, "10.1.0.2@tcp", wire::MsgType::kGet), before);
}

// Goal: if a gateway cannot be reached, its routes go down and it is soon pinged again. When it answers, they come up.
TEST_F(Gateways, routes_follow_them_down_and_up) {
  rig.start_routing(router);
  add_route();
  rig.run_for(1s);
  ASSERT_TRUE(alive_in_view());
  rig.fabric.reset(nid("10.1.0.1@tcp"), nid("10.1.0.2@tcp"));
  rig.run_for(1s);  // both sides have seen that the connection is gone
  cut(true);
  ASSERT_TRUE(rig.run_until([&] { return !alive(); }, 150s));
  EXPECT_FALSE(alive_in_view());
  EXPECT_FALSE(gateway().gateway.alive(net("tcp")));
  EXPECT_EQ(gateway().primary().status, wire::kNiDown);
  EXPECT_EQ(rig.ping(client, "10.2.0.9@tcp1").error, -EHOSTUNREACH);
  cut(false);
  EXPECT_TRUE(rig.run_until([&] { return alive(); }, 70s));
  EXPECT_TRUE(alive_in_view());
  EXPECT_EQ(gateway().primary().status, wire::kNiUp);
}

// Goal: a gateway is on two shared nets, and one of these nets fails. The routes over the other net stay alive. The
// routes over the failed net come back with it.
TEST_F(Gateways, a_dead_net_is_no_dead_gateway) {
  auto& both = rig.add({"10.1.0.5@tcp", "10.2.0.5@tcp1"});
  ASSERT_EQ(rig.apply(router, NodeRig::net_add("10.3.0.2@o2ib")), "");
  rig.start_routing(router);
  set_ulnet(router, [](auto& ulnet) { ulnet.router_ping_timeout = 1000s; });  // no node pings it over o2ib
  set_ulnet(both, [](auto& ulnet) { ulnet.router_ping_timeout = 2s; });
  ASSERT_EQ(rig.apply(both, NodeRig::route_add("o2ib", "10.1.0.2@tcp")), "");
  ASSERT_EQ(rig.apply(both, NodeRig::route_add("o2ib", "10.2.0.2@tcp1")), "");
  rig.run_for(3s);
  const auto alive_over = [&](const char* text) {
    const auto& routes = both.node->control().routes->routes();
    return std::any_of(routes.begin(), routes.end(),
                       [&](const Route& route) { return route.config.gateway.net() == net(text) && route.alive; });
  };
  ASSERT_TRUE(alive_over("tcp") && alive_over("tcp1"));
  rig.fabric.cut(nid("10.1.0.5@tcp"), nid("10.1.0.2@tcp"));
  ASSERT_TRUE(rig.run_until([&] { return !alive_over("tcp"); }, 150s));
  for (int i = 0; i < 150; ++i) {
    rig.run_for(1s);
    ASSERT_TRUE(alive_over("tcp1")) << i;
    ASSERT_FALSE(alive_over("tcp")) << i;
  }
  rig.fabric.heal_all();
  EXPECT_TRUE(rig.run_until([&] { return alive_over("tcp"); }, 70s));
}

// Goal: a gateway that was dead for long is pinged as soon as its driver has a connection to it.
TEST_F(Gateways, with_a_new_connection_are_pinged_at_once) {
  rig.start_routing(router);
  set_ulnet(router, [](auto& ulnet) { ulnet.router_ping_timeout = 10000s; });  // no node pings it over tcp1
  set_ulnet(client, [](auto& ulnet) {
    ulnet.alive_router_check_interval = 1000s;
    ulnet.router_ping_timeout = 1s;
  });
  cut(true);
  add_route();
  rig.run_for(600s);  // the next ping would be after 512 s
  ASSERT_FALSE(alive());
  cut(false);
  EXPECT_EQ(rig.ping(router, "10.1.0.1@tcp", "", 20s).error, 0);
  EXPECT_TRUE(rig.run_until([&] { return alive(); }, 5s));
}

// Goal: a check waits for no silent peer, however many there are. A check of a peer that answers does not wait for
// ever.
TEST_F(Gateways, are_checked_in_time_although_other_peers_are_silent) {
  rig.start_routing(router);
  set_ulnet(client, [](auto& ulnet) { ulnet.alive_router_check_interval = 5s; });
  for (int i = 1; i <= 1000; ++i) {
    const Nid silent = Nid::v4(net("tcp"), 0x0A090000u + uint32_t(i));
    client.node->control().discovery->discover({silent}, false, [](std::vector<DiscoverAnswer>) {});
  }
  rig.run_for(10ms);
  add_route();
  rig.run_for(20s);
  EXPECT_TRUE(gateway().has(kPeerRtrDiscovered));
  EXPECT_GE(received(router, "10.1.0.2@tcp", wire::MsgType::kGet), 4u);
}

// Goal: a gateway that failed is pinged after 1, 2, 4 ... s, never later than the interval.
TEST_F(Gateways, that_failed_are_pinged_sooner) {
  rig.start_routing(router);
  set_ulnet(client, [](auto& ulnet) { ulnet.router_ping_timeout = 1s; });
  cut(true);
  add_route();
  ASSERT_TRUE(rig.run_until([&] { return !alive(); }, 150s));
  cut(false);
  EXPECT_TRUE(rig.run_until([&] { return alive(); }, 5s));
}

TEST_F(Gateways, that_do_not_route_have_dead_routes) {
  add_route();
  EXPECT_TRUE(alive()) << "nothing is known of it yet";
  rig.run_for(100ms);
  EXPECT_FALSE(alive_in_view());
  rig.start_routing(router);  // the router pushes
  rig.run_for(100ms);
  EXPECT_TRUE(alive_in_view());
}

// Goal: a last hop must have a living NI on the net that the route leads to, unless this rule is switched off. The rule
// does not apply to other hops.
TEST_F(Gateways, far_side) {
  rig.start_routing(router);
  add_route();
  rig.run_for(100ms);
  ASSERT_TRUE(alive());
  LocalNi& far = *router.node->control().nis->find(nid("10.2.0.2@tcp1"));
  router.node->control().lnd_hosts[1]->ni_fatal(far.id, true);
  rig.run_for(100ms);
  EXPECT_FALSE(alive());
  set_ulnet(client, [](auto& ulnet) { ulnet.avoid_asym_router_failure = false; });
  EXPECT_TRUE(alive());
  set_ulnet(client, [](auto& ulnet) { ulnet.avoid_asym_router_failure = true; });
  EXPECT_FALSE(alive());
  router.node->control().lnd_hosts[1]->ni_fatal(far.id, false);
  rig.run_for(100ms);
  EXPECT_TRUE(alive());
}

TEST_F(Gateways, far_side_of_one_that_is_not_the_last_hop) {
  rig.start_routing(router);
  auto behind = NodeRig::route_add("tcp7", "10.1.0.2@tcp");
  ASSERT_EQ(rig.apply(client, behind), "");
  auto last = NodeRig::route_add("tcp8", "10.1.0.2@tcp");
  last.route.hop = 1;
  ASSERT_EQ(rig.apply(client, last), "");
  rig.run_for(100ms);
  for (const Route& route : client.node->control().routes->routes())
    EXPECT_EQ(route.alive, route.config.net == net("tcp7")) << "with hop 1 it is to be the last";
}

// Goal: without discovery, the answers to plain pings give the same states.
TEST_F(Gateways, without_discovery) {
  ASSERT_EQ(rig.apply(client, config::SetValue{"discovery", 0}), "");
  set_ulnet(client, [](auto& ulnet) { ulnet.alive_router_check_interval = 5s; });
  add_route();
  rig.run_for(100ms);
  EXPECT_FALSE(alive());
  rig.start_routing(router);
  rig.run_for(6s);
  EXPECT_TRUE(alive());
  EXPECT_EQ(gateway().ni_count(), 1u) << "no NIDs are added";
  router.node->control().lnd_hosts[1]->ni_fatal(router.node->control().nis->find(nid("10.2.0.2@tcp1"))->id, true);
  rig.run_for(6s);
  EXPECT_FALSE(alive());
}

// Goal: with interval 0 there are no checks, and a gateway is discovered when it is used.
TEST_F(Gateways, unchecked_are_discovered_on_use) {
  rig.start_routing(router);
  auto& server = rig.add({"10.2.0.1@tcp1"});
  ASSERT_EQ(rig.apply(server, NodeRig::route_add("tcp", "10.2.0.2@tcp1")), "");
  set_ulnet(client, [](auto& ulnet) { ulnet.alive_router_check_interval = 0s; });
  add_route();
  rig.run_for(100s);
  EXPECT_EQ(received(router, "10.1.0.2@tcp", wire::MsgType::kGet), 0u);
  EXPECT_FALSE(gateway().has(kPeerDiscovered));
  EXPECT_TRUE(client.node->control().publisher->current().node.discover_gateways);
  PathRequest request;
  request.src = kAnyNid;
  request.dst = nid("10.2.0.1@tcp1");
  request.via = kAnyNid;
  const auto choose = [&] {
    rig.run_for(10ms);
    return choose_path(client.node->control().publisher->current(), request,
                       {WorkerId{0}, *client.node->control().mesh->tallies[0]});
  };
  Peer& destination = *(*client.node->control().peers->resolve(request.dst))->peer;
  EXPECT_EQ(choose().ask, request.dst) << "first the destination";
  destination.up_to_date = true;
  client.node->control().peers->touch(destination);
  EXPECT_EQ(choose().kind, PathKind::kPark);
  EXPECT_EQ(choose().ask, nid("10.1.0.2@tcp"));
  EXPECT_TRUE(choose().discover);
  request.portal0 = true;
  EXPECT_EQ(choose().kind, PathKind::kPath) << "pings wait for nobody";
}

// Goal: messages to a gateway do not wait while it is being checked.
TEST_F(Gateways, being_checked_they_count_as_before) {
  rig.start_routing(router);
  set_ulnet(client, [](auto& ulnet) { ulnet.alive_router_check_interval = 5s; });
  add_route();
  rig.run_for(1s);
  ASSERT_TRUE(gateway().up_to_date);
  cut(true);
  ASSERT_TRUE(rig.run_until([&] { return gateway().has(kPeerRtrDiscovery); }, 10s));
  EXPECT_TRUE(gateway().up_to_date);
  cut(false);
}

// Goal: the start waits until each gateway was tried. Until then, the routes of gateways are dead.
TEST_F(Gateways, tried_before_use) {
  set_ulnet(client, [](auto& ulnet) {
    ulnet.check_routers_before_use = true;
    ulnet.router_ping_timeout = 3s;
  });
  cut(true);
  client.node->applier().set_start_up(true);
  bool done = false;
  client.node->apply({{NodeRig::route_add("tcp1", "10.1.0.2@tcp"), {}}}, [&](const auto& errors) {
    EXPECT_TRUE(errors.empty());
    done = true;
  });
  rig.run_for(1s);
  EXPECT_FALSE(done);
  EXPECT_FALSE(alive());
  EXPECT_TRUE(rig.run_until([&] { return done; }, 10s));
  EXPECT_FALSE(alive());
  cut(false);
  rig.start_routing(router);
  EXPECT_TRUE(rig.run_until([&] { return alive(); }, 10s));
}

// Goal: if no node pings a net of a router for 110 s, the router reports its NI there down. The next ping brings it up.
TEST_F(Gateways, a_silent_net_is_down) {
  rig.start_routing(router);
  const auto up = [&](const char* text) { return router.node->control().nis->find(nid(text))->up(); };
  add_route();
  rig.run_for(109s);
  EXPECT_TRUE(up("10.1.0.2@tcp"));
  EXPECT_TRUE(up("10.2.0.2@tcp1"));
  rig.run_for(2s);
  EXPECT_TRUE(up("10.1.0.2@tcp")) << "the client checks it";
  EXPECT_FALSE(up("10.2.0.2@tcp1"));
  rig.run_for(100ms);
  EXPECT_FALSE(alive()) << "the router has pushed that";
  EXPECT_EQ(rig.ping(router, "10.2.0.2@tcp1").error, 0);
  EXPECT_FALSE(up("10.2.0.2@tcp1")) << "its own ping does not count";
  auto& server = rig.add({"10.2.0.1@tcp1"});
  EXPECT_EQ(rig.ping(server, "10.2.0.2@tcp1").error, 0);
  rig.run_for(100ms);
  EXPECT_TRUE(up("10.2.0.2@tcp1"));
  EXPECT_TRUE(alive());
}

}  // namespace
}  // namespace ulnet::test
