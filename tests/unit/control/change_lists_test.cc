// Lists of changes on a running node. A list that fails leaves the node as it was, and a slow list holds up nothing
// else. The order of keys in a file does not matter. Importing the configuration in force succeeds.
#include <new>

#include "config/load.h"
#include "control/api/requests.h"
#include "control/api/show_values.h"
#include "control/discovery/runner.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// Memory up to a bound.
class BoundedMemory final : public MemorySource {
 public:
  explicit BoundedMemory(size_t bytes) : left_(bytes) {}
  std::byte* map(size_t bytes, uint32_t numa) override {
    if (bytes > left_) return nullptr;
    left_ -= bytes;
    return plain_.map(bytes, numa);
  }
  void unmap(std::byte* memory, size_t bytes) override {
    left_ += bytes;
    plain_.unmap(memory, bytes);
  }

 private:
  PlainMemory plain_;
  size_t left_;
};

config::NetDel net_del(const std::string& text) {
  config::NetDel del;
  del.net = nid(text).net();
  del.nid = nid(text);
  return del;
}

config::NetAdd bad_net_add() {
  auto bad = NodeRig::net_add("10.9.0.1@tcp9");
  bad.ni.cpts = {99};
  return bad;
}

config::PeerAdd peer_add(const std::string& primary, const std::vector<std::string>& nids = {}) {
  config::PeerAdd add;
  add.peer.primary = nid(primary);
  for (const auto& one : nids) add.peer.nids.push_back(nid(one));
  return add;
}

config::PeerDel peer_del(const std::string& primary, const std::vector<std::string>& nids = {}) {
  config::PeerDel del;
  del.primary = nid(primary);
  for (const auto& one : nids) del.nids.push_back(nid(one));
  return del;
}

class ChangeLists : public testing::Test {
 protected:
  void TearDown() override { rig.stop_all(); }

  static std::string nis(RigNode& node) {
    std::string text;
    for (LocalNis::LocalNet& one : node.node->control().nis->nets())
      for (const LocalNi& ni : one.nis) text += (text.empty() ? "" : " ") + nid_text(ni.nid);
    return text;
  }
  static std::string routes(RigNode& node) {
    std::string text;
    for (const Route& one : node.node->control().routes->routes())
      text += net_text(one.config.net) + " " + nid_text(one.config.gateway) + "; ";
    return text;
  }
  std::string nids(RigNode& node, const std::string& text) {
    const PeerNi* ni = node.node->control().peers->find(nid(text));
    if (ni == nullptr) return "none";
    std::string all = ni->peer->configured() ? "configured:" : "";
    for (const PeerNet& one : ni->peer->nets)
      for (const PeerNi* each : one.nis) all += (all.empty() ? "" : " ") + nid_text(each->nid);
    return all;
  }
  std::vector<DiscoverAnswer> discover(RigNode& node, const std::string& text, bool force = false) {
    std::vector<DiscoverAnswer> answers;
    node.node->control().discovery->discover({nid(text)}, force, [&](auto got) { answers = std::move(got); });
    EXPECT_TRUE(rig.run_until([&] { return !answers.empty(); }, 600s));
    return answers;
  }
  std::string import(RigNode& node, const std::string& text, config::ImportMode mode = config::ImportMode::kAdd) {
    const config::Imported imported = config::load_text(text, "f.yaml", mode);
    for (const auto& error : imported.errors) return "not loaded: " + error.what;
    return rig.apply(node, imported.changes);
  }

  NodeRig rig;
};

// --- a list that fails leaves the node as it was ---------------------------------------------------------------------

