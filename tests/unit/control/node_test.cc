// Whole nodes over a simulated network: they find each other, exchange messages, and come to rest.
#include "control/discovery/runner.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

// Goal: two nodes without any knowledge of each other ping each other, both ways. A third node is not there.
// Method: one worker each, then three workers each.
TEST(Node, two_nodes_ping_each_other) {
  for (unsigned workers : {1u, 3u}) {
    NodeRig rig;
    auto& a = rig.add({"10.0.0.1@tcp"}, workers);
    auto& b = rig.add({"10.0.0.2@tcp", "10.0.0.3@tcp"}, workers);
    EXPECT_EQ(rig.text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp 10.0.0.3@tcp");
    EXPECT_EQ(rig.text(rig.ping(b, "10.0.0.1@tcp")), "10.0.0.1@tcp");
    EXPECT_EQ(rig.text(rig.ping(a, "10.0.0.3@tcp", "10.0.0.1@tcp")), "10.0.0.2@tcp 10.0.0.3@tcp");
    EXPECT_EQ(rig.ping(a, "10.0.0.9@tcp1").error, -EHOSTUNREACH);
    EXPECT_NE(rig.ping(a, "10.0.0.9@tcp").error, 0);
    rig.stop_all();
  }
}

// Goal: ping info has the features, sequence number and pid of the node (docs/wire/lnet.md §4).
TEST(Node, ping_info_says_what_the_node_is) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  auto& b = rig.add({"10.0.0.2@tcp"});
  PingAnswer answer = rig.ping(a, "10.0.0.2@tcp");
  EXPECT_EQ(answer.info.sequence, 2u);
  EXPECT_EQ(answer.info.pid, 12345u);
  EXPECT_EQ(answer.info.features & ~wire::kLifeMask,
            uint32_t(wire::kFeatureNiStatus | wire::kFeatureMultiRail | wire::kFeatureRteDisabled |
                     wire::kFeatureDiscovery | wire::kFeatureCopies));
  ASSERT_EQ(rig.apply(b, NodeRig::net_add("10.0.0.7@tcp")), "");
  answer = rig.ping(a, "10.0.0.2@tcp");
  EXPECT_EQ(answer.info.sequence, 3u);
  EXPECT_EQ(rig.text(answer), "10.0.0.2@tcp 10.0.0.7@tcp");
  rig.stop_all();
}

// Goal: a client and a server on different nets reach each other through a router, and not without one.
TEST(Node, three_nodes_ping_through_a_router) {
  NodeRig rig;
  auto& client = rig.add({"10.1.0.1@tcp"}, 2);
  auto& router = rig.add({"10.1.0.2@tcp", "10.2.0.2@tcp1"}, 2);
  auto& server = rig.add({"10.2.0.1@tcp1"}, 2);
  EXPECT_EQ(rig.ping(client, "10.2.0.1@tcp1").error, -EHOSTUNREACH);
  ASSERT_EQ(rig.apply(client, NodeRig::route_add("tcp1", "10.1.0.2@tcp")), "");
  ASSERT_EQ(rig.apply(server, NodeRig::route_add("tcp", "10.2.0.2@tcp1")), "");
  rig.run_for(100ms);  // both have checked their gateway
  EXPECT_EQ(rig.ping(client, "10.2.0.1@tcp1").error, -EHOSTUNREACH) << "the router does not route yet";
  ASSERT_EQ(rig.apply(router, {{config::SetBuffers{64, 64, 4}, {}}, {config::SetRouting{true}, {}}}), "");
  rig.run_for(1s);
  EXPECT_NE(rig.ping(client, "10.1.0.2@tcp").info.features & wire::kFeatureRteDisabled, 0u)
      << "it waits 110 s to say so";
  EXPECT_EQ(rig.ping(client, "10.2.0.1@tcp1").error, -EHOSTUNREACH);
  rig.run_for(111s);
  EXPECT_EQ(rig.ping(client, "10.1.0.2@tcp").info.features & wire::kFeatureRteDisabled, 0u);
  EXPECT_EQ(rig.text(rig.ping(client, "10.2.0.1@tcp1")), "10.2.0.1@tcp1");
  EXPECT_EQ(rig.text(rig.ping(server, "10.1.0.1@tcp")), "10.1.0.1@tcp");
  rig.stop_all();
}

// Goal: a node answers its own pings over loopback, configured or not.
TEST(Node, pings_itself) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  EXPECT_EQ(rig.text(rig.ping(a, "0@lo")), "10.0.0.1@tcp");
  EXPECT_EQ(rig.text(rig.ping(a, "10.0.0.1@tcp")), "10.0.0.1@tcp");
  rig.stop_all();
}

