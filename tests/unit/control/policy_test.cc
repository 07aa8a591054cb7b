// Selection policies in control: the priorities and lists in the views of workers. The paths that follow from the views
// are tested in tests/unit/select and tests/sim/policies_test.cc.
#include <algorithm>
#include <set>

#include "control/api/show_values.h"
#include "control/policy/policies.h"
#include "dataplane/base/rng.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

using config::UdspAdd;
using config::UdspDel;
using config::UdspRule;

std::string priority_text(uint32_t priority) {
  return priority == kNoPriority ? "-" : std::to_string(priority);
}

std::string list_text(const Preferences* list, const std::function<std::string(uint32_t)>& name) {
  if (list == nullptr) return "-";
  std::string text;
  for (const Preferences::One& one : list->all)
    text += (text.empty() ? "" : "+") + name(one.id) + ":" + priority_text(one.rank);
  return text;
}

/// Everything that the views of a node say about policies, sorted by name: nets, NIs, peer nets, peer NIs.
std::string results(Node& node) {
  const ViewSet& view = node.control().publisher->current();
  std::string text;
  for (const NetView& net : view.local->nets)
    if (net.priority != kNoPriority) text += "net " + net_text(net.net) + " " + priority_text(net.priority) + "\n";
  std::map<uint32_t, std::string> nis, gateways;
  for (const NiView& ni : view.local->nis) {
    nis[ni.id.value] = nid_text(ni.nid);
    if (ni.priority != kNoPriority) text += "ni " + nid_text(ni.nid) + " " + priority_text(ni.priority) + "\n";
  }
  std::set<std::string> lines;
  for (const auto& [id, peer] : node.control().peers->peers()) gateways[id] = nid_text(peer->primary().nid);
  for (const auto& [id, peer] : node.control().peers->peers()) {
    const PeerRef ref = view.peers->find(peer->primary().nid);
    if (!ref) continue;
    for (const PeerNetView& net : ref.peer->nets)
      if (net.priority != kNoPriority)
        lines.insert("peer " + gateways[id] + " net " + net_text(net.net) + " " + priority_text(net.priority) + "\n");
    for (const PeerNiView& ni : ref.peer->nis) {
      const std::string line = priority_text(ni.priority) + " from " +
                               list_text(ni.sources, [&](uint32_t number) { return nis[number]; }) + " over " +
                               list_text(ni.gateways, [&](uint32_t number) { return gateways[number]; });
      if (line != "- from - over -") lines.insert("peer ni " + nid_text(ni.nid) + " " + line + "\n");
    }
  }
  for (const std::string& line : lines) text += line;
  return text;
}

config::PeerAdd peer_add(std::vector<std::string> nids, bool multi_rail = true) {
  config::PeerAdd add;
  add.peer.primary = nid(nids.front());
  for (const std::string& one : nids) add.peer.nids.push_back(nid(one));
  add.peer.multi_rail = multi_rail;
  return add;
}

config::ChangeList rules(const std::vector<UdspRule>& all) {
  config::ChangeList changes;
  for (const UdspRule& rule : all) changes.push_back({UdspAdd{rule}, {}});
  return changes;
}

