// The numbered cases of discovery from the Multi-Rail design document, between two whole nodes of two NIs each. Both
// sides are real; tests/unit/control/discovery_test.cc tests the state machine alone, with a scripted other side.
// The nodes run over the in-memory fabric. A hook counts their messages, and the fabric delays them.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

constexpr const char* kA = "10.0.0.1@tcp 10.0.0.2@tcp";
constexpr const char* kB = "10.0.0.3@tcp 10.0.0.4@tcp";

/// Two nodes, a and b, with counts of the pings and pushes between them.
struct Pair {
  explicit Pair(uint64_t seed = 12, config::Discovery of_a = config::Discovery::kOn,
                config::Discovery of_b = config::Discovery::kOn)
      : sim({.seed = seed}),
        a(sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}, .discovery = of_a})),
        b(sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}, .discovery = of_b})) {
    sim.fabric().hook = [this](const Nid& from, const Nid&, const wire::Header& header) {
      const bool of_a_node = from == a.nid(0) || from == a.nid(1);
      if (header.type == wire::MsgType::kGet && header.get().portal == 0) ++(of_a_node ? pings_of_a : pings_of_b);
      if (header.type != wire::MsgType::kPut || header.put().portal != 0) return sim::Fate::kPass;
      ++(of_a_node ? pushes_of_a : pushes_of_b);
      if (of_a_node && at_push_of_a.empty()) at_push_of_a = known(b, a.nid(0));
      return fate_of_pushes;
    };
  }
  ~Pair() { sim.fabric().hook = nullptr; }

  /// All NIDs of the peer that has `nid`, the primary first. "one:" stands in front if the peer is not multi-rail.
  static std::string known(SimNode& node, const Nid& nid) {
    const PeerNi* ni = node.node().control().peers->find(nid);
    if (ni == nullptr) return "nothing";
    std::vector<std::string> nids;
    for (const PeerNet& net : ni->peer->nets)
      for (const PeerNi* one : net.nis) nids.push_back(nid_text(one->nid));
    std::sort(nids.begin() + 1, nids.end());
    std::string text = ni->peer->multi_rail() ? "" : "one:";
    for (const auto& one : nids) text += (text.empty() ? "" : " ") + one;
    return text;
  }
  std::string a_knows(size_t index = 0) { return known(a, b.nid(index)); }
  std::string b_knows(size_t index = 0) { return known(b, a.nid(index)); }
  int32_t put(SimNode& from, SimNode& to) {
    const auto number = from.put(to);
    EXPECT_TRUE(sim.run_until([&] { return from.outcome(*number).ended; }, 400s));
    const int32_t status = from.outcome(*number).status;
    sim.run_for(1s);
    return status;
  }
  /// Starts discovery of `nids`; when it has ended, `answers` holds the results.
  static void ask(SimNode& node, const std::vector<Nid>& nids, std::vector<DiscoverAnswer>& answers) {
    node.node().control().discovery->discover(
        nids, false, [&answers](std::vector<DiscoverAnswer> got) { answers = std::move(got); });
  }
  bool wait(const std::vector<DiscoverAnswer>& answers) {
    const bool came = sim.run_until([&] { return !answers.empty(); }, 400s);
    sim.run_for(1s);
    return came;
  }
  void apply(SimNode& node, config::Change change) {
    node.apply({std::move(change)});
    EXPECT_TRUE(sim.run_until([&] { return !node.applying(); }, 60s));
    EXPECT_EQ(node.apply_errors(), std::vector<std::string>{});
  }
  static config::NetAdd net_add(const std::string& text) {
    config::NetAdd add;
    add.ni.nid = *nid_parse(text);
    add.net = add.ni.nid->net();
    return add;
  }
  static config::PeerAdd peer_add(const std::string& primary, const std::string& other) {
    config::PeerAdd add;
    add.peer.primary = *nid_parse(primary);
    add.peer.nids = {*nid_parse(other)};
    return add;
  }
  /// From now on, each message has its own random delay.
  void shake() { sim.fabric().rules().delay_max = 2ms; }

  SimNet sim;
  SimNode& a;
  SimNode& b;
  unsigned pings_of_a = 0, pings_of_b = 0, pushes_of_a = 0, pushes_of_b = 0;
  std::string at_push_of_a;  ///< NIDs of a that b has when the first push of a is sent
  sim::Fate fate_of_pushes = sim::Fate::kPass;
};

