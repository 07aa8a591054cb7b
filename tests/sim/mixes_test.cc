// The mixes of versions, the upgrades and downgrades, and the changes of a running cluster that the Multi-Rail design
// document lists. Each test has the name of its case. On each of its nets, an uprev node has two NIs and a downrev node
// has one. Downrev nodes have neither MULTI_RAIL nor DISCOVERY, and treat a push as a protocol error. Each test states
// how many pushes downrev nodes refuse. The nodes run over the in-memory fabric.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

enum class Version : uint8_t { kUprev, kDownrev };
constexpr Version kUp = Version::kUprev, kDown = Version::kDownrev;

class Mixes : public ::testing::Test {
 protected:
  SimNet sim{{.seed = 21}};

  static NodeSpec versioned(Version version, NodeSpec spec) {
    spec.downrev = version == Version::kDownrev;
    return spec;
  }
  /// Clients are on 10.1.0.x@tcp. Servers are there too, or behind a router on tcp1.
  NodeSpec client_spec(Version version) const {
    NodeSpec spec{.nis = {"10.1.0.1@tcp"}};
    if (version == Version::kUprev) spec.nis.emplace_back("10.1.0.2@tcp");
    if (routed_) spec.routes = {{"tcp1", "10.1.0.8@tcp"}};
    return versioned(version, std::move(spec));
  }
  NodeSpec server_spec(Version version) const {
    const std::string net = routed_ ? "@tcp1" : "@tcp";
    NodeSpec spec{.nis = {"10.1.0.3" + net}};
    if (version == Version::kUprev) spec.nis.push_back("10.1.0.4" + net);
    if (routed_) spec.routes = {{"tcp", "10.1.0.8@tcp1"}};
    return versioned(version, std::move(spec));
  }
  static NodeSpec router_spec(Version version) {
    NodeSpec spec{.nis = {"10.1.0.8@tcp", "10.1.0.8@tcp1"}, .routing = true};
    if (version == Version::kUprev) {
      spec.nis.emplace_back("10.1.0.9@tcp");
      spec.nis.emplace_back("10.1.0.9@tcp1");
    }
    return versioned(version, std::move(spec));
  }
  void build(Version client, Version server, std::optional<Version> router = {}) {
    routed_ = router.has_value();
    if (router) router_node = &sim.add_node(router_spec(*router));
    client_node = &sim.add_node(client_spec(client));
    server_node = &sim.add_node(server_spec(server));
  }

