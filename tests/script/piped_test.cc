// Payloads that a node passes on through a pipe: it receives a part of them into the pipe and sends that part from
// there. The rest of such a payload lies in memory. On the way, pipes are full or refused, and connections break.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/nid_of.h"
#include "tests/script/once.h"

namespace ulnet::test {
namespace {

constexpr const char* kFirst = "10.0.0.1@tcp";
constexpr const char* kRelay = "10.0.0.2@tcp";
constexpr const char* kLast = "10.0.0.3@tcp";

#ifdef ULNET_SANITIZED
constexpr uint64_t kBreakSeeds = 14;  ///< sanitized builds are slow
#else
constexpr uint64_t kBreakSeeds = 22;
#endif

/// Three nodes in a row. The one in the middle passes on what it gets, with the pipe that the payload came in.
struct Row {
  explicit Row(uint64_t seed, unsigned pipes = 3, unsigned workers = 1, uint32_t cookies_from = 0, bool wired = true)
      : rig({.seed = seed, .delay = 50us, .segment_max = 9000, .pipes = pipes}) {
    for (SockNode** node : {&first, &relay, &last}) {
      SockNodeOptions options{.nids = {node == &first ? kFirst : node == &relay ? kRelay : kLast}};
      options.workers = node == &relay ? workers : 1;
      options.tunables.timeout = 5s;
      options.config.zc_min_payload = cookies_from;
      if (wired) options.devices = &devices;
      *node = &rig.add(options);
      (*node)->trace_on = false;
    }
    relay->on_header = [this](FakeCore& core, RxSlot& slot) {
      core.make_room(slot, UINT32_MAX);
      slot.may_pipe = may_pipe;
      return RxVerdict::kReceive;
    };
    relay->on_received = [this](Received& got, PipedPayload* piped) { pass_on(got, piped); };
  }
  void pass_on(const Received& got, PipedPayload* piped) {
    piped_count += piped != nullptr;
    if (got.how.error == 0) relay->send_exact(last->nids[0], got.header, got.payload, 1, piped);
  }
  void put(unsigned count, uint32_t least = 0, uint32_t most = 1 << 20) {
    for (unsigned i = 0; i < count; ++i) first->put(kRelay, least + uint32_t(rig.rng.below(most - least + 1)));
  }
  [[nodiscard]] bool all_ended() const { return first->unfinished() == 0 && relay->unfinished() == 0; }
  [[nodiscard]] size_t arrived_whole() const {
    return size_t(std::count_if(last->received.begin(), last->received.end(), [](const Received& got) {
      EXPECT_TRUE(got.how.error != 0 || payload_right(got)) << got.header.put().match_bits;
      return got.how.error == 0;
    }));
  }
  /// All nodes stop, and all pipes are back.
  void end() {
    EXPECT_TRUE(rig.shut_down());
    EXPECT_EQ(rig.tcp.pipes.out, 0u);
  }

  WiredDevices devices;
  SockRig rig;
  SockNode *first, *relay, *last;
  bool may_pipe = true;
  unsigned piped_count = 0;
};

// Goal: payloads of all sizes arrive as they were, whether a pipe has all of them, a part or none. Some seeds use
// zero-copy cookies.
TEST(SockPiped, payloads_pass_on_unchanged) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Row row(seed, 3, unsigned(1 + seed % 2), seed > 2 ? 16384 : 0);
    constexpr unsigned kCount = 60;
    row.put(kCount);
    ASSERT_TRUE(row.rig.run_until([&] { return row.last->received.size() == kCount && row.all_ended(); }, 100s));
    EXPECT_EQ(row.arrived_whole(), kCount);
    EXPECT_GT(row.piped_count, kCount / 10);
    EXPECT_LT(row.piped_count, kCount);
    EXPECT_GT(row.rig.tcp.pipes.full, 0u);
    row.end();
  }
}

