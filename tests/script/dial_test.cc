// The active side: order of connections, answers of every kind, back-off, races between two of us, versions learned,
// what becomes of messages that wait. Source: docs/wire/socklnd.md §2.4, §5, §6.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/base/nid_text.h"
#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.1@tcp";
constexpr const char* kThem = "10.0.0.2@tcp";

SockNodeOptions node_of(const char* nid) {
  SockNodeOptions options;
  options.nids = {nid};
  return options;
}

/// A node that dials a listener of raw bytes.
struct Active {
  explicit Active(SockNodeOptions options = {}) {
    options.nids = {kUs};
    rig.tcp.record = true;
    node = &rig.add(options);
    peer = &rig.foreign("10.0.0.2");
    peer->listen();
  }
  void run(Duration span = 20ms) { rig.run_for(span); }
  /// Answers the HELLO that has come; `ctype` as the peer sees it.
  void answer(uint32_t version, uint32_t ctype, const char* src = kThem) {
    peer->in.clear();
    peer->send(raw_hello(version, src, kUs, ctype));
    run();
  }
  SockRig rig;
  SockNode* node;
  RawPeer* peer;
};

TEST(SockDial, request_and_hello_are_those_of_the_reference) {
  Active t;
  t.node->put(kThem, 0);
  t.run();
  ASSERT_EQ(t.peer->in.size(), 72u);
  EXPECT_EQ(t.peer->take(16), hex_bytes("00 71 ce ac 01 00 00 00 02 00 00 0a 00 00 02 00"));
  EXPECT_EQ(t.peer->in,
            hex_bytes("63 69 72 45 03 00 00 00 01 00 00 0a 00 00 02 00 02 00 00 0a 00 00 02 00 39 30 00 00 00 00 00 00"
                      "01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00"));
}

TEST(SockDial, message_leaves_with_the_first_connection) {
  Active t;
  t.node->put(kThem, 100);
  t.run();
  EXPECT_EQ(t.node->take_trace(), "");
  RawPeer& first = *t.peer;
  t.answer(3, 1);
  EXPECT_EQ(t.node->take_trace(), "up 10.0.0.2@tcp; tx 1 ok");
  EXPECT_EQ(first.accepted, 2u);  // the node dials BULK_IN on its own
}

