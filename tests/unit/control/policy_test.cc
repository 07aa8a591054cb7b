// Selection policies in control: the priorities and lists in the views of workers. The paths that follow from the views
// are tested in tests/unit/select and tests/sim/policies_test.cc.
#include <fmt/format.h>

#include <algorithm>

#include "control/api/show_values.h"
#include "control/policy/policies.h"
#include "dataplane/base/rng.h"
#include "tests/unit/control/policy_node.h"

namespace ulnet::test {
namespace {

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

// Goal: the note speaks of the peers of now, although the rule has met others before.
TEST_F(PoliciesOfNode, a_rule_whose_priority_changes_is_noted_if_it_matches_nothing_any_more) {
  (void)with({{.dst = "10.0.0.21@tcp", .priority = 1}});
  EXPECT_EQ(rig_.apply(node, config::PeerDel{.primary = nid("10.0.0.21@tcp")}), "");
  std::vector<std::string> notes;
  bool done = false;
  node.node->apply(
      rules({{.dst = "10.0.0.21@tcp", .priority = 2}}), [&](const config::Problems& errors) { done = errors.empty(); },
      [&](const std::string& line) { notes.push_back(line); });
  ASSERT_TRUE(rig_.run_until([&] { return done; }));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].substr(0, 40), "no effect yet: no known peer matches dst");
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

/// A change at random of the rules, or of the objects that they name.
config::Change random_change(Rng& rng, size_t rules) {
  const std::string host = std::to_string(1 + rng.below(4));
  const bool adds = rng.below(2) == 0;
  switch (rng.below(8)) {
    case 0:
      if (adds) return peer_add({"10.0.0.3" + host + "@tcp", "10.1.0.3" + host + "@o2ib"});
      return config::PeerDel{.primary = nid("10.0.0.3" + host + "@tcp")};
    case 1:
      if (adds) return NodeRig::net_add("10.0.0." + host + "@tcp");
      return config::NetDel{.net = net("tcp"), .nid = nid("10.0.0." + host + "@tcp")};
    case 2:
      if (adds) return NodeRig::route_add("tcp8", "10.0.0.9" + host + "@tcp");
      return config::RouteDel{.net = net("tcp8"), .gateway = nid("10.0.0.9" + host + "@tcp")};
    case 3: return UdspDel{.idx = int64_t(rng.below(rules + 1))};
    default: return UdspAdd{random_rule(rng)};
  }
}

/// The results of a node that has been configured at once with what `c` has. Recorded sources are those of `c`.
std::string results_of_fresh_node(Control& c) {
  NodeRig rig;
  std::vector<std::string> nids;
  for (LocalNis::LocalNet& one : c.nis->nets())
    for (const LocalNi& ni : one.nis) nids.push_back(nid_text(ni.nid));
  RigNode& fresh = rig.add(nids);
  config::ChangeList changes;
  for (const auto& [id, peer] : c.peers->peers()) {
    std::vector<std::string> its;
    for (const PeerNet& one : peer->nets)
      for (const PeerNi* ni : one.nis) its.push_back(nid_text(ni->nid));
    changes.push_back({peer_add(its, peer->multi_rail()), {}});
  }
  for (const config::RouteConfig& route : c.desired.routes)
    changes.push_back({NodeRig::route_add(net_text(route.net), nid_text(route.gateway)), {}});
  EXPECT_EQ(rig.apply(fresh, changes), "");
  for (const auto& [id, peer] : fresh.node->control().peers->peers()) {
    for (PeerNet& one : peer->nets)
      for (PeerNi* ni : one.nis) ni->source = c.peers->find(ni->nid)->source;
    fresh.node->control().peers->touch(*peer);
  }
  EXPECT_EQ(rig.apply(fresh, rules(c.desired.udsp)), "");
  return results(*fresh.node);
}

// Goal: the results follow from the rules that are left and from the objects that are there, whatever came before.
// Method: rules, NIs, peers and routes come and go at random, some of them while a walk is under way. Many peers and
// rules make the walks long. At the end, a fresh node with the same rules and objects has the same results.
TEST_F(PoliciesOfNode, results_depend_on_rules_and_objects_only) {
  config::ChangeList peers;
  for (unsigned i = 0; i < 300; ++i)
    peers.push_back({peer_add({"10.77." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200) + "@tcp"}), {}});
  ASSERT_EQ(rig_.apply(node, std::move(peers)), "");
  (void)with(many_rules());
  size_t in_walk = 0, refused = 0, changes = 0, lines = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Rng rng(seed);
    for (unsigned round = 0; round < 3; ++round) {
      size_t open = 0;
      for (unsigned step = 0; step < 12; ++step, ++changes) {
        ++open;
        in_walk += !c.policies->settled();
        node.node->apply({{random_change(rng, c.desired.udsp.size()), {}}}, [&](const config::Problems& errors) {
          refused += !errors.empty();
          --open;
        });
        for (uint64_t turns = rng.below(4); turns > 0; --turns) rig_.step();
      }
      ASSERT_TRUE(rig_.run_until([&] { return open == 0 && c.policies->settled(); }));
      rig_.run_for(10ms);
      const std::string is = results(*node.node);
      ASSERT_EQ(is, results_of_fresh_node(c)) << "seed " << seed << " round " << round;
      lines += size_t(std::count(is.begin(), is.end(), '\n'));
    }
  }
  EXPECT_GT(in_walk, changes / 4);
  EXPECT_LT(refused, changes / 2);
  EXPECT_GT(lines, 1000u);
}

