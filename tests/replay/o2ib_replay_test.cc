// The kernel's captures of o2ib replay with a whole node and o2iblnd in each place. The node's CM messages, messages
// and RDMA writes equal the kernel's, byte for byte but for the fields in o2ib_twin.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/base/nid_text.h"
#include "tests/replay/o2ib_place.h"

namespace ulnet::test {
namespace {

using Kind = O2ibEvent::Kind;

constexpr const char* kOne = "10.10.0.1@o2ib";
constexpr const char* kTwo = "10.10.0.2@o2ib";
constexpr const char* kThree = "10.10.0.3@o2ib";
const std::vector<std::string> kOneBoth{kOne, "10.10.0.101@o2ib"};
const std::vector<std::string> kTwoBoth{kTwo, "10.10.0.102@o2ib"};

void replay(O2ibPlace& place, O2ibScript script, size_t compared) {
  place.play(std::move(script));
  const size_t before = place.compared();
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
  EXPECT_EQ(place.compared() - before, compared);
  EXPECT_EQ(place.failed_pings(), 0u);
}

struct TwoNodes {
  const char* name;
  size_t one, two;  ///< events of each node that are compared
};
class EitherPlace : public testing::TestWithParam<TwoNodes> {};

TEST_P(EitherPlace, same_as_the_kernel) {
  for (const char* nid : {kOne, kTwo}) {
    SCOPED_TRACE(nid);
    O2ibPlace place({.nids = {nid}});
    replay(place, o2ib_script(GetParam().name), nid == kOne ? GetParam().one : GetParam().two);
  }
}

INSTANTIATE_TEST_SUITE_P(
    O2ibReplay, EitherPlace,
    testing::Values(TwoNodes{"e1-o2ib-ping-discover", 5, 5}, TwoNodes{"e1-o2ib-ping-discover-mtu9000", 5, 5},
                    TwoNodes{"e2-o2ib-lst-ping", 13, 13}, TwoNodes{"e2-o2ib-lst-ping-mtu9000", 13, 13},
                    TwoNodes{"e3-o2ib-lst-brw-write-4k", 19, 16}, TwoNodes{"e3-o2ib-lst-brw-write-4k-mtu9000", 19, 16},
                    TwoNodes{"e4-o2ib-lst-brw-read-4k", 16, 22}, TwoNodes{"e4-o2ib-lst-brw-read-4k-mtu9000", 16, 22},
                    TwoNodes{"e5-o2ib-lst-brw-write-1m", 13, 12}, TwoNodes{"e5-o2ib-lst-brw-write-1m-mtu9000", 13, 12},
                    TwoNodes{"e6-o2ib-lst-brw-read-1m", 12, 14}, TwoNodes{"e6-o2ib-lst-brw-read-1m-mtu9000", 12, 14},
                    TwoNodes{"g9-o2ib-connection-race", 5, 5}, TwoNodes{"g12-o2ib-loss3pct-lst-brw-64k", 19, 16}),
    [](const auto& of) {
      std::string name = of.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(O2ibReplay, e7_discovery_over_two_rails_as_the_active_node) {
  O2ibPlace place({.nids = kOneBoth});
  O2ibScript script = o2ib_script("e7-o2ib-mr-discover");
  // The kernel's first ping crossed node 2's push, and left before the ACK of that: here the push waits for it.
  ASSERT_EQ(script.events[11].header()->type, wire::MsgType::kGet);
  ASSERT_EQ(script.events[10].header()->type, wire::MsgType::kPut);
  std::swap(script.events[10], script.events[11]);
  place.ping_instead(kTwo);
  replay(place, std::move(script), 13);
}
TEST(O2ibReplay, e7_discovery_over_two_rails_as_the_passive_node) {
  O2ibPlace place({.nids = kTwoBoth});
  replay(place, o2ib_script("e7-o2ib-mr-discover"), 13);
}

// Three nodes: a console, a client and a server on two rails each. Three races to connect. Then the server deletes an
// NI; the connections of that are those of the capture before.
TEST(O2ibReplay, e8_e9_as_the_client) {
  O2ibPlace place({.nids = kOneBoth});
  replay(place, o2ib_script("e8-o2ib-mr-lst-brw-write-64k"), 46);
  replay(place, o2ib_script("e9-o2ib-mr-net-del-push"), 1);
  EXPECT_EQ(place.known_nids(kTwo), 1u);
}
TEST(O2ibReplay, e8_e9_as_the_server) {
  O2ibPlace place({.nids = kTwoBoth});
  replay(place, o2ib_script("e8-o2ib-mr-lst-brw-write-64k"), 34);
  place.play(o2ib_script("e9-o2ib-mr-net-del-push"));
  config::NetDel del;
  del.nid = *nid_parse(kTwoBoth[1]);
  del.net = del.nid->net();
  del.now = true;
  place.apply({{del, {}}});
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}
TEST(O2ibReplay, e8_e9_as_the_console) {
  O2ibPlace place({.nids = {kThree}});
  replay(place, o2ib_script("e8-o2ib-mr-lst-brw-write-64k"), 26);
  replay(place, o2ib_script("e9-o2ib-mr-net-del-push"), 1);
}

TEST(O2ibReplay, g7_queue_depth_is_settled) {
  for (const char* nid : {kOne, kTwo}) {
    SCOPED_TRACE(nid);
    O2ibPlace place({.nids = {nid}, .peer_credits = nid == kOne ? 32 : 8});
    replay(place, o2ib_script("g7-o2ib-reject-queue-depth-renegotiate"), 3);
  }
}

TEST(O2ibReplay, g8_no_listener) {
  O2ibPlace place({.nids = {kOne}});
  place.play(o2ib_script("g8-o2ib-no-listener"));
  place.ping(kTwo);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}

TEST(O2ibReplay, g10_another_net) {
  {
    O2ibPlace place({.nids = {kOne}});
    place.play(o2ib_script("g10-o2ib-reject-wrong-net"));
    place.ping(kTwo);
    place.run_to_the_end();
    EXPECT_EQ(place.difference(), "");
  }
  O2ibPlace place({.nids = {"10.10.0.2@o2ib1"}});
  replay(place, o2ib_script("g10-o2ib-reject-wrong-net"), 1);
}

TEST(O2ibReplay, j1_tcp_and_o2ib) {
  for (const bool passive : {true, false}) {
    SCOPED_TRACE(passive);
    O2ibScript script = o2ib_script("j1-mr-mixed-tcp-o2ib-discover-ping");
    add_tcp(script, "j1-mr-mixed-tcp-o2ib-discover-ping", {"10.10.0.1", "10.10.0.2"});
    O2ibPlace place(passive ? O2ibPlaceSpec{.nids = {"10.10.0.2@tcp", "10.10.0.102@o2ib"}}
                            : O2ibPlaceSpec{.nids = {"10.10.0.1@tcp", "10.10.0.101@o2ib"}});
    place.ping_instead("10.10.0.2@tcp");
    replay(place, std::move(script), passive ? 10 : 10);
  }
}

// The partner is gone after the GET that nobody acknowledges. The node gives the connection up, and then two attempts.
void partner_goes(O2ibPlace& place, const O2ibScript& script) {
  const auto hang_up = std::find_if(script.events.begin(), script.events.end(),
                                    [](const O2ibEvent& one) { return one.kind == Kind::kHangUp; });
  const size_t at = size_t(hang_up - script.events.begin());
  place.play(script);
  ASSERT_TRUE(place.run_until_done(at - 2));
  place.partners_silent(true);
  ASSERT_TRUE(place.run_until_done(at)) << place.difference();
  place.partners_silent(false);
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
}
// The partner freezes, and later connects by itself. In the second file the partner crashes, and boots again.
TEST(O2ibReplay, g11_g14_as_the_node_that_stays) {
  O2ibPlace place({.nids = {kOne}, .timeout = 5});
  partner_goes(place, o2ib_script("g11-o2ib-peer-frozen-then-resumed"));
  EXPECT_EQ(place.failed_pings(), 2u);
  partner_goes(place, o2ib_script("g14-o2ib-peer-killed-and-rebooted"));
  EXPECT_EQ(place.failed_pings(), 4u);
}

constexpr const char* kRouted[] = {"d7-routed-o2ib-tcp-ping-discover", "d8-routed-o2ib-tcp-lst-brw-write-64k",
                                   "d9-routed-o2ib-tcp-lst-brw-read-64k"};

constexpr const char* kServer = "10.20.0.2@tcp";

/// The client's check of its router in d7, and its push. `of_server`: also those of the server, in d8.
O2ibScript router_check(bool of_server) {
  O2ibScript script = o2ib_script(std::string(kRouted[0]) + "-o2ibside");
  const Nid router = *nid_parse("10.20.0.3@tcp");
  std::erase_if(script.events, [](const O2ibEvent& one) { return one.time < 80ms || one.time > 90ms; });
  if (of_server) add_tcp(script, std::string(kRouted[1]) + "-tcpside", {"10.20.0.2", "10.20.0.3"});
  std::erase_if(script.events, [&](const O2ibEvent& one) {
    return one.kind == Kind::kTcp && one.tcp.decoded.src_nid != router && one.tcp.decoded.dest_nid != router;
  });
  EXPECT_EQ(script.events.size(), of_server ? 8u : 4u);
  return script;
}

// The files begin after the router and its neighbours have discovered each other. So both neighbours check the router
// before, and answer its requests.
TEST(O2ibReplay, d7_d8_d9_as_the_router) {
  O2ibPlace place({.nids = {kThree, "10.20.0.3@tcp"}, .routing = true});
  O2ibScript checks = router_check(true);
  const auto info_of = [&](const char* address) {
    for (const O2ibEvent& one : checks.events)
      if (one.header()->type == wire::MsgType::kPut && one.from == nid_parse(address)->address_v4())
        return payload_of(checks, one);
    return std::vector<std::byte>{};
  };
  place.answer_others({{*nid_parse(kOne), info_of(kOne)}, {*nid_parse(kServer), info_of(kServer)}});
  place.run_for(100s);
  place.play(checks);  // until 110 s have passed, the router does not report that it routes
  place.run_for(20s);
  place.play(std::move(checks));
  place.run_to_the_end();
  EXPECT_EQ(place.difference(), "");
  place.answer_others({});
  for (size_t i = 0; i < std::size(kRouted); ++i) {
    SCOPED_TRACE(kRouted[i]);
    constexpr size_t kCompared[] = {12, 26, 26};
    O2ibScript script = o2ib_script(std::string(kRouted[i]) + "-o2ibside");
    add_tcp(script, std::string(kRouted[i]) + "-tcpside", {"10.20.0.2", "10.20.0.3"});
    // In d9, the kernel got the server's second reply 0.4 ms before a PUT_ACK, and forwarded it after the payload.
    if (i == 2) std::swap(script.events.at(25), script.events.at(26));
    replay(place, std::move(script), kCompared[i]);
  }
}

// The node checks the router every five seconds by itself, as the kernel did.
TEST(O2ibReplay, d7_d8_d9_as_the_client) {
  O2ibPlace place({.nids = {kOne}, .router_check = 5});
  place.pings_by_itself(kThree);
  place.play(router_check(false));
  place.apply({{config::RouteAdd{{.net = *net_parse("tcp"), .gateway = *nid_parse(kThree)}}, {}}});
  place.run_for(4s);
  EXPECT_EQ(place.difference(), "");
  for (size_t i = 0; i < std::size(kRouted); ++i) {
    SCOPED_TRACE(kRouted[i]);
    constexpr size_t kCompared[] = {7, 16, 12};
    replay(place, o2ib_script(std::string(kRouted[i]) + "-o2ibside"), kCompared[i]);
  }
}

TEST(O2ibReplayItself, other_writes_fail) {
  const O2ibScript script = o2ib_script("e5-o2ib-lst-brw-write-1m");
  const auto write = std::find_if(script.events.begin(), script.events.end(),
                                  [](const O2ibEvent& one) { return one.kind == Kind::kWrite; });
  ASSERT_NE(write, script.events.end());
  O2ibTwin twin({}, {});
  const RcDeed same{
      .kind = RcDeed::Kind::kWrite, .conn = 1, .bytes = write->bytes, .key = write->key, .address = write->address};
  EXPECT_EQ(same.bytes.size(), size_t{1} << 20);
  EXPECT_EQ(twin.difference(*write, same), "");
  RcDeed other = same;
  other.bytes[1'000'000] ^= std::byte{1};
  EXPECT_NE(twin.difference(*write, other), "");
  other = same;
  other.bytes.pop_back();
  EXPECT_NE(twin.difference(*write, other), "");
  other = same;
  ++other.address;
  EXPECT_NE(twin.difference(*write, other), "");
  other = same;
  ++other.key;
  EXPECT_NE(twin.difference(*write, other), "");
}

// The comparison itself: one other byte in any message or private data of the kernel is noticed.
TEST(O2ibReplayItself, other_bytes_fail) {
  for (const char* nid : {kOne, kTwo})
    for (const char* name : {"e3-o2ib-lst-brw-write-4k", "e4-o2ib-lst-brw-read-4k"}) {
      const O2ibScript whole = o2ib_script(name);
      for (size_t i = 0; i < whole.events.size(); ++i) {
        const O2ibEvent& event = whole.events[i];
        const bool has_bytes = event.kind != Kind::kReady && event.kind != Kind::kWrite;
        if (!has_bytes || nid_text(Nid::v4(Net::of(NetType::kO2ib, 0), event.from)) != nid) continue;
        O2ibScript script = whole;
        // The PID of an LNet header, the status of a completion, the cookie of a PUT_ACK.
        const bool is_ack = event.kind == Kind::kMessage && event.message().type == o2iblnd::MessageType::kPutAck;
        const size_t at = event.header() ? 70 : is_ack ? 48 : event.kind == Kind::kMessage ? 57 : 51;
        script.events[i].bytes.at(at) ^= std::byte{4};
        O2ibPlace place({.nids = {nid}});
        place.play(std::move(script));
        place.run_to_the_end();
        EXPECT_NE(place.difference(), "") << name << " " << i;
      }
    }
}

}  // namespace
}  // namespace ulnet::test
