// Host threads and the Host: real threads, work that comes while they sleep, changes while they run, thousands of
// starts.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "dataplane/host/clock.h"
#include "dataplane/host/host.h"

namespace ulnet {
namespace {

unsigned entries(const char* folder) {
  unsigned count = 0;
  DIR* open = opendir(folder);
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

/// Counts values from a ring, and has a timer if needed.
class Counter final : public Turnable {
 public:
  Counter() { EXPECT_TRUE(gate_.open().has_value()); }
  unsigned turn(Instant now) override {
    EXPECT_TRUE(awake);
    EXPECT_GE(now, last);
    last = now;
    unsigned work = 0;
    for (uint64_t item; ring.pop(item); ++work) sum.store(sum.load(std::memory_order_relaxed) + item);
    if (now >= deadline) {
      deadline = kForever;
      fired.store(fired.load() + 1);
      ++work;
    }
    return work;
  }
  bool pending() override { return !ring.empty(); }
  bool patient() override { return is_patient; }
  Instant next_deadline() override { return deadline; }
  unsigned wait_fds(std::span<int> out) override {
    if (fd < 0) return 0;
    out[0] = fd;
    return 1;
  }
  IdleGate& gate() override { return gate_; }
  void note_asleep() override { awake = false; }
  void note_awake(Duration) override { awake = true; }
  void give(uint64_t item) {
    while (!ring.push(item)) std::this_thread::yield();
    gate_.notify(ring);
  }
  void wait_for(uint64_t value) const {
    for (int i = 0; i < 1'000'000 && sum.load() != value; ++i) usleep(50);
    EXPECT_EQ(value, sum.load());
  }

  SpscRing<uint64_t> ring{16};
  std::atomic<uint64_t> sum{0};
  std::atomic<unsigned> fired{0};
  Instant deadline = kForever;
  Instant last = kNever;
  int fd = -1;
  bool is_patient = false;
  bool awake = false;

 private:
  IdleGate gate_;
};

HostThread::Config config_of(IdleMode mode) {
  HostThread::Config config;
  config.idle = {mode, 20us, 4};
  return config;
}

class Threads : public testing::TestWithParam<IdleMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Threads, testing::Values(IdleMode::kBusy, IdleMode::kAdaptive, IdleMode::kInterrupt));

// Goal: one thread does the work for workers of two Nodes, whether it spins or sleeps. A removed worker is not touched.
TEST_P(Threads, turn_added_workers) {
  PthreadLauncher launcher{1};
  HostThread thread{config_of(GetParam())};
  ASSERT_TRUE(thread.start(launcher, 0).has_value());
  Counter a, b;
  auto ticket = thread.add(a);
  ASSERT_TRUE(ticket.has_value());
  thread.wait(*ticket);
  EXPECT_TRUE(thread.done(*ticket));
  thread.wait(*thread.add(b));
  for (uint64_t i = 0; i < 500; ++i) {
    a.give(1);
    b.give(2);
    if (i % 100 == 0) usleep(500);
  }
  a.wait_for(500);
  b.wait_for(1000);
  thread.wait(*thread.remove(a));
  EXPECT_FALSE(a.awake);
  a.give(7);
  b.give(1);
  b.wait_for(1001);
  EXPECT_EQ(500u, a.sum.load());
  const HostThreadStats stats = thread.stats();
  EXPECT_GT(stats.turns_with_work, 0u);
  EXPECT_LE(stats.turns_with_work, stats.turns);
  if (GetParam() == IdleMode::kBusy) {
    EXPECT_EQ(0u, stats.sleeps);
  }
  thread.stop();
  thread.stop();  // no effect
}

TEST_P(Threads, wake_for_deadlines_and_descriptors) {
  PthreadLauncher launcher{1};
  HostThread thread{config_of(GetParam())};
  ASSERT_TRUE(thread.start(launcher, 0).has_value());
  Counter timed;
  timed.deadline = clock_now() + 5ms;
  thread.wait(*thread.add(timed));
  for (int i = 0; i < 1'000'000 && timed.fired.load() == 0; ++i) usleep(50);
  EXPECT_EQ(1u, timed.fired.load());
  thread.wait(*thread.remove(timed));
  EXPECT_EQ(kForever, timed.deadline);
}

TEST(HostThread, work_that_waits_at_stop_is_still_done) {
  PthreadLauncher launcher{1};
  HostThread thread{config_of(IdleMode::kAdaptive)};
  ASSERT_TRUE(thread.start(launcher, 0).has_value());
  Counter counter;
  thread.wait(*thread.add(counter));
  for (int i = 0; i < 10; ++i) counter.give(1);
  thread.stop();
  EXPECT_EQ(10u, counter.sum.load());
}

TEST(HostThread, errors) {
  PthreadLauncher launcher{1};
  HostThread thread{config_of(IdleMode::kInterrupt)}, second{config_of(IdleMode::kInterrupt)};
  EXPECT_EQ(-EINVAL, thread.start(launcher, 1).error().code);
  ASSERT_TRUE(thread.start(launcher, 0).has_value());
  EXPECT_EQ(-EBUSY, second.start(launcher, 0).error().code);
}

// Goal: an idle adaptive thread goes to sleep. Then a tenth of a second takes almost no turns.
TEST(HostThread, idle_costs_nothing) {
  PthreadLauncher launcher{1};
  HostThread thread{config_of(IdleMode::kAdaptive)};
  ASSERT_TRUE(thread.start(launcher, 0).has_value());
  Counter counter;
  thread.wait(*thread.add(counter));
  uint64_t turns = UINT64_MAX;
  for (int i = 0; i < 100 && turns > 10; ++i) {  // a busy machine lets it spin late
    const uint64_t before = thread.stats().turns;
    usleep(100'000);
    turns = thread.stats().turns - before;
  }
  EXPECT_LE(turns, 10u);
  thread.stop();
}

// Goal: a worker that spins on the CPU of another thread, and never yields, gives it away when the system has taken it.
// Goal: a worker that waits for what no spin makes faster sleeps after its work.
TEST(HostThread, a_patient_worker_does_not_spin) {
  constexpr uint64_t kItems = 50;
  constexpr unsigned kSpin = 1000;  // empty turns
  PthreadLauncher launcher{1};
  HostThread::Config config;
  config.idle = {.mode = IdleMode::kAdaptive, .spin = 1us, .empty_turns_min = kSpin};
  HostThread thread{config};
  ASSERT_TRUE(thread.start(launcher, 0).has_value());
  Counter worker;
  worker.is_patient = true;
  thread.wait(*thread.add(worker));
  for (uint64_t i = 1; i <= kItems; ++i) {
    worker.give(1);
    worker.wait_for(i);
    usleep(1000);
  }
  EXPECT_LT(thread.stats().turns, kItems * kSpin / 4);
  thread.stop();
}

TEST(HostThread, a_preempted_worker_sleeps) {
  cpu_set_t cpus;
  ASSERT_EQ(0, sched_getaffinity(0, sizeof cpus, &cpus));
  int cpu = 0;
  while (!CPU_ISSET(cpu, &cpus)) ++cpu;
  HostThread::Config config;
  config.cpu = cpu;
  config.idle = {.mode = IdleMode::kAdaptive, .spin = 3600s, .yield_every = UINT32_MAX};
  PthreadLauncher launcher{1};
  HostThread thread{config};
  ASSERT_TRUE(thread.start(launcher, 0).has_value());
  std::atomic<bool> stop{false};
  std::thread other([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT_EQ(0, sched_setaffinity(0, sizeof one, &one));
    while (!stop.load(std::memory_order_relaxed)) {
    }
  });
  for (int i = 0; i < 30'000 && thread.stats().sleeps == 0; ++i) usleep(1000);
  EXPECT_GT(thread.stats().sleeps, 0u);
  stop = true;
  other.join();
}

TEST(HostThread, a_thousand_starts_leak_nothing) {
  const unsigned fds = entries("/proc/self/fd"), tasks = entries("/proc/self/task");
  for (int round = 0; round < 1000; ++round) {
    PthreadLauncher launcher{2};
    HostThread a{config_of(IdleMode::kAdaptive)}, b{config_of(IdleMode::kInterrupt)};
    ASSERT_TRUE(a.start(launcher, 0).has_value());
    ASSERT_TRUE(b.start(launcher, 1).has_value());
    Counter counter;
    a.wait(*a.add(counter));
    counter.give(1);
    if (round % 2 == 0) a.wait(*a.remove(counter));
    a.stop();
    EXPECT_EQ(round % 2 == 0 ? counter.sum.load() : 1u, counter.sum.load());
  }
  EXPECT_EQ(fds, entries("/proc/self/fd"));
  EXPECT_EQ(tasks, entries("/proc/self/task"));
}

/// Ends the loop at the third deadline; counts notifies that were seen.
class Control final : public ControlTurnable {
 public:
  explicit Control(Host& host) : host_(host) {}
  unsigned turn(Instant now) override {
    unsigned work = 0;
    for (uint64_t item; ring.pop(item); ++work) seen += item;
    if (now >= deadline_) {
      deadline_ = now + 2ms;
      if (++rounds == 3) host_.stop_control();
      ++work;
    }
    return work;
  }
  bool pending() override { return !ring.empty(); }
  Instant next_deadline() override { return deadline_; }
  void wait_fds(std::vector<int>&) override {}
  SpscRing<uint64_t> ring{16};
  uint64_t seen = 0;
  unsigned rounds = 0;

 private:
  Host& host_;
  Instant deadline_ = kNever;
};

TEST(Host, runs_workers_and_control) {
  for (int round = 0; round < 50; ++round) {
    HostConfig config;
    config.worker_count = 2;
    auto host = Host::start(config);
    ASSERT_TRUE(host.has_value()) << host.error().what;
    EXPECT_EQ(2u, (*host)->worker_count());
    EXPECT_EQ(-ENOTSUP, (*host)->add(WorkerId{9}, *std::make_unique<Counter>()).error().code);
    Counter counters[2];
    for (uint16_t w : {0, 1}) ASSERT_TRUE((*host)->add(WorkerId{w}, counters[w]).has_value());
    Control control{**host};
    std::thread peer([&] {
      for (uint64_t i = 1; i <= 10; ++i) {
        while (!control.ring.push(i)) std::this_thread::yield();
        (*host)->control_gate().notify(control.ring);
      }
      counters[1].give(5);
    });
    (*host)->run_control(control);
    peer.join();
    EXPECT_EQ(3u, control.rounds);
    counters[1].wait_for(5);
    (*host)->stop();
  }
}

TEST(Host, says_what_it_uses_and_what_is_wrong) {
  auto host = Host::start({});
  ASSERT_TRUE(host.has_value()) << host.error().what;
  const auto lines = (*host)->describe();
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ("environment: sockets only, without DPDK", lines.back());
  HostConfig wrong;
  wrong.cpus = {100'000};
  HostConfig demanding;
  demanding.huge = HugePages::kYes;
  if (huge_pages_free() == 0) {
    const auto refused = Host::start(demanding);
    ASSERT_FALSE(refused);
    EXPECT_EQ(-ENOMEM, refused.error().code);
    EXPECT_NE(std::string(refused.error().what).find("vm.nr_hugepages"), std::string::npos);
  }
  auto none = Host::start(wrong);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(100'000u, none.error().object);
  HostConfig attached;
  attached.dpdk = DpdkMode::kAttach;
  auto guest = Host::start(attached);
  ASSERT_TRUE(guest.has_value());
  EXPECT_EQ(nullptr, (*guest)->thread(WorkerId{0}));
}

TEST(Host, workers_that_never_sleep_need_a_cpu_each) {
  HostConfig config;
  config.worker_count = unsigned(std::thread::hardware_concurrency()) + 1;
  config.idle.mode = IdleMode::kBusy;
  for (const auto& error : {Host::start(config).map([](auto&&) {}), Host::plan(config).map([](auto&&) {})}) {
    ASSERT_FALSE(error.has_value());
    EXPECT_EQ(-EINVAL, error.error().code);
    EXPECT_EQ(config.worker_count, error.error().object);
    EXPECT_NE(std::string(error.error().what).find("idle: adaptive"), std::string::npos);
  }
  config.idle.mode = IdleMode::kAdaptive;
  EXPECT_TRUE(Host::plan(config).has_value());
  config.idle.mode = IdleMode::kBusy;
  config.dpdk = DpdkMode::kAttach;  // its threads are the caller's
  EXPECT_TRUE(Host::plan(config).has_value());
}

}  // namespace
}  // namespace ulnet
