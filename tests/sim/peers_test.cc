// Peers that a node keeps while NIs and NIDs come and go under traffic. The nodes run over the in-memory fabric and
// over socklnd on simulated TCP.
#include <gtest/gtest.h>

#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

class SimPeers : public ::testing::TestWithParam<Transport> {
 protected:
  SimNet sim{{.seed = 5, .transport = GetParam()}};

  static PeerDb& peers_of(SimNode& node) { return *node.node().control().peers; }
  bool all_ended(Duration limit = 60s) {
    return sim.run_until(
        [&] {
          for (auto& node : sim.nodes())
            if (node->open_operations() > 0) return false;
          return true;
        },
        limit);
  }
  static config::NetDel net_del(const Nid& nid) {
    config::NetDel del;
    del.net = nid.net();
    del.nid = nid;
    return del;
  }
  static config::NetAdd net_add(const Nid& nid, int peer_credits) {
    config::NetAdd add;
    add.net = nid.net();
    add.ni.nid = nid;
    add.ni.tunables.peer_credits = peer_credits;
    add.ni.lnd_tunables["conns_per_peer"] = 1;
    return add;
  }
};

// Goal: NIs of one net have unequal credits. Under load, the NI that is first in the net goes and comes back. This
// happens four times, with both NIs in turn. No operation fails, and the ids that drivers use for the peer's NIs stay
// the same.
// Method: each side sends to an NID of the other only while the NID is in its PeerDb. If an operation is under way when
// the NID is forgotten, the NID becomes a separate peer, which answers until the leaving NI stops. The test does not
// send to that peer.
TEST_P(SimPeers, first_ni_of_a_net_goes_under_load_and_nothing_fails) {
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}, .workers = 2});
  auto& b = sim.add_node({.nis = {"10.0.0.3@tcp", "10.0.0.4@tcp"}, .workers = 2});
  Nid leaving = a.nid(0);
  const auto target = [&](SimNode& from, SimNode& to) {
    const PeerNi *first = peers_of(from).find(to.nid(0)), *second = peers_of(from).find(to.nid(1));
    if (first == nullptr || (second != nullptr && second->peer != first->peer && to.nid(0) == leaving))
      return to.nid(1);
    return to.nid(0);
  };
  const auto load = [&](Duration time) {
    const Instant end = sim.now() + time;
    while (sim.now() < end) {
      for (SimNode* one : {&a, &b}) {
        const Nid to = target(*one, one == &a ? b : a);
        while (one->open_operations() < 16)
          if (!one->start(to, {.length = 3000}, false) || !one->start(to, {.length = 5000}, true)) break;
      }
      sim.run_for(1ms);
    }
  };
  load(20ms);
  ASSERT_TRUE(all_ended());
  const auto ids = [&] {
    std::vector<PeerNiId> all;
    for (size_t i = 0; i < 2; ++i) all.push_back(peers_of(a).find(b.nid(i))->id);
    return all;
  };
  const auto before = ids();
  const size_t allocated = peers_of(a).allocated();
  for (int round = 0; round < 4; ++round) {
    leaving = a.nid(size_t(round) % 2);  // always the first by now
    ASSERT_EQ(a.node().control().nis->on_net(leaving.net()).front()->nid, leaving);
    a.apply({net_del(leaving)});
    while (a.applying()) load(20ms);
    ASSERT_EQ(a.node().control().nis->find(leaving), nullptr);
    load(20ms);
    a.apply({net_add(leaving, 16 + round)});
    while (a.applying()) load(1ms);
    load(20ms);
    EXPECT_EQ(ids(), before);
    EXPECT_EQ(peers_of(a).allocated(), allocated);
  }
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(a.ended(false) + b.ended(false), 0u);
  EXPECT_GT(a.ended(true), 200u);
  EXPECT_TRUE(a.apply_errors().empty());
}

// Goal: ten times as many NIDs as a node has room for come, are served, and go, some of them without a shutdown. The
// node refuses none of them, and its peer NIs stay within the bound.
TEST_P(SimPeers, ten_times_as_many_nids_as_there_is_room_for_come_and_go) {
  constexpr uint32_t kRoom = 32;
  auto& server = sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.2@tcp"}, .workers = 2, .peers_max = kRoom});
  auto& friendly = sim.add_node({.nis = {"10.0.0.3@tcp"}});
  NodeSpec spec{.nis = {"10.1.0.0@tcp", "10.2.0.0@tcp"}};
  auto& client = sim.add_node(spec);
  const auto serves = [&](SimNode& one) {
    const auto put = one.put(server), get = server.get(one);
    return put && get && all_ended(300s) && one.outcome(*put).status == 0 && server.outcome(*get).status == 0;
  };
  const PeerNi* stays = nullptr;
  for (uint32_t number = 1; number <= 10 * kRoom / 2; ++number) {
    ASSERT_TRUE(serves(client)) << number << ": " << spec.nis[0];
    ASSERT_TRUE(serves(friendly)) << number;
    if (stays == nullptr) stays = peers_of(server).find(friendly.nid());
    EXPECT_EQ(peers_of(server).find(friendly.nid()), stays) << "it is used all the time";
    EXPECT_LE(peers_of(server).allocated(), kRoom);
    if (number % 4 == 0)
      sim.reset(client, server);  // the client's machine resets the connections of a killed process
    else
      client.node().stop(sim.now());
    sim.run_for(20s);
    client.kill();
    sim.run_for(20s);
    for (size_t i = 0; i < 2; ++i) {
      const std::string net = i == 0 ? "10.1." : "10.2.";
      spec.nis[i] = net + std::to_string(number / 200) + "." + std::to_string(number % 200 + 1) + "@tcp";
    }
    client.start_again_as(spec);
  }
  EXPECT_EQ(server.ended(false) + friendly.ended(false), 0u);
}

INSTANTIATE_TEST_SUITE_P(Transports, SimPeers, ::testing::Values(Transport::kFabric, Transport::kSockTcp),
                         [](const auto& one) {
                           return one.param == Transport::kFabric ? std::string("fabric") : std::string("socklnd");
                         });

}  // namespace
}  // namespace ulnet::test
