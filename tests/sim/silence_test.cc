// Hundreds of peers that do not answer. Operations for other peers go on beside them, and each operation for a silent
// peer ends exactly once.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

constexpr unsigned kSilent = 400;

class SimSilence : public ::testing::TestWithParam<Transport> {
 protected:
  SimSilence() : sim({.seed = 17, .transport = GetParam()}) {}
  /// NIDs at which no node answers.
  /// NIDs behind which nobody answers.
  std::vector<Nid> silent(unsigned count = kSilent) {
    std::vector<Nid> nids;
    for (unsigned i = 0; i < count; ++i) nids.push_back(Nid::v4(Net::of(NetType::kTcp, 0), 0x0A090100u + i));
    if (GetParam() == Transport::kSockTcp)
      for (const Nid& nid : nids) sim.tcp().silence({.v6 = false, .bytes = nid.addr}, true);
    return nids;
  }
  static Peer* peer_of(SimNode& node, const Nid& nid) {
    PeerNi* ni = node.node().control().peers->find(nid);
    return ni == nullptr ? nullptr : ni->peer;
  }
  /// Puts to `to`. Returns the time until the put has ended well.
  Duration put_takes(SimNode& from, const Nid& to) {
    const Instant began = sim.now();
    const auto number = from.start(to, {}, false);
    EXPECT_TRUE(number && sim.run_until([&] { return from.outcome(*number).ended; }, 300s));
    EXPECT_EQ(from.outcome(*number).status, 0);
    return sim.now() - began;
  }

  /// Two nodes discover each other. Then the test cuts the link between them, and the left node loses its second NI.
  void lose_ni_while_cut_off() {
    left = &sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}});
    right = &sim.add_node({.nis = {"10.0.0.3@tcp"}});
    EXPECT_LT(put_takes(*left, right->nid()), 1s);
    ASSERT_TRUE(sim.run_until([&] { return right_knows() == 2; }, 10s));
    sim.run_for(1s);
    sim.cut(*left, *right);
    config::NetDel del;
    del.nid = left->nid(1);
    del.net = del.nid->net();
    left->apply({del});
    ASSERT_TRUE(sim.run_until([&] { return !left->applying(); }, 30s));
  }
  size_t right_knows() { return peer_of(*right, left->nid())->ni_count(); }

  size_t discovered = 0;  ///< completed discovery commands; above `sim`, because ~SimNet may still complete some
  SimNet sim;
  SimNode *left = nullptr, *right = nullptr;
};

// Goal: a command that discovers hundreds of nodes which are not there does not keep messages for others waiting.
TEST_P(SimSilence, under_discovery_does_not_hold_up_messages_for_others) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}});
  auto& b = sim.add_node({.nis = {"10.0.0.2@tcp", "10.0.0.3@tcp"}});
  std::vector<DiscoverAnswer> answers;
  a.node().control().discovery->discover(silent(), false,
                                         [&](std::vector<DiscoverAnswer> got) { answers = std::move(got); });
  sim.run_for(100ms);
  EXPECT_LT(put_takes(a, b.nid()), 10s);
  EXPECT_EQ(peer_of(a, b.nid())->ni_count(), 2u);
  ASSERT_TRUE(sim.run_until([&] { return !answers.empty(); }, 1000s)) << "it ends, too";
  EXPECT_TRUE(std::all_of(answers.begin(), answers.end(), [](const auto& one) { return one.error != 0; }));
}

// Goal: messages for hundreds of nodes that are not there do not delay others; each of these messages ends once,
// with an error.
TEST_P(SimSilence, of_nodes_with_waiting_messages_does_not_hold_up_others) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}, .operations = 1024, .parked_peers = 512});
  auto& b = sim.add_node({.nis = {"10.0.0.2@tcp"}});
  for (const Nid& nid : silent()) ASSERT_TRUE(a.start(nid, {}, false));
  sim.run_for(100ms);
  EXPECT_LT(put_takes(a, b.nid()), 10s);
  ASSERT_TRUE(sim.run_until([&] { return a.open_operations() == 0; }, 300s));
  EXPECT_EQ(a.ended(false), kSilent);
}

// Goal: peers whose discovery has failed before do not delay a peer that is new, even if a command waits for them.
TEST_P(SimSilence, of_peers_that_failed_before_does_not_hold_up_others) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp"}, .transaction_timeout = 20, .lnd_timeout = 6});
  auto& b = sim.add_node({.nis = {"10.0.0.2@tcp"}});
  const auto nids = silent();
  const auto discover = [&] {
    a.node().control().discovery->discover(nids, false, [this](std::vector<DiscoverAnswer>) { ++discovered; });
  };
  discover();
  ASSERT_TRUE(sim.run_until([&] { return discovered == 1; }, 300s));
  discover();
  sim.run_for(100ms);
  EXPECT_LT(put_takes(a, b.nid()), 1s);
}

