// Changes: their JSON form both ways, and what they do to a desired state.
#include "config/apply.h"
#include "config/change.h"
#include "config/ranges.h"
#include "dataplane/base/nid_text.h"
#include "tests/unit/config/golden.h"

namespace ulnet::config {
namespace {

Net net(const char* text) {
  return *net_parse(text);
}
Nid nid(const char* text) {
  return *nid_parse(text);
}

NetAdd net_add(const char* name, const char* interface) {
  return {net(name), NiConfig{.interface = interface}};
}
RouteAdd route_add(const char* name, const char* gateway) {
  return {{.net = net(name), .gateway = nid(gateway)}};
}
PeerAdd peer_add(const char* primary, const char* nids, bool multi_rail = true) {
  return {{.primary = nid(primary),
           .nids = nids[0] == 0 ? std::vector<Nid>{} : *nids_parse(nids),
           .multi_rail = multi_rail}};
}

/// "code what" of each refused change, one to a line.
std::string apply_errors(DesiredState& state, std::initializer_list<Change> changes) {
  ChangeList list;
  for (const Change& change : changes) list.push_back({change, {}});
  std::string out;
  for (const Problem& error : changes_apply(state, list))
    out += std::to_string(error.index) + " " + std::to_string(error.code) + " " + error.what + "\n";
  return out;
}

TEST(ConfigChange, every_kind_survives_json) {
  Ip2netsRule rule{.net = net("o2ib"), .interfaces = {{"ib0", {1}}}, .patterns = {"10.0.*.*"}, .ni = {.cpts = {1, 2}}};
  NiConfig ni{.nid = nid("fd00::1@tcp"),
              .cpts = {0, 3},
              .tunables = {.peer_credits = 16},
              .lnd_tunables = {{"tos", -1}},
              .skip_mr_route_setup = true};
  const std::vector<Change> all = {
      LnetConfigure{.all = true, .large = true},
      LnetUnconfigure{},
      NetAdd{net("tcp"), ni},
      NetAddMatching{rule},
      NetDel{.net = net("tcp1"), .interface = "eth0", .nid = nid("10.0.0.1@tcp1"), .now = true},
      NetSet{.nid = nid("10.0.0.1@tcp"),
             .all = true,
             .health = 500,
             .lnd_tunables = {{"conns_per_peer", 4}, {"timeout", 9}}},
      RouteAdd{{.net = net("tcp2"), .gateway = nid("10.0.0.1@tcp"), .hop = 2, .priority = 3}},
      RouteDel{net("tcp2"), nid("10.0.0.1@tcp")},
      PeerAdd{
          {.primary = nid("10.0.0.1@tcp"), .nids = {nid("10.0.0.2@tcp")}, .multi_rail = false, .lock_primary = true},
          false,
          1},
      PeerDel{.primary = nid("10.0.0.1@tcp"), .nids = {nid("10.0.0.2@tcp")}, .force = true},
      PeerSet{.nid = nid("10.0.0.1@tcp"), .health = 1000, .state = 273},
      SetValue{"discovery", 2},
      SetRouting{true},
      SetBuffers{.tiny = 1, .large = 3},
      UdspAdd{{.idx = 1, .src = "tcp", .priority = 0}},
      UdspDel{.idx = 3},
      UlnetSet{"idle", "busy"}};
  ASSERT_EQ(all.size(), std::variant_size_v<Change>);
  std::vector<Change> forms = all;
  forms.emplace_back(UdspDel{.rule = UdspRule{.src = "tcp", .dst = "o2ib*"}});
  forms.emplace_back(UdspDel{.idx = 0, .rule = UdspRule{.src = "tcp"}, .either_end = true});
  for (const Change& change : forms) {
    PlacedChange placed{change, {"f.yaml", {3, 4}, 17}};
    auto json = json_parse(json_dump(change_to_json(placed)));
    ASSERT_TRUE(json.has_value());
    auto back = change_from_json(*json);
    ASSERT_TRUE(back.has_value()) << back.error() << json_dump(*json);
    EXPECT_EQ(back->change, change) << json_dump(*json);
    EXPECT_EQ(back->origin.seq_no, 17);
    EXPECT_EQ(back->origin.mark.column, 4u);
    EXPECT_STRNE(change_verb(change), "");
    EXPECT_STRNE(change_entity(change), "");
  }
}

// Goal: changes from a foreign client get the same checks as a file.
TEST(ConfigChange, hostile_json_is_refused) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"([])", "a change must be an object"},
      {R"({"change":"explode"})", "unknown change 'explode'"},
      {R"({"change":"net_add"})", "net_add: 'net' is missing"},
      {R"({"change":"net_add","net":"tcp"})", "net_add: interface / NID is missing"},
      {R"({"change":"net_add","net":"tcp","ni":7})", "net_add: 'ni' has a value that is not allowed there"},
      {R"({"change":"net_add","net":"tcp","ni":{"nid":"1.2.3.4@tcp1"}})", "net_add: 'nid' is not on 'net'"},
      {R"({"change":"net_add","net":"tcp","ni":{"interface":"e","tunables":{"credits":0}}})",
       "net_add: net.local NI(s).tunables.credits: '0' is out of range; allowed: 1..1048576 messages"},
      {R"({"change":"net_add","net":"tcp","ni":{"interface":"e","lnd_tunables":{"x":0}}})",
       "net_add: unknown key 'net.local NI(s).lnd tunables.x'"},
      {R"({"change":"net_add","net":"tcp","ni":{"interface":"e","cpts":[70000]}})",
       "net_add: 'cpts' has a value that is not allowed there"},
      {R"({"change":"route_add","route":{"net":"tcp1","gateway":"1.2.3.4@tcp","hop":0}})",
       "route_add: invalid hop count must be between 1 and 255"},
      {R"({"change":"route_add","route":{"net":"tcp1"}})", "route_add: missing mandatory parameter: gateway"},
      {R"({"change":"route_add","route":{"net":"tcp1","gateway":"1.2.3.4@tcp","priority":18446744073709551615}})",
       "route_add: 'priority' has a value that is not allowed there"},
      {R"({"change":"set_value","name":"lnd_timeout","value":1})", "set_value: unknown setting 'lnd_timeout'"},
      {R"({"change":"set_value","name":"discovery","value":3})",
       "set_value: global.discovery: '3' is not one of the choices; allowed: 0, 1 or verify"},
      {R"({"change":"ulnet_set","key":"nothing","value":1})", "ulnet_set: unknown key 'ulnet.nothing'"},
      {R"({"change":"net_set","all":true,"conns_per_peer":128})",
       "net_set: net.local NI(s).lnd tunables.conns_per_peer: '128' is out of range; allowed: 0..127 connections"},
      {R"({"change":"net_set","all":true,"lnd_timeout":-1})", "net_set: LND timeout is out of range"},
      {R"({"change":"net_set","all":true,"conns_per_peer":128,"lnd_timeout":2147483648})",
       "net_set: LND timeout is out of range"},
      {R"({"change":"net_set","all":true,"conns_per_peer":"4"})",
       "net_set: 'conns_per_peer' has a value that is not allowed there"},
      {R"({"change":"net_set","all":true,"lnd_timeout":1.5})",
       "net_set: 'lnd_timeout' has a value that is not allowed there"},
      {R"({"change":"peer_add","peer":{"primary":"*"}})", "peer_add: 'primary' has a value that is not allowed there"},
      {R"({"change":"udsp_add","rule":{}})", "udsp_add: at least one of src, dst and rte is needed"},
      {R"({"change":"udsp_add","rule":{"src":7}})", "udsp_add: 'src' has a value that is not allowed there"},
      {R"({"change":"udsp_add","rule":{"src":"tcp","rte":"tcp"}})", "udsp_add: src and rte cannot be combined"},
      {R"({"change":"udsp_add","rule":{"src":"tcp","priority":256}})",
       "udsp_add: udsp.action.priority: '256' is out of range; allowed: -1..255"},
      {R"({"change":"udsp_add","rule":{"src":"tcp","idx":-2}})",
       "udsp_add: udsp.idx: '-2' is out of range; allowed: -1 or more"},
      {R"({"change":"udsp_del"})", "udsp_del: one of 'idx', 'all' and the descriptors of a rule is needed"},
      {R"({"change":"udsp_del","idx":-2})", "udsp_del: 'idx' is out of range"},
      {R"({"change":"udsp_del","idx":-1,"rule":{"src":"tcp"}})", "udsp_del: 'idx' is out of range"},
      {R"({"change":"udsp_del","all":true,"idx":1})", "udsp_del: 'all' does not go with 'idx' or with descriptors"},
      {R"({"change":"udsp_del","rule":{}})", "udsp_del: at least one of src, dst and rte is needed"},
      {R"({"change":"udsp_del","rule":{"dst":"tcp"},"either_end":true})",
       "udsp_del: 'either_end' needs a rule with src only"}};
  for (const auto& [text, error] : cases) {
    auto result = change_from_json(*json_parse(text));
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error(), error) << text;
  }
}

