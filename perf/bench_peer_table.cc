// Question: what does a worker pay to find a peer by its NID (PeerTable::find), and control to change one of many
// (PeerTableBuilder)? By hand: ninja perf/bench_peer_table, then build/perf/bench_peer_table.
#include <benchmark/benchmark.h>

#include <vector>

#include "control/publish/peer_table.h"
#include "dataplane/base/rng.h"

namespace {

using namespace ulnet;

void set(PeerTableBuilder& builder, const Nid& nid) {
  auto view = std::make_shared<PeerView>();
  view->nis.emplace_back().nid = nid;
  builder.set(nid, std::move(view), 0);
}

std::vector<Nid> fill(PeerTableBuilder& builder, int64_t count) {
  std::vector<Nid> nids;
  for (uint32_t i = 0; i < count; ++i) nids.push_back(Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000000u + i));
  for (const Nid& nid : nids) set(builder, nid);
  return nids;
}

/// Arguments: NIDs in the table; NIDs that are looked up, in random order.
void find(benchmark::State& state) {
  PeerTableBuilder builder;
  std::vector<Nid> nids = fill(builder, state.range(0));
  nids.resize(size_t(state.range(1)));
  const auto table = builder.snapshot();
  Rng rng(1);
  std::vector<Nid> asked;
  for (int i = 0; i < 65536; ++i) asked.push_back(nids[rng.next() % nids.size()]);
  size_t next = 0;
  for (auto turn : state) benchmark::DoNotOptimize(table->find(asked[next++ % asked.size()]).ni_index);
}
BENCHMARK(find)->Args({4000, 16})->Args({4000, 4000})->Args({40000, 16})->Args({40000, 40000});

/// NIDs in the table; one of them changes between two snapshots.
void change(benchmark::State& state) {
  PeerTableBuilder builder;
  const std::vector<Nid> nids = fill(builder, state.range(0));
  auto table = builder.snapshot();
  Rng rng(1);
  for (auto turn : state) {
    set(builder, nids[rng.next() % nids.size()]);
    table = builder.snapshot();
  }
}
BENCHMARK(change)->Arg(4000)->Arg(40000);

}  // namespace

BENCHMARK_MAIN();
