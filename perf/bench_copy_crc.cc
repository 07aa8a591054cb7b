// Question: how fast does one core copy a payload and compute its CRC? That is the least work at one end of a transfer
// over RoCE, so it limits the goodput. Payloads of 1 MiB take turns, as with several operations under way. By hand, or
// by perf/compare-roce: build/perf/bench_copy_crc --benchmark_filter=copy_and_crc
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <cstring>
#include <vector>

#include "perf/bench_pin.h"

namespace {

constexpr size_t kPayloadBytes = 1 << 20, kPacketBytes = 4096, kPayloads = 8;

void over_payloads(benchmark::State& state, bool crc) {
  std::vector<unsigned char> from(kPayloads * kPayloadBytes, 0x5A), to(kPayloads * kPayloadBytes);
  size_t turn = 0;
  for (auto one : state) {
    const size_t start = turn++ % kPayloads * kPayloadBytes;
    for (size_t at = start; at < start + kPayloadBytes; at += kPacketBytes) {
      if (crc) benchmark::DoNotOptimize(crc32_gzip_refl(1, from.data() + at, kPacketBytes));
      std::memcpy(to.data() + at, from.data() + at, kPacketBytes);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(int64_t(kPayloadBytes) * state.iterations());
}

void copy_and_crc(benchmark::State& state) {
  over_payloads(state, true);
}
void copy(benchmark::State& state) {
  over_payloads(state, false);
}
BENCHMARK(copy_and_crc);
BENCHMARK(copy);

}  // namespace

int main(int argc, char** argv) {
  ulnet::perf::pin(0);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
