// The passive side against raw bytes: each row of docs/wire/socklnd.md §2.5, each HELLO version, duplicates, reboots,
// bounds.
#include <gtest/gtest.h>

#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kUs = "10.0.0.2@tcp";
constexpr const char* kOther = "10.0.0.254@tcp";

struct Passive {
  explicit Passive(SockNodeOptions options = {}) {
    options.nids = {kUs};
    node = &rig.add(options);
    peer = &rig.foreign("10.0.0.254");
  }
  RawPeer& dial(bool privileged = true) {
    RawPeer& p = *peer;
    p.close();
    p.in.clear();
    p.dial("10.0.0.2", privileged);
    return p;
  }
  /// Dials, sends, lets a moment pass.
  RawPeer& say(const Bytes& bytes, Duration span = 100ms) {
    RawPeer& p = dial();
    p.send(bytes);
    rig.run_for(span);
    return p;
  }
  SockRig rig;
  SockNode* node;
  RawPeer* peer;
};

// Goal: a peer whose machine has lost a connection without a word is refused once. The refusal finds that out.
TEST(SockAcceptor, a_connection_that_the_peer_has_lost_makes_way_for_the_next) {
  Passive t;
  const Bytes dial = raw_request(kUs) + raw_hello(3, kOther, kUs, 1);
  t.peer->dial("10.0.0.2");
  t.peer->send(dial);
  t.rig.run_for(100ms);
  EXPECT_EQ(t.node->take_trace(), "up 10.0.0.254@tcp");
  t.rig.tcp.forget_sockets(ip("10.0.0.254"));
  for (const Duration pause : {1s, 3s}) {  // at first, the connection may be new to the peer
    t.rig.run_for(pause);
    RawPeer& refused = t.rig.foreign("10.0.0.254");
    refused.dial("10.0.0.2");
    refused.send(dial);
    t.rig.run_for(100ms);
    EXPECT_EQ(u32_at(refused.in, 48), 0xFFFFFFFFu);
  }
  RawPeer& accepted = t.rig.foreign("10.0.0.254");
  accepted.dial("10.0.0.2");
  accepted.send(dial);
  t.rig.run_for(100ms);
  EXPECT_NE(u32_at(accepted.in, 48), 0xFFFFFFFFu);
  EXPECT_TRUE(t.rig.shut_down());
}

// RST or FIN, as the request has come by then or not.
TEST(SockAcceptor, unprivileged_port_is_closed_without_a_word) {
  Passive t;
  t.dial(false).send(raw_request(kUs) + raw_hello(3, kOther, kUs, 1));
  t.rig.run_for(100ms);
  EXPECT_NE(t.peer->end, RawPeer::End::kOpen);
  EXPECT_TRUE(t.peer->in.empty());
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockAcceptor, request_with_bad_magic_is_reset) {
  Passive t;
  t.say(hex_bytes("11 22 33 44 01 00 00 00 02 00 00 0a 00 00 02 00"));
  EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
  EXPECT_TRUE(t.peer->in.empty());
}

TEST(SockAcceptor, hello_magic_in_place_of_a_request_is_answered) {
  Passive t;
  t.say(raw_hello(3, kOther, kUs, 1));
  EXPECT_EQ(t.peer->in, hex_bytes("00 71 ce ac 01 00 00 00 00 00 00 00 00 00 00 00"));
  EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
}

TEST(SockAcceptor, unknown_request_version_is_answered_and_reset) {
  Passive t;
  t.say(hex_bytes("00 71 ce ac 63 00 00 00 02 00 00 0a 00 00 02 00"));
  EXPECT_EQ(t.peer->in, hex_bytes("00 71 ce ac 01 00 00 00 00 00 00 00 00 00 00 00"));
  EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
}

TEST(SockAcceptor, foreign_nid_is_closed) {
  Passive t;
  t.say(raw_request("10.0.0.3@tcp"));
  EXPECT_TRUE(t.peer->in.empty());
  EXPECT_EQ(t.peer->end, RawPeer::End::kFin);
  ASSERT_EQ(t.node->logged.size(), 1u);
}