// Goal: a node that is to discover itself answers with its NIDs, and is no peer of its own.
TEST(Node, discovers_itself_without_a_peer) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@o2ib"});
  for (const char* self : {"0@lo", "10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@o2ib"}) {
    std::vector<DiscoverAnswer> answers;
    a.node->control().discovery->discover({nid(self)}, true, [&](auto got) { answers = std::move(got); });
    ASSERT_TRUE(rig.run_until([&] { return !answers.empty(); })) << self;
    EXPECT_EQ(answers[0].error, 0) << self;
    EXPECT_TRUE(answers[0].multi_rail) << self;
    EXPECT_EQ(answers[0].nids, (std::vector<Nid>{nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"), nid("10.1.0.1@o2ib")}));
  }
  EXPECT_TRUE(a.node->control().peers->peers().empty());
  rig.stop_all();
}

// Goal: an NI is deleted while pings come over it. The NI is gone from ping info and views, nothing hangs, and it can
// be added again.
TEST(Node, ni_deleted_and_added_again) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  auto& b = rig.add({"10.0.0.2@tcp", "10.0.0.3@o2ib"}, 2);
  ASSERT_EQ(rig.ping(a, "10.0.0.2@tcp").error, 0);
  config::NetDel del;
  del.net = net("tcp");
  ASSERT_EQ(rig.apply(b, del), "");
  EXPECT_EQ(b.node->control().nis->size(), 1u);
  EXPECT_NE(rig.ping(a, "10.0.0.2@tcp").error, 0);
  ASSERT_EQ(rig.apply(b, NodeRig::net_add("10.0.0.2@tcp")), "");
  rig.run_for(3s);
  EXPECT_EQ(rig.text(rig.ping(a, "10.0.0.2@tcp", "", 5s)), "10.0.0.3@o2ib 10.0.0.2@tcp");
  rig.stop_all();
}

// Goal: a message that waits on an application's lazy portal delays neither the deletion of an NI nor the stop of a
// node.
// Method: a put to a lazy portal without an entry, then `net del` at the target, and with another one a stop.
TEST(Node, goes_while_a_put_waits_on_a_lazy_portal) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  auto& b = rig.add({"10.0.0.2@tcp"}, 2);
  ASSERT_TRUE(b.node->portal_open(PortalIndex{9}, WorkerId{1}, PortalMode::kSingle, true));
  Submitter& submitter = **a.node->submitter_open(WorkerId{0}, {.ops = 8, .mds = 4, .eqs = 1, .segment_blocks = 1});
  const EqHandle eq = *submitter.eq_open(16u);
  std::array<std::byte, 64> bytes{};
  const Segment segment{bytes.data(), bytes.size()};
  const auto put = [&] {
    const MdHandle md = *submitter.md_bind({.segments = {&segment, 1}, .threshold = 1, .eq = eq});
    PutSpec spec;
    spec.md = md;
    spec.target = {nid("10.0.0.2@tcp"), kLnetPid};
    spec.portal = 9;
    return bool(submitter.put(spec));
  };
  const auto lazy = [&] { return b.node->worker(WorkerId{1}).portals[9].lazy.size(); };
  ASSERT_TRUE(put());
  ASSERT_TRUE(rig.run_until([&] { return lazy() == 1; }));
  config::NetDel del;
  del.net = net("tcp");
  ASSERT_EQ(rig.apply(b, del), "") << "deleting the NI must not wait for somebody to take the message";
  ASSERT_EQ(rig.apply(b, NodeRig::net_add("10.0.0.2@tcp")), "");
  rig.run_for(1s);  // the sender has seen that its connection is gone
  ASSERT_TRUE(put());
  ASSERT_TRUE(rig.run_until([&] { return lazy() == 1; }));
  EXPECT_EQ(rig.stop(b), "");
  rig.stop_all();
}

// Goal: starting and stopping leaves nothing behind.
TEST(Node, starts_and_stops_many_times) {
  for (unsigned round = 0; round < 20; ++round) {
    NodeRig rig(round + 1);
    auto& a = rig.add({"10.0.0.1@tcp"}, 1 + round % 3);
    rig.add({"10.0.0.2@tcp"}, 1 + round % 2);
    ASSERT_EQ(rig.ping(a, "10.0.0.2@tcp").error, 0) << round;
    if (round % 2 == 0) rig.stop_all();  // in other rounds the nodes are only destroyed
  }
}

}  // namespace
}  // namespace ulnet::test
