// NIs that start and stop, in each state of their device.
#include "tests/script/ib/ib_nodes.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

class IbDevice : public IbNodes {};

// Goal: the host hears of a device after ni_start() has returned, when it has the NI.
TEST_F(IbDevice, its_state_is_reported_after_the_start) {
  net.set_port(ib_address(0), false);
  IbNode& a = add(0);
  EXPECT_FALSE(a.fatal);
  EXPECT_LE(a.control->next_deadline(), now) << "the next turn comes at once";
  a.turn(now);
  EXPECT_TRUE(a.fatal);
  EXPECT_GT(a.control->next_deadline(), now);
}

// Goal: a device answers later. Until then its NI is neither up nor down, and control may sleep.
TEST_F(IbDevice, its_state_is_not_known_at_once) {
  if (kOverRoce) GTEST_SKIP() << "it is known at once there";
  add(1);
  pass(1ms);
  net.rules.device_max = 5ms;
  IbNode& a = add(0);
  for (unsigned i = 0; i < 4; ++i, now += 1ms) {
    a.turn(now);
    EXPECT_FALSE(a.fatal);
    EXPECT_GT(a.control->next_deadline(), now);
  }
  EXPECT_EQ(a.reports, 0u);
  pass(10ms);
  EXPECT_FALSE(a.fatal);
  EXPECT_EQ(a.reports, 1u);
}

// Goal: the log has each reason once, also if the device is useless all the time.
TEST_F(IbDevice, why_it_cannot_be_used) {
  if (kOverRoce) GTEST_SKIP() << "a port has no reasons of its own";
  IbNode& a = add(0);
  pass(1ms);
  for (const char* reason : {"it is gone", "it is gone", "it has no memory", ""}) {
    net.set_port(ib_address(0), false, reason);
    pass(1ms);
    EXPECT_TRUE(a.fatal);
  }
  net.set_port(ib_address(0), true);
  pass(1ms);
  EXPECT_FALSE(a.fatal);
  net.set_port(ib_address(0), false, "it is gone");
  pass(1ms);
  const std::string who = "o2iblnd: 10.0.0.1@o2ib: sim0: ";
  EXPECT_EQ(a.logged, (std::vector{who + "it is gone", who + "it has no memory", who + "it is gone"}));
}

TEST_F(IbDevice, an_address_without_a_device) {
  IbNode& a = add(0);
  NiParams params;
  params.id = NiId{2};
  params.nid = ib_nid(9);
  const auto started = a.control->ni_start(params, now);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, -ENODEV);
  pass();
  EXPECT_FALSE(a.fatal);
}

// Goal: an NI stops and starts again (docs/decisions.md #115), after any number of turns, and its device may be useless
// then. Each message ends once, and messages pass when the device is well.
TEST_F(IbDevice, each_message_ends_once) {
  enum class Trouble { kNone, kPortDown, kPortFails, kPeerDown, kNoQueuePair, kBrokenWires };
  for (const Trouble trouble : {Trouble::kNone, Trouble::kPortDown, Trouble::kPortFails, Trouble::kPeerDown,
                                Trouble::kNoQueuePair, Trouble::kBrokenWires}) {
    for (unsigned steps = 0; steps < 16; ++steps) {
      SCOPED_TRACE(std::to_string(unsigned(trouble)) + " " + std::to_string(steps));
      net.set_port(ib_address(0), trouble != Trouble::kPortDown);
      net.set_port(ib_address(1), trouble != Trouble::kPeerDown);
      net.rules.qps_max = trouble == Trouble::kNoQueuePair ? 0 : UINT32_MAX;
      IbNode &a = add(0), &b = add(1);
      const auto turns = [&](unsigned count) {
        for (; count > 0; --count, now += 300us)
          for (auto& [number, node] : nodes) node->turn(now);
      };
      const auto send = [&] {
        a.put(1, 1, 100);
        a.put(1, 2, 300'000);
        a.get(1, 40, 40'000);
        b.put(0, 3, 200'000);
      };
      send();
      turns(steps);
      if (trouble == Trouble::kPortFails) net.set_port(ib_address(0), false);
      if (trouble == Trouble::kBrokenWires) net.break_wires(ib_address(0), ib_address(1));
      turns(steps % 3);
      a.stop();
      send();
      turns(steps % 5);
      for (unsigned i = 0; i < 20'000 && !a.stopped; ++i) turns(1);
      ASSERT_TRUE(a.stopped);
      send();
      turns(steps % 2);
      a.start();
      send();
      turns(steps);
      net.set_port(ib_address(0), true);
      net.set_port(ib_address(1), true);
      net.rules.qps_max = UINT32_MAX;
      pass(120s);
      EXPECT_EQ(a.unfinished + b.unfinished, 0u);
      IbTx& last = a.put(1, 9, 100);
      pass(10s);
      EXPECT_TRUE(last.done);
      EXPECT_EQ(last.how.error, 0);
      EXPECT_FALSE(a.fatal);
      stop(a);
      stop(b);
      nodes.clear();
      EXPECT_EQ(net.conns(), 0u);
      ASSERT_FALSE(HasFailure());
    }
  }
}

}  // namespace
}  // namespace ulnet::test
