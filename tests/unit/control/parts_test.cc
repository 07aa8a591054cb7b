// Peers, routes, NIs and changes of a node, seen through the node that has them: whole nodes over a simulated network.
#include "config/export.h"
#include "config/ranges.h"
#include "control/api/requests.h"
#include "control/api/show_values.h"
#include "control/lnd_host.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

config::PeerAdd peer_add_of(const std::string& primary, const std::vector<std::string>& nids = {},
                            bool multi_rail = true) {
  config::PeerAdd add;
  add.peer.primary = nid(primary);
  for (const auto& text : nids) add.peer.nids.push_back(nid(text));
  add.peer.multi_rail = multi_rail;
  return add;
}

// Goal: a peer that a node meets is not multi-rail, has one source, and the least loaded worker serves it.
TEST(PeerDb, met_peers_are_placed_evenly_with_one_source) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"}, 3);
  PeerDb& peers = *a.node->control().peers;
  for (unsigned i = 10; i < 22; ++i) {
    auto ni = peers.resolve(nid("10.0.0." + std::to_string(i) + "@tcp"));
    ASSERT_TRUE(ni);
    EXPECT_FALSE((*ni)->peer->multi_rail());
    EXPECT_EQ((*ni)->source, nid(i % 2 == 0 ? "10.0.0.1@tcp" : "10.0.0.2@tcp"));
    EXPECT_EQ((*ni)->tx_credits, 8);
    EXPECT_EQ((*ni)->rtr_credits, 8);
  }
  EXPECT_EQ(peers.load(), (std::vector<uint32_t>{4, 4, 4}));
  EXPECT_EQ(peers.resolve(nid("10.0.0.10@o2ib")).error().code, -EHOSTUNREACH);
  EXPECT_EQ(*peers.resolve(nid("10.0.0.10@tcp")), peers.find(nid("10.0.0.10@tcp"))) << "found, not made again";
  rig.stop_all();
}

// Goal: the bound on peer NIs holds. Reaching it is an error, and the node goes on.
TEST(PeerDb, bounded) {
  NodeRig rig;
  NodeConfig config;
  config.peers_max = 4;
  auto& a = rig.add({"10.0.0.1@tcp"}, 1, config);
  PeerDb& peers = *a.node->control().peers;
  for (unsigned i = 0; i < 4; ++i) EXPECT_TRUE(peers.resolve(nid("10.0.0.1" + std::to_string(i) + "@tcp")));
  EXPECT_EQ(peers.resolve(nid("10.0.0.20@tcp")).error().code, -ENOMEM);
  EXPECT_EQ(rig.ping(a, "10.0.0.21@tcp").error, -ENOMEM);
  rig.stop_all();
}

// Goal: the source of a non-MR peer moves to another NI of the net when its own goes.
TEST(PeerDb, source_follows_nis) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"});
  PeerNi* ni = *a.node->control().peers->resolve(nid("10.0.0.9@tcp"));
  EXPECT_EQ(ni->source, nid("10.0.0.1@tcp"));
  config::NetDel del;
  del.net = net("tcp");
  del.nid = nid("10.0.0.1@tcp");
  ASSERT_EQ(rig.apply(a, del), "");
  EXPECT_EQ(ni->source, nid("10.0.0.2@tcp"));
  rig.stop_all();
}