// Goal: this node loses an NI while a peer is cut off. When the peer is back, it gets the push without other traffic.
TEST_P(SimSilence, of_a_peer_that_comes_back_ends_with_a_push_to_it) {
  lose_ni_while_cut_off();
  sim.run_for(400s);
  EXPECT_EQ(right_knows(), 2u);
  EXPECT_TRUE(peer_of(*left, right->nid())->has(kPeerRediscover));
  sim.heal_all();
  EXPECT_TRUE(sim.run_until([&] { return right_knows() == 1; }, 1000s));
  sim.run_for(1s);
  EXPECT_TRUE(peer_of(*left, right->nid())->up_to_date);
}

// Goal: discovery of a peer that is gone for good is retried a few times, then only after a new message to it.
TEST_P(SimSilence, for_good_ends_the_retries) {
  lose_ni_while_cut_off();
  sim.run_for(2h);
  const PeerDiscovery& d = peer_of(*left, right->nid())->discovery;
  EXPECT_EQ(d.told_again, 7u);
  EXPECT_EQ(d.failures, 7u);
  sim.run_for(2h);
  EXPECT_EQ(d.failures, 7u);
  sim.heal_all();
  EXPECT_LT(put_takes(*left, right->nid()), 10s);
  EXPECT_EQ(d.told_again, 0u);
}

INSTANTIATE_TEST_SUITE_P(Both, SimSilence, ::testing::Values(Transport::kFabric, Transport::kSockTcp),
                         [](const auto& of) {
                           return std::string(of.param == Transport::kFabric ? "fabric" : "socklnd");
                         });

// A server with many clients. Most of the clients are dead, and the server got no sign of that.
class DeadClients : public ::testing::Test {
 protected:
#ifdef ULNET_SANITIZED
  static constexpr unsigned kClients = 160;
#else
  static constexpr unsigned kClients = 320;
#endif
  static bool dead(unsigned i) {
    return i % 16 != 15;
  }

  DeadClients() {
    server = &sim.add_node({.nis = {"10.0.0.1@tcp"}});
    for (unsigned i = 0; i < kClients; ++i)
      clients.push_back(
          &sim.add_node({.nis = {"10.1." + std::to_string(i / 200) + "." + std::to_string(i % 200 + 1) + "@tcp"}}));
    for (SimNode* client : clients) (void)client->put(*server);
    EXPECT_TRUE(sim.run_until(
        [&] {
          return std::all_of(clients.begin(), clients.end(), [&](auto* client) {
            const PeerNi* ni = server->node().control().peers->find(client->nid());
            return client->ended(true) == 1 && ni != nullptr && ni->peer->up_to_date;
          });
        },
        60s));
    for (unsigned i = 0; i < kClients; ++i)
      if (dead(i)) sim.cut(*server, *clients[i]);
  }
  void add_ni() {
    config::NetAdd add;
    add.ni.nid = *nid_parse("10.0.0.2@tcp");
    add.net = add.ni.nid->net();
    server->apply({add});
    ASSERT_TRUE(sim.run_until([&] { return !server->applying(); }, 30s));
  }
  [[nodiscard]] bool knows(SimNode& client) const {
    const PeerNi* ni = client.node().control().peers->find(server->nid());
    return ni->peer->ni_count() == 2;
  }

  SimNet sim{{.seed = 19}};
  SimNode* server = nullptr;
  std::vector<SimNode*> clients;
};

// Goal: after `net add`, the living clients get the push within seconds; a client with a waiting message gets it first.
TEST_F(DeadClients, do_not_hold_up_pushes_to_the_living) {
  add_ni();
  SimNode& last = *clients.back();
  const Instant began = sim.now();
  ASSERT_TRUE(server->put(last));
  ASSERT_TRUE(sim.run_until([&] { return server->ended(true) == 1; }, 300s));
  EXPECT_LT(sim.now() - began, 1s);
  EXPECT_TRUE(knows(last));
  const auto all_told = [&] {
    for (unsigned i = 0; i < kClients; ++i)
      if (!dead(i) && !knows(*clients[i])) return false;
    return true;
  };
  ASSERT_TRUE(sim.run_until(all_told, 300s));
  EXPECT_LT(sim.now() - began, 10s);
  sim.heal_all();
}

}  // namespace
}  // namespace ulnet::test
