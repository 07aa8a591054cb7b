// NIs that wait for their interface: reported, shown, deleted, and added when it comes, with the routes that need them.
#include <algorithm>

#include "control/api/show_values.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

config::NetAdd by_name(const std::string& name, const std::string& on = "tcp") {
  config::NetAdd add;
  add.net = net(on);
  add.ni.interface = name;
  return add;
}

config::NetDel del_by_name(const std::string& name) {
  config::NetDel del;
  del.net = net("tcp");
  del.interface = name;
  return del;
}

/// "NID|interface STATUS why" of each NI but lo.
std::string shown(RigNode& node) {
  std::string text;
  for (const api::NetShow& net : net_values(node.node->control(), {}))
    for (const api::LocalNiShow& ni : net.nis) {
      if (ni.nid.is_lo()) continue;
      text += (text.empty() ? "" : "; ") + (ni.nid.is_any() ? ni.interface : nid_text(ni.nid));
      EXPECT_EQ(ni.state, ni.waits_for.empty() ? "created" : "init");
      if (!ni.waits_for.empty()) text += " waits for: " + ni.waits_for;
    }
  return text;
}

struct Waiting : testing::Test {
  Waiting() : a(rig.add({})) { a.node->applier().set_wait_for_devices(true); }
  ~Waiting() override { rig.stop_all(); }
  bool journal_has(const std::string& line) {
    return std::find(a.journal.begin(), a.journal.end(), line) != a.journal.end();
  }
  NodeRig rig;
  RigNode& a;
};

TEST_F(Waiting, comes_with_its_interface) {
  a.devices->add("eth0", {"10.0.0.1@tcp"});
  ASSERT_EQ(rig.apply(a, {{by_name("eth0"), {}}, {by_name("eth1"), {}}}), "");
  EXPECT_EQ(shown(a), "10.0.0.1@tcp; eth1 waits for: there is no interface eth1");
  EXPECT_TRUE(
      journal_has("the NI of tcp on eth1 waits: there is no interface eth1; the NI is added when this changes"));
  a.devices->add("eth1", {});
  rig.run_for(100ms);
  EXPECT_EQ(shown(a), "10.0.0.1@tcp; eth1 waits for: eth1 has no IPv4 address; name another address of it with --nid");
  a.devices->find_in_table("eth1").addresses = {nid("10.0.0.2@tcp")};
  rig.run_for(6s);  // also without an event of the machine
  EXPECT_EQ(shown(a), "10.0.0.1@tcp; 10.0.0.2@tcp");
  EXPECT_TRUE(journal_has("10.0.0.2@tcp: added on eth1, which is there now (none -> up)"));
  EXPECT_EQ(a.node->control().desired.nets[0].nis[1].nid, nid("10.0.0.2@tcp"));
  ASSERT_EQ(rig.apply(a, del_by_name("eth1")), "");
  EXPECT_EQ(shown(a), "10.0.0.1@tcp");
}

TEST_F(Waiting, is_deleted_and_refused_like_others) {
  ASSERT_EQ(rig.apply(a, by_name("eth1")), "");
  EXPECT_NE(rig.apply(a, by_name("eth1")).find("-17 cannot add LNet NI"), std::string::npos)
      << "it is asked for already";
  EXPECT_NE(rig.apply(a, by_name("eth2", "gni")).find("-22 cannot add LNet NI"), std::string::npos) << "no driver";
  ASSERT_EQ(rig.apply(a, del_by_name("eth1")), "");
  EXPECT_EQ(shown(a), "");
  a.devices->add("eth1", {"10.0.0.2@tcp"});
  rig.run_for(6s);
  EXPECT_EQ(a.node->control().nis->size(), 0u);
  // Undone with the list that it is in.
  config::NetAdd bad = by_name("eth1");
  bad.ni.cpts = {99};
  EXPECT_NE(rig.apply(a, {{by_name("eth7"), {}}, {bad, {}}}).find("-34"), std::string::npos);
  EXPECT_EQ(shown(a), "");
}

TEST_F(Waiting, routes_wait_with_it) {
  ASSERT_EQ(rig.apply(a, {{by_name("eth1"), {}}, {NodeRig::route_add("tcp9", "10.0.0.9@tcp"), {}}}), "");
  EXPECT_TRUE(a.node->control().routes->routes().empty());
  EXPECT_TRUE(journal_has("the route to tcp9 waits for an NI on tcp"));
  a.devices->add("eth1", {"10.0.0.2@tcp"});
  rig.run_for(100ms);
  ASSERT_EQ(a.node->control().routes->routes().size(), 1u);
  EXPECT_EQ(a.node->control().desired.routes.size(), 1u);
  EXPECT_NE(rig.apply(a, NodeRig::route_add("tcp8", "10.5.0.9@tcp5")).find("-113"), std::string::npos);
}

TEST_F(Waiting, is_off_unless_it_is_switched_on) {
  a.node->applier().set_wait_for_devices(false);
  EXPECT_NE(rig.apply(a, by_name("eth1")).find("-100 cannot add LNet NI: there is no interface eth1"),
            std::string::npos);
}

}  // namespace
}  // namespace ulnet::test
