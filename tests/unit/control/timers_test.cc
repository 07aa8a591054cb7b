// The slow timers of control (control/timers.h), and those that no run of nodes here depends on.
#include "control/timers.h"

#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

// Goal: control sleeps until the first timer, whoever holds it, and no timer that is stopped wakes it.
TEST(Timers, the_first_is_next) {
  Instant now{1h};
  Timers timers(now);
  EXPECT_EQ(timers.next(), kForever);
  SlowTimer first(timers, TimerName::kRouting), second(timers, TimerName::kChanges);
  first.set(now + 5s);
  second.set_in(3s);
  EXPECT_EQ(timers.next(), now + 3s);
  EXPECT_EQ(timers.at(TimerName::kRouting), now + 5s);
  second.stop();
  EXPECT_EQ(timers.next(), now + 5s);
  first.set_by(now + 9s);
  EXPECT_EQ(first.at(), now + 5s) << "set_by() never sets a later time";
  first.set_by(now + 4s);
  EXPECT_FALSE(first.due(now + 4s - 1ns));
  EXPECT_TRUE(first.due(now + 4s));
  now += 1min;
  second.retry(true);
  EXPECT_EQ(second.at(), now + kRetrySoon);
  second.retry(false);
  EXPECT_EQ(second.at(), kForever);
  second.set_first(std::map<Instant, int>{{now + 2s, 0}, {now + 1s, 0}});
  EXPECT_EQ(second.at(), now + 1s);
  second.set_first(std::map<Instant, int>{});
  EXPECT_EQ(second.at(), kForever);
  EXPECT_FALSE(timers.complete()) << "other rows have no holder";
}

// Goal: an NI whose workers do not answer is closed when the time for that is over.
TEST(Timers, an_ni_that_is_not_drained_wakes_control) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  rig.run_for(100ms);
  Control& control = a.node->control();
  control.nis->remove(*control.nis->find(nid("10.0.0.1@tcp")), rig.now);
  control.dirty.local = true;
  while (a.node->turn_control(rig.now) > 0) {  // no worker turns
  }
  EXPECT_EQ(control.timers.at(TimerName::kNiDrain), rig.now + kNiDrainMax);
  EXPECT_LE(a.node->next_deadline(), rig.now + kNiDrainMax);
  rig.run_for(100ms);
  EXPECT_EQ(control.timers.at(TimerName::kNiDrain), kForever);
  EXPECT_EQ(control.nis->size(), 0u);
  rig.stop_all();
}

// Goal: a node that stops looks at the objects that are not at rest, and ends when its time is over.
TEST(Timers, a_stop_wakes_control_until_it_is_over) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"});
  rig.run_for(100ms);
  const Timers& timers = a.node->control().timers;
  EXPECT_EQ(timers.at(TimerName::kStop), kForever);
  a.node->stop(rig.now);
  for (; !a.node->stopped(); rig.now += 1ms) {  // no worker turns
    ASSERT_LE(timers.at(TimerName::kStop), rig.now + 1ms);
    (void)a.node->turn_control(rig.now);
  }
  EXPECT_EQ(timers.at(TimerName::kStop), kForever);
  EXPECT_NE(a.node->stop_leftovers(), "");
}

}  // namespace
}  // namespace ulnet::test