/// This node on two nets with two NIs each; two multi-rail peers, a plain one, and a peer behind two gateways.
struct PoliciesOfNode : testing::Test {
  NodeRig rig_;
  RigNode& node = rig_.add({"10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@o2ib", "10.1.0.2@o2ib"});
  void SetUp() override {
    ASSERT_EQ(rig_.apply(node, {{peer_add({"10.0.0.11@tcp", "10.0.0.12@tcp", "10.1.0.11@o2ib"}), {}},
                                {peer_add({"10.0.0.21@tcp", "10.1.0.21@o2ib"}), {}},
                                {peer_add({"10.0.0.31@tcp"}, false), {}},
                                {peer_add({"10.0.0.91@tcp", "10.9.0.91@tcp9"}), {}},
                                {peer_add({"10.0.0.92@tcp", "10.9.0.92@tcp9"}), {}},
                                {NodeRig::route_add("tcp9", "10.0.0.91@tcp"), {}},
                                {NodeRig::route_add("tcp9", "10.0.0.92@tcp"), {}},
                                {peer_add({"10.9.0.41@tcp9"}), {}}}),
              "");
  }
  std::string with(const std::vector<UdspRule>& all) {
    EXPECT_EQ(rig_.apply(node, rules(all)), "");
    return results(*node.node);
  }
  /// The source that the plain peer sees.
  std::string source() { return nid_text(c.publisher->current().peers->find(nid("10.0.0.31@tcp")).ni().source); }
  static std::string other_than(const std::string& source) {
    return source == "10.0.0.1@tcp" ? "10.0.0.2@tcp" : "10.0.0.1@tcp";
  }
  void set_health(const std::string& ni, int64_t health) {
    EXPECT_EQ(rig_.apply(node, config::NetSet{.nid = nid(ni), .health = health}), "");
  }
  /// 2,000 multi-rail peers, and 200 rules for none of them.
  void make_many_peers() {
    config::ChangeList peers;
    for (unsigned i = 0; i < 2000; ++i)
      peers.push_back(
          {peer_add({"10.0." + std::to_string(10 + i / 200) + "." + std::to_string(1 + i % 200) + "@tcp"}), {}});
    ASSERT_EQ(rig_.apply(node, std::move(peers)), "");
  }
  static std::vector<UdspRule> many_rules() {
    std::vector<UdspRule> many(200, UdspRule{.src = "10.0.0.1@tcp"});
    for (size_t i = 0; i < many.size(); ++i) many[i].dst = "10.77.0." + std::to_string(i) + "@tcp";
    return many;
  }
  Control& c = node.node->control();
};

TEST_F(PoliciesOfNode, a_rule_of_a_net_ranks_the_net_and_not_its_nis) {
  EXPECT_EQ(with({{.src = "tcp", .priority = 3}}), "net tcp 3\n");
  EXPECT_EQ(with({{.dst = "*@o2ib", .priority = 0}}),
            "net tcp 3\npeer 10.0.0.11@tcp net o2ib 0\npeer 10.0.0.21@tcp net o2ib 0\n");
}

TEST_F(PoliciesOfNode, a_rule_of_nids_ranks_nis) {
  EXPECT_EQ(with({{.src = "10.0.0.[2-9]@tcp", .priority = 1}}), "ni 10.0.0.2@tcp 1\n");
  EXPECT_EQ(with({{.dst = "10.0.0.[11,31]@tcp", .priority = 7}}),
            "ni 10.0.0.2@tcp 1\npeer ni 10.0.0.11@tcp 7 from - over -\npeer ni 10.0.0.31@tcp 7 from - over -\n");
  EXPECT_EQ(with({{.src = "*.*.*.*@o2ib", .priority = 2}}).substr(0, 59),
            "ni 10.0.0.2@tcp 1\nni 10.1.0.1@o2ib 2\nni 10.1.0.2@o2ib 2\npee");
}

TEST_F(PoliciesOfNode, of_rules_that_overlap_the_lowest_index_holds) {
  EXPECT_EQ(with({{.src = "10.0.0.1@tcp", .priority = 5}, {.src = "10.0.0.[1-2]@tcp", .priority = 1}}),
            "ni 10.0.0.1@tcp 5\nni 10.0.0.2@tcp 1\n");
  EXPECT_EQ(with({{.idx = 0, .src = "10.0.0.*@tcp", .priority = 9}}), "ni 10.0.0.1@tcp 9\nni 10.0.0.2@tcp 9\n");
  EXPECT_EQ(rig_.apply(node, UdspDel{.idx = 0}), "");
  EXPECT_EQ(results(*node.node), "ni 10.0.0.1@tcp 5\nni 10.0.0.2@tcp 1\n") << "the rules below hold again";
}

TEST_F(PoliciesOfNode, a_pair_rule_lists_local_nis_at_the_peer_nis) {
  EXPECT_EQ(with({{.src = "10.0.0.2@tcp", .dst = "10.0.0.[11-12]@tcp"}}),
            "peer ni 10.0.0.11@tcp - from 10.0.0.2@tcp:0 over -\npeer ni 10.0.0.12@tcp - from 10.0.0.2@tcp:0 over -\n");
}

// Decision 10.
TEST_F(PoliciesOfNode, a_pair_of_nets_lists_the_nis_of_the_one_at_the_peer_nis_of_the_other) {
  EXPECT_EQ(with({{.src = "o2ib", .dst = "o2ib"}}),
            "peer ni 10.1.0.11@o2ib - from 10.1.0.1@o2ib:0+10.1.0.2@o2ib:0 over -\n"
            "peer ni 10.1.0.21@o2ib - from 10.1.0.1@o2ib:0+10.1.0.2@o2ib:0 over -\n");
}