  /// Runs puts and gets in both directions. Returns true if all of them end well.
  bool traffic() {
    const size_t bad = client_node->ended(false) + server_node->ended(false);
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(client_node->put(*server_node, {.length = 5000}));
      EXPECT_TRUE(client_node->get(*server_node, {.length = 5000}));
      EXPECT_TRUE(server_node->put(*client_node, {.length = 500}));
    }
    const bool ended =
        sim.run_until([&] { return client_node->open_operations() == 0 && server_node->open_operations() == 0; }, 400s);
    sim.run_for(10ms);
    return ended && client_node->ended(false) + server_node->ended(false) == bad;
  }
  /// Repeats traffic() until it succeeds, after a change has broken open operations.
  bool traffic_resumes() {
    for (int i = 0; i < 20; ++i) {
      if (traffic()) return true;
      sim.run_for(10s);
    }
    return false;
  }
  /// Each peer of `node` that has a NID of `other`: the primary NID first, the others sorted.
  static std::string known(SimNode& node, const SimNode& other) {
    std::string text;
    for (size_t i = 0; i < other.spec().nis.size(); ++i) {
      const PeerNi* ni = node.node().control().peers->find(other.nid(i));
      const std::string one = ni == nullptr ? "" : text_of(*ni->peer);
      if (text.find(one) == std::string::npos) text += (text.empty() ? "" : "; ") + one;
    }
    return text;
  }
  static std::string text_of(const Peer& peer) {
    std::vector<std::string> nids;
    for (const PeerNet& net : peer.nets)
      for (const PeerNi* one : net.nis) nids.push_back(nid_text(one->nid));
    std::sort(nids.begin() + 1, nids.end());
    std::string text = peer.multi_rail() ? "multi-rail" : "one";
    for (const auto& one : nids) text += " " + one;
    return text;
  }
  std::string client_knows() { return known(*client_node, *server_node); }
  std::string server_knows() { return known(*server_node, *client_node); }
  /// known() of the router at the client and at the server, and of these two at the router.
  std::vector<std::string> routers_table() {
    return {known(*client_node, *router_node), known(*server_node, *router_node), known(*router_node, *client_node),
            known(*router_node, *server_node)};
  }
  /// Waits up to 200 s, until the router checker has found all differences.
  void expect_routers_table(const std::vector<std::string>& wanted) {
    sim.run_until([&] { return routers_table() == wanted; }, 200s);
    EXPECT_EQ(routers_table(), wanted);
  }
  /// Pushes that reached nodes without push support.
  uint64_t pushes_refused() {
    uint64_t sum = 0;
    for (auto& node : sim.nodes()) sum += node->pushes_refused();
    return sum;
  }
  void server_asks_until(const std::string& known_then) {
    for (int i = 0; i < 20 && server_knows() != known_then; ++i) {
      server_node->node().control().discovery->discover({client_node->nid()}, true, [](const auto&) {});
      sim.run_for(10s);
    }
    EXPECT_EQ(server_knows(), known_then);
  }
  static std::vector<config::Change> net_add(const std::string& nid) {
    config::NetAdd add;
    add.ni.nid = *nid_parse(nid);
    add.net = add.ni.nid->net();
    return {add};
  }
  void apply(SimNode& node, std::vector<config::Change> changes) {
    node.apply(std::move(changes));
    EXPECT_TRUE(sim.run_until([&] { return !node.applying(); }, 30s));
    EXPECT_EQ(node.apply_errors(), std::vector<std::string>{});
  }
  void replace(SimNode& node, const NodeSpec& spec) {
    node.kill();
    sim.run_for(1s);
    node.start_again_as(spec);
  }

  SimNode* client_node = nullptr;
  SimNode* server_node = nullptr;
  SimNode* router_node = nullptr;
  bool routed_ = false;
};

constexpr const char* kClientNids = "multi-rail 10.1.0.1@tcp 10.1.0.2@tcp";
constexpr const char* kServerNids = "multi-rail 10.1.0.3@tcp 10.1.0.4@tcp";
constexpr const char* kRoutedServerNids = "multi-rail 10.1.0.3@tcp1 10.1.0.4@tcp1";
constexpr const char* kRouterNids = "multi-rail 10.1.0.8@tcp 10.1.0.8@tcp1 10.1.0.9@tcp 10.1.0.9@tcp1";
/// Client, server and router each have all NIDs of the others.
const std::vector<std::string> kUprevRouter = {kRouterNids, kRouterNids, kClientNids, kRoutedServerNids};
const std::vector<std::string> kDownrevRouter = {"one 10.1.0.8@tcp", "one 10.1.0.8@tcp1",
                                                 "one 10.1.0.1@tcp; one 10.1.0.2@tcp",
                                                 "one 10.1.0.3@tcp1; one 10.1.0.4@tcp1"};

TEST_F(Mixes, static_1_uprev_client_with_downrev_servers) {
  build(kUp, kDown);
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), "one 10.1.0.3@tcp");
  EXPECT_EQ(server_knows(), "one 10.1.0.1@tcp") << "one source";
  EXPECT_EQ(pushes_refused(), 0u);
}

TEST_F(Mixes, static_2_uprev_servers_with_downrev_clients) {
  build(kDown, kUp);
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), "one 10.1.0.3@tcp") << "one source";
  EXPECT_EQ(server_knows(), "one 10.1.0.1@tcp");
  EXPECT_EQ(pushes_refused(), 0u);
}

TEST_F(Mixes, static_3_uprev_clients_and_servers) {
  build(kUp, kUp);
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), kServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
}

TEST_F(Mixes, static_4_uprev_clients_servers_and_routers) {
  build(kUp, kUp, kUp);
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), kRoutedServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
  expect_routers_table(kUprevRouter);
}

