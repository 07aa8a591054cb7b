// The status that a peer reports for its NIs, and the messages from them: status, health, `peer show`
// (docs/wire/lnet.md §5.6).
#include "control/api/show_values.h"
#include "control/discovery/runner.h"
#include "control/lnd_host.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// This node, and a peer with two NIs that it has discovered.
class PeerStatus : public testing::Test {
 protected:
  PeerStatus() { discover(); }
  void TearDown() override { rig.stop_all(); }

  void discover() {
    bool done = false;
    a.node->control().discovery->discover({nid("10.0.0.2@tcp")}, true, [&](const auto&) { done = true; });
    EXPECT_TRUE(rig.run_until([&] { return done; }));
  }
  PeerNi& second() { return *a.node->control().peers->find(nid("10.0.0.3@tcp")); }
  /// The peer reports its second NI down or up, and still answers over it.
  void fatal(bool on) {
    Control& c = b.node->control();
    c.lnd_hosts[1]->ni_fatal(c.nis->find(nid("10.0.0.3@tcp"))->id, on);
    rig.run_for(100ms);
  }
  /// In the view of the workers.
  bool ranks_last() {
    const PeerRef peer = a.node->worker(WorkerId{0}).view->peers->find(nid("10.0.0.3@tcp"));
    return peer.ni().known_down;
  }
  std::string shown() {
    for (const api::PeerNiShow& ni : peer_value(a.node->control(), *second().peer).nis)
      if (ni.nid == nid("10.0.0.3@tcp")) return ni.state;
    return "none";
  }

  NodeRig rig;
  RigNode& a = rig.add({"10.0.0.1@tcp"});
  RigNode& b = rig.add({"10.0.0.2@tcp", "10.0.0.3@tcp"});
};

TEST_F(PeerStatus, down_costs_health_sensitivity) {
  ASSERT_EQ(rig.apply(a, config::SetValue{"health_sensitivity", 250}), "");
  fatal(true);
  EXPECT_EQ(second().health.value(), 750);
}

TEST_F(PeerStatus, down_costs_nothing_without_sensitivity) {
  ASSERT_EQ(rig.apply(a, config::SetValue{"health_sensitivity", 0}), "");
  fatal(true);
  EXPECT_EQ(second().health.value(), 1000);
  EXPECT_FALSE(ranks_last()) << "no ping would ever show that the NI is up";
}

// Goal: an NI that is reported as down ranks last, until a message comes from it, also if its health is held.
TEST_F(PeerStatus, down_ranks_last_until_the_ni_is_heard_of) {
  EXPECT_FALSE(ranks_last());
  second().health.set_by_hand(900);
  fatal(true);
  EXPECT_TRUE(ranks_last());
  ASSERT_EQ(rig.ping(b, "10.0.0.1@tcp", "10.0.0.3@tcp").error, 0);
  rig.run_for(2s);
  EXPECT_FALSE(ranks_last());
}

// Goal: `peer show` of a router shows the reported status, until a message comes from the NI.
TEST_F(PeerStatus, down_is_shown_until_the_ni_is_heard_of) {
  rig.start_routing(a);
  EXPECT_EQ(shown(), "up");
  fatal(true);
  EXPECT_EQ(shown(), "down");
  ASSERT_EQ(rig.ping(b, "10.0.0.1@tcp", "10.0.0.3@tcp").error, 0);
  rig.run_for(100ms);
  EXPECT_EQ(shown(), "up");
}

// Goal: the peer reports an NI as down that is on a net without this node. So its health falls before it has memory
// here. When this node joins the net, workers avoid the NI. When messages come from it, its health rises as that of any
// other.
TEST(PeerStatusOfFarNi, rises_when_its_net_becomes_local) {
  NodeRig rig;
  RigNode& a = rig.add({"10.0.0.1@tcp"});
  RigNode& b = rig.add({"10.0.0.2@tcp", "10.1.0.2@tcp1"});
  Control& c = b.node->control();
  c.lnd_hosts[1]->ni_fatal(c.nis->find(nid("10.1.0.2@tcp1"))->id, true);
  bool done = false;
  a.node->control().discovery->discover({nid("10.0.0.2@tcp")}, true, [&](const auto&) { done = true; });
  EXPECT_TRUE(rig.run_until([&] { return done; }));
  const PeerNi& far = *a.node->control().peers->find(nid("10.1.0.2@tcp1"));
  EXPECT_EQ(far.blocks, nullptr);
  EXPECT_EQ(far.health.value(), 900);
  ASSERT_EQ(rig.apply(a, NodeRig::net_add("10.1.0.1@tcp1")), "");
  EXPECT_NE(far.blocks, nullptr);
  EXPECT_TRUE(far.watch.avoided);
  ASSERT_EQ(rig.ping(b, "10.1.0.1@tcp1", "10.1.0.2@tcp1").error, 0);
  EXPECT_TRUE(rig.run_until([&] { return far.health.value() == 1000; }));
  EXPECT_FALSE(far.watch.avoided);
  rig.stop_all();
}

}  // namespace
}  // namespace ulnet::test
