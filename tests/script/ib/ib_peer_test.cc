// Messages that wait for a connection, as the worker half keeps them. Each completion may call the driver again: for
// the very same peer, too.
#include <algorithm>

#include "tests/script/ib/ib_script.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

constexpr Completion kRefused{-ECONNREFUSED, LndStatus::kRemoteDropped};

class IbPeer : public IbScript {
 protected:
  [[nodiscard]] size_t asks(ToControl kind) const {
    return size_t(std::count_if(end.for_control.begin(), end.for_control.end(),
                                [&](const LndMsg& msg) { return ToControl(msg.kind()) == kind; }));
  }
  void fail() { end.lnd->from_control(PeerFailMsg{NiId{1}, PeerNiId{kPeerNi.value + 1}, kRefused}, now); }
};

// Goal: the completion of one message takes the other back, and the peer with it.
TEST_F(IbPeer, a_completion_takes_the_last_message_back) {
  end.now = now;
  IbTx &first = end.put(1, 1, 10), &second = end.put(1, 2, 10);
  end.on_done = [&](IbTx& tx) {
    if (&tx == &first) end.lnd->cancel(second, false, now);
  };
  fail();
  EXPECT_TRUE(first.done && second.done);
  EXPECT_EQ(first.how.error, kRefused.error);
  EXPECT_EQ(second.how.error, -ECANCELED);
  EXPECT_EQ(asks(ToControl::kConnWanted), 1u);
  EXPECT_EQ(asks(ToControl::kConnUnwanted), 1u);
  end.for_control.clear();
  end.on_done = [](IbTx&) {};
  connect();
}

// Goal: the completion submits again, and takes that back. The next message submits and stays.
TEST_F(IbPeer, a_completion_submits_to_the_same_peer) {
  end.now = now;
  IbTx* later = nullptr;
  IbTx &first = end.put(1, 1, 10), &second = end.put(1, 2, 10);
  end.on_done = [&](IbTx& tx) {
    if (&tx == &first) end.lnd->cancel(end.put(1, 3, 10), false, now);
    if (&tx == &second) later = &end.put(1, 4, 10);
  };
  fail();
  EXPECT_TRUE(first.done && second.done);
  ASSERT_NE(later, nullptr);
  EXPECT_FALSE(later->done);
  EXPECT_EQ(asks(ToControl::kConnWanted), 2u) << "control has forgotten the first";
  EXPECT_EQ(asks(ToControl::kConnUnwanted), 0u);
  end.for_control.pop_front();
  pass();
  EXPECT_TRUE(later->done);
  EXPECT_EQ(later->how.error, 0);
  EXPECT_EQ(raw.next().message.type, MessageType::kImmediate);
}

// Goal: cancel() of the only message, and its completion submits the next and takes it back.
TEST_F(IbPeer, a_message_that_is_taken_back_brings_others) {
  end.now = now;
  int more = 3;
  end.on_done = [&](IbTx&) {
    if (more-- > 0) end.lnd->cancel(end.put(1, 2, 10), false, now);
  };
  end.lnd->cancel(end.put(1, 1, 10), false, now);
  EXPECT_EQ(end.unfinished, 0u);
  EXPECT_EQ(asks(ToControl::kConnWanted), asks(ToControl::kConnUnwanted));
  EXPECT_EQ(ToControl(end.for_control.back().kind()), ToControl::kConnUnwanted);
  end.for_control.clear();
  end.on_done = [](IbTx&) {};
  connect();
}

// Goal: there is no room in the ring to control, so the last word about a peer waits. The peer is freed later: as many
// peers as the worker has can follow.
TEST_F(IbPeer, a_last_word_that_waits_for_room) {
  constexpr uint32_t kPeers = 4;
  IbConfig config;
  config.peers_max = kPeers;
  IbEnd few(net, 5, config);
  few.now = now;
  few.ring_room = 0;
  for (unsigned round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    std::vector<IbTx*> txs;
    for (unsigned i = 0; i < kPeers; ++i) txs.push_back(&few.put(10 + kPeers * round + i, i, 10));
    for (IbTx* tx : txs) EXPECT_FALSE(tx->done) << "there is room for its peer";
    for (IbTx* tx : txs) few.lnd->cancel(*tx, false, now);
    EXPECT_EQ(few.owed.size(), kPeers) << "one word about each peer";
    while (Owed* owed = few.owed.pop_front())
      EXPECT_EQ(ToControl(std::get<LndMsg>(owed->msg).kind()), ToControl::kConnUnwanted);
  }
  EXPECT_EQ(few.unfinished, 0u);
}

// Goal: the last word about a peer waits, and another message needs the peer. The word changes.
TEST_F(IbPeer, a_peer_that_is_needed_again) {
  end.now = now;
  end.ring_room = 0;
  end.lnd->cancel(end.put(1, 1, 10), false, now);
  IbTx& next = end.put(1, 2, 10);
  ASSERT_EQ(end.owed.size(), 1u);
  EXPECT_EQ(ToControl(std::get<LndMsg>(end.owed.front()->msg).kind()), ToControl::kConnWanted);
  end.ring_room = SIZE_MAX;
  end.for_control.push_back(std::get<LndMsg>(end.owed.pop_front()->msg));
  pass();
  EXPECT_TRUE(next.done);
  EXPECT_EQ(next.how.error, 0);
  EXPECT_EQ(raw.next().message.type, MessageType::kImmediate);
}

// Goal: a connection ends while a message waits for a credit, and the completion of another takes that back.
TEST_F(IbPeer, a_connection_that_ends_with_a_full_queue) {
  connect();
  std::vector<IbTx*> txs;
  for (uint64_t bits = 10; bits < 10 + 2 * kDepth; ++bits) txs.push_back(&end.put(1, bits, 10));
  pass();
  raw.accepts = false;
  raw.worker().flush(now);
  raw.broken(*raw.qp, rc::Cause::kClosed, now);
  end.on_done = [&](IbTx&) {
    for (IbTx* tx : txs)
      if (!tx->done) end.lnd->cancel(*tx, false, now);
  };
  pass(1s);
  end.on_done = [](IbTx&) {};
  for (IbTx* tx : txs) EXPECT_TRUE(tx->done);
  raw.came.clear();
}

// Goal: a REPLY that is late by itself says so, as requests do.
TEST_F(IbPeer, a_late_reply) {
  connect();
  end.reply_at_once = false;
  const auto fragments = raw.open(100'000);
  raw.send_get_req(100, 100'000, 1, fragments);
  pass();
  ASSERT_EQ(end.owed_tokens.size(), 1u);
  end.reply(end.owed_tokens.front());
  IbTx& tx = end.txs.back();
  tx.deadline = now;
  end.lnd->cancel(tx, true, now);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, -ETIMEDOUT);
  EXPECT_EQ(tx.how.health, LndStatus::kNetworkTimeout);
}

// Goal: one message is late and is taken back. Another, which the peer has not answered either, may go over another
// path.
TEST_F(IbPeer, a_request_beside_a_late_one) {
  connect();
  IbTx &late = end.put(1, 5, 100'000), &other = end.put(1, 6, 100'000);
  pass();
  late.deadline = now;
  other.deadline = now + 10s;
  end.lnd->cancel(late, true, now);
  pass();
  ASSERT_TRUE(late.done && other.done);
  EXPECT_EQ(late.how.health, LndStatus::kNetworkTimeout);
  EXPECT_EQ(other.how.error, -ETIMEDOUT);
  EXPECT_EQ(other.how.health, LndStatus::kRemoteDropped);
}

}  // namespace
}  // namespace ulnet::test
