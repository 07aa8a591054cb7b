// Selection policies in control: when objects are evaluated, in which slices, and what is published.
#include "control/policy/policies.h"
#include "tests/unit/control/policy_node.h"

namespace ulnet::test {
namespace {

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

// Goal: no message goes without regard to a rule. The table of workers gets a peer NI when policies have given it
// results. The answer to a question of a worker about the NI comes then, too.
TEST_F(PoliciesOfNode, a_new_peer_is_in_the_table_when_rules_have_ranked_it) {
  std::vector<UdspRule> all = many_rules();
  all.push_back({.dst = "10.60.*.*@tcp", .priority = 2});
  (void)with(all);
  config::ChangeList peers;
  std::vector<Nid> nids;
  for (unsigned i = 0; i < 1000; ++i) {
    const std::string one = "10.60." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200) + "@tcp";
    peers.push_back({peer_add({one}), {}});
    nids.push_back(nid(one));
  }
  node.node->apply(std::move(peers), [](const config::Problems& errors) { EXPECT_TRUE(errors.empty()); });
  unsigned held = 0, asked = 0;
  ASSERT_TRUE(rig_.run_until([&] {
    size_t there = 0;
    const PeerNi* last = c.peers->find(nids.back());
    for (const Nid& one : nids)
      if (const PeerRef ref = c.publisher->current().peers->find(one)) {
        EXPECT_EQ(ref.ni().priority, 2u) << nid_text(one);
        ++there;
      }
    if (last == nullptr || there == nids.size()) return there == nids.size();
    ++held;
    EXPECT_EQ(c.resolved.size(), asked) << "the answer waits";
    if (asked == 0) c.resolved.push_back({WorkerId{0}, {last->nid}});
    asked = 1;
    return false;
  }));
  EXPECT_GT(held, 1u) << "the peers need several turns";
  EXPECT_EQ(asked, 1u);
  EXPECT_TRUE(c.resolved.empty());
}

/// A table of peers of its own, whose evaluation can be stopped.
struct HeldPeers : PoliciesOfNode {
  size_t evaluations = SIZE_MAX;  ///< number of NIs that can still get results
  bool gateway = false;           ///< 10.0.0.61@tcp is one
  Instant now = kNever;
  Timers timers{now};
  PeerDb peers{deps(), timers};
  PeerTableBuilder table;
  Peer& a = *peers.find_or_create(nid("10.0.0.61@tcp"), kAnyNid).value()->peer;
  Peer& b = *peers.find_or_create(nid("10.0.0.71@tcp"), kAnyNid).value()->peer;