TEST(SockDial, protocol_errors_in_the_answer_fail_what_waits) {
  struct {
    uint32_t version, ctype;
    const char* src;
  } cases[] = {{3, 3, kThem}, {3, 1, "10.0.0.3@tcp"}};
  for (const auto& c : cases) {
    Active t;
    t.node->put(kThem, 0);
    t.run();
    t.answer(c.version, c.ctype, c.src);
    EXPECT_EQ(t.node->take_trace(), "down 10.0.0.2@tcp EPROTO/OK; tx 1 EPROTO/LOCAL_ERROR");
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockDial, version_is_learned_and_forgotten_with_the_last_connection) {
  Active t;
  t.node->put(kThem, 0);
  t.run();
  t.answer(2, 1);
  ASSERT_EQ(t.peer->accepted, 2u);
  EXPECT_EQ(u32_at(t.peer->in, 16 + 4), 2u);  // dialled again at once, in version 2
  t.answer(2, 1);
  EXPECT_EQ(t.node->take_trace(), "up 10.0.0.2@tcp; tx 1 ok");
  EXPECT_EQ(u32_at(t.peer->in, 16 + 4), 2u);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockDial, none_three_times_fails_when_nothing_is_there) {
  Active t;
  t.node->put(kThem, 0);
  t.run();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(t.peer->accepted, unsigned(i) + 1);
    EXPECT_EQ(t.node->take_trace(), "");
    t.answer(3, 0xFFFFFFFF);
    t.run(1s);
  }
  EXPECT_EQ(t.peer->accepted, 3u);
  EXPECT_EQ(t.node->take_trace(), "down 10.0.0.2@tcp EALREADY/OK; tx 1 EALREADY/LOCAL_ERROR");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockDial, none_three_times_is_enough_when_each_type_is_there) {
  SockNodeOptions options;
  options.tunables.conns_per_peer = 3;
  Active t(options);
  t.rig.tcp.record = false;
  SockNodeOptions other = node_of("10.0.0.3@tcp");
  other.tunables.conns_per_peer = 1;  // its limit is lower than ours
  SockNode& peer = t.rig.add(other);
  t.node->put("10.0.0.3@tcp", 0);
  t.run(10s);
  t.node->put("10.0.0.3@tcp", 100000);
  t.run(10s);
  EXPECT_EQ(t.node->take_trace(), "up 10.0.0.3@tcp; tx 1 ok; tx 2 ok");
  EXPECT_EQ(peer.received.size(), 2u);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockDial, refused_backs_off_and_doubles) {
  Active t;
  t.rig.tcp.connections.clear();
  for (int i = 0; i < 80; ++i) {
    t.node->put("10.0.0.3@tcp", 0);  // nobody there: no answer; see below
    t.run(100ms);
  }
  EXPECT_EQ(t.node->take_trace(), "");
  t.run(60s);
  EXPECT_EQ(t.node->unfinished(), 0u);
  EXPECT_EQ(t.node->txs[0].how.health, LndStatus::kNetworkTimeout);
  t.rig.tcp.connections.clear();
  (void)t.node->take_trace();
  t.rig.foreign("10.0.0.4");  // a machine without listener
  const Instant begin = t.rig.now;
  for (int i = 0; i < 400; ++i) {
    t.node->put("10.0.0.4@tcp", 0);
    t.run(100ms);
  }
  std::vector<int64_t> seconds;
  for (const SimConnection& c : t.rig.tcp.connections) seconds.push_back((c.opened - begin) / 100ms);
  ASSERT_EQ(seconds.size(), 6u);  // 0, 1, 3, 7, 15, 31 s and a little
  EXPECT_EQ(t.node->unfinished(), 0u);
  EXPECT_EQ(t.node->txs[80].how.error, -ECONNREFUSED);
  EXPECT_EQ(t.node->txs[80].how.health, LndStatus::kRemoteDropped);
  EXPECT_EQ(t.node->txs[81].how.error, -EHOSTUNREACH);  // within the back-off
  EXPECT_EQ(t.node->txs[81].how.health, LndStatus::kRemoteDropped);
  for (size_t i = 1; i < seconds.size(); ++i) EXPECT_NEAR(double(seconds[i]), 10.0 * ((1 << i) - 1), 3.0 * double(i));
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: a recovery ping is not held up by a back-off, nor by a SYN without answer.
TEST(SockDial, connects_again_for_a_recovery_ping) {
  Active t;
  const Nid peer = *nid_parse("10.0.0.4@tcp");
  const auto connect_again = [&] { t.node->control->connect_again({1}, peer, t.rig.now); };
  connect_again();                               // there is no set yet
  RawPeer& machine = t.rig.foreign("10.0.0.4");  // without listener
  for (int i = 0; i < 400; ++i) {
    t.node->put("10.0.0.4@tcp", 0);
    t.run(100ms);
  }
  t.rig.tcp.connections.clear();
  connect_again();
  t.run(100ms);
  EXPECT_EQ(t.rig.tcp.connections.size(), 0u) << "no message, no dial";
  t.node->put("10.0.0.4@tcp", 0);
  t.run(100ms);
  t.rig.tcp.connections.clear();
  t.rig.tcp.silence(ip("10.0.0.4"), true);
  connect_again();
  t.node->put("10.0.0.4@tcp", 0);  // in the same turn
  t.run(100ms);
  EXPECT_EQ(t.rig.tcp.connections.size(), 1u) << "though the back-off would last for up to 60 s";
  connect_again();
  t.run(800ms);
  EXPECT_EQ(t.rig.tcp.connections.size(), 1u) << "the SYN is fresh";
  t.run(200ms);
  connect_again();
  t.run(100ms);
  EXPECT_EQ(t.rig.tcp.connections.size(), 2u);
  t.rig.tcp.silence(ip("10.0.0.4"), false);
  machine.listen();
  t.run(1100ms);
  EXPECT_EQ(machine.accepted, 1u);
  connect_again();
  t.run(2s);
  EXPECT_EQ(machine.accepted, 1u) << "its HELLO is awaited";
}

// Goal: however often a dial is made again, its failure is reported after the time-out.
TEST(SockDial, dials_that_are_made_again_and_again_fail_in_time) {
  Active t;  // 50 s
  t.rig.foreign("10.0.0.4").listen();
  t.rig.tcp.silence(ip("10.0.0.4"), true);
  t.node->put("10.0.0.4@tcp", 0);
  for (int i = 0; i < 49; ++i) {
    t.run(1s);
    t.node->control->connect_again({1}, *nid_parse("10.0.0.4@tcp"), t.rig.now);
  }
  EXPECT_GT(t.rig.tcp.connections.size(), 40u);
  EXPECT_EQ(t.node->take_trace().find("down"), std::string::npos);
  for (int i = 0; i < 3; ++i) {
    t.run(1s);
    t.node->control->connect_again({1}, *nid_parse("10.0.0.4@tcp"), t.rig.now);
  }
  t.run(100ms);
  EXPECT_NE(t.node->take_trace().find("down 10.0.0.4@tcp"), std::string::npos);
}

TEST(SockDial, answer_that_never_comes_fails_after_sock_timeout) {
  SockNodeOptions options;
  options.tunables.timeout = 5s;
  Active t(options);
  t.node->put(kThem, 0);
  t.run(4900ms);
  EXPECT_EQ(t.node->take_trace(), "");
  t.run(1500ms);
  EXPECT_EQ(t.node->take_trace(), "tx 1 ETIMEDOUT/NETWORK_TIMEOUT; down 10.0.0.2@tcp ETIMEDOUT/OK");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockDial, peer_that_hangs_up_during_the_handshake) {
  Active t;
  t.node->put(kThem, 0);
  t.run();
  t.peer->close();
  t.run();
  EXPECT_EQ(t.node->take_trace(), "down 10.0.0.2@tcp ECONNRESET/OK; tx 1 ECONNRESET/REMOTE_DROPPED");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockDial, ipv6_node_does_not_dial_ipv4) {
  SockRig rig;
  SockNode& node = rig.add(node_of("fd00::1@tcp"));
  node.put("10.0.0.2@tcp", 0);
  rig.run_for(1s);
  EXPECT_EQ(node.txs[0].how.error, -EAFNOSUPPORT);
  EXPECT_TRUE(rig.shut_down());
}

TEST(SockDial, own_deadline_of_a_waiting_message_counts) {
  Active t;
  t.node->tx_deadline = t.rig.now + 3s;
  t.node->put(kThem, 0);
  t.run(2900ms);
  EXPECT_EQ(t.node->unfinished(), 1u);
  t.run(1200ms);
  EXPECT_EQ(t.node->take_trace(), "tx 1 ETIMEDOUT/NETWORK_TIMEOUT");
  EXPECT_TRUE(t.rig.shut_down());
}

// ---- two of us -----------------------------------------------------------------------------------------------------

TEST(SockPair, nine_connections_in_the_order_of_the_capture) {
  SockRig rig;
  rig.tcp.record = true;
  SockNodeOptions a = node_of(kUs), b = node_of(kThem);
  a.tunables.conns_per_peer = b.tunables.conns_per_peer = 4;
  SockNode& one = rig.add(a);
  SockNode& two = rig.add(b);
  one.put(kThem, 0);
  rig.run_for(1s);
  EXPECT_EQ(types_of(rig.tcp), "123232323");
  for (size_t i = 0; i < rig.tcp.connections.size(); ++i)
    EXPECT_EQ(rig.tcp.connections[i].dialler.port, 1023 - i);  // as the kernel counts down
  EXPECT_EQ(two.received.size(), 1u);
  EXPECT_TRUE(rig.shut_down());
}

TEST(SockPair, size_chooses_the_connection) {
  SockRig rig;
  rig.tcp.record = true;
  SockNodeOptions with_cookies = node_of(kUs);
  with_cookies.config.zc_min_payload = 16384;
  SockNode& one = rig.add(with_cookies);
  SockNode& two = rig.add(node_of(kThem));
  one.put(kThem, 0);
  rig.run_for(1s);
  ASSERT_EQ(types_of(rig.tcp), "123");
  const auto sizes = [&](int side) {
    std::array<size_t, 3> s{};
    for (size_t i = 0; i < 3; ++i) s[i] = rig.tcp.connections[i].sent[side].size();
    return s;
  };
  auto before = sizes(0), answer = sizes(1);
  one.put(kThem, 1024 - 97);  // 1023 with its headers
  two.put(kUs, 1024 - 97);
  rig.run_for(1s);
  auto after = sizes(0), answered = sizes(1);
  EXPECT_EQ(after[0] - before[0], 1023u);
  EXPECT_EQ(answered[0] - answer[0], 1023u);
  one.put(kThem, 1024 - 96);
  two.put(kUs, 1024 - 96);
  rig.run_for(1s);
  EXPECT_EQ(sizes(0)[2] - after[2], 1024u);     // BULK_OUT of the dialler
  EXPECT_EQ(sizes(1)[1] - answered[1], 1024u);  // its BULK_IN is the other's BULK_OUT
  EXPECT_EQ(sizes(0)[0], after[0]);
  EXPECT_EQ(rig.tcp.connections.size(), 3u);
  // A zero-copy message is acknowledged on the connection that the data came on.
  before = sizes(1);
  one.put(kThem, 100000);
  rig.run_for(1s);
  EXPECT_EQ(sizes(1)[2] - before[2], 24u);
  EXPECT_EQ(one.unfinished(), 0u);
  EXPECT_TRUE(rig.shut_down());
}

TEST(SockPair, several_bulk_connections_share_the_load) {
  SockRig rig;
  rig.tcp.record = true;
  SockNodeOptions a = node_of(kUs), b = node_of(kThem);
  a.tunables.conns_per_peer = b.tunables.conns_per_peer = 4;
  SockNode& one = rig.add(a);
  rig.add(b);
  one.put(kThem, 0);
  rig.run_for(1s);
  for (int i = 0; i < 40; ++i) one.put(kThem, 50000);
  rig.run_for(2s);
  unsigned used = 0;
  for (const SimConnection& c : rig.tcp.connections)
    if (u32_at(c.sent[0], 16 + 48) == 3) used += c.sent[0].size() > 400000;
  EXPECT_EQ(used, 4u);
  EXPECT_TRUE(rig.shut_down());
}

// A complete set grows at once. If the setting falls below the number of connections, the existing ones stay.
TEST(SockPair, running_ni_gets_more_connections) {
  SockRig rig;
  rig.tcp.record = true;
  SockNode& one = rig.add(node_of(kUs));
  SockNode& two = rig.add(node_of(kThem));
  one.put(kThem, 0);
  rig.run_for(1s);
  ASSERT_EQ(types_of(rig.tcp), "123");
  ASSERT_TRUE(two.control->ni_tune({1}, socklnd::sock_tunable_numbers({.conns_per_peer = 3}), rig.now));
  ASSERT_TRUE(one.control->ni_tune({1}, socklnd::sock_tunable_numbers({.conns_per_peer = 3}), rig.now));
  rig.run_for(10s);
  std::string types = types_of(rig.tcp);
  // Two more of each; both sides dial the first, and one of these two loses the race.
  EXPECT_EQ(std::count(types.begin() + 3, types.end(), '2'), 2 + 1) << types;
  EXPECT_EQ(std::count(types.begin() + 3, types.end(), '3'), 2) << types;
  ASSERT_TRUE(one.control->ni_tune({1}, socklnd::sock_tunable_numbers({.conns_per_peer = 1}), rig.now));
  one.put(kThem, 100000);
  rig.run_for(1s);
  EXPECT_EQ(types_of(rig.tcp), types);
  EXPECT_EQ(one.unfinished(), 0u);
  EXPECT_EQ(one.control->ni_tune({9}, socklnd::sock_tunable_numbers({.conns_per_peer = 1}), rig.now).error().code,
            -ENOENT);
  EXPECT_TRUE(rig.shut_down());
}

// Both dial at once: the lower NID's connects get NONE, the set dialled by the higher carries both messages.
TEST(SockPair, race_is_won_by_the_higher_nid) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SockRig rig({.seed = seed, .delay = 40ms});
    rig.tcp.record = true;
    SockNode& low = rig.add(node_of(kUs));
    SockNode& high = rig.add(node_of(kThem));
    low.put(kThem, 0);
    high.put(kUs, 0);
    rig.run_for(5s);
    EXPECT_EQ(low.unfinished() + high.unfinished(), 0u);
    EXPECT_EQ(low.received.size(), 1u);
    EXPECT_EQ(high.received.size(), 1u);
    EXPECT_EQ(low.take_trace().find("down"), std::string::npos);
    unsigned alive = 0, nones = 0;
    for (const SimConnection& c : rig.tcp.connections) {
      const bool none = u32_at(c.sent[1], 48) == 0xFFFFFFFF;
      nones += none;
      alive += !none && !c.fin[0] && !c.reset[0] && !c.fin[1] && !c.reset[1];
      EXPECT_TRUE(!none || c.dialler.address == ip("10.0.0.1"));
    }
    EXPECT_EQ(alive, 3u) << seed;
    EXPECT_GE(nones, 1u);
    EXPECT_TRUE(rig.shut_down());
  }
}

