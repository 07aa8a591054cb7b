// Payloads that lie in no region, sent with remote writes: a block of staging memory takes a copy. Windows of PUTs use
// the same blocks.
#include <cstring>

#include "tests/script/ib/ib_script.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

constexpr uint64_t kGet = 200;  // its REPLY has 200,000 bytes

class IbBounce : public IbScript {
 protected:
  IbBounce() { end.from_region = RegionId{}; }
  /// GET_REQs whose REPLYs wait or are on their way.
  std::vector<Fragment> ask(uint64_t cookie) {
    if (raw.key.open) {
      EXPECT_EQ(raw.worker().key_close(*raw.qp, raw.key), rc::Posted::kYes);
      pass();
    }
    std::memset(raw.memory.data(), 0, 200'000);
    const auto fragments = raw.open(200'000);
    raw.send_get_req(kGet, 200'000, cookie, fragments);
    pass();
    return fragments;
  }
  void expect_reply(const std::vector<Fragment>& fragments) {
    ASSERT_EQ(raw.came.size(), 1u);
    const Came done = raw.next();
    EXPECT_EQ(done.message.type, MessageType::kGetDone);
    EXPECT_EQ(done.message.status, 200'000);
    EXPECT_EQ(raw.written(fragments), payload(kGet, 200'000));
  }
  /// A PUT for whose window the only block is in use; returns its PUT_ACK.
  Came occupy() {
    end.into_region = kOtherRegion;
    raw.send_put_req(4, 300'000, 1);
    pass();
    return raw.next();
  }
};

// Goal: each block is used again and again, and the connection stays.
TEST_F(IbBounce, replies) {
  connect();
  for (uint64_t cookie = 1; cookie <= 20; ++cookie) {
    const auto fragments = ask(cookie);
    expect_reply(fragments);
    EXPECT_EQ(end.txs.back().how.error, 0);
  }
  EXPECT_EQ(raw.connections, 1u);
}

// Goal: only the last part of the payload lies in no region. The first is written from where it is.
TEST_F(IbBounce, the_rest_of_a_put) {
  connect();
  IbTx& tx = end.put(1, 6, 300'000);
  pass();
  const auto fragments = raw.open(300'000);
  raw.send_put_ack(raw.next().message.cookie, 55, fragments);
  pass();
  EXPECT_EQ(raw.next().message.status, 300'000);
  EXPECT_EQ(raw.written(fragments), payload(6, 300'000));
  EXPECT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
}

// Goal: the only block is in use. The REPLY waits for it.
TEST_F(IbBounce, a_reply_waits_for_a_block) {
  connect();
  const Came ack = occupy();
  const auto fragments = ask(31);
  EXPECT_TRUE(raw.came.empty());
  IbTx& registered = end.put(1, 9, 100);
  pass();
  EXPECT_TRUE(registered.done) << "others do not wait";
  EXPECT_EQ(raw.next().message.type, MessageType::kImmediate);
  raw.write(ack.message.sink, 4, 300'000);
  raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
  pass();
  expect_reply(fragments);
  EXPECT_EQ(end.received, std::vector<uint64_t>{4});
}

// Goal: no block comes. The timeout ends the connection, and the block that it held serves the next one.
TEST_F(IbBounce, a_reply_that_waits_for_too_long) {
  connect();
  (void)occupy();
  (void)ask(31);
  pass(60s);
  EXPECT_EQ(raw.qp, nullptr);
  EXPECT_EQ(end.txs.back().how.error, -ETIMEDOUT);
  raw.came.clear();
  end.put(1, 1, 10);
  pass();
  raw.came.clear();
  expect_reply(ask(32));
}

// Goal: the connection ends while the block is written from.
TEST_F(IbBounce, the_connection_ends) {
  connect();
  net.cut(ib_address(0), ib_address(1));
  raw.key = {};
  const auto fragments = raw.open(200'000);
  net.cut(ib_address(0), ib_address(1), false);
  net.rules.delay_min = net.rules.delay_max = 5ms;
  raw.send_get_req(kGet, 200'000, 31, fragments);
  pass(8ms);
  EXPECT_EQ(end.unfinished, 1u);
  raw.broken(*raw.qp, rc::Cause::kClosed, now);
  pass(5s);
  EXPECT_EQ(end.unfinished, 0u);
  EXPECT_NE(end.txs.back().how.error, 0);
  net.rules = {};
  raw.came.clear();
  end.put(1, 1, 10);
  pass();
  raw.came.clear();
  expect_reply(ask(32));
}

/// The peer dials, because the number of blocks is not that of IbScript.
class IbBlocks : public testing::Test {
 protected:
  void begin(unsigned blocks) {
    end = std::make_unique<IbEnd>(net, 0, IbConfig{}, blocks);
    end->from_region = RegionId{};
    raw.dial(0, now);
    pass();
    ASSERT_NE(raw.qp, nullptr);
  }
  ~IbBlocks() override {
    raw.broken(*raw.qp, rc::Cause::kClosed, now);
    pass();
    EXPECT_TRUE(end->idle());
  }
  void pass() {
    for (const Instant until = now + 50ms; now < until; now += kStep) raw.turn(now), end->turn(now);
  }
  IbNet net{5};
  std::unique_ptr<IbEnd> end;
  RawPeer raw{net};
  Instant now = kNever + 1s;
};

// Goal: without staging memory, both sides learn that the payload cannot be sent. The connection stays.
TEST_F(IbBlocks, none) {
  begin(0);
  raw.send_get_req(kGet, 200'000, 31, raw.open(200'000));
  pass();
  const Came done = raw.next();
  EXPECT_EQ(done.message.type, MessageType::kGetDone);
  EXPECT_EQ(done.message.status, -EFAULT);
  EXPECT_EQ(end->txs.back().how.error, -EFAULT);
  EXPECT_EQ(end->txs.back().how.health, LndStatus::kLocalError);
  EXPECT_EQ(end->unfinished, 0u);
  EXPECT_NE(raw.qp, nullptr);
}

// Goal: windows of PUTs leave one block to payloads that are sent.
TEST_F(IbBlocks, one_is_kept_for_payloads_that_are_sent) {
  begin(2);
  end->into_region = kOtherRegion;
  raw.send_put_req(4, 300'000, 1);
  raw.send_put_req(5, 300'000, 2);
  pass();
  EXPECT_EQ(raw.came.size(), 1u);
  const Came ack = raw.next();
  raw.send_get_req(kGet, 200'000, 31, raw.open(200'000));
  pass();
  ASSERT_EQ(raw.came.size(), 1u);
  EXPECT_EQ(raw.next().message.status, 200'000);
  raw.write(ack.message.sink, 4, 300'000);
  raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
  pass();
  EXPECT_EQ(raw.next().message.type, MessageType::kPutAck);
}

}  // namespace
}  // namespace ulnet::test
