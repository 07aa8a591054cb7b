// Goal: whatever a network does - lose, duplicate, reorder, partition, reset, kill a node - no node crashes, each
// operation ends exactly once, nothing is left over; and once it is healed, everything works again. Method: a small
// routed cluster per seed, random operations and faults first (safety), then heal and demand that each pair of nodes
// gets an acknowledged put and a get through (liveness). ULNET_FULL=1 runs more seeds; ULNET_SEED=n just one.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

struct Chaos {
  Chaos(uint64_t seed, Transport transport) : sim({.seed = seed, .transport = transport}), rng(seed * 977 + 5) {
    const unsigned workers = 1 + unsigned(rng.below(3));
    const auto client = [&](int i) {
      return NodeSpec{.nis = {"10.1.0." + std::to_string(i) + "@tcp"},
                      .workers = workers,
                      .peer_credits = 2 + int(rng.below(8)),
                      .zc_min_payload = seed % 2 == 0 ? 16384u : 0u,
                      .routes = {{"tcp1", "10.1.0.9@tcp"}},
                      .transaction_timeout = 20,
                      .lnd_timeout = 5};
    };
    const auto server = [&](int i) {
      return NodeSpec{.nis = {"10.2.0." + std::to_string(i) + "@tcp1"},
                      .workers = workers,
                      .peer_credits = 2 + int(rng.below(8)),
                      .zc_min_payload = seed % 2 == 0 ? 16384u : 0u,
                      .routes = {{"tcp", "10.2.0.9@tcp1"}},
                      .transaction_timeout = 20,
                      .lnd_timeout = 5};
    };
    ends.push_back(&sim.add_node(client(1)));
    ends.push_back(&sim.add_node(client(2)));
    router = &sim.add_node({.nis = {"10.1.0.9@tcp", "10.2.0.9@tcp1"},
                            .workers = workers,
                            .routing = true,
                            .buffers = {8, 8, 4},
                            .transaction_timeout = 20,
                            .lnd_timeout = 5});
    ends.push_back(&sim.add_node(server(1)));
    ends.push_back(&sim.add_node(server(2)));
    if (transport != Transport::kSockTcp) {
      auto& rules = sim.fabric().rules();
      rules.delay_max = Duration(5us) * (1 + rng.below(100));
      rules.lose_with_error = rng.one_in(2) ? 0.01 : 0;
      rules.lose_silently = rng.one_in(2) ? 0.01 : 0;
      rules.duplicate = rng.one_in(2) ? 0.02 : 0;
      rules.reorder = rng.one_in(2) ? 0.1 : 0;
      rules.hold_memory = rng.one_in(2);
      rules.loss_breaks = rng.one_in(2);
    }
  }

  SimNode& any() { return *ends[rng.below(ends.size())]; }
  SimNode& any_node() { return rng.one_in(3) ? *router : any(); }

  void operate() {
    SimNode& from = any();
    SimNode& to = any();
    if (!from.running() || &from == &to) return;
    static constexpr uint32_t kLengths[] = {0, 1, 500, 1000, 4096, 5000, 60000, 1u << 20};
    const Operation op{.length = kLengths[rng.below(std::size(kLengths))], .ack = rng.below(4) != 0};
    if (rng.one_in(2))
      (void)from.put(to, op);
    else
      (void)from.get(to, op);
  }
  void fault() {
    SimNode& a = any_node();
    SimNode& b = any_node();
    if (&a == &b) return;
    switch (rng.below(6)) {
      case 0: return sim.cut(a, b);
      case 1: return sim.heal(a, b);
      case 2:
      case 3: return sim.reset(a, b);
      case 4:
        if (a.running()) a.kill();
        return;
      case 5:
        for (auto& node : sim.nodes())
          if (!node->running()) return node->start_again();
        return;
    }
  }
  void safety() {
    for (int i = 0; i < 120; ++i) {
      for (int n = int(rng.below(4)); n > 0; --n) operate();
      if (rng.one_in(4)) fault();
      sim.run_for(Duration(rng.one_in(10) ? 2s : Duration(rng.below(20'000'000))));
    }
  }
  /// Tried once a second: one that fails may fail at once.
  bool gets_through(SimNode& from, SimNode& to, bool get) {
    const size_t well = from.ended(true);
    for (const Instant limit = sim.now() + 300s; sim.now() < limit; sim.run_for(1s)) {
      (void)from.start(to.nid(), {.length = 5000}, get);
      if (!sim.run_until([&] { return from.open_operations() == 0; }, 300s)) return false;
      if (from.ended(true) > well) return true;
    }
    return false;
  }
  void liveness() {
    sim.heal_all();
    for (auto& node : sim.nodes())
      if (!node->running()) node->start_again();
    ASSERT_TRUE(sim.run_until(
        [&] {
          for (SimNode* node : ends)
            if (node->open_operations() > 0) return false;
          return true;
        },
        400s))
        << "operations without an end; " << sim.replay_hint();
    for (SimNode* from : ends)
      for (SimNode* to : ends) {
        if (from == to) continue;
        for (bool get : {false, true}) {
          ASSERT_TRUE(gets_through(*from, *to, get))
              << from->spec().nis[0] << " does not reach " << to->spec().nis[0] << "; " << sim.replay_hint();
        }
      }
  }

  SimNet sim;
  Rng rng;
  std::vector<SimNode*> ends;
  SimNode* router = nullptr;
};

/// What the seeds of one run did, so that a run in which nothing ever failed, or nothing went through, shows.
struct Sums {
  size_t well = 0, badly = 0;
  uint64_t gets = 0, puts = 0;  ///< requests of the rdma mode
};

void run_seed(uint64_t seed, Transport transport, Sums& sums) {
  SCOPED_TRACE("to run it again: ULNET_SEED=" + std::to_string(seed) + " " + replay_command());
  Chaos chaos(seed, transport);
  chaos.safety();
  for (SimNode* node : chaos.ends) {
    sums.well += node->ended(true);
    sums.badly += node->ended(false);
  }
  chaos.liveness();
  if (transport == Transport::kRdma) {
    sums.gets += chaos.sim.fabric().counts().get_requests;
    sums.puts += chaos.sim.fabric().counts().put_requests;
  }
  EXPECT_EQ(chaos.sim.finish(), "");
}

void run_seeds(Transport transport, uint64_t count) {
  Sums sums;
  if (const char* one = std::getenv("ULNET_SEED")) return run_seed(std::strtoull(one, nullptr, 10), transport, sums);
  if (std::getenv("ULNET_FULL") != nullptr) count *= 30;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    run_seed(seed, transport, sums);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(sums.well, count * 20);
  EXPECT_GT(sums.badly, count * 5);
  if (transport != Transport::kRdma) return;
  EXPECT_GT(sums.gets, count * 5);
  EXPECT_GT(sums.puts, count * 10);
}

TEST(Chaos, fabric) {
  run_seeds(Transport::kFabric, 12);
}
TEST(Chaos, rdma) {
  run_seeds(Transport::kRdma, 12);
}
TEST(Chaos, socklnd) {
  run_seeds(Transport::kSockTcp, 8);
}

}  // namespace
}  // namespace ulnet::test