TEST_F(ChangeLists, failing_net_del_leaves_order_and_routes) {
  auto& a = rig.add({"10.1.0.1@tcp", "10.1.0.2@tcp", "10.2.0.1@tcp1", "10.3.0.1@tcp2"});
  rig.add({"10.1.0.7@tcp"});
  ASSERT_EQ(rig.apply(a, {{NodeRig::route_add("tcp7", "10.1.0.7@tcp"), {}},
                          {NodeRig::route_add("tcp8", "10.1.0.7@tcp"), {}},
                          {NodeRig::route_add("tcp8", "10.2.0.7@tcp1"), {}}}),
            "");
  discover(a, "10.1.0.7@tcp");
  const std::string nis_before = nis(a), routes_before = routes(a);
  const config::DesiredState before = a.node->control().desired;
  for (const bool now : {false, true}) {
    config::NetDel del;
    del.net = net("tcp");
    del.now = now;
    EXPECT_EQ(rig.apply(a, {{del, {}}, {bad_net_add(), {}}}).substr(0, 3), "-34");
    EXPECT_EQ(nis(a), nis_before);
    EXPECT_EQ(routes(a), routes_before);
    EXPECT_TRUE(a.node->control().desired == before);
  }
  EXPECT_EQ(rig.ping(a, "10.1.0.7@tcp").error, 0);
}

TEST_F(ChangeLists, failing_peer_set_leaves_health) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  rig.add({"10.1.0.7@tcp"});
  discover(a, "10.1.0.7@tcp");
  config::PeerSet set;
  set.all = true;
  set.health = 1;
  EXPECT_EQ(rig.apply(a, {{set, {}}, {bad_net_add(), {}}}).substr(0, 3), "-34");
  EXPECT_EQ(a.node->control().peers->find(nid("10.1.0.7@tcp"))->health.value(), kHealthMax);
}

TEST_F(ChangeLists, failing_peer_changes_leave_discovered_peers) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  rig.add({"10.1.0.7@tcp", "10.1.0.8@tcp"});
  rig.add({"10.1.0.5@tcp", "10.1.0.6@tcp"});
  discover(a, "10.1.0.7@tcp");
  discover(a, "10.1.0.5@tcp");
  const auto known = [&] { return a.node->control().peers->find(nid("10.1.0.7@tcp")); };
  ASSERT_NE(known(), nullptr);
  const uint32_t state = known()->peer->state;
  EXPECT_EQ(rig.apply(a, {{peer_add("10.1.0.7@tcp", {"10.1.0.6@tcp", "10.1.0.99@tcp"}), {}}, {bad_net_add(), {}}})
                .substr(0, 3),
            "-34");
  EXPECT_EQ(nids(a, "10.1.0.7@tcp"), "10.1.0.7@tcp 10.1.0.8@tcp");
  EXPECT_EQ(nids(a, "10.1.0.6@tcp"), "10.1.0.5@tcp 10.1.0.6@tcp");
  EXPECT_EQ(nids(a, "10.1.0.99@tcp"), "none");
  ASSERT_NE(known(), nullptr);
  EXPECT_EQ(known()->peer->state, state);
  EXPECT_EQ(rig.apply(a, {{peer_del("10.1.0.7@tcp"), {}}, {bad_net_add(), {}}}).substr(0, 3), "-34");
  EXPECT_EQ(nids(a, "10.1.0.8@tcp"), "10.1.0.7@tcp 10.1.0.8@tcp");
  EXPECT_EQ(discover(a, "10.1.0.7@tcp", true).front().error, 0);
}

// --- a slow list holds up nothing else -------------------------------------------------------------------------------

class SilentPeer : public ChangeLists {
 protected:
  SilentPeer() {
    for (int i = 1; i <= 6; ++i) own.push_back("10.0.0." + std::to_string(i) + "@tcp");
    a = &rig.add(own);
    rig.add({"10.0.0.77@tcp"});
    discover(*a, "10.0.0.77@tcp");
    for (const auto& text : own) rig.fabric.cut(nid(text), nid("10.0.0.77@tcp"));
  }
  void TearDown() override {
    rig.fabric.heal_all();
    rig.stop_all();
  }
  std::vector<std::string> own;
  RigNode* a = nullptr;
};

