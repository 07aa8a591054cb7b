// Memory, numbers and credits of peer NIs: kept when NIs change, given back after removal, refused at the bound.
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

config::PeerAdd peer_of(const std::string& primary, const std::vector<std::string>& nids = {}) {
  config::PeerAdd add;
  add.peer.primary = nid(primary);
  for (const auto& text : nids) add.peer.nids.push_back(nid(text));
  return add;
}
config::PeerDel peer_del(const std::string& primary) {
  config::PeerDel del;
  del.primary = nid(primary);
  return del;
}
config::NetAdd net_with(const std::string& text, int peer_credits) {
  config::NetAdd add = NodeRig::net_add(text);
  add.ni.tunables.peer_credits = peer_credits;
  return add;
}
config::NetDel net_without(const std::string& text) {
  config::NetDel del;
  del.net = nid(text).net();
  del.nid = nid(text);
  return del;
}

// Goal: a peer NI keeps its number, server, memory and credits while its net is local, whichever local NIs the net has.
TEST(PeerMemory, stays_when_the_first_ni_of_its_net_changes) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 3);
  ASSERT_EQ(rig.apply(a, net_with("10.0.0.2@tcp", 16)), "");
  PeerDb& peers = *a.node->control().peers;
  std::vector<PeerNi*> nis;
  for (const char* text : {"10.0.0.7@tcp", "10.0.0.8@tcp", "10.0.0.9@tcp"}) nis.push_back(*peers.resolve(nid(text)));
  struct Seen {
    PeerNiId id;
    WorkerId server;
    PeerBlocks* blocks;
    bool operator==(const Seen&) const = default;
  };
  const auto look = [&] {
    std::vector<Seen> seen;
    for (const PeerNi* ni : nis) seen.push_back({ni->id, ni->server, ni->blocks.get()});
    return seen;
  };
  const auto before = look();
  for (int i = 0; i < 20; ++i) {
    const std::string first = i % 2 == 0 ? "10.0.0.1@tcp" : "10.0.0.2@tcp";
    ASSERT_EQ(rig.apply(a, net_without(first)), "");
    ASSERT_EQ(rig.apply(a, net_with(first, 20 + i)), "");
    EXPECT_EQ(look(), before);
    EXPECT_EQ(peers.allocated(), 3u);
    EXPECT_EQ(nis.front()->tx_credits, 8);
  }
  EXPECT_EQ(peers.load(), (std::vector<uint32_t>{1, 1, 1}));
  rig.stop_all();
}

// Goal: if a net is deleted and added again with other credits, the peers on it get these credits in the same memory.
TEST(PeerMemory, credits_follow_a_net_that_comes_back) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  rig.add({"10.0.0.2@tcp"});
  ASSERT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
  const PeerNi& ni = *a.node->control().peers->find(nid("10.0.0.2@tcp"));
  const PeerBlocks* blocks = ni.blocks.get();
  for (const int credits : {32, 2, 8}) {
    ASSERT_EQ(rig.apply(a, net_without("10.0.0.1@tcp")), "");
    EXPECT_EQ(ni.blocks.get(), blocks);
    ASSERT_EQ(rig.apply(a, net_with("10.0.0.1@tcp", credits)), "");
    rig.run_for(100ms);
    EXPECT_EQ(ni.blocks.get(), blocks);
    EXPECT_EQ(ni.tx_credits, credits);
    EXPECT_EQ(blocks->slice.credits.total(), credits);
    EXPECT_EQ(blocks->slice.credits.free(), credits);
    EXPECT_EQ(blocks->slice.rtr.total(), credits);
    EXPECT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
  }
  rig.stop_all();
}

// Goal: the memory of a removed NID is given back when nothing refers to it. Without any message sent this is at once,
// otherwise when the connection ends. The load of the worker that served it goes down, too.
TEST(PeerMemory, of_removed_nids_is_given_back) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  auto& b = rig.add({"10.0.0.2@tcp"});
  PeerDb& peers = *a.node->control().peers;
  ASSERT_EQ(rig.apply(a, peer_of("10.0.0.9@tcp", {"10.0.0.10@tcp", "10.0.0.11@tcp"})), "");
  EXPECT_EQ(peers.allocated(), 3u);
  ASSERT_EQ(rig.apply(a, peer_del("10.0.0.9@tcp")), "");
  EXPECT_TRUE(rig.run_until([&] { return peers.allocated() == 0; }, 10s));
  EXPECT_EQ(peers.known(), 0u);
  ASSERT_EQ(rig.apply(a, peer_of("10.0.0.2@tcp")), "");
  ASSERT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
  const std::weak_ptr<PeerBlocks> blocks = peers.find(nid("10.0.0.2@tcp"))->blocks;
  ASSERT_EQ(rig.apply(a, peer_del("10.0.0.2@tcp")), "");
  rig.run_for(100s);
  EXPECT_EQ(peers.find(nid("10.0.0.2@tcp")), nullptr);
  EXPECT_FALSE(blocks.expired()) << "it is still connected";
  EXPECT_EQ(rig.stop(b), "");
  EXPECT_TRUE(rig.run_until([&] { return blocks.expired(); }, 200s));
  EXPECT_EQ(peers.allocated(), 0u);
  EXPECT_EQ(peers.load(), (std::vector<uint32_t>{0, 0}));
  rig.stop_all();
}

