// Question: which library computes the ICRC? ISA-L can go on where a piece ended; rte_net_crc of DPDK cannot, and needs
// a running EAL for its fast forms. A copy of the same bytes stands beside them. By hand: ninja perf/bench_icrc, then
// build/perf/bench_icrc --benchmark_enable_random_interleaving=true --benchmark_repetitions=9.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>
#include <rte_net_crc.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "lnd/net/dpdk/eal.h"
#include "perf/bench_pin.h"

namespace {

constexpr size_t kPlaces = 16, kPlaceBytes = 8192;

/// Packets at places in a row, as in a ring of buffers that the cache holds.
template <class Work>
void over_packets(benchmark::State& state, const Work& work) {
  const auto bytes = size_t(state.range(0));
  std::vector<unsigned char> memory(kPlaces * kPlaceBytes, 0x5A);
  size_t i = 0;
  for (auto turn : state) work(memory.data() + (i++ % kPlaces) * kPlaceBytes, bytes);
  state.SetBytesProcessed(int64_t(bytes) * state.iterations());
}

void isal(benchmark::State& state) {
  over_packets(state,
               [](const unsigned char* at, size_t bytes) { benchmark::DoNotOptimize(crc32_gzip_refl(1, at, bytes)); });
}
void dpdk(benchmark::State& state) {
  over_packets(state, [](const unsigned char* at, size_t bytes) {
    benchmark::DoNotOptimize(rte_net_crc_calc(at, uint32_t(bytes), RTE_NET_CRC32_ETH));
  });
}
void copy(benchmark::State& state) {
  std::vector<unsigned char> to(kPlaceBytes);
  over_packets(state, [&](const unsigned char* at, size_t bytes) {
    std::memcpy(to.data(), at, bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  });
}
// Headers alone (an ACK), and with 64, 1024 and 4096 bytes.
BENCHMARK(isal)->Arg(44)->Arg(104)->Arg(200)->Arg(256)->Arg(1064)->Arg(4136);
BENCHMARK(dpdk)->Arg(44)->Arg(104)->Arg(200)->Arg(256)->Arg(1064)->Arg(4136);
BENCHMARK(copy)->Arg(44)->Arg(104)->Arg(200)->Arg(256)->Arg(1064)->Arg(4136);

}  // namespace

int main(int argc, char** argv) {
  auto eal = ulnet::dpdk::Eal::start({.control_cpus = {0}});
  if (!eal) {
    std::fprintf(stderr, "bench_icrc: %s\n", eal.error().what);
    return 1;
  }
  rte_net_crc_set_alg(RTE_NET_CRC_AVX512);
  ulnet::perf::pin(0);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
