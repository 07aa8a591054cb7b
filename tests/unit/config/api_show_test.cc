// The shows: documents that are built from plain values equal, byte for byte, the lnetctl output for the same values.
#include "config/emit.h"
#include "config/export.h"
#include "control/api/error_yaml.h"
#include "control/api/show.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/wire/header.h"
#include "tests/unit/config/golden.h"

namespace ulnet::api {
namespace {

using config::document_of;
using config::golden_text;

uint64_t number(const Doc& doc, const char* key) {
  const Doc* value = doc.find(key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? 0 : static_cast<uint64_t>(value->integer().value_or(0));
}

LatencyTotals latency(const Doc& doc, const std::string& name) {
  const uint64_t samples = number(doc, (name + "_samples").c_str());
  return {samples, number(doc, (name + "_min_nsec").c_str()), number(doc, (name + "_max_nsec").c_str()),
          samples * number(doc, (name + "_avg_nsec").c_str())};
}

/// The counters of an NI of a golden file, but for its failures.
InterfaceTotals counted(const Doc& ni) {
  InterfaceTotals totals;
  const auto types = [&](NiTraffic which, const char* key) {
    const Doc& s = *ni.find(key);
    totals[which] = {number(s, "ack"), number(s, "put"), number(s, "get"), number(s, "reply"), number(s, "hello")};
  };
  types(NiTraffic::kSent, "sent_stats");
  types(NiTraffic::kReceived, "received_stats");
  types(NiTraffic::kDropped, "dropped_stats");
  const Doc& s = *ni.find("statistics");
  totals[NiLatency::kPutEgress] = latency(s, "put_egress");
  totals[NiLatency::kGetRtt] = latency(s, "get_rtt");
  totals[NiLatency::kPutAck] = latency(s, "put_ack");
  return totals;
}

UdspInfo udsp(const Doc& ni) {
  const Doc& s = *ni.find("udsp info");
  return {*s.find("net priority")->integer(), *s.find("nid priority")->integer(), {}, {}};
}

/// Values of the NIs of a golden `net show -v 4`, but for lo.
std::vector<NetShow> nets_of(const Doc& doc) {
  std::vector<NetShow> nets;
  for (size_t n = 1; n < doc.find("net")->size(); ++n) {
    const Doc& net = doc.find("net")->at(n);
    NetShow show{*net_parse(net.find("net type")->text()), {}};
    for (const Doc::Entry& entry : net.find("local NI(s)")->entries()) {
      const Doc& ni = entry.value;
      LocalNiShow out;
      out.nid = *nid_parse(ni.find("nid")->text());
      out.interface = ni.find("interfaces")->find("0")->text();
      out.counted = counted(ni);
      out.udsp = udsp(ni);
      out.health.next_ping = *ni.find("health stats")->find("next_ping")->integer();
      for (const Doc::Entry& one : ni.find("lnd tunables")->entries())
        out.lnd_tunables[one.key] = one.value.integer().value_or(one.value.boolean().value_or(false));
      out.cpts = {0};
      show.nis.push_back(out);
    }
    nets.push_back(show);
  }
  return nets;
}

TEST(ApiShow, nets_at_each_verbosity) {
  std::vector<NetShow> nets;
  for (const std::string recording : {"o2ib-mr", "tcp-mr"}) {
    nets = nets_of(document_of(golden_text(recording + ".net-show-v4")));
    nets.insert(nets.begin(), lo_show({0}));
    EXPECT_EQ(emit(net_doc(nets, 4)), golden_text(recording + ".net-show-v4"));
    EXPECT_EQ(emit(net_doc(nets, 0)), golden_text(recording + ".net-show"));
  }
  // The counters of the other recording differ; its keys do not.
  auto keys = [](const Doc& doc) {
    std::string out;
    for (const Doc::Entry& entry : doc.find("net")->at(1).find("local NI(s)")->at(0).entries()) out += entry.key + ",";
    return out;
  };
  EXPECT_EQ(keys(net_doc(nets, 1)), keys(document_of(golden_text("tcp-mr.net-show-v"))));
  EXPECT_EQ(keys(net_doc(nets, 2)), keys(document_of(golden_text("router.export"))));
  EXPECT_TRUE(net_doc({}, 0).is_null());
  nets[1].nis[0].warnings = {"arp_ignore is 0"};
  EXPECT_EQ(net_doc(nets, 1).find("net")->at(1).find("local NI(s)")->at(0).find("warnings")->at(0).text(),
            "arp_ignore is 0");
}

/// Values of the peers of a golden `peer show -v 4`.
std::vector<PeerShow> peers_of(const Doc& doc) {
  std::vector<PeerShow> peers;
  for (const Doc::Entry& entry : doc.find("peer")->entries()) {
    PeerShow peer{.primary = *nid_parse(entry.value.find("primary nid")->text())};
    peer.multi_rail = *entry.value.find("Multi-Rail")->boolean();
    peer.state = static_cast<uint32_t>(number(entry.value, "peer state"));
    for (const Doc::Entry& one : entry.value.find("peer ni")->entries()) {
      const Doc& ni = one.value;
      PeerNiShow out;
      out.nid = *nid_parse(ni.find("nid")->text());
      out.max_ni_tx_credits = *ni.find("max_ni_tx_credits")->integer();
      out.available_tx_credits = *ni.find("available_tx_credits")->integer();
      out.min_tx_credits = *ni.find("min_tx_credits")->integer();
      out.tx_q_num_of_buf = *ni.find("tx_q_num_of_buf")->integer();
      out.available_rtr_credits = *ni.find("available_rtr_credits")->integer();
      out.min_rtr_credits = *ni.find("min_rtr_credits")->integer();
      out.refcount = *ni.find("refcount")->integer();
      out.counted = counted(ni);
      const Doc& health = *ni.find("health stats");
      out.counted.peer_failures = {number(health, "dropped"), number(health, "timeout"), number(health, "error"),
                                   number(health, "network timeout")};
      out.udsp = udsp(ni);
      peer.nis.push_back(out);
    }
    peers.push_back(peer);
  }
  return peers;
}

TEST(ApiShow, peers_at_each_verbosity) {
  for (const std::string recording : {"o2ib-mr", "tcp-mr"}) {
    const std::vector<PeerShow> peers = peers_of(document_of(golden_text(recording + ".peer-show-v4")));
    EXPECT_EQ(emit(peer_doc(peers, 4)), golden_text(recording + ".peer-show-v4"));
    EXPECT_EQ(emit(peer_doc(peers, 0)), golden_text(recording + ".peer-show"));
  }
  EXPECT_TRUE(peer_doc({}, 3).is_null());
}

// Goal: a peer that does not answer any more looks as with lnetctl: messages wait for credits, and a drop is counted.
TEST(ApiShow, peers_that_hang) {
  for (const std::string recording : {"o2ib-peer-frozen.peer-show", "tcp-peer-frozen.peer-show"}) {
    const std::string golden = golden_text(recording);
    const std::vector<PeerShow> peers = peers_of(document_of(golden));
    EXPECT_EQ(emit(peer_doc(peers, 4)), golden);
  }
}

// Goal: each failure class of an NI and of a peer NI stands at its place in `health stats`.
TEST(ApiShow, health_stats_of_an_ni_and_a_peer_ni) {
  NetShow net{*net_parse("tcp"), {{}}};
  LocalNiShow& ni = net.nis.front();
  ni.nid = *nid_parse("10.0.0.1@tcp");
  ni.counted.failures = {1, 2, 3, 4, 5, 6};
  ni.health = {{.health_value = 8, .ping_count = 9, .next_ping = 10}, 7};
  PeerShow peer{.primary = ni.nid, .nis = {{}}};
  peer.nis.front().counted.peer_failures = {1, 2, 3, 4};
  peer.nis.front().health = {5, 6, 7};
  const auto health = [](const Doc& list, const char* nis) {
    return emit(*list.at(0).find(nis)->at(0).find("health stats"));
  };
  EXPECT_EQ(health(*net_doc({net}, 2).find("net"), "local NI(s)"),
            "fatal_error: 7\nhealth value: 8\ninterrupts: 1\ndropped: 2\naborted: 3\nno route: 4\ntimeouts: 5\n"
            "error: 6\nping_count: 9\nnext_ping: 10\n");
  EXPECT_EQ(health(*peer_doc({peer}, 2).find("peer"), "peer ni"),
            "health value: 5\ndropped: 1\ntimeout: 2\nerror: 3\nnetwork timeout: 4\nping_count: 6\nnext_ping: 7\n");
}

// Goal: connections are shown at verbosity 4 only: one by one for a peer NI, as sums for a local NI.
TEST(ApiShow, connections_at_verbosity_4) {
  NetShow net{.net = *net_parse("o2ib"), .nis = {{.nid = *nid_parse("10.0.0.1@o2ib")}}};
  net.nis[0].connections = {{"up", 2}, {"credits", 15}};
  EXPECT_EQ(config::emit(net_doc({net}, 3)).find("connections"), std::string::npos);
  EXPECT_NE(
      config::emit(net_doc({net}, 4)).find("connections:\n                  credits: 15\n                  up: 2\n"),
      std::string::npos)
      << config::emit(net_doc({net}, 4));
  PeerShow peer{.primary = *nid_parse("10.0.0.2@o2ib"), .nis = {{.nid = *nid_parse("10.0.0.2@o2ib")}}};
  peer.nis[0].connections.push_back(
      {*nid_parse("10.0.0.1@o2ib"), {"up", {{"queue depth", 8}}, {{"credits", 7}, {"owed", 1}}}});
  EXPECT_EQ(config::emit(peer_doc({peer}, 3)).find("connections"), std::string::npos);
  EXPECT_NE(config::emit(peer_doc({peer}, 4))
                .find("connections:\n            -     nid: 10.0.0.1@o2ib\n                  state: up\n"
                      "                  queue depth: 8\n                  credits: 7\n                  owed: 1\n"),
            std::string::npos)
      << config::emit(peer_doc({peer}, 4));
}

// Goal: faults of peers are shown at verbosity 4, in the order of the driver, and only if the driver counts them.
TEST(ApiShow, peer_faults_at_verbosity_4) {
  NetShow net{.net = *net_parse("o2ib"), .nis = {{.nid = *nid_parse("10.0.0.1@o2ib")}}};
  EXPECT_EQ(config::emit(net_doc({net}, 4)).find("peer faults"), std::string::npos);
  net.nis[0].peer_faults = {{"wrong stamps", 0}, {"unknown cookie", 3}};
  EXPECT_EQ(config::emit(net_doc({net}, 3)).find("peer faults"), std::string::npos);
  EXPECT_EQ(emit(*net_doc({net}, 4).find("net")->at(0).find("local NI(s)")->at(0).find("peer faults")),
            "wrong stamps: 0\nunknown cookie: 3\n");
}

TEST(ApiShow, routes_pools_counters_and_globals) {
  RouteShow route{{.net = *net_parse("tcp2"), .gateway = *nid_parse("10.10.0.3@tcp1")}, true, false};
  EXPECT_EQ(emit(route_doc({route}, 1)), golden_text("routed-client.route-show-v"));
  CptPools pools{{{0, 512, 512, 511}, {1, 4096, 4096, 4095}, {256, 256, 256, 256}}};
  EXPECT_EQ(emit(routing_doc({pools}, true, {512, 4096, 256})), golden_text("router.routing-show"));
  EXPECT_TRUE(routing_doc({}, false, {}).is_null());
  NodeTotals stats;
  stats[Stat::kMsgsMax] = 2, stats[Stat::kRstAlloc] = 4, stats[Stat::kSendCount] = 30, stats[Stat::kRecvCount] = 30;
  stats[Stat::kRouteCount] = 10;
  stats[Stat::kSendLength] = 1088, stats[Stat::kRecvLength] = 624, stats[Stat::kRouteLength] = 240;
  EXPECT_EQ(emit(stats_doc(stats)), golden_text("router.stats-show"));
  Doc global = Doc::map();
  global.set("global", config::export_global({}));
  EXPECT_EQ(emit(global), golden_text("tcp-mr.global-show"));
  Doc discover = Doc::map();
  discover.set("discover", Doc::list())
      .push(
          pinged_doc(*nid_parse("10.10.0.2@tcp"), true, {*nid_parse("10.10.0.2@tcp"), *nid_parse("10.10.0.102@tcp")}));
  EXPECT_EQ(emit(discover), golden_text("tcp-mr.discover"));
}

// Goal: `stats show -v` says where and why messages were dropped; reasons that did not occur are shown at 2.
TEST(ApiShow, details_of_statistics) {
  const std::vector<DropShow> drops = {{"no_route", 3, "no route: `route add`"}, {"no_match", 0, "nobody wants it"}};
  NetShow net{*net_parse("tcp"), {{}}};
  LocalNiShow& ni = net.nis.front();
  ni.nid = *nid_parse("10.0.0.1@tcp");
  ni.counted[NiTraffic::kDropped][size_t(wire::MsgType::kPut)] = 3;
  ni.counted[NiFailure::kNoRoute] = 7;
  WorkerShow worker{.worker = 0, .group = 1, .peers = 2, .events = 50, .turns_busy = 20, .turn = {{"turns", 90}}};
  worker.ring_size = 64, worker.to_control = 5;
  Doc doc = Doc::map();
  stats_details_set(doc, drops, {net}, {worker}, 1);
  EXPECT_EQ(emit(doc), R"(drops:
    - reason: no_route
      count: 3
      meaning: "no route: `route add`"
drops by ni:
    - nid: 10.0.0.1@tcp
      drop_count: 3
      dropped_stats:
          put: 3
          get: 0
          reply: 0
          ack: 0
          hello: 0
      failed sends:
          interrupts: 0
          dropped: 0
          aborted: 0
          no route: 7
          timeouts: 0
          error: 0
workers:
    - worker: 0
      group: 1
      peers: 2
      events_per_busy_turn: 2.5
      turns: 90
      rings:
          size: 64
          from_workers: 0
          to_workers: 0
          from_control: 0
          to_control: 5
)");
  worker.time = WorkerTime{std::chrono::milliseconds(1), std::chrono::milliseconds(2), std::chrono::milliseconds(3), 4};
  Doc more = Doc::map();
  stats_details_set(more, drops, {}, {worker}, 2);
  EXPECT_EQ(more.find("drops")->size(), 2u);
  EXPECT_EQ(more.find("drops by ni"), nullptr);
  EXPECT_EQ(more.find("workers")->at(0).find("asleep_ms")->integer(), 3);
  EXPECT_EQ(more.find("workers")->at(0).find("busy_cycles")->integer(), 4);
  Doc none = Doc::map();
  stats_details_set(none, {drops[1]}, {}, {}, 1);
  EXPECT_EQ(none.size(), 0u);
}

TEST(ApiErrors, as_lnetctl_prints_them) {
  const ApiError show{"show", "net", -2, "Object not found", {}};
  const ApiError add{"add", "net", -100, "cannot add LNet NI", {}};
  const ApiError ping{"manage", "ping", -113, "failed to ping 10.10.0.77@tcp: No route to host", {}};
  const ApiError route{"add", "route", -113, "No interface configured on the same net as gateway", {}};
  const ApiError del{"del", "net", -22, "cannot del network", {}};
  EXPECT_EQ(error_yaml({show}) + error_yaml({add}) + error_yaml({ping}) + error_yaml({route}) + error_yaml({del}),
            golden_text("errors"));
  EXPECT_EQ(
      error_yaml_classic({{"add", "net", -22, "cannot parse net", 3}, route}),
      "add:\n    - net:\n          seq_no: 3\n          errno: -22\n          descr: \"cannot parse net\"\n"
      "    - route:\n          errno: -113\n          descr: \"No interface configured on the same net as gateway\"\n");
  EXPECT_EQ(error_yaml({}), "");
  EXPECT_EQ(config::documents_of(error_yaml({add, ping, route}))[0].find("add")->size(), 2u);
}

TEST(ApiErrors, exit_status) {
  EXPECT_EQ(exit_status({}), 0);
  EXPECT_EQ(exit_status({{"add", "net", -100, "", {}}}), 234);
  EXPECT_EQ(exit_status({{"manage", "ping", -5, "", {}}}), 255);
}

}  // namespace
}  // namespace ulnet::api
