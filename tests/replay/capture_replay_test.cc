// The kernel's captures replay. Our whole node takes the kernel's place and gets the bytes that the kernel's partner
// sent. The answers of our node equal the kernel's, byte for byte. The exceptions are handles, incarnations, ports and
// the sequence number of ping infos. By sequence; by time as well where a test says so.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/api/show_values.h"
#include "control/faults/fault_rules.h"
#include "control/health/health.h"
#include "dataplane/base/nid_text.h"
#include "tests/replay/kernel_place.h"
#include "tests/replay/selftest_server.h"

namespace ulnet::test {
namespace {

constexpr const char* kOne = "10.10.0.1@tcp";
constexpr const char* kTwo = "10.10.0.2@tcp";

Capture read(const std::string& name) {
  return pcap_read(capture_path(name));
}

IpAddress address_of(const std::string& nid) {
  return ip(nid.substr(0, nid.find('@')).c_str());
}

/// The "health stats" of a peer NI as `peer show -v 3` prints them, in one line. Without `next_ping`, which counts from
/// the start of the machine, and without ulnet's own key.
std::string health_stats(KernelPlace& place, const std::string& nid) {
  Control& c = place.node().control();
  const Peer& peer = *c.peers->find(*nid_parse(nid))->peer;
  const config::Doc doc = api::peer_doc({peer_value(c, peer)}, 3);
  std::string text;
  for (const auto& ni : doc.find("peer")->at(0).find("peer ni")->entries()) {
    if (ni.value.find("nid")->text() != nid) continue;
    for (const auto& one : ni.value.find("health stats")->entries())
      if (one.key != "next_ping" && one.key != "failure rate")
        text += (text.empty() ? "" : ", ") + one.key + ": " + one.value.text();
  }
  return text;
}

/// The same of an NI of our node, from `net show -v 3`, with its status in front.
std::string ni_health_stats(KernelPlace& place, const std::string& nid) {
  const config::Doc doc = api::net_doc(net_values(place.node().control(), {}), 3);
  std::string text;
  for (const auto& net : doc.find("net")->entries())
    for (const auto& ni : net.value.find("local NI(s)")->entries()) {
      if (ni.value.find("nid")->text() != nid) continue;
      text = "status: " + ni.value.find("status")->text();
      for (const auto& one : ni.value.find("health stats")->entries()) text += ", " + one.key + ": " + one.value.text();
    }
  return text;
}

/// The party that pings, then the one that is pinged.
void ping_from_either_side(const char* name, const char* pinging, const char* pinged, int conns_per_peer = 1) {
  SCOPED_TRACE(name);
  {
    SCOPED_TRACE("as the dialling party");
    KernelPlace place({.nis = {pinging}, .conns_per_peer = conns_per_peer}, {address_of(pinged)});
    place.play(read(name));
    EXPECT_EQ(place.pings(), 1u);
    EXPECT_EQ(place.ping_and_wait(pinged), 0);
    place.run_to_the_end();
    EXPECT_EQ(place.difference(), "");
  }
  {
    SCOPED_TRACE("as the other party");
    KernelPlace place({.nis = {pinged}, .conns_per_peer = conns_per_peer}, {address_of(pinging)});
    place.play(read(name));
    EXPECT_EQ(place.pings(), 0u);
    place.run_to_the_end();
    EXPECT_EQ(place.difference(), "");
  }
}

TEST(CaptureReplay, a1_a2_ping) {
  ping_from_either_side("a1-tcp-ping-1to2", kOne, kTwo);
  ping_from_either_side("a2-tcp-ping-2to1", kTwo, kOne);
}

// Nine connections in the kernel's order of types.
TEST(CaptureReplay, i2_four_connections_per_peer) {
  ping_from_either_side("i2-tcp-conns-per-peer-4-ping", kOne, kTwo, 4);
}

class Crafted : public testing::TestWithParam<const char*> {};

// A script's right and wrong requests, HELLOs and messages: the answers to them, and the end of the connection.
TEST_P(Crafted, answered_and_closed_as_the_kernel_does) {
  KernelPlace place({.nis = {kTwo}}, {ip("10.10.0.254")});
  Capture capture = read("g3-tcp-crafted-" + std::string(GetParam()));
  // Refused for its port it is closed at once: RST or FIN depends on whether its bytes have come by then.
  if (GetParam() == std::string("unpriv"))
    for (TcpEvent& event : capture.conversations[0].events)
      if (event.kind == TcpEvent::Kind::kRst) event.kind = TcpEvent::Kind::kFin;
  place.play(capture);
  place.run_to_the_end(20s);
  EXPECT_EQ(place.difference(), "");
}

INSTANTIATE_TEST_SUITE_P(g3, Crafted,
                         testing::Values("accmagic", "accnid", "accver", "badtype", "hctype", "hdst", "hmagic", "hsrc",
                                         "hv4", "hver", "hver2", "noop", "ping", "unpriv"),
                         [](const auto& of) { return std::string(of.param); });

// Both dial at once, for CONTROL, and again for the one BULK connection that the lower NID still lacks then. The kernel
// tried that after 0.2 s, we do after 1 s: until then the partner waits with it here.
TEST(CaptureReplay, g4_connection_race_as_the_lower_nid) {
  KernelPlace place({.nis = {kOne}}, {address_of(kTwo)});
  Capture capture = read("g4-tcp-connection-race");
  for (TcpConversation& c : capture.conversations)
    for (TcpEvent& event : c.events) event.time += c.dialler.port == 1021 ? 1s : 0s;
  place.play(capture, true);
  EXPECT_EQ(place.ping_and_wait(kTwo), 0);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

TEST(CaptureReplay, g4_connection_race_as_the_higher_nid) {
  KernelPlace place({.nis = {kTwo}}, {address_of(kOne)});
  place.play(read("g4-tcp-connection-race"));
  EXPECT_EQ(place.ping_and_wait(kOne), 0);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// The partner stops in the middle of the fourth ping, and the node gives up its connections. The dials for the fifth
// ping fail until the partner is back. The partner's late REPLY changes nothing.
TEST(CaptureReplay, g1_peer_frozen_then_resumed) {
  KernelPlace place({.nis = {kOne}, .lnd_timeout = 5}, {address_of(kTwo)});
  place.play(read("g1-tcp-peer-frozen-then-resumed"));
  ASSERT_EQ(place.pings(), 14u);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.partners_silent(true);
  EXPECT_NE(place.ping_and_wait(kTwo, 5s), 0);
  place.run_for(3s);
  place.ping(kTwo);
  place.run_for(2s);
  place.partners_silent(false);
  EXPECT_TRUE(place.run_until([&] { return place.ping_ended(); }, 20s));
  EXPECT_EQ(place.ping_error(), 0);
  for (int i = 6; i <= 14; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// The same peer as `peer show -v 4` of the kernel shows it, after two messages got no connection.
// The only NI of a peer keeps its health.
TEST(CaptureReplay, g1_frozen_peer_is_shown_as_by_the_kernel) {
  KernelPlace place({.nis = {kOne}, .lnd_timeout = 5}, {address_of(kTwo)});
  place.play(read("g1-tcp-peer-frozen-then-resumed"));
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.partners_silent(true);
  EXPECT_NE(place.ping_and_wait(kTwo, 8s), 0) << "its connection is closed after 5 s";
  Control& c = place.node().control();
  const PeerNi& ni = *c.peers->find(*nid_parse(kTwo));
  EXPECT_EQ(health_stats(place, kTwo),
            "health value: 1000, dropped: 0, timeout: 0, error: 0, network timeout: 0, ping_count: 0");
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(place.ping_and_wait(kTwo, 12s), 0) << i;
    place.run_for(2100ms);  // the next attempt to connect
  }
  place.ping(kTwo, 12s);
  place.run_for(1s);
  EXPECT_EQ(health_stats(place, kTwo),
            "health value: 1000, dropped: 0, timeout: 0, error: 0, network timeout: 2, ping_count: 0");
  const api::PeerNiShow shown = peer_value(c, *ni.peer).nis.at(0);
  EXPECT_EQ(shown.tx_q_num_of_buf, 72);
  EXPECT_EQ(shown.available_tx_credits, 7);
  EXPECT_EQ(shown.min_tx_credits, 7);
}

// The partner crashes in the middle of the third ping. For a while its machine has no LNet; then it is back with
// another incarnation.
TEST(CaptureReplay, g1b_peer_killed_and_rebooted) {
  KernelPlace place({.nis = {kOne}, .lnd_timeout = 5}, {address_of(kTwo)});
  Capture before = read("g1b-tcp-peer-killed-and-rebooted"), after = before;
  std::erase_if(before.conversations, [](const TcpConversation& c) { return !c.opened_mid; });
  std::erase_if(after.conversations, [](const TcpConversation& c) { return c.opened_mid || !c.established; });
  ASSERT_EQ(before.conversations.size(), 3u);
  ASSERT_EQ(after.conversations.size(), 3u);
  for (TcpConversation& c : before.conversations)  // drop the booting kernel's RSTs to unknown connections
    std::erase_if(c.events, [](const TcpEvent& e) { return e.kind == TcpEvent::Kind::kRst; });
  place.play(before);
  ASSERT_EQ(place.pings(), 3u);
  ASSERT_TRUE(place.run_until([&] { return place.replay().started(); }, 5s));
  for (int i = 1; i <= 2; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.partners_silent(true);
  EXPECT_NE(place.ping_and_wait(kTwo, 5s), 0);
  place.run_for(3s);
  place.partners_silent(false);  // only so that the third ping and the FINs can be seen
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");

  // Two dials fail: a SYN without an answer until a RST comes, then a SYN that is refused at once. The next attempt may
  // come a second after the first failure, and two seconds after the second.
  const size_t dials = place.dials();
  place.partners_silent(true);
  place.ping(kTwo);
  place.run_for(2s);
  place.partners_dead();
  place.partners_silent(false);
  EXPECT_TRUE(place.run_until([&] { return place.ping_ended(); }, 20s));
  EXPECT_NE(place.ping_error(), 0);
  place.run_for(1100ms);
  EXPECT_NE(place.ping_and_wait(kTwo), 0);
  EXPECT_EQ(place.dials(), dials + 2);
  place.run_for(2100ms);
  place.play(after);
  for (size_t i = place.pings(); i > 0; --i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// As the router: pinged and pushed to from both nets, and forwarding between them; it says so from 8.8 s on. The two
// sides of the capture hang together by their times, so the partners keep to these.
TEST(CaptureReplay, d1_as_the_router) {
  KernelPlace place({.nis = {"10.10.0.3@tcp1", "10.20.0.3@tcp2"}}, {ip("10.10.0.1"), ip("10.20.0.2")});
  place.play(merge_captures({"d1-routed-ping-tcp1side", "d1-routed-ping-tcp2side"}), true);
  EXPECT_EQ(place.pings(), 0u);
  place.run_for(8800ms);
  place.apply({config::SetBuffers{16, 16, 4}, config::SetRouting{true}});
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// As a client, whose only route leads through the router. The kernel pings the router every 5.1 s, and pushes each time
// although nothing has changed.
TEST(CaptureReplay, d1_as_the_client) {
  KernelPlace place({.nis = {"10.10.0.1@tcp1"}, .router_check = 5}, {ip("10.10.0.3")});
  place.play(read("d1-routed-ping-tcp1side"), true);
  place.run_for(400ms);  // the kernel's sixth check comes 0.5 s later than 25 s after its first
  place.apply({config::RouteAdd{{.net = *net_parse("tcp2"), .gateway = *nid_parse("10.10.0.3@tcp1")}}});
  place.run_for(24300ms);
  EXPECT_EQ(place.ping_and_wait("10.20.0.2@tcp2"), 0);
  place.run_for(330ms);
  EXPECT_EQ(place.discover_and_wait("10.20.0.2@tcp2"), 0);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// Two rails: node 1 discovers node 2, whose push comes over the other rail; pings alternate.
TEST(CaptureReplay, b1_discovery_as_the_active_node) {
  KernelPlace place({.nis = {kOne, "10.10.0.101@tcp"}}, {address_of(kTwo), ip("10.10.0.102")});
  place.play(read("b1-tcp-mr-discover-push"));
  EXPECT_EQ(place.discover_and_wait(kTwo), 0);
  place.run_for(1s);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}
TEST(CaptureReplay, b1_discovery_as_the_passive_node) {
  KernelPlace place({.nis = {kTwo, "10.10.0.102@tcp"}}, {address_of(kOne), ip("10.10.0.101")});
  place.play(read("b1-tcp-mr-discover-push"));
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// The nodes have discovered each other. Then node 2 has one NI less, and later has it again.
TEST(CaptureReplay, b2_b3_as_the_node_that_gets_the_push) {
  for (const char* name : {"b2-tcp-mr-net-del-push", "b3-tcp-mr-net-add-push"}) {
    SCOPED_TRACE(name);
    KernelPlace place({.nis = {kOne, "10.10.0.101@tcp"}}, {address_of(kTwo), ip("10.10.0.102")});
    place.play(read("b1-tcp-mr-discover-push"));
    EXPECT_EQ(place.discover_and_wait(kTwo), 0);
    place.run_for(2s);
    place.play(read(name));
    place.run_to_the_end();
    EXPECT_EQ(place.difference(), "");
    EXPECT_EQ(place.known_nids(kTwo), name[1] == '2' ? 1u : 2u);
  }
}

// With `now`, as the kernel does: the node first closes the connections of the NI, then pushes to the peer.
TEST(CaptureReplay, b2_b3_as_the_node_that_changes) {
  KernelPlace place({.nis = {kTwo, "10.10.0.102@tcp"}}, {address_of(kOne), ip("10.10.0.101")});
  place.play(read("b1-tcp-mr-discover-push"), true);  // the rail used last is not the next to be chosen
  place.run_to_the_end();
  const Nid second = *nid_parse("10.10.0.102@tcp");
  place.play(read("b2-tcp-mr-net-del-push"));
  EXPECT_TRUE(place.run_until([&] { return place.replay().started(); }, 10s));
  place.apply({config::NetDel{.net = second.net(), .interface = {}, .nid = second, .now = true}});
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
  place.play(read("b3-tcp-mr-net-add-push"));
  EXPECT_TRUE(place.run_until([&] { return place.replay().started(); }, 10s));
  config::NetAdd add;
  add.net = second.net();
  add.ni.nid = second;
  place.apply({add});
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// As the server of a selftest over both rails. Bulk and reply of each request go between the two NIDs of the request.
// Each set of connections has its own zero-copy cookies.
TEST(CaptureReplay, b4_selftest_over_both_rails_as_the_server) {
  const std::vector<IpAddress> ours{address_of(kTwo), ip("10.10.0.102")};
  KernelPlace place({.nis = {kTwo, "10.10.0.102@tcp"}}, {address_of(kOne), ip("10.10.0.101")});
  place.play(read("b1-tcp-mr-discover-push"), true);
  place.run_to_the_end();
  const Capture capture = read("b4-tcp-mr-lst-brw-write-64k-both-rails");
  SelftestServer server(place.node(), capture, ours);
  place.application = [&] { server.poll(); };
  place.play(capture, true);  // a REPLY comes over another connection than its GET
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
  EXPECT_EQ(server.answered(), 18u);
  place.application = nullptr;
}

// An NI of node 2 loses its link and has it again. The kernel sent a recovery ping over that NI, and got no answer. The
// replay leaves out the end of the connections that followed from it, so the file ends after its last push.
// `recovery_ping`: with that ping.
Capture link_down_and_up(bool recovery_ping = false) {
  Capture capture = read("g5-tcp-mr-link-down-up-push");
  for (TcpConversation& c : capture.conversations) {
    std::erase_if(c.events, [](const TcpEvent& event) { return event.time > 5s; });
    if (!recovery_ping && c.passive.text() == "10.10.0.101:988")
      std::erase_if(c.events, [](const TcpEvent& event) { return event.from == Side::kPassive; });
  }
  std::erase_if(capture.conversations, [](const TcpConversation& c) { return c.events.empty() && !c.opened_mid; });
  return capture;
}

TEST(CaptureReplay, g5_as_the_node_that_gets_the_push) {
  KernelPlace place({.nis = {kOne, "10.10.0.101@tcp"}}, {address_of(kTwo), ip("10.10.0.102")});
  place.play(read("b1-tcp-mr-discover-push"));
  EXPECT_EQ(place.discover_and_wait(kTwo), 0);
  // Further pings of the kernel stayed behind the first one in its socket, and are not in the capture.
  place.apply({config::SetValue{"recovery_limit", 4}});
  place.run_for(2s);
  place.play(link_down_and_up(true), true);
  place.run_for(4240ms);
  EXPECT_EQ(health_stats(place, kTwo),
            "health value: 1000, dropped: 0, timeout: 0, error: 0, network timeout: 0, ping_count: 0");
  EXPECT_EQ(health_stats(place, "10.10.0.102@tcp"),
            "health value: 900, dropped: 0, timeout: 0, error: 0, network timeout: 0, ping_count: 1");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
  EXPECT_EQ(place.health("10.10.0.102@tcp"), 1000);
}
// Having the link again the kernel pushes twice, first still with the old sequence number: we push once.
TEST(CaptureReplay, g5_as_the_node_that_changes) {
  KernelPlace place({.nis = {kTwo, "10.10.0.102@tcp"}}, {address_of(kOne), ip("10.10.0.101")});
  place.play(read("b1-tcp-mr-discover-push"), true);
  place.run_to_the_end();
  Capture capture = link_down_and_up();
  for (TcpConversation& c : capture.conversations)
    std::erase_if(c.events, [&](const TcpEvent& event) {
      return c.dialler.text() == "10.10.0.101:1023" && c.passive.text() == "10.10.0.2:988" && event.time > 4500ms;
    });
  place.play(capture, true);
  EXPECT_TRUE(place.run_until([&] { return place.replay().started(); }, 10s));
  place.link("10.10.0.102@tcp", false);
  place.run_for(4500ms);
  EXPECT_EQ(ni_health_stats(place, kTwo),
            "status: up, fatal_error: 0, health value: 1000, interrupts: 0, dropped: 0, aborted: 0, no route: 0, "
            "timeouts: 0, error: 0, ping_count: 0, next_ping: 0");
  EXPECT_EQ(ni_health_stats(place, "10.10.0.102@tcp"),
            "status: down, fatal_error: 1, health value: 1000, interrupts: 0, dropped: 0, aborted: 0, no route: 0, "
            "timeouts: 0, error: 0, ping_count: 0, next_ping: 0");
  place.link("10.10.0.102@tcp", true);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// Node 1 fails its own sends to one NI of node 2: pings avoid that NI, and recovery pings go to it. The failures end
// before the third recovery ping, which is answered. Values and times are those that the kernel showed. The kernel
// dials for the first recovery ping before it fails it. We fail it first, so we dial for the third.
TEST(CaptureReplay, g6_as_the_node_with_failures) {
  KernelPlace place({.nis = {kOne, "10.10.0.101@tcp"}}, {address_of(kTwo), ip("10.10.0.102")});
  place.play(read("b1-tcp-mr-discover-push"));
  EXPECT_EQ(place.discover_and_wait(kTwo), 0);
  place.run_for(2s);
  // The kernel's last two pings come before its last recovery ping, which is due at 17.0 s and sent at 17.8 s.
  Capture capture = read("g6-tcp-mr-injected-drops-health-recovery");
  for (TcpConversation& c : capture.conversations)
    for (TcpEvent& event : c.events)
      if (c.passive.text() == "10.10.0.2:988" && event.time > 17s) event.time -= 1s;
  place.play(capture, true);
  ASSERT_TRUE(place.run_until([&] { return place.replay().started(); }, 5s));
  const auto ill = [&] { return place.node().control().peers->find(*nid_parse("10.10.0.102@tcp")); };
  FaultRules& rules = place.node().control().faults;
  constexpr uint16_t kRemoteError = 1u << unsigned(LndStatus::kRemoteError);
  const Instant began = place.node().control().now;
  const auto now = [&] { return place.node().control().now - began; };
  ASSERT_TRUE(rules.add({.dest = {ill()->nid, kAnyNet}, .rate = 1, .failures = kRemoteError}));
  EXPECT_EQ(place.ping_and_wait(kTwo), 0);
  // The second ping fails on its way to the ill NI. The kernel reports that. We try another pair.
  for (int i = 0; i < 4; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  EXPECT_EQ(health_stats(place, kTwo),
            "health value: 1000, dropped: 0, timeout: 0, error: 0, network timeout: 0, ping_count: 0");
  EXPECT_EQ(health_stats(place, "10.10.0.102@tcp"),
            "health value: 900, dropped: 0, timeout: 0, error: 1, network timeout: 0, ping_count: 0");
  const Instant first = ill()->health.next_ping();
  EXPECT_EQ(place.node().control().health->recovering_peers(), std::vector{ill()->nid});

  ASSERT_TRUE(place.run_until([&] { return ill()->health.pings() == 2; }, 5s));
  place.run_for(1s);
  EXPECT_EQ(ill()->health.value(), 700);
  EXPECT_EQ((ill()->health.next_ping() - first + 100ms) / 1s, 6);
  ASSERT_TRUE(rules.del({.all = true}));
  struct Step {
    int health;
    Duration from, to;  // of the ping: the kernel looks each second only
    int next;           // s after the first ping
  };
  for (const Step& one : {Step{800, 7s, 7600ms, 14}, Step{900, 15s, 15800ms, 16}}) {
    ASSERT_TRUE(place.run_until([&] { return ill()->health.value() == one.health; }, 20s)) << one.health;
    EXPECT_GE(now(), one.from);
    EXPECT_LE(now(), one.to);
    EXPECT_EQ(ill()->health.pings(), 0u);
    EXPECT_EQ((ill()->health.next_ping() - first + 100ms) / 1s, one.next);
  }
  place.run_for(16200ms - now());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  ASSERT_TRUE(place.run_until([&] { return ill()->health.value() == 1000; }, 5s));
  EXPECT_GE(now(), 17s);
  EXPECT_LE(now(), 17900ms);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// IPv4 and IPv6 together: the push comes over the other address family.
TEST(CaptureReplay, h2_discovery_as_the_active_node) {
  KernelPlace place({.nis = {kOne, "fd00:10::1@tcp"}}, {address_of(kTwo), ip("fd00:10::2")});
  place.play(read("h2-tcp-ipv4-and-ipv6-nid-discover"));
  EXPECT_EQ(place.discover_and_wait(kTwo), 0);
  place.run_for(100ms);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(place.ping_and_wait(kTwo), 0) << i;
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}
TEST(CaptureReplay, h2_discovery_as_the_passive_node) {
  KernelPlace place({.nis = {kTwo, "fd00:10::2@tcp"}}, {address_of(kOne), ip("fd00:10::1")});
  place.play(read("h2-tcp-ipv4-and-ipv6-nid-discover"));
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

TEST(CaptureReplay, h1_ipv6_as_the_pinged_party) {
  KernelPlace place({.nis = {"fd00:10::2@tcp"}}, {ip("fd00:10::1"), ip("10.10.0.1")});
  place.has_address_without_lnet(ip("10.10.0.2"));  // at the end its IPv4 address is dialled
  place.play(read("h1-tcp-ipv6-large-nid-ping-discover"));
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

// The comparison itself: each byte of the kernel's that is not masked, when it is another, is noticed.
TEST(CaptureReplayItself, any_wrong_byte_fails) {
  KernelPlace place({.nis = {kTwo}}, {address_of(kOne)});
  place.play(read("a1-tcp-ping-1to2"));
  place.run_to_the_end();
  ASSERT_EQ(place.difference(), "");
  size_t free = 0, bytes = 0;
  for (size_t c = 0; c < 3; ++c)
    for (size_t e = 0; e < place.capture().conversations[c].events.size(); ++e) {
      const TcpEvent& event = place.capture().conversations[c].events[e];
      if (event.from != Side::kPassive) continue;
      for (size_t i = 0; i < event.bytes.size(); ++i) {
        Capture wrong = place.capture();
        wrong.conversations[c].events[e].bytes[i] ^= std::byte{1};
        free += place.difference(wrong, {}).empty();
        ++bytes;
      }
    }
  EXPECT_EQ(bytes, 3 * 56u + 24 + 72 + 48);
  EXPECT_EQ(free, 3 * 8u + 4);  // incarnations and the sequence number
}

TEST(CaptureReplayItself, names_the_field_that_differs) {
  KernelPlace place({.nis = {kTwo}}, {address_of(kOne)});
  place.play(read("a1-tcp-ping-1to2"));
  place.run_to_the_end();
  Capture wrong = place.capture();
  auto& events = wrong.conversations[0].events;
  const auto reply =
      std::find_if(events.begin(), events.end(), [](const TcpEvent& e) { return e.bytes.size() == 144; });
  ASSERT_NE(reply, events.end());
  reply->bytes[24 + 72 + 12] = std::byte{9};
  EXPECT_NE(place.difference(wrong, {}).find("1 REPLY, pi_nnis: kernel 09 00 00 00  ulnet 02 00 00 00"),
            std::string::npos)
      << place.difference(wrong, {});
}

// Too much, too little, another end, another order: each is noticed.
TEST(CaptureReplayItself, any_other_course_fails) {
  KernelPlace place({.nis = {kTwo}}, {address_of(kOne)});
  place.play(read("a1-tcp-ping-1to2"));
  place.run_to_the_end();
  ASSERT_EQ(place.difference(), "");
  auto events_of = [](Capture& capture) -> std::vector<TcpEvent>& { return capture.conversations[2].events; };
  Capture longer = place.capture(), shorter = longer, ended = longer;
  events_of(longer).push_back({30s, Side::kPassive, TcpEvent::Kind::kData, {std::byte{0xC0}}});
  std::erase_if(events_of(shorter), [](const TcpEvent& e) { return e.from == Side::kPassive && !e.bytes.empty(); });
  events_of(ended).push_back({30s, Side::kPassive, TcpEvent::Kind::kFin, {}});
  EXPECT_NE(place.difference(longer, {}).find("kernel sent HELLO, 1 other bytes\n  ulnet sent HELLO\n"),
            std::string::npos);
  EXPECT_NE(place.difference(shorter, {}).find("kernel sent nothing\n  ulnet sent HELLO\n"), std::string::npos);
  EXPECT_NE(place.difference(ended, {}).find("kernel sends FIN, ulnet leaves it open"), std::string::npos);
  Capture swapped = place.capture();
  std::swap(swapped.conversations[1].events, swapped.conversations[2].events);
  EXPECT_NE(place.difference(swapped, {}).find("0 HELLO, ctype: kernel 02 00 00 00  ulnet 03 00 00 00"),
            std::string::npos);
}

}  // namespace
}  // namespace ulnet::test
