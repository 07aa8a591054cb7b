// Question: what does a producer pay to pass items to a thread that is awake? The producer notifies that thread after
// each item, or once for a batch. By hand: ninja perf/bench_ring, then build/perf/bench_ring.
#include <benchmark/benchmark.h>

#include <thread>

#include "dataplane/base/idle_gate.h"
#include "perf/bench_pin.h"

namespace {

using namespace ulnet;
using perf::pin;

/// As a PostItem: a kind and a pointer.
struct Item {
  uint64_t kind = 0;
  void* object = nullptr;
};

/// Takes everything at once, as a worker that polls its rings.
class Consumer {
 public:
  ~Consumer() {
    stop_ = true;
    thread_.join();
  }
  SpscRing<Item> ring{1024};
  IdleGate gate;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_{[this] {
    pin(1);
    Item item;
    while (!stop_.load(std::memory_order_relaxed))
      while (ring.pop(item)) benchmark::DoNotOptimize(item);
  }};
};

void push(benchmark::State& state, Consumer& to, uint64_t i) {
  while (!to.ring.push({i, &state}))
    if (to.ring.full()) sched_yield();
}

/// Items of a batch.
void notify_each(benchmark::State& state) {
  pin(0);
  Consumer to;
  for (auto turn : state)
    for (int64_t i = 0; i < state.range(0); ++i) {
      push(state, to, uint64_t(i));
      to.gate.notify(to.ring);
    }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void notify_batch(benchmark::State& state) {
  pin(0);
  Consumer to;
  for (auto turn : state) {
    for (int64_t i = 0; i < state.range(0); ++i) push(state, to, uint64_t(i));
    to.gate.notify(to.ring);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
/// For a consumer that polls only, such as an application that polls its events.
void no_notify(benchmark::State& state) {
  pin(0);
  Consumer to;
  for (auto turn : state)
    for (int64_t i = 0; i < state.range(0); ++i) push(state, to, uint64_t(i));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(notify_each)->Arg(1)->Arg(8)->Arg(64)->UseRealTime();
BENCHMARK(notify_batch)->Arg(1)->Arg(8)->Arg(64)->UseRealTime();
BENCHMARK(no_notify)->Arg(8)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
