// NIDs of gateways that leave the peer table, or that another node claims. Their routes stay alive or come back by
// themselves, and the journal reports it (docs/decisions.md).
#include <algorithm>

#include "control/discovery/runner.h"
#include "dataplane/state/eq.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kNear = "10.1.0.2@tcp";
constexpr const char* kFar = "10.2.0.2@tcp1";

/// A client on tcp; a router whose primary NID is on tcp1, so that the route names a secondary NID; a third node.
class GatewayNids : public testing::Test {
 protected:
  GatewayNids() {
    rig.start_routing(router);
    EXPECT_EQ(rig.apply(client, NodeRig::route_add("tcp1", kNear)), "");
    EXPECT_TRUE(rig.run_until([&] { return peer_of(kNear) != nullptr && peer_of(kNear)->ni_count() == 2; }));
    EXPECT_EQ(peer_of(kNear)->primary().nid, nid(kFar));
    EXPECT_TRUE(alive());
  }
  void TearDown() override { rig.stop_all(); }

  bool alive() { return client.node->control().routes->routes().at(0).alive; }
  Peer* peer_of(const char* text) {
    const PeerNi* ni = client.node->control().peers->find(nid(text));
    return ni == nullptr ? nullptr : ni->peer;
  }
  /// The gateway is alive, and has been checked since.
  bool comes_back() {
    return rig.run_until(
        [&] { return alive() && peer_of(kNear) != nullptr && peer_of(kNear)->has(kPeerRtrDiscovered); }, 100s);
  }
  bool journal_names(const char* one, const char* two) {
    return std::any_of(client.journal.begin(), client.journal.end(), [&](const std::string& line) {
      return line.find(one) != std::string::npos && line.find(two) != std::string::npos;
    });
  }
  /// Discovers `text` until client and node have each other's newest list and no push of the node is under way.
  void discover(RigNode& node, const char* text) {
    bool discovered = false;
    client.node->control().discovery->discover({nid(text)}, true, [&](const auto&) { discovered = true; });
    ASSERT_TRUE(rig.run_until([&] { return discovered; }));
    Control& c = node.node->control();
    ASSERT_TRUE(rig.run_until([&] {
      const PeerNi* ni = c.peers->find(nid("10.1.0.1@tcp"));
      return ni != nullptr && ni->peer->up_to_date && c.discovery->all_told();
    }));
  }
  /// The third node claims this NID by a push. Its answers to pings do not list this NID.
  void claim(const char* text) {
    discover(other, "10.1.0.3@tcp");
    wire::PingInfo info;
    info.features =
        wire::kFeatureNiStatus | wire::kFeatureRteDisabled | wire::kFeatureMultiRail | wire::kFeatureDiscovery;
    info.features |= wire::kFeatureCopies | uint32_t{peer_of("10.1.0.3@tcp")->life} << wire::kLifeShift;
    info.sequence = ++claims + 100;
    info.nis = {{nid("10.1.0.3@tcp"), wire::kNiUp}, {nid(text), wire::kNiUp}};
    const auto bytes = wire::ping_info_encode(info);
    Event event;
    event.source = nid("10.1.0.3@tcp");
    event.target = nid("10.1.0.1@tcp");
    client.node->control().discovery->push_came(event, bytes);
    rig.run_for(100ms);
  }

  NodeRig rig;
  RigNode& client = rig.add({"10.1.0.1@tcp"});
  RigNode& router = rig.add({kFar, kNear});
  RigNode& other = rig.add({"10.1.0.3@tcp"});
  uint32_t claims = 0;
};

TEST_F(GatewayNids, peer_add_of_its_primary_nid_leaves_the_route) {
  config::PeerAdd add;
  add.peer.primary = nid(kFar);
  ASSERT_EQ(rig.apply(client, add), "");
  EXPECT_TRUE(comes_back());
  rig.run_for(100s);
  EXPECT_TRUE(alive());
  EXPECT_TRUE(journal_names("gateway 10.1.0.2@tcp is a separate peer", "it was a NID of peer 10.2.0.2@tcp1"));
}

// Goal: a gateway keeps its NID, because its primary NID is configured as another peer. When it reports that it no
// longer routes, its route is dead.
TEST_F(GatewayNids, a_gateway_beside_its_configured_primary_stops_routing) {
  config::PeerAdd add;
  add.peer.primary = nid(kFar);
  ASSERT_EQ(rig.apply(client, add), "");
  ASSERT_TRUE(comes_back());
  ASSERT_NE(peer_of(kNear), peer_of(kFar));
  ASSERT_EQ(rig.apply(router, config::SetRouting{false}), "");
  EXPECT_TRUE(rig.run_until([&] { return !alive(); }, 200s));
  rig.start_routing(router);
  EXPECT_TRUE(rig.run_until([&] { return alive(); }, 200s));
}

