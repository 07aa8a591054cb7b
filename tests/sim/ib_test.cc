// Goal: whole nodes over o2iblnd, on simulated RDMA devices: pings, discovery, payloads of each size, routers between
// o2ib and tcp, lives of a peer, rails. Random clusters of such nodes are in tests/simulate.
#include <gtest/gtest.h>

#include "control/discovery/runner.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

struct IbCase {
  Transport transport = Transport::kO2ib;
  unsigned workers = 1;
  bool lossy = false;  ///< RoCE over wires that lose, repeat and reorder packets
};

struct SimIb : ::testing::TestWithParam<IbCase> {
  SimNode& node(std::vector<std::string> nis, std::vector<RouteSpec> routes = {}, bool routing = false) {
    NodeSpec spec{
        .nis = std::move(nis), .workers = GetParam().workers, .routing = routing, .routes = std::move(routes)};
    spec.fast_detection = true;
    return sim.add_node(spec);
  }
  void SetUp() override {
    if (GetParam().lossy)
      sim.roce().rules = {.lose_one_in = 50, .repeat_one_in = 50, .reorder_one_in = 20, .damage_one_in = 200};
  }
  bool all_ended(Duration limit = 60s) {
    const auto ended = [](const auto& one) { return one->open_operations() == 0; };
    return sim.run_until([&] { return std::all_of(sim.nodes().begin(), sim.nodes().end(), ended); }, limit);
  }
  /// A PUT and a GET of each length, one after the other.
  void exchange(SimNode& from, const SimNode& to) {
    for (const uint32_t length : {0u, 1u, 4000u, 4001u, 65536u, 1u << 20})
      for (const bool get : {false, true}) {
        const auto number = from.start(to.nid(), {.length = length}, get);
        ASSERT_TRUE(all_ended());
        EXPECT_EQ(from.outcome(*number).status, 0) << length << (get ? " GET" : " PUT");
      }
  }
  /// Has the router sent 4 MiB on, and kept packets of this many bytes, with 1 KiB in each? All are given back.
  void routed(const SimNode& router, uint64_t kept_bytes) {
    sim.run_for(1s);
    EXPECT_GE(router.stat(Stat::kRouteLength), uint64_t{4} << 20);
    if (GetParam().transport != Transport::kRoce) return;
    const uint64_t kept = sim.roce().count(rc::roce::Count::kPacketsKept);
    EXPECT_EQ(kept > 0, kept_bytes > 0) << kept;
    EXPECT_GE(kept, kept_bytes / 1024 * 2 / 5) << "the rest was handed over to another worker, or came again";
    EXPECT_EQ(sim.roce().kept, 0u);
  }
  SimNet sim{{.seed = 51, .transport = GetParam().transport}};
};

TEST_P(SimIb, pings) {
  auto& a = node({"10.0.0.1@o2ib"});
  node({"10.0.0.2@o2ib", "10.1.0.2@o2ib1"});
  a.ping("10.0.0.2@o2ib");
  ASSERT_TRUE(sim.run_until([&] { return a.ping_answer().has_value(); }, 10s));
  EXPECT_EQ(a.ping_answer()->error, 0);
  EXPECT_EQ(a.ping_answer()->info.nis.size(), 2u);
  a.ping("10.0.0.3@o2ib", 1s);
  ASSERT_TRUE(sim.run_until([&] { return a.ping_answer().has_value(); }, 10s));
  EXPECT_NE(a.ping_answer()->error, 0);
}

// Goal: payloads of each size, from messages to remote writes that fill a whole message, arrive over discovered rails.
TEST_P(SimIb, payloads_of_each_size) {
  auto& a = node({"10.0.0.1@o2ib", "10.1.0.1@o2ib1"});
  auto& b = node({"10.0.0.2@o2ib", "10.1.0.2@o2ib1"});
  exchange(a, b);
  exchange(b, a);
  const PeerNi* peer = a.node().control().peers->find(b.nid(1));
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->peer->ni_count(), 2u);
  EXPECT_TRUE(peer->peer->multi_rail());
  if (GetParam().transport == Transport::kO2ib) {
    EXPECT_GT(sim.rc().counts.writes, 0u);
  }
}

// Goal: a router passes messages of each size from o2ib to tcp and back.
TEST_P(SimIb, a_router_between_o2ib_and_tcp) {
  auto& a = node({"10.0.0.1@o2ib"}, {{"tcp", "10.0.0.9@o2ib"}});
  auto& router = node({"10.0.0.9@o2ib", "10.1.0.9@tcp"}, {}, true);
  auto& b = node({"10.1.0.2@tcp"}, {{"o2ib", "10.1.0.9@tcp"}});
  exchange(a, b);
  exchange(b, a);
  routed(router, GetParam().transport == Transport::kRoce ? 2u << 20 : 0);
}