TEST_F(Mixes, static_5_uprev_clients_and_servers_with_downrev_routers) {
  build(kUp, kUp, kDown);
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), kRoutedServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
  expect_routers_table(kDownrevRouter);
  sim.run_for(200s);
  EXPECT_EQ(pushes_refused(), 0u) << "nor do its checkers push";
}

TEST_F(Mixes, static_6_uprev_clients_with_downrev_servers_and_routers) {
  build(kUp, kDown, kDown);
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), "one 10.1.0.3@tcp1");
  EXPECT_EQ(server_knows(), "one 10.1.0.1@tcp") << "one source";
  std::vector<std::string> table = kDownrevRouter;
  table[3] = "one 10.1.0.3@tcp1";
  expect_routers_table(table);
  sim.run_for(200s);
  EXPECT_EQ(pushes_refused(), 0u);
}

TEST_F(Mixes, upgrade_1_of_a_client_from_downrev_to_uprev) {
  build(kDown, kUp);
  ASSERT_TRUE(traffic());
  replace(*client_node, client_spec(kUp));
  EXPECT_TRUE(traffic_resumes());
  EXPECT_EQ(server_knows(), kClientNids);
  EXPECT_EQ(client_knows(), kServerNids);
  EXPECT_EQ(pushes_refused(), 0u);
}

TEST_F(Mixes, upgrade_2_downgrade_of_a_client_from_uprev_to_downrev) {
  build(kUp, kUp);
  ASSERT_TRUE(traffic());
  replace(*client_node, client_spec(kDown));
  // The server gets no push, and half of its messages go to the NID that is gone. The test makes the server ping the
  // client; these pings may go to that NID, too.
  server_asks_until("one 10.1.0.1@tcp");
  EXPECT_TRUE(traffic_resumes());
  EXPECT_EQ(client_knows(), "one 10.1.0.3@tcp");
  EXPECT_EQ(server_knows(), "one 10.1.0.1@tcp");
  EXPECT_EQ(pushes_refused(), 0u) << "the answer comes before the push";
}

// The server pushes a change of its own before it detects the downgrade. This push is a protocol error, and the only
// sign of the downgrade that the server gets.
TEST_F(Mixes, upgrade_2_downgrade_of_a_client_that_is_pushed_to) {
  build(kUp, kUp);
  ASSERT_TRUE(traffic());
  replace(*client_node, client_spec(kDown));
  apply(*server_node, net_add("10.7.0.3@tcp7"));
  EXPECT_TRUE(sim.run_until([&] { return pushes_refused() > 0; }, 600s));
  EXPECT_TRUE(traffic_resumes());
  EXPECT_EQ(server_knows(), "one 10.1.0.1@tcp");
  // The recovery ping of the NID that refused the push comes from the other NI of the server.
  EXPECT_EQ(client_knows(), "one 10.1.0.3@tcp; one 10.1.0.4@tcp");
  const uint64_t refused = pushes_refused();
  EXPECT_LE(refused, 2u) << "one over each rail";
  apply(*server_node, net_add("10.8.0.3@tcp8"));
  EXPECT_TRUE(traffic());
  sim.run_for(200s);
  EXPECT_EQ(pushes_refused(), refused) << "known for what it is, it is left alone";
}