// Decision 77.
TEST_F(PoliciesOfNode, pair_rules_without_priority_give_one_list_and_those_with_priority_add_up) {
  EXPECT_EQ(with({{.src = "10.0.0.2@tcp", .dst = "10.0.0.11@tcp"}, {.src = "10.0.0.1@tcp", .dst = "10.0.0.*@tcp"}}),
            "peer ni 10.0.0.11@tcp - from 10.0.0.2@tcp:0 over -\npeer ni 10.0.0.12@tcp - from 10.0.0.1@tcp:0 over -\n"
            "peer ni 10.0.0.21@tcp - from 10.0.0.1@tcp:0 over -\npeer ni 10.0.0.31@tcp - from 10.0.0.1@tcp:0 over -\n"
            "peer ni 10.0.0.91@tcp - from 10.0.0.1@tcp:0 over -\npeer ni 10.0.0.92@tcp - from 10.0.0.1@tcp:0 over -\n");
  EXPECT_EQ(rig_.apply(node, UdspDel{.all = true}), "");
  EXPECT_EQ(with({{.src = "10.0.0.2@tcp", .dst = "10.0.0.11@tcp", .priority = 4},
                  {.src = "10.0.0.[1-2]@tcp", .dst = "10.0.0.11@tcp", .priority = 6}}),
            "peer ni 10.0.0.11@tcp - from 10.0.0.1@tcp:6+10.0.0.2@tcp:4 over -\n");
}

TEST_F(PoliciesOfNode, a_router_rule_lists_gateways_by_any_of_their_nids_in_routes) {
  EXPECT_EQ(with({{.dst = "10.9.0.41@tcp9", .rte = "10.0.0.[92-99]@tcp"}}),
            "peer ni 10.9.0.41@tcp9 - from - over 10.0.0.92@tcp:0\n");
  EXPECT_EQ(rig_.apply(node, UdspDel{.all = true}), "");
  const std::string everywhere = with({{.rte = "10.0.0.91@tcp", .priority = 2}});
  EXPECT_NE(everywhere.find("peer ni 10.9.0.41@tcp9 - from - over 10.0.0.91@tcp:2\n"), std::string::npos)
      << everywhere << "a router rule without destination holds for all";
}

TEST_F(PoliciesOfNode, a_plain_peer_gets_its_one_source_from_the_rules) {
  const std::string before = source();
  const std::string other = other_than(before);
  (void)with({{.src = other, .dst = "10.0.0.31@tcp"}});
  EXPECT_EQ(source(), other);
  EXPECT_EQ(rig_.apply(node, UdspDel{.idx = 0}), "");
  EXPECT_EQ(source(), before) << "a deleted rule leaves no trace";
  (void)with({{.src = "tcp", .dst = "10.0.0.31@tcp"}});
  EXPECT_EQ(source(), before) << "the source stays if the rules allow it";
}

TEST_F(PoliciesOfNode, a_pair_rule_that_demotes_does_not_give_its_source_to_a_plain_peer) {
  const std::string before = source();
  (void)with({{.src = other_than(before), .dst = "10.0.0.31@tcp", .priority = -1}});
  EXPECT_EQ(source(), before);
}

// docs/decisions.md #83.
TEST_F(PoliciesOfNode, a_plain_peer_follows_rules_of_sources_in_the_order_of_all_peers) {
  const std::string before = source(), other = other_than(before);
  (void)with({{.src = other, .priority = 0}});
  EXPECT_EQ(source(), other);
  set_health(other, 900);
  EXPECT_EQ(source(), before) << "health goes before the priority of an NI";
  set_health(other, 1000);
  EXPECT_EQ(source(), other);
  rig_.fabric.link_down(nid(other));
  ASSERT_TRUE(rig_.run_until([&] { return source() == before; })) << "the link goes before all";
  rig_.fabric.link_up(nid(other));
  ASSERT_TRUE(rig_.run_until([&] { return source() == other; }));
  (void)with({{.src = before, .dst = "10.0.0.31@tcp"}});
  EXPECT_EQ(source(), other) << "the priority of the NI goes before the list of a pair rule";
  EXPECT_EQ(rig_.apply(node, UdspDel{.all = true}), "");
  EXPECT_EQ(source(), before);
}