// Goal: `net show -v 4` and `peer show -v 4` show the priorities and lists in force.
TEST_F(PoliciesOfNode, shows_have_the_results_in_force) {
  (void)with({{.src = "tcp", .priority = 3},
              {.src = "10.0.0.2@tcp", .priority = 4},
              {.dst = "o2ib", .priority = 5},
              {.dst = "10.1.0.11@o2ib", .priority = 6},
              {.src = "10.0.0.2@tcp", .dst = "10.0.0.12@tcp"},
              {.dst = "10.9.0.41@tcp9", .rte = "10.0.0.92@tcp"}});
  std::string text;
  for (const api::NetShow& one : net_values(c, net("tcp")))
    for (const api::LocalNiShow& ni : one.nis)
      text += fmt::format("{} {} {}\n", nid_text(ni.nid), ni.udsp.net_priority, ni.udsp.nid_priority);
  for (const char* of : {"10.0.0.11@tcp", "10.9.0.41@tcp9"})
    for (const api::PeerNiShow& ni : peer_value(c, *c.peers->find(nid(of))->peer).nis) {
      text += fmt::format("{} {} {}", nid_text(ni.nid), ni.udsp.net_priority, ni.udsp.nid_priority);
      for (const Nid& source : ni.udsp.preferred_sources) text += " from " + nid_text(source);
      for (const Nid& gateway : ni.udsp.preferred_gateways) text += " over " + nid_text(gateway);
      text += "\n";
    }
  EXPECT_EQ(text,
            "10.0.0.1@tcp 3 -1\n10.0.0.2@tcp 3 4\n10.0.0.11@tcp -1 -1\n10.0.0.12@tcp -1 -1 from 10.0.0.2@tcp\n"
            "10.1.0.11@o2ib 5 6\n10.9.0.41@tcp9 -1 -1 over 10.0.0.92@tcp\n");
  EXPECT_EQ(rig_.apply(node, UdspDel{.all = true}), "");
  for (const api::PeerNiShow& ni : peer_value(c, *c.peers->find(nid("10.0.0.11@tcp"))->peer).nis) {
    EXPECT_EQ(ni.udsp.net_priority, -1);
    EXPECT_TRUE(ni.udsp.preferred_sources.empty());
  }
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

}  // namespace
}  // namespace ulnet::test