TEST_F(SilentPeer, nis_of_one_list_leave_together) {
  config::ChangeList list;
  for (size_t i = 0; i < 5; ++i) list.push_back({net_del(own[i]), {}});
  const Instant begun = rig.now;
  EXPECT_EQ(rig.apply(*a, std::move(list)), "");
  EXPECT_LT(rig.now - begun, kNiLeaveMax + kNiDrainMax + 2s);
  EXPECT_EQ(nis(*a), own[5]);
}

TEST_F(SilentPeer, a_setting_runs_beside_a_deletion) {
  bool deleted = false;
  a->node->apply({{net_del(own[0]), {}}}, [&](const auto&) { deleted = true; });
  rig.run_for(10ms);
  const Instant begun = rig.now;
  EXPECT_EQ(rig.apply(*a, config::SetValue{"retry_count", 1}), "");
  EXPECT_LT(rig.now - begun, 500ms);
  EXPECT_FALSE(deleted);
  EXPECT_EQ(rig.apply(*a, NodeRig::net_add(own[0])), "") << "waits until the NI has gone";
  EXPECT_TRUE(deleted);
  EXPECT_EQ(a->node->control().desired.global.retry_count, 1);
  EXPECT_EQ(a->node->control().desired.nets.at(0).nis.size(), 6u);
}

// Goal: if the client of a waiting change has left, the change is withdrawn. A change that has begun goes on.
// Method: the first list waits until its NID has gone; the others wait behind it.
TEST_F(SilentPeer, a_change_whose_client_has_left_is_withdrawn) {
  NodeRequests requests(*a->node, "test");
  const auto request = [&](uint64_t client, config::Change change) {
    api::Request one;
    one.verb = api::Verb::kChange;
    one.changes = {{std::move(change), {}}};
    requests.request({client, 1}, one);
  };
  request(1, net_del(own[0]));
  rig.run_for(10ms);
  request(2, NodeRig::net_add(own[0]));
  rig.run_for(10ms);
  request(3, config::SetValue{"retry_count", 1});
  request(4, config::SetValue{"numa_range", 7});
  rig.run_for(10ms);
  for (const uint64_t client : {1, 2, 3}) requests.gone({client, 1});
  ASSERT_TRUE(rig.run_until([&] { return a->node->applier().idle(); }, 60s));
  const config::DesiredState& state = a->node->control().desired;
  EXPECT_EQ(state.nets.at(0).nis.size(), 6u) << "deleted and added again";
  EXPECT_EQ(state.nets.at(0).nis.back().nid, nid(own[0]));
  EXPECT_NE(state.global.retry_count, 1) << "withdrawn";
  EXPECT_EQ(state.global.numa_range, 7) << "the change behind it is carried out";
}

// --- discovered peers are deleted like others -----------------------------------------------------------------------

TEST_F(ChangeLists, a_discovered_peer_is_deleted) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  rig.add({"10.1.0.7@tcp", "10.1.0.8@tcp"});
  discover(a, "10.1.0.7@tcp");
  EXPECT_EQ(rig.apply(a, peer_del("10.1.0.8@tcp")),
            "-2 failed to del primary peer: 10.1.0.8@tcp is a NID of peer 10.1.0.7@tcp, not its primary NID\n");
  EXPECT_EQ(rig.apply(a, peer_del("10.1.0.9@tcp")), "-2 failed to del primary peer: there is no peer 10.1.0.9@tcp\n");
  EXPECT_EQ(rig.apply(a, peer_del("10.1.0.7@tcp", {"10.1.0.8@tcp"})), "");
  EXPECT_EQ(nids(a, "10.1.0.8@tcp"), "none");
  EXPECT_EQ(rig.apply(a, peer_del("10.1.0.7@tcp")), "");
  EXPECT_EQ(nids(a, "10.1.0.7@tcp"), "none");
}