TEST_F(Mixes, upgrade_3_of_a_router_from_downrev_to_uprev) {
  build(kUp, kUp, kDown);
  ASSERT_TRUE(traffic());
  replace(*router_node, router_spec(kUp));
  EXPECT_TRUE(traffic_resumes());
  EXPECT_EQ(client_knows(), kRoutedServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
  expect_routers_table(kUprevRouter);
  EXPECT_EQ(pushes_refused(), 0u);
}

TEST_F(Mixes, upgrade_4_downgrade_of_a_router_from_uprev_to_downrev) {
  build(kUp, kUp, kUp);
  ASSERT_TRUE(traffic());
  replace(*router_node, router_spec(kDown));
  EXPECT_TRUE(traffic_resumes());
  EXPECT_EQ(client_knows(), kRoutedServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
  expect_routers_table(kDownrevRouter);
  EXPECT_EQ(pushes_refused(), 0u) << "the answer to the check comes before the push";
}

// Client and server push changes of their own before they detect the downgrade.
TEST_F(Mixes, upgrade_4_downgrade_of_a_router_that_is_pushed_to) {
  build(kUp, kUp, kUp);
  ASSERT_TRUE(traffic());
  replace(*router_node, router_spec(kDown));
  apply(*client_node, net_add("10.7.0.1@tcp7"));
  apply(*server_node, net_add("10.7.0.3@tcp7"));
  EXPECT_TRUE(sim.run_until([&] { return router_node->pushes_refused() > 0; }, 600s));
  EXPECT_TRUE(traffic_resumes());
  EXPECT_EQ(client_knows(), std::string(kRoutedServerNids) + " 10.7.0.3@tcp7");
  EXPECT_EQ(server_knows(), std::string(kClientNids) + " 10.7.0.1@tcp7");
  expect_routers_table(kDownrevRouter);
  const uint64_t refused = pushes_refused();
  EXPECT_LE(refused, 2u) << "one of each, if its connection was still thought to be there";
  apply(*server_node, net_add("10.8.0.3@tcp8"));
  EXPECT_TRUE(traffic());
  sim.run_for(200s);
  EXPECT_EQ(pushes_refused(), refused) << "known for what it is, it is left alone";
}

TEST_F(Mixes, live_1_a_net_with_nis_is_added) {
  build(kUp, kUp);
  ASSERT_TRUE(traffic());
  apply(*client_node, net_add("10.7.0.1@tcp7"));
  apply(*server_node, net_add("10.7.0.3@tcp7"));
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), std::string(kServerNids) + " 10.7.0.3@tcp7");
  EXPECT_EQ(server_knows(), std::string(kClientNids) + " 10.7.0.1@tcp7");
}

TEST_F(Mixes, live_2_a_net_with_nis_is_deleted) {
  build(kUp, kUp);
  apply(*client_node, net_add("10.7.0.1@tcp7"));
  ASSERT_TRUE(traffic());
  ASSERT_EQ(server_knows(), std::string(kClientNids) + " 10.7.0.1@tcp7");
  config::NetDel del;
  del.net = *net_parse("tcp7");
  apply(*client_node, {del});
  EXPECT_TRUE(traffic());
  EXPECT_EQ(server_knows(), kClientNids);
  EXPECT_EQ(client_knows(), kServerNids);
}

TEST_F(Mixes, live_3_routes_are_added) {
  build(kUp, kUp, kUp);
  auto& other = sim.add_node({.nis = {"10.9.0.1@tcp1"}, .routes = {{"tcp", "10.1.0.9@tcp1"}}});
  ASSERT_TRUE(traffic());
  apply(*client_node, {config::RouteAdd{{.net = *net_parse("tcp1"), .gateway = *nid_parse("10.1.0.9@tcp")}}});
  const auto put = client_node->put(other);
  ASSERT_TRUE(sim.run_until([&] { return client_node->outcome(*put).ended; }, 200s));
  EXPECT_EQ(client_node->outcome(*put).status, 0);
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_knows(), kRoutedServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
  EXPECT_EQ(known(*client_node, other), "multi-rail 10.9.0.1@tcp1");
  EXPECT_EQ(known(other, *client_node), "") << "the push of one that it has not met, over a router";
  const auto back = other.put(*client_node);
  ASSERT_TRUE(sim.run_until([&] { return other.outcome(*back).ended; }, 200s));
  EXPECT_EQ(known(other, *client_node), kClientNids);
  expect_routers_table(kUprevRouter);
}

