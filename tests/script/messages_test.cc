// One connection after HELLO, against raw bytes: framing, holds, diverts, zero-copy acks, checksums, keepalive, errors.
// Source: docs/wire/socklnd.md §3, §7.
#include <gtest/gtest.h>

#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.2@tcp";
constexpr const char* kOther = "10.0.0.254@tcp";

/// A node that a foreign peer has dialled: one connection, up.
struct Up {
  explicit Up(uint32_t version = 3, uint32_t ctype = 1, SockNodeOptions options = {}, const SimTcpOptions& tcp = {})
      : rig(tcp) {
    options.nids = {kUs};
    node = &rig.add(options);
    peer = &rig.foreign("10.0.0.254");
    peer->dial("10.0.0.2");
    peer->send(raw_request(kUs) + raw_hello(version, kOther, kUs, ctype));
    run(100ms);
    EXPECT_EQ(peer->in.size(), version == 1 ? 72u : 56u);
    peer->in.clear();
    EXPECT_EQ(node->take_trace(), "up 10.0.0.254@tcp");
  }
  void run(Duration span = 100ms) { rig.run_for(span); }
  void say(const Bytes& bytes, Duration span = 100ms) {
    peer->send(bytes);
    run(span);
  }
  SockRig rig;
  SockNode* node;
  RawPeer* peer;
};

uint64_t u64_at(const Bytes& bytes, size_t offset) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, 8);
  return value;
}

TEST(SockMessages, payloads_of_all_sizes_arrive_in_their_place) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Up t(3, 1, {}, {.seed = seed});
    uint64_t number = 1;
    for (const uint32_t bytes : {0u, 1u, 95u, 4096u, 16383u, 16385u, 32767u, 32768u, 32769u, 70000u, 1u << 20, 0u, 3u})
      t.peer->send(raw_put(3, kOther, kUs, number++, bytes));
    ASSERT_TRUE(t.rig.run_until([&] { return t.node->received.size() == 13; }, 10s)) << seed;
    for (const Received& got : t.node->received) {
      EXPECT_EQ(got.payload.size(), got.header.payload_length);
      EXPECT_TRUE(payload_right(got));
      EXPECT_EQ(got.how.error, 0);
    }
    EXPECT_TRUE(t.rig.shut_down());
  }
}

// Goal: a message completes when its own bytes have gone, even if the engine reports a send only after all of it. The
// first message does not wait until the last one has room in the socket.
// Method: 8 MiB to a peer that reads none of it; the buffers of both sides take 2 MiB.
TEST(SockMessages, the_first_of_many_does_not_wait_for_the_last) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SockRig rig({.seed = seed, .send_buffer = 1 << 20, .receive_buffer = 1 << 20});
    SockNode& us = rig.add({.nids = {"10.0.0.1@tcp"}, .config = {.zc_min_payload = 0}});
    SockNode& them = rig.add({.nids = {"10.0.0.3@tcp"}});
    us.put("10.0.0.3@tcp", 5000);
    ASSERT_TRUE(rig.run_until([&] { return us.unfinished() == 0 && them.received.size() == 1; }, 10s));
    them.on_header = [](FakeCore&, RxSlot&) { return RxVerdict::kHold; };
    us.one_segment = true;
    for (int i = 0; i < 32; ++i) us.put("10.0.0.3@tcp", 256 << 10);
    EXPECT_TRUE(rig.run_until([&] { return us.txs[1].done == 1; }, 10s)) << seed;
    EXPECT_EQ(us.txs.back().done, 0u) << "all of it fitted: the test says nothing";
    EXPECT_TRUE(rig.shut_down());
  }
}

