// The core takes the memory of a PUT back, in each state that the PUT can have. The event comes once, says so, and
// nothing is written into the memory after that.
#include "tests/script/ib/ib_script.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

class IbDivert : public IbScript {
 protected:
  /// A PUT that the core has accepted, with the PUT_ACK for it.
  RxSlot* begin() {
    raw.send_put_req(4, 300'000, 1);
    pass();
    if (end.receiving.empty()) return nullptr;
    ack = raw.next();
    return end.receiving.begin()->first;
  }
  void expect_diverted() {
    ASSERT_EQ(end.broken_receives.size(), 1u);
    EXPECT_EQ(end.broken_receives[0].second.error, -ECANCELED);
    EXPECT_EQ(end.broken_receives[0].second.health, LndStatus::kOk);
    EXPECT_TRUE(end.received.empty());
  }
  /// From here on control does nothing, so that a connection that has ended does not drain.
  void stop_control() {
    end.late = [this] { return stopped; };
    stopped = true;
  }
  Came ack;
  bool stopped = false;
};

InState state_of(const RxSlot& slot) {
  return static_cast<const In&>(slot).state;
}

// Goal: PUT_DONE has come, and the key is being closed. The connection stays. A block that was written is not copied.
TEST_F(IbDivert, while_the_key_is_being_closed) {
  if (kOverRoce) GTEST_SKIP() << "a key is closed at once there";
  for (const RegionId region : {kArena, kOtherRegion}) {
    SCOPED_TRACE(region.value);
    end.broken_receives.clear();
    end.into_region = region;
    if (raw.connections == 0) connect();
    RxSlot* slot = begin();
    ASSERT_NE(slot, nullptr);
    net.rules.delay_min = net.rules.delay_max = 10ms;
    raw.write(ack.message.sink, 4, 300'000);
    raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
    for (unsigned i = 0; i < 100 && state_of(*slot) != InState::kClosing; ++i) pass(1ms);
    ASSERT_EQ(state_of(*slot), InState::kClosing);
    end.lnd->divert(*slot, now);
    pass(100ms);
    expect_diverted();
    if (region == kOtherRegion) {
      EXPECT_EQ(end.broken_bytes, std::vector<std::byte>(300'000, std::byte{0xCA})) << "written after it went back";
    }
    net.rules = {};
  }
  EXPECT_EQ(raw.connections, 1u);
  EXPECT_NE(raw.qp, nullptr);
}

// Goal: other messages of the connection may take another path. The peer may have the message that was sent.
TEST_F(IbDivert, other_messages_of_the_connection) {
  connect();
  RxSlot* slot = begin();
  ASSERT_NE(slot, nullptr);
  net.rules.delay_min = net.rules.delay_max = 10ms;
  IbTx& sent = end.put(1, 5, 10);
  IbTx& asked = end.put(1, 6, 1 << 20);
  pass(5ms);
  end.lnd->divert(*slot, now);
  pass(100ms);
  expect_diverted();
  EXPECT_EQ(sent.how.health, LndStatus::kRemoteError);
  EXPECT_EQ(asked.how.health, LndStatus::kRemoteDropped);
}

// Goal: the connection has ended, and the queue pair still has to hand the memory back.
TEST_F(IbDivert, after_the_end_of_the_connection) {
  connect();
  RxSlot* slot = begin();
  ASSERT_NE(slot, nullptr);
  stop_control();
  raw.send_noop(8);
  pass();
  EXPECT_EQ(state_of(*slot), InState::kOffered);
  end.lnd->divert(*slot, now);
  pass();
  EXPECT_TRUE(end.broken_receives.empty()) << "the peer may still write";
  stopped = false;
  pass();
  expect_diverted();
}

// Goal: the same for a PUT that waits for a block of staging memory.
TEST_F(IbDivert, after_the_end_while_it_waits_for_a_block) {
  connect();
  end.into_region = kOtherRegion;
  ASSERT_NE(begin(), nullptr);
  raw.send_put_req(5, 300'000, 2);
  pass();
  RxSlot* waits = nullptr;
  for (auto& [slot, rx] : end.receiving)
    if (state_of(*slot) == InState::kOffering) waits = slot;
  ASSERT_NE(waits, nullptr);
  stop_control();
  raw.send_noop(8);
  pass();
  end.lnd->divert(*waits, now);
  stopped = false;
  pass();
  ASSERT_EQ(end.broken_receives.size(), 2u);
  for (const auto& [bits, how] : end.broken_receives) EXPECT_EQ(how.error, bits == 5 ? -ECANCELED : -EPROTO);
}

// Goal: PUT_DONE has come, and the connection ends before the key is closed.
TEST_F(IbDivert, while_the_key_is_being_closed_at_the_end) {
  if (kOverRoce) GTEST_SKIP() << "a key is closed at once there";
  connect();
  RxSlot* slot = begin();
  ASSERT_NE(slot, nullptr);
  net.rules.delay_min = net.rules.delay_max = 10ms;
  raw.write(ack.message.sink, 4, 300'000);
  raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
  raw.send_noop(8);
  for (unsigned i = 0; i < 100 && state_of(*slot) != InState::kClosing; ++i) pass(1ms);
  ASSERT_EQ(state_of(*slot), InState::kClosing);
  end.lnd->divert(*slot, now);
  pass(1s);
  expect_diverted();
}

// Goal: the memory of a message that has ended is not the driver's. The next message in its place is not hurt.
TEST_F(IbDivert, after_its_event) {
  connect();
  RxSlot* slot = begin();
  ASSERT_NE(slot, nullptr);
  raw.write(ack.message.sink, 4, 300'000);
  raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
  pass();
  EXPECT_EQ(end.received.size(), 1u);
  end.lnd->divert(*slot, now);
  for (unsigned i = 0; i < kDepth; ++i) {
    ASSERT_NE(begin(), nullptr);
    raw.write(ack.message.sink, 4, 300'000);
    raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
    pass();
  }
  EXPECT_EQ(end.received.size(), kDepth + 1u);
  EXPECT_TRUE(end.broken_receives.empty());
}

// Goal: a queue pair with little room. Keys alone never fill it: the device reports none of them, so nothing would make
// room for the PUT_ACK behind them.
TEST_F(IbScript, keys_leave_room_for_a_message) {
  if (kOverRoce) GTEST_SKIP() << "keys take no room there";
  net.rules.work_max = 4;
  connect();
  for (uint64_t bits = 4; bits < 8; ++bits) raw.send_put_req(bits, 10'000, bits);
  const auto& qp = static_cast<const rc::sim::SimQp&>(*end.conns.begin()->second.conn->qp);
  unsigned fullest = 0;
  for (unsigned i = 0; i < 20; ++i) {
    pass(1ms);
    unsigned keys = 0;
    for (const rc::sim::Op& op : qp.ops) keys += op.kind == rc::sim::OpKind::kKeyOpen;
    fullest = std::max(fullest, keys);
  }
  EXPECT_EQ(fullest, 3u);
  EXPECT_EQ(raw.came.size(), 4u);
  for (uint64_t bits = 4; bits < 8; ++bits) {
    const Came one = raw.next();
    raw.write(one.message.sink, bits, 10'000);
    raw.send_completion(MessageType::kPutDone, one.message.sink_cookie, 10'000);
    pass();
  }
  EXPECT_EQ(end.received.size(), 4u);
}

}  // namespace
}  // namespace ulnet::test
