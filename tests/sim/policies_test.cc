// The examples of the documents on selection policies (UDSP), as messages take them: each test has the name of its
// example. The nodes run over the in-memory fabric; the counters of NIs and peer NIs show the paths.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/api/show_values.h"
#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

class Policies : public ::testing::Test {
 protected:
  static constexpr int kMessages = 40;
  SimNet sim{{.seed = 31}};
  SimNode* client = nullptr;
  SimNode* server = nullptr;

  void build(std::vector<std::string> client_nis, std::vector<std::string> server_nis) {
    server = &sim.add_node({.nis = std::move(server_nis)});
    client = &sim.add_node({.nis = std::move(client_nis)});
    ASSERT_TRUE(sends(2));  // discovers
  }
  static config::UdspAdd rule(config::UdspRule rule) { return {std::move(rule)}; }
  void apply(SimNode& node, std::vector<config::Change> changes) {
    node.apply(std::move(changes));
    ASSERT_TRUE(sim.run_until([&] { return !node.applying(); }, 60s));
    ASSERT_EQ(node.apply_errors(), std::vector<std::string>{});
  }
  bool sends(int messages, SimNode* to = nullptr) {
    SimNode& target = to != nullptr ? *to : *server;
    const size_t bad = client->ended(false);
    for (int i = 0; i < messages; ++i) {
      EXPECT_TRUE(client->put(target));
      if (!sim.run_until([&] { return client->open_operations() == 0; }, 100s)) return false;
    }
    return client->ended(false) == bad;
  }
  static uint64_t puts(const InterfaceTotals& totals) { return totals[NiTraffic::kSent][size_t(wire::MsgType::kPut)]; }
  /// PUTs of `messages` operations over each NI of the client: "10.0.0.1@tcp 20, 10.0.0.2@tcp 20".
  std::string by_ni(int messages = kMessages) {
    return shares(messages, [&](std::map<std::string, uint64_t>& counts) {
      for (LocalNis::LocalNet& net : client->node().control().nis->nets())
        for (const LocalNi& ni : net.nis) counts[nid_text(ni.nid)] = puts(totals_of(ni));
    });
  }
  /// The same for each peer NI in the table of the client.
  std::string by_peer_ni(int messages = kMessages, SimNode* to = nullptr) {
    return shares(
        messages,
        [&](std::map<std::string, uint64_t>& counts) {
          for (const auto& [id, peer] : client->node().control().peers->peers())
            for (const PeerNet& net : peer->nets)
              for (const PeerNi* ni : net.nis) counts[nid_text(ni->nid)] = puts(totals_of(*ni));
        },
        to);
  }
  /// The same for each pair of an NI of the client and a peer NI: "10.0.0.1@tcp 10.0.0.11@tcp 20".
  std::string by_pair(int messages = kMessages) {
    std::map<std::string, uint64_t> seen;
    sim.fabric().hook = [&](const Nid& from, const Nid& to, const wire::Header& header) {
      const auto& nets = client->node().control().nis->nets();
      const bool mine = std::any_of(nets.begin(), nets.end(), [&](const LocalNis::LocalNet& net) {
        return std::any_of(net.nis.begin(), net.nis.end(), [&](const LocalNi& ni) { return ni.nid == from; });
      });
      if (mine && header.type == wire::MsgType::kPut) ++seen[nid_text(from) + " " + nid_text(to)];
      return sim::Fate::kPass;
    };
    std::string text = shares(messages, [&](std::map<std::string, uint64_t>& counts) { counts = seen; });
    sim.fabric().hook = nullptr;
    return text;
  }
  template <class Count>
  std::string shares(int messages, Count&& count, SimNode* to = nullptr) {
    std::map<std::string, uint64_t> before, after;
    count(before);
    EXPECT_TRUE(sends(messages, to));
    count(after);
    std::string text;
    for (const auto& [name, value] : after)
      if (value != before[name]) text += (text.empty() ? "" : ", ") + name + " " + std::to_string(value - before[name]);
    return text;
  }
  void set_health(const std::string& nid, int64_t health) {
    apply(*client, {config::NetSet{.nid = nid_parse(nid).value(), .health = health}});
    ASSERT_TRUE(sim.run_until([&] { return client->node().control().discovery->all_told(); }, 10s));  // a push
  }
};