TEST(SockAcceptor, strangers_do_not_fill_the_journal) {
  Passive t;
  for (int i = 0; i < 30; ++i) t.say(raw_request("10.0.0.3@tcp"), 10ms);
  EXPECT_EQ(t.node->logged.size(), 10u);
  t.rig.run_for(10s);
  t.say(raw_request("10.0.0.3@tcp"));
  ASSERT_EQ(t.node->logged.size(), 11u);
  EXPECT_TRUE(t.node->logged.back().ends_with("(20 such lines left out before)")) << t.node->logged.back();
}

TEST(SockAcceptor, byte_reversed_request_is_understood) {
  Passive t;
  t.say(hex_bytes("ac ce 71 00 00 00 00 01 00 02 00 00 0a 00 00 02") + raw_hello(3, kOther, kUs, 1));
  EXPECT_EQ(t.peer->in.size(), 56u);
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
}

TEST(SockHello, bad_magic_is_reset) {
  Passive t;
  Bytes hello = raw_hello(3, kOther, kUs, 1);
  hello[0] = std::byte{0};
  t.say(raw_request(kUs) + hello);
  EXPECT_TRUE(t.peer->in.empty());
  EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
}

TEST(SockHello, unknown_version_is_answered_in_ours) {
  Passive t;
  Bytes hello = raw_hello(3, kOther, kUs, 1);
  hello[4] = std::byte{99};
  t.say(raw_request(kUs) + hello);
  ASSERT_EQ(t.peer->in.size(), 56u);
  EXPECT_EQ(u32_at(t.peer->in, 4), 3u);
  EXPECT_EQ(Bytes(t.peer->in.begin() + 8, t.peer->in.begin() + 16),
            Bytes(t.peer->in.begin() + 16, t.peer->in.begin() + 24));
  EXPECT_EQ(u32_at(t.peer->in, 48), 0xFFFFFFFFu);
  EXPECT_EQ(t.peer->end, RawPeer::End::kReset);
}

TEST(SockHello, bad_type_is_closed) {
  Passive t;
  Bytes hello = raw_hello(3, kOther, kUs, 1);
  hello[48] = std::byte{9};
  t.say(raw_request(kUs) + hello);
  EXPECT_TRUE(t.peer->in.empty());
  EXPECT_EQ(t.peer->end, RawPeer::End::kFin);
}

TEST(SockHello, incomplete_is_closed_after_accept_timeout) {
  Passive t;
  Bytes hello = raw_hello(3, kOther, kUs, 1);
  hello[4] = std::byte{4};  // 80 bytes announced
  t.say(raw_request(kUs) + hello, 4900ms);
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
  t.rig.run_for(200ms);
  EXPECT_EQ(t.peer->end, RawPeer::End::kFin);
  EXPECT_TRUE(t.peer->in.empty());
}

TEST(SockHello, foreign_destination_and_zero_source_are_accepted) {
  Passive t;
  t.say(raw_request(kUs) + raw_hello(3, kOther, "10.0.0.77@tcp", 1));
  EXPECT_EQ(u32_at(t.peer->in, 48), 1u);
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
  EXPECT_EQ(t.node->take_trace(), "up 10.0.0.254@tcp");
}

// Each version gets an answer in the same version, with the inverse type, and carries a message afterwards.
TEST(SockHello, each_version_is_answered_in_kind) {
  for (uint32_t version = 1; version <= 3; ++version) {
    Passive t;
    t.say(raw_request(kUs) + raw_hello(version, kOther, kUs, 3));
    ASSERT_EQ(t.peer->in.size(), version == 1 ? 72u : 56u) << version;
    if (version > 1) {
      EXPECT_EQ(u32_at(t.peer->in, 4), version);
      EXPECT_EQ(u32_at(t.peer->in, 48), 2u);
    }
    t.peer->send(raw_put(version, kOther, kUs, 5, 100));
    t.rig.run_for(100ms);
    ASSERT_EQ(t.node->received.size(), 1u) << version;
    EXPECT_TRUE(payload_right(t.node->received[0]));
    EXPECT_EQ(t.node->take_trace(), "up 10.0.0.254@tcp; rx PUT 5 ok");
    EXPECT_TRUE(t.rig.shut_down());
  }
}

