// Thousands of peers that come and go in one change. The reports of workers are bounded, and none is lost.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/lnd_host.h"
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

// Goal: a peer for which there is no memory is refused by its driver. The process does not end.
// Method: in a child process whose address space is bounded, peers connect until one is refused.
TEST(Many, peers_without_memory_are_refused) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the address space";
  NodeRig rig;
  NodeConfig config;
  config.peers_max = 1 << 22;
  auto& a = rig.add({"10.0.0.1@tcp"}, 1, config);
  LndControlHost& host = *a.node->control().lnd_hosts[1];
  const NiId ni = a.node->control().nis->find(nid("10.0.0.1@tcp"))->id;
  const pid_t child = fork();
  if (child == 0) {
    std::FILE* statm = std::fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (statm == nullptr || std::fscanf(statm, "%lu", &pages) != 1) _exit(3);
    std::fclose(statm);
    const rlim_t bytes = pages * 4096 + (64ul << 20);
    const rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(4);
    for (uint32_t i = 1; i < 1'000'000; ++i) {
      const auto place = host.place_peer(Nid::v4(net("tcp"), 0x0B000000u + i), ni);
      if (!place) _exit(place.error().code == -ENOMEM ? 0 : 1);
    }
    _exit(5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  rig.stop_all();
}

}  // namespace
}  // namespace ulnet::test