// UDSP document, "Network Rules" and "Preferred Network": lnetctl policy add --src *@o2ib1 --priority 0.
TEST_F(Policies, preferred_network) {
  build({"10.0.0.1@tcp", "10.1.0.1@tcp1"}, {"10.0.0.2@tcp", "10.1.0.2@tcp1"});
  EXPECT_EQ(by_ni(), "10.0.0.1@tcp 20, 10.1.0.1@tcp1 20") << "without rules, the nets take turns";
  apply(*client, {rule({.src = "*@tcp1", .priority = 0})});
  EXPECT_EQ(by_ni(), "10.1.0.1@tcp1 40");
  set_health("10.1.0.1@tcp1", 0);
  EXPECT_EQ(by_ni(), "10.0.0.1@tcp 40") << "health goes before policies";
  set_health("10.1.0.1@tcp1", 1000);
  EXPECT_EQ(by_ni(), "10.1.0.1@tcp1 40");
  apply(*client, {config::UdspDel{.idx = 0}});
  EXPECT_EQ(by_ni(), "10.0.0.1@tcp 20, 10.1.0.1@tcp1 20");
}

// The same for the networks of the peers: the net of the destination is ranked first (UDSP document, "Order of
// Operations", 1.1 and 1.2).
TEST_F(Policies, preferred_network_of_the_peer_goes_before_that_of_the_node) {
  build({"10.0.0.1@tcp", "10.1.0.1@tcp1"}, {"10.0.0.2@tcp", "10.1.0.2@tcp1"});
  apply(*client, {rule({.src = "tcp", .priority = 0}), rule({.dst = "tcp1", .priority = 5})});
  EXPECT_EQ(by_ni(), "10.1.0.1@tcp1 40");
}

// UDSP document, "NID Rules": lnetctl policy add --src 10.10.10.2@o2ib1 --priority 1.
TEST_F(Policies, nid_rule_and_health) {
  build({"10.10.10.1@tcp", "10.10.10.2@tcp"}, {"10.10.10.9@tcp"});
  EXPECT_EQ(by_ni(), "10.10.10.1@tcp 20, 10.10.10.2@tcp 20");
  apply(*client, {rule({.src = "10.10.10.2@tcp", .priority = 1})});
  EXPECT_EQ(by_ni(), "10.10.10.2@tcp 40") << "an NI without a rule has the lowest priority";
  set_health("10.10.10.2@tcp", 900);
  EXPECT_EQ(by_ni(), "10.10.10.1@tcp 40") << "NID-A has higher priority but lower health value: NID-B is selected";
}

// UDSP document, "Preferred NIDs": clients prefer an interface of an upgraded server.
TEST_F(Policies, preferred_nids) {
  build({"10.0.0.1@tcp"}, {"10.0.0.2@tcp", "10.0.0.3@tcp"});
  EXPECT_EQ(by_peer_ni(), "10.0.0.2@tcp 20, 10.0.0.3@tcp 20");
  apply(*client, {rule({.dst = "10.0.0.3@tcp", .priority = 0})});
  EXPECT_EQ(by_peer_ni(), "10.0.0.3@tcp 40");
}

// UDSP document, "NID Pair Rules" and "Preferred local/remote NID pairs".
TEST_F(Policies, preferred_local_remote_nid_pairs) {
  build({"10.0.0.1@tcp", "10.0.0.2@tcp"}, {"10.0.0.11@tcp", "10.0.0.12@tcp"});
  apply(*client,
        {rule({.src = "10.0.0.1@tcp", .dst = "10.0.0.11@tcp"}), rule({.src = "10.0.0.2@tcp", .dst = "10.0.0.12@tcp"})});
  EXPECT_EQ(by_pair(), "10.0.0.1@tcp 10.0.0.11@tcp 20, 10.0.0.2@tcp 10.0.0.12@tcp 20");
  EXPECT_EQ(by_peer_ni(), "10.0.0.11@tcp 20, 10.0.0.12@tcp 20");
  apply(*client, {rule({.src = "10.0.0.1@tcp", .priority = 0})});
  EXPECT_EQ(by_pair(), "10.0.0.1@tcp 10.0.0.11@tcp 40") << "the chosen NI has one preferred peer NI";
  apply(*client, {config::UdspDel{.all = true}, rule({.src = "10.0.0.1@tcp", .dst = "10.0.0.12@tcp"}),
                  rule({.src = "10.0.0.2@tcp", .dst = "10.0.0.11@tcp"})});
  EXPECT_EQ(by_pair(), "10.0.0.1@tcp 10.0.0.12@tcp 20, 10.0.0.2@tcp 10.0.0.11@tcp 20") << "joined crosswise";
}