TEST(SockPair, reconnects_after_a_reset) {
  SockRig rig;
  SockNode& one = rig.add(node_of(kUs));
  SockNode& two = rig.add(node_of(kThem));
  one.put(kThem, 0);
  rig.run_for(1s);
  rig.tcp.reset_between(ip("10.0.0.1"), ip("10.0.0.2"));
  rig.run_for(10ms);
  one.put(kThem, 0);
  rig.run_for(3s);
  EXPECT_EQ(two.received.size(), 2u);
  EXPECT_EQ(one.take_trace(), "up 10.0.0.2@tcp; tx 1 ok; down 10.0.0.2@tcp ECONNRESET/OK; up 10.0.0.2@tcp; tx 2 ok");
  EXPECT_TRUE(rig.shut_down());
}

// The peer's machine crashes and boots: the queued message fails, and the peer's new incarnation is accepted.
TEST(SockPair, peer_reboots) {
  SockRig rig;
  SockNodeOptions options = node_of(kUs);
  options.tunables.timeout = 5s;
  SockNode& one = rig.add(options);
  SockNode* two = &rig.add(node_of(kThem));
  one.put(kThem, 0);
  rig.run_for(1s);
  two->kill();
  rig.tcp.silence(ip("10.0.0.2"), true);
  (void)one.take_trace();
  one.put(kThem, 5000);
  rig.run_for(7s);
  EXPECT_EQ(one.take_trace(), "tx 2 ok; down 10.0.0.2@tcp ETIMEDOUT/OK");
  one.put(kThem, 0);
  rig.run_for(1s);
  rig.tcp.silence(ip("10.0.0.2"), false);
  SockNodeOptions reborn = node_of(kThem);
  reborn.config.incarnation = 999;
  two = &rig.add(reborn);
  rig.run_for(4s);
  EXPECT_EQ(one.take_trace(), "up 10.0.0.2@tcp; tx 3 ok");
  EXPECT_EQ(two->received.size(), 1u);
  EXPECT_TRUE(rig.shut_down());
}

