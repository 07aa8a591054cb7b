// Discovery between whole nodes, over the in-memory fabric and over socklnd on simulated TCP. The tests compare the
// NIDs that each node has of its peers. The single rules of the state machine are in
// tests/unit/control/discovery_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

/// Bits 0, 4 and 8: the state that LNet shows for a discovered multi-rail peer.
constexpr uint32_t kDiscoveredMr = 273;

const Peer* peer_of(SimNode& node, const Nid& nid) {
  const PeerNi* ni = node.node().control().peers->find(nid);
  return ni == nullptr ? nullptr : ni->peer;
}

/// NIDs that `node` has of the peer with this NID: the primary first, the others sorted.
std::string known(SimNode& node, const Nid& nid) {
  const Peer* peer = peer_of(node, nid);
  if (peer == nullptr) return "nothing";
  std::vector<std::string> nids;
  for (const PeerNet& net : peer->nets)
    for (const PeerNi* ni : net.nis) nids.push_back(nid_text(ni->nid));
  std::sort(nids.begin() + 1, nids.end());
  std::string text;
  for (const auto& one : nids) text += (text.empty() ? "" : " ") + one;
  return text;
}

class SimDiscovery : public ::testing::TestWithParam<Transport> {
 protected:
  SimNet sim{{.seed = 11, .transport = GetParam()}};
  bool all_ended(Duration limit = 60s) {
    return sim.run_until(
        [&] {
          for (auto& node : sim.nodes())
            if (node->open_operations() > 0) return false;
          return true;
        },
        limit);
  }
  /// A put from one to the other; its status.
  int32_t put(SimNode& from, SimNode& to, size_t nid = 0) {
    const auto number = from.start(to.nid(nid), {}, false);
    EXPECT_TRUE(all_ended(400s)) << sim.replay_hint();
    return from.outcome(*number).status;
  }
  static void apply(SimNet& net, SimNode& node, config::Change change) {
    node.apply({std::move(change)});
    EXPECT_TRUE(net.run_until([&] { return !node.applying(); }, 30s));
    EXPECT_TRUE(node.apply_errors().empty());
  }
  static config::NetDel net_del(const std::string& text) {
    config::NetDel del;
    del.nid = *nid_parse(text);
    del.net = del.nid->net();
    return del;
  }
  static config::NetAdd net_add(const std::string& text) {
    config::NetAdd add;
    add.ni.nid = *nid_parse(text);
    add.net = add.ni.nid->net();
    return add;
  }
};

// Goal: after the first put to any NID of a node, both nodes have all NIDs of each other. Later puts use every rail.
TEST_P(SimDiscovery, two_nodes_with_two_nis_each_discover_each_other) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}});
  EXPECT_EQ(put(a, b, 1), 0);
  sim.run_for(1s);
  EXPECT_EQ(known(a, b.nid(0)), "10.0.0.3@tcp 10.0.0.4@tcp");
  EXPECT_EQ(known(b, a.nid(1)), "10.0.0.1@tcp 10.0.0.2@tcp");
  EXPECT_EQ(peer_of(a, b.nid())->state, kDiscoveredMr);
  EXPECT_EQ(peer_of(b, a.nid())->state, kDiscoveredMr);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(a.put(b));
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(a.ended(true), 41u);
  for (const SimNode* one : {&a, &b})
    for (size_t i = 0; i < 2; ++i) {
      LocalNi* ni = const_cast<SimNode*>(one)->node().control().nis->find(one->nid(i));
      uint64_t received = 0;
      for (const auto& slice : ni->slices)
        for (const auto& counter : slice->counters[NiTraffic::kReceived]) received += counter.get();
      EXPECT_GE(received, 5u) << nid_text(one->nid(i));
    }
}