TEST(ConfigApply, whole_or_not_at_all) {
  DesiredState state;
  EXPECT_EQ(apply_errors(state, {net_add("tcp", "eth0")}),
            "0 -100 Network is down: LNet is not configured; run 'lnet configure' first\n");
  EXPECT_EQ(apply_errors(state, {LnetConfigure{}, net_add("tcp", "eth0"), net_add("tcp", "eth1"),
                                 route_add("tcp1", "10.0.0.9@tcp")}),
            "");
  DesiredState before = state;
  EXPECT_EQ(apply_errors(state, {net_add("tcp2", "eth2"), net_add("tcp", "eth1"), route_add("tcp1", "10.0.0.9@tcp"),
                                 route_add("tcp3", "10.9.0.9@tcp9"), route_add("tcp", "10.0.0.9@tcp")}),
            "1 -17 cannot add LNet NI: tcp already has eth1\n"
            "2 -17 Route already exists or the specified network is local: tcp1 through 10.0.0.9@tcp\n"
            "3 -113 No interface configured on the same net as gateway: add an NI on tcp9 before the route through "
            "10.9.0.9@tcp9\n"
            "4 -17 Route already exists or the specified network is local: this node is on tcp\n");
  EXPECT_EQ(state, before);
}

/// A NetSet from its JSON form, as a client sends it.
NetSet net_set(const std::string& fields) {
  const std::string text = R"({"change":"net_set",)" + fields + "}";
  const auto change = change_from_json(*json_parse(text));
  EXPECT_TRUE(change.has_value()) << change.error();
  EXPECT_EQ(json_dump(change_to_json(*change)), text);
  return std::get<NetSet>(change->change);
}

