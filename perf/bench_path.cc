// Question: what does a worker pay to choose a path over several rails that another worker serves? The worker reads the
// gauges of that other worker at each choice, or once per turn. By hand: ninja perf/bench_path, then
// build/perf/bench_path.
#include <benchmark/benchmark.h>

#include <deque>
#include <thread>

#include "control/publish/peer_table.h"
#include "dataplane/select/path.h"
#include "dataplane/state/slices.h"
#include "perf/bench_pin.h"

namespace {

using namespace ulnet;
using perf::pin;

constexpr WorkerId kHome{0}, kServer{1};
constexpr unsigned kMessagesPerTurn = 16;

/// `count` NIs here and as many of one peer, all on one net; the other worker serves the peer.
struct Rails {
  explicit Rails(uint32_t count) {
    const Net tcp = Net::of(NetType::kTcp, 0);
    auto peer = std::make_shared<PeerView>();
    for (uint32_t i = 0; i < count; ++i) {
      NiView ni;
      ni.nid = Nid::v4(tcp, 0x0A000001u + i);
      for (auto* of : {&home_slices, &server_slices}) ni.slices.push_back(&of->emplace_back(NiId{i + 1}, 256, 1));
      local.nis.push_back(ni);
      for (auto* of : {&home_locals, &server_locals}) pointers.push_back(&of->emplace_back());
    }
    for (uint32_t i = 0; i < count; ++i) {
      PeerNiView far;
      far.nid = Nid::v4(tcp, 0x0A010001u + i);
      far.server = kServer;
      far.slice = &peer_slices.emplace_back(PeerNiId{i + 1}, 8, 8);
      far.locals = &pointers[size_t(i) * 2];
      peer->nis.push_back(far);
    }
    local.nets.push_back({tcp, kNoPriority, 0, count});
    peer->nets.push_back({tcp, kNoPriority, 0, count});
    peer->multi_rail = true;
    request.dst = peer->primary();
    builder.set(peer->primary(), peer, 0);
    table = builder.snapshot();
    set.local = &local;
    set.peers = table.get();
    set.routes = &routes;
  }
  std::deque<NiSlice> home_slices, server_slices;
  std::deque<PeerSlice> peer_slices;
  std::deque<PeerLocal> home_locals, server_locals;
  std::vector<PeerLocal*> pointers;
  LocalView local;
  RouteTable routes;
  PeerTableBuilder builder;
  decltype(builder.snapshot()) table;
  ViewSet set;
  PathRequest request;
};

/// The other worker: with every message, it changes its gauges of one rail. A pause between two messages stands for the
/// rest of its work.
class Server {
 public:
  explicit Server(Rails& rails) : rails_(rails) {}
  ~Server() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run() {
    pin(1);
    for (size_t i = 0; !stop_.load(std::memory_order_relaxed); ++i) {
      const size_t rail = i % rails_.peer_slices.size();
      rails_.peer_slices[rail].credits.set_total(int32_t(8 + i % 2));
      rails_.peer_slices[rail].tx_queued_bytes.add(i % 2 == 0 ? 1 : -1);
      rails_.server_slices[rail].credits.set_total(int32_t(256 + i % 2));
      for (volatile int pause = 0; pause < 100; pause = pause + 1) {
      }
    }
  }
  Rails& rails_;
  std::atomic<bool> stop_{false};
  std::thread thread_{[this] { run(); }};
};

/// `turn_of(message)`: as PathContext::turn has it.
template <class F>
void choose(benchmark::State& state, F turn_of) {
  pin(0);
  Rails rails(uint32_t(state.range(0)));
  Server server(rails);
  uint32_t sequence = 0, message = 0;
  for (auto one : state) {
    const uint32_t turn = turn_of(message++);
    const PathChoice choice = choose_path(rails.set, rails.request, {kHome, nullptr, turn});
    choice.ni->slices[0]->sequence.set(++sequence);
    choice.ni->slices[0]->loads[kServer.value].note_sent(turn);
    choice.hop->locals[0]->load.note_sent(turn, 64);
    choice.hop->locals[0]->sequence.set(sequence);
  }
}
void each_choice(benchmark::State& state) {
  choose(state, [](uint32_t) { return 0u; });
}
void once_per_turn(benchmark::State& state) {
  choose(state, [](uint32_t message) { return message / kMessagesPerTurn + 1; });
}
BENCHMARK(each_choice)->Arg(1)->Arg(2)->Arg(4);
BENCHMARK(once_per_turn)->Arg(1)->Arg(2)->Arg(4);

}  // namespace

BENCHMARK_MAIN();
