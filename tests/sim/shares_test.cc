// Whole nodes over simulated TCP: peers that hang, cannot be reached, or flood stop only their own messages.
#include <gtest/gtest.h>

#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

std::string nid_of(int number) {
  return "10.0.0." + std::to_string(number) + "@tcp";
}

// Goal: peers that hang do not keep the NI's credits. Method: 16 credits; four connected peers go silent, eight PUTs to
// each; a PUT to a fifth ends long before the driver's time-out (50 s).
TEST(SimShares, peers_that_hang_do_not_stop_the_others_on_the_ni) {
  SimNet sim{{.seed = 3, .transport = Transport::kSockTcp}};
  auto& a = sim.add_node({.nis = {nid_of(1)}, .credits = 16});
  std::vector<SimNode*> hanging;
  for (int i = 2; i < 6; ++i) hanging.push_back(&sim.add_node({.nis = {nid_of(i)}}));
  auto& live = sim.add_node({.nis = {nid_of(9)}});
  for (SimNode* node : hanging) a.put(*node);
  a.put(live);
  ASSERT_TRUE(sim.run_until([&] { return a.ended(true) == 5; }, 30s)) << sim.replay_hint();
  for (SimNode* node : hanging) {
    sim.cut(a, *node);
    for (int i = 0; i < 8; ++i) a.put(*node, {.length = 1u << 20});
  }
  sim.run_for(1s);
  const auto put = a.put(live);
  EXPECT_TRUE(sim.run_until([&] { return a.outcome(*put).ended; }, 5s)) << sim.replay_hint();
  sim.heal_all();
  ASSERT_TRUE(sim.run_until([&] { return a.open_operations() == 0; }, 400s)) << sim.replay_hint();
}

// Goal: no NI credit is held while a connection is being made.
// Method: as above, but with many peers that vanish before the first message to them. The PUT to the live peer does not
// wait at all.
TEST(SimShares, peers_that_cannot_be_reached_do_not_stop_the_others_on_the_ni) {
  SimNet sim{{.seed = 4, .transport = Transport::kSockTcp}};
  auto& a = sim.add_node({.nis = {nid_of(1)}, .credits = 4, .discovery = config::Discovery::kOff});
  std::vector<SimNode*> gone;
  for (int i = 2; i < 8; ++i) gone.push_back(&sim.add_node({.nis = {nid_of(i)}}));
  auto& live = sim.add_node({.nis = {nid_of(9)}});
  for (SimNode* node : gone) {
    sim.cut(a, *node);
    for (int i = 0; i < 8; ++i) a.put(*node);
  }
  sim.run_for(10ms);
  const auto put = a.put(live);
  EXPECT_TRUE(sim.run_until([&] { return a.outcome(*put).ended; }, 50ms)) << sim.replay_hint();
  sim.heal_all();
  ASSERT_TRUE(sim.run_until([&] { return a.open_operations() == 0; }, 400s)) << sim.replay_hint();
}

// Goal: two nodes flood each other with more GETs than both can hold. Neither node stops the other until the driver's
// time-out (50 s): the streams move again after kIncomingHoldMax, and a ping is answered.
TEST(SimShares, two_nodes_that_flood_each_other_do_not_stop_each_other) {
  SimNet sim{{.seed = 5, .transport = Transport::kSockTcp}};
  auto& a = sim.add_node({.nis = {nid_of(1)}, .peer_credits = 128, .operations = 8192});
  auto& b = sim.add_node({.nis = {nid_of(2)}, .peer_credits = 128, .operations = 8192});
  a.put(b);
  b.put(a);
  ASSERT_TRUE(sim.run_until([&] { return a.ended(true) == 1 && b.ended(true) == 1; }, 30s)) << sim.replay_hint();
  for (int i = 0; i < 7000; ++i) {
    a.get(b, {.length = 900});
    b.get(a, {.length = 900});
  }
  sim.run_for(kIncomingHoldMax + 10s);
  const size_t before = a.ended(true) + b.ended(true);
  for (SimNode* node : {&a, &b}) {
    const SimNode& other = node == &a ? b : a;
    const auto get = node->get(other);
    EXPECT_TRUE(sim.run_until([&] { return node->outcome(*get).ended; }, 5s)) << sim.replay_hint();
    EXPECT_EQ(node->outcome(*get).status, 0);
  }
  RecordProperty("ended_well_before", int(before));
  RecordProperty("dropped", int(a.drops(Drop::kNoMessage) + b.drops(Drop::kNoMessage)));
  ASSERT_TRUE(sim.run_until([&] { return a.open_operations() + b.open_operations() == 0; }, 400s))
      << sim.replay_hint();
}

}  // namespace
}  // namespace ulnet::test