// Goal: the keys that a driver's rows name in `net_set` reach the NIs that the change is about. A key with one value
// for all NIs of a driver also reaches the driver's setting.
TEST(ConfigApply, net_set_changes_keys_of_the_driver) {
  using Tunables = std::map<std::string, int64_t>;
  DesiredState state;
  EXPECT_EQ(apply_errors(state, {net_set(R"("net":"tcp","all":false,"lnd_timeout":9)")}),
            "0 -100 Network is down: LNet is not configured; run 'lnet configure' first\n");
  ASSERT_EQ(apply_errors(state, {LnetConfigure{}, NetAdd{net("tcp"), NiConfig{.nid = nid("10.0.0.1@tcp")}},
                                 NetAdd{net("tcp1"), NiConfig{.nid = nid("10.0.0.1@tcp1")}},
                                 NetAdd{net("kfi"), NiConfig{.nid = nid("1@kfi")}},
                                 NetAdd{net("o2ib"), NiConfig{.nid = nid("10.0.0.1@o2ib")}}}),
            "");
  const auto tunables = [&](size_t i) { return state.nets[i].nis[0].lnd_tunables; };
  EXPECT_EQ(apply_errors(state, {net_set(R"("net":"tcp2","all":false,"lnd_timeout":9)")}),
            "0 -22 cannot configure lnd_timeout: there is no net tcp2\n");
  EXPECT_EQ(apply_errors(state, {net_set(R"("net":"tcp2","all":true,"health":9,"conns_per_peer":2)")}), "");
  EXPECT_EQ(tunables(0), (Tunables{{"conns_per_peer", 2}}));
  EXPECT_EQ(tunables(1), (Tunables{{"conns_per_peer", 2}}));
  EXPECT_TRUE(tunables(2).empty()) << "no driver for kfi has this key";
  EXPECT_EQ(tunables(3), (Tunables{{"conns_per_peer", 2}}));
  EXPECT_EQ(apply_errors(state, {net_set(R"("nid":"10.0.0.1@tcp","all":false,"lnd_timeout":7)")}), "");
  EXPECT_EQ(tunables(0), (Tunables{{"conns_per_peer", 2}, {"timeout", 7}}));
  EXPECT_TRUE(state.ulnet.driver.empty());
  EXPECT_EQ(apply_errors(state, {net_set(R"("nid":"10.0.0.1@tcp","net":"tcp1","all":false,)"
                                         R"("conns_per_peer":3,"lnd_timeout":9)")}),
            "");
  EXPECT_EQ(tunables(0), (Tunables{{"conns_per_peer", 3}, {"timeout", 9}}));
  EXPECT_EQ(tunables(1), (Tunables{{"conns_per_peer", 2}, {"timeout", 9}}));
  EXPECT_EQ(state.ulnet.driver, (DriverValues{{"ulnet.socklnd.timeout", 9}}));
  EXPECT_EQ(apply_errors(state, {net_set(R"("net":"tcp","all":false,"lnd_timeout":0)")}), "");
  EXPECT_EQ(tunables(1), (Tunables{{"conns_per_peer", 2}, {"timeout", 0}}));
  EXPECT_EQ(state.ulnet.driver, (DriverValues{{"ulnet.socklnd.timeout", 49}})) << "its share of transaction_timeout";
  EXPECT_EQ(apply_errors(state, {net_set(R"("net":"o2ib","all":false,"lnd_timeout":5)")}), "");
  EXPECT_EQ(tunables(0).at("timeout"), 0) << "the driver of tcp keeps its own";
  EXPECT_EQ(tunables(3).at("timeout"), 5);
  EXPECT_EQ(state.ulnet.driver.at("ulnet.o2iblnd.timeout"), 5);
}