// Goal: an RDMA device sends from registered memory only, so that a router copies what comes over RoCE for such a
// device.
TEST_P(SimIb, a_router_between_ports_and_an_adapter) {
  auto& a = node({"10.0.0.1@o2ib"}, {{"o2ib7", "10.0.0.9@o2ib"}});
  auto& router = node({"10.0.0.9@o2ib", "10.1.0.9@o2ib7"}, {}, true);
  auto& b = node({"10.1.0.2@o2ib7"}, {{"o2ib", "10.1.0.9@o2ib7"}});
  exchange(a, b);
  exchange(b, a);
  routed(router, 0);
  if (GetParam().transport == Transport::kRoce) {
    EXPECT_GT(sim.roce().count(rc::roce::Count::kAcksSent), 0u);
    EXPECT_GT(sim.rc().counts.writes, 0u);
  }
}

// Goal: a router over RoCE sends payloads on from their packets, and gives these back.
TEST_P(SimIb, a_router_between_o2ib_networks) {
  auto& a = node({"10.0.0.1@o2ib"}, {{"o2ib1", "10.0.0.9@o2ib"}});
  auto& router = node({"10.0.0.9@o2ib", "10.1.0.9@o2ib1"}, {}, true);
  auto& b = node({"10.1.0.2@o2ib1"}, {{"o2ib", "10.1.0.9@o2ib1"}});
  exchange(a, b);
  exchange(b, a);
  routed(router, GetParam().transport == Transport::kRoce ? 4u << 20 : 0);
}

// Goal: wires before and behind a router break. Packets of payloads that it cannot send are given back.
TEST_P(SimIb, a_router_whose_wires_break) {
  auto& a = node({"10.0.0.1@o2ib"}, {{"o2ib1", "10.0.0.9@o2ib"}});
  auto& router = node({"10.0.0.9@o2ib", "10.1.0.9@o2ib1"}, {}, true);
  auto& b = node({"10.1.0.2@o2ib1"}, {{"o2ib", "10.1.0.9@o2ib1"}});
  exchange(a, b);
  for (unsigned round = 0; round < 16; ++round) {
    for (unsigned i = 0; i < 6; ++i) (void)a.start(b.nid(), {.length = 1u << 20}, i % 2 == 0);
    sim.run_for(Duration(round / 2 * 150us));
    if (round % 2 == 0)
      sim.reset(a, router);
    else
      sim.reset(router, b);
    ASSERT_TRUE(all_ended(200s));
    sim.run_for(10s);
  }
  sim.run_for(60s);
  exchange(a, b);
  if (GetParam().transport != Transport::kRoce) return;
  sim.run_for(60s);
  EXPECT_EQ(sim.roce().kept, 0u);
}

TEST_P(SimIb, a_peer_that_starts_again) {
  auto& a = node({"10.0.0.1@o2ib"});
  auto& b = node({"10.0.0.2@o2ib"});
  exchange(a, b);
  b.restart();  // its connections are gone, and node a does not hear of it
  sim.run_for(1s);
  for (int i = 0; i < 3; ++i) {
    (void)a.put(b);
    ASSERT_TRUE(all_ended());
  }
  exchange(a, b);
}

// Goal: when a peer NI comes back as another life at one local NI, the connections of all local NIs to the former life
// end. Else each of them costs the message that finds it dead.
TEST_P(SimIb, a_peer_that_starts_again_is_known_on_all_rails) {
  auto& a = node({"10.0.0.1@o2ib", "10.0.0.3@o2ib"});
  auto& b = node({"10.0.0.2@o2ib", "10.0.0.4@o2ib"});
  constexpr size_t kEnds = 8;  // of a connection for each pair of NIs
  for (const unsigned down : {0u, 1u}) {
    sim.set_link(a.nid(down), false);
    sim.run_for(100ms);
    for (int i = 0; i < 8; ++i) (void)a.put(b);
    ASSERT_TRUE(all_ended());
    sim.set_link(a.nid(down), true);
    sim.run_for(100ms);
  }
  ASSERT_EQ(sim.rc_conns(), kEnds);
  b.restart();
  const auto came_from = [&](unsigned ni) {
    return b.node().control().nis->find(b.nid(ni))->counted(NiTraffic::kSent);
  };
  for (int i = 0; i < 10 && (came_from(0) == 0 || came_from(1) == 0); ++i) {
    b.ping("10.0.0.1@o2ib");
    ASSERT_TRUE(sim.run_until([&] { return b.ping_answer().has_value(); }, 60s));
    sim.run_for(1s);
  }
  ASSERT_GT(came_from(0), 0u);
  ASSERT_GT(came_from(1), 0u);
  for (int i = 0; i < 16; ++i) {
    const auto number = a.put(b);
    ASSERT_TRUE(all_ended());
    EXPECT_EQ(a.outcome(*number).status, 0) << i;
  }
}

