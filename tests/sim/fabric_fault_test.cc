// Tests of the fabric's faults, each alone and then all together under seeds.
#include <cstdlib>

#include "tests/cluster/fabric_rig.h"

namespace ulnet::test {
namespace {

using sim::Fate;
using Bits = std::vector<uint64_t>;

// Goal: each kind of loss shows each side what it promises.
// Method: the hook loses message 2 of 4, with and without breaking the connection, copied and lent.
TEST(SimFaults, loss_shows_each_side_what_it_promises) {
  for (const bool hold_memory : {false, true})
    for (const bool breaks : {false, true})
      for (const Fate fate : {Fate::kLoseSilently, Fate::kLoseWithError}) {
        FabricRig rig({.rules = {.loss_breaks = breaks, .hold_memory = hold_memory}});
        rig.fabric.hook = [&](const Nid&, const Nid&, const wire::Header& header) {
          return header.put().match_bits == 2 ? fate : Fate::kPass;
        };
        std::vector<TestTx*> txs;
        for (uint64_t bits = 1; bits <= 4; ++bits) txs.push_back(&rig.put(1, 2, bits, 100));
        rig.run_for(1s);
        EXPECT_EQ(txs[0]->how.error, 0);
        EXPECT_EQ(txs[1]->how.error, fate == Fate::kLoseSilently ? 0 : -ECONNRESET);
        EXPECT_EQ(txs[1]->how.health, fate == Fate::kLoseSilently ? LndStatus::kOk : LndStatus::kRemoteDropped);
        EXPECT_EQ(rig.core(2).received, breaks ? Bits{1} : (Bits{1, 3, 4}));
        EXPECT_EQ(rig.fabric.counts().breaks, breaks ? 2u : 0u);
        for (size_t i = 2; i < 4; ++i) EXPECT_EQ(txs[i]->how.error, breaks && hold_memory ? -ECONNRESET : 0);
        rig.fabric.hook = nullptr;
        rig.put(1, 2, 5, 100);
        rig.run_for(1s);
        EXPECT_EQ(rig.core(2).received.back(), 5u);
        rig.expect_quiet();
      }
}

TEST(SimFaults, fates_by_message_type) {
  FabricRig rig({.rules = {.loss_breaks = false}});
  rig.fabric.link(tcp(1), tcp(2)).fates[size_t(wire::MsgType::kPut)] = Fate::kLoseSilently;
  rig.put(1, 2, 1, 10);
  rig.put(2, 1, 2, 10);
  rig.run_for(1s);
  EXPECT_TRUE(rig.core(2).seen.empty());
  EXPECT_EQ(rig.core(1).received, Bits{2});
  rig.fabric.calm();
  rig.put(1, 2, 3, 10);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, Bits{3});
  rig.expect_quiet();
}

TEST(SimFaults, a_duplicate_is_seen_twice) {
  for (const bool hold_memory : {false, true}) {
    FabricRig rig({.rules = {.duplicate = 1, .hold_memory = hold_memory}});
    TestTx& tx = rig.put(1, 2, 1, 5000);
    rig.run_for(1s);
    EXPECT_EQ(rig.core(2).received, (Bits{1, 1}));
    EXPECT_TRUE(tx.done);
    EXPECT_EQ(rig.fabric.counts().duplicated, 1u);
    rig.expect_quiet();
  }
}

TEST(SimFaults, reordered_messages_are_overtaken_and_none_is_lost) {
  FabricRig rig({.rules = {.reorder = 0.5, .reorder_max = 1ms, .window = 100}});
  Bits all;
  for (uint64_t bits = 1; bits <= 50; ++bits) {
    all.push_back(bits);
    rig.put(1, 2, bits, 10);
  }
  rig.run_for(1s);
  Bits sorted = rig.core(2).received;
  EXPECT_NE(sorted, all);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, all);
  rig.expect_quiet();
}