// Goal: a peer NI cannot be reached, gets other credits and is then forgotten. No retry is left for it.
TEST(PeerDb, a_peer_ni_that_is_down_gets_other_credits_and_is_forgotten) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  PeerDb& peers = *a.node->control().peers;
  PeerNi& ni = **peers.resolve(nid("10.0.0.9@tcp"));
  peers.dead(ni, rig.now, -ECONNREFUSED);
  config::NetAdd add;
  add.net = net("tcp");
  add.ni.nid = nid("10.0.0.2@tcp");
  add.ni.tunables.peer_credits = 16;
  ASSERT_EQ(rig.apply(a, add), "");
  config::NetDel del;
  del.net = net("tcp");
  del.nid = nid("10.0.0.1@tcp");
  ASSERT_EQ(rig.apply(a, del), "");
  peers.forget(*ni.peer);
  std::vector<Nid> revived;
  peers.revive(rig.now + kRetryMax, [&](const PeerNi& one) { revived.push_back(one.nid); });
  EXPECT_TRUE(revived.empty());
  EXPECT_EQ(a.node->control().timers.at(TimerName::kPeerRetry), kForever);
  rig.stop_all();
}

// Goal: a message comes from a peer NI that is down. A node that sleeps until its next deadline notices it soon, long
// before the next try of a connection.
TEST(PeerDb, a_message_from_a_peer_ni_that_is_down_is_noticed_soon) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  PeerDb& peers = *a.node->control().peers;
  PeerNi& ni = **peers.resolve(nid("10.0.0.9@tcp"));
  for (int failure = 0; failure < 10; ++failure) peers.dead(ni, rig.now, -ECONNREFUSED);
  ASSERT_EQ(ni.life.retry_at, rig.now + kRetryMax);
  const auto next_look = [&] { return a.node->control().timers.at(TimerName::kPeerRetry); };
  EXPECT_LE(next_look(), rig.now + kHeardLook);
  unsigned changed = 0;
  const auto count = [&](const PeerNi&) { ++changed; };
  peers.revive(next_look(), count);
  EXPECT_TRUE(ni.life.down);
  ni.blocks->slice.last_alive_ns.set((rig.now + 1ms).time_since_epoch().count());
  peers.revive(next_look(), count);
  EXPECT_FALSE(ni.life.down);
  EXPECT_EQ(changed, 1u);
  EXPECT_EQ(next_look(), kForever);
  rig.stop_all();
}

// Goal: configured peers are added whole or not at all, refused as lnetctl refuses, shown primary first, and gone when
// deleted.
TEST(PeerDb, configured_peers) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.1.0.1@o2ib"});
  PeerDb& peers = *a.node->control().peers;
  ASSERT_TRUE(peers.resolve(nid("10.0.0.9@tcp"))) << "met before: gives way";
  ASSERT_EQ(rig.apply(a, peer_add_of("10.1.0.8@o2ib", {"10.0.0.9@tcp", "10.1.0.9@o2ib"})), "");
  const Peer& peer = *peers.find(nid("10.0.0.9@tcp"))->peer;
  EXPECT_EQ(peer.primary().nid, nid("10.1.0.8@o2ib"));
  EXPECT_EQ(peer.ni_count(), 3u);
  EXPECT_TRUE(peer.multi_rail());
  EXPECT_TRUE(peers.find(nid("10.0.0.9@tcp"))->source.is_any()) << "a multi-rail peer may see every source";
  const PeerView* view = a.node->control().publisher->current().peers->find(nid("10.1.0.9@o2ib")).peer;
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->primary(), nid("10.1.0.8@o2ib"));
  EXPECT_EQ(view->nets.size(), 2u);
  EXPECT_NE(rig.apply(a, peer_add_of("10.0.0.20@tcp", {"10.0.0.9@tcp"})).find("-17 failed to add peer"),
            std::string::npos);
  EXPECT_EQ(peers.find(nid("10.0.0.20@tcp")), nullptr);
  EXPECT_NE(rig.apply(a, peer_add_of("10.0.0.30@tcp", {"10.0.0.31@tcp"}, false)).find("-76 "), std::string::npos);
  config::PeerDel del;
  del.primary = nid("10.1.0.8@o2ib");
  ASSERT_EQ(rig.apply(a, del), "");
  EXPECT_EQ(peers.find(nid("10.0.0.9@tcp")), nullptr);
  EXPECT_FALSE(a.node->control().publisher->current().peers->find(nid("10.0.0.9@tcp")));
  EXPECT_NE(rig.apply(a, del).find("-2 failed to del primary peer"), std::string::npos);
  rig.stop_all();
}

