// Publishing views: who keeps one alive, and for how long. The mesh has no workers in it: a test plays them.
#include "control/publish/publisher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "control/outbox.h"
#include "control/publish/peer_table.h"
#include "dataplane/base/nid_text.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// Something whose end can be seen.
struct Witness {
  explicit Witness(int& ended) : count(ended) {}
  ~Witness() { ++count; }
  int& count;
};

class PublisherTest : public ::testing::Test {
 protected:
  static constexpr unsigned kWorkers = 3;
  std::array<IdleGate, kWorkers> gates_;
  std::array<IdleGate*, kWorkers> pointers_{&gates_[0], &gates_[1], &gates_[2]};
  IdleGate control_;
  Mesh mesh{kWorkers, 4, 16, pointers_.data(), &control_};
  Instant now{1s};
  Timers timers{now};

  ViewParts parts(std::shared_ptr<const LocalView> local = std::make_shared<LocalView>()) {
    ViewParts all;
    all.local = std::move(local);
    all.peers = std::make_shared<PeerTable>();
    all.routes = std::make_shared<RouteTable>();
    all.portals = std::make_shared<PortalTable>();
    return all;
  }
  /// What a worker does at the top of its turn.
  void turn(unsigned worker) { mesh.states[worker].epoch_seen.store(mesh.view.load()->epoch.value); }
  void wake(unsigned worker) { mesh.states[worker].awake.store(true); }
  void sleep(unsigned worker) { mesh.states[worker].awake.store(false); }
};

// Goal: a worker that has turned may use the view of that turn until it says that it sleeps, and nothing has to say
// that it is awake.
TEST_F(PublisherTest, a_view_stays_for_a_worker_that_turns_until_it_sleeps) {
  Publisher publisher(mesh, timers);
  Worker worker(WorkerId{0}, mesh, WorkerSize{64, 64, 16, 64}, 1, 1);
  for (int round = 0; round < 3; ++round) {
    (void)worker.turn(Instant{1s});
    ASSERT_TRUE(publisher.publish(parts()));
    EXPECT_EQ(publisher.retire(), 0u) << "the worker may be using it";
    EXPECT_FALSE(publisher.passed(publisher.epoch()));
    worker.note_asleep();
    EXPECT_EQ(publisher.retire(), 1u);
    EXPECT_TRUE(publisher.passed(publisher.epoch()));
  }
}

// Goal: a view goes when the last worker that is awake has passed it; one that sleeps holds nothing.
TEST_F(PublisherTest, retires_what_every_awake_worker_has_passed) {
  Publisher publisher(mesh, timers);
  for (unsigned worker : {0u, 1u}) {
    wake(worker);
    turn(worker);
  }
  int ended = 0;
  std::weak_ptr<const LocalView> old_part;
  {
    auto local = std::make_shared<LocalView>();
    old_part = local;
    ASSERT_TRUE(publisher.publish(parts(local)));
    publisher.bury(std::make_shared<Witness>(ended));
  }
  turn(0);
  turn(1);
  EXPECT_EQ(publisher.retire(), 1u) << "the empty view";
  ASSERT_TRUE(publisher.publish(parts()));
  EXPECT_EQ(publisher.retire(), 0u) << "both may still use it";
  EXPECT_EQ(timers.next(), now + 1s) << "no worker wakes control to free a view";
  turn(0);
  EXPECT_EQ(publisher.retire(), 0u) << "worker 1 may still use it";
  EXPECT_FALSE(old_part.expired());
  sleep(1);
  EXPECT_EQ(publisher.retire(), 1u) << "who sleeps holds nothing";
  EXPECT_TRUE(old_part.expired());
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(publisher.unretired(), 0u);
  EXPECT_EQ(timers.next(), kForever);
}

// Goal: what is buried now outlives the view that is current now, also when older ones go first.
TEST_F(PublisherTest, buried_blocks_outlive_the_current_view) {
  Publisher publisher(mesh, timers);
  wake(0);
  turn(0);
  int ended = 0;
  publisher.bury(std::make_shared<Witness>(ended));
  ASSERT_TRUE(publisher.publish(parts()));
  EXPECT_EQ(publisher.retire(), 0u);
  EXPECT_EQ(ended, 0);
  turn(0);
  EXPECT_EQ(publisher.retire(), 1u);
  EXPECT_EQ(ended, 1);
}

// Goal: a worker that stands still makes views pile up to the bound, not beyond; forced ones still go out.
TEST_F(PublisherTest, coalesces_above_the_bound) {
  Publisher publisher(mesh, timers);
  wake(2);
  turn(2);
  unsigned out = 0;
  while (publisher.publish(parts())) ASSERT_LE(++out, kViewsUnretiredMax);
  EXPECT_EQ(publisher.unretired(), kViewsUnretiredMax);
  const Epoch before = publisher.epoch();
  EXPECT_FALSE(publisher.publish(parts()));
  EXPECT_EQ(publisher.epoch(), before);
  EXPECT_EQ(timers.next(), now + kRetrySoon);
  EXPECT_TRUE(publisher.publish(parts(), true));
  EXPECT_EQ(timers.at(TimerName::kViewRetry), kForever);
  turn(2);
  EXPECT_EQ(publisher.retire(), kViewsUnretiredMax + 1);
  EXPECT_TRUE(publisher.publish(parts()));
}