TEST(DiscoveryCases, case_1_the_passive_side_answers_before_it_discovers) {
  Pair pair;
  std::vector<DiscoverAnswer> answers;
  Pair::ask(pair.a, {pair.b.nid(0)}, answers);
  ASSERT_TRUE(pair.wait(answers));
  EXPECT_NE(pair.at_push_of_a, kA) << "it had been pinged, and answered";
  EXPECT_EQ(pair.a_knows(), kB);
  EXPECT_EQ(pair.b_knows(), kA);
  EXPECT_EQ(pair.pings_of_b, 0u) << "the push said it all";
  EXPECT_EQ(pair.pushes_of_b, 1u);
}

TEST(DiscoveryCases, case_2_discovery_of_several_nids_of_a_peer_at_once) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Pair pair(seed);
    pair.shake();
    std::vector<DiscoverAnswer> answers;
    Pair::ask(pair.a, {pair.b.nid(0), pair.b.nid(1)}, answers);
    ASSERT_TRUE(pair.wait(answers));
    EXPECT_EQ(answers[0].error, 0);
    EXPECT_EQ(answers[1].error, 0);
    EXPECT_EQ(pair.a_knows(0), kB);
    EXPECT_EQ(pair.a_knows(1), kB);
    EXPECT_EQ(pair.a.node().control().peers->peers().size(), 1u);
    EXPECT_EQ(pair.b_knows(), kA);
    EXPECT_EQ(pair.pushes_of_a, 1u);
  }
}

TEST(DiscoveryCases, case_3_discovery_and_configuration_at_the_same_time) {
  Pair pair;
  pair.shake();
  std::vector<DiscoverAnswer> answers;
  Pair::ask(pair.a, {pair.b.nid(0)}, answers);
  ASSERT_TRUE(pair.sim.run_until([&] { return pair.pings_of_a == 1; }, 1s));
  pair.apply(pair.a, Pair::peer_add("10.0.0.3@tcp", "10.0.0.9@tcp"));
  ASSERT_TRUE(pair.wait(answers));
  EXPECT_EQ(answers[0].error, 0);
  EXPECT_EQ(pair.a_knows(), "10.0.0.3@tcp 10.0.0.9@tcp");
  EXPECT_EQ(pair.b_knows(), kA);
  const auto said = [&](const std::string& line) {
    return std::count(pair.a.journal().begin(), pair.a.journal().end(), line);
  };
  EXPECT_GE(said("configured: peer 10.0.0.3@tcp reports 10.0.0.4@tcp; no peer has it"), 1);
  EXPECT_GE(said("configured: peer 10.0.0.3@tcp does not report 10.0.0.9@tcp"), 1);
}

TEST(DiscoveryCases, case_4_configuration_modifies_discovered_peers) {
  Pair pair;
  ASSERT_EQ(pair.put(pair.a, pair.b), 0);
  pair.apply(pair.a, Pair::peer_add("10.0.0.3@tcp", "10.0.0.9@tcp"));
  EXPECT_EQ(pair.a_knows(), "10.0.0.3@tcp 10.0.0.9@tcp");
  EXPECT_EQ(pair.a_knows(1), "nothing") << "what was discovered gives way";
  // The peer is deleted during its rediscovery: the waiting command gets an error, and the next put starts discovery
  // without any state.
  pair.shake();
  const unsigned pings = pair.pings_of_a;
  std::vector<DiscoverAnswer> answers;
  Pair::ask(pair.a, {pair.b.nid(0)}, answers);
  ASSERT_TRUE(pair.sim.run_until([&] { return pair.pings_of_a > pings; }, 1s));
  pair.apply(pair.a, config::PeerDel{.primary = pair.b.nid(0)});
  ASSERT_TRUE(pair.wait(answers));
  EXPECT_EQ(answers[0].error, -ENOENT);
  EXPECT_EQ(pair.put(pair.a, pair.b), 0);
  EXPECT_EQ(pair.a_knows(), kB);
  EXPECT_EQ(pair.b_knows(), kA);
}