// Goal: a refreshed peer has exactly the NIDs that are listed. If the list fails, the peer is as before.
TEST(PeerDb, refreshed_peers) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  PeerDb& peers = *a.node->control().peers;
  const auto nids_of = [&](const std::string& primary) {
    std::string text;
    for (const PeerNet& net : peers.find(nid(primary))->peer->nets)
      for (const PeerNi* ni : net.nis) text += (text.empty() ? "" : " ") + nid_text(ni->nid);
    return text;
  };
  ASSERT_EQ(rig.apply(a, peer_add_of("10.0.0.5@tcp", {"10.0.0.6@tcp", "10.0.0.7@o2ib"})), "");
  config::PeerAdd refresh = peer_add_of("10.0.0.5@tcp", {"10.0.0.8@tcp", "10.0.0.6@tcp"});
  refresh.refresh = true;
  ASSERT_EQ(rig.apply(a, refresh), "");
  EXPECT_EQ(nids_of("10.0.0.5@tcp"), "10.0.0.5@tcp 10.0.0.6@tcp 10.0.0.8@tcp");
  EXPECT_EQ(peers.find(nid("10.0.0.7@o2ib")), nullptr);
  config::ChangeList list;
  config::PeerAdd less = refresh;
  less.peer.nids.clear();
  list.push_back({less, {}});
  list.push_back({NodeRig::route_add("tcp9", "10.9.9.9@o2ib7"), {}});
  EXPECT_NE(rig.apply(a, std::move(list)).find("-113"), std::string::npos) << "no NI on the gateway's net";
  EXPECT_EQ(nids_of("10.0.0.5@tcp"), "10.0.0.5@tcp 10.0.0.6@tcp 10.0.0.8@tcp") << "whole or not at all";
  ASSERT_EQ(rig.apply(a, less), "");
  EXPECT_EQ(nids_of("10.0.0.5@tcp"), "10.0.0.5@tcp");
  rig.stop_all();
}

// Goal: a peer may have 4096 NIDs: each is found, shown and deleted; one more is refused.
TEST(PeerDb, a_peer_of_4096_nids) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  PeerDb& peers = *a.node->control().peers;
  config::PeerAdd add = peer_add_of("10.8.0.0@tcp");
  for (uint32_t i = 1; i < kPeerNidsMax; ++i) add.peer.nids.push_back(Nid::v4(net("tcp"), 0x0A080000 + i));
  ASSERT_EQ(rig.apply(a, add), "");
  const Peer& peer = *peers.find(nid("10.8.0.0@tcp"))->peer;
  EXPECT_EQ(peer.ni_count(), kPeerNidsMax);
  EXPECT_EQ(peer_value(a.node->control(), peer).nis.size(), kPeerNidsMax);
  const PeerRef last = a.node->control().publisher->current().peers->find(nid("10.8.15.255@tcp"));
  ASSERT_TRUE(last);
  EXPECT_EQ(last.peer->nis.size(), kPeerNidsMax);
  EXPECT_EQ(last.ni().nid, nid("10.8.15.255@tcp"));
  EXPECT_EQ(rig.apply(a, peer_add_of("10.8.0.0@tcp", {"10.8.16.0@tcp"})),
            "-28 failed to add peer: 4097 NIDs; a peer has at most 4096\n");
  config::PeerDel del;
  del.primary = nid("10.8.0.0@tcp");
  del.nids.assign(add.peer.nids.begin() + 1, add.peer.nids.end());
  ASSERT_EQ(rig.apply(a, del), "");
  EXPECT_EQ(peer.ni_count(), 2u);
  ASSERT_EQ(rig.apply(a, add), "") << "again";
  del.nids.clear();
  ASSERT_EQ(rig.apply(a, del), "");
  EXPECT_EQ(peers.find(nid("10.8.1.1@tcp")), nullptr);
  rig.stop_all();
}