TEST_F(PoliciesOfNode, a_plain_peer_keeps_its_source_while_that_is_usable) {
  const std::string before = source(), other = other_than(before);
  set_health(before, 1);
  EXPECT_EQ(source(), before);
  rig_.fabric.link_down(nid(before));
  ASSERT_TRUE(rig_.run_until([&] { return source() == other; }));
  rig_.fabric.link_up(nid(before));
  set_health(before, 1000);
  EXPECT_EQ(source(), other) << "it does not move back";
  set_health(before, 500);
  for (const char* fresh : {"10.0.0.32@tcp", "10.0.0.33@tcp"})
    EXPECT_EQ(nid_text(c.peers->find_or_create(nid(fresh), kAnyNid).value()->source), other) << "the healthier one";
}

// Goal: all peers are looked at once in a turn, and only if an NI became usable or unusable.
// Method: an unknown NID is recorded, which a look at the peer replaces.
TEST_F(PoliciesOfNode, recorded_sources_follow_the_usability_of_nis_once_in_a_turn) {
  const Nid before = nid(source());
  Nid& recorded = c.peers->find(nid("10.0.0.31@tcp"))->source;
  const auto set = [&](int64_t health) {
    return config::PlacedChange{config::NetSet{.nid = before, .health = health}, {}};
  };
  EXPECT_EQ(rig_.apply(node, {set(0), set(1000)}), "");
  EXPECT_EQ(recorded, before);
  recorded = nid("10.0.0.77@tcp");
  EXPECT_EQ(rig_.apply(node, {set(500)}), "");
  EXPECT_EQ(recorded, nid("10.0.0.77@tcp"));
  EXPECT_EQ(rig_.apply(node, {set(0)}), "");
  EXPECT_EQ(nid_text(recorded), other_than(nid_text(before)));
}

// docs/decisions.md #83. Source i of the node is 10.0.0.i; its priority is the first number, its health the second.
TEST(PlainSource, changes_while_usable_only_to_an_ni_that_rules_rank_before_it) {
  struct Case {
    std::vector<std::pair<int64_t, uint16_t>> sources;
    const char* chosen;  // 10.0.0.1 is recorded
  };
  for (const Case& one :
       {Case{{{5, 900}, {0, 950}, {9, 1000}}, "10.0.0.2@tcp"}, Case{{{5, 900}, {1, 1000}, {0, 900}}, "10.0.0.3@tcp"},
        Case{{{5, 900}, {0, 950}, {0, 960}}, "10.0.0.3@tcp"}, Case{{{5, 900}, {0, 899}, {5, 1000}}, "10.0.0.1@tcp"},
        Case{{{5, 0}, {0, 950}, {9, 1000}}, "10.0.0.3@tcp"}, Case{{{5, 0}, {9, 950}, {0, 950}}, "10.0.0.3@tcp"}}) {
    std::vector<UdspRule> rules;
    std::vector<PolicyObjects::Source> sources;
    for (const auto& [priority, health] : one.sources) {
      const auto number = uint32_t(sources.size() + 1);
      rules.push_back({.src = "10.0.0." + std::to_string(number) + "@tcp", .priority = priority});
      sources.push_back({NiId{number}, nid(rules.back().src), false, health});
    }
    Policy policy(rules);
    policy.set_objects(sources, nullptr);
    EXPECT_EQ(nid_text(policy.plain_source(nid("10.0.0.31@tcp"), sources[0].nid, {})), one.chosen);
  }
}

// Goal: while the NI of a rule leaves, a plain peer sees one source, and no list names the NI.
TEST_F(PoliciesOfNode, an_ni_that_leaves_is_in_no_list) {
  const std::string before = source(), other = other_than(before);
  EXPECT_NE(with({{.src = other, .dst = "10.0.0.*@tcp"}}).find(other), std::string::npos);
  ASSERT_EQ(source(), other);
  bool done = false;
  node.node->apply({{config::NetDel{.net = net("tcp"), .nid = nid(other)}, {}}},
                   [&](const config::Problems&) { done = true; });
  unsigned leaving = 0;
  ASSERT_TRUE(rig_.run_until([&] {
    const LocalNi* ni = c.nis->find(nid(other));
    if (ni == nullptr || !ni->going() || done) return done;
    const auto local = c.publisher->current().local;
    if (!local->ni(nid(other)) || !local->ni(nid(other))->going()) return false;
    EXPECT_EQ(results(*node.node), "");
    EXPECT_EQ(source(), before);
    ++leaving;
    return false;
  }));
  EXPECT_GT(leaving, 0u);
}

