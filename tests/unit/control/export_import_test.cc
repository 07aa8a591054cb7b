// The export of a node makes the same node when a fresh node imports it. Lists of changes on a machine with several
// addresses on an interface.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <thread>

#include "config/emit.h"
#include "config/export.h"
#include "config/load.h"
#include "control/api/client.h"
#include "control/api/requests.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// A node with interfaces eth0 (three addresses) and eth1, under ulnetd's rules, on a fabric of its own.
struct Machine {
  Machine() : node(rig.add({})) {
    node.node->applier().set_wait_for_devices(true);
    node.devices->add("eth0", {"10.1.0.1@tcp", "10.1.0.101@tcp", "fd00:1::1@tcp"});
    node.devices->add("eth1", {"10.2.0.1@tcp"});
  }
  ~Machine() { rig.stop_all(); }
  /// The answer of the node on its control socket, as ulnetctl gets it.
  api::Answer ask(const api::Request& request) {
    const auto path = std::filesystem::temp_directory_path() / ("ulnet_ask." + std::to_string(getpid()) + ".sock");
    NodeRequests requests(*node.node, "test");
    requests.serve(api::Call::kShowPort, {[](api::RequestId, const api::Request&) { throw std::bad_alloc(); }, {}, {}});
    auto server = *api::Server::open({.path = path}, requests);
    requests.set_server(*server);
    api::Answer answer;
    std::atomic<bool> done = false;
    std::thread client([&] {
      auto connected = api::Client::connect({.path = path});
      auto got = connected ? connected->call(request) : tl::unexpected(connected.error());
      if (got) answer = *got;
      EXPECT_TRUE(got.has_value());
      done = true;
    });
    while (!done) {
      (void)server->poll(rig.now);
      rig.step();
    }
    client.join();
    return answer;
  }
  std::string exported(bool backup) {
    api::Request request;
    request.verb = api::Verb::kShow;
    request.object = "export";
    request.args["backup"] = backup;
    return config::emit(ask(request).doc);
  }
  std::string import(const std::string& text) {
    config::Imported imported = config::load_text(text, "f");
    for (const Problem& problem : imported.errors) ADD_FAILURE() << config::problem_text(problem) << "\n" << text;
    return rig.apply(node, std::move(imported.changes));
  }
  std::string nids() {
    std::string text;
    for (const LocalNis::LocalNet& net : node.node->control().nis->nets())
      for (const LocalNi& ni : net.nis) text += (text.empty() ? "" : " ") + nid_text(ni.nid);
    return text;
  }
  const config::DesiredState& desired() { return node.node->control().desired; }

  NodeRig rig;
  RigNode& node;
};

constexpr const char* kWhole =
    "net:\n"
    "  - net type: tcp\n    local NI(s):\n"
    "      - {interfaces: {0: eth1}, lnd tunables: {conns_per_peer: 3, timeout: 20, tos: 8}, CPT: '[0]'}\n"
    "      - {nid: 10.1.0.101@tcp, tunables: {peer_timeout: 7, peer_credits: 9, peer_buffer_credits: 5, credits: 99},\n"
    "         lnd tunables: {conns_per_peer: 1, timeout: 50, tos: -1}, CPT: '[0]'}\n"
    "  - net type: tcp70\n"
    "    nid: fd00:1::1@tcp70\n    interfaces: {0: eth0}\n"
    "    lnd tunables: {conns_per_peer: 1, timeout: 50, tos: -1}\n    CPT: '[0]'\n"
    // there is no eth7: the NI waits
    "  - {net type: tcp8, interfaces: {0: eth7}, tunables: {credits: 77}, CPT: '[0]'}\n"
    "route:\n  - {net: tcp5, gateway: 10.2.0.9@tcp, hop: 2, priority: 3}\n"
    "  - {net: tcp6, gateway: 10.8.0.9@tcp8}\n"
    "peer:\n  - {primary nid: 10.2.0.7@tcp, lock_prim: true, peer ni: [{nid: 10.2.0.7@tcp}, {nid: 10.2.0.8@tcp}]}\n"
    "  - {primary nid: 10.2.0.5@tcp, Multi-Rail: false}\n"
    "buffers: {tiny: 70, small: 71, large: 3}\n"
    "global: {discovery: verify, retry_count: 1, max_interfaces: 100, response_tracking: 1, numa_range: 7}\n"
    "udsp:\n  - {src: tcp, action: {priority: 3}}\n  - {dst: 10.2.0.7@tcp, rte: 10.2.0.9@tcp}\n"
    "ulnet: {forwarding: enabled, alive_router_check_interval: 0, router_hold_timeout: 9, socklnd: {keepalive: 11}}\n";

// Goal: a full export, and a backup, give the same node again. Both keep second and IPv6 addresses, waiting NIs, locked
// peers, the order of nets and NIs, and routing that is switched off.
TEST(Exporting, an_export_makes_the_same_node) {
  Machine first;
  ASSERT_EQ(first.import(kWhole), "");
  EXPECT_EQ(first.nids(), "10.2.0.1@tcp 10.1.0.101@tcp fd00:1::1@tcp70");
  const std::string full = first.exported(false), backup = first.exported(true);
  for (const bool from_backup : {false, true}) {
    SCOPED_TRACE(from_backup ? backup : full);
    Machine second;
    ASSERT_EQ(second.import(from_backup ? backup : full), "");
    EXPECT_EQ(second.nids(), first.nids());
    EXPECT_EQ(second.exported(false), full);
    if (from_backup) {  // a full export also gives the interface of each address
      EXPECT_EQ(second.exported(true), backup);
    }
  }
}