// Goal: a NID that comes back gets the memory that drivers may still refer to.
TEST(PeerDb, memory_is_kept_for_a_nid_that_comes_back) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  PeerDb& peers = *a.node->control().peers;
  ASSERT_EQ(rig.apply(a, peer_add_of("10.0.0.9@tcp")), "");
  const auto blocks = peers.find(nid("10.0.0.9@tcp"))->blocks;
  const size_t allocated = peers.allocated();
  config::PeerDel del;
  del.primary = nid("10.0.0.9@tcp");
  ASSERT_EQ(rig.apply(a, del), "");
  EXPECT_EQ((*peers.resolve(nid("10.0.0.9@tcp")))->blocks, blocks);
  EXPECT_EQ(peers.allocated(), allocated);
  rig.stop_all();
}

// Goal: routes are refused as lnetctl refuses them, and leave with the net of their gateway.
TEST(RouteDb, refusals_and_lost_gateways) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.1.0.1@o2ib"});
  EXPECT_NE(rig.apply(a, NodeRig::route_add("o2ib", "10.0.0.2@tcp")).find("-17 Route already exists"),
            std::string::npos);
  EXPECT_NE(rig.apply(a, NodeRig::route_add("tcp7", "10.0.0.2@tcp3")).find("-113 No interface configured"),
            std::string::npos);
  ASSERT_EQ(rig.apply(a, NodeRig::route_add("tcp7", "10.0.0.2@tcp")), "");
  EXPECT_NE(rig.apply(a, NodeRig::route_add("tcp7", "10.0.0.2@tcp")).find("-17 Route already exists"),
            std::string::npos);
  ASSERT_EQ(rig.apply(a, NodeRig::route_add("tcp7", "10.1.0.2@o2ib")), "");
  EXPECT_EQ(a.node->control().routes->routes().size(), 2u);
  EXPECT_TRUE(a.node->control().publisher->current().peers->find(nid("10.0.0.2@tcp")).peer->router);
  config::NetDel del;
  del.net = net("tcp");
  ASSERT_EQ(rig.apply(a, del), "");
  ASSERT_EQ(a.node->control().routes->routes().size(), 1u);
  EXPECT_EQ(a.node->control().desired.routes.size(), 1u);
  config::RouteDel gone;
  gone.net = net("tcp7");
  gone.gateway = nid("10.0.0.2@tcp");
  EXPECT_NE(rig.apply(a, gone).find("-2 "), std::string::npos);
  rig.stop_all();
}

// Goal: a list of changes takes effect as a whole or not at all, also when its last change fails on the running node.
TEST(Applier, list_that_fails_is_undone) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  rig.add({"10.0.0.2@tcp"});
  auto taken = NodeRig::net_add("10.0.0.2@tcp");  // no driver can start it: another node has the address
  const std::string wrong = rig.apply(a, {{NodeRig::net_add("10.0.0.5@o2ib"), {}},
                                          {peer_add_of("10.0.0.9@o2ib"), {}},
                                          {NodeRig::route_add("tcp9", "10.0.0.3@tcp"), {}},
                                          {config::SetValue{"transaction_timeout", 33}, {}},
                                          {taken, {}}});
  EXPECT_NE(wrong.find("cannot add LNet NI"), std::string::npos) << wrong;
  Control& c = a.node->control();
  EXPECT_EQ(c.nis->size(), 1u);
  EXPECT_TRUE(c.routes->routes().empty());
  EXPECT_EQ(c.peers->find(nid("10.0.0.9@o2ib")), nullptr);
  EXPECT_EQ(c.desired.global.transaction_timeout, 150s);
  EXPECT_EQ(c.desired.nets.size(), 1u);
  rig.stop_all();
}

