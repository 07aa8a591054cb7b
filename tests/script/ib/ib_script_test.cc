// The worker half of o2iblnd against a peer that a test plays, message by message (docs/wire/o2iblnd.md §4, §5).
#include "tests/script/ib/ib_script.h"

#include <cstring>

namespace ulnet::test {
namespace {

using namespace o2iblnd;

TEST_F(IbScript, a_small_put_is_an_immediate) {
  IbTx& tx = end.put(1, 77, kImmediateMax);
  pass();
  const Came came = raw.next();
  EXPECT_EQ(came.message.type, MessageType::kImmediate);
  EXPECT_EQ(came.bytes.size(), kMessageMax);
  EXPECT_EQ(came.message.credits, 0u);
  EXPECT_EQ(std::memcmp(came.message.payload.data(), ib_payload(77), kImmediateMax), 0);
  EXPECT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
}

TEST_F(IbScript, a_large_put_begins_with_a_request) {
  connect();
  IbTx& tx = end.put(1, 5, 1 << 20);
  pass();
  const Came ask = raw.next();
  ASSERT_EQ(ask.message.type, MessageType::kPutReq);
  EXPECT_EQ(ask.message.header.payload_length, 1u << 20);
  EXPECT_FALSE(tx.done);
  const auto fragments = raw.open(1 << 20);
  raw.send_put_ack(ask.message.cookie, 4242, fragments);
  pass(200ms);
  const Came done = raw.next();
  ASSERT_EQ(done.message.type, MessageType::kPutDone);
  EXPECT_EQ(done.message.cookie, 4242u);
  EXPECT_EQ(done.message.status, 1 << 20);
  EXPECT_EQ(raw.written(fragments), payload(5, 1 << 20));
  EXPECT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
}

TEST_F(IbScript, a_put_into_many_fragments) {
  connect();
  IbTx& tx = end.put(1, 6, 100'000);
  pass();
  const Came ask = raw.next();
  const auto fragments = raw.open_all(100'000, 4000);
  ASSERT_EQ(fragments.size(), 25u);
  raw.send_put_ack(ask.message.cookie, 1, fragments);
  pass();
  EXPECT_EQ(raw.next().message.status, 100'000);
  EXPECT_EQ(raw.written(fragments), payload(6, 100'000));
  EXPECT_TRUE(tx.done);
}

// Goal: more writes than the queue pair has room for.
TEST_F(IbScript, a_put_into_more_fragments_than_there_is_room) {
  for (const uint32_t work : {48u, 4u}) {
    SCOPED_TRACE(work);
    if (raw.qp != nullptr) raw.broken(*raw.qp, rc::Cause::kClosed, now);
    pass();
    raw.came.clear();
    net.rules.work_max = work;
    connect();
    IbTx& tx = end.put(1, 6, 240'000);
    pass();
    const Came ask = raw.next();
    const auto fragments = raw.open_all(240'000, 4000);
    ASSERT_EQ(fragments.size(), 60u);
    raw.send_put_ack(ask.message.cookie, 1, fragments);
    pass(1s);
    EXPECT_EQ(raw.next().message.status, 240'000);
    EXPECT_EQ(raw.written(fragments), payload(6, 240'000));
    EXPECT_TRUE(tx.done);
  }
}

// Goal: the peer has room for a part of the payload.
TEST_F(IbScript, a_put_into_a_smaller_sink) {
  connect();
  IbTx& tx = end.put(1, 6, 100'000);
  pass();
  const Came ask = raw.next();
  const auto fragments = raw.open(5000);
  raw.send_put_ack(ask.message.cookie, 1, fragments);
  pass();
  EXPECT_EQ(raw.next().message.status, 5000);
  EXPECT_EQ(raw.written(fragments), payload(6, 5000));
  EXPECT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
}

TEST_F(IbScript, a_put_that_is_refused) {
  connect();
  for (const int32_t status : {0, -ENOENT}) {
    IbTx& tx = end.put(1, 6, 100'000);
    pass();
    raw.send_completion(MessageType::kPutNak, raw.next().message.cookie, status, 1);
    pass();
    ASSERT_TRUE(tx.done);
    EXPECT_EQ(tx.how.error, status);
    EXPECT_EQ(tx.how.health, status == 0 ? LndStatus::kOk : LndStatus::kRemoteError);
  }
}

TEST_F(IbScript, a_large_get_offers_its_sink) {
  connect();
  IbTx& tx = end.get(1, 9, 200'000);
  pass();
  const Came ask = raw.next();
  ASSERT_EQ(ask.message.type, MessageType::kGetReq);
  EXPECT_EQ(ask.message.sink.bytes(), 200'000u);
  EXPECT_EQ(ask.message.sink.count(), 1u) << "its segments lie side by side";
  raw.write(ask.message.sink, 9, 150'000);
  raw.send_completion(MessageType::kGetDone, ask.message.cookie, 150'000, 1);
  pass();
  ASSERT_TRUE(tx.done && tx.answered);
  EXPECT_EQ(tx.got, 150'000u);
  EXPECT_EQ(tx.get_error, 0);
}

TEST_F(IbScript, a_get_that_is_refused) {
  connect();
  IbTx& tx = end.get(1, 9, 200'000);
  pass();
  raw.send_completion(MessageType::kGetDone, raw.next().message.cookie, -ENOENT, 1);
  pass();
  ASSERT_TRUE(tx.done && tx.answered);
  EXPECT_EQ(tx.get_error, -ENOENT);
}

// Goal: a small sink, and a GET without one, go as messages.
TEST_F(IbScript, a_small_get_is_an_immediate) {
  connect();
  for (const bool sink : {true, false}) {
    IbTx& tx = end.get(1, 9, sink ? uint32_t(kImmediateMax) : 1 << 20, sink);
    pass();
    const Came came = raw.next();
    EXPECT_EQ(came.message.type, MessageType::kImmediate);
    EXPECT_EQ(came.message.header.type, wire::MsgType::kGet);
    EXPECT_TRUE(tx.done && !tx.answered);
  }
}

TEST_F(IbScript, puts_of_the_peer) {
  connect();
  raw.send_immediate(3, 1000);
  raw.send_put_req(4, 300'000, 8888);
  pass();
  EXPECT_EQ(end.received, std::vector<uint64_t>{3});
  const Came ack = raw.next();
  ASSERT_EQ(ack.message.type, MessageType::kPutAck);
  EXPECT_EQ(ack.message.cookie, 8888u);
  EXPECT_EQ(ack.message.sink.bytes(), 300'000u);
  raw.write(ack.message.sink, 4, 300'000);
  raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
  pass();
  EXPECT_EQ(end.received, (std::vector<uint64_t>{3, 4}));
}

TEST_F(IbScript, a_put_without_room) {
  connect();
  end.into_limit = 0;
  raw.send_put_req(4, 300'000, 8888);
  pass();
  const Came nak = raw.next();
  ASSERT_EQ(nak.message.type, MessageType::kPutNak);
  EXPECT_EQ(nak.message.cookie, 8888u);
  EXPECT_EQ(nak.message.status, 0);
}

// Goal: the window lies in two regions, so that no key covers it. There is one block of staging memory, which several
// PUTs use one after the other.
TEST_F(IbScript, puts_into_memory_that_no_key_covers) {
  connect();
  end.into_region = kOtherRegion;
  for (uint64_t bits = 4; bits < 7; ++bits) raw.send_put_req(bits, 300'000, 1000 + bits);
  pass();
  for (uint64_t bits = 4; bits < 7; ++bits) {
    ASSERT_EQ(raw.came.size(), 1u) << "the block is in use";
    const Came ack = raw.next();
    EXPECT_EQ(ack.message.cookie, 1000 + bits);
    EXPECT_EQ(ack.message.sink.count(), 1u);
    raw.write(ack.message.sink, bits, 300'000);
    raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
    pass();
  }
  EXPECT_EQ(end.received, (std::vector<uint64_t>{4, 5, 6}));
}

// Goal: without staging memory, both sides learn that nothing came.
TEST(IbStaging, none) {
  IbNet net(5);
  IbEnd end(net, 0, {}, 0);
  RawPeer raw(net);
  Instant now = kNever + 1s;
  const auto pass = [&] {
    for (const Instant until = now + 50ms; now < until; now += kStep) raw.turn(now), end.turn(now);
  };
  end.into_region = kOtherRegion;
  raw.dial(0, now);
  pass();
  raw.send_put_req(4, 300'000, 8888);
  pass();
  EXPECT_EQ(raw.next().message.status, -EFAULT);
  ASSERT_EQ(end.broken_receives.size(), 1u);
  EXPECT_EQ(end.broken_receives[0].second.error, -EFAULT);
  ASSERT_NE(raw.qp, nullptr);
  raw.broken(*raw.qp, rc::Cause::kClosed, now);
  pass();
}

// Goal: an answer to a request that has ended does not end the request in its place.
TEST_F(IbScript, an_answer_that_comes_too_late) {
  connect();
  end.put(1, 6, 100'000);
  pass();
  const uint64_t old = raw.next().message.cookie;
  raw.send_completion(MessageType::kPutNak, old, 0, 1);
  pass();
  IbTx& tx = end.put(1, 7, 100'000);
  pass();
  EXPECT_NE(raw.next().message.cookie, old);
  raw.send_completion(MessageType::kPutNak, old, 0);
  pass();
  EXPECT_EQ(raw.qp, nullptr);
  EXPECT_EQ(tx.how.error, -EPROTO);
}

TEST_F(IbScript, a_put_that_the_peer_gives_up) {
  connect();
  raw.send_put_req(4, 300'000, 8888);
  pass();
  raw.send_completion(MessageType::kPutDone, raw.next().message.sink_cookie, -EIO);
  pass();
  ASSERT_EQ(end.broken_receives.size(), 1u);
  EXPECT_EQ(end.broken_receives[0].second.error, -EIO);
  EXPECT_EQ(end.broken_receives[0].second.health, LndStatus::kRemoteError);
}

TEST_F(IbScript, gets_of_the_peer) {
  connect();
  constexpr uint64_t kBits = 200;  // 200,000 bytes
  for (const uint32_t piece : {1u << 20, 7000u}) {
    SCOPED_TRACE(piece);
    const auto fragments = raw.open_all(200'000, piece);
    raw.send_get_req(kBits, 200'000, 31, fragments);
    pass();
    const Came done = raw.next();
    ASSERT_EQ(done.message.type, MessageType::kGetDone);
    EXPECT_EQ(done.message.cookie, 31u);
    EXPECT_EQ(done.message.status, 200'000);
    EXPECT_EQ(raw.written(fragments), payload(kBits, 200'000));
    ASSERT_EQ(raw.worker().key_close(*raw.qp, raw.key), rc::Posted::kYes);
    pass();
  }
}

TEST_F(IbScript, a_get_without_a_match) {
  connect();
  end.on_header = [](RxSlot&) { return RxVerdict::kRefused; };
  raw.send_get_req(200, 200'000, 31, raw.open(200'000));
  pass();
  const Came done = raw.next();
  ASSERT_EQ(done.message.type, MessageType::kGetDone);
  EXPECT_EQ(done.message.status, -ENOENT);
}

// Goal: a router that is short of buffers holds a PUT_REQ. The peer gets its PUT_ACK, and its credit, later.
TEST_F(IbScript, a_put_that_is_held) {
  connect();
  end.on_header = [](RxSlot&) { return RxVerdict::kHold; };
  raw.send_put_req(4, 300'000, 1);
  pass(10s);
  EXPECT_TRUE(raw.came.empty());
  ASSERT_EQ(end.held.size(), 1u);
  end.resume(*end.held[0], RxVerdict::kReceive);
  pass();
  const Came ack = raw.next();
  ASSERT_EQ(ack.message.type, MessageType::kPutAck);
  raw.write(ack.message.sink, 4, 300'000);
  raw.send_completion(MessageType::kPutDone, ack.message.sink_cookie, 300'000);
  pass();
  EXPECT_EQ(end.received, std::vector<uint64_t>{4});
}

// --- Credits ---------------------------------------------------------------------------------------------------------

TEST_F(IbScript, no_more_messages_than_credits) {
  connect();
  for (unsigned i = 0; i < 12; ++i) end.put(1, 100 + i, 10);
  pass();
  EXPECT_EQ(raw.came.size(), size_t{kDepth});
  raw.send_noop(3);
  pass();
  EXPECT_EQ(raw.came.size(), size_t{kDepth} + 3);
  raw.send_noop(8);
  pass();
  EXPECT_EQ(raw.came.size(), 12u);
}

TEST_F(IbScript, noops_return_credits_at_high_water) {
  connect();
  for (unsigned round = 0; round < 5; ++round) {
    for (unsigned i = 0; i < 3; ++i) raw.send_immediate(10 + i, 10);
    pass();
    EXPECT_TRUE(raw.came.empty());
    raw.send_immediate(13, 10);
    pass();
    const Came noop = raw.next();
    EXPECT_EQ(noop.message.type, MessageType::kNoop);
    EXPECT_EQ(noop.message.credits, 4u);
  }
}

TEST_F(IbScript, credits_travel_with_any_message) {
  connect();
  for (unsigned i = 0; i < 3; ++i) raw.send_immediate(10 + i, 10);
  pass();
  end.put(1, 50, 10);
  pass();
  EXPECT_EQ(raw.next().message.credits, 3u);
}

// Goal: the credit of a message that the core holds, or has taken along, comes back when the core is through with it.
TEST_F(IbScript, the_credit_of_a_message_that_the_core_keeps) {
  connect();
  for (const RxVerdict verdict : {RxVerdict::kHold, RxVerdict::kTaken}) {
    end.on_header = [verdict](RxSlot&) { return verdict; };
    for (unsigned i = 0; i < 8; ++i) raw.send_immediate(10 + i, 10);
    pass(1s);
    EXPECT_TRUE(raw.came.empty());
    while (!end.held.empty()) end.resume(*end.held.front(), RxVerdict::kReceive);
    while (!end.taken.empty()) end.release(*end.taken.front());
    pass();
    unsigned credits = 0;
    while (!raw.came.empty()) credits += raw.next().message.credits;
    EXPECT_EQ(credits, 8u);
  }
}

TEST_F(IbScript, a_keepalive_after_a_long_silence) {
  connect();
  pass(90s);
  EXPECT_TRUE(raw.came.empty());
  pass(20s);
  EXPECT_EQ(raw.next().message.type, MessageType::kNoop);
  EXPECT_TRUE(raw.came.empty());
}

// Goal: the peer dials, and sends before this side has heard that the connection is established.
TEST_F(IbScript, messages_that_come_early) {
  raw.dial(0, now);
  for (unsigned i = 0; i < 200 && !raw.established; ++i, now += 1ms) {
    raw.turn(now);
    end.turn(now);
  }
  ASSERT_TRUE(raw.established);
  for (auto& [id, conn] : end.conns) ASSERT_FALSE(conn.up);
  raw.send_immediate(3, 100);
  raw.send_immediate(4, 100);
  raw.worker().flush(now);
  for (unsigned i = 0; i < 5; ++i) end.lnd->poll(64, now += 1ms);
  EXPECT_TRUE(end.received.empty());
  pass();
  EXPECT_EQ(end.received, (std::vector<uint64_t>{3, 4}));
}

// --- Time, and the end -----------------------------------------------------------------------------------------------

TEST_F(IbScript, a_peer_that_does_not_answer) {
  connect();
  IbTx& put = end.put(1, 6, 100'000);
  IbTx& get = end.get(1, 7, 100'000);
  pass(40s);
  EXPECT_FALSE(put.done || get.done);
  pass(20s);
  ASSERT_TRUE(put.done && get.done);
  EXPECT_EQ(put.how.error, -ETIMEDOUT);
  EXPECT_EQ(put.how.health, LndStatus::kRemoteDropped) << "it cannot have the message: send it again";
  EXPECT_EQ(get.how.health, LndStatus::kRemoteError) << "it may have served the GET";
}

TEST_F(IbScript, a_peer_that_returns_no_credits) {
  connect();
  for (unsigned i = 0; i < kDepth; ++i) end.put(1, 100 + i, 10);
  pass();
  IbTx& late = end.put(1, 200, 10);
  raw.accepts = false;
  pass(40s);
  EXPECT_FALSE(late.done);
  pass(25s);
  ASSERT_TRUE(late.done) << "no connection any more, and no other comes about";
  EXPECT_EQ(late.how.health, LndStatus::kNetworkTimeout);
}

TEST_F(IbScript, a_peer_that_does_not_write) {
  connect();
  raw.send_put_req(4, 300'000, 8888);
  pass(60s);
  EXPECT_EQ(raw.qp, nullptr);
  ASSERT_EQ(end.broken_receives.size(), 1u);
  EXPECT_EQ(end.broken_receives[0].second.error, -ETIMEDOUT);
}

TEST_F(IbScript, cancel) {
  connect();
  raw.accepts = false;
  for (unsigned i = 0; i < kDepth; ++i) end.put(1, 100 + i, 10);
  pass();
  IbTx& queued = end.put(1, 200, 10);
  end.lnd->cancel(queued, false, now);
  ASSERT_TRUE(queued.done);
  EXPECT_EQ(queued.how.error, -ECANCELED);
  EXPECT_EQ(queued.how.health, LndStatus::kOk);
  raw.send_noop(8);
  pass();
  IbTx& begun = end.put(1, 6, 100'000);
  pass();
  end.lnd->cancel(begun, false, now);
  pass();
  EXPECT_FALSE(begun.done);
  EXPECT_NE(raw.qp, nullptr);
  end.lnd->cancel(begun, true, now);
  EXPECT_FALSE(begun.done) << "the queue pair has not drained yet";
  pass();
  EXPECT_TRUE(begun.done);
  EXPECT_EQ(raw.qp, nullptr);
}

// Goal: there is no room for another peer. Messages to it fail, and its connection ends.
TEST(IbPeers, no_room) {
  IbNet net(5);
  IbEnd end(net, 0, {.peers_max = 1});
  RawPeer raw(net);
  Instant now = kNever + 1s;
  const auto pass = [&] {
    for (const Instant until = now + 50ms; now < until; now += kStep) raw.turn(now), end.turn(now);
  };
  IbTx& first = end.put(2, 2, 10);  // nobody is there: it waits
  IbTx& second = end.put(1, 1, 10);
  ASSERT_TRUE(second.done);
  EXPECT_EQ(second.how.error, -ENOBUFS);
  raw.dial(0, now);
  pass();
  EXPECT_EQ(raw.connections, 1u);
  EXPECT_EQ(raw.qp, nullptr);
  EXPECT_FALSE(first.done);
  for (unsigned i = 0; i < 100; ++i) pass();
  EXPECT_TRUE(first.done);
  EXPECT_TRUE(end.idle());
}

// Goal: the core takes its memory back. As long as the peer has no key, nobody else is hurt.
TEST_F(IbScript, divert) {
  connect();
  end.into_region = kOtherRegion;
  raw.send_put_req(4, 300'000, 1);
  raw.send_put_req(5, 300'000, 2);  // waits for the only block
  pass();
  const Came ack = raw.next();
  RxSlot* waits = nullptr;
  for (auto& [slot, rx] : end.receiving)
    if (slot->header.put().match_bits == 5) waits = slot;
  ASSERT_NE(waits, nullptr);
  end.lnd->divert(*waits, now);
  ASSERT_EQ(end.broken_receives.size(), 1u);
  EXPECT_EQ(end.broken_receives[0].second.error, -ECANCELED);
  pass();
  EXPECT_EQ(raw.next().message.status, -ECANCELED);
  EXPECT_NE(raw.qp, nullptr);
  end.lnd->divert(*end.receiving.begin()->first, now);
  EXPECT_EQ(end.broken_receives.size(), 1u) << "the peer may still write";
  pass();
  ASSERT_EQ(end.broken_receives.size(), 2u);
  EXPECT_EQ(end.broken_receives[1].second.error, -ECANCELED);
  EXPECT_EQ(end.broken_receives[1].second.health, LndStatus::kOk);
}

// Goal: bytes that wait to be acknowledged are noticed, also those of writes.
TEST_F(IbScript, moved) {
  const PeerNiId peer{kPeerNi.value + 1};
  EXPECT_EQ(end.lnd->moved(NiId{1}, peer, now), kNever);
  connect();
  EXPECT_EQ(end.lnd->moved(NiId{1}, peer, now), now) << "nothing waits";
  net.cut(ib_address(0), ib_address(1));
  end.put(1, 5, 10);
  end.turn(now);
  const Instant before = now;
  pass(500ms);
  EXPECT_LE(end.lnd->moved(NiId{1}, peer, now), before);
  net.cut(ib_address(0), ib_address(1), false);
}

// Goal: a PUT_REQ that the peer has and does not answer counts as well.
TEST_F(IbScript, moved_without_an_answer) {
  connect();
  end.put(1, 5, 100'000);
  pass();
  EXPECT_EQ(raw.next().message.type, MessageType::kPutReq);
  const Instant before = now;
  pass(500ms);
  EXPECT_LE(end.lnd->moved(NiId{1}, PeerNiId{kPeerNi.value + 1}, now), before);
}

// Goal: a message that the core takes back can go over another path.
TEST_F(IbScript, a_request_that_is_taken_back) {
  connect();
  IbTx& tx = end.put(1, 5, 100'000);
  pass();
  end.lnd->cancel(tx, true, now);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, -EHOSTUNREACH);
  EXPECT_EQ(tx.how.health, LndStatus::kRemoteDropped);
}

TEST_F(IbScript, a_late_request_that_is_taken_back) {
  connect();
  IbTx& tx = end.put(1, 5, 100'000);
  pass();
  tx.deadline = now;
  end.lnd->cancel(tx, true, now);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, -ETIMEDOUT);
  EXPECT_EQ(tx.how.health, LndStatus::kNetworkTimeout);
}

TEST_F(IbScript, an_ni_that_stops) {
  raw.accepts = false;
  IbTx& waiting = end.put(1, 1, 10);
  Owed answer;
  end.lnd->from_control(NiFlushMsg{NiId{1}, &answer}, now);
  ASSERT_TRUE(waiting.done);
  EXPECT_EQ(waiting.how.error, -ESHUTDOWN);
  EXPECT_EQ(waiting.how.health, LndStatus::kLocalAborted);
}

// Goal: the peer closes while this side writes, receives and serves. Each message ends, with the status of what the
// peer may have.
TEST_F(IbScript, the_peer_closes) {
  connect();
  end.on_header = [](RxSlot& slot) { return slot.token != 0 ? RxVerdict::kReceive : RxVerdict::kHold; };
  end.reply_at_once = false;
  IbTx& asked = end.put(1, 6, 100'000);
  pass();
  raw.send_immediate(3, 100);
  raw.send_put_req(4, 300'000, 1);
  raw.send_get_req(200, 200'000, 2, raw.open(200'000));
  pass();
  ASSERT_EQ(end.held.size(), 2u);
  ASSERT_EQ(end.owed_tokens.size(), 1u);
  raw.accepts = false;
  raw.broken(*raw.qp, rc::Cause::kClosed, now);
  pass();
  ASSERT_TRUE(asked.done);
  EXPECT_EQ(asked.how.error, -ECONNRESET);
  EXPECT_EQ(asked.how.health, LndStatus::kRemoteDropped);
  EXPECT_FALSE(end.lnd->idle()) << "the core holds two slots, and owes a REPLY";
  while (!end.held.empty()) end.resume(*end.held.front(), RxVerdict::kReceive);
  EXPECT_EQ(end.received, std::vector<uint64_t>{3}) << "its payload had come";
  EXPECT_EQ(end.broken_receives.size(), 1u);
  end.reply(end.owed_tokens.front());
  EXPECT_TRUE(end.txs.back().done);
  EXPECT_EQ(end.txs.back().how.health, LndStatus::kRemoteError);
}

}  // namespace
}  // namespace ulnet::test