// Goal: messages that wait for a connection to a former life take one to the present life, which is not refused.
TEST_P(SimIb, messages_that_wait_follow_a_peer_to_its_new_life) {
  auto& a = node({"10.0.0.1@o2ib", "10.0.0.3@o2ib"});
  auto& b = node({"10.0.0.2@o2ib"});
  sim.set_link(a.nid(1), false);
  sim.run_for(100ms);
  const auto first = a.put(b);
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(a.outcome(*first).status, 0);
  b.restart();
  for (int i = 0; i < 20; ++i) (void)a.put(b);  // more than credits
  sim.run_for(1ms);
  sim.set_link(a.nid(1), true);
  b.ping("10.0.0.3@o2ib");
  ASSERT_TRUE(all_ended(200s));
  EXPECT_GE(a.ended(true), 12u) << "all that were not posted";
  for (const std::string& line : b.journal())
    EXPECT_EQ(line.find("for a former life of this NI"), std::string::npos) << line;
}

// Goal: a peer counts as reached when a local NI reaches its new life. The connections of another local NI to the
// former life end before that.
TEST_P(SimIb, a_peer_that_starts_again_counts_as_reached) {
  auto& a = node({"10.0.0.1@o2ib", "10.0.0.3@o2ib"});
  auto& b = node({"10.0.0.2@o2ib"});
  const auto use_only = [&](unsigned ni) {
    for (const unsigned one : {0u, 1u}) sim.set_link(a.nid(one), one == ni);
    sim.run_for(100ms);
    const auto number = a.put(b);
    ASSERT_TRUE(all_ended());
    EXPECT_EQ(a.outcome(*number).status, 0) << ni;
  };
  use_only(0);
  b.restart();
  use_only(1);
  std::string last;
  for (const std::string& line : a.journal())
    if (line.find("10.0.0.2@o2ib") != std::string::npos && line.find("be reached") != std::string::npos) last = line;
  EXPECT_NE(last.find("can be reached again"), std::string::npos) << last;
  EXPECT_EQ(sim.rc_conns(), 2u) << "one connection";
}

// Goal: the port of one rail goes down. Messages take the other rail, and both when the port is back.
TEST_P(SimIb, a_port_that_goes_down) {
  auto& a = node({"10.0.0.1@o2ib", "10.1.0.1@o2ib1"});
  auto& b = node({"10.0.0.2@o2ib", "10.1.0.2@o2ib1"});
  exchange(a, b);
  const LocalNi& ni = *a.node().control().nis->find(a.nid());
  sim.set_link(a.nid(), false);
  sim.run_for(100ms);
  EXPECT_TRUE(ni.fatal);
  const uint64_t sent = ni.counted(NiTraffic::kSent);
  exchange(a, b);
  EXPECT_EQ(ni.counted(NiTraffic::kSent), sent);
  sim.set_link(a.nid(), true);
  sim.run_for(30s);
  exchange(a, b);
  EXPECT_GT(ni.counted(NiTraffic::kSent), sent);
}

// Goal: the wires break while large payloads are under way. Each operation ends once, and later ones arrive.
TEST_P(SimIb, wires_that_break) {
  auto& a = node({"10.0.0.1@o2ib"});
  auto& b = node({"10.0.0.2@o2ib"});
  exchange(a, b);
  for (unsigned round = 0; round < 10; ++round) {
    for (unsigned i = 0; i < 6; ++i) (void)a.start(b.nid(), {.length = 1u << 20}, i % 2 == 0);
    sim.run_for(Duration(round * 23us));
    sim.reset(a, b);
    ASSERT_TRUE(all_ended(200s)) << "an operation whose answer is lost takes the transaction timeout";
  }
  exchange(a, b);
}

std::vector<IbCase> cases() {
  std::vector<IbCase> all;
  for (const Transport transport : {Transport::kO2ib, Transport::kRoce})
    for (const unsigned workers : worker_counts()) all.push_back({transport, workers});
  all.push_back({Transport::kRoce, 3, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Providers, SimIb, ::testing::ValuesIn(cases()), [](const auto& test) {
  return transport_name(test.param.transport) + (test.param.lossy ? "_lossy_" : "_") +
         std::to_string(test.param.workers);
});

}  // namespace
}  // namespace ulnet::test