// Goal: messages to a peer behind a router go to all NIDs of the peer in turn.
TEST_P(SimDiscovery, routed_requests_use_every_rail_of_the_peer) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}, .routes = {{"tcp1", "10.0.0.9@tcp"}}});
  sim.add_node({.nis = {"10.0.0.9@tcp", "10.1.0.9@tcp1"}, .routing = true});
  auto& b = sim.add_node({.nis = {"10.1.0.3@tcp1", "10.1.0.4@tcp1"}, .routes = {{"tcp", "10.1.0.9@tcp1"}}});
  ASSERT_EQ(put(a, b), 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(put(a, b), 0);
  for (size_t i = 0; i < 2; ++i) {
    uint64_t puts = 0;
    for (const auto& slice : b.node().control().nis->find(b.nid(i))->slices)
      puts += slice->counters[NiTraffic::kReceived][size_t(wire::MsgType::kPut)].get();
    EXPECT_GE(puts, 10u) << nid_text(b.nid(i));
  }
}

// Goal: a node with discovery off keeps one peer per NID, and other nodes keep one peer per NID of that node.
TEST_P(SimDiscovery, mr_node_with_a_node_that_has_discovery_off) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}, .discovery = config::Discovery::kOff});
  EXPECT_EQ(put(a, b, 0), 0);
  EXPECT_EQ(put(a, b, 1), 0);
  EXPECT_EQ(put(b, a, 0), 0);
  sim.run_for(1s);
  EXPECT_EQ(known(a, b.nid(0)), "10.0.0.3@tcp");
  EXPECT_EQ(known(a, b.nid(1)), "10.0.0.4@tcp");
  EXPECT_EQ(known(b, a.nid(0)), "10.0.0.1@tcp");
  EXPECT_EQ(peer_of(a, b.nid())->state, uint32_t(kPeerNoDiscovery | kPeerDiscovered | kPeerNidsUptodate));
  EXPECT_TRUE(peer_of(b, a.nid())->has(kPeerNoDiscovery));
}

// Goal: a node from before Multi-Rail is never pushed to, and sees one source.
TEST_P(SimDiscovery, downrev_node) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp"}, .downrev = true});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(put(a, b), 0);
  sim.run_for(1s);
  EXPECT_EQ(b.pushes_refused(), 0u) << "never pushed to";
  EXPECT_FALSE(peer_of(a, b.nid())->multi_rail());
  const PeerNi* one = b.node().control().peers->find(a.nid(0));
  const PeerNi* two = b.node().control().peers->find(a.nid(1));
  EXPECT_TRUE((one == nullptr) != (two == nullptr)) << "one source only";
}

// Goal: a node restarts with the same primary NID and other NIDs. Its peers take the new NIDs and forget the old ones.
TEST_P(SimDiscovery, restarted_with_other_nids) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}});
  EXPECT_EQ(put(a, b), 0);
  b.kill();
  sim.run_for(5s);
  b.start_again_as({.nis = {"10.0.0.3@tcp", "10.0.0.5@tcp"}});
  EXPECT_EQ(put(b, a), 0);
  ASSERT_TRUE(sim.run_until([&] { return known(a, b.nid()) == "10.0.0.3@tcp 10.0.0.5@tcp"; }, 60s))
      << known(a, b.nid());
  EXPECT_EQ(known(a, *nid_parse("10.0.0.4@tcp")), "nothing");
  EXPECT_EQ(known(b, a.nid()), "10.0.0.1@tcp 10.0.0.2@tcp");
  EXPECT_EQ(put(a, b), 0);
}

// Goal: if an NI goes or comes, the node pushes the change to its peers; the peers need no ping of their own for it.
TEST_P(SimDiscovery, peers_learn_local_changes_from_pushes) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp"}});
  EXPECT_EQ(put(a, b), 0);
  apply(sim, a, net_del("10.0.0.2@tcp"));
  ASSERT_TRUE(sim.run_until([&] { return known(b, a.nid()) == "10.0.0.1@tcp"; }, 30s)) << known(b, a.nid());
  apply(sim, a, net_add("10.0.0.2@tcp"));
  ASSERT_TRUE(sim.run_until([&] { return known(b, a.nid()) == "10.0.0.1@tcp 10.0.0.2@tcp"; }, 30s));
  EXPECT_EQ(put(b, a, 1), 0);
}