TEST_F(ChangeLists, an_export_is_taken_back) {
  const std::string net = "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 10.1.0.1@tcp\n";
  const std::string rest =
      "route:\n  - net: tcp1\n    gateway: 10.1.0.7@tcp\n"
      "peer:\n  - primary nid: 10.1.0.7@tcp\n    Multi-Rail: true\n    peer ni:\n"
      "      - nid: 10.1.0.7@tcp\n      - nid: 10.1.0.8@tcp\n"
      "udsp:\n  - idx: 0\n    src: tcp\n  - idx: 1\n    src: tcp1\n";
  auto& a = rig.add({});
  rig.add({"10.1.0.7@tcp", "10.1.0.8@tcp"});
  ASSERT_EQ(import(a,
                   "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 10.1.0.1@tcp\n"
                   "route:\n  - net: tcp1\n    gateway: 10.1.0.7@tcp\n"
                   "udsp:\n  - src: tcp\n  - src: tcp1\n"),
            "");
  discover(a, "10.1.0.7@tcp");
  EXPECT_EQ(nids(a, "10.1.0.7@tcp"), "10.1.0.7@tcp 10.1.0.8@tcp");
  rig.run_for(1s);  // the peer has no more to send: a peer that sends after its deletion becomes known again
  EXPECT_EQ(import(a, net + rest, config::ImportMode::kDel), "");
  EXPECT_EQ(nis(a), "");
  EXPECT_EQ(routes(a), "");
  EXPECT_EQ(nids(a, "10.1.0.7@tcp"), "none");
  EXPECT_TRUE(a.node->control().desired.udsp.empty());
}

// Goal: a peer that is met while an NI is being deleted gets its answer. The answer does not delay the deletion.
TEST_F(ChangeLists, a_peer_that_is_met_while_its_net_is_deleted_is_answered) {
  auto& a = rig.add({"10.1.0.1@tcp", "10.2.0.1@tcp1"});
  auto& b = rig.add({"10.1.0.7@tcp"});
  rig.add({"10.1.0.8@tcp", "10.2.0.8@tcp1"});
  discover(a, "10.1.0.8@tcp");
  bool deleted = false;
  a.node->apply({{net_del("10.1.0.1@tcp"), {}}}, [&](const auto&) { deleted = true; });
  EXPECT_EQ(rig.ping(b, "10.1.0.1@tcp").error, 0);
  EXPECT_FALSE(deleted);
  EXPECT_TRUE(rig.run_until([&] { return deleted; }, kNiLeaveMax + kNiDrainMax + 2s));
}

// --- files ----------------------------------------------------------------------------------------------------------

// Goal: if a file gives the numbers of buffers, no memory for the default buffers is requested.
TEST_F(ChangeLists, buffers_after_routing_count_from_the_start) {
  BoundedMemory memory(64u << 20);
  rig.memory = &memory;
  auto& a = rig.add({});
  EXPECT_EQ(import(a, "routing:\n    enable: 1\nbuffers:\n    tiny: 64\n    small: 64\n    large: 4\n"), "");
  EXPECT_EQ(a.node->control().routing->given(WorkerId{0}, 2), 4u);
  rig.stop_all();
}

TEST_F(ChangeLists, order_of_sections_does_not_matter) {
  auto& a = rig.add({});
  EXPECT_EQ(import(a,
                   "route:\n  - net: tcp1\n    gateway: 10.1.0.7@tcp\n"
                   "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 10.1.0.1@tcp\n"),
            "");
  EXPECT_EQ(routes(a), "tcp1 10.1.0.7@tcp; ");
}

