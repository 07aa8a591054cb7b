// Question: what does each part of a message's way through the core cost? Headers, the match list, credits, the timer
// wheel, the look at the view, the choice of a path. Also what ulnet-perf adds: recording a latency. The ring between
// threads: bench_ring.cc. By hand: ninja perf/bench_core, then build/perf/bench_core.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>

#include "dataplane/base/rng.h"
#include "dataplane/base/wheel.h"
#include "dataplane/state/portal.h"
#include "dataplane/wire/header.h"
#include "perf/bench_pin.h"
#include "perf/generator/histogram.h"
#include "perf/select/views.h"

namespace {

using namespace ulnet;
using perf::local_nid;
using perf::peer_nid;
using perf::Views;

wire::Header put_header() {
  wire::Header header;
  header.type = wire::MsgType::kPut;
  header.dest_nid = local_nid(0);
  header.src_nid = peer_nid(1, 0);
  header.payload_length = 64;
  header.set(wire::PutBody{{11, 22}, 0x1234, 99, 20, 0});
  return header;
}

template <size_t kBytes, void (*kEncode)(const wire::Header&, std::span<std::byte, kBytes>)>
void encode(benchmark::State& state) {
  const wire::Header header = put_header();
  std::array<std::byte, kBytes> out;
  for (auto turn : state) {
    kEncode(header, out);
    benchmark::DoNotOptimize(out);
  }
}
BENCHMARK(encode<wire::kHeaderNid4Bytes, wire::header_encode_nid4>)->Name("encode_nid4");
BENCHMARK(encode<wire::kHeaderNid16Bytes, wire::header_encode_nid16>)->Name("encode_nid16");

void decode_nid4(benchmark::State& state) {
  std::array<std::byte, wire::kHeaderNid4Bytes> bytes;
  wire::header_encode_nid4(put_header(), bytes);
  wire::Header header;
  for (auto turn : state) {
    if (!wire::header_decode_nid4(bytes, header)) state.SkipWithError("refused");
    benchmark::DoNotOptimize(header);
  }
}
BENCHMARK(decode_nid4);

void decode_nid16(benchmark::State& state) {
  std::array<std::byte, wire::kHeaderNid16Bytes> bytes;
  wire::header_encode_nid16(put_header(), bytes);
  wire::Header header;
  for (auto turn : state) {
    if (!wire::header_decode_nid16(bytes, header)) state.SkipWithError("refused");
    benchmark::DoNotOptimize(header);
  }
}
BENCHMARK(decode_nid16);

/// `ignored`: bits that the entries ignore; then they lie in one list, and the last one matches.
void match(benchmark::State& state, uint64_t ignored) {
  Portal portal;
  std::deque<Md> mds(size_t(state.range(0)));
  for (size_t i = 0; i < mds.size(); ++i) {
    mds[i].bound = true;
    mds[i].length = 1 << 20;
    mds[i].options = kMdPut | kMdManageRemote;
    MatchEntry entry;
    entry.match_bits = i << 8;
    entry.ignore_bits = ignored;
    portal_attach(portal, mds[i], entry, false);
  }
  MatchAsk put;
  put.initiator = {peer_nid(1, 0), kLnetPid};
  put.source = peer_nid(1, 0);
  put.match_bits = (mds.size() - 1) << 8;
  put.rlength = 64;
  for (auto turn : state) {
    const MatchFound found = portal_match(portal, put);
    if (found.md != &mds.back()) state.SkipWithError("no match");
  }
  for (Md& md : mds) portal_detach(portal, md);
}
BENCHMARK_CAPTURE(match, exact, 0)->Arg(1)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(match, ignoring, 0xFF)->Arg(1)->Arg(16)->Arg(256);

void credit(benchmark::State& state) {
  TxCredits credits(8);
  Tx tx;
  for (auto turn : state) {
    if (!credits.take(tx)) state.SkipWithError("no credit");
    benchmark::DoNotOptimize(credits.give_back());
  }
}
BENCHMARK(credit);

/// As many wait as hold one.
void credit_waited(benchmark::State& state) {
  constexpr unsigned kHeld = 8;
  TxCredits credits(kHeld);
  std::deque<Tx> txs(2 * kHeld);
  for (Tx& tx : txs) (void)credits.take(tx);
  unsigned oldest = 0;  // the first that holds a credit
  for (auto turn : state) {
    benchmark::DoNotOptimize(credits.give_back());
    (void)credits.take(txs[oldest]);
    oldest = (oldest + 1) % txs.size();
  }
  while (credits.held() > 0) (void)credits.give_back();
}
BENCHMARK(credit_waited);

/// A deadline for each message, which is met: armed and disarmed, among others.
void wheel(benchmark::State& state) {
  Wheel<Timer> wheel;
  std::deque<Timer> others(size_t(state.range(0)));
  const Instant now{1s};
  for (size_t i = 0; i < others.size(); ++i) wheel.arm(others[i], now + 50s + Duration(i) * 1000);
  Timer timer;
  for (auto turn : state) {
    wheel.arm(timer, now + 50s);
    wheel.disarm(timer);
  }
  for (Timer& other : others) wheel.disarm(other);
}
BENCHMARK(wheel)->Arg(0)->Arg(4096);

/// A worker's look, in each turn, whether control has published another view.
void view_load(benchmark::State& state) {
  const ViewSet set;
  std::atomic<const ViewSet*> published{&set};
  const ViewSet* mine = &set;
  for (auto turn : state) {
    if (published.load(std::memory_order_seq_cst) != mine) state.SkipWithError("another view");
    benchmark::ClobberMemory();
  }
}
BENCHMARK(view_load);

/// Arguments: local NIs, and NIs of each of 16 peers. The rest of the table is in perf/compare-select.
void path_choice(benchmark::State& state) {
  constexpr uint32_t kPeers = 16;
  Views views(kPeers, uint32_t(state.range(0)), uint32_t(state.range(1)), false);
  uint32_t peer = 0;
  for (auto turn : state) views.choose(peer = (peer + 1) % kPeers);
}
BENCHMARK(path_choice)->Args({1, 1})->Args({4, 4})->Args({16, 16});

/// Latencies between 1 and 4 us, or between 1 us and 16 ms.
void record(benchmark::State& state) {
  Rng random(1);
  std::array<Duration, 4096> latencies;
  for (Duration& one : latencies) one = Duration(int64_t((1000 + random.below(1000)) << random.below(state.range(0))));
  const auto histogram = std::make_unique<perf::Histogram>();
  size_t next = 0;
  for (auto turn : state) {
    histogram->record(latencies[next++ % latencies.size()]);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(record)->Arg(2)->Arg(14);

}  // namespace

int main(int argc, char** argv) {
  perf::pin(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