TEST(DiscoveryCases, case_5_discovery_leaves_configured_peers_alone) {
  Pair pair;
  pair.apply(pair.a, Pair::peer_add("10.0.0.3@tcp", "10.0.0.9@tcp"));
  std::vector<DiscoverAnswer> answers;
  Pair::ask(pair.a, {pair.b.nid(0)}, answers);
  ASSERT_TRUE(pair.wait(answers));
  EXPECT_EQ(pair.a_knows(), "10.0.0.3@tcp 10.0.0.9@tcp");
  EXPECT_EQ(pair.a.node().control().peers->find(*nid_parse("10.0.0.9@tcp"))->status, wire::kNiDown);
  EXPECT_EQ(pair.b_knows(), kA) << "it is pushed to";
  const unsigned pushes = pair.pushes_of_b;
  pair.apply(pair.b, Pair::net_add("10.0.0.5@tcp"));
  ASSERT_TRUE(pair.sim.run_until([&] { return pair.pushes_of_b > pushes; }, 10s));
  pair.sim.run_for(1s);
  EXPECT_EQ(pair.a_knows(), "10.0.0.3@tcp 10.0.0.9@tcp");
}

TEST(DiscoveryCases, case_6_the_passive_node_has_discovery_disabled) {
  Pair pair(12, config::Discovery::kOn, config::Discovery::kOff);
  EXPECT_EQ(pair.put(pair.a, pair.b), 0);
  EXPECT_EQ(pair.a_knows(), "one: 10.0.0.3@tcp");
  EXPECT_EQ(pair.a_knows(1), "nothing");
  EXPECT_EQ(pair.b_knows(), "one: 10.0.0.1@tcp");
  EXPECT_EQ(pair.b_knows(1), "nothing") << "one source";
  EXPECT_EQ(pair.pushes_of_a + pair.pushes_of_b, 0u);
}

TEST(DiscoveryCases, case_7_the_active_node_has_discovery_disabled) {
  Pair pair(12, config::Discovery::kOff, config::Discovery::kOn);
  EXPECT_EQ(pair.put(pair.a, pair.b), 0);
  EXPECT_EQ(pair.pings_of_a, 1u) << "for the status";
  EXPECT_EQ(pair.a_knows(), "one: 10.0.0.3@tcp");
  EXPECT_EQ(pair.b_knows(), "one: 10.0.0.1@tcp");
  EXPECT_EQ(pair.pushes_of_a + pair.pushes_of_b, 0u);
}

TEST(DiscoveryCases, case_8_the_active_side_enables_discovery) {
  Pair pair(12, config::Discovery::kOff, config::Discovery::kOn);
  EXPECT_EQ(pair.put(pair.a, pair.b), 0);
  pair.apply(pair.a, config::SetValue{"discovery", 1});
  pair.sim.run_for(10s);
  EXPECT_EQ(pair.pings_of_a, 1u) << "the one of before";
  EXPECT_EQ(pair.pushes_of_a, 0u);
  EXPECT_EQ(pair.put(pair.a, pair.b), 0);
  EXPECT_EQ(pair.a_knows(), kB);
  EXPECT_EQ(pair.b_knows(), kA);
}