TEST_F(ChangeLists, importing_what_is_in_force_succeeds) {
  const std::string file =
      "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 10.1.0.1@tcp\n"
      "route:\n  - net: tcp1\n    gateway: 10.1.0.7@tcp\n"
      "peer:\n  - primary nid: 10.1.0.5@tcp\n    peer ni:\n      - nid: 10.1.0.6@tcp\n"
      "udsp:\n  - src: tcp\n";
  auto& a = rig.add({});
  ASSERT_EQ(import(a, file), "");
  const config::DesiredState before = a.node->control().desired;
  EXPECT_EQ(import(a, file), "");
  EXPECT_TRUE(a.node->control().desired == before);
  EXPECT_EQ(import(a, file + "buffers:\n    tiny: 64\nglobal:\n    numa_range: 3\n"), "");
  EXPECT_EQ(import(a,
                   "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 10.1.0.1@tcp\n"
                   "      - nid: 10.1.0.2@tcp\n"),
            "");
  EXPECT_EQ(nis(a), "10.1.0.1@tcp 10.1.0.2@tcp");
  const std::string other = import(a,
                                   "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 10.1.0.1@tcp\n"
                                   "        tunables:\n          peer_credits: 3\n");
  EXPECT_EQ(other.substr(0, 3), "-17") << other;
  EXPECT_NE(other.find("other settings"), std::string::npos) << other;
  EXPECT_EQ(rig.apply(a, NodeRig::net_add("10.1.0.1@tcp")).substr(0, 3), "-17") << "a command says that it is there";
}

// Goal: one file lists all nodes of a cluster, and the routes of both sides. Each node can import it, import it again,
// and take it back. Entries for other nodes are left out, and a note reports each. As a command, such an entry is an
// error.
TEST_F(ChangeLists, one_file_lists_all_nodes) {
  const std::string file =
      "route:\n  - net: tcp1\n    gateway: 10.1.0.7@tcp\n  - net: tcp\n    gateway: 10.2.0.7@tcp1\n"
      "peer:\n  - primary nid: 10.1.0.1@tcp\n"
      "  - primary nid: 10.1.0.7@tcp\n    peer ni:\n      - nid: 10.1.0.7@tcp\n      - nid: 10.2.0.7@tcp1\n"
      "  - primary nid: 10.2.0.3@tcp1\n";
  auto& client = rig.add({"10.1.0.1@tcp"});
  auto& router = rig.add({"10.1.0.7@tcp", "10.2.0.7@tcp1"});
  auto& server = rig.add({"10.2.0.3@tcp1"});
  const auto peers = [](RigNode& node) {
    std::string text;
    for (const config::PeerConfig& one : node.node->control().desired.peers) text += nid_text(one.primary) + " ";
    return text;
  };
  for (int i = 0; i < 2; ++i) {
    for (RigNode* node : {&client, &router, &server}) EXPECT_EQ(import(*node, file), "");
    EXPECT_EQ(peers(client), "10.1.0.7@tcp 10.2.0.3@tcp1 ");
    EXPECT_EQ(peers(router), "10.1.0.1@tcp 10.2.0.3@tcp1 ");
    EXPECT_EQ(peers(server), "10.1.0.1@tcp 10.1.0.7@tcp ");
    EXPECT_EQ(routes(client), "tcp1 10.1.0.7@tcp; ");
    EXPECT_EQ(routes(router), "");
    EXPECT_EQ(routes(server), "tcp 10.2.0.7@tcp1; ");
    for (RigNode* node : {&client, &router, &server})
      EXPECT_EQ(node->node->control().desired.routes.size(), node->node->control().routes->routes().size());
  }
  const auto said = [&](const std::string& line) {
    return std::count(router.journal.begin(), router.journal.end(), line);
  };
  EXPECT_EQ(said("peer 10.1.0.7@tcp is skipped: it is this node"), 2);
  EXPECT_EQ(said("the route to tcp1 through 10.1.0.7@tcp is skipped: this node is on tcp1 itself"), 2);
  EXPECT_EQ(rig.apply(client, peer_add("10.1.0.1@tcp")).substr(0, 3), "-22");
  EXPECT_EQ(rig.apply(router, NodeRig::route_add("tcp1", "10.1.0.7@tcp")).substr(0, 3), "-17");
  for (RigNode* node : {&client, &router, &server}) {
    EXPECT_EQ(import(*node, file, config::ImportMode::kDel), "");
    EXPECT_EQ(peers(*node), "");
    EXPECT_EQ(routes(*node), "");
  }
}

// --- small things ---------------------------------------------------------------------------------------------------