TEST(SockHello, version_4_over_ipv6) {
  SockRig rig;
  SockNode& node = rig.add({.nids = {"fd00::2@tcp"}});
  RawPeer& peer = rig.foreign("fd00::1");
  peer.dial("fd00::2");
  peer.send(raw_request("fd00::2@tcp") + raw_hello(4, "fd00::1@tcp", "fd00::2@tcp", 1));
  rig.run_for(100ms);
  ASSERT_EQ(peer.in.size(), 80u);
  EXPECT_EQ(u32_at(peer.in, 4), 4u);
  peer.send(raw_put(4, "fd00::1@tcp", "fd00::2@tcp", 1, 3000));
  rig.run_for(100ms);
  EXPECT_EQ(node.take_trace(), "up fd00::1@tcp; rx PUT 1 ok");
  EXPECT_TRUE(rig.shut_down());
}

TEST(SockHello, second_control_gets_none_and_fin) {
  Passive t;
  t.say(raw_request(kUs) + raw_hello(3, kOther, kUs, 1));
  EXPECT_EQ(u32_at(t.peer->in, 48), 1u);
  RawPeer& second = t.rig.foreign("10.0.0.254");
  second.dial("10.0.0.2");
  second.send(raw_request(kUs) + raw_hello(3, kOther, kUs, 1));
  t.rig.run_for(100ms);
  ASSERT_EQ(second.in.size(), 56u);
  EXPECT_EQ(u32_at(second.in, 48), 0xFFFFFFFFu);
  EXPECT_EQ(second.end, RawPeer::End::kFin);
  EXPECT_EQ(t.peer->end, RawPeer::End::kOpen);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockHello, other_incarnation_closes_what_there_is_and_gets_none_once) {
  Passive t;
  t.say(raw_request(kUs) + raw_hello(3, kOther, kUs, 1, 100));
  EXPECT_EQ(u32_at(t.peer->in, 48), 1u);
  RawPeer& second = t.rig.foreign("10.0.0.254");
  const auto dial = [&] {
    second.close();
    second.in.clear();
    second.dial("10.0.0.2");
    second.send(raw_request(kUs) + raw_hello(3, kOther, kUs, 1, 200));
    t.rig.run_for(100ms);
  };
  dial();
  EXPECT_EQ(u32_at(second.in, 48), 0xFFFFFFFFu);
  EXPECT_EQ(second.end, RawPeer::End::kFin);
  EXPECT_EQ(t.peer->end, RawPeer::End::kFin);
  dial();
  EXPECT_EQ(u32_at(second.in, 48), 1u);
  EXPECT_EQ(second.end, RawPeer::End::kOpen);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockHello, peer_is_forgotten_with_its_last_connection) {
  Passive t;
  t.say(raw_request(kUs) + raw_hello(3, kOther, kUs, 1, 100));
  t.peer->close();
  t.rig.run_for(100ms);
  t.say(raw_request(kUs) + raw_hello(2, kOther, kUs, 1, 200));  // other incarnation, other version
  EXPECT_EQ(u32_at(t.peer->in, 48), 1u);
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockHello, user_space_peer_gets_a_made_up_identity) {
  SockNodeOptions options;
  options.config.accept = socklnd::AcceptMode::kAll;
  Passive t(options);
  t.dial(false).send(raw_request(kUs) + raw_hello(3, "10.9.9.9@tcp", kUs, 1));
  t.rig.run_for(100ms);
  EXPECT_EQ(u32_at(t.peer->in, 48), 1u);
  t.peer->in.clear();
  t.peer->send(raw_put(3, "10.9.9.9@tcp", kUs, 1, 10));
  t.rig.run_for(100ms);
  ASSERT_EQ(t.node->received.size(), 1u);
  const wire::Header& header = t.node->received[0].header;
  EXPECT_EQ(header.src_nid, t.node->received[0].from_nid);
  EXPECT_EQ(header.src_nid.address_v4(), 0x0A0000FEu);
  EXPECT_EQ(header.src_pid, kUserPidFlag | 60999u);
  // An answer to that process finds its connection; one to another process is not dialled.
  wire::Header answer;
  answer.type = wire::MsgType::kPut;
  answer.src_nid = header.dest_nid;
  answer.dest_nid = header.src_nid;
  answer.dest_pid = header.src_pid;
  t.node->send(kOther, answer);
  answer.dest_pid = kUserPidFlag | 1;
  t.node->send(kOther, answer);
  t.rig.run_for(100ms);
  EXPECT_EQ(t.peer->in.size(), 24u + 72u);
  EXPECT_EQ(t.node->take_trace(), "up 10.0.0.254@tcp; rx PUT 1 ok; tx 2 EHOSTUNREACH/REMOTE_ERROR; tx 1 ok");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockHello, unprivileged_ports_believes_the_hello) {
  SockNodeOptions options;
  options.config.unprivileged_ports = true;
  Passive t(options);
  t.dial(false).send(raw_request(kUs) + raw_hello(3, "10.9.9.9@tcp", kUs, 1));
  t.rig.run_for(100ms);
  EXPECT_EQ(t.node->take_trace(), "up 10.9.9.9@tcp");
  EXPECT_TRUE(t.rig.shut_down());
}