  PeerDb::Deps deps() {
    PeerDb::Deps all{*c.nis};
    all.gateway = [this](const Peer& peer) { return gateway && &peer == peers.find(nid("10.0.0.61@tcp"))->peer; };
    all.evaluate = [this](Peer& peer) {
      for (PeerNet& one : peer.nets)
        for (PeerNi* ni : one.nis) {
          if (ni->policy_seen != 0) continue;
          if (evaluations == 0) return false;
          --evaluations;
          ni->policy_seen = 1;
        }
      return true;
    };
    return all;
  }
  void take(Peer& peer, const char* one) { ASSERT_TRUE(peers.take_nid(peer, nid(one))); }
  /// NIs in the view that the NID leads to; 0: it leads nowhere.
  int nis_at(const char* one) {
    const PeerRef ref = table.snapshot()->find(nid(one));
    return ref ? int(ref.peer->nis.size()) : 0;
  }
};

TEST_F(HeldPeers, a_view_has_the_nis_of_its_peer_that_have_results) {
  take(a, "10.0.0.62@tcp");
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.61@tcp"), 2);
  EXPECT_EQ(nis_at("10.0.0.71@tcp"), 1);
  evaluations = 0;
  take(a, "10.0.0.63@tcp");
  take(a, "10.0.0.64@tcp");
  take(b, "10.0.0.62@tcp");
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.61@tcp"), 1) << "neither its former NI nor the new ones";
  EXPECT_EQ(nis_at("10.0.0.62@tcp"), 2) << "results stay with the NID";
  EXPECT_EQ(nis_at("10.0.0.63@tcp"), 0);
  EXPECT_FALSE(peers.changed());
  evaluations = 1;
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.63@tcp"), 2) << "each NI comes when it has results";
  EXPECT_EQ(nis_at("10.0.0.64@tcp"), 0);
  evaluations = 1;
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.64@tcp"), 3);
  EXPECT_FALSE(peers.flush(table));
}

TEST_F(HeldPeers, a_view_begins_with_the_primary_ni) {
  EXPECT_TRUE(peers.flush(table));
  evaluations = 0;
  take(b, "10.0.0.72@tcp");
  peers.set_primary(b, nid("10.0.0.72@tcp"));
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.71@tcp"), 0);
  evaluations = 1;
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.71@tcp"), 2);
  EXPECT_EQ(nid_text(table.snapshot()->find(nid("10.0.0.71@tcp")).peer->primary()), "10.0.0.72@tcp");
}

TEST_F(HeldPeers, that_went_and_came_back_are_held_again) {
  EXPECT_TRUE(peers.flush(table));
  evaluations = 0;
  peers.forget(b);
  EXPECT_TRUE(peers.flush(table));
  ASSERT_TRUE(peers.find_or_create(nid("10.0.0.71@tcp"), kAnyNid));
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.71@tcp"), 0);
  peers.forget(*peers.find(nid("10.0.0.71@tcp"))->peer);
  evaluations = 9;
  EXPECT_TRUE(peers.flush(table)) << "a peer that waited may go";
  EXPECT_EQ(nis_at("10.0.0.71@tcp"), 0);
}

// Goal: messages over a gateway do not fail while it has no results.
TEST_F(HeldPeers, a_gateway_is_never_held) {
  evaluations = 0;
  gateway = true;
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.61@tcp"), 1);
  EXPECT_EQ(nis_at("10.0.0.71@tcp"), 0);
  take(a, "10.0.0.62@tcp");
  peers.set_primary(a, nid("10.0.0.62@tcp"));
  EXPECT_TRUE(peers.flush(table));
  EXPECT_EQ(nis_at("10.0.0.61@tcp"), 2);
}

// Goal: when a change of rules is answered, no worker chooses by the former rules any more.
TEST_F(PoliciesOfNode, a_change_is_answered_when_workers_have_it) {
  WorkerState& worker = c.mesh->states[0];
  worker.awake.store(true);
  worker.epoch_seen.store(c.publisher->epoch().value);
  bool done = false;
  node.node->apply(rules({{.dst = "10.0.0.11@tcp", .priority = 2}}), [&](const config::Problems&) { done = true; });
  for (unsigned turn = 0; turn < 20; ++turn) (void)node.node->turn_control(rig_.now);
  EXPECT_TRUE(c.policies->settled());
  EXPECT_EQ(c.publisher->current().peers->find(nid("10.0.0.11@tcp")).ni().priority, 2u);
  EXPECT_FALSE(done) << "the worker is still in a turn that began before";
  ASSERT_TRUE(rig_.run_until([&] { return done; }));
}

// Goal: a note speaks of all peers, although another list of rules came into force before all were evaluated.
TEST_F(PoliciesOfNode, notes_are_right_while_rules_change) {
  make_many_peers();
  std::vector<UdspRule> all = many_rules();
  all.insert(all.begin(), {.dst = "10.0.0.11@tcp", .priority = 1});
  std::vector<std::string> notes;
  bool first = false, second = false;
  node.node->apply(
      rules(all), [&](const config::Problems&) { first = true; },
      [&](const std::string& line) { notes.push_back(line); });
  ASSERT_TRUE(rig_.run_until([&] { return c.peers->find(nid("10.0.0.11@tcp"))->policy.priority.rule == 0; }));
  EXPECT_FALSE(first);
  node.node->apply({{UdspDel{.idx = 200}, {}}}, [&](const config::Problems&) { second = true; });
  ASSERT_TRUE(rig_.run_until([&] { return first && second; }));
  EXPECT_EQ(notes.size(), 17u);
  for (const std::string& line : notes) EXPECT_EQ(line.find("10.0.0.11@tcp"), std::string::npos) << line;
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

// Goal: the cost of peer NIs that many rules list alike is that of their matching.
TEST(PolicyLists, of_many_rules_are_made_once) {
  std::vector<UdspRule> all(10000, UdspRule{.src = "tcp", .dst = "10.*.*.*@tcp"});
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].src = "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250) + "@tcp";
    all[i].priority = 1;
  }
  Policy policy(all);
  std::vector<PolicyObjects::Source> sources;
  for (uint32_t i = 0; i < 16; ++i) sources.push_back({NiId{i}, nid("10.0.0." + std::to_string(i) + "@tcp")});
  policy.set_objects(sources, nullptr);
  const PeerNiPolicy one = policy.of_peer_ni(nid("10.9.0.1@tcp"));
  const uint64_t before = policy.comparisons();
  const PeerNiPolicy other = policy.of_peer_ni(nid("10.9.0.2@tcp"));
  EXPECT_EQ(one.sources.list->all.size(), 16u);
  EXPECT_EQ(one.sources.list, other.sources.list);
  EXPECT_LT(policy.comparisons() - before, 3 * all.size());
}

// Goal: a note costs a bounded time of control, however many rules and objects there are.
TEST(PolicyNotes, look_at_a_bounded_number_of_objects) {
  std::vector<UdspRule> all(2000, UdspRule{.priority = 1});
  for (size_t i = 0; i < all.size(); ++i)
    all[i].src = "10.9." + std::to_string(i / 250) + "." + std::to_string(i % 250) + "@tcp";
  Policy policy(all);
  std::vector<PolicyObjects::Source> sources;
  for (uint32_t i = 0; i < 200; ++i) sources.push_back({NiId{i}, nid("10.0.0." + std::to_string(i) + "@tcp")});
  policy.set_objects(sources, nullptr);
  size_t asked = 0;
  const Policy::Idle found = policy.idle([&](int32_t) { return ++asked > 0; }, all.size());
  EXPECT_FALSE(found.all);
  EXPECT_LE(found.rules.size(), kIdleLooks / sources.size() + 1);
  EXPECT_LE(asked, found.rules.size() + 1);
  EXPECT_TRUE(policy.idle([](int32_t index) { return index == 1999; }, 16).all);
}

}  // namespace
}  // namespace ulnet::test