TEST_F(ChangeLists, an_own_nid_is_no_peer) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  EXPECT_EQ(rig.apply(a, peer_add("10.1.0.1@tcp")),
            "-22 failed to add primary peer: 10.1.0.1@tcp is a NID of this node\n");
  EXPECT_EQ(rig.apply(a, peer_add("10.1.0.7@tcp", {"10.1.0.1@tcp"})),
            "-22 failed to add peer: 10.1.0.1@tcp is a NID of this node\n");
  EXPECT_EQ(nids(a, "10.1.0.7@tcp"), "none");
}

TEST_F(ChangeLists, unconfigure_says_what_it_forgets) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  a.node->applier().set_configured_networks({{NodeRig::net_add("10.1.0.1@tcp"), {}}});
  std::vector<std::string> notes;
  bool done = false;
  a.node->apply(
      {{config::LnetUnconfigure{}, {}}}, [&](const auto&) { done = true; },
      [&](const std::string& line) { notes.push_back(line); });
  ASSERT_TRUE(rig.run_until([&] { return done; }));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("lnet configure --all"), std::string::npos) << notes[0];
}

TEST_F(ChangeLists, routes_are_shown_in_the_order_of_the_configuration) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  std::string wanted;
  for (int i = 1; i <= 9; ++i) {
    ASSERT_EQ(rig.apply(a, NodeRig::route_add("tcp" + std::to_string(i), "10.1.0.7@tcp")), "");
    wanted += "tcp" + std::to_string(i) + " ";
  }
  std::string shown;
  for (const api::RouteShow& one : route_values(a.node->control())) shown += net_text(one.route.net) + " ";
  EXPECT_EQ(shown, wanted);
}

// Goal: if a ping by the user finds another list than the known one, this node discovers the peer again.
TEST_F(ChangeLists, a_ping_that_shows_another_list_is_merged) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  auto& b = rig.add({"10.1.0.7@tcp", "10.1.0.8@tcp"});
  discover(a, "10.1.0.7@tcp");
  ASSERT_EQ(rig.stop(b), "");
  b.node.reset();
  rig.nodes.pop_back();
  auto& again = rig.add({"10.1.0.7@tcp"});
  (void)again;
  ASSERT_TRUE(rig.run_until([&] { return rig.ping(a, "10.1.0.7@tcp", "", 5s).error == 0; }, 600s));
  EXPECT_TRUE(rig.run_until([&] { return nids(a, "10.1.0.7@tcp") == "10.1.0.7@tcp"; }, 5s));
}

// Goal: discovery of a peer succeeds each time, although one of its NIDs cannot be reached, while another NID answers.
TEST_F(ChangeLists, one_dead_nid_does_not_fail_discovery) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  rig.add({"10.1.0.7@tcp"});
  ASSERT_EQ(rig.apply(a, peer_add("10.1.0.7@tcp", {"10.1.0.8@tcp"})), "");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(discover(a, "10.1.0.7@tcp", true).front().error, 0) << i;
}

// Goal: if memory runs out within a change, its list fails and is undone like after any other error.
TEST_F(ChangeLists, a_change_without_memory_is_undone) {
  auto& a = rig.add({"10.1.0.1@tcp"});
  // The applier calls this function when a list unconfigures LNet.
  a.node->applier().set_in_use([]() -> std::string { throw std::bad_alloc(); });
  EXPECT_EQ(rig.apply(a, {{NodeRig::route_add("tcp7", "10.1.0.7@tcp"), {}}, {config::LnetUnconfigure{}, {}}}),
            "-12 there is no memory for this change, and nothing was changed: change less at a time, or free memory\n");
  EXPECT_EQ(routes(a), "");
  EXPECT_EQ(nis(a), "10.1.0.1@tcp");
  a.node->applier().set_in_use({});
  EXPECT_EQ(rig.apply(a, NodeRig::route_add("tcp7", "10.1.0.7@tcp")), "");
}

}  // namespace
}  // namespace ulnet::test