// Goal: an IPv6 NI gets a HELLO of a version without room for an IPv6 NID. The node answers in version 4, closes the
// connection, and keeps running.
TEST(SockHello, ipv6_ni_answers_older_versions_in_version_4) {
  for (const uint32_t version : {1u, 2u, 3u}) {
    SockRig rig;
    rig.add({.nids = {"fd00::2@tcp"}});
    RawPeer& peer = rig.foreign("fd00::1");
    peer.dial("fd00::2");
    peer.send(raw_request("fd00::2@tcp") + raw_hello(version, "10.0.0.1@tcp", "10.0.0.2@tcp", 1));
    rig.run_for(100ms);
    ASSERT_GE(peer.in.size(), 8u) << version;
    EXPECT_EQ(u32_at(peer.in, 4), 4u) << version;
    EXPECT_NE(peer.end, RawPeer::End::kOpen) << version;
    EXPECT_TRUE(rig.shut_down());
  }
}

TEST(SockHello, user_space_peer_over_ipv6_is_refused) {
  SockRig rig;
  SockNodeOptions options{.nids = {"fd00::2@tcp"}};
  options.config.accept = socklnd::AcceptMode::kAll;
  rig.add(options);
  RawPeer& peer = rig.foreign("fd00::1");
  peer.dial("fd00::2", false);
  peer.send(raw_request("fd00::2@tcp") + raw_hello(4, "fd00::1@tcp", "fd00::2@tcp", 1));
  rig.run_for(100ms);
  EXPECT_TRUE(peer.in.empty());
  EXPECT_NE(peer.end, RawPeer::End::kOpen);
}

TEST(SockAcceptor, oldest_half_open_handshake_gives_way) {
  SockNodeOptions options;
  options.config.half_open_max = 4;
  Passive t(options);
  std::vector<RawPeer*> peers;
  for (int i = 0; i < 6; ++i) {
    peers.push_back(&t.rig.foreign(("10.0.1." + std::to_string(i + 1)).c_str()));
    peers.back()->dial("10.0.0.2");
    t.rig.run_for(10ms);
  }
  for (int i = 0; i < 6; ++i) EXPECT_EQ(peers[size_t(i)]->end, i < 2 ? RawPeer::End::kFin : RawPeer::End::kOpen) << i;
}

// Goal: connections that never say HELLO, from one address, do not push out the handshake of another address.
TEST(SockAcceptor, half_open_handshakes_of_the_address_with_the_most_give_way) {
  SockNodeOptions options;
  options.config.half_open_max = 4;
  Passive t(options);
  RawPeer& client = t.say(raw_request(kUs), 10ms);
  std::vector<RawPeer*> flood;
  for (int i = 0; i < 12; ++i) {
    flood.push_back(&t.rig.foreign("10.0.1.1"));
    flood.back()->dial("10.0.0.2");
    t.rig.run_for(10ms);
  }
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(flood[i]->end, i < 9 ? RawPeer::End::kFin : RawPeer::End::kOpen) << i;
  client.send(raw_hello(3, "10.0.0.254@tcp", kUs, 1));
  t.rig.run_for(10ms);
  EXPECT_EQ(client.in.size(), 56u);
  EXPECT_EQ(client.end, RawPeer::End::kOpen);
  EXPECT_EQ(t.node->take_trace(), "up 10.0.0.254@tcp");
  EXPECT_TRUE(t.rig.shut_down());
}

TEST(SockAcceptor, accept_none_does_not_listen) {
  SockNodeOptions options;
  options.config.accept = socklnd::AcceptMode::kNone;
  Passive t(options);
  t.dial();
  t.rig.run_for(100ms);
  EXPECT_EQ(t.peer->connect_error, -ECONNREFUSED);
}

}  // namespace
}  // namespace ulnet::test