// Goal: a change without effect, or with effect only after a restart, gives a warning in its answer and in the journal.
// A setting that is in force already gives no second warning.
TEST(Exporting, changes_without_effect_are_answered_with_warnings) {
  Machine m;
  const auto warnings = [&](const std::string& yaml) {
    api::Request request;
    request.verb = api::Verb::kChange;
    request.changes = config::load_text(yaml, "f").changes;
    const api::Answer answer = m.ask(request);
    std::string text;
    for (const std::string& line : answer.warnings) text += line + "\n";
    for (const api::ApiError& error : answer.errors) text += "error: " + error.descr + "\n";
    return text;
  };
  const std::string workers = "f:1:18: ulnet.workers takes effect at the next start of ulnetd";
  EXPECT_EQ(warnings("ulnet: {workers: 4, log: debug}\n"), workers + "\n");
  EXPECT_EQ(warnings("ulnet: {workers: 4, log: debug}\n"), "");
  EXPECT_EQ(std::count(m.node.journal.begin(), m.node.journal.end(), "warning: " + workers), 1);
  EXPECT_EQ(warnings("global: {recovery_interval: 5}\n"),
            "f:1:29: recovery_interval has no effect: Lustre accepts the key and does not use it either\n");
  api::Request recovery;
  recovery.verb = api::Verb::kShow;
  recovery.object = "recovery";
  EXPECT_EQ(config::emit(m.ask(recovery).doc), "") << "all NIs are well";
}

// Goal: if memory runs out while an answer is made, the request fails. The error proposes a smaller request.
TEST(Exporting, an_answer_without_memory_is_an_error) {
  Machine m;
  api::Request request;
  request.verb = api::Verb::kShow;
  request.object = "port";
  const api::Answer answer = m.ask(request);
  ASSERT_EQ(answer.errors.size(), 1u);
  EXPECT_EQ(answer.errors[0].code, -ENOMEM);
  EXPECT_EQ(answer.errors[0].descr, "there is no memory for the answer; ask for a part of it (--net, --nid)");
}

// Goal: a backup names only the interface if this suffices, so that the NI follows the interface's address.
TEST(Exporting, a_backup_names_addresses_only_where_the_interface_does_not_suffice) {
  Machine m;
  ASSERT_EQ(m.import("net:\n  - {net type: tcp, nid: 10.1.0.1@tcp, interfaces: {0: eth0}}\n"
                     "  - {net type: tcp1, nid: 10.1.0.101@tcp1, interfaces: {0: eth0}}\n"),
            "");
  const std::string backup = m.exported(true);
  EXPECT_EQ(backup.find("10.1.0.1@tcp\n"), std::string::npos) << backup;
  EXPECT_NE(backup.find("10.1.0.101@tcp1\n"), std::string::npos) << backup;
}

// Goal: an interface of a net stands for every NI on it, by whatever name each was added.
TEST(Exporting, deleting_an_interface_deletes_all_its_nis) {
  Machine m;
  config::NetAdd by_name;
  by_name.net = net("tcp");
  by_name.ni.interface = "eth0";
  ASSERT_EQ(m.rig.apply(m.node, {{by_name, {}},
                                 {NodeRig::net_add("10.1.0.101@tcp"), {}},
                                 {NodeRig::net_add("10.2.0.1@tcp"), {}},
                                 {NodeRig::net_add("10.1.0.101@tcp1"), {}}}),
            "");
  config::NetDel del;
  del.net = net("tcp");
  del.interface = "eth0";
  ASSERT_EQ(m.rig.apply(m.node, del), "");
  EXPECT_EQ(m.nids(), "10.2.0.1@tcp 10.1.0.101@tcp1");
  EXPECT_EQ(m.desired().nets[0].nis.size(), 1u);
  EXPECT_NE(m.rig.apply(m.node, del).find("-22 cannot del network: eth0 is not an NI of tcp"), std::string::npos);
}

// Goal: rules of ip2nets that fit no address of the node are an error, and so is a rule that contradicts its interface.
// Rules for other nodes are accepted.
TEST(Exporting, ip2nets_that_do_not_fit_are_refused) {
  Machine m;
  EXPECT_EQ(m.import("ip2nets:\n  - {net-spec: tcp, ip-range: {0: 10.3.0.*}}\n"
                     "  - {net-spec: tcp1, ip-range: {0: 10.4.0.*}}\n"),
            "-42 no interfaces match ip2nets rules; addresses of this node: 10.1.0.1 on eth0, 10.1.0.101 on eth0, "
            "10.2.0.1 on eth1\n");
  EXPECT_EQ(m.import("ip2nets:\n  - {net-spec: tcp, ip-range: {0: 10.1.0.*}}\n"
                     "  - {net-spec: tcp1, interfaces: {0: eth1}, ip-range: {0: 10.1.0.*}}\n"),
            "-22 ip2nets: the rule of tcp1 names eth1, but the address that it matches is 10.1.0.1@tcp1 on eth0\n");
  EXPECT_EQ(m.nids(), "");
  EXPECT_EQ(m.import("ip2nets:\n  - {net-spec: tcp, ip-range: {0: 10.3.0.*}}\n"
                     "  - {net-spec: tcp1, interfaces: {0: eth1}, ip-range: {0: 10.2.0.*}}\n"),
            "");
  EXPECT_EQ(m.nids(), "10.2.0.1@tcp1");
}

}  // namespace
}  // namespace ulnet::test
