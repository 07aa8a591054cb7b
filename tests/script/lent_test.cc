// Payloads whose memory is lent to the transport: the message ends when the peer acknowledges its cookie. The simulated
// TCP reads such memory when the bytes leave, and the rig overwrites it when the message ends.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/nid_of.h"
#include "tests/script/once.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.1@tcp";
constexpr const char* kThem = "10.0.0.2@tcp";
constexpr const char* kForeign = "10.0.0.254@tcp";
constexpr Completion kUnacknowledged{-ESHUTDOWN, LndStatus::kLocalError};
constexpr uint32_t kLeast = 65536;

/// Two nodes with connections of each type; messages go from the first.
struct Pair {
  explicit Pair(const SimTcpOptions& tcp = {}, uint32_t least = kLeast, bool wired = false) : rig(tcp) {
    for (SockNode** node : {&us, &them}) {
      SockNodeOptions options{.nids = {node == &us ? kUs : kThem}};
      options.config.zc_min_payload = least;
      if (wired) options.devices = &devices;
      *node = &rig.add(options);
      (*node)->one_segment = true;
    }
    us->put(kThem, 0);
    us->put(kThem, least - 1);
    ended();
    EXPECT_EQ(rig.tcp.lent_bytes, 0u) << "nothing of it is large enough";
  }
  void ended() {
    ASSERT_TRUE(rig.run_until([&] { return us->unfinished() == 0; }, 100s));
  }
  /// Sends one payload. Returns how many bytes of it were lent.
  uint64_t lent_of(uint32_t bytes) {
    const uint64_t before = rig.tcp.lent_bytes;
    us->put(kThem, bytes);
    ended();
    return rig.tcp.lent_bytes - before;
  }
  /// Of several payloads, because the engine copies now and then.
  uint64_t lent_of_many(uint32_t bytes) {
    uint64_t lent = 0;
    for (int i = 0; i < 5; ++i) lent += lent_of(bytes);
    return lent;
  }
  void end() {
    for (const Received& got : them->received) EXPECT_TRUE(got.how.error == 0 && payload_right(got));
    EXPECT_TRUE(rig.shut_down());
  }
  WiredDevices devices;
  SockRig rig;
  SockNode *us, *them;
};

// Goal: by default, payloads of 256 KiB and more are lent, and smaller ones are copied.
TEST(SockLent, large_payloads_by_default) {
  Pair t({}, socklnd::SockConfig{}.zc_min_payload);
  EXPECT_EQ(t.lent_of_many((256 << 10) - 1), 0u);
  EXPECT_GE(t.lent_of_many(256 << 10), 256u << 10);
  t.end();
}

// Goal: a payload in small segments is copied: each segment would take a place in a pipe.
TEST(SockLent, a_payload_in_small_segments_is_copied) {
  constexpr uint32_t kBytes = 3 * socklnd::kLentSegmentMin;
  Pair t({}, kBytes);
  EXPECT_GT(t.lent_of_many(kBytes), 0u);
  t.us->one_segment = false;
  unsigned small = 0;
  for (int i = 0; i < 30; ++i) {
    const uint64_t lent = t.lent_of(kBytes);
    const size_t segments = t.us->txs.back().segments.size();
    EXPECT_TRUE(lent == 0 || segments <= 3) << segments;
    small += segments > 3;
  }
  EXPECT_GT(small, 2u) << "the segments were large: the test says nothing";
  t.end();
}

/// A node, and a foreign peer that has dialled it.
struct Dialled {
  explicit Dialled(const SimTcpOptions& tcp) : rig(tcp) {
    SockNodeOptions options{.nids = {kUs}};
    options.config.zc_min_payload = kLeast;
    us = &rig.add(options);
    us->one_segment = true;
    peer = &rig.foreign("10.0.0.254");
    peer->dial("10.0.0.1");
    peer->send(raw_request(kUs) + raw_hello(3, kForeign, kUs, 1));
    rig.run_for(100ms);
    peer->in.clear();
  }
  SockRig rig;
  SockNode* us;
  RawPeer* peer;
};