// Method: the fabric delivers each push twice, the copy up to 50 ms later, so a copy may arrive after the next push.
// Pushes report that a link is down, and then that the link is up again.
TEST(DiscoveryCases, case_9_pushes_that_come_in_the_wrong_order) {
  Pair pair;
  ASSERT_EQ(pair.put(pair.a, pair.b), 0);
  const unsigned pings = pair.pings_of_a, pushes = pair.pushes_of_b;
  const auto status = [&] { return pair.a.node().control().peers->find(pair.b.nid(1))->status; };
  pair.fate_of_pushes = sim::Fate::kDuplicate;
  pair.sim.fabric().rules().delay_max = 50ms;
  pair.sim.fabric().rules().reorder = 1;
  for (int i = 0; i < 40; ++i) {
    pair.sim.fabric().link_down(pair.b.nid(1));
    ASSERT_TRUE(pair.sim.run_until([&] { return status() == wire::kNiDown; }, 1s));
    pair.sim.fabric().link_up(pair.b.nid(1));
    pair.sim.run_for(1s);
    EXPECT_EQ(status(), wire::kNiUp);
    EXPECT_EQ(pair.a_knows(), kB);
  }
  EXPECT_GE(pair.pushes_of_b - pushes, 80u);
  EXPECT_GT(pair.pings_of_a, pings) << "an old one made it ask";
}

TEST(DiscoveryCases, case_10_simultaneous_discovery) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Pair pair(seed);
    pair.shake();
    ASSERT_TRUE(pair.a.put(pair.b));
    pair.sim.run_for(Duration(seed % 8 * 1'000'000));
    ASSERT_TRUE(pair.b.put(pair.a));
    ASSERT_TRUE(pair.sim.run_until([&] { return pair.a.open_operations() + pair.b.open_operations() == 0; }, 400s));
    pair.sim.run_for(1s);
    EXPECT_EQ(pair.a.ended(true) + pair.b.ended(true), 2u);
    EXPECT_EQ(pair.a_knows(), kB) << pair.sim.replay_hint();
    EXPECT_EQ(pair.b_knows(), kA) << pair.sim.replay_hint();
  }
}

TEST(DiscoveryCases, case_11_one_sided_discovery_of_another_nid) {
  Pair pair;
  ASSERT_EQ(pair.put(pair.a, pair.b), 0);
  pair.fate_of_pushes = sim::Fate::kLoseSilently;
  pair.apply(pair.b, Pair::net_add("10.0.0.5@tcp"));
  pair.sim.run_for(1s);
  EXPECT_EQ(pair.a_knows(), kB) << "it was not told";
  pair.fate_of_pushes = sim::Fate::kPass;
  const unsigned pushes = pair.pushes_of_a;
  std::vector<DiscoverAnswer> answers;
  Pair::ask(pair.a, {*nid_parse("10.0.0.5@tcp")}, answers);
  ASSERT_TRUE(pair.wait(answers));
  EXPECT_EQ(answers[0].error, 0);
  EXPECT_EQ(pair.a_knows(), std::string(kB) + " 10.0.0.5@tcp");
  EXPECT_EQ(pair.a.node().control().peers->peers().size(), 1u);
  EXPECT_EQ(pair.pushes_of_a, pushes) << "b knows a";
}

TEST(DiscoveryCases, case_12_simultaneous_discovery_on_several_nids) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Pair pair(seed);
    pair.shake();
    std::vector<DiscoverAnswer> of_a, of_b;
    Pair::ask(pair.a, {pair.b.nid(0), pair.b.nid(1)}, of_a);
    pair.sim.run_for(Duration(seed % 8 * 1'000'000));
    Pair::ask(pair.b, {pair.a.nid(0), pair.a.nid(1)}, of_b);
    ASSERT_TRUE(pair.wait(of_a) && pair.wait(of_b));
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(of_a[i].error, 0);
      EXPECT_EQ(of_b[i].error, 0);
      EXPECT_EQ(pair.a_knows(i), kB) << pair.sim.replay_hint();
      EXPECT_EQ(pair.b_knows(i), kA) << pair.sim.replay_hint();
    }
  }
}

}  // namespace
}  // namespace ulnet::test