// Goal: under load, an NI goes and comes back, and no operation of either side fails.
TEST_P(SimDiscovery, net_del_and_add_under_load_lose_nothing) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}, .workers = 2});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}, .workers = 2});
  ASSERT_EQ(put(a, b), 0);
  const auto load = [&](Duration time) {
    const Instant end = sim.now() + time;
    while (sim.now() < end) {
      for (SimNode* one : {&a, &b}) {
        SimNode& other = one == &a ? b : a;
        while (one->open_operations() < 16) {
          if (!one->put(other, {.length = 3000}) || !one->get(other, {.length = 5000})) break;
        }
      }
      sim.run_for(1ms);
    }
  };
  for (int round = 0; round < 2; ++round) {
    load(5ms);
    const Nid leaving = a.nid(1);  // not the one that b names
    config::NetDel del = net_del(nid_text(leaving));
    const Instant began = sim.now();
    a.apply({del});
    while (a.applying()) load(20ms);
    EXPECT_GE(sim.now() - began, kNiLeaveIdle) << "it served on until it was idle";
    EXPECT_LE(sim.now() - began, kNiLeaveMax) << "nobody used it any more";
    EXPECT_EQ(a.node().control().nis->find(leaving), nullptr);
    a.apply({net_add(nid_text(leaving))});
    while (a.applying()) load(1ms);
    load(5ms);
  }
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(a.ended(false) + b.ended(false), 0u);
  EXPECT_GT(a.ended(true), 200u);
}

// Goal: if an NI closes at once under load, the node sends the interrupted messages again over the other NI.
TEST_P(SimDiscovery, net_del_now_resends_what_it_catches) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}, .peer_credits = 2, .credits = 2});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}});
  ASSERT_EQ(put(a, b), 0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(a.put(b, {.length = 20000, .ack = false}));
  sim.run_for(20us);
  config::NetDel del = net_del("10.0.0.2@tcp");
  del.now = true;
  a.apply({del});
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(a.ended(false), 0u);
  if (GetParam() == Transport::kSockTcp) {
    EXPECT_GT(a.stat(Stat::kResendCount), 0u) << "the fabric is too fast to be caught";
  }
}

// Messages that a driver holds when its NI is stopped. Only over socklnd: the fabric sends whole messages, so a stop
// never interrupts one.
class SimStops : public SimDiscovery {
 protected:
  /// Two nodes of two NIs, connected over each.
  void build() {
    a = &sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
    b = &sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}});
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(put(*a, *b), 0);
      ASSERT_EQ(put(*b, *a), 0);
    }
  }
  uint32_t leaving_sends() {
    const LocalNi* ni = a->node().control().nis->find(a->nid(1));
    return ni == nullptr ? 0 : uint32_t(ni->slices[0]->tx_count.get());
  }
  /// Silences the NI 10.0.0.2 and deletes it. All open operations end well before any time-out.
  void stop_silent(bool at_once) {
    sim.tcp().silence(ip("10.0.0.2"), true);
    config::NetDel del = net_del("10.0.0.2@tcp");
    del.now = at_once;
    a->apply({del});
    ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 20s));
    ASSERT_TRUE(all_ended(20s));
    EXPECT_EQ(a->ended(false) + b->ended(false), 0u);
    EXPECT_GT(a->stat(Stat::kResendCount), 0u);
  }
  SimNode *a = nullptr, *b = nullptr;
};

// Goal: a message that is half sent, and those behind it, go over the other NI; nothing arrives twice.
TEST_P(SimStops, requests_go_over_another_ni) {
  build();
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(a->put(*b, {.length = 1 << 20}));
  ASSERT_TRUE(sim.run_until([&] { return leaving_sends() > 2; }, 1s));
  stop_silent(true);
  EXPECT_EQ(b->put_count(), 8u + 12u);
}

// Goal: the same when it has served on as long as it may (kNiLeaveMax).
TEST_P(SimStops, requests_go_over_another_ni_after_the_longest_wait) {
  build();
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(a->put(*b, {.length = 1 << 20}));
  ASSERT_TRUE(sim.run_until([&] { return leaving_sends() > 2; }, 1s));
  stop_silent(false);
  EXPECT_EQ(b->put_count(), 8u + 12u);
}