// Goal: an orderly end of a connection resets it if memory is lent, because the messages end before all bytes have
// left. No byte that the owner has written since reaches the peer. Without lent memory, the peer gets all bytes.
TEST(SockLent, no_byte_leaves_after_the_end_of_its_message) {
  unsigned cut_off = 0, waiting = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const bool lends = seed % 4 != 0;
    SCOPED_TRACE(testing::Message() << "seed " << seed << (lends ? ", lent" : ""));
    Dialled t({.seed = seed, .bytes_per_second = 50'000'000, .send_buffer = 1 << 20, .receive_buffer = 65536});
    Bytes expected;
    for (unsigned i = 1; i <= 4; ++i) {
      const uint32_t bytes = lends ? 200'000 : kLeast - 1;
      t.us->put(kForeign, bytes);
      expected = expected + raw_put(3, kUs, kForeign, i, bytes, lends ? i + 1 : 0);
    }
    t.rig.run_for(1ms + Duration(int64_t(t.rig.rng.below(lends ? 11'000'000 : 1'000'000))));
    const auto& txs = t.us->txs;
    t.us->stop();
    ASSERT_TRUE(t.rig.run_until([&] { return t.us->unfinished() == 0; }, 10s));
    t.rig.run_for(1s);
    for (const TestTx& tx : txs)
      waiting += tx.how.error == kUnacknowledged.error && tx.how.health == kUnacknowledged.health;
    const size_t got = t.peer->in.size();
    ASSERT_LE(got, expected.size());
    EXPECT_TRUE(std::equal(t.peer->in.begin(), t.peer->in.end(), expected.begin()));
    if (lends) {
      EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
      cut_off += got < expected.size();
    } else {
      EXPECT_EQ(t.peer->end, RawPeer::End::kFin);
      EXPECT_EQ(got, expected.size());
    }
    EXPECT_TRUE(t.rig.shut_down());
  }
  EXPECT_GT(cut_off, 20u);
  EXPECT_GT(waiting, 20u) << "no message was with the transport as a whole";
}

// Goal: a router on this machine may acknowledge pages before it has sent them. So it is lent nothing, unless the
// packets of the NI cross hardware.
TEST(SockLent, a_router_that_may_be_near_is_lent_nothing) {
  for (const bool wired : {true, false}) {
    SCOPED_TRACE(wired);
    Pair t({}, kLeast, wired);
    for (int i = 0; i < 5; ++i) {
      wire::Header header;
      header.dest_nid = tcp_nid("10.0.9.9");
      header.src_nid = t.us->nids[0];
      header.type = wire::MsgType::kPut;
      header.payload_length = kLeast;
      header.set(wire::PutBody{});
      t.us->send(kThem, header);
      t.ended();
    }
    EXPECT_EQ(t.rig.tcp.lent_bytes > 0, wired);
    EXPECT_GT(t.lent_of_many(kLeast), 0u) << "the peer itself";
    t.end();
  }
}

// Goal: a reset of ours drops what is in the socket, so a message there does not count as sent.
// Method: the connection ends after a plain message went to the socket and before that is reported. Memory is lent.
TEST(SockLent, a_plain_message_behind_lent_memory_is_lost_with_it) {
  for (const bool lends : {true, false}) {
    SCOPED_TRACE(lends);
    Dialled t({.random_segments = false, .bytes_per_second = 1'000'000, .send_buffer = 1 << 20});
    t.us->put(kForeign, lends ? 200'000 : kLeast - 1);
    t.rig.run_for(10ms);
    const TestTx& plain = t.us->put(kForeign, 1000);
    t.us->cores[0]->lnd->flush(t.rig.now);
    t.us->stop();
    ASSERT_TRUE(t.rig.run_until([&] { return t.us->unfinished() == 0; }, 10s));
    EXPECT_EQ(plain.how.error, lends ? -ESHUTDOWN : 0);
    EXPECT_FALSE(may_go_again(plain.how));
    t.rig.run_for(1s);
    EXPECT_EQ(t.peer->end, lends ? RawPeer::End::kReset : RawPeer::End::kFin);
    EXPECT_TRUE(t.rig.shut_down());
  }
}

// Goal: the second part of a payload is refused while the socket still has the first. The connection is reset before
// the message ends, so the peer gets nothing that was written since.
TEST(SockLent, a_send_that_fails_behind_lent_memory) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Dialled t({.seed = seed, .bytes_per_second = 50'000'000, .send_buffer = 1 << 20, .receive_buffer = 65536});
    t.rig.tcp.lent_sends_left = 1;
    const TestTx& tx = t.us->put(kForeign, 1'000'000);
    const Bytes expected = raw_put(3, kUs, kForeign, 1, 1'000'000, 2);
    ASSERT_TRUE(t.rig.run_until([&] { return tx.done == 1; }, 10s));
    EXPECT_EQ(tx.how.error, -ENOBUFS);
    t.rig.run_for(1s);
    ASSERT_LE(t.peer->in.size(), expected.size());
    EXPECT_TRUE(std::equal(t.peer->in.begin(), t.peer->in.end(), expected.begin()));
    EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
    EXPECT_TRUE(t.rig.shut_down());
  }
}