TEST(SockMessages, an_unwanted_rest_of_a_payload_is_discarded) {
  Up t;
  t.node->on_header = [](FakeCore& core, RxSlot& slot) {
    core.make_room(slot, slot.header.payload_length / 3);
    return RxVerdict::kReceive;
  };
  for (uint64_t i = 1; i <= 20; ++i) t.peer->send(raw_put(3, kOther, kUs, i, uint32_t(i * 7777), 0));
  t.run(1s);
  ASSERT_EQ(t.node->received.size(), 20u);
  for (const Received& got : t.node->received) {
    EXPECT_EQ(got.payload.size(), got.header.payload_length / 3);
    EXPECT_TRUE(payload_right(got));
  }
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockMessages, held_connection_reads_no_further) {
  Up t;
  t.node->on_header = [](FakeCore&, RxSlot&) { return RxVerdict::kHold; };
  t.say(raw_put(3, kOther, kUs, 1, 50000) + raw_put(3, kOther, kUs, 2, 10));
  ASSERT_EQ(t.node->cores[0]->held.size(), 1u);
  EXPECT_EQ(t.node->take_trace(), "");
  t.run(200s);  // no time-out while held
  t.node->on_header = nullptr;
  t.node->resume(0, RxVerdict::kReceive, 100);
  t.run();
  EXPECT_EQ(t.node->take_trace(), "rx PUT 1 ok; rx PUT 2 ok");
  EXPECT_TRUE(payload_right(t.node->received[0]));
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockMessages, held_then_refused_closes) {
  Up t;
  t.node->on_header = [](FakeCore&, RxSlot&) { return RxVerdict::kHold; };
  t.say(raw_put(3, kOther, kUs, 1, 10));
  t.node->resume(0, RxVerdict::kProtocolError);
  t.run();
  EXPECT_NE(t.peer->end, RawPeer::End::kOpen);
  EXPECT_EQ(t.node->take_trace(), "down 10.0.0.254@tcp EPROTO/OK");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockMessages, connection_that_breaks_while_held_ends_with_resume) {
  for (const RxVerdict verdict : {RxVerdict::kReceive, RxVerdict::kProtocolError}) {
    Up t;
    t.node->on_header = [](FakeCore&, RxSlot&) { return RxVerdict::kHold; };
    t.say(raw_put(3, kOther, kUs, 1, 10));
    t.node->put(kOther, 3000000 / 3);  // does not fit into the peer's window
    t.rig.tcp.reset_between(ip("10.0.0.2"), ip("10.0.0.254"));
    t.run();
    EXPECT_EQ(t.node->cores[0]->held.size(), 1u);
    EXPECT_FALSE(t.node->cores[0]->lnd->idle());
    t.node->resume(0, verdict);
    t.run();
    EXPECT_TRUE(t.node->cores[0]->lnd->idle());
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockMessages, divert_gives_memory_back_and_discards) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Up t(3, 3, {}, {.seed = seed, .delay = 1ms});
    const Bytes message = raw_put(3, kOther, kUs, 1, 200000, 2);
    t.say(Bytes(message.begin(), message.begin() + 60000), 20ms);
    FakeCore& core = *t.node->cores[0];
    ASSERT_EQ(core.receiving.size(), 1u);
    RxSlot* slot = core.receiving.begin()->first;
    core.lnd->divert(*slot, t.rig.now);
    core.lnd->divert(*slot, t.rig.now);  // twice is once
    t.run(20ms);
    EXPECT_EQ(t.node->take_trace(), "rx PUT 1 ECANCELED/OK");
    t.say(Bytes(message.begin() + 60000, message.end()) + raw_put(3, kOther, kUs, 2, 10));
    EXPECT_EQ(t.node->take_trace(), "rx PUT 2 ok");
    EXPECT_EQ(t.peer->in, raw_noop(0, 2));  // acknowledged in spite of the divert: the node has received all of it
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockMessages, connection_that_breaks_inside_a_payload) {
  for (const bool fin : {false, true}) {
    Up t;
    const Bytes message = raw_put(3, kOther, kUs, 1, 200000);
    t.say(Bytes(message.begin(), message.begin() + 100000));
    if (fin) {
      t.peer->close();
    } else {
      t.rig.tcp.reset_between(ip("10.0.0.2"), ip("10.0.0.254"));
    }
    t.run();
    EXPECT_EQ(t.node->take_trace(), "rx PUT 1 ECONNRESET/REMOTE_ERROR; down 10.0.0.254@tcp ECONNRESET/OK");
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockMessages, end_between_messages_is_no_error) {
  Up t;
  t.say(raw_put(3, kOther, kUs, 1, 100));
  t.peer->close();
  t.run();
  EXPECT_EQ(t.node->take_trace(), "rx PUT 1 ok");
  EXPECT_TRUE(t.node->idle());
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockMessages, protocol_errors_close) {
  Bytes bad_lnet_type = raw_put(3, kOther, kUs, 1, 0);
  bad_lnet_type[24 + 24] = std::byte{9};
  Bytes bad_csum = raw_noop(0, 5);
  bad_csum[4] = std::byte{1};
  const Bytes cases[] = {
      hex_bytes("c7 00 00 00") + Bytes(20), bad_lnet_type, raw_noop(0, 5), raw_noop(1, 9), raw_noop(5, 1), bad_csum};
  for (const Bytes& bytes : cases) {
    Up t;
    t.say(bytes);
    EXPECT_EQ(t.peer->end, RawPeer::End::kFin);
    EXPECT_EQ(t.node->take_trace(), "down 10.0.0.254@tcp EPROTO/OK");
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockMessages, core_refusing_a_header_closes) {
  Up t;
  t.node->on_header = [](FakeCore&, RxSlot&) { return RxVerdict::kProtocolError; };
  t.say(raw_put(3, kOther, kUs, 1, 10));
  EXPECT_NE(t.peer->end, RawPeer::End::kOpen);
  EXPECT_EQ(t.node->take_trace(), "down 10.0.0.254@tcp EPROTO/OK");
}

// ---- checksums -----------------------------------------------------------------------------------------------------

TEST(SockCsum, is_verified_on_every_version_that_can_carry_it) {
  for (const uint32_t version : {2u, 3u}) {
    Up t(version);
    t.say(raw_put(version, kOther, kUs, 1, 100000, 0, 0, true) + raw_put(version, kOther, kUs, 2, 0, 0, 0, true));
    EXPECT_EQ(t.node->take_trace(), "rx PUT 1 ok; rx PUT 2 ok");
    Bytes wrong = raw_put(version, kOther, kUs, 3, 100000, 0, 0, true);
    wrong.back() ^= std::byte{1};
    t.say(wrong);
    EXPECT_EQ(t.node->take_trace(), "rx PUT 3 EIO/REMOTE_ERROR; down 10.0.0.254@tcp EIO/OK");
    EXPECT_NE(t.peer->end, RawPeer::End::kOpen);
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockCsum, is_made_on_v2_only) {
  for (const uint32_t version : {2u, 3u}) {
    SockNodeOptions options;
    options.config.enable_csum = true;
    Up t(version, 1, options);
    t.node->put(kOther, 5000);
    t.run();
    const Bytes expected = raw_put(version, kUs, kOther, 1, 5000, 0, 0, version == 2);
    EXPECT_EQ(t.peer->in, expected);
    EXPECT_TRUE(t.rig.shut_down());
  }
}

// ---- zero-copy acknowledgements ------------------------------------------------------------------------------------

TEST(SockZc, received_cookies_are_acknowledged_once_complete) {
  Up t(3, 3);  // the peer's BULK_OUT is our BULK_IN
  const Bytes message = raw_put(3, kOther, kUs, 1, 20000, 2);
  t.say(Bytes(message.begin(), message.end() - 1));
  EXPECT_TRUE(t.peer->in.empty());
  t.say(Bytes(message.end() - 1, message.end()));
  EXPECT_EQ(t.peer->take(24), raw_noop(0, 2));
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockZc, without_bulk_in_the_ack_goes_where_the_data_came) {
  Up t(3, 1);
  t.say(raw_put(3, kOther, kUs, 1, 20000, 7));
  EXPECT_EQ(t.peer->take(24), raw_noop(0, 7));
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockZc, queued_acks_merge_into_ranges) {
  SimTcpOptions tcp;
  tcp.random_segments = false;
  Up t(3, 3, {}, tcp);
  Bytes all;
  for (uint64_t cookie = 5; cookie <= 9; ++cookie) all = all + raw_put(3, kOther, kUs, cookie, 50, cookie);
  t.say(all);
  EXPECT_EQ(t.peer->in, raw_noop(5, 9));  // they came in one read
  EXPECT_TRUE(t.rig.shut_down());
}

SockNodeOptions with_cookies() {
  SockNodeOptions options;
  options.config.zc_min_payload = 16384;
  return options;
}

// The three forms of an ack, each for messages that wait for it. Cookies of a set start at 2.
TEST(SockZc, sender_waits_for_each_form_of_ack) {
  Up t(3, 1, with_cookies());
  for (int i = 0; i < 7; ++i) t.node->put(kOther, 16384);
  t.node->put(kOther, 16383);
  t.run();
  EXPECT_EQ(t.node->take_trace(), "tx 8 ok");
  for (uint64_t i = 0; i < 7; ++i) {
    const Bytes message = t.peer->take(24 + 72 + 16384);
    EXPECT_EQ(u64_at(message, 8), i + 2);
  }
  t.say(raw_noop(0, 3));
  EXPECT_EQ(t.node->take_trace(), "tx 2 ok");
  t.say(raw_noop(8, 2));
  EXPECT_EQ(t.node->take_trace(), "tx 7 ok; tx 1 ok");
  t.say(raw_noop(4, 6));
  EXPECT_EQ(t.node->take_trace(), "tx 3 ok; tx 4 ok; tx 5 ok");
  t.say(raw_put(3, kOther, kUs, 1, 10, 0, 7));  // piggyback
  EXPECT_EQ(t.node->take_trace(), "tx 6 ok; rx PUT 1 ok");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockZc, range_with_a_gap_is_a_protocol_error) {
  Up t(3, 1, with_cookies());
  for (int i = 0; i < 3; ++i) t.node->put(kOther, 20000);
  t.run();
  t.say(raw_noop(0, 3));
  EXPECT_EQ(t.node->take_trace(), "tx 2 ok");
  t.say(raw_noop(2, 4));
  EXPECT_EQ(t.node->take_trace(), "tx 1 EPROTO/LOCAL_ERROR; tx 3 EPROTO/LOCAL_ERROR; down 10.0.0.254@tcp EPROTO/OK");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockZc, missing_ack_closes_after_the_timeout) {
  Up t(3, 1, with_cookies());
  t.node->put(kOther, 20000);
  t.run(49s);
  EXPECT_EQ(t.node->take_trace(), "");
  t.run(14s);
  EXPECT_EQ(t.node->take_trace(), "tx 1 ETIMEDOUT/NETWORK_TIMEOUT; down 10.0.0.254@tcp ETIMEDOUT/OK");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockZc, full_book_sends_without_cookies) {
  SockNodeOptions options = with_cookies();
  options.config.zc_outstanding_max = 2;
  Up t(3, 1, options);
  for (int i = 0; i < 3; ++i) t.node->put(kOther, 16384);
  t.run();
  EXPECT_EQ(t.node->take_trace(), "tx 3 ok");
  t.say(raw_noop(2, 3));
  EXPECT_EQ(t.node->take_trace(), "tx 1 ok; tx 2 ok");
  EXPECT_TRUE(t.rig.shut_down());
}

// ---- keepalive and time-outs ---------------------------------------------------------------------------------------

TEST(SockKeepalive, goes_out_on_bulk_in_after_30_s_of_silence) {
  Up t(3, 3);
  t.run(29s);
  EXPECT_TRUE(t.peer->in.empty());
  t.run(2s);
  EXPECT_EQ(t.peer->take(24), hex_bytes("c0000000 00000000 0000000000000000 0100000000000000"));
  t.run(10s);
  EXPECT_EQ(t.peer->take(48), raw_noop(0, 1));  // at most every 10 s
  t.say(raw_noop(0, 1));                        // the peer's own is ignored, but counts as life
  t.run(25s);
  EXPECT_TRUE(t.peer->in.empty());
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockKeepalive, none_on_v2_and_without_bulk_in) {
  Up two(2, 3);
  two.run(100s);
  EXPECT_TRUE(two.peer->in.empty());
  two.say(raw_noop(0, 1));  // on v2 that is an unknown cookie
  EXPECT_NE(two.peer->end, RawPeer::End::kOpen);
  Up control(3, 1);
  control.run(100s);
  EXPECT_TRUE(control.peer->in.empty());
}

TEST(SockTimeout, receive_that_stops_inside_a_message) {
  const Bytes message = raw_put(3, kOther, kUs, 1, 1000);
  for (const size_t bytes : {size_t{5}, size_t{50}, size_t{500}}) {
    Up t;
    t.say(Bytes(message.begin(), message.begin() + ptrdiff_t(bytes)), 49s);
    EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
    t.run(14s);
    EXPECT_EQ(t.peer->end, RawPeer::End::kFin);
    const std::string down = "down 10.0.0.254@tcp ETIMEDOUT/OK";
    EXPECT_EQ(t.node->take_trace(), bytes < 96 ? down : down + "; rx PUT 1 ETIMEDOUT/REMOTE_ERROR");
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockTimeout, idle_connection_is_left_alone) {
  Up t;
  t.say(raw_put(3, kOther, kUs, 1, 1000));
  t.run(1000s);
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
  EXPECT_TRUE(t.rig.shut_down());
}

// A peer whose machine is gone: new messages do not move the deadline of the first unacknowledged byte.
TEST(SockTimeout, silent_machine_is_found_though_messages_keep_coming) {
  SockNodeOptions options;
  options.tunables.timeout = 5s;
  Up t(3, 1, options);
  t.rig.tcp.silence(ip("10.0.0.254"), true);
  for (int i = 0; i < 4; ++i) {
    t.node->put(kOther, 0);
    t.run(1s);
  }
  EXPECT_EQ(t.node->take_trace(), "tx 1 ok; tx 2 ok; tx 3 ok; tx 4 ok");
  t.node->put(kOther, 1000000);
  t.run(2500ms);
  EXPECT_EQ(t.node->take_trace(), "down 10.0.0.254@tcp ETIMEDOUT/OK; tx 5 ETIMEDOUT/NETWORK_TIMEOUT");
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: TCP to a machine that answers nothing tries often, as long as nothing is acknowledged. The limit of its time to
// the next attempt never runs out: it moves on by each look.
TEST(SockTimeout, silent_machine_is_tried_often) {
  Up t(3, 1, {});  // 50 s
  const SimTcp::ResendLimit& limit = t.rig.tcp.resend_limit;
  t.node->put(kOther, 1000000);
  t.run(5s);
  EXPECT_EQ(limit.calls, 0u);
  t.rig.tcp.silence(ip("10.0.0.254"), true);
  t.node->put(kOther, 1000000);
  t.run(10s);
  EXPECT_GE(limit.calls, 20u);
  EXPECT_LE(limit.calls, 25u);
  EXPECT_GE(limit.stalled, 8s);
  const auto stalled = limit.stalled;
  t.run(500ms);
  EXPECT_GT(limit.stalled, stalled);
  EXPECT_LT(limit.stalled, stalled + limit.within);
  t.rig.tcp.silence(ip("10.0.0.254"), false);
  t.run(2s);
  EXPECT_EQ(limit.within, Duration{0}) << "bytes were acknowledged";
  const unsigned calls = limit.calls;
  t.run(10s);
  EXPECT_EQ(limit.calls, calls);
  EXPECT_TRUE(t.rig.shut_down());
}

// The time-out of a running NI holds for the connections that it has.
TEST(SockTimeout, running_ni_gets_another_time_out) {
  Up t(3, 1, {});  // 50 s
  t.rig.tcp.silence(ip("10.0.0.254"), true);
  ASSERT_TRUE(
      t.node->control->ni_tune({1}, socklnd::sock_tunable_numbers({.conns_per_peer = 1, .timeout = 5s}), t.rig.now));
  t.node->put(kOther, 1000000);
  t.run(4900ms);
  EXPECT_EQ(t.node->take_trace(), "");
  t.run(1500ms);
  EXPECT_EQ(t.node->take_trace(), "down 10.0.0.254@tcp ETIMEDOUT/OK; tx 1 ETIMEDOUT/NETWORK_TIMEOUT");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockTimeout, slow_peer_that_takes_a_little_now_and_then_is_kept) {
  SockNodeOptions options;
  options.tunables.timeout = 5s;
  SimTcpOptions tcp;
  tcp.bytes_per_second = 20000;
  Up t(3, 1, options, tcp);
  t.node->put(kOther, 16000);
  t.node->put(kOther, 10000);
  t.node->put(kOther, 16000);
  for (int i = 0; i < 20; ++i) t.node->put(kOther, 15000);
  t.run(30s);
  EXPECT_EQ(t.node->unfinished(), 0u);
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
  EXPECT_TRUE(t.rig.shut_down());
}

// ---- cancel --------------------------------------------------------------------------------------------------------

TEST(SockCancel, begun_or_not) {
  SimTcpOptions tcp;
  tcp.receive_buffer = tcp.send_buffer = 65536;
  tcp.bytes_per_second = 100000;
  Up t(3, 1, {}, tcp);
  TestTx& first = t.node->put(kOther, 1000000);
  TestTx& second = t.node->put(kOther, 100);
  t.run(10ms);
  FakeCore& core = *t.node->cores[0];
  core.lnd->cancel(second, false, t.rig.now);
  core.lnd->cancel(first, false, t.rig.now);
  EXPECT_EQ(t.node->take_trace(), t.node->txs[1].done == 1 ? "tx 2 ECANCELED/OK" : "");
  core.lnd->cancel(first, true, t.rig.now);
  t.run(20ms);
  EXPECT_EQ(t.node->unfinished(), 0u);
  EXPECT_EQ(first.how.health, LndStatus::kRemoteDropped) << "the peer cannot have it, so it may be sent again";
  t.run(2s);  // the reset is behind what was on its way
  EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: a message that expires before it is begun says so, wherever it waits; ECANCELED is for one that was recalled.
TEST(SockCancel, expired_before_it_was_begun) {
  SimTcpOptions tcp;
  tcp.receive_buffer = tcp.send_buffer = 65536;
  tcp.bytes_per_second = 100000;
  Up queued(3, 1, {}, tcp), waiting(3, 3), orphan;
  for (int i = 0; i < 40; ++i) queued.node->put(kOther, 100000);  // more than are begun at once
  queued.run(10ms);
  waiting.node->put(kOther, 100);          // the only connection is BULK_IN, which carries no messages of ours
  orphan.node->put("10.0.0.77@tcp", 100);  // control has not heard of it yet
  for (Up* t : {&queued, &waiting, &orphan}) {
    TestTx& expired = t->node->txs.back();
    ASSERT_EQ(expired.done, 0u);
    expired.deadline = t->rig.now;
    t->node->cores[0]->lnd->cancel(expired, true, t->rig.now);
    EXPECT_EQ(expired.how.error, -ETIMEDOUT);
    EXPECT_EQ(expired.how.health, LndStatus::kNetworkTimeout);
    EXPECT_TRUE(t->rig.shut_down());
  }
}

TEST(SockBatch, small_messages_of_one_turn_leave_in_few_sends) {
  SimTcpOptions tcp;
  tcp.random_segments = false;
  Up t(3, 1, {}, tcp);
  Bytes expected;
  for (uint64_t i = 1; i <= 40; ++i) {
    t.node->put(kOther, 20);
    expected = expected + raw_put(3, kUs, kOther, i, 20);
  }
  t.run();
  EXPECT_EQ(t.peer->in, expected);
  EXPECT_EQ(t.node->unfinished(), 0u);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockBatch, message_past_its_deadline_is_not_sent) {
  Up t;
  wire::Header header;
  header.src_nid = t.node->nids[0];
  header.type = wire::MsgType::kAck;
  TestTx& late = t.node->send(kOther, header);
  late.deadline = t.rig.now;
  t.run();
  EXPECT_EQ(t.node->take_trace(), "tx 1 ETIMEDOUT/NETWORK_TIMEOUT");
  EXPECT_TRUE(t.peer->in.empty());
}

TEST(SockBatch, large_nids_do_not_fit_a_v3_connection) {
  Up t;
  wire::Header header;
  header.src_nid = Nid::v6(t.node->nids[0].net(), {0xfd});
  header.type = wire::MsgType::kAck;
  t.node->send(kOther, header);
  t.run();
  EXPECT_EQ(t.node->take_trace(), "tx 1 EAFNOSUPPORT/OK");
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
}

}  // namespace
}  // namespace ulnet::test
