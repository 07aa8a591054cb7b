// Mode kAttach: threads of the application turn the workers in each way that docs/libulnet.md allows. Meanwhile peers
// send to the workers, peers are added, and portals open and close. The tests find a view that is freed under a worker,
// above all with ASan and TSan. Bounded by counts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "control/lib/ulnet.hh"
#include "tests/free_port.h"

namespace ulnet {
namespace {

/// How a thread turns its worker.
enum class Turning : uint8_t {
  kOnly,       ///< turns and never waits
  kThenWaits,  ///< waits when a turn found nothing
  kPolls,      ///< waits after each turn, for no time
  kPauses,     ///< turns for a while, then does something else for a while
  kTurnings
};

std::string config(const std::string& address, unsigned workers) {
  static const uint16_t port = test::free_port();
  return fmt::format(
      "net:\n    - net type: tcp\n      local NI(s):\n        - nid: {}@tcp\n"
      "ulnet:\n    workers: {}\n    unprivileged_ports: true\n    accept_port: {}\n"
      "    memory:\n        connections_per_worker: 256\n        messages_per_worker: 1024\n",
      address, workers, port);
}

void turn(Instance& instance, WorkerId worker, Turning how, const std::atomic<bool>& stop) {
  for (unsigned turns = 0; !stop.load(std::memory_order_relaxed); ++turns) {
    const unsigned done = instance.turn(worker);
    switch (how) {
      case Turning::kOnly:
      case Turning::kTurnings: break;
      case Turning::kThenWaits:
        if (done == 0) instance.wait(worker, 5ms);
        break;
      case Turning::kPolls: instance.wait(worker, 0ms); break;
      case Turning::kPauses:
        if (turns % 64 == 63) std::this_thread::sleep_for(2ms);
        break;
    }
    if (done == 0) std::this_thread::yield();  // others need the CPU, too
  }
}

/// A portal of `instance` that takes every PUT into the same memory; nobody looks at the events.
struct Sink {
  explicit Sink(Instance& instance) : submitter(*instance.submitter_open(WorkerId{0}).value()) {
    EXPECT_TRUE(instance.portal_open(PortalIndex{7}, WorkerId{0}));
    const Segment segment{memory.data(), uint32_t(memory.size())};
    const auto md = submitter.md_bind({.segments = {&segment, 1}, .options = kMdPut | kMdManageRemote});
    EXPECT_TRUE(md.has_value() && submitter.me_attach(PortalIndex{7}, ProcessId{}, 1, 0, MePosition::kTail, *md));
  }
  Submitter& submitter;
  std::vector<std::byte> memory = std::vector<std::byte>(65536);
};

/// A node that comes, has `count` PUTs acknowledged, and goes. Returns how many ended well.
unsigned visit(const std::string& address, unsigned count) {
  auto opened = Instance::open({.config = config(address, 1)});
  EXPECT_TRUE(opened.has_value()) << opened.error().what;
  if (!opened) return 0;
  Submitter& submitter = *(*opened)->submitter_open(WorkerId{0}).value();
  const EqHandle eq = submitter.eq_open(64).value();
  std::vector<std::byte> memory(4096);
  const Segment segment{memory.data(), uint32_t(memory.size())};
  const MdHandle md = submitter.md_bind({.segments = {&segment, 1}, .eq = eq}).value();
  unsigned well = 0;
  for (unsigned i = 0; i < count; ++i) {
    const PutSpec spec{.md = md,
                       .target = {nid_parse("127.0.0.1@tcp").value(), kLnetPid},
                       .portal = 7,
                       .match_bits = 1,
                       .length = i % 2 == 0 ? 64u : 4096u};
    EXPECT_TRUE(submitter.put(spec));
    Event event;
    if (eq_wait(submitter, eq, {&event, 1}, 100s) == 1 && event.final && event.status == 0) ++well;
  }
  EXPECT_EQ((*opened)->close(), "");
  return well;
}

class RaceAttach : public testing::TestWithParam<Turning> {};
INSTANTIATE_TEST_SUITE_P(Turnings, RaceAttach,
                         testing::Values(Turning::kOnly, Turning::kThenWaits, Turning::kPolls, Turning::kPauses));

TEST_P(RaceAttach, no_view_is_freed_under_a_worker_that_turns) {
  auto opened = Instance::open({.config = config("127.0.0.1", 2), .mode = InstanceMode::kAttach});
  ASSERT_TRUE(opened) << opened.error().what;
  Instance& instance = **opened;
  std::atomic<bool> stop{false};
  const auto other = Turning((unsigned(GetParam()) + 1) % unsigned(Turning::kTurnings));
  std::vector<std::thread> threads;
  threads.emplace_back([&] { turn(instance, WorkerId{0}, GetParam(), stop); });
  threads.emplace_back([&] { turn(instance, WorkerId{1}, other, stop); });
  {
    Sink sink(instance);
    std::atomic<bool> visited{false};
    std::thread changes([&] {
      for (unsigned i = 0; !visited.load(); ++i) {
        EXPECT_TRUE(instance.portal_open(PortalIndex{8 + i % 8}, WorkerId{uint16_t(i % 2)}));
        const std::string peer = fmt::format("10.{}.{}.1@tcp", 1 + i / 200 % 200, i % 200);
        if (i < 2000) {
          EXPECT_TRUE(instance.apply("peer:\n    - primary nid: " + peer + "\n"));
        }
        EXPECT_TRUE(instance.portal_close(PortalIndex{8 + i % 8}));
      }
    });
    for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(visit(fmt::format("127.0.0.{}", 2 + i % 3), 100), 100u);
    visited = true;
    changes.join();
    EXPECT_EQ(instance.close(), "");
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// Goal: a thread has turned a worker and then does other work for any time. This thread delays neither new views of
// other workers nor the release of earlier views.
// Method: more views than may be out at once; then a new peer.
TEST(RaceAttach, a_worker_that_is_left_alone_holds_nothing_up) {
  auto opened = Instance::open({.config = config("127.0.0.1", 2), .mode = InstanceMode::kAttach});
  ASSERT_TRUE(opened) << opened.error().what;
  Instance& instance = **opened;
  std::atomic<bool> stop{false}, left{false};
  std::thread lazy([&] {
    (void)instance.turn(WorkerId{1});
    left = true;
    while (!stop.load()) std::this_thread::sleep_for(1ms);
    while (!left.load()) (void)instance.turn(WorkerId{1});
  });
  while (!left) std::this_thread::yield();
  std::atomic<bool> end{false};
  std::thread turner([&] { turn(instance, WorkerId{0}, Turning::kOnly, end); });
  {
    Sink sink(instance);
    for (unsigned i = 0; i < 200; ++i)
      EXPECT_TRUE(instance.apply(fmt::format("peer:\n    - primary nid: 10.1.1.{}@tcp\n", 1 + i)));
    EXPECT_EQ(visit("127.0.0.2", 10), 10u);
    left = false;
    stop = true;  // the thread turns again until the end
    EXPECT_EQ(instance.close(), "");
  }
  left = end = true;
  lazy.join();
  turner.join();
}

}  // namespace
}  // namespace ulnet