// Goal: answers to what came in over the NI go over another one of its net, though they are to come from that NI.
TEST_P(SimStops, responses_go_over_another_ni) {
  build();
  ASSERT_TRUE(b->get(*a, {.length = 1 << 20}));
  ASSERT_TRUE(b->get(*a, {.length = 1 << 20}));
  ASSERT_TRUE(sim.run_until([&] { return leaving_sends() > 0; }, 1s)) << "one of the two came over it";
  stop_silent(true);
}

INSTANTIATE_TEST_SUITE_P(Socklnd, SimStops, ::testing::Values(Transport::kSockTcp));

// Goal: `net del` with `now` does not wait for the peers to learn of it: the NI closes before the push (b2).
TEST_P(SimDiscovery, net_del_now_does_not_wait_for_the_push) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp"}});
  ASSERT_EQ(put(a, b), 0);
  sim.cut(a, b);
  config::NetDel del = net_del("10.0.0.2@tcp");
  del.now = true;
  a.apply({del});
  ASSERT_TRUE(sim.run_until([&] { return !a.applying(); }, kNiLeaveIdle / 2)) << "nothing was under way";
  EXPECT_EQ(known(b, a.nid()), "10.0.0.1@tcp 10.0.0.2@tcp") << "b cannot know";
  apply(sim, a, net_add("10.0.0.2@tcp"));
  sim.heal_all();
  ASSERT_EQ(put(a, b), 0);
  // Without `now`, the node pushes first. While b does not acknowledge, the NI waits, but at most kNiLeaveMax.
  sim.cut(a, b);
  const Instant began = sim.now();
  a.apply({net_del("10.0.0.2@tcp")});
  ASSERT_TRUE(sim.run_until([&] { return !a.applying(); }, kNiLeaveMax + kNiDrainMax + 1s));
  EXPECT_GE(sim.now() - began, kNiLeaveMax);
  sim.heal_all();
}

