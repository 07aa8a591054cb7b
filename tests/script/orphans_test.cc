// Messages that wait for their connection set, very many of them at once: the cost is counted, not timed.
#include <gtest/gtest.h>

#include <set>

#include "lnd/socklnd/conn_set.h"
#include "lnd/socklnd/timers.h"
#include "tests/cluster/sim_tcp.h"

namespace ulnet::socklnd {
namespace {

constexpr uint32_t kPeers = 10'000;
constexpr uint32_t kMessagesEach = 8;
constexpr uint32_t kMessages = kPeers * kMessagesEach;

class CountingCore final : public LndCore {
 public:
  RxVerdict rx_header(RxSlot&, Instant) override { return RxVerdict::kProtocolError; }
  void rx_done(RxSlot&, Completion, Instant) override {}
  void tx_done(Tx&, Completion how, Instant) override {
    ++done;
    errors.insert(how.error);
  }
  void get_done(Tx&, uint32_t, int32_t, Instant) override { ADD_FAILURE() << "socklnd has no remote writes"; }
  void to_control(Owed&, const LndMsg&) override {}
  bool ask_control(const LndMsg& msg) override {
    needed += ToControl(msg.kind()) == ToControl::kSetNeeded;
    return true;
  }
  WorkerId worker_id() const override { return {0}; }
  uint32_t done = 0, needed = 0;
  std::multiset<int32_t> errors;
};

struct Waiting {
  Waiting() : engine(tcp.engine()), worker(core, *engine, config), txs(kMessages) {
    worker.now = Instant{1s};
    worker.tx_count = kMessages;
    for (uint32_t i = 0; i < kMessages; ++i) {
      Tx& tx = txs[i];
      tx.ni = {1};
      tx.peer_ni = {1 + i % kPeers};  // peers in turn, so that those of one peer are far apart
      orphan_add(worker, tx);
    }
  }
  SockConfig config;
  test::SimTcp tcp;
  CountingCore core;
  std::unique_ptr<StreamEngine> engine;
  SockWorker worker;
  std::vector<Tx> txs;
};

// Goal: at a mass connect the work for each message does not grow with the number of peers.
TEST(SockOrphans, mass_connect_looks_at_few_messages) {
  Waiting t;
  EXPECT_EQ(t.core.needed, kPeers) << "control is asked once for each peer";
  EXPECT_LE(t.worker.orphan_visits, uint64_t{40} * kMessages);
  t.worker.orphan_visits = 0;
  uint32_t adopted = 0;
  for (uint32_t peer = 1; peer <= kPeers; ++peer) {
    ConnSet set(1);
    set.ni = {1};
    set.peer_ni = {peer};
    orphans_adopt(t.worker, set);
    adopted += set.waiting.size();
    set_fail_waiting(t.worker, set, {-ECONNREFUSED, LndStatus::kRemoteDropped});
    t.worker.set_wheel.disarm(set);
  }
  EXPECT_EQ(adopted, kMessages);
  EXPECT_EQ(t.core.done, kMessages);
  EXPECT_LE(t.worker.orphan_visits, uint64_t{40} * kMessages);
}

// Goal: those of one peer NI fail alone, those of an NI together, each once.
TEST(SockOrphans, fail_by_peer_and_by_ni) {
  Waiting t;
  orphans_fail(t.worker, {1}, {7}, {-EXDEV, LndStatus::kLocalAborted});
  EXPECT_EQ(t.core.done, kMessagesEach);
  orphans_fail(t.worker, {2}, {}, {-ESHUTDOWN, LndStatus::kLocalAborted});
  EXPECT_EQ(t.core.done, kMessagesEach);
  orphans_fail(t.worker, {1}, {}, {-ESHUTDOWN, LndStatus::kLocalAborted});
  EXPECT_EQ(t.core.done, kMessages);
  EXPECT_EQ(t.core.errors.count(-EXDEV), kMessagesEach);
}

// Goal: those that wait too long end, and only those, though their moments are all different.
TEST(SockOrphans, each_expires_at_its_time) {
  Waiting t;
  for (uint32_t i = 0; i < kMessages; ++i) TxState(t.txs[i]).expires(Instant{10s} + i * 1us);
  t.worker.orphans_due = Instant{10s};
  uint32_t looks = 0;
  while (t.core.done < kMessages && looks < 100) {
    t.worker.now = timers_next(t.worker);
    (void)timers_run(t.worker);
    ++looks;
    const auto due = uint32_t(std::min<int64_t>((t.worker.now - Instant{10s}) / 1us + 1, kMessages));
    EXPECT_EQ(t.core.done, due);
  }
  EXPECT_EQ(t.core.errors.count(-ETIMEDOUT), kMessages);
  EXPECT_LT(looks, 100u) << "each look goes over all that wait";
  EXPECT_EQ(timers_next(t.worker), kForever);
}

}  // namespace
}  // namespace ulnet::socklnd