TEST(SockPair, workers_have_their_own_peers) {
  SockRig rig;
  SockNodeOptions options = node_of(kUs);
  options.workers = 3;
  SockNode& one = rig.add(options);
  std::vector<SockNode*> others;
  for (const char* nid : {"10.0.0.11@tcp", "10.0.0.12@tcp", "10.0.0.13@tcp", "10.0.0.14@tcp"}) {
    others.push_back(&rig.add(node_of(nid)));
    one.put(nid, 30000);
    others.back()->put(kUs, 30000);
  }
  rig.run_for(5s);
  EXPECT_EQ(one.received.size(), 4u);
  for (SockNode* other : others) EXPECT_EQ(other->received.size(), 1u);
  for (auto& core : one.cores) EXPECT_FALSE(core->lnd->idle());
  EXPECT_TRUE(rig.shut_down());
}

TEST(SockPair, ipv6_pair_speaks_version_4) {
  SockRig rig;
  rig.tcp.record = true;
  SockNode& one = rig.add(node_of("fd00::1@tcp"));
  SockNode& two = rig.add(node_of("fd00::2@tcp"));
  one.put("fd00::2@tcp", 100000);
  two.put("fd00::1@tcp", 50);
  rig.run_for(5s);
  EXPECT_EQ(one.unfinished() + two.unfinished(), 0u);
  EXPECT_EQ(u32_at(rig.tcp.connections[0].sent[0], 28 + 4), 4u);
  EXPECT_TRUE(rig.shut_down());
}