// Goal: after any sequence of NIs that come and go, cuts, restarts and traffic, the nodes converge. Once the links are
// healed and each node has sent to each other node, every node has exactly the NIDs of the others.
class DiscoveryConverges : public ::testing::TestWithParam<uint64_t> {};
TEST_P(DiscoveryConverges, after_changes_cuts_and_restarts) {
  SimNet sim({.seed = GetParam()});
  constexpr unsigned kNodes = 3;
  const auto nid = [](unsigned node, unsigned index) {
    return "10." + std::to_string(index) + ".0." + std::to_string(node + 1) + "@tcp";
  };
  std::array<bool, kNodes> has_second{};
  for (unsigned i = 0; i < kNodes; ++i) sim.add_node({.nis = {nid(i, 0)}, .transaction_timeout = 10, .lnd_timeout = 3});
  Rng rng(GetParam() * 31 + 7);
  for (int round = 0; round < 60; ++round) {
    const unsigned at = unsigned(rng.below(kNodes)), other = unsigned((at + 1 + rng.below(kNodes - 1)) % kNodes);
    SimNode& node = *sim.nodes()[at];
    switch (rng.below(6)) {
      case 0:
      case 1: (void)node.put(*sim.nodes()[other]); break;
      case 2:
        if (node.applying()) break;
        if (has_second[at]) {
          config::NetDel del{.net = {}, .interface = {}, .nid = *nid_parse(nid(at, 1)), .now = rng.below(2) == 0};
          del.net = del.nid->net();
          node.apply({del});
        } else {
          config::NetAdd add;
          add.ni.nid = *nid_parse(nid(at, 1));
          add.net = add.ni.nid->net();
          node.apply({add});
        }
        has_second[at] = !has_second[at];
        break;
      case 3: sim.cut(node, *sim.nodes()[other]); break;
      case 4: sim.heal_all(); break;
      case 5:
        if (rng.below(3) != 0) break;
        node.restart();
        has_second[at] = false;
        break;
    }
    sim.run_for(Duration(rng.below(rng.below(4) == 0 ? 3'000'000'000u : 20'000'000u)));
  }
  sim.heal_all();
  sim.run_for(30s);
  for (int again = 0; again < 3; ++again) {
    for (unsigned i = 0; i < kNodes; ++i)
      for (unsigned j = 0; j < kNodes; ++j)
        if (i != j) (void)sim.nodes()[i]->put(*sim.nodes()[j]);
    sim.run_for(30s);
  }
  for (unsigned i = 0; i < kNodes; ++i)
    for (unsigned j = 0; j < kNodes; ++j) {
      if (i == j) continue;
      EXPECT_EQ(known(*sim.nodes()[i], sim.nodes()[j]->nid()), nid(j, 0) + (has_second[j] ? " " + nid(j, 1) : ""))
          << "node " << i << " of node " << j << ", " << sim.replay_hint();
    }
}
INSTANTIATE_TEST_SUITE_P(Seeds, DiscoveryConverges, ::testing::Range<uint64_t>(1, 101));

// Goal: hundreds of nodes with two NIs each learn their neighbours' NIDs, from one put of each.
TEST(ManyNodesDiscover, three_hundred_nodes) {
  SimNet sim({.seed = 3});
  constexpr unsigned kNodes = 300;
  const auto nid = [](unsigned i, int net) {
    return "10." + std::to_string(net) + "." + std::to_string(i / 200) + "." + std::to_string(i % 200 + 1) + "@tcp";
  };
  for (unsigned i = 0; i < kNodes; ++i) sim.add_node({.nis = {nid(i, 0), nid(i, 1)}});
  for (unsigned i = 0; i < kNodes; ++i) {
    const Nid target = sim.nodes()[(i + 1) % kNodes]->nid(i % 2);
    ASSERT_TRUE(sim.nodes()[i]->start(target, {.length = 3000}, false));
  }
  ASSERT_TRUE(sim.run_until(
      [&] { return std::all_of(sim.nodes().begin(), sim.nodes().end(), [](auto& n) { return n->ended(true) == 1; }); },
      60s));
  sim.run_for(100ms);
  for (unsigned i = 0; i < kNodes; ++i)
    for (unsigned other : {(i + 1) % kNodes, (i + kNodes - 1) % kNodes})
      EXPECT_EQ(known(*sim.nodes()[i], sim.nodes()[other]->nid(1)), nid(other, 0) + " " + nid(other, 1));
}

// Goal: if a node does not answer pings, messages to it leave after its discovery has failed.
TEST_P(SimDiscovery, a_message_goes_to_the_nid_as_given_when_discovery_fails) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}, .transaction_timeout = 20, .lnd_timeout = 6});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp"}});
  b.node().control().ping_target->close();
  ASSERT_TRUE(sim.run_until([&] { return b.node().control().ping_target->at_rest(); }, 5s));
  ASSERT_TRUE(b.node().control().portals->close(PortalIndex{0}));
  ASSERT_TRUE(a.put(b, {.ack = false}));
  EXPECT_EQ(b.put_count(), 0u);
  ASSERT_TRUE(sim.run_until([&] { return b.put_count() == 1; }, 60s));
  EXPECT_TRUE(peer_of(a, b.nid())->has(kPeerRediscover));
  EXPECT_FALSE(peer_of(a, b.nid())->up_to_date);
}

// Goal: if a node always answers from the NID of another peer, each use costs only a few pings. The waiting message
// then goes to the NID as given, and the journal states the reason.
TEST_P(SimDiscovery, a_node_that_always_answers_by_another_nid_is_pinged_a_few_times) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}, .replies_as = "10.0.0.4@tcp"});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp"}});
  const auto pings = [&] {
    uint64_t sum = 0;
    for (const auto& slice : b.node().control().nis->find(b.nid())->slices)
      sum += slice->counters[NiTraffic::kReceived][size_t(wire::MsgType::kGet)].get();
    return sum;
  };
  constexpr uint64_t kEachUse = kBadRepliesMax + 1;
  for (uint64_t use = 1; use <= 3; ++use) {
    const auto number = a.put(b);
    ASSERT_TRUE(sim.run_until([&] { return a.outcome(*number).ended || pings() > 100; }, 60s));
    ASSERT_EQ(a.outcome(*number).status, 0);
    for (int i = 0; i < 100 && pings() <= 100; ++i) sim.run_for(10ms);
    ASSERT_EQ(pings(), use * kEachUse);
  }
  EXPECT_EQ(b.put_count(), 3u);
  EXPECT_EQ(std::count(a.journal().begin(), a.journal().end(),
                       "warning: discovery of peer 10.0.0.3@tcp fails: 4 replies in a row were useless; the last came "
                       "from 10.0.0.4@tcp, which is no NID of the peer"),
            3);
}