// Goal: a list deletes an NI and then fails. The NI comes back.
TEST(Applier, deleted_ni_comes_back_when_the_list_fails) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  auto& b = rig.add({"10.0.0.2@tcp"});
  config::NetDel del;
  del.net = net("tcp");
  const std::string wrong = rig.apply(a, {{del, {}}, {NodeRig::net_add("10.0.0.2@tcp"), {}}});
  EXPECT_NE(wrong.find("cannot add LNet NI"), std::string::npos) << wrong;
  EXPECT_EQ(rig.text(rig.ping(b, "10.0.0.1@tcp", "", 10s)), "10.0.0.1@tcp");
  rig.stop_all();
}

// Goal: an interface name gives its first IPv4 address, or an error. The same name deletes the NI.
TEST(Applier, nis_by_interface) {
  NodeRig rig;
  auto& a = rig.add({});
  a.devices->add("eth0", {"10.0.0.1@tcp", "10.0.0.7@tcp"});
  a.devices->add("eth1", {"fd00::1@tcp"});
  const auto by_name = [](const std::string& name) {
    config::NetAdd add;
    add.net = net("tcp");
    add.ni.interface = name;
    return add;
  };
  ASSERT_EQ(rig.apply(a, by_name("eth0")), "");
  EXPECT_NE(a.node->control().nis->find(nid("10.0.0.1@tcp")), nullptr);
  EXPECT_NE(rig.apply(a, by_name("eth0")).find("-17 cannot add LNet NI"), std::string::npos);
  EXPECT_NE(rig.apply(a, by_name("eth9")).find("-100 cannot add LNet NI"), std::string::npos);
  EXPECT_NE(rig.apply(a, by_name("eth1")).find("no IPv4 address"), std::string::npos);
  EXPECT_EQ(config::emit_classic(config::export_backup(a.node->control().desired)).find("10.0.0.1"), std::string::npos)
      << "exported by interface, as it was added";
  config::NetDel del;
  del.net = net("tcp");
  del.interface = "eth0";
  ASSERT_EQ(rig.apply(a, del), "");
  EXPECT_EQ(a.node->control().nis->size(), 0u);
  rig.stop_all();
}

// Goal: CPT lists choose workers; credits are shared among them and never below eight peers' worth.
TEST(LocalNis, workers_and_credits) {
  NodeRig rig;
  NodeConfig config;
  config.groups.group_of = {0, 0, 1, 1};
  auto& a = rig.add({"10.0.0.1@tcp"}, 4, config);
  auto second = NodeRig::net_add("10.0.0.2@tcp");
  second.ni.cpts = {1};
  ASSERT_EQ(rig.apply(a, second), "");
  Control& c = a.node->control();
  EXPECT_EQ(c.nis->find(nid("10.0.0.1@tcp"))->slices[0]->credits.total(), 64);
  EXPECT_EQ(c.nis->find(nid("10.0.0.2@tcp"))->workers, (std::vector<WorkerId>{WorkerId{2}, WorkerId{3}}));
  EXPECT_EQ(c.nis->find(nid("10.0.0.2@tcp"))->slices[2]->credits.total(), 128);
  auto third = NodeRig::net_add("10.0.0.3@tcp");
  third.ni.cpts = {7};
  EXPECT_NE(rig.apply(a, third).find("-34 cannot add LNet NI: invalid CPT value"), std::string::npos);
  rig.stop_all();
}

