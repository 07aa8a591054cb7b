// Two providers as one: each connection is over the provider that has its address, and both work side by side.
#include "lnd/rc/joined.h"

#include "lnd/rc/sim/net.h"
#include "tests/cluster/roce_net.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

class Joined : public ::testing::Test {
 protected:
  Joined() {
    net.now = now;
    for (unsigned i = 0; i < 2; ++i)
      nodes.push_back(rc::join(sim.make_node({of_sim(i)}, 1), net.make_node({of_roce(i)}, 1, true), 1));
  }
  [[nodiscard]] static rc::IpAddress of_sim(unsigned node) { return rc::IpAddress::of_v4(0x0A000001 + node); }
  [[nodiscard]] static rc::IpAddress of_roce(unsigned node) { return rc::IpAddress::of_v4(0x0A010001 + node); }
  void step() {
    now += 100us;
    net.run(now);
    for (unsigned node = 0; node < 2; ++node) {
      rc::Control& control = nodes[node]->control();
      std::array<rc::Event, 4> events;
      for (const rc::Event& event : std::span(events).first(control.poll(events, now))) on(node, event);
      rc::Worker& worker = nodes[node]->worker(kWorker);
      worker.poll(64, now);
      worker.timers(now);
      worker.flush(now);
    }
  }
  void on(unsigned node, const rc::Event& event) {
    rc::Control& control = nodes[node]->control();
    if (event.kind == rc::EventKind::kRequest) control.prepare(event.conn, usual_needs(), now);
    if (event.kind == rc::EventKind::kEstablished) ++up;
    if (event.kind != rc::EventKind::kReady) return;
    auto& side = sides[node][event.conn];
    side = std::make_unique<Side>(nodes[node]->worker(kWorker));
    side->adopt(*event.qp);
    control.proceed(event.conn, {}, now);
  }
  template <class F>
  bool until(const F& there) {
    for (int i = 0; i < 20'000 && !there(); ++i) step();
    return there();
  }

  Instant now = kNever + 1s;
  rc::sim::Net sim{1};
  RoceNet net{2};
  std::vector<std::unique_ptr<rc::Provider>> nodes;
  std::map<rc::ConnId, std::unique_ptr<Side>> sides[2];
  unsigned up = 0;
};

TEST_F(Joined, both_work_side_by_side) {
  rc::Control& control = nodes[1]->control();
  const auto first = control.listen({of_sim(1), kPort}), second = control.listen({of_roce(1), kPort});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(control.device(*first).name, "sim0");
  EXPECT_EQ(control.device(*second).name, "port0");
  EXPECT_EQ(control.listen({of_sim(7), kPort}).error().code, -ENODEV);
  EXPECT_EQ(control.listen({of_sim(1), kPort}).error().code, -EADDRINUSE);
  EXPECT_EQ(control.listen({of_roce(1), kPort}).error().code, -EADDRINUSE);
  for (const bool roce : {false, true})
    ASSERT_TRUE(nodes[0]->control().dial({.local = roce ? of_roce(0) : of_sim(0),
                                          .remote = {roce ? of_roce(1) : of_sim(1), kPort},
                                          .needs = usual_needs()},
                                         now));
  ASSERT_TRUE(until([&] { return up == 4; }));
  std::vector<std::byte> ours(4096), theirs(4096);
  fill(ours, 3);
  ASSERT_TRUE(nodes[0]->control().region_add({1}, ours));
  ASSERT_TRUE(control.region_add({2}, theirs));
  for (auto& [conn, side] : sides[0]) side->send("x", conn);
  for (auto& [conn, side] : sides[1]) side->send("y", conn);
  const auto done = [](const auto& one) { return one.second->messages.size() == 1 && one.second->tokens.size() == 1; };
  EXPECT_TRUE(until([&] { return std::all_of(sides[0].begin(), sides[0].end(), done); }));
  EXPECT_TRUE(until([&] { return std::all_of(sides[1].begin(), sides[1].end(), done); }));
  for (auto& [conn, side] : sides[1]) {  // the regions are there for both
    rc::RemoteKey key;
    const Segment window{theirs.data(), 4096, RegionId{2}};
    EXPECT_EQ(nodes[1]->worker(kWorker).key_open(*side->qp, key, {&window, 1, 0, 4096}), rc::Posted::kYes);
  }
  for (unsigned node = 0; node < 2; ++node) {
    EXPECT_EQ(sides[node].size(), 2u);
    for (auto& [conn, side] : sides[node]) {
      nodes[node]->control().disconnect(conn, now);
      ASSERT_TRUE(until([&] { return side->qp == nullptr; }));
      nodes[node]->control().destroy(conn, now);
    }
  }
  nodes[0]->control().region_remove({1});
  control.region_remove({2});
  control.unlisten(*first);
  control.unlisten(*second);
  EXPECT_TRUE(control.listen({of_sim(1), kPort}) && control.listen({of_roce(1), kPort})) << "both are free";
}

// Goal: the work of one provider does not keep the other from its turn.
TEST_F(Joined, a_small_budget) {
  ASSERT_TRUE(nodes[1]->control().listen({of_sim(1), kPort}) && nodes[1]->control().listen({of_roce(1), kPort}));
  for (const bool roce : {false, true})
    ASSERT_TRUE(nodes[0]->control().dial({.local = roce ? of_roce(0) : of_sim(0),
                                          .remote = {roce ? of_roce(1) : of_sim(1), kPort},
                                          .needs = usual_needs()},
                                         now));
  ASSERT_TRUE(until([&] { return up == 4; }));
  for (auto& [conn, side] : sides[0])
    for (unsigned i = 0; i < 8; ++i) side->send("x", i + 1);
  nodes[0]->worker(kWorker).flush(now);
  now += 10ms;
  net.run(now);
  for (unsigned i = 0; i < 8; ++i) EXPECT_LE(nodes[1]->worker(kWorker).poll(1, now), 1u);
  for (auto& [conn, side] : sides[1]) EXPECT_GE(side->messages.size(), 3u) << conn;
  for (unsigned node = 0; node < 2; ++node)
    for (auto& [conn, side] : sides[node]) {
      nodes[node]->control().disconnect(conn, now);
      ASSERT_TRUE(until([&] { return side->qp == nullptr; }));
      nodes[node]->control().destroy(conn, now);
    }
}

}  // namespace
}  // namespace ulnet::test