TEST_F(PoliciesOfNode, objects_that_come_later_get_their_results_at_once) {
  (void)with({{.src = "10.0.0.3@tcp", .priority = 1},
              {.src = "10.0.0.3@tcp", .dst = "10.0.0.[50-60]@tcp"},
              {.dst = "10.0.0.51@tcp", .priority = 2},
              {.dst = "10.9.0.*@tcp9", .rte = "10.0.0.93@tcp"},
              {.src = "tcp5", .priority = 8}});
  EXPECT_EQ(results(*node.node), "");
  EXPECT_EQ(rig_.apply(node, peer_add({"10.0.0.51@tcp", "10.0.0.52@tcp"})), "");
  EXPECT_EQ(results(*node.node), "peer ni 10.0.0.51@tcp 2 from - over -\n");
  EXPECT_EQ(rig_.apply(node, NodeRig::net_add("10.0.0.3@tcp")), "");
  EXPECT_EQ(results(*node.node),
            "ni 10.0.0.3@tcp 1\npeer ni 10.0.0.51@tcp 2 from 10.0.0.3@tcp:0 over -\n"
            "peer ni 10.0.0.52@tcp - from 10.0.0.3@tcp:0 over -\n");
  EXPECT_EQ(rig_.apply(node, NodeRig::route_add("tcp9", "10.0.0.93@tcp")), "");
  EXPECT_NE(results(*node.node).find("peer ni 10.9.0.41@tcp9 - from - over 10.0.0.93@tcp:0\n"), std::string::npos);
  EXPECT_EQ(rig_.apply(node, NodeRig::net_add("10.5.0.1@tcp5")), "");
  EXPECT_NE(results(*node.node).find("net tcp5 8\n"), std::string::npos);
  EXPECT_EQ(rig_.apply(node, config::NetDel{.net = net("tcp"), .nid = nid("10.0.0.3@tcp")}), "");
  EXPECT_EQ(results(*node.node).find("10.0.0.3@tcp"), std::string::npos) << results(*node.node);
}

TEST_F(PoliciesOfNode, a_rule_that_matches_nothing_is_accepted_with_a_note) {
  std::vector<std::string> notes;
  bool done = false;
  node.node->apply(
      rules({{.src = "tcp77", .priority = 1}, {.dst = "10.0.0.77@tcp", .rte = "10.0.0.91@tcp"}, {.src = "tcp"}}),
      [&](const config::Problems& errors) { done = errors.empty(); },
      [&](const std::string& line) { notes.push_back(line); });
  ASSERT_TRUE(rig_.run_until([&] { return done; }));
  EXPECT_EQ(notes, (std::vector<std::string>{
                       "no effect yet: no NI of this node matches src tcp77; the rule will hold for objects that are "
                       "added later",
                       "no effect yet: no known peer matches dst 10.0.0.77@tcp; the rule will hold for objects that "
                       "are added later"}));
}

/// A rule at random over few names, so that rules overlap.
UdspRule random_rule(Rng& rng) {
  const std::vector<std::string> locals = {"tcp",          "o2ib",    "10.0.0.1@tcp", "10.0.0.[1-2]@tcp",
                                           "*.*.*.*@o2ib", "tcp[0-9]"};
  const std::vector<std::string> peers = {"tcp",          "10.0.0.11@tcp",      "10.0.0.*@tcp", "10.1.0.[1-20]@o2ib",
                                          "*.*.*.*@tcp9", "10.0.0.[30-40]@tcp", "o2ib"};
  const std::vector<std::string> routers = {"10.0.0.91@tcp", "10.0.0.[90-99]@tcp", "tcp"};
  const auto one_of = [&](const std::vector<std::string>& all) { return all[rng.below(all.size())]; };
  UdspRule rule;
  const uint64_t kind = rng.below(5);
  if (kind == 0 || kind == 2) rule.src = one_of(locals);
  if (kind == 1 || kind == 2 || kind == 3) rule.dst = one_of(peers);
  if (kind == 3 || kind == 4) rule.rte = one_of(routers);
  if (kind < 2 || rng.below(2) == 0) rule.priority = int64_t(rng.below(4));
  if (rng.below(3) == 0) rule.idx = int64_t(rng.below(6));
  return rule;
}

