// DPDK's environment: its arguments, and one start in this process.
#include "lnd/net/dpdk/eal.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>

#include "dataplane/host/host.h"

namespace ulnet {
namespace {

std::string line(const EalConfig& config) {
  std::string out;
  for (const auto& argument : dpdk::eal_arguments(config)) out += (out.empty() ? "" : " ") + argument;
  return out;
}

TEST(Eal, arguments) {
  EXPECT_EQ(
      "ulnetd --lcores 0@(0,1),1@2,2@3 --main-lcore 0 --no-huge --no-shconf -m 64 --iova-mode va --no-pci "
      "--no-telemetry "
      "--log-level lib.*:warning",
      line({.control_cpus = {0, 1}, .worker_cpus = {2, 3}}));
  EXPECT_EQ(
      "x --lcores 0@(7),1@0 --main-lcore 0 --in-memory -m 512 --iova-mode va --allow 0000:03:00.0 --vdev net_tap0 "
      "--no-telemetry "
      "--log-level lib.*:warning",
      line({.control_cpus = {7},
            .worker_cpus = {0},
            .devices = {"0000:03:00.0"},
            .virtual_devices = {"net_tap0"},
            .memory_mb = 512,
            .hugepages = true,
            .program = "x"}));
}

/// Records the CPU that turned it.
class Where final : public Turnable {
 public:
  Where() { EXPECT_TRUE(gate_.open().has_value()); }
  unsigned turn(Instant) override {
    cpu.store(sched_getcpu());
    return 0;
  }
  bool pending() override { return false; }
  Instant next_deadline() override { return kForever; }
  unsigned wait_fds(std::span<int>) override { return 0; }
  IdleGate& gate() override { return gate_; }
  void note_asleep() override {}
  void note_awake(Duration) override {}
  std::atomic<int> cpu{-1};

 private:
  IdleGate gate_;
};

// Goal: a Host that owns the EAL runs its workers as lcores on their CPUs. A second start in the process fails with the
// reason.
TEST(Eal, host_runs_workers_as_lcores) {
  HostConfig config;
  config.worker_count = 1;
  config.dpdk = DpdkMode::kOwn;
  config.start_eal = &dpdk::start_eal;
  auto host = Host::start(config);
  if (!host && host.error().code == -ENOTSUP) GTEST_SKIP() << host.error().what;
  ASSERT_TRUE(host.has_value()) << host.error().what;
  Where where;
  ASSERT_TRUE((*host)->add(WorkerId{0}, where).has_value());
  ASSERT_TRUE((*host)->remove(WorkerId{0}, where).has_value());
  EXPECT_EQ(int((*host)->placement().workers[0].cpu), where.cpu.load());
  auto second = Host::start(config);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(-EALREADY, second.error().code);
  (*host)->stop();
  ASSERT_TRUE((*host)->thread(WorkerId{0}) != nullptr);
}

}  // namespace
}  // namespace ulnet