// Goal: a transport that sends much again is lent nothing for a minute. Then the next try follows.
TEST(SockLent, a_transport_that_loses_much_is_lent_nothing) {
  Pair t;
  EXPECT_GT(t.lent_of_many(kLeast), 0u);
  t.rig.run_for(2s);
  t.rig.tcp.resent_bytes += socklnd::kLentLossesMin;  // few
  EXPECT_GT(t.lent_of_many(kLeast), 0u);
  t.rig.run_for(2s);
  EXPECT_GT(t.lent_of_many(kLeast), 0u);
  t.rig.tcp.resent_bytes += socklnd::kLentLossesMin + 1;
  t.rig.run_for(2s);
  EXPECT_EQ(t.lent_of_many(kLeast), 0u);
  t.rig.run_for(50s);
  EXPECT_EQ(t.lent_of_many(kLeast), 0u);
  t.rig.run_for(10s);
  EXPECT_GT(t.lent_of_many(kLeast), 0u);
  t.rig.run_for(2s);
  EXPECT_GT(t.lent_of_many(kLeast), 0u) << "losses count once";
  t.end();
}

// Goal: losses are judged by what was sent meanwhile: one byte in kLentLossesOneIn is no reason to copy.
TEST(SockLent, losses_are_judged_by_what_was_sent) {
  for (const bool many : {false, true}) {
    SCOPED_TRACE(many);
    Pair t;
    t.rig.run_for(2s);
    constexpr uint64_t kSent = 2 * socklnd::kLentLossesMin * socklnd::kLentLossesOneIn;
    uint64_t sent = 0;
    for (const Instant begin = t.rig.now; sent < kSent; sent += 1 << 20) {
      t.us->put(kThem, 1 << 20);
      t.ended();
      ASSERT_LT(t.rig.now - begin, 1s) << "not all is judged in one look";
    }
    t.rig.tcp.resent_bytes += sent / socklnd::kLentLossesOneIn * (many ? 3 : 1) / 2;
    t.rig.run_for(2s);
    EXPECT_EQ(t.lent_of_many(kLeast) == 0, many);
    t.end();
  }
}

// Goal: an acknowledgement may come before the report of the send. Then the message is done, also if the connection
// breaks before that report.
TEST(SockLent, an_acknowledgement_before_the_report_of_the_send) {
  Dialled t({.bytes_per_second = 1'000'000, .send_buffer = 65536, .receive_buffer = 65536});
  const TestTx& tx = t.us->put(kForeign, 1'000'000);
  ASSERT_TRUE(t.rig.run_until([&] { return t.peer->in.size() >= 100; }, 1s));
  t.peer->send(raw_noop(0, 2));
  t.rig.run_for(1ms);
  EXPECT_EQ(tx.done, 0u);
  t.rig.tcp.reset_between(ip("10.0.0.1"), ip("10.0.0.254"));
  ASSERT_TRUE(t.rig.run_until([&] { return tx.done == 1; }, 1s));
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_TRUE(t.rig.shut_down());
}

}  // namespace
}  // namespace ulnet::test