// Goal: a NID that comes back while its memory is being given back keeps the memory, and works.
TEST(PeerMemory, of_a_nid_that_comes_back_in_time_is_kept) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  rig.add({"10.0.0.2@tcp"});
  PeerDb& peers = *a.node->control().peers;
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(rig.apply(a, peer_of("10.0.0.2@tcp")), "");
    ASSERT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
    ASSERT_EQ(rig.apply(a, peer_del("10.0.0.2@tcp")), "");
    for (int turns = 0; turns < i; ++turns) rig.step();  // each time a bit further
  }
  ASSERT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
  rig.run_for(200s);
  EXPECT_EQ(peers.allocated(), 1u);
  EXPECT_EQ(peers.known(), 1u);
  rig.stop_all();
}

// Goal: NIDs on nets that are neither local nor routed have a name and no memory. A net or a route gives them memory,
// and sending works then.
TEST(PeerMemory, is_for_nets_that_can_be_reached) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  auto& b = rig.add({"10.0.0.2@tcp", "10.1.0.2@o2ib"});
  PeerDb& peers = *a.node->control().peers;
  ASSERT_EQ(rig.apply(a, peer_of("10.1.0.2@o2ib", {"10.0.0.2@tcp", "10.2.0.2@tcp7"})), "");
  EXPECT_EQ(peers.allocated(), 1u);
  EXPECT_EQ(peers.known(), 3u);
  const PeerView* view = a.node->control().publisher->current().peers->find(nid("10.0.0.2@tcp")).peer;
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->primary(), nid("10.1.0.2@o2ib"));
  EXPECT_EQ(view->nis.size(), 3u);
  EXPECT_EQ(view->nis.front().slice, nullptr);
  ASSERT_EQ(view->nets.size(), 1u) << "nothing can be sent over the others";
  EXPECT_EQ(view->nis[view->nets[0].first].nid, nid("10.0.0.2@tcp"));
  EXPECT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp 10.1.0.2@o2ib");
  ASSERT_EQ(rig.apply(a, NodeRig::net_add("10.1.0.1@o2ib")), "");
  EXPECT_EQ(peers.allocated(), 2u);
  EXPECT_EQ(NodeRig::text(rig.ping(a, "10.1.0.2@o2ib")), "10.0.0.2@tcp 10.1.0.2@o2ib");
  ASSERT_EQ(rig.apply(a, NodeRig::route_add("tcp7", "10.0.0.2@tcp")), "");
  EXPECT_EQ(peers.allocated(), 3u);
  EXPECT_EQ(peers.find(nid("10.2.0.2@tcp7"))->tx_credits, 0);
  ASSERT_EQ(rig.apply(a, peer_of("10.9.9.9@tcp9")), "");
  EXPECT_EQ(peers.known(), 4u);
  ASSERT_EQ(rig.apply(a, peer_del("10.9.9.9@tcp9")), "");
  EXPECT_EQ(peers.known(), 3u) << "a name is forgotten at once";
  (void)b;
  rig.stop_all();
}

// Goal: at the bound, a configured list fails whole and takes nothing. A NID without memory gets it when memory is free
// again.
TEST(PeerMemory, bound_is_for_what_is_there) {
  NodeRig rig;
  NodeConfig config;
  config.peers_max = 4;
  auto& a = rig.add({"10.0.0.1@tcp"}, 1, config);
  PeerDb& peers = *a.node->control().peers;
  ASSERT_EQ(rig.apply(a, peer_of("10.0.0.2@tcp", {"10.0.0.3@tcp"})), "");
  EXPECT_NE(rig.apply(a, peer_of("10.0.0.4@tcp", {"10.0.0.5@tcp", "10.0.0.6@tcp"})).find("-12 "), std::string::npos);
  EXPECT_TRUE(rig.run_until([&] { return peers.allocated() == 2; }, 10s)) << "what the failed list took";
  EXPECT_EQ(peers.known(), 2u);
  ASSERT_EQ(rig.apply(a, peer_of("10.1.0.4@o2ib", {"10.1.0.5@o2ib", "10.1.0.6@o2ib"})), "");
  ASSERT_EQ(rig.apply(a, NodeRig::net_add("10.1.0.1@o2ib")), "");
  EXPECT_EQ(peers.allocated(), 4u);
  EXPECT_EQ(peers.find(nid("10.1.0.6@o2ib"))->blocks, nullptr);
  EXPECT_EQ(peers.resolve(nid("10.1.0.6@o2ib")).error().code, -ENOMEM);
  ASSERT_EQ(rig.apply(a, peer_del("10.0.0.2@tcp")), "");
  EXPECT_TRUE(rig.run_until([&] { return peers.find(nid("10.1.0.6@o2ib"))->blocks != nullptr; }, 10s));
  EXPECT_EQ(peers.allocated(), 3u);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(rig.apply(a, peer_of("10.0.9." + std::to_string(i) + "@tcp")), "") << i;
    ASSERT_EQ(rig.apply(a, peer_del("10.0.9." + std::to_string(i) + "@tcp")), "");
    ASSERT_TRUE(rig.run_until([&] { return peers.allocated() == 3; }, 10s)) << i;
  }
  rig.stop_all();
}

}  // namespace
}  // namespace ulnet::test
