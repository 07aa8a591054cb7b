// When control connects, and when not: beside connections of the peer, and for messages that wait no longer.
#include "tests/script/ib/ib_nodes.h"
#include "tests/script/ib/raw_peer.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

class IbDial : public IbNodes {
 protected:
  IbDial() {
    raw->accepts = false;
    raw->reject_data.resize(kRejectBytes);
    reject_encode({.reason = RejectReason::kConnRace, .stamp = ib_stamp(1), .params = {kDepth, 257, kMessageMax}},
                  std::span(raw->reject_data).first<kRejectBytes>());
  }
  void both(Duration time) {
    for (const Instant until = now + time; now < until; now += kStep) {
      raw->turn(now);
      for (auto& [number, node] : nodes) node->turn(now);
    }
  }
  /// In place of the peer that refuses all.
  IbNode& real_peer() {
    raw.reset();
    return add(1);
  }
  std::unique_ptr<RawPeer> raw = std::make_unique<RawPeer>(net);
};

// Goal: a pause is over while a connection of the peer is being set up: the message waits for that one. If it hangs,
// the next recovery ping ends it, and this node connects itself.
TEST_F(IbDial, a_connection_of_the_peer_that_hangs) {
  if (kOverRoce) GTEST_SKIP() << "a REP without an answer ends soon there";
  IbNode& a = add(0);
  IbTx& tx = a.put(1, 1, 100);
  both(300ms);
  EXPECT_EQ(raw->requests, 1 + kReconnectsFree) << "the next has a pause";
  raw.reset();
  auto peer = std::make_unique<IbStranger>(net, 1);
  request_and_hang(*peer, 0, {ib_nid(1)}, ib_stamp(1));
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 1u);
  pass(2s);
  EXPECT_FALSE(tx.done);
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 1u) << "no attempt beside it";
  peer.reset();
  net.cut(ib_address(0), ib_address(1), false);
  const IbNode& b = add(1);
  a.control->connect_again(NiId{1}, ib_nid(1), now);
  pass();
  EXPECT_FALSE(tx.done) << "it has not hung for long";
  pass(5s);
  EXPECT_FALSE(tx.done);
  a.control->connect_again(NiId{1}, ib_nid(1), now);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_EQ(b.received, std::vector<uint64_t>{1});
}

// Goal: the message that waited for a connection is taken back: control stops, at a pause or with the attempt under
// way.
TEST_F(IbDial, no_message_waits_any_longer) {
  for (const Duration before : {Duration(300us), Duration(20ms), Duration(500ms)}) {
    SCOPED_TRACE(before.count());
    IbNode& a = add(0);
    raw->requests = 0;
    IbTx& tx = a.put(1, 1, 100);
    for (const Instant until = now + before; now < until; now += 100us) raw->turn(now), a.turn(now);
    a.lnd->cancel(tx, false, now);
    ASSERT_TRUE(tx.done);
    both(5ms);
    const unsigned until_now = raw->requests;
    both(5s);
    EXPECT_LE(raw->requests, until_now + 1);
    EXPECT_EQ(a.control->ni_connections(NiId{1}), 0u);
    EXPECT_EQ(a.left, 1u) << "nothing is left of the peer";
    EXPECT_TRUE(a.downs.empty());
    stop(a);
    nodes.clear();
  }
}

// Goal: messages that wait later get their connection, whatever the driver has begun for those before.
TEST_F(IbDial, messages_come_and_go) {
  IbNode& a = add(0);
  for (unsigned round = 0; round < 200; ++round) {
    a.lnd->cancel(a.put(1, 1, 100), false, now);
    for (unsigned i = 0; i < round % 7; ++i, now += 100us) raw->turn(now), a.turn(now);
  }
  IbTx& tx = a.put(1, 2, 100);
  both(100ms);  // until there is a pause
  const IbNode& b = real_peer();
  pass(2s);
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_EQ(b.received, std::vector<uint64_t>{2});
}

}  // namespace
}  // namespace ulnet::test