// Goal: a cut is silence: what is under way waits and goes on after the heal, if that comes before the timeout.
TEST(SimFaults, a_short_cut_only_delays) {
  FabricRig rig;
  rig.put(1, 2, 1, 10);
  rig.run_for(1s);
  rig.fabric.cut(tcp(1), tcp(2));
  rig.put(1, 2, 2, 10);
  rig.put(2, 1, 3, 10);
  rig.run_for(20s);
  EXPECT_EQ(rig.core(2).seen, Bits{1});
  EXPECT_TRUE(rig.core(1).seen.empty());
  rig.fabric.heal(tcp(1), tcp(2));
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, (Bits{1, 2}));
  EXPECT_EQ(rig.core(1).received, Bits{3});
  EXPECT_EQ(rig.fabric.counts().breaks, 0u);
  rig.expect_quiet();
}

// Goal: without progress for the LND timeout the sender closes with NETWORK_TIMEOUT; the other side hears of it after
// the heal, and traffic resumes by itself.
TEST(SimFaults, a_long_cut_times_out) {
  for (const bool one_way : {false, true}) {
    FabricRig rig({.rules = {.hold_memory = true}}, 2, 1, 10);
    rig.put(1, 2, 1, 10);
    rig.run_for(1s);
    if (one_way)
      rig.fabric.cut_one_way(tcp(1), tcp(2));
    else
      rig.fabric.cut(tcp(1), tcp(2));
    TestTx& tx = rig.put(1, 2, 2, 10);
    rig.run_for(9s);
    EXPECT_FALSE(tx.done);
    rig.run_for(2s);
    EXPECT_TRUE(tx.done);
    EXPECT_EQ(tx.how.error, -ETIMEDOUT);
    EXPECT_EQ(tx.how.health, LndStatus::kNetworkTimeout);
    rig.fabric.heal_all();
    rig.put(1, 2, 3, 10);
    rig.run_for(1s);
    EXPECT_EQ(rig.core(2).received, (Bits{1, 3}));
    rig.expect_quiet();
  }
}

// Goal: a receive that is under way when the sender falls silent ends with an error.
TEST(SimFaults, a_receive_cut_in_the_middle_fails) {
  FabricRig rig({.rules = {.bytes_per_second = 1'000'000}}, 2, 1, 10);
  rig.put(1, 2, 1, 100'000);
  rig.run_for(1ms);
  ASSERT_EQ(rig.core(2).receiving.size(), 1u);
  rig.fabric.cut(tcp(1), tcp(2));
  rig.run_for(20s);
  EXPECT_TRUE(rig.core(2).received.empty());
  EXPECT_NE(rig.trace.find(fmt::format("rx_done 1 {} 7", -ECONNRESET)), std::string::npos);
  rig.fabric.heal_all();
  rig.run_for(20s);
  rig.expect_quiet();
}

// Goal: a reset fails what is under way on both sides, and held slots stay the core's until it resumes them.
TEST(SimFaults, a_reset_fails_what_is_under_way) {
  FabricRig rig({.rules = {.bytes_per_second = 1'000'000, .hold_memory = true}});
  rig.core(1).on_header = [](RxSlot&) { return RxVerdict::kHold; };
  TestTx& held = rig.put(2, 1, 1, 10);
  rig.run_for(1s);
  TestTx& under_way = rig.put(1, 2, 2, 100'000);
  rig.run_for(1ms);
  ASSERT_EQ(rig.core(2).receiving.size(), 1u);
  rig.fabric.reset(tcp(2), tcp(1));
  rig.run_for(1s);
  for (const TestTx* tx : {&held, &under_way}) {
    EXPECT_TRUE(tx->done);
    EXPECT_EQ(tx->how.error, -ECONNRESET);
    EXPECT_EQ(tx->how.health, LndStatus::kRemoteDropped);
  }
  EXPECT_TRUE(rig.core(2).receiving.empty());
  ASSERT_EQ(rig.core(1).held.size(), 1u);
  rig.put(1, 2, 3, 10);  // a new connection, while the old one's slot is still out
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, Bits{3});
  rig.core(1).resume(**rig.core(1).held.begin(), rig.now);
  EXPECT_TRUE(rig.core(1).received.empty());
  rig.run_for(1s);
  rig.expect_quiet();
}

TEST(SimFaults, connecting_to_nobody_is_refused_and_into_a_cut_times_out) {
  FabricRig rig;
  TestTx& refused = (rig[1].put(tcp(77), 1, 0, rig.now));
  rig.fabric.cut_one_way(tcp(2), tcp(1));
  TestTx& silent = rig.put(1, 2, 2, 0);
  TestTx& expired = rig.put(1, 2, 3, 0);
  rig.lnd(1).cancel(expired, false, rig.now);
  rig.run_for(5s);
  EXPECT_EQ(refused.how.error, -ECONNREFUSED);
  EXPECT_EQ(refused.how.health, LndStatus::kRemoteDropped);
  EXPECT_FALSE(silent.done);
  rig.run_for(6s);
  EXPECT_EQ(silent.how.error, -ETIMEDOUT);
  EXPECT_EQ(silent.how.health, LndStatus::kNetworkTimeout);
  EXPECT_EQ(rig[1].last_down, -ETIMEDOUT);
  EXPECT_EQ(rig.fabric.counts().connects_failed, 2u);
  rig.fabric.heal_all();
  rig.put(1, 2, 4, 0);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, Bits{4});
  rig.expect_quiet();
}

