// YAML to typed changes: every layout, every section, and every mistake with its place.
#include <filesystem>

#include "config/apply.h"
#include "config/export.h"
#include "config/load.h"
#include "dataplane/base/nid_text.h"
#include "tests/unit/config/golden.h"

namespace ulnet::config {
namespace {

/// The changes of `text` in their JSON form, one to a line, without their places.
std::string changes_of(const std::string& text, ImportMode mode = ImportMode::kAdd) {
  Imported imported = load_text(text, "f", mode);
  EXPECT_EQ(texts_of(imported.errors), "");
  std::string out;
  for (PlacedChange change : imported.changes) {
    std::optional<int64_t> seq_no = change.origin.seq_no;
    change.origin = {};
    change.origin.seq_no = seq_no;
    out += json_dump(change_to_json(change)) + "\n";
  }
  return out;
}

std::string errors_of(const std::string& text, ImportMode mode = ImportMode::kAdd) {
  return texts_of(load_text(text, "f", mode).errors);
}

constexpr const char* kNiTail =
    R"("tunables":{"peer_timeout":180,"peer_credits":8,"peer_buffer_credits":0,"credits":256},"lnd_tunables":{},)"
    R"("skip_mr_route_setup":false})";

TEST(ConfigLoad, the_three_layouts_say_the_same) {
  const std::string netlink =
      "net:\n-     net type: tcp1\n      local NI(s):\n      -     interfaces:\n                  0: eth0\n"
      "            CPT: \"[0,1]\"\n            lnd tunables:\n                  map_on_demand: true\n";
  const std::string classic =
      "net:\n    - net type: tcp1\n      local NI(s):\n        - interfaces:\n              0: eth0\n"
      "          CPT: \"[0,1]\"\n          lnd tunables:\n              map_on_demand: 'True'\n";
  const std::string netlink2 =
      "---\nnet:\n- net type: tcp1\n  local NI(s):\n  - interfaces:\n      0: eth0\n    CPT: [0,1]\n    lnd tunables:\n"
      "      map_on_demand: 1\n...\n";
  EXPECT_EQ(changes_of(netlink),
            R"({"change":"net_add","net":"tcp1","ni":{"interface":"eth0","cpts":[0,1],"tunables":{"peer_timeout":180,)"
            R"("peer_credits":8,"peer_buffer_credits":0,"credits":256},"lnd_tunables":{"map_on_demand":1},)"
            R"("skip_mr_route_setup":false}})"
            "\n");
  EXPECT_EQ(changes_of(classic), changes_of(netlink));
  EXPECT_EQ(changes_of(netlink2), changes_of(netlink));
}

// Goal: a backup by lnetctl becomes the state that it was taken from, and is written again with the same bytes.
TEST(ConfigLoad, backups_round_trip) {
  for (const char* name : {"tcp-mr.export-backup", "o2ib-mr.export-backup", "tcp-mr.import-roundtrip"}) {
    SCOPED_TRACE(name);
    Imported imported = load_text(golden_text(name), name);
    EXPECT_EQ(texts_of(imported.errors) + texts_of(imported.warnings), "");
    Problems problems;
    DesiredState state = state_of(imported.changes, problems);
    EXPECT_EQ(texts_of(problems), "");
    EXPECT_EQ(emit(export_backup(state)), golden_text(name));
    Imported again = load_text(emit_classic(export_backup(state)), "classic");
    EXPECT_EQ(state_of(again.changes, problems), state);
  }
}

TEST(ConfigLoad, backup_is_the_right_change_list) {
  Imported imported = load_text(golden_text("tcp-mr.export-backup"), "f");
  std::string names;
  for (const PlacedChange& change : imported.changes)
    names += to_json(from_json(change_to_json(change)))["change"].get<std::string>() + " ";
  std::string globals;
  for (int i = 0; i < 12; ++i) globals += "set_value ";
  EXPECT_EQ(names, "net_add net_add peer_add peer_add " + globals + "udsp_add udsp_add ");
  EXPECT_EQ(imported.changes[0].origin.mark.line, 4u);
  EXPECT_EQ(std::get<PeerAdd>(imported.changes[2].change).peer.nids.size(), 1u);
}

// lnetctl refuses its own full export because of lo. The loader skips lo.
TEST(ConfigLoad, full_exports_are_accepted) {
  for (const char* name : {"tcp-mr.export", "router.export", "tcp-ipv6.export"}) {
    SCOPED_TRACE(name);
    Imported imported = load_text(golden_text(name), name);
    EXPECT_EQ(texts_of(imported.errors), "");
    ASSERT_EQ(imported.warnings.size(), 1u);
    EXPECT_NE(imported.warnings[0].what.find("was discovered"), std::string::npos);
    Problems problems;
    DesiredState state = state_of(imported.changes, problems);
    EXPECT_EQ(texts_of(problems), "");
    EXPECT_EQ(state.nets.size(), name == std::string("router.export") ? 2u : 1u);
    EXPECT_TRUE(state.peers.empty()) << "nobody configured them";
    EXPECT_EQ(state.routing.enable, name == std::string("router.export"));
  }
}

TEST(ConfigLoad, nets) {
  EXPECT_EQ(changes_of("net:\n- net type: lo\n  local NI(s):\n  - nid: 0@lo\n"), "");
  // Keys of the NIs may stand under the net; one NI for each interface; an interface's own CPTs win.
  EXPECT_EQ(
      changes_of(
          "net:\n  - net type: tcp\n    interfaces:\n      0: eth0\n      1: eth1[1]\n    CPT: '[0]'\n    seq_no: 7\n"),
      std::string(R"({"change":"net_add","net":"tcp","ni":{"interface":"eth0","cpts":[0],)") + kNiTail +
          ",\"seq_no\":7}\n" + R"({"change":"net_add","net":"tcp","ni":{"interface":"eth1","cpts":[1],)" + kNiTail +
          ",\"seq_no\":7}\n");
  // Tunables of the net are those of each NI, which may change them.
  Imported imported = load_text(
      "net:\n  - net type: tcp\n    tunables: {credits: 512, peer_credits: 16}\n    local NI(s):\n"
      "      - interfaces: {0: eth0}\n        tunables: {peer_credits: 32}\n      - nid: 10.0.0.2@tcp\n",
      "f");
  EXPECT_EQ(texts_of(imported.errors), "");
  ASSERT_EQ(imported.changes.size(), 2u);
  const NiConfig& first = std::get<NetAdd>(imported.changes[0].change).ni;
  EXPECT_EQ(first.tunables.credits, 512);
  EXPECT_EQ(first.tunables.peer_credits, 32);
  const NiConfig& second = std::get<NetAdd>(imported.changes[1].change).ni;
  EXPECT_EQ(second.tunables.peer_credits, 16);
  EXPECT_EQ(nid_text(*second.nid), "10.0.0.2@tcp");
}

// Goal: a NID beside an interface selects one of its addresses. Without a NID, the interface's first IPv4 address is
// used.
TEST(ConfigLoad, a_nid_beside_an_interface_is_kept) {
  const std::string text =
      "net:\n  - net type: tcp\n    local NI(s):\n      - {nid: 10.0.0.101@tcp, interfaces: {0: eth0}}\n"
      "      - {nid: 'fd00::1@tcp', interfaces: {0: eth0}}\n      - interfaces: {0: eth0}\n";
  Problems problems;
  const DesiredState state = state_of(load_text(text, "f").changes, problems);
  EXPECT_EQ(texts_of(problems), "");
  ASSERT_EQ(state.nets.size(), 1u);
  std::string nis;
  for (const NiConfig& ni : state.nets[0].nis) nis += (ni.nid ? nid_text(*ni.nid) : "?") + " " + ni.interface + "; ";
  EXPECT_EQ(nis, "10.0.0.101@tcp eth0; fd00::1@tcp eth0; ? eth0; ");
  EXPECT_EQ(state_of(load_text(emit(export_backup(state)), "backup").changes, problems), state);
  EXPECT_EQ(changes_of("net:\n  - {net type: tcp, nid: 10.0.0.101@tcp, interfaces: {0: eth0}}\n", ImportMode::kDel),
            "{\"change\":\"net_del\",\"net\":\"tcp\",\"nid\":\"10.0.0.101@tcp\",\"now\":false}\n");
  EXPECT_EQ(errors_of("net:\n  - net type: tcp\n    nid: 10.0.0.1@tcp\n    interfaces: {0: eth0, 1: eth1}\n"),
            "f:3:10: net[0].nid: '10.0.0.1@tcp' cannot select an address: there is more than one interface; allowed: "
            "one interface for each NID\n");
  EXPECT_EQ(errors_of("net:\n  - net type: tcp\n    nid: 10.0.0.1@tcp1\n    interfaces: {0: eth0}\n"),
            "f:3:10: net[0].nid: '10.0.0.1@tcp1' is not on net tcp; allowed: a NID such as 10.0.0.1@tcp\n");
}

// Goal: a NID that a peer's list has twice is refused where it stands, with its indexes in the list as written.
TEST(ConfigLoad, a_nid_twice_in_a_peer_is_reported_with_its_index) {
  EXPECT_EQ(errors_of("peer:\n  - primary nid: 10.0.0.5@tcp\n    peer ni:\n      - nid: 10.0.0.5@tcp\n"
                      "      - nid: 10.0.0.6@tcp\n      - nid: 10.0.0.6@tcp\n"),
            "f:6:14: peer[0].peer ni[2].nid: '10.0.0.6@tcp' failed to add peer: 10.0.0.6@tcp is listed twice (index 1 "
            "and 2 of the NIDs)\n");
  EXPECT_EQ(errors_of("peers:\n  - nids: {0: 10.0.0.5@tcp, 1: 10.0.0.6@tcp, 2: 10.0.0.5@tcp}\n"),
            "f:2:49: peers[0].nids.2: '10.0.0.5@tcp' failed to add peer: 10.0.0.5@tcp is listed twice (index 0 and 2 "
            "of the NIDs)\n");
  Problems problems;
  (void)state_of(load_text("peer:\n  - primary nid: 10.0.0.1@tcp\n  - primary nid: 10.0.0.5@tcp\n    peer ni:\n"
                           "      - nid: 10.0.0.5@tcp\n      - nid: 10.0.0.1@tcp\n",
                           "f")
                     .changes,
                 problems);
  EXPECT_EQ(texts_of(problems),
            "f:3:5: failed to add peer: 10.0.0.1@tcp belongs to peer 10.0.0.1@tcp (index 1 of the NIDs)\n");
}

TEST(ConfigLoad, a_locked_primary_survives_a_backup) {
  DesiredState state{.configured = true};
  state.peers.push_back({.primary = *nid_parse("10.0.0.1@tcp"), .nids = {*nid_parse("10.0.0.2@tcp")}});
  state.peers[0].lock_primary = true;
  Problems problems;
  EXPECT_EQ(state_of(load_text(emit(export_backup(state)), "f").changes, problems), state);
  EXPECT_EQ(texts_of(problems), "");
}

TEST(ConfigLoad, del) {
  EXPECT_EQ(changes_of("net:\n  - net type: tcp\n  - net type: tcp1\n    local NI(s):\n      - interfaces: {0: eth1}\n",
                       ImportMode::kDel),
            "{\"change\":\"net_del\",\"net\":\"tcp\",\"now\":false}\n"
            "{\"change\":\"net_del\",\"net\":\"tcp1\",\"interface\":\"eth1\",\"now\":false}\n");
  EXPECT_EQ(changes_of("route:\n  - net: tcp2\n    gateway: 10.0.0.1@tcp\npeer:\n  - primary nid: 10.0.0.2@tcp\n"
                       "  - primary nid: 10.0.0.3@tcp\n    peer ni:\n      - nid: 10.0.0.4@tcp\n",
                       ImportMode::kDel),
            "{\"change\":\"route_del\",\"net\":\"tcp2\",\"gateway\":\"10.0.0.1@tcp\"}\n"
            "{\"change\":\"peer_del\",\"primary\":\"10.0.0.2@tcp\",\"force\":false}\n"
            "{\"change\":\"peer_del\",\"primary\":\"10.0.0.3@tcp\",\"nids\":[\"10.0.0.4@tcp\"],\"force\":false}\n");
  EXPECT_EQ(
      changes_of("global:\n  numa_range: 5\n  max_intf: 20\n  discovery: 0\n  retry_count: 1\nrouting:\n  enable: 1\n",
                 ImportMode::kDel),
      "{\"change\":\"set_value\",\"name\":\"numa_range\",\"value\":0}\n"
      "{\"change\":\"set_value\",\"name\":\"max_interfaces\",\"value\":4096}\n"
      "{\"change\":\"set_value\",\"name\":\"discovery\",\"value\":1}\n"
      "{\"change\":\"set_routing\",\"enable\":false}\n");
}

TEST(ConfigLoad, routes_and_routing) {
  EXPECT_EQ(
      changes_of("route:\n  - net: tcp[1-2]\n    gateway: 10.1.1.[1-2]@tcp\n    hop: 2\n    priority: '0x1'\n"),
      "{\"change\":\"route_add\",\"route\":{\"net\":\"tcp1\",\"gateway\":\"10.1.1.1@tcp\",\"hop\":2,\"priority\":1}}\n"
      "{\"change\":\"route_add\",\"route\":{\"net\":\"tcp1\",\"gateway\":\"10.1.1.2@tcp\",\"hop\":2,\"priority\":1}}\n"
      "{\"change\":\"route_add\",\"route\":{\"net\":\"tcp2\",\"gateway\":\"10.1.1.1@tcp\",\"hop\":2,\"priority\":1}}\n"
      "{\"change\":\"route_add\",\"route\":{\"net\":\"tcp2\",\"gateway\":\"10.1.1.2@tcp\",\"hop\":2,\"priority\":1}}"
      "\n");
  EXPECT_EQ(changes_of("routing:\n    enable: 1\nbuffers:\n    tiny: 512\n    small: -1\n"),
            "{\"change\":\"set_routing\",\"enable\":true}\n{\"change\":\"set_buffers\",\"tiny\":512}\n");
  EXPECT_EQ(changes_of("routing:\n    - cpt[0]:\n          tiny:\n              npages: 0\n    - enable: 1\n"),
            "{\"change\":\"set_routing\",\"enable\":true}\n");
}

TEST(ConfigLoad, peers_policies_and_old_words) {
  EXPECT_EQ(
      changes_of("peer:\n    - primary nid: 10.0.0.1@tcp\n      Multi-Rail: False\n      peer ni:\n        - nid: "
                 "10.0.0.1@tcp\n"
                 "        - nid: 10.0.1.[1-2]@tcp1\n          state: NA\n"),
      "{\"change\":\"peer_add\",\"peer\":{\"primary\":\"10.0.0.1@tcp\",\"nids\":[\"10.0.1.1@tcp1\",\"10.0.1.2@tcp1\"],"
      "\"multi_rail\":false,\"lock_primary\":false},\"refresh\":true,\"primary_at\":0}\n");
  EXPECT_EQ(changes_of("peers:\n  - nids:\n      0: 10.2.2.3@tcp\n      1: 10.5.5.5@tcp2\n"),
            "{\"change\":\"peer_add\",\"peer\":{\"primary\":\"10.2.2.3@tcp\",\"nids\":[\"10.5.5.5@tcp2\"],\"multi_"
            "rail\":true,"
            "\"lock_primary\":false},\"refresh\":true,\"primary_at\":0}\n");
  const std::string one =
      "{\"change\":\"udsp_add\",\"rule\":{\"idx\":0,\"src\":\"10.10.10.2@o2ib1\",\"dst\":\"10.10.10.4@o2ib1\","
      "\"priority\":0}}\n";
  EXPECT_EQ(changes_of("udsp:\n    - idx: 0\n      src: 10.10.10.2@o2ib1\n      dst: 10.10.10.4@o2ib1\n      action:\n"
                       "          priority: 0\n"),
            one);
  EXPECT_EQ(changes_of("udsp:\n    - idx: 0\n      src: 10.10.10.2@o2ib1\n      dst: 10.10.10.4@o2ib1\n      action:\n"
                       "        - priority: 0\n"),
            one);
  EXPECT_EQ(
      changes_of(
          "numa:\n    range: 7\nglobal:\n    max_intf: 200\n    discovery: verify\nstatistics:\n    send_count: 1\n"),
      "{\"change\":\"set_value\",\"name\":\"numa_range\",\"value\":7}\n"
      "{\"change\":\"set_value\",\"name\":\"max_interfaces\",\"value\":200}\n"
      "{\"change\":\"set_value\",\"name\":\"discovery\",\"value\":2}\n");
  Imported old = load_text(
      "net:\n  - net type: tcp\n    local NI(s):\n      - interfaces: {0: eth0}\n        tcp bonding: 1\n"
      "global:\n  use_tcp_bonding: 0\n  max_interfaces: 3\n",
      "f");
  EXPECT_EQ(texts_of(old.errors), "");
  EXPECT_EQ(texts_of(old.warnings),
            "f:5:22: net[0].local NI(s)[0].tcp bonding: '1' has no effect; "
            "configure several NIs on the net instead of bonding\n"
            "f:8:19: global.max_interfaces: '3' is below 16 and becomes 4096\n");
}

TEST(ConfigLoad, ip2nets) {
  EXPECT_EQ(changes_of("ip2nets:\n  - net-spec: tcp\n    interfaces: {0: eth0}\n    ip-range:\n      0: 192.168.0.*\n"
                       "    tunables: {credits: 9}\n"),
            "{\"change\":\"net_add_matching\",\"rule\":{\"net\":\"tcp\",\"interfaces\":[{\"name\":\"eth0\"}],"
            "\"patterns\":[\"192.168.0.*\"],\"ni\":{\"tunables\":{\"peer_timeout\":180,\"peer_credits\":8,"
            "\"peer_buffer_credits\":0,\"credits\":9},\"lnd_tunables\":{},\"skip_mr_route_setup\":false}}}\n");
  EXPECT_EQ(errors_of("ip2nets:\n  - net-spec: tcp\n    ip-range: {0: 192.168.0.256}\n"),
            "f:3:19: ip2nets[0].ip-range.0: '192.168.0.256' is not an address pattern; allowed: "
            "four parts with dots between them, each a number, * or [a-b/stride], such as 192.168.0.*\n"
            "f:2:5: ip2nets[0]: 'ip-range' is missing; allowed: ip-range: with 0: 192.168.0.* below it\n");
}

TEST(ConfigLoad, ulnet_section) {
  EXPECT_EQ(changes_of("ulnet:\n  idle: busy\n  unprivileged_ports: true\n  accept_port: 9988\n  socket:\n    mode: "
                       "0640\n  devices: [{name: a, device: tap}]\n"),
            "{\"change\":\"ulnet_set\",\"key\":\"idle\",\"value\":\"busy\"}\n"
            "{\"change\":\"ulnet_set\",\"key\":\"unprivileged_ports\",\"value\":true}\n"
            "{\"change\":\"ulnet_set\",\"key\":\"accept_port\",\"value\":9988}\n"
            "{\"change\":\"ulnet_set\",\"key\":\"socket.mode\",\"value\":\"0640\"}\n"
            "{\"change\":\"ulnet_set\",\"key\":\"devices\",\"value\":[{\"name\":\"a\",\"device\":"
            "\"tap\"}]}\n");
  Problems problems;
  DesiredState state = state_of(
      load_text("ulnet:\n  idle: busy\n  socket: {mode: 0640}\n  socklnd: {keepalive: 7}\n", "f").changes, problems);
  EXPECT_EQ(state.ulnet.idle, Idle::kBusy);
  EXPECT_EQ(state.ulnet.socket.mode, 0640);
  EXPECT_EQ(state.ulnet.driver.at("ulnet.socklnd.keepalive"), 7);
  Imported again = load_text(emit(export_backup(state)), "again");
  EXPECT_EQ(texts_of(again.errors), "");
  EXPECT_EQ(state_of(again.changes, problems), state);
  EXPECT_EQ(emit(export_ulnet(state.ulnet)), "idle: busy\nsocket:\n    mode: 0640\nsocklnd:\n    keepalive: 7\n");
}

// `set routing 0` on a node that routes from its start.
TEST(ConfigLoad, routing_switched_off_against_forwarding_is_kept) {
  Problems problems;
  DesiredState state = state_of(load_text("ulnet:\n  forwarding: enabled\n", "f").changes, problems);
  state.configured = true;
  for (const bool enable : {false, true}) {
    state.routing.enable = enable;
    const std::string text = emit(export_backup(state));
    EXPECT_NE(text.find(enable ? "routing:\n    enable: 1\n" : "routing:\n    enable: 0\n"), std::string::npos) << text;
    Imported again = load_text(text, "again");
    EXPECT_EQ(std::count_if(again.changes.begin(), again.changes.end(),
                            [&](const PlacedChange& one) { return one.change == Change(SetRouting{enable}); }),
              1);
  }
}

TEST(ConfigLoad, exec_and_show) {
  Imported imported = load_text(
      "ping:\n  timeout: 500\n  source: 10.0.0.9@tcp\n  nids:\n    0: 10.0.0.[1-2]@tcp\ndiscover:\n"
      "  nids: [10.0.0.3@tcp]\n  force: 1\n",
      "f", ImportMode::kExec);
  EXPECT_EQ(texts_of(imported.errors), "");
  ASSERT_EQ(imported.exec.size(), 2u);
  EXPECT_EQ(imported.exec[0].nids.size(), 2u);
  EXPECT_EQ(imported.exec[0].timeout, Milliseconds(500));
  EXPECT_EQ(nid_text(*imported.exec[0].source), "10.0.0.9@tcp");
  EXPECT_EQ(imported.exec[1].object, "discover");
  EXPECT_TRUE(imported.exec[1].force);
  EXPECT_TRUE(imported.changes.empty());
  EXPECT_EQ(load_text("net:\nglobal:\n", "f", ImportMode::kShow).sections, (std::vector<std::string>{"net", "global"}));
}

// Goal: every mistake is found in one reading, each with file, line, column, path, value and what would be allowed.
TEST(ConfigLoad, all_mistakes_with_their_places) {
  EXPECT_EQ(
      errors_of("net:\n"
                "  - net type: tpc\n"
                "  - local NI(s): []\n"
                "  - net type: tcp\n"
                "    local NI(s):\n"
                "      - interfaces:\n"
                "          0: eth0[x]\n"
                "        tunables:\n"
                "          peer_credit: 8\n"
                "          credits: many\n"
                "          peer_timeout: -1\n"
                "        CPT: '[a]'\n"
                "  - net type: tcp1\n"
                "    nid: 10.0.0.1@tcp2\n"
                "  - net type: tcp3\n"
                "nets: []\n"),
      "f:2:15: net[0].net type: 'tpc' cannot parse net; allowed: a network such as tcp, tcp1 or o2ib3\n"
      "f:3:5: net[1]: 'net type' is missing; allowed: a network such as tcp, tcp1 or o2ib3\n"
      "f:7:14: net[2].local NI(s)[0].interfaces.0: 'eth0[x]' '[x]' is not a list of CPTs such as [0,1]; allowed: the "
      "name of an "
      "interface, such as eth0 or eth0[0,2]\n"
      "f:9:11: net[2].local NI(s)[0].tunables.peer_credit: unknown key; did you mean 'peer_credits'?\n"
      "f:10:20: net[2].local NI(s)[0].tunables.credits: 'many' is not a number; allowed: 1..1048576 messages\n"
      "f:11:25: net[2].local NI(s)[0].tunables.peer_timeout: '-1' is out of range; allowed: 0 s or more\n"
      "f:12:14: net[2].local NI(s)[0].CPT: '[a]' invalid CPT set; allowed: a list in brackets such as \"[0,1]\"\n"
      "f:6:9: net[2].local NI(s)[0]: interface / NID is missing; allowed: interfaces: with 0: eth0 below it, or nid: "
      "10.0.0.1@tcp\n"
      "f:14:10: net[3].nid: '10.0.0.1@tcp2' is not on net tcp1; allowed: a NID such as 10.0.0.1@tcp1\n"
      "f:15:5: net[4]: interface / NID is missing; allowed: interfaces: with 0: eth0 below it, or nid: 10.0.0.1@tcp3\n"
      "f:16:1: nets: unknown key; did you mean 'net'?\n");
  EXPECT_EQ(
      errors_of("route:\n  - net: tcp1\n    hop: 256\n  - gateway: 10.0.0.1\n    net: tcp9x\n    hop: 0\n"),
      "f:3:10: route[0].hop: '256' is out of range; allowed: -1..255 hops\n"
      "f:2:5: route[0]: missing mandatory parameter: gateway; allowed: gateway: 10.0.0.1@tcp\n"
      "f:5:10: route[1].net: 'tcp9x' cannot parse remote net: 'tcp9x' is not a network such as tcp, tcp1 or o2ib3; "
      "allowed: tcp1, or a range such as tcp[1-3]\n"
      "f:6:10: route[1].hop: '0' invalid hop count must be between 1 and 255; allowed: 1..255, or -1 if unknown\n");
  EXPECT_EQ(errors_of("peer:\n  - Multi-Rail: maybe\n    peer ni:\n      - nid: 10.0.0.[1-9999]@tcp\n"),
            "f:2:17: peer[0].Multi-Rail: 'maybe' is not true or false; allowed: true or false\n"
            "f:4:14: peer[0].peer ni[0].nid: '10.0.0.[1-9999]@tcp' '[1-9999]' stands for more than 4096; allowed: "
            "10.0.0.1@tcp, or a "
            "range such as 10.0.0.[1-5]@tcp\n"
            "f:2:5: peer[0]: missing primary NID; allowed: primary nid: 10.0.0.1@tcp\n");
  EXPECT_EQ(errors_of("global: 7\nbuffers:\n  tiny: 0\nulnet:\n  idle: lazy\n  unpriviledged_ports: true\n  socket: "
                      "x\nudsp:\n  - idx: 1\n"),
            "f:1:9: global: '7' is a number; allowed: a map\n"
            "f:3:9: buffers.tiny: '0' tiny, small and large must be > 0; allowed: "
            "1 or more, or -1 to keep the number that is set\n"
            "f:5:9: ulnet.idle: 'lazy' is not one of the choices; allowed: busy, adaptive or interrupt\n"
            "f:6:3: ulnet.unpriviledged_ports: unknown key; did you mean 'unprivileged_ports'?\n"
            "f:7:11: ulnet.socket: 'x' is a text; allowed: a map\n"
            "f:9:5: udsp[0]: at least one of src, dst and rte is needed\n");
  EXPECT_EQ(errors_of("- a\n- b\n"), "f:1:1: is a list; allowed: a map\n");
  EXPECT_EQ(errors_of(""), "");
}

TEST(ConfigLoad, examples_are_good) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ULNET_EXAMPLES)) {
    Imported imported = load_file(entry.path());
    Problems problems = imported.errors;
    (void)state_of(imported.changes, problems);
    EXPECT_EQ(texts_of(problems) + texts_of(imported.warnings), "");
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(ConfigLoad, a_file_that_is_not_there) {
  Imported imported = load_file("/nonexistent/x.yaml");
  EXPECT_EQ(texts_of(imported.errors), "/nonexistent/x.yaml: cannot be read: No such file or directory\n");
  EXPECT_EQ(imported.errors[0].code, -ENOENT);
}

}  // namespace
}  // namespace ulnet::config