// Goal: more messages than a worker has operations wait for one discovery, and all arrive.
TEST_P(SimDiscovery, many_messages_wait_for_one_discovery) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp"}});
  unsigned sent = 0;
  for (int i = 0; i < 1000; ++i) sent += a.put(b).has_value();
  ASSERT_GE(sent, 200u);
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(a.ended(true), sent);
}

// Goal: `verify` names each difference between what is configured and what it saw, and changes nothing.
TEST_P(SimDiscovery, verify_names_differences_and_merges_nothing) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}, .discovery = config::Discovery::kVerify});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}});
  config::PeerAdd add;
  add.peer.primary = b.nid(0);
  add.peer.nids = {*nid_parse("10.0.0.5@tcp")};
  apply(sim, a, add);
  (void)a.put(b);
  ASSERT_TRUE(sim.run_until([&] { return peer_of(a, b.nid())->up_to_date; }, 30s));
  const auto said = [&](const std::string& line) { return std::count(a.journal().begin(), a.journal().end(), line); };
  EXPECT_EQ(said("verify: peer 10.0.0.3@tcp reports 10.0.0.4@tcp; no peer has it"), 1);
  EXPECT_EQ(said("verify: peer 10.0.0.3@tcp does not report 10.0.0.5@tcp"), 1);
  EXPECT_EQ(known(a, b.nid()), "10.0.0.3@tcp 10.0.0.5@tcp");
  ASSERT_TRUE(sim.run_until([&] { return peer_of(b, a.nid()) != nullptr && peer_of(b, a.nid())->multi_rail(); }, 30s))
      << "it pushes";
}

// Goal: when discovery is switched off, a node pushes once; its peers then treat each of its NIDs as a separate peer.
TEST_P(SimDiscovery, switched_off_and_on) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp"}});
  EXPECT_EQ(put(a, b), 0);
  ASSERT_TRUE(sim.run_until([&] { return known(b, a.nid()) == "10.0.0.1@tcp 10.0.0.2@tcp"; }, 10s));
  sim.run_for(1s);
  apply(sim, a, config::SetValue{"discovery", 0});
  ASSERT_TRUE(sim.run_until([&] { return known(b, a.nid()) == "10.0.0.1@tcp"; }, 10s));
  EXPECT_FALSE(peer_of(b, a.nid())->multi_rail());
  EXPECT_EQ(put(b, a), 0);
  apply(sim, a, config::SetValue{"discovery", 1});
  EXPECT_EQ(put(a, b), 0);
  ASSERT_TRUE(sim.run_until([&] { return known(b, a.nid()) == "10.0.0.1@tcp 10.0.0.2@tcp"; }, 10s));
}

// Goal: `discover` answers with what was learnt, or with why not.
TEST_P(SimDiscovery, discover_command) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}});
  std::vector<DiscoverAnswer> answers;
  const Nid nowhere = *nid_parse("10.9.9.9@o2ib7");
  a.node().control().discovery->discover({b.nid(1), nowhere}, false,
                                         [&](std::vector<DiscoverAnswer> got) { answers = std::move(got); });
  ASSERT_TRUE(sim.run_until([&] { return !answers.empty(); }, 30s));
  EXPECT_EQ(answers[0].error, 0);
  EXPECT_TRUE(answers[0].multi_rail);
  EXPECT_EQ(answers[0].nids, (std::vector<Nid>{b.nid(0), b.nid(1)}));
  EXPECT_EQ(answers[1].error, -EHOSTUNREACH);
}

INSTANTIATE_TEST_SUITE_P(Both, SimDiscovery, ::testing::Values(Transport::kFabric, Transport::kSockTcp),
                         [](const auto& of) {
                           return std::string(of.param == Transport::kFabric ? "fabric" : "socklnd");
                         });

}  // namespace
}  // namespace ulnet::test