TEST(SimFaults, a_cut_shorter_than_the_connect_timeout_only_delays_the_connection) {
  FabricRig rig;
  rig.fabric.cut(tcp(1), tcp(2));
  rig.put(1, 2, 1, 0);
  rig.run_for(5s);
  rig.fabric.heal_all();
  rig.run_for(2s);
  EXPECT_EQ(rig.core(2).received, Bits{1});
  rig.expect_quiet();
}

TEST(SimFaults, a_peer_without_room_refuses) {
  FabricRig rig;
  rig[2].refuse_peers = true;
  TestTx& tx = rig.put(1, 2, 1, 0);
  rig.run_for(1s);
  EXPECT_EQ(tx.how.error, -ECONNREFUSED);
  rig.expect_quiet();
}

TEST(SimFaults, waiting_txs_expire_at_their_deadline) {
  FabricRig rig;
  rig.fabric.cut(tcp(1), tcp(2));
  TestTx& tx = rig.core(1).make_put(rig[1].ni, tcp(1), tcp(2), 1, 0);
  tx.deadline = rig.now + 3s;
  rig.lnd(1).submit(tx, rig.now);
  rig.run_for(2999ms);
  EXPECT_FALSE(tx.done);
  rig.run_for(1ms);
  EXPECT_EQ(tx.how.error, -ETIMEDOUT);
  rig.run_for(10s);
  rig.expect_quiet();
}

// Goal: a frozen node keeps its connections; its peers wait, time out if it takes long, and it picks up where it was.
TEST(SimFaults, a_frozen_node_is_silent_and_comes_back) {
  FabricRig rig({.rules = {.hold_memory = true}}, 2, 1, 10);
  rig.put(1, 2, 1, 10);
  rig.run_for(1s);
  rig.fabric.freeze(rig[2].id);
  TestTx& patient = rig.put(1, 2, 2, 10);
  rig.run_for(5s);
  EXPECT_FALSE(patient.done);
  rig.fabric.thaw(rig[2].id);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, (Bits{1, 2}));
  rig.fabric.freeze(rig[2].id);
  TestTx& late = rig.put(1, 2, 3, 10);
  rig.run_for(30s);
  EXPECT_EQ(late.how.error, -ETIMEDOUT);
  rig.fabric.heal_all();
  rig.run_for(1s);
  rig.put(2, 1, 4, 10);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(1).received, Bits{4});
  rig.expect_quiet();
}

