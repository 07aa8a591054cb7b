// Why an NI that is being deleted is still there, and the states that `net show -v` and `peer show -v` name.
#include "control/api/show_values.h"
#include "control/discovery/runner.h"
#include "control/lnd_host.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

api::LocalNiShow shown(RigNode& node, const std::string& text) {
  for (const api::NetShow& net : net_values(node.node->control(), {}, true))
    for (const api::LocalNiShow& ni : net.nis)
      if (ni.nid == nid(text)) return ni;
  return {};
}

std::string net_state_of(RigNode& node, const std::string& text) {
  for (const api::NetShow& one : net_values(node.node->control(), {}, true))
    if (one.net == net(text)) return one.state;
  return "none";
}

std::string peer_ni_state_of(RigNode& node, const std::string& text) {
  Control& c = node.node->control();
  PeerNi* ni = c.peers->find(nid(text));
  return ni == nullptr ? "none" : peer_value(c, *ni->peer).nis.front().ni_state;
}

config::NetDel del_of(const std::string& text) {
  config::NetDel del;
  del.net = nid(text).net();
  del.nid = nid(text);
  return del;
}

struct Deletion {
  std::vector<std::string> notes;
  std::string errors = "not answered";
  void start(RigNode& at, config::Change change) {
    at.node->apply(
        {{std::move(change), {}}},
        [this](const config::Problems& wrong) { errors = wrong.empty() ? "" : wrong.front().what; },
        [this](const std::string& line) { notes.push_back(line); });
  }
  [[nodiscard]] bool done() const { return errors != "not answered"; }
};

// Goal: the client that deletes an NI gets repeated notes of the reason why the NI is still in use. `net show -v` shows
// the same reason.
// Method: the peer that gets the push of the deletion does not answer.
TEST(InUse, a_slow_deletion_reports_its_reason) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"});
  rig.add({"10.0.0.3@tcp"});
  bool discovered = false;
  a.node->control().discovery->discover({nid("10.0.0.3@tcp")}, false, [&](const auto&) { discovered = true; });
  ASSERT_TRUE(rig.run_until([&] { return discovered; }));
  for (const char* own : {"10.0.0.1@tcp", "10.0.0.2@tcp"}) rig.fabric.cut(nid(own), nid("10.0.0.3@tcp"));
  Deletion deletion;
  deletion.start(a, del_of("10.0.0.2@tcp"));
  rig.run_for(500ms);
  EXPECT_TRUE(deletion.notes.empty()) << "nobody is troubled by what takes a moment";
  const api::LocalNiShow leaving = shown(a, "10.0.0.2@tcp");
  EXPECT_EQ(leaving.state, "deleting");
  EXPECT_NE(leaving.in_use.find("in use: 1 peer has not acknowledged its deletion (10.0.0.3@tcp)"), std::string::npos)
      << leaving.in_use;
  EXPECT_NE(leaving.in_use.find("; the NI keeps serving for at most 4"), std::string::npos) << leaving.in_use;
  EXPECT_EQ(shown(a, "10.0.0.1@tcp").in_use, "");
  ASSERT_TRUE(rig.run_until([&] { return deletion.done(); }));
  EXPECT_EQ(deletion.errors, "");
  ASSERT_GE(deletion.notes.size(), 2u) << "every 2 s";
  const std::string words = "10.0.0.2@tcp is still in use: 1 peer has not acknowledged its deletion (10.0.0.3@tcp)";
  EXPECT_EQ(deletion.notes.front().substr(0, words.size()), words);
  EXPECT_NE(std::find(a.journal.begin(), a.journal.end(), deletion.notes.front()), a.journal.end());
  rig.fabric.heal_all();
  rig.stop_all();
}

// Goal: messages that hold an NI are counted, and a closing NI shows its count. An attempt to add the NI again fails
// with this reason.
// Method: a put waits on a lazy portal of the NI, which is deleted at once. The worker gets no turn.
TEST(InUse, messages_are_named) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  auto& b = rig.add({"10.0.0.2@tcp"});
  ASSERT_TRUE(b.node->portal_open(PortalIndex{9}, WorkerId{0}, PortalMode::kSingle, true));
  Submitter& submitter = **a.node->submitter_open(WorkerId{0}, {.ops = 8, .mds = 4, .eqs = 1, .segment_blocks = 1});
  const EqHandle eq = *submitter.eq_open(16u);
  std::array<std::byte, 64> bytes{};
  const Segment segment{bytes.data(), bytes.size()};
  const MdHandle md = *submitter.md_bind({.segments = {&segment, 1}, .threshold = 1, .eq = eq});
  PutSpec spec;
  spec.md = md;
  spec.target = {nid("10.0.0.2@tcp"), kLnetPid};
  spec.portal = 9;
  ASSERT_TRUE(submitter.put(spec));
  LocalNi& ni = *b.node->control().nis->find(nid("10.0.0.2@tcp"));
  ASSERT_TRUE(rig.run_until([&] { return ni.receiving() == 1; }));
  b.node->control().nis->remove(ni, rig.now);
  const std::string closing = b.node->control().nis->in_use(ni, {}, rig.now);
  EXPECT_EQ(closing, "in use: 1 message coming in or held; the NI closes in at most 5000 ms");
  const auto again = b.node->control().nis->add(net("tcp"), NodeRig::net_add("10.0.0.2@tcp").ni, 100, {}, rig.now);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, -EBUSY);
  EXPECT_EQ(again.error().what, "10.0.0.2@tcp is still being deleted (" + closing + "); try again");
  rig.stop_all();
}

