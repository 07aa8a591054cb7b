// Faults of peers, as both halves count and log them. A test plays the peer.
#include <algorithm>

#include "tests/script/ib/ib_node.h"
#include "tests/script/ib/raw_peer.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

class IbFault : public testing::Test {
 protected:
  ~IbFault() override {
    us.stop();
    pass(30s);
    EXPECT_TRUE(us.stopped && us.idle());
    EXPECT_EQ(us.unfinished, 0u);
    EXPECT_EQ(net.conns(), 0u);
  }
  void pass(Duration time = 50ms) {
    const Duration step = time > 1s ? time / 500 : kStep;
    for (const Instant until = now + time; now < until; now += net.step(step)) raw.turn(now), us.turn(now);
  }
  /// A connection that node 0 has dialled.
  void connect() {
    raw.introduce(MessageType::kConnAck);
    raw.came.clear();
    us.put(1, ++bits, 10);
    pass();
    ASSERT_EQ(us.unfinished, 0u);
    ASSERT_NE(raw.qp, nullptr);
  }
  /// Faults that were counted, by name.
  [[nodiscard]] std::string faults() const {
    std::string text;
    for (const auto& [name, count] : us.control->peer_faults(NiId{1}))
      if (count > 0) text += std::string(text.empty() ? "" : ", ") + name + ": " + std::to_string(count);
    return text;
  }

  IbNet net{31};
  IbNode us{net, 0};
  RawPeer raw{net};
  Instant now = kNever + 1s;
  uint64_t bits = 0;
};

// Goal: one fault moves one counter by one, and one line names the peer and the reason.
TEST_F(IbFault, counted_and_logged) {
  EXPECT_EQ(us.control->peer_faults(NiId{1}).size(), kPeerFaults - 1) << "all are shown";
  EXPECT_TRUE(us.control->peer_faults(NiId{2}).empty()) << "no such NI";
  connect();
  EXPECT_EQ(faults(), "");
  raw.send_noop(8);
  pass();
  EXPECT_EQ(raw.qp, nullptr);
  EXPECT_EQ(faults(), "credits beyond its depth: 1");
  EXPECT_EQ(us.logged, std::vector<std::string>{"o2iblnd: 10.0.0.2@o2ib: credits beyond its depth; connection closed"});
  connect();
  raw.ends.src_stamp ^= 1;
  raw.send_noop(0);
  raw.ends.src_stamp ^= 1;
  pass();
  EXPECT_EQ(faults(), "wrong stamps: 1, credits beyond its depth: 1");
}

// Goal: other peers have their connections, and messages over them end as if nothing had been.
TEST_F(IbFault, other_connections_go_on) {
  IbNode other(net, 2);
  const auto both = [&] {
    for (const Instant until = now + 100ms; now < until; now += kStep) raw.turn(now), us.turn(now), other.turn(now);
  };
  other.now = now;
  connect();
  us.put(2, 100, 10);
  both();
  us.put(2, 101, 300'000);
  us.get(2, 5500, 500'000);
  IbTx& lost = us.put(1, 102, 300'000);
  us.turn(now);
  raw.send_completion(MessageType::kGetDone, 12345, 0);
  both();
  EXPECT_EQ(faults(), "unknown cookie: 1");
  EXPECT_TRUE(lost.done);
  EXPECT_NE(lost.how.error, 0);
  EXPECT_EQ(us.unfinished, 0u);
  EXPECT_EQ(other.received, (std::vector<uint64_t>{100, 101}));
  EXPECT_EQ(us.txs[us.txs.size() - 2].got, 500'000u);
  other.stop();
  for (unsigned i = 0; i < 50 && !other.stopped; ++i) both();
  EXPECT_TRUE(other.stopped);
}

// Goal: a peer that breaks the protocol again and again writes few lines, and each fault counts.
TEST_F(IbFault, lines_are_limited) {
  for (unsigned i = 0; i < 30; ++i) {
    connect();
    raw.send_completion(MessageType::kPutDone, 77, 0);
    pass();
  }
  EXPECT_EQ(faults(), "unknown cookie: 30");
  EXPECT_EQ(us.logged.size(), LogLimit::kLines);
}

TEST_F(IbFault, a_wrong_connack) {
  raw.introduce(MessageType::kConnReq);
  const IbTx& tx = us.put(1, 1, 10);
  pass();
  EXPECT_EQ(tx.how.error, -EPROTO);
  EXPECT_EQ(faults(), "wrong CONNACK: 1");
}

TEST_F(IbFault, an_undecodable_connreq) {
  raw.hello.assign(56, std::byte{0x55});
  raw.dial(0, now);
  pass();
  EXPECT_EQ(faults(), "undecodable CONNREQ: 1");
  ASSERT_EQ(us.logged.size(), 1u);
  EXPECT_EQ(us.logged[0].substr(0, 28), "o2iblnd: request of 10.0.0.2");
}

// Goal: a device refuses a write or a message of the peer. The fault counts once, whichever half sees the end first.
TEST_F(IbFault, refused_by_the_device) {
  for (const unsigned order : {0, 1, 2, 3}) {
    SCOPED_TRACE(order);
    us.worker_first = (order & 1) != 0;
    raw.needs.buffer_bytes = 2 * kMessageMax;
    connect();
    if (order > 1) {
      const Segment from{raw.source.data(), 100, RegionId{2}};
      EXPECT_EQ(raw.worker().write(*raw.qp, {&from, 1}, 12345, 4096, 0), rc::Posted::kYes);
    } else {
      EXPECT_EQ(raw.worker().send(*raw.qp, 0, kMessageMax + 1, 0, rc::Wake::kYes), rc::Posted::kYes);
    }
    pass();
    EXPECT_EQ(faults(), "refused remote access: " + std::to_string(order + 1));
  }
}

// Goal: an end without a fault of the peer counts nothing.
TEST_F(IbFault, ends_without_a_fault) {
  connect();
  raw.broken(*raw.qp, rc::Cause::kClosed, now);
  pass();
  connect();
  net.break_wires(ib_address(0), ib_address(1));
  us.put(1, ++bits, 10);
  pass(10s);
  EXPECT_EQ(faults(), "");
}

}  // namespace
}  // namespace ulnet::test