TEST_F(Mixes, live_4_routes_are_deleted) {
  build(kUp, kUp, kUp);
  ASSERT_TRUE(traffic());
  apply(*client_node, {config::RouteDel{.net = *net_parse("tcp1"), .gateway = *nid_parse("10.1.0.8@tcp")}});
  const auto put = client_node->put(*server_node);
  ASSERT_TRUE(sim.run_until([&] { return client_node->outcome(*put).ended; }, 400s));
  EXPECT_EQ(client_node->outcome(*put).status, -EHOSTUNREACH);
  apply(*client_node, {config::RouteAdd{{.net = *net_parse("tcp1"), .gateway = *nid_parse("10.1.0.8@tcp")}}});
  EXPECT_TRUE(traffic_resumes());
  EXPECT_EQ(client_knows(), kRoutedServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
  expect_routers_table(kUprevRouter);
}

/// Rules of a node in their order, as `udsp show` lists them.
std::string rules_of(SimNode& node) {
  std::string text;
  for (const config::UdspRule& rule : node.node().control().desired.udsp)
    text += (text.empty() ? "" : ", ") + rule.src + (rule.dst.empty() ? "" : ">" + rule.dst) +
            (rule.priority ? "=" + std::to_string(*rule.priority) : "");
  return text;
}

// Policies change while messages are under way. The rules apply in their order, each node keeps its peers, and no
// operation fails. This test does not check which paths the rules prefer.
TEST_F(Mixes, live_5_selection_policies_are_added) {
  build(kUp, kUp);
  ASSERT_TRUE(traffic());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client_node->put(*server_node, {.length = 50000}));
  ASSERT_GT(client_node->open_operations(), 0u);
  apply(*client_node, {config::UdspAdd{{.src = "10.1.0.1@tcp", .priority = 1}},
                       config::UdspAdd{{.idx = 0, .src = "10.1.0.2@tcp", .dst = "10.1.0.4@tcp"}}});
  apply(*client_node, {config::UdspAdd{{.dst = "10.1.0.3@tcp", .priority = 0}}});
  EXPECT_EQ(rules_of(*client_node), "10.1.0.2@tcp>10.1.0.4@tcp, 10.1.0.1@tcp=1, >10.1.0.3@tcp=0");
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_node->ended(false), 0u);
  EXPECT_EQ(client_knows(), kServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
  client_node->apply(
      {config::UdspAdd{{.src = "tcp", .priority = 2}}, config::UdspAdd{{.src = "10.1.0.1@tcp", .priority = 1}}});
  ASSERT_TRUE(sim.run_until([&] { return !client_node->applying(); }, 30s));
  EXPECT_EQ(client_node->apply_errors().size(), 1u) << "the second is there already";
  EXPECT_EQ(rules_of(*client_node), "10.1.0.2@tcp>10.1.0.4@tcp, 10.1.0.1@tcp=1, >10.1.0.3@tcp=0") << "all or nothing";
}

TEST_F(Mixes, live_6_selection_policies_are_deleted) {
  build(kUp, kUp);
  apply(*client_node,
        {config::UdspAdd{{.src = "tcp", .priority = 3}}, config::UdspAdd{{.src = "10.1.0.1@tcp", .priority = 0}},
         config::UdspAdd{{.dst = "10.1.0.4@tcp", .priority = 0}}});
  ASSERT_TRUE(traffic());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client_node->get(*server_node, {.length = 50000}));
  ASSERT_GT(client_node->open_operations(), 0u);
  apply(*client_node, {config::UdspDel{.idx = 1}});
  EXPECT_EQ(rules_of(*client_node), "tcp=3, >10.1.0.4@tcp=0");
  EXPECT_TRUE(traffic());
  client_node->apply({config::UdspDel{.idx = 2}});
  ASSERT_TRUE(sim.run_until([&] { return !client_node->applying(); }, 30s));
  EXPECT_EQ(client_node->apply_errors(), std::vector<std::string>{"cannot del udsp: No such file or directory"});
  client_node->apply({config::UdspDel{.all = true}});
  ASSERT_TRUE(sim.run_until([&] { return !client_node->applying(); }, 30s));
  EXPECT_EQ(rules_of(*client_node), "");
  EXPECT_TRUE(traffic());
  EXPECT_EQ(client_node->ended(false) + server_node->ended(false), 0u);
  EXPECT_EQ(client_knows(), kServerNids);
  EXPECT_EQ(server_knows(), kClientNids);
}

}  // namespace
}  // namespace ulnet::test