TEST_F(GatewayNids, refresh_without_its_nid_leaves_the_route) {
  config::PeerAdd add;
  add.peer.primary = nid(kFar);
  add.peer.nids = {nid(kNear)};
  ASSERT_EQ(rig.apply(client, add), "");
  add.peer.nids.clear();
  add.refresh = true;
  ASSERT_EQ(rig.apply(client, add), "");
  EXPECT_TRUE(comes_back());
  EXPECT_NE(peer_of(kNear), peer_of(kFar));
  EXPECT_TRUE(journal_names(kNear, "gateway"));
}

TEST_F(GatewayNids, peer_del_of_its_nid_is_refused) {
  config::PeerAdd add;
  add.peer.primary = nid(kFar);
  add.peer.nids = {nid(kNear)};
  ASSERT_EQ(rig.apply(client, add), "");
  config::PeerDel del;
  del.primary = nid(kFar);
  del.nids = {nid(kNear)};
  EXPECT_EQ(rig.apply(client, del), "-16 failed to del peer: 10.1.0.2@tcp is a gateway; delete its routes first\n");
  EXPECT_TRUE(comes_back());
}

// Goal: while the gateway answers, it keeps a NID that it lists itself. The journal names both nodes.
TEST_F(GatewayNids, a_claim_on_a_living_gateway_is_refused) {
  claim(kFar);
  ASSERT_NE(peer_of(kFar), nullptr);
  EXPECT_EQ(peer_of(kFar), peer_of(kNear));
  EXPECT_NE(peer_of(kFar), peer_of("10.1.0.3@tcp"));
  EXPECT_EQ(peer_of(kFar)->primary().nid, nid(kFar));
  EXPECT_TRUE(alive());
  EXPECT_TRUE(journal_names("10.1.0.3@tcp", kFar));
  rig.run_for(100s);
  EXPECT_TRUE(alive());
}

// Goal: a NID of a gateway that does not answer goes to the node that claims it, with a warning. The route stays with
// the gateway's other NID, and comes back with the gateway.
TEST_F(GatewayNids, a_claim_on_a_dead_gateway_wins_and_the_route_comes_back) {
  rig.fabric.cut(nid("10.1.0.1@tcp"), nid(kNear));
  rig.fabric.reset(nid("10.1.0.1@tcp"), nid(kNear));
  ASSERT_TRUE(rig.run_until([&] { return !alive(); }, 200s));
  claim(kFar);
  EXPECT_EQ(peer_of(kFar), peer_of("10.1.0.3@tcp"));
  EXPECT_TRUE(journal_names("10.1.0.3@tcp", kFar));
  ASSERT_NE(peer_of(kNear), nullptr);
  EXPECT_NE(peer_of(kNear), peer_of(kFar));
  rig.fabric.heal_all();
  EXPECT_TRUE(comes_back());
  // The newest list is that of the gateway, and has both NIDs again.
  ASSERT_NE(peer_of(kNear), nullptr);
  EXPECT_EQ(peer_of(kFar), peer_of(kNear));
  EXPECT_EQ(peer_of(kNear)->primary().nid, nid(kFar));
  EXPECT_NE(peer_of("10.1.0.3@tcp"), peer_of(kFar));
}

// Goal: if two discovered peers claim one NID, the newest list counts, and the journal names both.
TEST_F(GatewayNids, a_claim_on_an_ordinary_peer_wins_with_a_warning) {
  auto& victim = rig.add({"10.1.0.8@tcp", "10.1.0.9@tcp"});
  discover(victim, "10.1.0.8@tcp");
  ASSERT_EQ(peer_of("10.1.0.9@tcp"), peer_of("10.1.0.8@tcp"));
  claim("10.1.0.9@tcp");
  EXPECT_EQ(peer_of("10.1.0.9@tcp"), peer_of("10.1.0.3@tcp"));
  ASSERT_NE(peer_of("10.1.0.8@tcp"), nullptr);
  EXPECT_EQ(peer_of("10.1.0.8@tcp")->ni_count(), 1u);
  EXPECT_TRUE(journal_names("10.1.0.3@tcp", "10.1.0.8@tcp"));
  discover(victim, "10.1.0.8@tcp");
  EXPECT_EQ(peer_of("10.1.0.9@tcp"), peer_of("10.1.0.8@tcp")) << "its node says so again";
  ASSERT_NE(peer_of("10.1.0.3@tcp"), nullptr);
  EXPECT_EQ(peer_of("10.1.0.3@tcp")->ni_count(), 1u);
}

}  // namespace
}  // namespace ulnet::test