TEST(SimFaults, link_down_is_told_to_control) {
  FabricRig rig;
  rig.put(1, 2, 1, 10);
  rig.run_for(1s);
  rig.fabric.link_down(tcp(1));
  rig.put(1, 2, 2, 10);
  rig.run_for(1s);
  EXPECT_TRUE(rig[1].fatal);
  EXPECT_FALSE(rig[2].fatal);
  EXPECT_EQ(rig.core(2).seen, Bits{1});
  rig.fabric.link_up(tcp(1));
  rig.run_for(1s);
  EXPECT_FALSE(rig[1].fatal);
  EXPECT_EQ(rig.core(2).received, (Bits{1, 2}));
  rig.expect_quiet();
}

// Goal: killing a node leaves nothing behind; its peers see resets, and its NID can come back with a new node.
TEST(SimFaults, a_killed_node_leaves_resets_and_may_come_back) {
  FabricRig rig({.rules = {.bytes_per_second = 1'000'000, .hold_memory = true}}, 3);
  rig.core(2).on_header = [](RxSlot& slot) {
    return RecordingCore::bits_of(slot) == 2 ? RxVerdict::kHold : RxVerdict::kReceive;
  };
  TestTx& receiving = rig.put(1, 2, 1, 100'000);
  TestTx& held = rig.put(3, 2, 2, 100);
  rig.put(2, 3, 3, 100'000);
  rig.run_for(1ms);
  ASSERT_EQ(rig.core(2).held.size() + rig.core(2).receiving.size(), 2u);
  ASSERT_EQ(rig.core(3).receiving.size(), 1u);
  rig.nodes[1] = nullptr;
  rig.run_for(1s);
  EXPECT_EQ(receiving.how.error, -ECONNRESET);
  EXPECT_EQ(held.how.error, -ECONNRESET);
  EXPECT_TRUE(rig.core(3).receiving.empty());
  EXPECT_TRUE(rig.core(3).received.empty());
  rig.expect_quiet();
  rig.nodes[1] = std::make_unique<FabricNode>(rig.fabric, rig.trace, 2, uint16_t{1}, rig.rng);
  ASSERT_TRUE(rig[2].start(rig.now));
  rig.put(1, 2, 4, 100);
  rig.put(2, 3, 5, 100);
  rig.run_for(1s);
  EXPECT_EQ(rig.core(2).received, Bits{4});
  EXPECT_EQ(rig.core(3).received, Bits{5});
  rig.expect_quiet();
}

/// Random traffic among four nodes with two workers each, under every fault. The rig's cores check what they are told.
class Storm {
 public:
  Storm(uint64_t seed, bool hold_memory, uint32_t rdma_above = UINT32_MAX)
      : rig_({.seed = seed,
              .rules = {.delay_min = 2us,
                        .delay_max = 5ms,
                        .bytes_per_second = 100'000'000,
                        .body_delay_max = 2ms,
                        .lose_silently = 0.01,
                        .lose_with_error = 0.01,
                        .duplicate = 0.05,
                        .reorder = 0.05,
                        .hold_memory = hold_memory,
                        .window = 4},
              .rdma_above = rdma_above},
             4, 2, 5),
        rng_(seed * 7 + 1) {
    for_each_core([&](RecordingCore& core) {
      core.on_header = [&](RxSlot&) {
        if (rng_.one_in(10)) return RxVerdict::kHold;
        return rng_.one_in(200) ? RxVerdict::kProtocolError : RxVerdict::kReceive;
      };
    });
  }
  /// Faults for sixty rounds, then calm until all must be at rest.
  void run() {
    for (int round = 0; round < 60; ++round) {
      for (int i = 0; i < 8; ++i) txs_.push_back(&rig_.put(host(), host(), ++bits_, uint32_t(rng_.below(20'000))));
      fault();
      rig_.run_for(Duration{int64_t(rng_.below(rng_.one_in(8) ? 4'000'000'000 : 10'000'000))});
      take_memory_back();
      answer_held(3);
    }
    rig_.fabric.calm();
    rig_.fabric.heal_all();
    for (int i = 0; i < 200; ++i) {
      rig_.run_for(100ms);
      answer_held(1);
    }
  }
  void check() {
    rig_.expect_quiet();
    const sim::FabricCounts& counts = rig_.fabric.counts();
    EXPECT_GT(counts.lost_silently + counts.lost_with_error + counts.duplicated + counts.reordered, 5u);
    EXPECT_GT(counts.breaks, 5u);
    for (const TestTx* tx : txs_) EXPECT_TRUE(tx->done);
    for_each_core([](RecordingCore& core) { EXPECT_TRUE(core.receiving.empty() && core.held.empty()); });
  }
  [[nodiscard]] const std::string& trace() const { return rig_.trace; }

 private:
  template <class F>
  void for_each_core(F&& visit) {
    for (uint32_t n = 1; n <= 4; ++n)
      for (auto& core : rig_[n].cores) visit(*core);
  }
  uint32_t host() { return uint32_t(1 + rng_.below(4)); }
  void fault() {
    const Nid a = tcp(host()), b = tcp(host());
    switch (rng_.below(10)) {
      case 0: rig_.fabric.cut(a, b); break;
      case 1: rig_.fabric.cut_one_way(a, b); break;
      case 2: rig_.fabric.reset(a, b); break;
      case 3: rig_.fabric.link_down(a); break;
      case 4: rig_.fabric.freeze(rig_[host()].id); break;
      case 5: rig_.fabric.heal_all(); break;
      default: break;
    }
  }
  void take_memory_back() {
    TestTx& victim = *txs_[rng_.below(txs_.size())];
    if (!victim.done) {
      FabricNode& sender = rig_[victim.header.src_nid.addr[3]];
      sender.lnds[sender.worker_of(victim.next_hop)]->cancel(victim, rng_.one_in(2), rig_.now);
    }
    for_each_core([&](RecordingCore& core) {
      if (!core.receiving.empty() && rng_.one_in(4)) core.lnd->divert(*core.receiving.front(), rig_.now);
    });
  }
  void answer_held(uint64_t one_in) {
    for_each_core([&](RecordingCore& core) {
      std::vector<std::pair<uint64_t, RxSlot*>> slots;  // sorted by content: the run must not depend on addresses
      for (RxSlot* slot : core.held)
        slots.push_back({RecordingCore::bits_of(*slot) * 8 + slot->from_nid.addr[3], slot});
      std::sort(slots.begin(), slots.end(), [](auto& a, auto& b) { return a.first < b.first; });
      for (auto& [order, slot] : slots) {
        if (!rng_.one_in(one_in)) continue;
        core.resume(*slot, rig_.now, rng_.one_in(50) ? RxVerdict::kProtocolError : RxVerdict::kReceive);
      }
    });
  }

  FabricRig rig_;
  Rng rng_;
  uint64_t bits_ = 0;
  std::vector<TestTx*> txs_;
};

// Goal: every Tx and slot comes home under any mixture of faults, and the same seed gives the same run, byte for byte.
// ULNET_FULL takes more seeds (tools/check --full).
TEST(SimFaults, storms_come_to_rest_and_repeat) {
  const uint64_t seeds = std::getenv("ULNET_FULL") != nullptr ? 500 : 30;
  std::set<std::string> traces;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const uint32_t rdma_above = seed % 3 == 0 ? 5'000 : UINT32_MAX;
    Storm first(seed, seed % 2 == 0, rdma_above), second(seed, seed % 2 == 0, rdma_above);
    first.run();
    first.check();
    second.run();
    EXPECT_EQ(first.trace(), second.trace());
    EXPECT_TRUE(traces.insert(first.trace()).second) << "another seed gave the same run";
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace ulnet::test
