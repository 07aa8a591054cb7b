// Nodes that consist of a sim LND and a recording core, turned in order under a virtual clock.
#pragma once
#include "lnd/sim/fabric_ctl.h"
#include "lnd/sim/sim_ctl.h"
#include "lnd/sim/sim_lnd.h"
#include "tests/cluster/lnd_rig.h"

namespace ulnet::test {

inline Nid tcp(uint32_t host) {
  return Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000000 + host);
}

/// One node with one NI, 10.0.0.<number>@tcp. Peers are placed by number modulo workers.
class FabricNode : public LndControlHost {
 public:
  FabricNode(sim::Fabric& fabric, std::string& trace, uint32_t number, uint16_t workers, Rng& rng)
      : nid(tcp(number)), trace_(trace), rng_(rng) {
    const uint32_t node = fabric.add_node();
    id = node;
    control = std::make_unique<sim::SimControl>(fabric, *this, node, NetType::kTcp);
    for (uint16_t w = 0; w < workers; ++w) {
      cores.push_back(std::make_unique<RecordingCore>(trace, fmt::format("n{}.{}", number, w), WorkerId{w}));
      lnds.push_back(std::make_unique<sim::SimLnd>(fabric, *cores.back(), node));
      cores.back()->lnd = lnds.back().get();
    }
  }

  Result<void> start(Instant now, int32_t lnd_timeout = 50) {
    const Duration timeout = std::chrono::seconds(lnd_timeout);
    return control->ni_start({.id = ni, .nid = nid, .tunables = sim::sim_tunable_numbers({.timeout = timeout})}, now);
  }
  TestTx& put(const Nid& to, uint64_t bits, uint32_t bytes, Instant now) {
    const uint16_t worker = worker_of(to);
    TestTx& tx = cores[worker]->make_put(ni, nid, to, bits, bytes);
    tx.peer_ni = PeerNiId{to.address_v4()};
    lnds[worker]->submit(tx, now);
    return tx;
  }
  [[nodiscard]] uint16_t worker_of(const Nid& to) const { return uint16_t(to.address_v4() % cores.size()); }

  /// One turn of everything; returns work done.
  unsigned turn(Instant now) {
    unsigned done = 0;
    for (auto& core : cores) {
      while (!core->for_control.empty()) {
        const LndMsg msg = core->for_control.front();
        core->for_control.pop_front();
        control->from_worker(core->worker_id(), msg, now);
        ++done;
      }
    }
    done += control->turn(now);
    while (!for_workers.empty()) {
      const auto [worker, msg] = for_workers.front();
      for_workers.pop_front();
      lnds[worker.value]->from_control(msg, now);
      ++done;
    }
    for (auto& lnd : lnds) done += lnd->poll(kPollBudget, now) + lnd->timers(now);
    for (auto& lnd : lnds) lnd->flush(now);
    for (auto& core : cores) done += unsigned(core->for_control.size());
    return done;
  }

  void to_worker(WorkerId worker, const LndMsg& msg) override { for_workers.push_back({worker, msg}); }
  Result<PeerPlace> place_peer(const Nid& peer, NiId) override {
    if (refuse_peers) return fail(ENOMEM, "no room for peers");
    return PeerPlace{PeerNiId{peer.address_v4()}, WorkerId{worker_of(peer)}, nullptr};
  }
  void ni_stopped(NiId) override { stopped = true; }
  void ni_fatal(NiId, bool is_fatal) override { fatal = is_fatal; }
  void peer_up(PeerNiId) override { ++ups; }
  void peer_down(PeerNiId, int error) override { last_down = error; }
  void log(const std::string& line) override { trace_ += line + "\n"; }
  unsigned worker_count() const override { return unsigned(lnds.size()); }
  Rng& rng() override { return rng_; }
  virtual ~FabricNode() = default;

  Nid nid;
  NiId ni{1};
  uint32_t id = 0;
  std::vector<std::unique_ptr<RecordingCore>> cores;
  std::unique_ptr<sim::SimControl> control;
  std::vector<std::unique_ptr<sim::SimLnd>> lnds;
  std::deque<std::pair<WorkerId, LndMsg>> for_workers;
  bool refuse_peers = false, stopped = false, fatal = false;
  int ups = 0, last_down = 0;

 private:
  std::string& trace_;
  Rng& rng_;
};

/// A fabric with `count` nodes, numbered from 1.
struct FabricRig {
  explicit FabricRig(sim::FabricOptions options = {}, uint32_t count = 2, uint16_t workers = 1,
                     int32_t lnd_timeout = 50)
      : fabric(options), rng(options.seed + 1) {
    for (uint32_t i = 1; i <= count; ++i) {
      nodes.push_back(std::make_unique<FabricNode>(fabric, trace, i, workers, rng));
      EXPECT_TRUE(nodes.back()->start(now, lnd_timeout));
    }
  }
  FabricNode& operator[](uint32_t number) { return *nodes.at(number - 1); }
  RecordingCore& core(uint32_t number) { return *nodes.at(number - 1)->cores.at(0); }
  Lnd& lnd(uint32_t number) { return *nodes.at(number - 1)->lnds.at(0); }
  TestTx& put(uint32_t from, uint32_t to, uint64_t bits, uint32_t bytes = 0) {
    return (*this)[from].put(tcp(to), bits, bytes, now);
  }
  /// Turns all nodes until nothing happens, at one moment.
  void settle() {
    for (int rounds = 0;; ++rounds) {
      ASSERT_LT(rounds, 10'000) << "never comes to rest";
      unsigned done = 0;
      for (auto& node : nodes)
        if (node != nullptr && !fabric.frozen(node->id)) done += node->turn(now);
      if (done == 0 && fabric.next_event() > now) return;
    }
  }
  /// Runs for a span of virtual time, jumping from event to event.
  void run_for(Duration span) {
    const Instant end = now + span;
    for (settle(); fabric.next_event() <= end; settle()) now = std::max(now, fabric.next_event());
    now = end;
    settle();
  }
  void expect_quiet() { EXPECT_EQ(fabric.check_quiescent(), ""); }

  std::string trace;
  Instant now{1s};
  sim::Fabric fabric;
  Rng rng;
  std::vector<std::unique_ptr<FabricNode>> nodes;
};

}  // namespace ulnet::test
