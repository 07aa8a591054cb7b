// Nodes of socklnd among each other under seeded chaos: random segmentation, partial sends, resets, partitions, silent
// nodes, holds, diverts and cancels. In every run, each Tx and each slot ends once, payloads arrive unchanged, and no
// object is left over. When the faults stop, traffic flows again. The same seed gives the same run.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/script/once.h"

namespace ulnet::test {
namespace {

constexpr const char* kNids[] = {"10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"};
constexpr const char* kIps[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};

#ifdef ULNET_SANITIZED
constexpr uint32_t kShare = 3;  ///< sanitized builds are slow: a third of the messages
#else
constexpr uint32_t kShare = 1;
#endif

struct Load {
  uint64_t seed = 1;
  uint32_t messages = 1000;
  uint32_t size_max = 100000;
  int32_t conns_per_peer = 1;
  bool faults = false;
  unsigned workers = 1;
  unsigned pipes = 0;
};

struct Chaos {
  explicit Chaos(const Load& the_load)
      : load(the_load),
        rig({.seed = load.seed,
             .delay = 50us,
             .jitter = 100us,
             .segment_max = 9000,
             .send_buffer = 65536,
             .receive_buffer = 65536,
             .pipes = load.pipes}) {
    for (const char* nid : kNids) {
      SockNodeOptions options;
      options.nids = {nid};
      options.workers = load.workers;
      options.tunables.conns_per_peer = load.conns_per_peer;
      options.tunables.timeout = 5s;
      options.config.enable_csum = true;
      options.config.zc_min_payload = load.seed % 2 == 0 ? 16384 : 0;
      options.devices = &devices;
      nodes.push_back(&rig.add(options));
      nodes.back()->trace_on = false;
      nodes.back()->on_header = [this](FakeCore& core, RxSlot& slot) { return header(core, slot); };
    }
  }

  RxVerdict header(FakeCore& core, RxSlot& slot) {
    if (slot.movable && rig.rng.one_in(3)) return RxVerdict::kTaken;
    if (rig.rng.one_in(8)) return RxVerdict::kHold;
    core.make_room(slot, rig.rng.one_in(5) ? uint32_t(rig.rng.below(load.size_max)) : UINT32_MAX);
    slot.may_pipe = load.pipes > 0 && !rig.rng.one_in(4);
    return RxVerdict::kReceive;
  }

  uint32_t size() {
    if (rig.rng.one_in(2)) return uint32_t(rig.rng.below(1200));
    if (rig.rng.one_in(100)) return 1u << 20;
    return uint32_t(rig.rng.below(load.size_max));
  }

  /// Actions that the core starts itself, at random: resumes, releases, diverts, cancels.
  void meddle(SockNode& node) {
    for (auto& core : node.cores) {
      while (!core->held.empty() && (calm || rig.rng.one_in(2))) {
        RxSlot& slot = *core->held.front();
        core->held.erase(core->held.begin());
        slot.verdict = load.faults && rig.rng.one_in(200) ? RxVerdict::kProtocolError : RxVerdict::kReceive;
        if (slot.verdict == RxVerdict::kReceive) core->make_room(slot, rig.rng.one_in(4) ? 0 : UINT32_MAX);
        core->lnd->resume(slot, rig.now);
      }
      while (!core->taken.empty() && (calm || rig.rng.one_in(2)))
        core->release(*core->taken[rig.rng.below(core->taken.size())], rig.now);
      if (!core->receiving.empty() && rig.rng.one_in(10)) core->lnd->divert(*core->oldest_receiving(), rig.now);
    }
    if (calm || node.txs.empty() || !rig.rng.one_in(10)) return;
    TestTx& tx = node.txs[rig.rng.below(node.txs.size())];
    if (tx.done > 0) return;
    FakeCore& core = *node.cores[node.places.at(tx.next_hop).worker.value];
    core.lnd->cancel(tx, load.faults && rig.rng.one_in(20), rig.now);
  }