// Goal: the core decides which payloads may go to a pipe. Small ones do not.
TEST(SockPiped, a_pipe_is_used_only_where_it_may_be_and_pays) {
  Row row(5);
  row.put(20, 0, socklnd::kPipedBytesMin - 1);
  ASSERT_TRUE(row.rig.run_until([&] { return row.last->received.size() == 20; }, 100s));
  EXPECT_EQ(row.rig.tcp.pipes.taken, 0u);
  row.may_pipe = false;
  row.put(20, 100'000);
  ASSERT_TRUE(row.rig.run_until([&] { return row.last->received.size() == 40; }, 100s));
  EXPECT_EQ(row.rig.tcp.pipes.taken, 0u);
  row.may_pipe = true;
  row.put(20, 100'000);
  ASSERT_TRUE(row.rig.run_until([&] { return row.last->received.size() == 60 && row.all_ended(); }, 100s));
  EXPECT_GT(row.rig.tcp.pipes.taken, 0u);
  EXPECT_EQ(row.arrived_whole(), 60u);
  row.end();
}

// Goal: a payload with a cookie is acknowledged when it has come. If its sender may be on this machine, the pages may
// belong to it. So the payload does not go to a pipe, and it is not lent to the next router.
TEST(SockPiped, pages_of_a_near_sender_are_copied) {
  for (const bool wired : {true, false}) {
    SCOPED_TRACE(wired);
    Row row(6, 3, 1, 100'000, wired);
    row.put(20, 100'000);
    ASSERT_TRUE(row.rig.run_until([&] { return row.last->received.size() == 20 && row.all_ended(); }, 100s));
    EXPECT_EQ(row.rig.tcp.pipes.taken > 0, wired);
    const uint64_t lent = row.rig.tcp.lent_bytes;
    uint64_t put = 0;
    for (const TestTx& tx : row.first->txs) put += tx.header.payload_length;
    EXPECT_GT(lent, 0u);
    EXPECT_TRUE(wired || lent <= put) << "from the relay, the last node gets copies";
    row.put(20, 80'000, 99'999);  // without a cookie
    ASSERT_TRUE(row.rig.run_until([&] { return row.last->received.size() == 40 && row.all_ended(); }, 100s));
    EXPECT_GT(row.rig.tcp.pipes.taken, 0u);
    EXPECT_EQ(row.rig.tcp.lent_bytes, lent);
    EXPECT_EQ(row.arrived_whole(), 40u);
    row.end();
  }
}

// Goal: connections break on both sides of the node in the middle. Each message ends once, what arrives is whole, no
// message arrives twice, and all pipes come back. A message of which a part has left its pipe says so.
TEST(SockPiped, connections_break_on_both_sides) {
  unsigned begun = 0, intact = 0;
  for (uint64_t seed = 11; seed <= kBreakSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Row row(seed, 3, 1, seed % 2 == 0 ? 16384 : 0);
    row.relay->on_tx_done = [&](FakeCore&, TestTx& tx) {
      if (tx.how.error != 0 && tx.held != nullptr) ++(tx.held->begun() ? begun : intact);
    };
    for (int round = 0; round < 10; ++round) {
      row.put(6, 60'000);
      row.rig.run_for(Duration(int64_t(row.rig.rng.below(12'000'000))));
      const bool before = row.rig.rng.one_in(2);
      row.rig.tcp.reset_between(ip(before ? "10.0.0.1" : "10.0.0.2"), ip(before ? "10.0.0.2" : "10.0.0.3"));
      row.rig.run_for(2s);
    }
    ASSERT_TRUE(row.rig.run_until([&] { return row.all_ended(); }, 300s));
    EXPECT_GT(row.arrived_whole(), 5u);
    std::map<uint64_t, unsigned> times;
    for (const Received& got : row.last->received) times[got.header.put().match_bits] += got.how.error == 0;
    for (const auto& [number, count] : times) EXPECT_LE(count, 1u) << number;
    row.end();
  }
  EXPECT_GT(begun, 0u);
  EXPECT_GT(intact, 0u);
}

// Goal: the core takes the memory of a receive back while the payload goes to a pipe. The stream goes on with the next
// message.
TEST(SockPiped, a_receive_that_is_diverted_lets_go_of_its_pipe) {
  unsigned diverted = 0;
  for (uint64_t seed = 31; seed <= 36; ++seed) {
    SCOPED_TRACE(seed);
    Row row(seed);
    row.put(8, 300'000);
    for (int i = 0; i < 300; ++i) {
      row.rig.run_for(50us);
      FakeCore& core = *row.relay->cores[0];
      if (row.rig.tcp.pipes.out > 0 && !core.receiving.empty() && row.rig.rng.one_in(10)) {
        core.lnd->divert(*core.oldest_receiving(), row.rig.now);
        ++diverted;
      }
    }
    ASSERT_TRUE(row.rig.run_until([&] { return row.relay->received.size() == 8 && row.all_ended(); }, 100s));
    const auto passed = std::count_if(row.relay->received.begin(), row.relay->received.end(),
                                      [](const Received& got) { return got.how.error == 0; });
    ASSERT_TRUE(row.rig.run_until([&] { return row.last->received.size() == size_t(passed); }, 100s));
    EXPECT_EQ(row.arrived_whole(), size_t(passed));
    row.end();
  }
  EXPECT_GT(diverted, 3u);
}

// Goal: an engine may wait until much of a payload has come. A peer that sends little by little is not treated as one
// that sends nothing.
TEST(SockPiped, a_slow_peer_keeps_its_connection) {
  Row row(51, 100);
  RawPeer& peer = row.rig.foreign("10.0.0.254");
  peer.dial("10.0.0.2");
  peer.send(raw_request(kRelay) + raw_hello(3, "10.0.0.254@tcp", kRelay, 1));
  row.rig.run_for(100ms);
  unsigned patient_turns = 0;
  for (uint64_t number = 1; number <= 3; ++number) {
    const Bytes message = raw_put(3, "10.0.0.254@tcp", kRelay, number, 100'000);
    for (size_t at = 0; at < message.size(); at += 5000) {
      const size_t end = std::min(message.size(), at + 5000);
      peer.send(Bytes(message.begin() + ptrdiff_t(at), message.begin() + ptrdiff_t(end)));
      row.rig.run_for(3s);  // the time-out is 5 s
      patient_turns += row.relay->cores[0]->lnd->patient();
    }
  }
  EXPECT_GT(patient_turns, 10u);
  EXPECT_FALSE(row.relay->cores[0]->lnd->patient());
  EXPECT_EQ(peer.end, RawPeer::End::kOpen);
  EXPECT_EQ(row.last->received.size(), 3u);
  EXPECT_EQ(row.arrived_whole(), 3u);
  EXPECT_GT(row.rig.tcp.pipes.taken, 0u);
  row.end();
}

/// Passes on what the first node of a row sends to it: to a foreign peer, which has dialled it.
struct SecondRelay {
  SecondRelay(Row& row, uint32_t version, uint32_t ctype, const socklnd::SockConfig& config)
      : relay(row.rig.add({.nids = {"10.0.0.4@tcp"}, .config = config, .devices = &row.devices})),
        peer(row.rig.foreign("10.0.0.254")) {
    peer.dial("10.0.0.4");
    peer.send(raw_request("10.0.0.4@tcp") + raw_hello(version, "10.0.0.254@tcp", "10.0.0.4@tcp", ctype));
    row.rig.run_for(100ms);
    peer.in.clear();
    relay.on_header = row.relay->on_header;
    relay.on_received = [this](Received& got, PipedPayload* piped) {
      piped_count += piped != nullptr;
      relay.send_exact(tcp_nid("10.0.0.254"), got.header, got.payload, 1, piped);
    };
  }
  /// The first node sends 8 payloads; the peer gets them like this, and no other bytes.
  void pass(Row& row, uint32_t version, bool summed) {
    constexpr unsigned kCount = 8;
    constexpr uint32_t kBytes = 200'000;
    Bytes expected;
    for (unsigned i = 1; i <= kCount; ++i) {
      row.first->put("10.0.0.4@tcp", kBytes);
      expected = expected + raw_put(version, kFirst, "10.0.0.4@tcp", i, kBytes, 0, 0, summed);
    }
    ASSERT_TRUE(row.rig.run_until([&] { return peer.in.size() >= expected.size(); }, 100s));
    EXPECT_EQ(peer.in, expected);
    EXPECT_GT(piped_count, 0u);
  }
  SockNode& relay;
  RawPeer& peer;
  unsigned piped_count = 0;
};

// Goal: a peer of version 2 gets a checksum. For that the node reads the payload: it is copied from the pipe first.
TEST(SockPiped, a_payload_with_a_checksum_leaves_its_pipe) {
  Row row(41);
  SecondRelay second(row, 2, 0, {.enable_csum = true});
  second.pass(row, 2, true);
  row.end();
}

// Goal: a payload that leaves from a pipe needs no zero-copy cookie, and its message ends when its bytes have gone.
TEST(SockPiped, a_payload_in_a_pipe_carries_no_cookie) {
  Row row(51);
  row.rig.tcp.pipes_refused = false;
  SecondRelay second(row, 3, 2, {.zc_min_payload = 16384});
  second.pass(row, 3, false);
  EXPECT_EQ(second.piped_count, 8u);
  row.rig.run_for(1s);
  EXPECT_EQ(second.relay.unfinished(), 0u);
  row.end();
}

}  // namespace
}  // namespace ulnet::test