// Goal: the results follow from the rules that are left and from the objects that are there, whatever came before.
// Method: random rules come and go at a node whose NIs and peers come and go, too. After each step a fresh policy over
// the same rules and objects gives the same results.
TEST_F(PoliciesOfNode, results_depend_on_rules_and_objects_only) {
  size_t deleted = 0, nonempty = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    for (unsigned step = 0; step < 12; ++step) {
      const size_t count = node.node->control().desired.udsp.size();
      if (count > 0 && rng.below(2) == 0) {
        EXPECT_EQ(rig_.apply(node, UdspDel{.idx = int64_t(rng.below(count))}), "");
        ++deleted;
      } else {
        (void)rig_.apply(node, UdspAdd{random_rule(rng)});  // may be there already
      }
      if (step == 5) {
        EXPECT_EQ(rig_.apply(node, config::NetDel{.net = net("tcp"), .nid = nid("10.0.0.2@tcp")}), "");
      }
      if (step == 8) {
        EXPECT_EQ(rig_.apply(node, NodeRig::net_add("10.0.0.2@tcp")), "");
      }
      const std::string is = results(*node.node);
      const std::vector<UdspRule> left = node.node->control().desired.udsp;
      EXPECT_EQ(rig_.apply(node, UdspDel{.all = true}), "");
      EXPECT_EQ(results(*node.node), "") << "seed " << seed << " step " << step;
      EXPECT_EQ(with(left), is) << "seed " << seed << " step " << step;
      nonempty += is.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(deleted, 50u);
  EXPECT_GT(nonempty, 300u);
}

// Goal: a change of rules is evaluated in slices, and publishes only the peers whose results differ.
// Method: 2,000 peers, of which a rule concerns ten. The bytes that the table copies stand for what was published.
TEST_F(PoliciesOfNode, unchanged_peers_are_not_published_again) {
  make_many_peers();
  const uint64_t before = c.peer_table->copied_bytes();
  std::vector<UdspRule> many = many_rules();
  many.push_back({.dst = "10.0.12.[1-10]@tcp", .priority = 1});
  bool done = false;
  node.node->apply(rules(many), [&](const config::Problems& errors) { done = errors.empty(); });
  unsigned turns = 0;
  ASSERT_TRUE(rig_.run_until([&] {
    turns += c.policies->settled() ? 0 : 1;
    return done;
  }));
  EXPECT_GE(turns, 2000 * 200 / kPolicyBudget) << "the peers were evaluated in slices";
  EXPECT_NE(results(*node.node).find("peer ni 10.0.12.1@tcp 1"), std::string::npos);
  // The builder has two words more for each pointer that workers read, and a leaf of a few peers.
  const uint64_t ten_peers = 10 * (3 * (sizeof(PeerTable) + sizeof(PeerTable::Limb)) + 1024);
  EXPECT_LT(c.peer_table->copied_bytes() - before, ten_peers);
}

// Goal: a list of changes does not wait for the evaluation of peers that an earlier list has caused.
TEST_F(PoliciesOfNode, later_changes_do_not_wait_for_a_walk) {
  make_many_peers();
  std::string order;
  node.node->apply(rules(many_rules()), [&](const config::Problems&) { order += "rules "; });
  node.node->apply({{config::SetValue{"numa_range", 7}, {}}}, [&](const config::Problems&) { order += "value "; });
  ASSERT_TRUE(rig_.run_until([&] { return order.size() == 12; }));
  EXPECT_EQ(order, "value rules ");
}

// Goal: objects that change in each turn do not keep the walk from its end.
TEST_F(PoliciesOfNode, a_walk_ends_although_gateways_come_and_go) {
  make_many_peers();
  std::vector<UdspRule> all = many_rules();
  all.push_back({.dst = "10.0.*.*@tcp", .rte = "10.0.0.[91-99]@tcp"});
  bool done = false;
  node.node->apply(rules(all), [&](const config::Problems&) { done = true; });
  const config::RouteConfig route = NodeRig::route_add("tcp8", "10.0.0.99@tcp").route;
  for (unsigned turn = 0; turn < 1000 && !done; ++turn) {
    if (c.routes->has(route.net, route.gateway))
      EXPECT_TRUE(c.routes->remove(route.net, route.gateway));
    else
      EXPECT_TRUE(c.routes->add(route));
    rig_.step();
  }
  EXPECT_TRUE(done);
}

TEST_F(PoliciesOfNode, an_added_ni_is_answered_when_the_lists_have_it) {
  make_many_peers();
  std::vector<UdspRule> all = many_rules();
  all.push_back({.src = "10.0.0.3@tcp", .dst = "10.0.*.*@tcp"});
  (void)with(all);
  bool done = false;
  node.node->apply({{NodeRig::net_add("10.0.0.3@tcp"), {}}}, [&](const config::Problems&) {
    done = true;
    for (const auto& [id, peer] : c.peers->peers())
      for (const PeerNi* ni : peer->nets.front().nis)
        EXPECT_TRUE(ni->nid.net() != net("tcp") || ni->policy.sources.list != nullptr) << nid_text(ni->nid);
  });
  ASSERT_TRUE(rig_.run_until([&] { return done; }));
}

// Goal: no turn makes more comparisons than the budgets allow, whatever the peers are like.
// Method: one peer of 4,000 NIDs, and many peers that come at once; rules of NIDs and of nets.
TEST_F(PoliciesOfNode, a_turn_has_a_budget_for_large_peers_and_for_many_peers) {
  std::vector<UdspRule> all = many_rules();
  for (unsigned i = 0; i < 200; ++i) all.push_back({.dst = "gni" + std::to_string(i), .priority = 1});
  all.push_back({.dst = "10.*.*.*@tcp", .priority = 2});
  std::vector<std::string> nids;
  for (unsigned i = 0; i < 4000; ++i)
    nids.push_back("10.50." + std::to_string(i / 250) + "." + std::to_string(1 + i % 250) + "@tcp");
  (void)with(all);
  uint64_t seen = c.policies->policy().comparisons(), most = 0;
  unsigned added = 0;
  const auto turn = [&] {
    most = std::max(most, c.policies->policy().comparisons() - std::exchange(seen, c.policies->policy().comparisons()));
    return added == 2 && c.policies->settled();
  };
  node.node->apply({{peer_add(nids), {}}}, [&](const config::Problems& errors) { added += errors.empty(); });
  config::ChangeList peers;
  for (unsigned i = 0; i < 2000; ++i)
    peers.push_back({peer_add({"10.60." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200) + "@tcp"}), {}});
  node.node->apply(std::move(peers), [&](const config::Problems& errors) { added += errors.empty(); });
  ASSERT_TRUE(rig_.run_until(turn));
  EXPECT_LT(most, 2 * kPolicyBudget + 4096);
  EXPECT_GT(most, kPolicyBudget / 2) << "the work needed slices";
  rig_.run_for(10ms);
  for (const char* one : {"10.50.0.1@tcp", "10.50.15.250@tcp", "10.60.0.1@tcp", "10.60.9.200@tcp"})
    EXPECT_EQ(c.publisher->current().peers->find(nid(one)).ni().priority, 2u) << one;
}

