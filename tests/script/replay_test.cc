// Captures of real LNet at the level of the LND. Our node takes a kernel's place, and a fake core submits the messages
// of the kernel's core. The bytes on each connection must equal the kernel's, except the incarnation. So these tests
// cover acceptor, HELLO, order and choice of connections, framing, cookies and acks. LNet's answers are tested in
// tests/replay.
#include "tests/script/replay.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dataplane/base/nid_text.h"
#include "tests/script/sock_rig.h"
#include "tests/wire/decode.h"

namespace ulnet::test {
namespace {

using End = ReplayConnection::End;

/// Blanks our incarnation in a stream that begins with a handshake.
Bytes masked(Bytes stream, Side side, uint32_t version, bool large_nid) {
  const size_t at = (side == Side::kDialler ? (large_nid ? 28 : 16) : 0) + (version == 4 ? 56 : version == 1 ? 32 : 32);
  for (size_t i = at; i < at + 8 && i < stream.size(); ++i) stream[i] = std::byte{0};
  return stream;
}

/// Byte offset of the first difference, or npos.
size_t difference(const Bytes& a, const Bytes& b) {
  const size_t shorter = std::min(a.size(), b.size());
  for (size_t i = 0; i < shorter; ++i)
    if (a[i] != b[i]) return i;
  return a.size() == b.size() ? std::string::npos : shorter;
}

std::string nid_string(const IpAddress& address, Net net) {
  const auto& b = address.bytes;
  if (address.v6) return nid_text(Nid::v6(net, b));
  return nid_text(Nid::v4(net, (uint32_t{b[0]} << 24) | (uint32_t{b[1]} << 16) | (uint32_t{b[2]} << 8) | b[3]));
}

struct Stage {
  Stage(const char* name, std::vector<IpAddress> ours, std::vector<IpAddress> theirs, SockNodeOptions options = {},
        const SimTcpOptions& tcp = {}, bool by_time = false, Net net = Net::of(NetType::kTcp, 0))
      : capture(pcap_read(capture_path(name))), rig(tcp), our_messages(replay_messages(capture, ours, net)) {
    EXPECT_EQ(capture.error, "");
    options.config.zc_min_payload = 16384;  // as upstream, whose bytes these are
    options.nids.clear();
    for (const IpAddress& address : ours) options.nids.push_back(nid_string(address, net));
    node = &rig.add(options);
    replay = std::make_unique<Replay>(rig.tcp, capture, ReplayOptions{theirs, net, by_time, 10s});
    rig.also.push_back([this](Instant now) { return replay->turn(now); });
    for (const ReplayMessage& message : replay_messages(capture, theirs, net)) their_times.push_back(message.began);
  }

  /// The puppet: submits our next message once all that came before it in the capture have arrived.
  bool submit_next() {
    if (submitted == our_messages.size() || !replay->started()) return false;
    const ReplayMessage& message = our_messages[submitted];
    const size_t before =
        size_t(std::lower_bound(their_times.begin(), their_times.end(), message.began) - their_times.begin());
    if (node->received.size() < before) return false;
    ++submitted;
    const auto ni = std::find(node->nids.begin(), node->nids.end(), message.from) - node->nids.begin();
    node->send_exact(message.to, message.decoded, message.payload, uint32_t(ni) + 1);
    return true;
  }

  bool run() {
    rig.also.push_back([this](Instant) { return submit_next(); });
    return rig.run_until([&] { return replay->done() && submitted == our_messages.size() && node->unfinished() == 0; },
                         120s);
  }

  /// Every connection carries what the kernel sent on it.
  void compare() {
    EXPECT_EQ(replay->forced(), 0u);
    EXPECT_EQ(replay->unexpected(), 0u);
    for (const auto& c : replay->connections()) {
      const Side side = other(c->theirs);
      const bool v6 = c->captured->dialler.ipv6, mid = c->captured->opened_mid;
      const Bytes ours = mid ? c->sent : masked(c->sent, side, v6 ? 4 : 3, v6);
      const Bytes kernels = mid ? c->expected() : masked(c->expected(), side, v6 ? 4 : 3, v6);
      const size_t at = difference(ours, kernels);
      EXPECT_EQ(at, std::string::npos) << c->name() << ": " << ours.size() << " and " << kernels.size() << " bytes";
    }
  }