// Goal: `lnet unconfigure` leaves only loopback. A change that needs LNet then fails with ENETDOWN; configure brings
// LNet back.
TEST(Applier, unconfigure_and_configure) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  ASSERT_EQ(rig.apply(a, {{config::SetBuffers{32, 32, 2}, {}}, {config::SetRouting{true}, {}}}), "");
  ASSERT_EQ(rig.apply(a, NodeRig::route_add("tcp9", "10.0.0.3@tcp")), "");
  ASSERT_EQ(rig.apply(a, config::LnetUnconfigure{}), "");
  Control& c = a.node->control();
  EXPECT_EQ(c.nis->size(), 0u);
  EXPECT_TRUE(c.peers->peers().empty());
  EXPECT_EQ(c.routing->state(), RoutingState::kDisabled);
  EXPECT_NE(rig.apply(a, NodeRig::net_add("10.0.0.1@tcp")).find("-100 "), std::string::npos);
  ASSERT_EQ(rig.apply(a, {{config::LnetConfigure{}, {}}, {NodeRig::net_add("10.0.0.1@tcp"), {}}}), "");
  EXPECT_EQ(c.nis->size(), 1u);
  rig.stop_all();
}

// Goal: while routing is on, pools grow and shrink to exactly the configured size, over all workers.
TEST(Routing, pools_grow_and_shrink) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 3);
  Control& c = a.node->control();
  const auto total = [&](unsigned pool) {
    int64_t sum = 0;
    for (uint16_t w = 0; w < 3; ++w) sum += c.workers[w]->pools[pool].credits.get();
    return sum;
  };
  EXPECT_TRUE(pool_values(c).empty());
  ASSERT_EQ(rig.apply(a, {{config::SetBuffers{300, 2000, 7}, {}}, {config::SetRouting{true}, {}}}), "");
  rig.run_for(10ms);
  EXPECT_EQ(total(0), 300);
  EXPECT_EQ(total(1), 2000);
  EXPECT_EQ(total(2), 7);
  ASSERT_EQ(rig.apply(a, config::SetBuffers{100, 5000, 3}), "");
  rig.run_for(10ms);
  EXPECT_EQ(total(0), 100);
  EXPECT_EQ(total(1), 5000);
  EXPECT_EQ(total(2), 3);
  const auto pools = pool_values(c);
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools[0][1].nbuffers, 5000);
  EXPECT_EQ(pools[0][2].npages, 256);
  ASSERT_EQ(rig.apply(a, config::SetRouting{false}), "");
  EXPECT_EQ(c.routing->state(), RoutingState::kStopping);
  rig.run_for(112s);
  EXPECT_EQ(c.routing->state(), RoutingState::kDisabled);
  EXPECT_TRUE(c.routing->empty());
  rig.stop_all();
}

// Goal: counters are sums, and a reset shows zeros without a write to the counters of workers.
TEST(Stats, sums_and_reset) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  rig.add({"10.0.0.2@tcp"});
  for (unsigned i = 0; i < 5; ++i) ASSERT_EQ(rig.ping(a, "10.0.0.2@tcp").error, 0);
  Control& c = a.node->control();
  EXPECT_EQ(totals_of(c)[Stat::kSendCount], 5u);
  EXPECT_EQ(totals_of(c)[Stat::kRecvCount], 5u);
  const auto sent = [](const InterfaceTotals& counted, wire::MsgType type) {
    return counted[NiTraffic::kSent][size_t(type)];
  };
  const auto nets = net_values(c, {});
  ASSERT_EQ(nets.size(), 2u);
  EXPECT_EQ(nets[0].nis[0].nid, kLoNid);
  EXPECT_EQ(sent(nets[1].nis[0].counted, wire::MsgType::kGet), 5u);
  EXPECT_EQ(nets[1].nis[0].counted[NiTraffic::kReceived][size_t(wire::MsgType::kReply)], 5u);
  stats_reset(c);
  EXPECT_EQ(totals_of(c)[Stat::kSendCount], 0u);
  EXPECT_EQ(sent(net_values(c, net("tcp"))[0].nis[0].counted, wire::MsgType::kGet), 0u);
  ASSERT_EQ(rig.ping(a, "10.0.0.2@tcp").error, 0);
  EXPECT_EQ(totals_of(c)[Stat::kSendCount], 1u);
  EXPECT_EQ(sent(peer_value(c, *c.peers->find(nid("10.0.0.2@tcp"))->peer).nis[0].counted, wire::MsgType::kGet), 1u);
  rig.stop_all();
}

