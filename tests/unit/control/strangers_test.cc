// Peers whose NID is known only from their own messages: their share of the peer table, and of the journal.
#include "control/lnd_host.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kPeersMax = 4096;  // 32 parts of 128

struct Strangers {
  Strangers() {
    NodeConfig config;
    config.peers_max = kPeersMax;
    node = &rig.add({"10.0.0.1@tcp"}, 1, config);
    ni = node->node->control().nis->find(nid("10.0.0.1@tcp"))->id;
  }
  PeerDb& peers() { return *node->node->control().peers; }
  LndControlHost& host() { return *node->node->control().lnd_hosts[1]; }
  static Nid name(uint32_t number) { return Nid::v4(net("tcp"), 0x0B000000u + number); }
  /// Opens and closes a connection from `address` under that name.
  bool visit(uint32_t number, const std::string& address) {
    const auto place = host().place_stranger(name(number), ni, {nid(address)});
    if (place) host().peer_left(place->id);
    return place.has_value();
  }
  /// The peer has sent a message.
  void use(uint32_t number) {
    peers().find(name(number))->blocks->slice.last_alive_ns.set(rig.now.time_since_epoch().count());
  }
  NodeRig rig;
  RigNode* node;
  NiId ni{};
};

// Goal: a peer that only gives a name leaves nothing behind, after any number of names.
TEST(Strangers, unused_peers_are_forgotten_with_their_connection) {
  Strangers t;
  for (uint32_t i = 0; i < 3 * kPeersMax; ++i) {
    ASSERT_TRUE(t.visit(i, "10.9.9.9@tcp")) << i;
    if (i % 64 == 63) t.rig.run_for(200ms);
  }
  EXPECT_TRUE(t.rig.run_until([&] { return t.peers().allocated() == 0; }, 10s)) << t.peers().allocated();
  EXPECT_TRUE(t.peers().peers().empty());
  t.rig.stop_all();
}

// Goal: one address has at most its share of peers, including peers in use, and takes no place of another address.
TEST(Strangers, an_address_has_a_share) {
  Strangers t;
  ASSERT_TRUE(t.visit(1'000'000, "10.8.8.8@tcp"));
  t.use(1'000'000);
  for (uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(t.host().place_stranger(Strangers::name(i), t.ni, {nid("10.9.9.9@tcp")}).has_value()) << i;
    t.use(i);
    EXPECT_LE(t.peers().peers().size(), 1 + kPeersMax / 32);
  }
  EXPECT_EQ(t.peers().find(Strangers::name(0)), nullptr) << "the oldest made room";
  EXPECT_NE(t.peers().find(Strangers::name(999)), nullptr);
  EXPECT_NE(t.peers().find(Strangers::name(1'000'000)), nullptr);
  t.rig.stop_all();
}

// Goal: a NID that came from a connection stays if it is used or configured later.
TEST(Strangers, used_ones_stay) {
  Strangers t;
  ASSERT_TRUE(t.visit(1, "10.9.9.9@tcp"));
  t.use(1);
  ASSERT_TRUE(t.visit(2, "10.9.9.9@tcp"));
  config::PeerAdd add;
  add.peer.primary = Strangers::name(2);
  ASSERT_EQ(t.rig.apply(*t.node, add), "");
  ASSERT_TRUE(t.visit(3, "10.9.9.9@tcp"));
  t.rig.run_for(1min);
  EXPECT_NE(t.peers().find(Strangers::name(1)), nullptr);
  EXPECT_NE(t.peers().find(Strangers::name(2)), nullptr);
  EXPECT_EQ(t.peers().find(Strangers::name(3)), nullptr);
  t.rig.stop_all();
}

// Goal: when the table is crowded, peers of addresses with many peers are forgotten first, long before the five minutes
// of others.
TEST(Strangers, many_of_one_address_go_first) {
  Strangers t;
  for (uint32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(t.visit(1'000'000 + i, "10.1.0." + std::to_string(i + 1) + "@tcp"));
    t.use(1'000'000 + i);
  }
  for (uint32_t address = 0; address < 32; ++address)
    for (uint32_t i = 0; i < kPeersMax / 32; ++i)
      if (t.visit(address * 1000 + i, "10.9.9." + std::to_string(address + 1) + "@tcp")) t.use(address * 1000 + i);
  EXPECT_EQ(t.peers().allocated(), kPeersMax);
  EXPECT_FALSE(t.visit(2'000'000, "10.2.0.1@tcp"));
  EXPECT_TRUE(t.rig.run_until([&] { return t.visit(2'000'000, "10.2.0.1@tcp"); }, 30s));
  for (uint32_t i = 0; i < 50; ++i) EXPECT_NE(t.peers().find(Strangers::name(1'000'000 + i)), nullptr) << i;
  t.rig.stop_all();
}

// Goal: a stranger is served by the worker at which its packets arrive, if its NI uses that worker. Others are spread.
TEST(Strangers, served_where_their_packets_arrive) {
  NodeRig rig;
  RigNode& node = rig.add({"10.0.0.1@tcp"}, 4);
  Control& control = node.node->control();
  const NiId ni = control.nis->find(nid("10.0.0.1@tcp"))->id;
  const auto worker_of = [&](uint32_t number, WorkerId arrives_at) {
    const auto place =
        control.lnd_hosts[1]->place_stranger(Strangers::name(number), ni, {nid("10.9.9.9@tcp"), arrives_at});
    return place ? place->worker.value : kNoWorker.value;
  };
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(worker_of(i, WorkerId{2}), 2);
  EXPECT_EQ(worker_of(0, WorkerId{3}), 2) << "known";
  for (uint32_t i = 8; i < 14; ++i)
    EXPECT_NE(worker_of(i, i % 2 == 0 ? kNoWorker : WorkerId{4}), 2) << "the least loaded";
  unsigned there = 0;
  for (uint32_t i = 100; i < 300; ++i) there += worker_of(i, WorkerId{2}) == 2 ? 1 : 0;
  EXPECT_GT(there, 50u);
  EXPECT_LT(there, 120u) << "all at one worker, and it is full while others are empty";
  rig.stop_all();
}

// Goal: a peer that comes and goes without end writes a few lines and then their number. Lines of other causes still
// appear.
TEST(Strangers, journal_lines_of_peers_are_limited) {
  Strangers t;
  const auto place = t.host().place_stranger(Strangers::name(1), t.ni, {nid("10.9.9.9@tcp")});
  ASSERT_TRUE(place.has_value());
  t.node->journal.clear();
  for (int i = 0; i < 1000; ++i) {
    t.host().peer_down(place->id, -ECONNRESET);
    t.host().peer_up(place->id);
  }
  EXPECT_EQ(t.node->journal.size(), 20u) << "ten of each kind";
  t.rig.run_for(11s);
  t.host().peer_down(place->id, -ECONNRESET);
  ASSERT_EQ(t.node->journal.size(), 21u);
  EXPECT_TRUE(t.node->journal.back().ends_with("(990 such lines left out before)")) << t.node->journal.back();
  t.rig.stop_all();
}

}  // namespace
}  // namespace ulnet::test