// Goal: epochs grow by one, and workers find the newest.
TEST_F(PublisherTest, epochs_grow_by_one) {
  Publisher publisher(mesh, timers);
  const uint64_t first = mesh.view.load()->epoch.value;
  for (uint64_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(publisher.publish(parts()));
    EXPECT_EQ(mesh.view.load()->epoch.value, first + i);
    EXPECT_EQ(mesh.view.load(), &publisher.current());
    publisher.retire();
  }
}

// Goal: what finds the ring to a worker full goes later, in order.
TEST_F(PublisherTest, outbox_keeps_order_when_the_ring_is_full) {
  Outbox outbox(mesh, timers);
  for (uint32_t i = 0; i < 20; ++i) outbox.send(WorkerId{1}, PortalRetryMsg{PortalIndex{i}});
  EXPECT_TRUE(outbox.waiting());
  EXPECT_EQ(timers.next(), now + kRetrySoon);
  ControlMsg msg;
  for (uint32_t i = 0; i < 20; ++i) {
    outbox.flush();
    ASSERT_TRUE(mesh.to_worker[1]->pop(msg)) << i;
    EXPECT_EQ(std::get<PortalRetryMsg>(msg).portal.value, i);
  }
  EXPECT_FALSE(outbox.waiting());
  EXPECT_EQ(timers.next(), kForever);
}

std::shared_ptr<const PeerView> peer(const std::vector<std::string>& nids) {
  auto view = std::make_shared<PeerView>();
  for (const auto& text : nids) view->nis.push_back({.id = {}, .nid = nid(text)});
  return view;
}

// Goal: a snapshot never changes; the next one differs in what was set and erased and shares the rest.
TEST(PeerTableBuilder, snapshots_are_immutable_and_share) {
  PeerTableBuilder builder;
  for (unsigned i = 1; i < 200; ++i) {
    const std::string text = "10.0.0." + std::to_string(i) + "@tcp";
    builder.set(nid(text), peer({text}), 0);
  }
  auto first = builder.snapshot();
  const Nid changed = nid("10.0.0.7@tcp"), erased = nid("10.0.0.9@tcp");
  const auto two = peer({"10.0.0.7@tcp", "10.0.1.7@tcp"});
  builder.set(changed, two, 0);
  builder.set(nid("10.0.1.7@tcp"), two, 1);
  builder.erase(erased);
  builder.erase(nid("9.9.9.9@tcp"));
  auto second = builder.snapshot();
  EXPECT_EQ(builder.size(), 199u);
  EXPECT_EQ(first->find(changed).peer->nis.size(), 1u);
  EXPECT_EQ(second->find(changed).peer->nis.size(), 2u);
  EXPECT_EQ(second->find(nid("10.0.1.7@tcp")).ni().nid, nid("10.0.1.7@tcp"));
  EXPECT_FALSE(first->find(nid("10.0.1.7@tcp")));
  EXPECT_TRUE(first->find(erased));
  EXPECT_FALSE(second->find(erased));
  const auto leaves = [](const PeerTable& table) {
    std::set<const PeerTable::Entry*> all;
    for (const auto* limb : table.limbs)
      for (unsigned i = 0; limb != nullptr && i < PeerTable::kFan; ++i)
        if (limb->leaves[i] != nullptr) all.insert(limb->leaves[i]);
    return all;
  };
  const auto before = leaves(*first), after = leaves(*second);
  const auto fresh =
      std::count_if(after.begin(), after.end(), [&](const auto* leaf) { return !before.contains(leaf); });
  EXPECT_EQ(fresh, 3) << "only the leaves of the three that changed are new";
}

// Goal: what a change costs does not grow with the number of NIDs.
TEST(PeerTableBuilder, a_change_among_many_copies_no_more_than_one_among_few) {
  const auto cost = [](uint32_t count) {
    PeerTableBuilder builder;
    const auto set = [&](uint32_t i) {
      const Nid one = Nid::v4(net("tcp"), 0x0A000000u + i);
      auto view = std::make_shared<PeerView>();
      view->nis.push_back({.id = {}, .nid = one});
      builder.set(one, std::move(view), 0);
    };
    for (uint32_t i = 0; i < count; ++i) set(i);
    const uint64_t before = builder.copied_bytes();
    for (uint32_t i = 0; i < 1000; ++i) {
      const auto snapshot = builder.snapshot();
      set(i);
    }
    return (builder.copied_bytes() - before) / 1000;
  };
  const uint64_t few = cost(4000), many = cost(40000);
  EXPECT_GT(few, 0u);
  EXPECT_LE(many, few + few / 20);
}

// Goal: a peer lives as long as a snapshot that has it, and no longer.
TEST(PeerTableBuilder, peers_live_as_long_as_their_snapshots) {
  PeerTableBuilder builder;
  auto one = peer({"10.0.0.1@tcp"});
  std::weak_ptr<const PeerView> watched = one;
  builder.set(nid("10.0.0.1@tcp"), std::move(one), 0);
  auto snapshot = builder.snapshot();
  builder.erase(nid("10.0.0.1@tcp"));
  EXPECT_FALSE(watched.expired());
  snapshot.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace ulnet::test