// The same with IPv6. A descriptor is a NID, a range of the last group, or a prefix.
TEST_F(Policies, ipv6_nids) {
  build({"fd00::1@tcp", "fd00::2@tcp"}, {"fd00::11@tcp", "fd00::12@tcp", "fd00:1::13@tcp"});
  apply(*client,
        {rule({.src = "fd00::1@tcp", .dst = "fd00::12@tcp"}), rule({.src = "fd00::2@tcp", .dst = "fd00:1::/64@tcp"})});
  EXPECT_EQ(by_pair(), "fd00::1@tcp fd00::12@tcp 20, fd00::2@tcp fd00:1::13@tcp 20");
  apply(*client, {config::UdspDel{.all = true}, rule({.src = "fd00::2@tcp", .priority = 0})});
  EXPECT_EQ(by_ni(), "fd00::2@tcp 40");
  apply(*client, {config::UdspDel{.all = true}, rule({.dst = "fd00::[11-12]@tcp", .priority = 0})});
  EXPECT_EQ(by_peer_ni(), "fd00::11@tcp 20, fd00::12@tcp 20");
  apply(*client, {config::UdspDel{.all = true}});
  EXPECT_EQ(by_ni(), "fd00::1@tcp 20, fd00::2@tcp 20");
}

// The same with N:1: several local NIs prefer one peer NI.
TEST_F(Policies, several_local_nids_prefer_one_peer_nid) {
  build({"10.0.0.1@tcp", "10.0.0.2@tcp"}, {"10.0.0.11@tcp", "10.0.0.12@tcp"});
  apply(*client, {rule({.src = "10.0.0.[1-2]@tcp", .dst = "10.0.0.12@tcp"})});
  EXPECT_EQ(by_peer_ni(), "10.0.0.12@tcp 40");
  EXPECT_EQ(by_ni(), "10.0.0.1@tcp 20, 10.0.0.2@tcp 20");
}

// Decision 10: source net and destination net.
TEST_F(Policies, net_pair) {
  build({"10.0.0.1@tcp"}, {"10.0.0.11@tcp", "10.0.0.12@tcp"});
  apply(*client, {rule({.src = "tcp", .dst = "10.0.0.12@tcp", .priority = 0}),
                  rule({.src = "tcp", .dst = "tcp", .priority = 1})});
  EXPECT_EQ(by_peer_ni(), "10.0.0.12@tcp 40") << "a path with a higher priority";
  apply(*client, {config::UdspDel{.idx = 0}});
  EXPECT_EQ(by_peer_ni(), "10.0.0.11@tcp 20, 10.0.0.12@tcp 20") << "all paths of the two nets are alike";
}

// UDSP document, "Router Rules" and "Preferred Routers": client sets A and B are on one network; each uses the routers
// that are near.
TEST_F(Policies, preferred_routers) {
  std::vector<SimNode*> routers;
  for (const char* end : {"91", "92"}) {
    const std::string number = end;
    routers.push_back(
        &sim.add_node({.nis = {"10.0.0." + number + "@tcp", "10.1.0." + number + "@tcp1"}, .routing = true}));
  }
  const std::vector<RouteSpec> back = {{"tcp", "10.1.0.91@tcp1"}, {"tcp", "10.1.0.92@tcp1"}};
  server = &sim.add_node({.nis = {"10.1.0.2@tcp1"}, .routes = back});
  SimNode& other = sim.add_node({.nis = {"10.1.0.3@tcp1"}, .routes = back});
  client = &sim.add_node({.nis = {"10.0.0.1@tcp"}, .routes = {{"tcp1", "10.0.0.91@tcp"}, {"tcp1", "10.0.0.92@tcp"}}});
  ASSERT_TRUE(sends(2) && sends(2, &other));
  EXPECT_EQ(by_peer_ni(), "10.0.0.91@tcp 20, 10.0.0.92@tcp 20");
  apply(*client, {rule({.dst = "10.1.0.2@tcp1", .rte = "10.0.0.[92-99]@tcp", .priority = 0}),
                  rule({.dst = "10.1.0.[3-9]@tcp1", .rte = "10.0.0.91@tcp", .priority = 0})});
  EXPECT_EQ(by_peer_ni(), "10.0.0.92@tcp 40");
  EXPECT_EQ(by_peer_ni(kMessages, &other), "10.0.0.91@tcp 40");
  apply(*client, {config::UdspDel{.all = true}});
  EXPECT_EQ(by_peer_ni(), "10.0.0.91@tcp 20, 10.0.0.92@tcp 20");
}

