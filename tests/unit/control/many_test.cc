// Thousands of peers that come and go in one change. The reports of workers are bounded, and none is lost.
#include <fmt/format.h>

#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

constexpr int kPeers = 2000;
constexpr int kNidsOfPeer = 8;

config::ChangeList peers_added() {
  config::ChangeList changes;
  for (int i = 0; i < kPeers; ++i) {
    config::PeerAdd add;
    add.peer.primary = nid(fmt::format("10.{}.{}.1@tcp", 1 + i / 250, i % 250));
    for (int j = 2; j <= kNidsOfPeer; ++j)
      add.peer.nids.push_back(nid(fmt::format("10.{}.{}.{}@tcp", 1 + i / 250, i % 250, j)));
    changes.push_back({add, {}});
  }
  return changes;
}
config::ChangeList peers_removed() {
  config::ChangeList changes;
  for (int i = 0; i < kPeers; ++i) {
    config::PeerDel del;
    del.primary = nid(fmt::format("10.{}.{}.1@tcp", 1 + i / 250, i % 250));
    changes.push_back({del, {}});
  }
  return changes;
}

// Goal: thousands of peers of several NIDs each are imported and deleted, and their memory comes back.
TEST(Many, peers_of_several_nids_are_imported_and_deleted) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp"}, 2);
  PeerDb& peers = *a.node->control().peers;
  ASSERT_EQ(rig.apply(a, peers_added()), "");
  EXPECT_EQ(peers.allocated(), size_t(kPeers * kNidsOfPeer));
  bool removed = false;
  a.node->apply(peers_removed(), [&](const config::Problems& errors) { removed = errors.empty(); });
  // Control sends requests for all of them before a worker turns. The workers answer all of them before control turns.
  for (int round = 0; round < 10; ++round, rig.now += 200ms) {
    for (int i = 0; i < 300; ++i) (void)turn_control_watched(*a.node, rig.now);
    for (int i = 0; i < 1100; ++i)
      for (uint16_t worker = 0; worker < 2; ++worker) (void)turn_watched(*a.node, WorkerId{worker}, rig.now);
  }
  EXPECT_TRUE(removed);
  EXPECT_TRUE(rig.run_until([&] { return peers.allocated() == 0; }, 100s));
  EXPECT_EQ(peers.known(), 0u);
  rig.stop_all();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Goal: thousands of NIDs of no node are pinged twice. Then LNet is unconfigured, or the node stops.
TEST(Many, unreachable_nids_are_pinged_and_the_node_is_unconfigured) {
  constexpr int kNids = kSanitized ? 1000 : 8000;
  for (const bool unconfigure : {true, false}) {
    NodeRig rig;
    auto& a = rig.add({"10.0.0.1@tcp"}, 2);
    for (int round = 0; round < 2; ++round) {
      PingRequest request;
      for (int i = 0; i < kNids; ++i)
        request.nids.push_back(nid(fmt::format("10.101.{}.{}@tcp", i / 250, 1 + i % 250)));
      request.timeout = 1s;
      size_t answered = 0;
      a.node->ping(request, [&](std::vector<PingAnswer> answers) { answered = answers.size(); });
      ASSERT_TRUE(rig.run_until([&] { return answered != 0; }, 1000s));
      EXPECT_EQ(answered, size_t(kNids));
    }
    if (unconfigure) {
      EXPECT_EQ(rig.apply(a, config::LnetUnconfigure{}), "");
      EXPECT_TRUE(rig.run_until([&] { return a.node->control().peers->allocated() == 0; }, 100s));
    }
    rig.stop_all();
  }
}

}  // namespace
}  // namespace ulnet::test
