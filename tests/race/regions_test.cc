// Goal: a thread of its own registers memory while applications bind and unlink MDs, add and remove regions, close
// submitters, and end the node. Method: a device that only registers memory. Its books have no lock, so TSan finds two
// calls at once. The device reads the memory at both ends of a registration: ASan and TSan find memory that has gone
// back too early. Messages go over loopback. Bounded by counts; ULNET_FULL=1 runs all rounds.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>

#include "control/lib/ulnet.hh"
#include "control/node.h"
#include "dataplane/base/rng.h"
#include "dataplane/host/clock.h"
#include "dataplane/host/thread_helper.h"
#include "lnd/lo/lo.h"
#include "lnd/registry.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet {
namespace {

unsigned rounds() {
  const char* full = std::getenv("ULNET_FULL");
  return full != nullptr && *full == '1' ? 3'000 : 300;
}

/// Of the process. Each call of a half belongs to the helper.
struct Device {
  std::map<RegionId, std::span<std::byte>> regions;
  uint64_t adds = 0, refusals = 0;
  unsigned sum = 0;  // of what was read
  std::atomic<bool> slow{false};
  std::atomic<uint64_t> calls{0}, ended{0};  // of region_add()
} device;

struct Call {
  Call() { ++device.calls; }
  ~Call() { ++device.ended; }
};

class DeviceControl final : public LndControl {
 public:
  Result<void> ni_start(const NiParams&, Instant) override { return fail(ENODEV, "it only registers memory"); }
  void ni_stop(NiId, Instant) override {}
  bool names(const PeerSlice&) const override { return false; }
  uint32_t regions_above() const override { return 1000; }
  Result<void> region_add(RegionId region, std::span<std::byte> memory) override {
    const Call call;
    device.sum += unsigned(memory.front()) + unsigned(memory.back());
    if (device.slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (++device.adds % 16 == 0) return ++device.refusals, fail(ENOMEM, "the device is full");
    EXPECT_TRUE(device.regions.emplace(region, memory).second);
    return {};
  }
  void region_remove(RegionId region) override {
    const auto found = device.regions.extract(region);
    ASSERT_FALSE(found.empty());
    device.sum += unsigned(found.mapped().front()) + unsigned(found.mapped().back());
  }
  void from_worker(WorkerId, const LndMsg&, Instant) override {}
  unsigned turn(Instant) override { return 0; }
  Instant next_deadline() override { return kForever; }
  void wait_fds(std::vector<int>&) override {}
};

class DeviceLnd final : public Lnd {
 public:
  void submit(Tx&, Instant) override { ADD_FAILURE(); }
  void cancel(Tx&, bool, Instant) override {}
  void resume(RxSlot&, Instant) override {}
  void release(RxSlot&, Instant) override {}
  void divert(RxSlot&, Instant) override {}
  void from_control(const LndMsg&, Instant) override {}
  unsigned poll(unsigned, Instant) override { return 0; }
  unsigned timers(Instant) override { return 0; }
  void flush(Instant) override {}
  bool pending() override { return false; }
  Instant next_deadline() override { return kForever; }
  unsigned wait_fds(std::span<int>) override { return 0; }
  bool idle() const override { return true; }
};

struct DeviceDriver final : Driver {
  std::unique_ptr<LndControl> make_control(LndControlHost&) override { return std::make_unique<DeviceControl>(); }
  std::unique_ptr<Lnd> make_worker(LndCore&) override { return std::make_unique<DeviceLnd>(); }
};
const DriverType kDeviceDriver{
    .name = "device", .net_type = NetType::kO2ib, .open = [](const DriverContext&) -> Result<std::unique_ptr<Driver>> {
      return std::make_unique<DeviceDriver>();
    }};

}  // namespace

std::span<const DriverType* const> driver_types() {
  static constexpr const DriverType* kTypes[] = {&kLoDriver, &socklnd::kSockDriver, &kDeviceDriver};
  return kTypes;
}

namespace {

constexpr size_t kShared = 64 * 1024;
constexpr uint32_t kPiece = 4096;

std::unique_ptr<Instance> open_instance() {
  device.regions.clear();
  auto opened = Instance::open({.config = "ulnet:\n    workers: 2\n"});
  EXPECT_TRUE(opened) << opened.error().what;
  return std::move(*opened);
}

/// One application thread: MDs in memory of its own, and in `shared`, each with a put to this node.
struct Binder {
  void run() {
    Rng rng(seed);
    for (unsigned round = 0; round < rounds(); ++round) {
      auto opened = instance.submitter_open(home, {.ops = 64, .mds = 16, .eqs = 1});
      ASSERT_TRUE(opened) << opened.error().what;
      Submitter& submitter = **opened;
      const EqHandle eq = submitter.eq_open(64).value();
      for (int i = 0; i < 4; ++i) one_life(submitter, eq, rng);
      const auto left = std::make_unique<std::byte[]>(kPiece);
      const Segment segment{left.get(), kPiece};
      if (rng.one_in(2)) (void)submitter.md_bind({.segments = {&segment, 1}, .eq = eq});
      std::atomic<bool> freed{false};  // the submitter ends with its registration under way
      instance.submitter_close(submitter, [&] { freed = true; });
      while (!freed) std::this_thread::yield();
    }
  }
  void one_life(Submitter& submitter, EqHandle eq, Rng& rng) {
    const auto own = std::make_unique<std::byte[]>(2 * kPiece);  // goes with the kUnlink of the MD
    const Segment segments[] = {
        {own.get(), kPiece}, {shared.data() + rng.below(kShared - kPiece), kPiece}, {own.get() + kPiece, kPiece}};
    const size_t first = rng.below(3), count = 1 + rng.below(3 - first);
    const auto md = submitter.md_bind({.segments = std::span(segments).subspan(first, count), .eq = eq});
    ASSERT_TRUE(md) << md.error().what;
    const PutSpec spec{.md = *md, .target = {kLoNid, kLnetPid}, .portal = 9, .ack = false, .length = 10};
    const bool put = rng.one_in(2) && submitter.put(spec);  // an MD that the device refused has perhaps ended
    if (rng.one_in(2)) std::this_thread::yield();
    const auto unlinked = submitter.unlink(*md);
    EXPECT_TRUE(unlinked || unlinked.error().code == -ENOENT) << unlinked.error().what;
    unsigned finals = 0, unlinks = 0;
    int32_t end = 0;
    while (unlinks == 0 || finals < unsigned(put)) {
      Event event;
      if (eq_wait(submitter, eq, {&event, 1}, 1s) == 0) continue;
      finals += event.final;
      if (event.kind != EventKind::kUnlink) continue;
      ++unlinks;
      end = event.status;
    }
    EXPECT_EQ(finals, unsigned(put));
    EXPECT_EQ(unlinks, 1u);
    EXPECT_TRUE(end == 0 || end == -ENOMEM) << end;
    refused += end != 0;
  }
  Instance& instance;
  std::span<std::byte> shared;
  WorkerId home;
  uint64_t seed;
  unsigned refused = 0;
};

TEST(RaceRegions, mds_and_regions_come_and_go_on_all_threads) {
  const auto instance = open_instance();
  std::vector<std::byte> shared(kShared);
  std::vector<Binder> binders;
  for (uint16_t i = 0; i < 3; ++i) binders.push_back({*instance, shared, WorkerId{uint16_t(i % 2)}, i + 1u});
  std::vector<std::thread> threads;
  for (Binder& binder : binders) threads.emplace_back([&] { binder.run(); });
  std::atomic<bool> stop{false};
  unsigned removed = 0, busy = 0;
  std::thread regions([&] {
    while (!stop) {
      const auto added = instance->region_add(shared);
      EXPECT_TRUE(added || added.error().code == -ENOMEM) << added.error().what;
      if (!added) continue;
      for (;;) {
        const auto gone = instance->region_remove(*added);
        if (gone) break;
        ASSERT_EQ(gone.error().code, -EBUSY) << gone.error().what;
        ++busy;
      }
      ++removed;
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  regions.join();
  EXPECT_GT(removed, 0u);
  EXPECT_EQ(instance->close(), "");
  EXPECT_TRUE(device.regions.empty());
  EXPECT_GT(device.refusals, 0u);
  EXPECT_GT(binders[0].refused + binders[1].refused + binders[2].refused, 0u);
}

// Goal: a node that is closed while a device registers memory ends cleanly, and answers each waiting call.
TEST(RaceRegions, a_node_ends_while_memory_is_registered) {
  for (unsigned round = 0; round < rounds() / 10; ++round) {
    const auto instance = open_instance();
    std::vector<std::byte> memory(kShared);
    Submitter& submitter = **instance->submitter_open(WorkerId{uint16_t(round % 2)}, {.ops = 8, .mds = 8, .eqs = 1});
    const Segment segment{memory.data(), kPiece};
    device.slow = round % 2 == 0;
    std::thread caller([&] {
      for (size_t i = 1;; i = 1 + i % 8) {
        const auto added = instance->region_add({memory.data() + i * kPiece, kPiece});
        const int code = added ? 0 : added.error().code;
        if (code == -ESHUTDOWN) return;
        EXPECT_TRUE(code == 0 || code == -ENOMEM || code == -EEXIST) << code;
      }
    });
    (void)submitter.md_bind({.segments = {&segment, 1}});
    EXPECT_EQ(instance->close(), "");
    caller.join();
    device.slow = false;
    EXPECT_TRUE(device.regions.empty());
  }
}

/// A node that this thread turns.
struct TurnedNode {
  explicit TurnedNode(Helper* helper) {
    auto opened = Drivers::open({}, {});
    EXPECT_TRUE(opened);
    drivers.emplace(std::move(*opened));
    NodeDeps deps;
    deps.lnds = drivers->entries();
    deps.helper = helper;
    made.emplace(Node::create({}, std::move(deps), clock_now()));
  }
  std::optional<Drivers> drivers;
  std::optional<Result<std::unique_ptr<Node>>> made;
};

// Goal: a node that goes while a device registers memory waits for the device, and then answers the call.
TEST(RaceRegions, a_node_goes_while_its_helper_works) {
  std::vector<std::byte> memory(kShared);
  IdleGate gate;
  ASSERT_TRUE(gate.open());
  device.slow = true;
  for (unsigned round = 0; round < 10; ++round) {
    int answer = 0;
    device.regions.clear();
    {
      ThreadHelper helper(gate);
      TurnedNode node(&helper);
      ASSERT_TRUE(*node.made);
      const uint64_t before = device.calls;
      (**node.made)->region_add(memory, [&](const auto& added) { answer = added ? 1 : added.error().code; });
      while (device.calls < before + 2)
        (void)(**node.made)->turn_control(clock_now());  // the first is of the node itself
      EXPECT_EQ(answer, 0);
    }
    EXPECT_EQ(answer, -ESHUTDOWN);
    EXPECT_EQ(device.calls, device.ended);
    memory.assign(memory.size(), std::byte(round));  // the caller owns it again
  }
  device.slow = false;
}

TEST(RaceRegions, a_driver_that_needs_regions_needs_a_helper) {
  const TurnedNode node(nullptr);
  ASSERT_FALSE(*node.made);
  EXPECT_EQ(node.made->error().code, -EINVAL);
  EXPECT_STREQ(node.made->error().what, "a driver needs registered memory, and the node has no helper");
}

}  // namespace
}  // namespace ulnet