TEST_F(PoliciesOfNode, a_gateway_is_matched_by_its_primary_nid_and_its_nids_in_routes) {
  ASSERT_EQ(rig_.apply(node, {{peer_add({"10.1.0.95@o2ib", "10.0.0.95@tcp", "10.0.0.96@tcp"}), {}},
                              {NodeRig::route_add("tcp8", "10.0.0.95@tcp"), {}}}),
            "");
  std::vector<std::string> notes;
  bool done = false;
  node.node->apply(
      rules({{.dst = "10.9.0.41@tcp9", .rte = "10.1.0.95@o2ib"}, {.dst = "tcp9", .rte = "10.0.0.96@tcp"}}),
      [&](const config::Problems& errors) { done = errors.empty(); },
      [&](const std::string& line) { notes.push_back(line); });
  ASSERT_TRUE(rig_.run_until([&] { return done; }));
  EXPECT_EQ(notes, std::vector<std::string>{"no effect yet: no gateway of a route matches rte 10.0.0.96@tcp; the rule "
                                            "will hold for objects that are added later"});
  EXPECT_EQ(results(*node.node), "peer ni 10.9.0.41@tcp9 - from - over 10.1.0.95@o2ib:0\n");
  for (const api::RouteShow& show : route_values(c, true)) {
    const bool named = show.route.gateway == nid("10.0.0.95@tcp");
    EXPECT_EQ(show.rules, named ? std::vector<int64_t>{0} : std::vector<int64_t>{}) << nid_text(show.route.gateway);
  }
}