  Capture capture;
  SockRig rig;
  SockNode* node;
  std::unique_ptr<Replay> replay;
  std::vector<ReplayMessage> our_messages;
  std::vector<Duration> their_times;
  size_t submitted = 0;
};

/// Takes one of two parties' place, then the other's.
void both_places(const char* name, std::vector<const char*> first, std::vector<const char*> second,
                 SockNodeOptions options = {}, Net net = Net::of(NetType::kTcp, 0)) {
  std::vector<IpAddress> a, b;
  for (const char* text : first) a.push_back(ip(text));
  for (const char* text : second) b.push_back(ip(text));
  for (const bool swap : {false, true}) {
    SCOPED_TRACE(std::string(name) + (swap ? ", second party" : ", first party"));
    Stage stage(name, swap ? b : a, swap ? a : b, options, {}, false, net);
    EXPECT_TRUE(stage.run()) << "waits for " << stage.replay->waiting() << "; submitted " << stage.submitted << " of "
                             << stage.our_messages.size() << ", received " << stage.node->received.size();
    stage.rig.run_for(100ms);
    stage.compare();
    EXPECT_TRUE(stage.rig.shut_down());
  }
}

TEST(SockReplay, pings) {
  both_places("a1-tcp-ping-1to2", {"10.10.0.1"}, {"10.10.0.2"});
  both_places("a2-tcp-ping-2to1", {"10.10.0.1"}, {"10.10.0.2"});
}

TEST(SockReplay, nine_connections) {
  SockNodeOptions options;
  options.tunables.conns_per_peer = 4;
  both_places("i2-tcp-conns-per-peer-4-ping", {"10.10.0.1"}, {"10.10.0.2"}, options);
}

TEST(SockReplay, ipv6) {
  both_places("h1-tcp-ipv6-large-nid-ping-discover", {"fd00:10::1"}, {"fd00:10::2"});
}

TEST(SockReplay, selftest_with_bulk_and_zero_copy) {
  for (const char* name :
       {"c1-tcp-lst-ping", "c2-tcp-lst-brw-write-4k", "c3-tcp-lst-brw-read-4k", "c4-tcp-lst-brw-write-1m",
        "c5-tcp-lst-brw-read-1m", "c6-tcp-lst-brw-write-64k-conc2", "i1-tcp-csum-enabled-lst-brw-write-4k"})
    both_places(name, {"10.10.0.1"}, {"10.10.0.2"});
}

TEST(SockReplay, several_rails) {
  both_places("b1-tcp-mr-discover-push", {"10.10.0.1", "10.10.0.101"}, {"10.10.0.2", "10.10.0.102"});
  both_places("h2-tcp-ipv4-and-ipv6-nid-discover", {"10.10.0.1", "fd00:10::1"}, {"10.10.0.2", "fd00:10::2"});
}

// The router's two sides, and its neighbours: messages whose source or destination is not the peer.
TEST(SockReplay, routed) {
  for (const char* name : {"d1-routed-ping-tcp1side", "d2-routed-lst-ping-tcp1side",
                           "d3-routed-lst-brw-write-4k-tcp1side", "d4-routed-lst-brw-read-4k-tcp1side"})
    both_places(name, {"10.10.0.1"}, {"10.10.0.3"}, {}, Net::of(NetType::kTcp, 1));
  for (const char* name : {"d1-routed-ping-tcp2side", "d2-routed-lst-ping-tcp2side",
                           "d3-routed-lst-brw-write-4k-tcp2side", "d4-routed-lst-brw-read-4k-tcp2side"})
    both_places(name, {"10.20.0.2"}, {"10.20.0.3"}, {}, Net::of(NetType::kTcp, 2));
}

TEST(SockReplay, crafted_requests_and_hellos) {
  struct {
    const char* name;
    End end;
    size_t at_least;  ///< bytes that the LND itself answers; LNet's answers are not compared here
  } cases[] = {{"accmagic", End::kReset, 0}, {"accnid", End::kFin, 0},  {"accver", End::kReset, 16},
               {"badtype", End::kFin, 56},   {"hctype", End::kFin, 0},  {"hdst", End::kOpen, 56},
               {"hmagic", End::kReset, 0},   {"hsrc", End::kOpen, 56},  {"hv4", End::kFin, 0},
               {"hver", End::kReset, 56},    {"hver1", End::kOpen, 72}, {"hver2", End::kOpen, 56},
               {"noop", End::kFin, 56},      {"ping", End::kOpen, 56},  {"unpriv", End::kFin, 0}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Stage stage(("g3-tcp-crafted-" + std::string(c.name)).c_str(), {ip("10.10.0.2")}, {ip("10.10.0.254")});
    stage.rig.also.push_back([&](Instant) { return stage.submit_next(); });
    // The script hangs up at the end: looked at before that.
    const auto& connection = *stage.replay->connections().at(0);
    const size_t expected = connection.expected().size();
    stage.rig.run_until(
        [&] {
          if (c.end != End::kOpen) return connection.end != End::kOpen;
          return stage.replay->done() && connection.sent.size() >= expected;
        },
        20s);
    const End end = connection.end;
    EXPECT_EQ(stage.replay->forced(), 0u);
    EXPECT_EQ(end != End::kOpen, c.end != End::kOpen);
    // unpriv: upstream closed over an unread request, hence its RST. Here the close comes before the request.
    EXPECT_EQ(int(end), int(c.end));
    EXPECT_GE(connection.sent.size(), c.at_least);
    if (c.at_least == 0) {
      EXPECT_EQ(connection.sent.size(), 0u) << "refused without a word";
    }
    const uint32_t version = std::string(c.name) == "hver1" ? 1 : 3;
    EXPECT_EQ(difference(masked(connection.sent, Side::kPassive, version, false),
                         masked(connection.expected(), Side::kPassive, version, false)),
              std::string::npos)
        << connection.sent.size() << " and " << connection.expected().size() << " bytes";
    EXPECT_TRUE(stage.rig.shut_down());
  }
}

// Both nodes dial at once over 40 ms. No message is lost, and only the lower NID gets NONE.
TEST(SockReplay, connection_race) {
  for (const bool low : {true, false}) {
    SCOPED_TRACE(low ? "as the lower NID" : "as the higher NID");
    const IpAddress one = ip("10.10.0.1"), two = ip("10.10.0.2");
    const std::vector<IpAddress> ours = {low ? one : two}, theirs = {low ? two : one};
    Stage stage("g4-tcp-connection-race", ours, theirs, {}, {.delay = 40ms}, true);
    ASSERT_EQ(stage.our_messages.size(), 2u);
    // Our core's GET was there when our kernel dialled.
    Duration dialled = 1h;
    for (const TcpConversation& c : stage.capture.conversations)
      if (ip_of(c.dialler) == ours[0]) dialled = std::min(dialled, c.events.front().time);
    stage.rig.run_for(dialled + 1us);
    stage.submitted = 1;
    stage.node->send_exact(stage.our_messages[0].to, stage.our_messages[0].decoded, {});
    stage.rig.also.push_back([&](Instant) { return stage.submit_next(); });
    EXPECT_TRUE(
        stage.rig.run_until([&] { return stage.node->received.size() == 2 && stage.node->unfinished() == 0; }, 60s))
        << stage.replay->waiting();
    unsigned nones = 0, opened = 0;
    for (const auto& c : stage.replay->connections()) {
      opened += c->opened;
      if (c->theirs == Side::kPassive || c->sent.size() < 56) continue;
      uint32_t ctype = 0;
      std::memcpy(&ctype, c->sent.data() + 48, 4);
      nones += ctype == 0xFFFFFFFF;
    }
    EXPECT_EQ(nones > 0, !low);
    EXPECT_GE(opened, 3u);
    EXPECT_TRUE(stage.rig.shut_down());
  }
}

}  // namespace
}  // namespace ulnet::test