TEST(SockPair, unprivileged_ports_pair) {
  SockRig rig;
  rig.tcp.record = true;
  SockNodeOptions a = node_of(kUs), b = node_of(kThem);
  a.config.unprivileged_ports = b.config.unprivileged_ports = true;
  a.config.accept_port = b.config.accept_port = 9988;
  SockNode& one = rig.add(a);
  SockNode& two = rig.add(b);
  one.put(kThem, 100000);
  two.put(kUs, 100);
  rig.run_for(5s);
  EXPECT_EQ(one.unfinished() + two.unfinished(), 0u);
  EXPECT_GT(rig.tcp.connections[0].dialler.port, 1023);
  EXPECT_EQ(rig.tcp.connections[0].passive.port, 9988);
  EXPECT_TRUE(rig.shut_down());
}

/// Every NI shares its subnet.
struct Shared final : socklnd::SockDevices {
  std::string hold_to(const NiParams&, const socklnd::IpAddress&) override { return "eth1"; }
};

// Goal: if an NI shares its subnet, the connections that it dials or accepts are bound to its interface. Without the
// right to bind them, they come up unbound, and the log reports that.
TEST(SockHold, dialled_and_accepted) {
  for (const int error : {0, EPERM, EXDEV}) {
    Shared devices;
    SockRig rig;
    SockNodeOptions us = node_of(kUs), them = node_of(kThem);
    us.devices = error == EXDEV ? nullptr : &devices;
    them.devices = &devices;
    SockNode& one = rig.add(us);
    SockNode& two = rig.add(them);
    rig.tcp.hold_error = error;
    one.put(kThem, 100000);
    ASSERT_TRUE(rig.run_until([&] { return one.unfinished() == 0; }, 10s));
    EXPECT_EQ(one.txs[0].how.error, 0) << error;
    rig.run_for(1s);  // the connections that follow the first, on either side
    const auto held = [&](const char* address) {
      return std::count(rig.tcp.held.begin(), rig.tcp.held.end(), std::pair(ip(address), std::string("eth1")));
    };
    if (error == 0) {
      EXPECT_GE(held("10.0.0.1"), 1);
      EXPECT_EQ(held("10.0.0.1"), held("10.0.0.2"));
      EXPECT_TRUE(one.logged.empty() && two.logged.empty());
    } else {
      EXPECT_TRUE(rig.tcp.held.empty());
      ASSERT_FALSE(two.logged.empty());
      const std::string mend = error == EPERM ? "; give ulnetd CAP_NET_RAW, or routes by source address" : "";
      EXPECT_EQ(two.logged[0],
                "socklnd: 10.0.0.2@tcp: a connection is not bound to eth1: may not hold a socket" + mend);
      EXPECT_EQ(one.logged.empty(), error == EXDEV);
    }
    EXPECT_TRUE(rig.shut_down());
  }
}

TEST(SockPair, stop_with_traffic_under_way) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SockRig rig({.seed = seed, .delay = 2ms});
    SockNode& one = rig.add(node_of(kUs));
    SockNode& two = rig.add(node_of(kThem));
    for (int i = 0; i < 20; ++i) {
      one.put(kThem, uint32_t(rig.rng.below(200000)));
      two.put(kUs, uint32_t(rig.rng.below(200000)));
    }
    rig.run_for(Duration(int64_t(rig.rng.below(40'000'000))));
    EXPECT_TRUE(rig.shut_down()) << seed;
  }
}

}  // namespace
}  // namespace ulnet::test