// Goal: a drop shows its reason and its NI.
TEST(Stats, details_name_reason_and_ni) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  auto& b = rig.add({"10.0.0.2@tcp", "10.1.0.2@tcp1"});
  ASSERT_EQ(rig.apply(a, NodeRig::route_add("tcp1", "10.0.0.2@tcp")), "");
  EXPECT_NE(rig.ping(a, "10.1.0.9@tcp1").error, 0);  // b does not route
  Control& c = b.node->control();
  EXPECT_EQ(stats_values_doc(c, 0, {}).find("drops"), nullptr);
  const config::Doc doc = stats_values_doc(c, 1, [](WorkerId) { return api::WorkerTime{7ms, 8ms, 9ms}; });
  ASSERT_NE(doc.find("drops"), nullptr);
  ASSERT_EQ(doc.find("drops")->size(), 1u);
  EXPECT_EQ(doc.find("drops")->at(0).find("reason")->text(), "routing_disabled");
  EXPECT_NE(doc.find("drops")->at(0).find("meaning")->text().find("set routing 1"), std::string::npos);
  const config::Doc& by_ni = *doc.find("drops by ni");
  ASSERT_EQ(by_ni.size(), 3u) << "lo and two";
  EXPECT_EQ(by_ni.at(1).find("nid")->text(), "10.0.0.2@tcp");
  EXPECT_EQ(by_ni.at(1).find("dropped_stats")->find("get")->integer(), 1);
  EXPECT_EQ(by_ni.at(2).find("drop_count")->integer(), 0);
  EXPECT_EQ(doc.find("workers")->at(0).find("busy_ms")->integer(), 7);
  EXPECT_EQ(stats_values_doc(c, 2, {}).find("drops")->size(), size_t(Drop::kCount));
  rig.stop_all();
}

// Goal: `lnetctl ping` prints the NIDs that answered, and for each other one the error.
TEST(Requests, ping_answer_names_both) {
  PingAnswer good{.nid = nid("10.0.0.2@tcp"), .error = 0, .info = {}};
  good.info.features = wire::kFeatureMultiRail;
  good.info.nis = {{nid("10.0.0.2@tcp")}, {nid("10.0.0.3@tcp")}};
  const PingAnswer bad{.nid = nid("10.10.0.77@tcp"), .error = -EHOSTUNREACH, .info = {}};
  const api::Answer answer = ping_answer({good, bad}, {});
  ASSERT_EQ(answer.errors.size(), 1u);
  EXPECT_EQ(answer.errors[0].descr, "failed to ping 10.10.0.77@tcp: No route to host");
  EXPECT_EQ(answer.errors[0].code, -113);
  EXPECT_EQ(config::emit(answer.doc),
            "ping:\n- primary nid: 10.0.0.2@tcp\n  Multi-Rail: true\n  peer_ni:\n  - nid: 10.0.0.2@tcp\n  - nid: "
            "10.0.0.3@tcp\n");
}