TEST_F(PoliciesOfNode, gateways_are_looked_up_again_only_after_changes) {
  Policy policy(std::vector<UdspRule>{{.rte = "tcp"}});
  PolicyFollower follower;
  const PolicyTables tables{*c.nis, *c.peers, *c.routes};
  const auto seen = [&] { return follower.gateways_seen(policy, tables); };
  EXPECT_FALSE(seen());
  EXPECT_EQ(follower.follow(policy, tables), PolicyFollower::Change::kLists);
  EXPECT_TRUE(seen());
  ASSERT_EQ(rig_.apply(node, peer_add({"10.0.0.77@tcp", "10.0.0.78@tcp"})), "");
  EXPECT_TRUE(seen()) << "no gateway";
  ASSERT_EQ(rig_.apply(node, NodeRig::route_add("tcp8", "10.0.0.77@tcp")), "");
  EXPECT_FALSE(seen());
  EXPECT_EQ(follower.follow(policy, tables), PolicyFollower::Change::kLists);
  c.peers->set_primary(*c.peers->find(nid("10.0.0.77@tcp"))->peer, nid("10.0.0.78@tcp"));
  EXPECT_FALSE(seen());
  EXPECT_EQ(follower.follow(policy, tables), PolicyFollower::Change::kLists);
  EXPECT_EQ(follower.follow(policy, tables), PolicyFollower::Change::kNone);
}

TEST_F(PoliciesOfNode, after_unconfigure_no_rule_is_in_force_although_the_list_fails) {
  (void)with({{.src = "tcp", .priority = 1}});
  config::NetAdd no_interface{.net = net("tcp")};
  no_interface.ni.interface = "nope0";
  EXPECT_NE(rig_.apply(node, {{config::LnetUnconfigure{}, {}}, {config::LnetConfigure{}, {}}, {no_interface, {}}}), "");
  EXPECT_TRUE(c.desired.udsp.empty());
  EXPECT_TRUE(c.policies->rules().rules.empty());
  EXPECT_EQ(rig_.apply(node, {{config::LnetConfigure{}, {}}, {NodeRig::net_add("10.0.0.1@tcp"), {}}}), "");
  EXPECT_EQ(results(*node.node), "");
}

TEST_F(PoliciesOfNode, an_index_that_a_rule_does_not_get_is_noted) {
  (void)with({{.src = "tcp", .priority = 1}, {.src = "o2ib", .priority = 1}});
  std::vector<std::string> notes;
  bool done = false;
  node.node->apply(
      rules({{.idx = 0, .src = "*@o2ib", .priority = 2}, {.idx = 0, .src = "tcp", .priority = 3}}),
      [&](const config::Problems& errors) { done = errors.empty(); },
      [&](const std::string& line) { notes.push_back(line); });
  ASSERT_TRUE(rig_.run_until([&] { return done; }));
  EXPECT_EQ(notes, std::vector<std::string>{
                       "the rule with src *@o2ib is there already: it keeps idx 1, and only its priority changes"});
}

// Goal: lists with equal content are one object, and lists that are no longer used are dropped.
TEST(PolicyLists, are_shared_by_content) {
  Policy policy(std::vector<UdspRule>{{.src = "tcp", .dst = "10.[1-255/2].*.*@tcp", .priority = 0},
                                      {.src = "tcp", .dst = "10.*.[1-255/2].*@tcp", .priority = 0},
                                      {.src = "tcp", .dst = "10.*.*.[1-255/2]@tcp", .priority = 0}});
  std::set<const Preferences*> lists;
  std::vector<PeerNiPolicy> kept;
  policy.set_objects({{NiId{2}, nid("10.0.0.2@tcp")}, {NiId{1}, nid("10.0.0.1@tcp")}}, nullptr);
  for (const char* one : {"10.1.0.0@tcp", "10.0.1.0@tcp", "10.1.1.0@tcp", "10.0.0.1@tcp", "10.1.0.1@tcp"})
    lists.insert(kept.emplace_back(policy.of_peer_ni(nid(one))).sources.list.get());
  EXPECT_EQ(lists.size(), 1u);
  const std::vector<Preferences::One> by_id = {{1, 0}, {2, 0}};
  EXPECT_EQ((*lists.begin())->all, by_id);
  for (uint32_t id = 3; id < 5000; ++id) {
    policy.set_objects({{NiId{id}, nid("10.0.0.2@tcp")}}, nullptr);
    (void)policy.of_peer_ni(nid("10.1.1.1@tcp"));
  }
  EXPECT_LT(policy.lists_kept(), 1000u);
}

}  // namespace
}  // namespace ulnet::test