// An interface that shall carry nothing while another is healthy: all others get a priority.
TEST_F(Policies, excluding_by_lowest_priority) {
  build({"10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"}, {"10.0.0.11@tcp"});
  apply(*client, {rule({.src = "10.0.0.2@tcp", .priority = -1}), rule({.src = "*.*.*.*@tcp", .priority = 0})});
  EXPECT_EQ(by_ni(), "10.0.0.1@tcp 20, 10.0.0.3@tcp 20");
  set_health("10.0.0.1@tcp", 0);
  set_health("10.0.0.3@tcp", 0);
  EXPECT_EQ(by_ni(), "10.0.0.2@tcp 40");
}

// Multi-Rail design, "User Defined Selection Policies": "all IB networks priority 1, all Gemini networks priority 2";
// a network that is added inherits the rule.
TEST_F(Policies, networks_that_are_added_inherit_rules) {
  build({"10.0.0.1@tcp"}, {"10.0.0.2@tcp", "10.1.0.2@tcp1", "10.2.0.2@tcp2"});
  apply(*client, {rule({.src = "tcp[1-2]", .priority = 1}), rule({.src = "tcp*", .priority = 2})});
  EXPECT_EQ(by_ni(), "10.0.0.1@tcp 40");
  config::NetAdd add{.net = net_parse("tcp1").value()};
  add.ni.nid = nid_parse("10.1.0.1@tcp1").value();
  apply(*client, {add});
  ASSERT_TRUE(sends(2));
  EXPECT_EQ(by_ni(), "10.1.0.1@tcp1 40");
}

// Multi-Rail design, "selection peer add --local --remote --priority": the path of highest priority.
TEST_F(Policies, paths_have_priorities) {
  build({"10.0.0.1@tcp"}, {"10.0.0.11@tcp", "10.0.0.12@tcp", "10.0.0.13@tcp"});
  apply(*client, {rule({.src = "10.0.0.1@tcp", .dst = "10.0.0.11@tcp", .priority = 7}),
                  rule({.src = "10.0.0.1@tcp", .dst = "10.0.0.12@tcp", .priority = 3})});
  EXPECT_EQ(by_peer_ni(), "10.0.0.12@tcp 40");
  apply(*client, {config::PeerSet{.nid = nid_parse("10.0.0.12@tcp").value(), .health = 500}});
  EXPECT_EQ(by_peer_ni(), "10.0.0.11@tcp 40") << "health goes before preference, and a path of 7 before none";
}

// A peer without multi-rail sees one source, the one that the rules name.
TEST_F(Policies, plain_peer_gets_the_source_of_the_rule) {
  server = &sim.add_node({.nis = {"10.0.0.11@tcp"}, .downrev = true});
  client = &sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"}});
  ASSERT_TRUE(sends(2));
  const std::string before = by_ni();
  for (const char* source : {"10.0.0.2@tcp", "10.0.0.3@tcp"}) {
    apply(*client, {config::UdspDel{.all = true}, rule({.src = source, .dst = "10.0.0.11@tcp"})});
    EXPECT_EQ(by_ni(), std::string(source) + " 40");
  }
  apply(*client, {config::UdspDel{.all = true}});
  EXPECT_EQ(by_ni(), before);
}

// The same by the rank of a source.
TEST_F(Policies, plain_peer_gets_the_source_of_the_highest_priority) {
  server = &sim.add_node({.nis = {"10.0.0.11@tcp"}, .downrev = true});
  client = &sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"}});
  ASSERT_TRUE(sends(2));
  const std::string before = by_ni();
  for (const char* source : {"10.0.0.2@tcp", "10.0.0.3@tcp"}) {
    apply(*client, {config::UdspDel{.all = true}, rule({.src = source, .priority = 0})});
    EXPECT_EQ(by_ni(), std::string(source) + " 40");
  }
  set_health("10.0.0.3@tcp", 0);
  EXPECT_EQ(by_ni(), before) << "health goes before policies";
}

}  // namespace
}  // namespace ulnet::test