TEST(States, follow_links_traffic_and_deletion) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"});
  rig.add({"10.0.0.3@tcp"});
  EXPECT_EQ(shown(a, "10.0.0.1@tcp").state, "created");
  EXPECT_EQ(net_state_of(a, "tcp"), "active");
  rig.fabric.link_down(nid("10.0.0.2@tcp"));
  ASSERT_TRUE(rig.run_until([&] { return shown(a, "10.0.0.2@tcp").state == "failed"; }));
  EXPECT_EQ(net_state_of(a, "tcp"), "active") << "the other NI is up";
  rig.fabric.link_down(nid("10.0.0.1@tcp"));
  ASSERT_TRUE(rig.run_until([&] { return net_state_of(a, "tcp") == "in-active"; }));
  for (const char* one : {"10.0.0.1@tcp", "10.0.0.2@tcp"}) rig.fabric.link_up(nid(one));
  ASSERT_TRUE(rig.run_until([&] { return net_state_of(a, "tcp") == "active"; }));

  const auto set_health = [&](const std::string& text, int64_t health) {
    ASSERT_EQ(rig.apply(a, config::NetSet{.nid = nid(text), .health = health}), "");
  };
  set_health("10.0.0.1@tcp", 0);
  EXPECT_EQ(shown(a, "10.0.0.1@tcp").state, "failed");
  EXPECT_EQ(net_state_of(a, "tcp"), "active");
  set_health("10.0.0.2@tcp", 0);
  EXPECT_EQ(net_state_of(a, "tcp"), "in-active") << "the links are up, but no NI carries messages";
  set_health("10.0.0.2@tcp", 500);
  EXPECT_EQ(net_state_of(a, "tcp"), "active");
  for (const char* one : {"10.0.0.1@tcp", "10.0.0.2@tcp"}) set_health(one, 1000);
  Control& c = a.node->control();
  c.lnd_hosts[1]->ni_speed(c.nis->find(nid("10.0.0.2@tcp"))->id, {10'000, 25'000});
  EXPECT_EQ(shown(a, "10.0.0.2@tcp").state, "degraded");
  EXPECT_EQ(shown(a, "10.0.0.2@tcp").speed, "10000 of 25000 Mbit/s");
  EXPECT_EQ(shown(a, "10.0.0.1@tcp").speed, "");

  EXPECT_EQ(peer_ni_state_of(a, "10.0.0.3@tcp"), "none");
  config::PeerAdd add;
  add.peer.primary = nid("10.0.0.3@tcp");
  ASSERT_EQ(rig.apply(a, add), "");
  EXPECT_EQ(peer_ni_state_of(a, "10.0.0.3@tcp"), "created");
  ASSERT_EQ(rig.ping(a, "10.0.0.3@tcp").error, 0);
  EXPECT_EQ(peer_ni_state_of(a, "10.0.0.3@tcp"), "connected");
  for (const auto& [health, state] : {std::pair(0, "failed"), std::pair(1, "connected")}) {
    ASSERT_EQ(rig.apply(a, config::PeerSet{.nid = nid("10.0.0.3@tcp"), .health = health}), "");
    EXPECT_EQ(peer_ni_state_of(a, "10.0.0.3@tcp"), state);
  }

  Deletion deletion;
  config::NetDel del;
  del.net = net("tcp");
  deletion.start(a, del);
  rig.run_for(10ms);
  EXPECT_EQ(shown(a, "10.0.0.1@tcp").state, "deleting");
  EXPECT_EQ(net_state_of(a, "tcp"), "deleting");
  ASSERT_TRUE(rig.run_until([&] { return deletion.done(); }));
  EXPECT_EQ(net_state_of(a, "tcp"), "none");
  rig.stop_all();
}

}  // namespace
}  // namespace ulnet::test
