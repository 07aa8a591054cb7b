// Views under real threads. Control publishes and frees all the time; workers turn, look through the whole view and
// sleep now and then. Only its turns mark a worker as awake. The test finds a view that is freed under a worker or seen
// half made, also by ASan and TSan. Bounded by counts.
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "control/publish/publisher.h"
#include "dataplane/base/rng.h"
#include "dataplane/stages/worker.h"

namespace ulnet {
namespace {

constexpr uint32_t kViews = 200'000;

/// NIs and nets that all carry the number of their view. The number also decides how many there are.
ViewParts parts_of(uint32_t number, const ViewParts& before) {
  ViewParts parts = before;
  auto local = std::make_shared<LocalView>();
  local->nis.resize(1 + number % 13);
  local->nets.resize(1 + number % 5);
  for (NiView& ni : local->nis) ni.priority = number;
  for (NetView& net : local->nets) net.priority = number;
  parts.local = std::move(local);
  parts.node.numa_range = number;
  return parts;
}

/// The first fault of the view, or "".
std::string fault_of(const ViewSet& view) {
  const uint32_t number = view.node.numa_range;
  if (view.peers == nullptr || view.routes == nullptr || view.portals == nullptr) return "a part is missing";
  if (number == 0) return {};  // the first one
  if (view.local->nis.size() != 1 + number % 13 || view.local->nets.size() != 1 + number % 5) return "sizes";
  for (const NiView& ni : view.local->nis)
    if (ni.priority != number) return "an NI of another view";
  for (const NetView& net : view.local->nets)
    if (net.priority != number) return "a net of another view";
  return {};
}

class RaceView : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, RaceView, testing::Values(1u, 3u));

TEST_P(RaceView, nobody_sees_a_view_that_is_gone) {
  const unsigned workers = GetParam();
  std::vector<std::unique_ptr<IdleGate>> gates;
  std::vector<IdleGate*> pointers;
  for (unsigned i = 0; i <= workers; ++i) {
    gates.push_back(std::make_unique<IdleGate>());
    pointers.push_back(gates.back().get());
  }
  Mesh mesh(workers, 64, 16, pointers.data(), pointers[workers]);
  const Instant now{};
  Timers timers(now);
  auto publisher = std::make_unique<Publisher>(mesh, timers);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> faults{0}, newest{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < workers; ++i) {
    threads.emplace_back([&, i] {
      Worker worker(WorkerId{uint16_t(i)}, mesh, WorkerSize{64, 64, 16, 64}, 1, i + 1);
      Rng rng{i + 1};
      uint64_t seen = 0;
      while (!stop.load(std::memory_order_acquire)) {
        (void)worker.turn(Instant{} + 1s);
        if (!fault_of(*worker.view).empty() || worker.view->epoch.value < seen) ++faults;
        seen = worker.view->epoch.value;
        if (i == 0) newest = seen;
        if (!rng.one_in(16)) continue;
        worker.note_asleep();
        sched_yield();
      }
      worker.note_asleep();
    });
  }
  uint64_t freed = 0, refused = 0;
  ViewParts parts;
  parts.peers = std::make_shared<PeerTable>();
  parts.routes = std::make_shared<RouteTable>();
  parts.portals = std::make_shared<PortalTable>();
  for (uint32_t number = 1; number <= kViews;) {
    const bool published = publisher->publish(parts_of(number, parts));
    number += published;
    refused += !published;
    freed += publisher->retire();
    if (!published) sched_yield();
  }
  while (newest.load() < publisher->epoch().value) sched_yield();  // the last one reaches a worker
  stop.store(true, std::memory_order_release);
  for (std::thread& thread : threads) thread.join();
  freed += publisher->retire();
  EXPECT_EQ(faults.load(), 0u);
  EXPECT_EQ(freed, kViews) << "all but the current one; refused meanwhile: " << refused;
  EXPECT_EQ(publisher->unretired(), 0u);
}

}  // namespace
}  // namespace ulnet
