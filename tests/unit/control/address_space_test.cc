// The address space of the process is used up. New objects are refused, and the process does not end.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "control/lnd_host.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr uint64_t kLeft = 64 << 20;

/// Runs `refused` in a child process with little address space left; is it true there?
template <class F>
bool in_little_space(const F& refused) {
  const pid_t child = fork();
  if (child == 0) {
    std::FILE* statm = std::fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (statm == nullptr || std::fscanf(statm, "%lu", &pages) != 1) _exit(3);
    std::fclose(statm);
    const rlim_t bytes = pages * 4096 + kLeft;
    const rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(4);
    _exit(refused() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Goal: a peer for which there is no memory is refused by its driver.
// Method: peers connect until one is refused.
TEST(AddressSpace, peers_without_memory_are_refused) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the address space";
  NodeRig rig;
  NodeConfig config;
  config.peers_max = 1 << 22;
  auto& a = rig.add({"10.0.0.1@tcp"}, 1, config);
  LndControlHost& host = *a.node->control().lnd_hosts[1];
  const NiId ni = a.node->control().nis->find(nid("10.0.0.1@tcp"))->id;
  EXPECT_TRUE(in_little_space([&] {
    for (uint32_t i = 1; i < 1'000'000; ++i)
      if (const auto place = host.place_peer(Nid::v4(net("tcp"), 0x0B000000u + i), ni); !place)
        return place.error().code == -ENOMEM;
    return false;
  }));
  rig.stop_all();
}

// Goal: if there is no memory for the bookkeeping of buffers, the change fails.
// Method: buffers of no bytes need bookkeeping alone.
TEST(AddressSpace, buffers_without_memory_are_refused) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the address space";
  NodeRig rig;
  auto& a = rig.add({});
  ASSERT_EQ(rig.apply(a, config::SetBuffers{1'000'000'000, 1, 1}), "");
  EXPECT_TRUE(in_little_space([&] { return rig.apply(a, config::SetRouting{true}).substr(0, 3) == "-12"; }));
}

}  // namespace
}  // namespace ulnet::test