// Goal: if the text of an errno does not give the cause, the answer adds the failure of the last connection to the NID.
TEST(Requests, ping_answer_names_the_cause) {
  const auto descr = [](int32_t error, int32_t connection) {
    const PingAnswer bad{.nid = nid("10.0.0.7@tcp"), .error = error, .info = {}};
    const api::Answer answer = ping_answer({bad}, [&](const Nid&) { return connection; });
    EXPECT_EQ(answer.errors.at(0).code, error == 0 ? -ENODATA : error);
    return answer.errors.at(0).descr;
  };
  EXPECT_EQ(descr(-EIO, 0), "failed to ping 10.0.0.7@tcp: Input/output error: no answer in time");
  EXPECT_EQ(descr(-EIO, -ECONNREFUSED),
            "failed to ping 10.0.0.7@tcp: Input/output error: no answer in time; the last connection to it failed: "
            "Connection refused");
  EXPECT_EQ(descr(-ETIMEDOUT, -EHOSTUNREACH),
            "failed to ping 10.0.0.7@tcp: Connection timed out: no answer in time; the last connection to it failed: "
            "No route to host");
  EXPECT_EQ(descr(-EPROTO, 0), "failed to ping 10.0.0.7@tcp: Protocol error: the answer contains no ping info");
  EXPECT_EQ(descr(0, 0), "failed to ping 10.0.0.7@tcp: No data available: the answer names no NID");
  EXPECT_EQ(descr(-ECONNREFUSED, -ECONNREFUSED), "failed to ping 10.0.0.7@tcp: Connection refused");
}

// Goal: the node keeps the reason why a peer NI cannot be reached, until it can be reached.
TEST(Requests, the_cause_is_that_of_the_last_connection) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  Control& c = a.node->control();
  PeerNi& ni = **c.peers->resolve(nid("10.0.0.7@tcp"));
  c.lnd_hosts[1]->peer_down(ni.id, ECONNREFUSED);
  EXPECT_EQ(connection_error(c, ni.nid), -ECONNREFUSED);
  c.lnd_hosts[1]->peer_up(ni.id);
  EXPECT_EQ(connection_error(c, ni.nid), 0);
  EXPECT_EQ(connection_error(c, nid("10.0.0.8@tcp")), 0);
  rig.stop_all();
}

// Goal: `discover` finds a peer and prints it. `peer show -v 4` shows the state of its discovery.
TEST(Requests, discover_and_peer_show) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  rig.add({"10.0.0.2@tcp", "10.0.0.3@tcp"});
  std::vector<DiscoverAnswer> answers;
  a.node->control().discovery->discover({nid("10.0.0.3@tcp"), nid("10.0.0.9@o2ib")}, false,
                                        [&](std::vector<DiscoverAnswer> got) { answers = std::move(got); });
  ASSERT_TRUE(rig.run_until([&] { return !answers.empty(); }));
  const api::Answer answer = discover_answer(answers, {});
  EXPECT_EQ(config::emit(answer.doc),
            "discover:\n- primary nid: 10.0.0.2@tcp\n  Multi-Rail: true\n  peer_ni:\n  - nid: 10.0.0.2@tcp\n  - nid: "
            "10.0.0.3@tcp\n");
  ASSERT_EQ(answer.errors.size(), 1u);
  EXPECT_EQ(answer.errors[0].descr, "failed to discover 10.0.0.9@o2ib: No route to host");
  Control& c = a.node->control();
  const std::string shown = config::emit(api::peer_doc({peer_value(c, *c.peers->find(nid("10.0.0.3@tcp"))->peer)}, 4));
  EXPECT_NE(shown.find("peer state: 273"), std::string::npos) << shown;
  for (const char* line : {"state: active", "letters: LPM", "peer sequence: 3", "our sequence: 2", "error: 0"})
    EXPECT_NE(shown.find(line), std::string::npos) << line << "\n" << shown;
  rig.stop_all();
}

TEST(Ip2nets, patterns) {
  const uint32_t address = 0xC0A80004;  // 192.168.0.4
  for (const char* pattern : {"192.168.0.4", "192.168.0.*", "*.*.*.*", "192.168.0.[2,4]", "192.168.[0-3].[2-8/2]"})
    EXPECT_TRUE(config::ip_pattern_matches(pattern, address)) << pattern;
  for (const char* pattern : {"192.168.0.5", "192.168.0", "192.168.0.4.1", "192.168.0.[3-9/2]", "10.*.*.*"})
    EXPECT_FALSE(config::ip_pattern_matches(pattern, address)) << pattern;
}

}  // namespace
}  // namespace ulnet::test