// Control fills in the NID of an NI that was named by its interface: it remains the same NI.
TEST(ConfigApply, an_interface_is_added_once_to_a_net) {
  DesiredState state;
  ASSERT_EQ(apply_errors(state, {LnetConfigure{}, net_add("tcp", "eth0")}), "");
  state.nets[0].nis[0].nid = nid("10.0.0.1@tcp");
  state.nets[0].nis[0].nid_found = true;
  EXPECT_EQ(apply_errors(state, {net_add("tcp", "eth0")}), "0 -17 cannot add LNet NI: tcp already has eth0\n");
  EXPECT_EQ(apply_errors(state, {NetAdd{net("tcp"), NiConfig{.nid = nid("10.0.0.1@tcp")}}}),
            "0 -17 cannot add LNet NI: tcp already has 10.0.0.1@tcp\n");
  EXPECT_EQ(apply_errors(state, {net_add("tcp1", "eth0"), NetAdd{net("tcp"), NiConfig{.nid = nid("10.0.0.2@tcp")}}}),
            "");
}

TEST(ConfigApply, deleting) {
  DesiredState state;
  ASSERT_EQ(apply_errors(state, {LnetConfigure{}, net_add("tcp", "eth0"), net_add("tcp", "eth1"),
                                 route_add("tcp1", "10.0.0.9@tcp")}),
            "");
  EXPECT_EQ(apply_errors(state, {NetDel{.net = net("tcp5")}, NetDel{.net = net("tcp"), .interface = "eth7"},
                                 RouteDel{net("tcp1"), nid("10.0.0.8@tcp")}}),
            "0 -22 cannot del network: there is no net tcp5\n"
            "1 -22 cannot del network: eth7 is not an NI of tcp\n"
            "2 -2 failed to delete route: there is none to tcp1 through 10.0.0.8@tcp\n");
  EXPECT_EQ(apply_errors(state, {NetDel{.net = net("tcp"), .interface = "eth0"}}), "");
  EXPECT_EQ(state.nets[0].nis.size(), 1u);
  EXPECT_EQ(
      apply_errors(state, {RouteDel{net("tcp1"), nid("10.0.0.9@tcp")}, NetDel{.net = net("tcp"), .interface = "eth1"}}),
      "");
  EXPECT_TRUE(state.nets.empty());
  EXPECT_EQ(apply_errors(state, {LnetUnconfigure{}}), "");
  EXPECT_EQ(state, DesiredState{});
}