  void fault() {
    const IpAddress a = ip(kIps[rig.rng.below(3)]), b = ip(kIps[rig.rng.below(3)]);
    switch (rig.rng.below(6)) {
      case 0: rig.tcp.reset_between(a, b); break;
      case 1: rig.tcp.partition(a, b, true); break;
      case 2: rig.tcp.silence(a, true); break;
      case 3: heal(); break;
      default: break;
    }
  }
  void heal() {
    for (const char* a : kIps) {
      rig.tcp.silence(ip(a), false);
      for (const char* b : kIps) rig.tcp.partition(ip(a), ip(b), false);
    }
  }

  void run() {
    uint32_t sent = 0;
    while (sent < load.messages) {
      SockNode& node = *nodes[rig.rng.below(3)];
      const char* to = kNids[rig.rng.below(3)];
      for (uint64_t burst = rig.rng.below(8) + 1; burst > 0 && node.unfinished_fast < 64; --burst, ++sent) {
        if (node.nids[0] == rig_nid(to)) break;
        ++node.unfinished_fast;
        node.put(to, size());
      }
      for (SockNode* each : nodes) meddle(*each);
      if (load.faults && rig.rng.one_in(30)) fault();
      rig.run_for(Duration(int64_t(rig.rng.below(load.faults && rig.rng.one_in(20) ? 1'500'000'000 : 1'000'000))));
    }
  }

  static Nid rig_nid(const char* text);

  const Load load;
  bool calm = false;  ///< true: the core cancels no Tx and holds no slot any longer
  WiredDevices devices;
  SockRig rig;
  std::vector<SockNode*> nodes;
};

Nid Chaos::rig_nid(const char* text) {
  const IpAddress address = ip(text == kNids[0] ? kIps[0] : text == kNids[1] ? kIps[1] : kIps[2]);
  return Nid::v4(Net::of(NetType::kTcp, 0), (uint32_t(address.bytes[0]) << 24) | address.bytes[3]);
}

/// By match bits: no message arrives twice, and no message that the sender may send again arrives. Without faults, each
/// sent message arrives, unless its receiver diverts it.
void check_arrivals(const Chaos& chaos) {
  struct Arrival {
    unsigned whole = 0, broken = 0;
  };
  std::map<std::pair<Nid, uint64_t>, Arrival> arrivals;  // by sender and number
  for (const SockNode* node : chaos.nodes)
    for (const Received& got : node->received) {
      Arrival& one = arrivals[{got.header.src_nid, got.header.put().match_bits}];
      ++(got.how.error == 0 ? one.whole : one.broken);
      EXPECT_TRUE(got.how.error != 0 || payload_right(got));
      EXPECT_TRUE(chaos.load.faults || got.how.error == 0 || got.how.error == -ECANCELED)
          << "nothing but a divert breaks it off: " << got.how.error;
    }
  unsigned whole = 0;
  for (const SockNode* node : chaos.nodes)
    for (const TestTx& tx : node->txs) {
      SCOPED_TRACE(testing::Message() << "seed " << chaos.load.seed << ", message " << tx.number);
      const Arrival& one = arrivals[{node->nids[0], tx.number}];
      whole += one.whole;
      EXPECT_LE(one.whole, may_go_again(tx.how) ? 0u : 1u) << tx.how.error;
      if (chaos.load.faults || tx.how.error != 0) continue;
      EXPECT_EQ(one.whole + one.broken, 1u);
    }
  EXPECT_GT(whole, chaos.load.messages / (chaos.load.faults ? 20 : 2));
}

/// Runs the load, heals, and checks everything. Returns a fingerprint of the run.
uint64_t run_and_check(const Load& load) {
  Chaos chaos(load);
  for (SockNode* node : chaos.nodes) node->on_tx_done = [node](FakeCore&, TestTx&) { --node->unfinished_fast; };
  chaos.run();
  chaos.heal();
  for (SockNode* node : chaos.nodes) node->on_header = nullptr;
  const auto quiet = [&] {
    // All nodes: a slot that one node holds keeps the others waiting.
    for (SockNode* node : chaos.nodes) chaos.meddle(*node);
    return std::all_of(chaos.nodes.begin(), chaos.nodes.end(),
                       [](SockNode* node) { return node->unfinished_fast == 0; });
  };
  EXPECT_TRUE(chaos.rig.run_until(quiet, 300s)) << "seed " << load.seed;
  chaos.calm = true;
  const Instant backoffs_end = chaos.rig.now + 70s;
  EXPECT_TRUE(chaos.rig.run_until([&] { return quiet() && chaos.rig.now >= backoffs_end; }, 80s));
  uint64_t print = 0;
  for (SockNode* from : chaos.nodes)
    for (const char* to : kNids)
      if (Chaos::rig_nid(to) != from->nids[0]) ++from->unfinished_fast, from->put(to, 30000);
  EXPECT_TRUE(chaos.rig.run_until(quiet, 60s)) << "seed " << load.seed;
  chaos.rig.run_for(1s);
  check_arrivals(chaos);
  for (SockNode* node : chaos.nodes) {
    for (const TestTx& tx : node->txs) {
      EXPECT_EQ(tx.done, 1u) << "seed " << load.seed;
      print = print * 31 + uint64_t(tx.how.error) + uint64_t(tx.how.health);
    }
    EXPECT_EQ(node->txs.back().how.error, 0) << "seed " << load.seed << ": traffic does not flow again";
    print = print * 1000003 + node->received.size();
  }
  EXPECT_TRUE(chaos.rig.shut_down()) << "seed " << load.seed;
  EXPECT_EQ(chaos.rig.tcp.pipes.taken > 0, load.pipes > 0) << "seed " << load.seed;
  EXPECT_EQ(chaos.rig.tcp.pipes.out, 0u) << "seed " << load.seed;
  chaos.rig.run_for(1s);  // the last FINs
  EXPECT_EQ(chaos.rig.tcp.socket_count(), 0u) << "seed " << load.seed;
  return print ^ uint64_t(chaos.rig.now.time_since_epoch().count());
}

TEST(SockSim, thousands_of_messages_arrive_whole) {
  for (uint64_t seed = 1; seed <= 2; ++seed) run_and_check({.seed = seed, .messages = 1500 / kShare});
}

TEST(SockSim, four_connections_each_way_and_three_workers) {
  for (uint64_t seed = 11; seed <= 12; ++seed)
    run_and_check({.seed = seed, .messages = 1000 / kShare, .conns_per_peer = 4, .workers = 3});
}

TEST(SockSim, faults_lose_no_tx_and_no_slot) {
  for (uint64_t seed = 21; seed <= 28; ++seed) run_and_check({.seed = seed, .messages = 600 / kShare, .faults = true});
}

TEST(SockSim, faults_with_many_connections) {
  for (uint64_t seed = 41; seed <= 43; ++seed)
    run_and_check({.seed = seed, .messages = 500 / kShare, .conns_per_peer = 3, .faults = true, .workers = 2});
}

// Goal: whatever breaks off a receive into a pipe, the pipe is free again, and a payload that comes is whole.
TEST(SockSim, faults_while_payloads_go_through_pipes) {
  for (uint64_t seed = 51; seed <= 54; ++seed)
    run_and_check({.seed = seed, .messages = 400 / kShare, .size_max = 400'000, .faults = seed % 2 == 0, .pipes = 3});
}

TEST(SockSim, same_seed_same_run) {
  const Load load{.seed = 99, .messages = 300 / kShare, .faults = true};
  EXPECT_EQ(run_and_check(load), run_and_check(load));
}

}  // namespace
}  // namespace ulnet::test
