// Two nodes send to each other at random, over connections with faults. There are PUTs and GETs of all sizes; messages
// are held, taken along or refused. Each Tx and each slot ends once, payloads are whole, and nothing is left.
#include <cstdlib>

#include "dataplane/base/rng.h"
#include "tests/script/ib/ib_end.h"

namespace ulnet::test {
namespace {

struct RandomRun {
  explicit RandomRun(uint64_t run_seed) : seed(run_seed), rng(run_seed), net(run_seed) {
    for (unsigned i = 0; i < 2; ++i) {
      ends.push_back(std::make_unique<IbEnd>(net, i, o2iblnd::IbConfig{}, 2));
      ends[i]->reply_at_once = false;
      ends[i]->on_header = [this](RxSlot& slot) { return decide(slot); };
    }
    net.rules.retries_for = 100ms;
    net.rules.delay_max = Duration(2000 + rng.below(200'000));
    net.rules.work_max = 4 + uint32_t(rng.below(40));
    net.rules.keys_max = 1 + uint32_t(rng.below(16));
    net.rules.keys_end = !rng.one_in(4);
    for (const auto& end : ends) {
      end->late = [this] { return rng.one_in(3); };
      end->ring_room = 1 + rng.below(4);
    }
  }
  RxVerdict decide(RxSlot& slot) {
    for (const auto& end : ends) end->into_region = rng.one_in(4) ? kOtherRegion : kArena;
    if (rng.one_in(5)) return RxVerdict::kHold;
    if (slot.movable && rng.one_in(3)) return RxVerdict::kTaken;
    if (slot.token != 0 && rng.one_in(6)) return RxVerdict::kRefused;
    return RxVerdict::kReceive;
  }
  void act(IbEnd& end) {
    const unsigned to = 1 - end.number;
    end.from_region = rng.one_in(4) ? RegionId{} : kArena;
    // The last three digits of the bits: size of a GET in thousands of bytes.
    const uint64_t bits = ++last_bits * 1000 + (rng.one_in(3) ? 1 + rng.below(800) : rng.below(4));
    if (end.unfinished < 12 && end.arena.out() < 24 && rng.one_in(2)) {
      const uint32_t any = uint32_t(rng.one_in(8) ? rng.below(1 << 20) : rng.below(5000));
      if (rng.one_in(2))
        end.put(to, bits, any);
      else if (bits % 1000 > 3)
        end.get(to, bits, uint32_t(bits % 1000 * 1000));
    }
    while (!end.owed_tokens.empty() && !rng.one_in(3)) end.reply(end.owed_tokens.front());
    settle(end);
    if (calm) return;
    if (rng.one_in(60) && !end.txs.empty())
      if (IbTx& tx = end.txs[rng.below(end.txs.size())]; !tx.done && tx.token == 0) {
        const bool force = rng.one_in(3);
        forced += force;
        end.lnd->cancel(tx, force, end.now);
      }
    if (rng.one_in(80) && !end.receiving.empty()) {
      RxSlot& slot = *std::next(end.receiving.begin(), ptrdiff_t(rng.below(end.receiving.size())))->first;
      ++forced;
      end.lnd->divert(slot, end.now);
    }
    (void)end.lnd->moved(NiId{1}, PeerNiId{kPeerNi.value + to}, end.now);
  }
  void settle(IbEnd& end) {
    if (!end.held.empty() && rng.one_in(3)) {
      RxSlot& slot = *end.held[rng.below(end.held.size())];
      end.resume(slot, slot.token != 0 && rng.one_in(4) ? RxVerdict::kRefused : RxVerdict::kReceive);
    }
    if (!end.taken.empty() && rng.one_in(2)) end.release(*end.taken.front());
  }
  void run() {
    for (unsigned turn = 0; turn < 1500; ++turn, now += 50us)
      for (const auto& end : ends) {
        end->turn(now);
        act(*end);
      }
    for (const auto& end : ends) end->late = [] { return false; };
    net.rules.lose_one_in = net.rules.local_error_one_in = net.rules.refuse_one_in = 0;
    for (unsigned turn = 0; turn < 6000; ++turn, now += 1ms) {
      for (const auto& end : ends) {
        end->turn(now);
        settle(*end);
        while (!end->owed_tokens.empty()) end->reply(end->owed_tokens.front());
      }
    }
  }
  uint64_t seed;
  Rng rng;
  IbNet net;
  std::vector<std::unique_ptr<IbEnd>> ends;
  Instant now = kNever + 1s;
  uint64_t last_bits = 0, forced = 0;
  bool calm = false;  ///< no faults, and nothing is taken back
};

/// No PUT came twice. If no connection has ended, each PUT that ended well came: else the peer's device may have taken
/// what its node never saw.
void check_deliveries(const RandomRun& run) {
  for (unsigned from = 0; from < 2; ++from) {
    std::map<uint64_t, unsigned> came;
    for (const uint64_t bits : run.ends[1 - from]->received) ++came[bits];
    for (const IbTx& tx : run.ends[from]->txs) {
      if (tx.header.type != wire::MsgType::kPut) continue;
      const unsigned times = came.contains(tx.bits) ? came.at(tx.bits) : 0;
      EXPECT_LE(times, 1u) << tx.bits;
      if (tx.how.error == 0 && run.ends[0]->conns_ended + run.ends[1]->conns_ended == 0) {
        EXPECT_EQ(times, 1u) << tx.bits << " ended well, and did not come";
      }
    }
  }
}

/// A run over RoCE with sanitizers takes a second.
bool few() {
#ifdef ULNET_SANITIZED
  return kOverRoce && std::getenv("ULNET_FULL") == nullptr;
#else
  return false;
#endif
}

TEST(IbRandom, all_that_begins_ends_once) {
  uint64_t well = 0, failed = 0, received = 0;
  const uint64_t seeds = few() ? 24 : 80;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomRun run(seed);
    if (seed % 4 == 1) run.net.rules.lose_one_in = 200;
    if (seed % 4 == 2) run.net.rules.local_error_one_in = 200;
    if (seed % 4 == 3) run.net.rules.refuse_one_in = 200;
    run.calm = seed % 8 == 0;
    run.run();
    check_deliveries(run);
    int64_t ended = 0;
    for (const auto& end : run.ends) {
      EXPECT_EQ(end->unfinished, 0u);
      EXPECT_EQ(end->slots_open, 0u);
      EXPECT_TRUE(end->held.empty() && end->taken.empty() && end->owed_tokens.empty());
      for (const IbTx& tx : end->txs) (tx.how.error == 0 ? well : failed) += 1;
      received += end->received.size();
      ended += end->conns_ended;
      EXPECT_EQ(end->arena.out(), 0u);
    }
    EXPECT_EQ(run.net.counts.no_buffer, 0u) << "a receive buffer was missing within the credits";
    if (seed % 4 != 3) {
      EXPECT_EQ(run.net.counts.stray_writes, 0u);
    }
    if (seed % 4 == 0) {  // no faults
      EXPECT_LE(ended, 2 * int64_t(run.forced)) << "a connection ended that nobody closed";
    }
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(well, seeds * (kOverRoce ? 60 : 120));
  EXPECT_GT(failed, seeds * 6);
  EXPECT_GT(received, seeds * 60);
}

}  // namespace
}  // namespace ulnet::test