// One file can add a whole configuration and delete it again, although nets stand before their routes in the file.
TEST(ConfigApply, import_del_undoes_import) {
  const std::string text = golden_text("tcp-mr.import-roundtrip");
  Problems problems;
  DesiredState state = state_of(load_text(text, "f").changes, problems);
  ASSERT_EQ(state.routes.size(), 1u);
  std::vector<Problem> errors = changes_apply(state, load_text(text, "f", ImportMode::kDel).changes);
  EXPECT_TRUE(errors.empty()) << errors[0].what;
  EXPECT_TRUE(state.nets.empty() && state.routes.empty() && state.peers.empty() && state.udsp.empty());
  // Deleting the net alone takes the route along.
  state = state_of(load_text(text, "f").changes, problems);
  EXPECT_EQ(apply_errors(state, {NetDel{.net = net("tcp")}}), "");
  EXPECT_TRUE(state.routes.empty());
}

TEST(ConfigApply, peers) {
  DesiredState state;
  EXPECT_EQ(apply_errors(state, {LnetConfigure{}, peer_add("10.0.0.1@tcp", "10.0.0.[2-3]@tcp"),
                                 peer_add("10.0.1.1@tcp", "", false)}),
            "");
  EXPECT_EQ(
      apply_errors(state, {peer_add("10.0.0.5@tcp", "10.0.0.2@tcp"), peer_add("10.0.0.3@tcp", ""),
                           peer_add("10.0.1.1@tcp", "", true), peer_add("10.0.1.1@tcp", "10.0.1.2@tcp", false),
                           PeerDel{.primary = nid("10.0.0.2@tcp")},
                           PeerDel{.primary = nid("10.0.0.1@tcp"), .nids = {nid("10.0.0.7@tcp")}}}),
      "0 -17 failed to add peer: 10.0.0.2@tcp belongs to peer 10.0.0.1@tcp (index 0 of the NIDs)\n"
      "1 -17 failed to add primary peer: 10.0.0.3@tcp belongs to peer 10.0.0.1@tcp\n"
      "2 -1 failed to add primary peer: Multi-Rail of a configured peer cannot be changed; delete the peer first\n"
      "3 -76 failed to add peer: 10.0.1.2@tcp is a second NID on its net, and the peer is not Multi-Rail\n"
      "4 -2 failed to del primary peer: 10.0.0.2@tcp is a NID of peer 10.0.0.1@tcp, not its primary NID\n"
      "5 -2 failed to del peer: 10.0.0.7@tcp is not a NID of 10.0.0.1@tcp (index 0 of the NIDs)\n");
  EXPECT_EQ(apply_errors(state, {peer_add("10.0.2.1@tcp", "10.0.2.[2-4]@tcp,10.0.2.3@tcp")}),
            "0 -17 failed to add peer: 10.0.2.3@tcp is listed twice (index 1 and 3 of the NIDs)\n");
  // Refresh: NIDs that are not listed leave the peer, and other peers may take them.
  PeerAdd refresh = peer_add("10.0.0.1@tcp", "10.0.0.[3-4]@tcp");
  refresh.refresh = true;
  EXPECT_EQ(apply_errors(state, {refresh, peer_add("10.0.3.1@tcp", "10.0.0.2@tcp")}), "");
  EXPECT_EQ(state.peers[0].nids, (std::vector<Nid>{nid("10.0.0.3@tcp"), nid("10.0.0.4@tcp")}));
  refresh.peer.nids = {nid("10.0.0.3@tcp"), nid("10.0.0.2@tcp")};
  EXPECT_EQ(apply_errors(state, {refresh}),
            "0 -17 failed to add peer: 10.0.0.2@tcp belongs to peer 10.0.3.1@tcp (index 1 of the NIDs)\n");
  refresh.peer.nids = {nid("10.0.0.2@tcp"), nid("10.0.0.3@tcp")};
  EXPECT_EQ(apply_errors(state, {PeerDel{.primary = nid("10.0.3.1@tcp")}, refresh}), "") << "as it was";
  // A NID that was given back may go to another peer, also in the same list.
  EXPECT_EQ(apply_errors(state, {PeerDel{.primary = nid("10.0.0.1@tcp"), .nids = {nid("10.0.0.2@tcp")}},
                                 peer_add("10.0.0.2@tcp", ""), PeerDel{.primary = nid("10.0.1.1@tcp")},
                                 peer_add("10.0.0.2@tcp", "10.0.1.1@tcp")}),
            "");
  ASSERT_EQ(state.peers.size(), 2u);
  EXPECT_EQ(state.peers[0].nids, std::vector<Nid>{nid("10.0.0.3@tcp")});
  EXPECT_EQ(state.peers[1].nids, std::vector<Nid>{nid("10.0.1.1@tcp")});
}

