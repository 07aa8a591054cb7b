// Tests of the loopback LND.
#include "lnd/lo/lo.h"

#include "tests/cluster/lnd_rig.h"

namespace ulnet::test {
namespace {

using Bits = std::vector<uint64_t>;

struct LoRig {
  explicit LoRig(uint32_t slots = kLoSlots) : core(trace, "lo", WorkerId{0}), lnd(core, slots) { core.lnd = &lnd; }
  TestTx& put(uint64_t bits, uint32_t bytes, Instant deadline = kForever) {
    TestTx& tx = core.make_put(NiId{1}, kLoNid, kLoNid, bits, bytes);
    tx.deadline = deadline;
    lnd.submit(tx, now);
    return tx;
  }
  unsigned poll(unsigned budget = 64) {
    unsigned all = 0;
    while (const unsigned done = lnd.poll(budget, now)) all += done;
    return all;
  }
  void hold_all() {
    core.on_header = [](RxSlot&) { return RxVerdict::kHold; };
  }
  RxSlot& held(uint64_t bits) {
    for (RxSlot* slot : core.held)
      if (RecordingCore::bits_of(*slot) == bits) return *slot;
    ADD_FAILURE() << bits << " is not held";
    return **core.held.begin();
  }
  std::string trace;
  Instant now{1s};
  RecordingCore core;
  LoLnd lnd;
};

TEST(Lo, delivers_in_poll_and_never_in_submit) {
  LoRig rig;
  for (uint64_t bits = 1; bits <= 4; ++bits) rig.put(bits, uint32_t(bits) * 1000 - 1000);
  EXPECT_EQ(rig.trace, "");
  EXPECT_TRUE(rig.lnd.pending());
  EXPECT_EQ(rig.lnd.poll(3, rig.now), 3u);
  EXPECT_EQ(rig.core.received, (Bits{1, 2, 3}));
  EXPECT_EQ(rig.poll(), 1u);
  EXPECT_EQ(rig.trace.substr(0, rig.trace.find("\n1000000000 lo rx 2")),
            "1000000000 lo rx 1 from 0@lo verdict 0\n1000000000 lo rx_done 1 0 0\n1000000000 lo tx_done 1 0 0");
  EXPECT_FALSE(rig.lnd.pending());
  EXPECT_TRUE(rig.lnd.idle());
}

TEST(Lo, passes_on_who_and_where) {
  LoRig rig;
  int peer = 0, slice = 0;
  TestTx& tx = rig.core.make_put(NiId{3}, kLoNid, kLoNid, 1, 10);
  tx.peer = reinterpret_cast<PeerSlice*>(&peer);
  tx.ni_slice = reinterpret_cast<NiSlice*>(&slice);
  tx.peer_ni = PeerNiId{9};
  rig.core.on_header = [&](RxSlot& slot) {
    EXPECT_EQ(slot.from, tx.peer);
    EXPECT_EQ(slot.ni_slice, tx.ni_slice);
    EXPECT_EQ(slot.from_ni, tx.peer_ni);
    EXPECT_EQ(slot.ni, tx.ni);
    EXPECT_EQ(slot.from_nid, kLoNid);
    EXPECT_FALSE(slot.rdma_request);
    return RxVerdict::kReceive;
  };
  rig.lnd.submit(tx, rig.now);
  EXPECT_EQ(rig.poll(), 1u);
}

// Goal: a held message keeps its Tx and its slot. Other messages pass it, and messages without a slot wait in order.
TEST(Lo, held_messages_take_slots_and_the_rest_waits) {
  LoRig rig(2);
  rig.hold_all();
  std::vector<TestTx*> txs;
  for (uint64_t bits = 1; bits <= 5; ++bits) txs.push_back(&rig.put(bits, 100));
  EXPECT_EQ(rig.poll(), 2u);
  EXPECT_FALSE(rig.lnd.pending());
  EXPECT_FALSE(rig.lnd.idle());
  rig.core.on_header = nullptr;
  rig.core.resume(rig.held(2), rig.now);
  EXPECT_FALSE(txs[1]->done);
  EXPECT_TRUE(rig.lnd.pending());
  rig.poll();
  EXPECT_EQ(rig.core.received, (Bits{2, 3, 4, 5}));
  EXPECT_FALSE(txs[0]->done);
  rig.core.resume(rig.held(1), rig.now, RxVerdict::kProtocolError);
  rig.poll();
  EXPECT_EQ(txs[0]->how.error, -EPROTO);
  EXPECT_TRUE(rig.lnd.idle());
}

TEST(Lo, a_protocol_error_fails_the_sender) {
  LoRig rig;
  rig.core.on_header = [](RxSlot&) { return RxVerdict::kProtocolError; };
  TestTx& tx = rig.put(1, 10);
  rig.poll();
  EXPECT_EQ(tx.how.error, -EPROTO);
  EXPECT_EQ(tx.how.health, LndStatus::kLocalError);
  EXPECT_TRUE(rig.lnd.idle());
}

TEST(Lo, the_rest_is_discarded) {
  LoRig rig;
  rig.core.into_limit = 64;
  rig.put(1, 1000);
  rig.poll();
  EXPECT_EQ(rig.core.received, Bits{1});
}

// Goal: in every state, cancel and divert give the memory back, and each side gets exactly one completion.
TEST(Lo, cancel_and_divert_in_every_state) {
  LoRig rig;
  TestTx& waiting = rig.put(1, 10);
  rig.lnd.cancel(waiting, false, rig.now);
  EXPECT_EQ(waiting.how.error, -ECANCELED);
  EXPECT_EQ(waiting.how.health, LndStatus::kOk);
  TestTx& expired = rig.put(4, 10);
  expired.deadline = rig.now;
  rig.lnd.cancel(expired, true, rig.now);
  EXPECT_EQ(expired.how.error, -ETIMEDOUT);

  rig.hold_all();
  TestTx& held = rig.put(2, 10);
  rig.poll();
  rig.lnd.cancel(held, false, rig.now);
  EXPECT_FALSE(held.done);
  rig.lnd.cancel(held, true, rig.now);
  EXPECT_NE(held.how.error, 0);
  rig.lnd.divert(rig.held(2), rig.now);  // the core's own: no effect
  rig.core.resume(rig.held(2), rig.now);
  rig.poll();
  EXPECT_TRUE(rig.core.received.empty());
  EXPECT_NE(rig.trace.find(fmt::format("rx_done 2 {} 7", -ECONNRESET)), std::string::npos);

  TestTx& diverted = rig.put(3, 10);
  rig.poll();
  RxSlot& slot = rig.held(3);
  rig.core.resume(slot, rig.now);
  rig.lnd.divert(slot, rig.now);
  EXPECT_NE(rig.trace.find(fmt::format("rx_done 3 {} 0", -ECANCELED)), std::string::npos);
  EXPECT_EQ(diverted.how.error, 0);
  rig.lnd.divert(slot, rig.now);
  rig.poll();
  EXPECT_TRUE(rig.lnd.idle());
}

TEST(Lo, a_message_that_waits_for_a_slot_expires) {
  LoRig rig(1);
  rig.hold_all();
  rig.put(1, 10);
  rig.poll();
  TestTx& late = rig.put(2, 10, rig.now + 2s);
  TestTx& early = rig.put(3, 10, rig.now + 1s);
  EXPECT_EQ(rig.lnd.next_deadline(), rig.now + 1s);
  rig.now += 1s;
  EXPECT_EQ(rig.lnd.timers(rig.now), 1u);
  EXPECT_EQ(early.how.error, -ETIMEDOUT);
  EXPECT_FALSE(late.done);
  EXPECT_EQ(rig.lnd.next_deadline(), rig.now + 1s);
  rig.core.on_header = nullptr;
  rig.core.resume(rig.held(1), rig.now);
  rig.poll();
  EXPECT_EQ(rig.core.received, (Bits{1, 2}));
  EXPECT_EQ(rig.lnd.next_deadline(), kForever);
}

// Goal: a submit from within tx_done is delivered later, so a ping-pong of a node with itself does not recurse.
TEST(Lo, submit_from_tx_done_does_not_recurse) {
  LoRig rig;
  int left = 100'000, depth = 0;
  rig.core.on_tx_done = [&](TestTx& tx) {
    EXPECT_EQ(++depth, 1);
    tx.done = false;
    if (--left > 0) rig.lnd.submit(tx, rig.now);
    --depth;
  };
  rig.put(1, 0);
  rig.poll();
  EXPECT_EQ(left, 0);
}

struct LoHost : LndControlHost {
  void to_worker(WorkerId worker, const LndMsg& msg) override { out.push_back({worker, msg}); }
  Result<PeerPlace> place_peer(const Nid&, NiId) override { return fail(ENOMEM, "not asked for"); }
  void ni_stopped(NiId ni) override { stopped.push_back(ni.value); }
  void ni_fatal(NiId, bool) override {}
  void peer_up(PeerNiId) override {}
  void peer_down(PeerNiId, int) override {}
  void log(const std::string&) override {}
  unsigned worker_count() const override { return 2; }
  Rng& rng() override { return rng_; }
  virtual ~LoHost() = default;
  std::vector<std::pair<WorkerId, LndMsg>> out;
  std::vector<uint32_t> stopped;
  Rng rng_{1};
};

TEST(Lo, stopping_waits_for_every_worker) {
  LoRig rig[2];
  LoHost host;
  LoControl control(host);
  ASSERT_TRUE(control.ni_start({.id = NiId{1}, .nid = kLoNid}, Instant{1s}));
  EXPECT_FALSE(control.ni_start({.id = NiId{2}, .nid = Nid::v4(Net::of(NetType::kTcp, 0), 1)}, Instant{1s}));
  rig[1].hold_all();
  rig[1].put(1, 10);
  rig[1].poll();
  TestTx& waiting = rig[0].put(2, 10);
  control.ni_stop(NiId{1}, Instant{1s});
  ASSERT_EQ(host.out.size(), 2u);
  auto exchange = [&] {
    for (auto& [worker, msg] : host.out) rig[worker.value].lnd.from_control(msg, Instant{1s});
    host.out.clear();
    for (uint16_t w = 0; w < 2; ++w) {
      for (const LndMsg& msg : rig[w].core.for_control) control.from_worker(WorkerId{w}, msg, Instant{1s});
      rig[w].core.for_control.clear();
    }
  };
  exchange();
  EXPECT_EQ(waiting.how.error, -ESHUTDOWN);
  EXPECT_EQ(rig[0].put(3, 10).how.error, -ESHUTDOWN);
  EXPECT_TRUE(host.stopped.empty());
  rig[1].core.resume(rig[1].held(1), Instant{1s});
  rig[1].poll();
  exchange();
  EXPECT_EQ(host.stopped, std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace ulnet::test