TEST(ConfigApply, settings) {
  DesiredState state;
  EXPECT_EQ(apply_errors(state, {SetValue{"health_sensitivity", 0}}), "");
  EXPECT_EQ(state.global.retry_count, 0);
  EXPECT_EQ(apply_errors(state, {SetValue{"retry_count", 3}}),
            "0 -22 cannot configure retry_count: it must be 0 while health_sensitivity is 0\n");
  EXPECT_EQ(apply_errors(state, {SetValue{"retry_count", 3}, SetValue{"health_sensitivity", 100}}), "");
  EXPECT_EQ(apply_errors(state, {SetValue{"transaction_timeout", 3}}),
            "0 -22 cannot configure transaction_timeout: 3 must be more than retry_count 3\n");
  EXPECT_EQ(apply_errors(state, {SetValue{"max_interfaces", 15}, SetValue{"discovery", 2}, SetBuffers{.small = 5},
                                 UlnetSet{"accept_port", 70000}}),
            "2 -100 Network is down: LNet is not configured; run 'lnet configure' first\n"
            "3 -22 cannot configure accept_port: '70000' is out of range; allowed: 1..65535\n");
  EXPECT_EQ(apply_errors(state, {LnetConfigure{}, SetValue{"max_interfaces", 15}, SetValue{"discovery", 2},
                                 SetBuffers{.small = 5}}),
            "");
  EXPECT_EQ(state.global.max_interfaces, 4096);
  EXPECT_EQ(state.global.discovery, Discovery::kVerify);
  EXPECT_EQ(state.buffers, (Buffers{.tiny = 2048, .small = 5, .large = 1024}));
}

// 10,000 peers with 4 NIDs: in proportion, not by the square.
TEST(ConfigApply, many_peers) {
  ChangeList list{{LnetConfigure{}, {}}};
  for (uint32_t i = 0; i < 10000; ++i) {
    PeerConfig peer{.primary = Nid::v4(net("tcp"), i * 4)};
    for (uint32_t n = 1; n < 4; ++n) peer.nids.push_back(Nid::v4(net("tcp"), i * 4 + n));
    list.push_back({PeerAdd{peer}, {}});
  }
  DesiredState state;
  EXPECT_TRUE(changes_apply(state, list).empty());
  EXPECT_EQ(state.peers.size(), 10000u);
}

}  // namespace
}  // namespace ulnet::config
