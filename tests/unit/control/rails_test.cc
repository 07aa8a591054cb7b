// Several NIs of a node, as the applications of its peers and its operator see them. Events have the primary NID of the
// sender and the NID that the message came from. Each NI of `net add --if a,b` has settings of its own.
#include <algorithm>

#include "control/api/show_values.h"
#include "control/discovery/runner.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// An application on worker 0 of a node.
struct Application {
  explicit Application(RigNode& node)
      : submitter(**node.node->submitter_open(WorkerId{0}, {.ops = 16, .mds = 8, .eqs = 1, .segment_blocks = 1})),
        eq(*submitter.eq_open(32u)) {}
  MdHandle bind(uint32_t options = 0) {
    const Segment segment{bytes.data(), uint32_t(bytes.size())};
    return *submitter.md_bind({.segments = {&segment, 1}, .options = options, .eq = eq});
  }
  void attach(const Nid& initiator, uint64_t bits) {
    ASSERT_TRUE(submitter.me_attach(PortalIndex{9}, {initiator, kAnyPid}, bits, 0, MePosition::kTail,
                                    bind(kMdPut | kMdGet | kMdManageRemote)));
  }
  std::vector<Event> take(EventKind kind) {
    std::array<Event, 32> some;
    const unsigned count = submitter.eq_poll(eq, some);
    events.insert(events.end(), some.begin(), some.begin() + count);
    std::vector<Event> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [&](const Event& e) { return e.kind == kind; });
    return found;
  }
  Submitter& submitter;
  EqHandle eq;
  std::array<std::byte, 64> bytes{};
  std::vector<Event> events;
};

// Goal: an application that waits for a node by its primary NID gets messages from any NI of the node. Events name that
// NI, too.
// Method: a node of two NIs puts and gets from its second NI. Match entries name its primary NID, its second NID and a
// foreign one.
TEST(Rails, events_have_the_primary_nid_and_the_real_source) {
  NodeRig rig;
  auto& a = rig.add({"10.0.0.1@tcp", "10.0.0.2@tcp"});
  auto& b = rig.add({"10.0.0.3@tcp", "10.0.0.4@tcp"});
  ASSERT_TRUE(b.node->portal_open(PortalIndex{9}, WorkerId{0}, PortalMode::kSingle, false));
  bool known = false;
  b.node->control().discovery->discover({nid("10.0.0.1@tcp")}, false, [&](const auto&) { known = true; });
  ASSERT_TRUE(rig.run_until([&] { return known; }));
  Application from(a), at(b);
  at.attach(nid("10.0.0.1@tcp"), 1);  // the primary NID
  at.attach(nid("10.0.0.2@tcp"), 2);  // the source NID
  at.attach(nid("10.0.0.9@tcp"), 3);
  rig.run_for(1ms);
  const MdHandle md = from.bind();
  for (uint64_t bits : {1, 2, 3}) {
    PutSpec spec{.md = md, .self = nid("10.0.0.2@tcp"), .target = {nid("10.0.0.4@tcp"), kLnetPid}, .portal = 9};
    spec.match_bits = bits;
    spec.ack = false;
    ASSERT_TRUE(from.submitter.put(spec));
    if (bits == 1) {
      ASSERT_TRUE(from.submitter.get(spec));
    }
  }
  ASSERT_TRUE(
      rig.run_until([&] { return at.take(EventKind::kPut).size() == 2 && at.take(EventKind::kGet).size() == 1; }));
  rig.run_for(100ms);
  EXPECT_EQ(at.take(EventKind::kPut).size(), 2u) << "the stranger's entry matched";
  for (const Event& event : at.events) {
    EXPECT_EQ(event.initiator, nid("10.0.0.1@tcp"));
    EXPECT_EQ(event.source, nid("10.0.0.2@tcp"));
    EXPECT_EQ(event.sender, nid("10.0.0.2@tcp"));
    EXPECT_EQ(event.target, nid("10.0.0.4@tcp"));
    EXPECT_NE(event.match_bits, 3u);
  }
  rig.stop_all();
}

// Goal: NIs added together have their own interface, CPT list and tunables, in force and shown.
TEST(Rails, nis_of_one_command_have_their_own_settings) {
  NodeRig rig;
  NodeConfig config;
  config.groups.group_of = {0, 0, 1, 1};
  auto& a = rig.add({}, 4, config);
  a.devices->add("eth0", {"10.0.0.1@tcp"});
  a.devices->add("eth1", {"10.0.1.1@tcp"});
  config::NetAdd first, second;
  first.net = second.net = net("tcp");
  first.ni.interface = "eth0";
  first.ni.cpts = {0};
  first.ni.tunables.peer_credits = 16;
  first.ni.tunables.credits = 512;
  second.ni.interface = "eth1";
  second.ni.cpts = {1};
  second.ni.tunables.peer_timeout = config::Seconds(77);
  second.ni.lnd_tunables["timeout"] = 9;
  ASSERT_EQ(rig.apply(a, {{first, {}}, {second, {}}}), "");
  const auto shows = net_values(a.node->control(), net("tcp"));
  ASSERT_EQ(shows.size(), 1u);
  ASSERT_EQ(shows[0].nis.size(), 2u);
  const api::LocalNiShow &one = shows[0].nis[0], &two = shows[0].nis[1];
  EXPECT_EQ(one.interface, "eth0");
  EXPECT_EQ(one.cpts, std::vector<uint16_t>{0});
  EXPECT_EQ(one.tunables.peer_credits, 16);
  EXPECT_EQ(two.interface, "eth1");
  EXPECT_EQ(two.cpts, std::vector<uint16_t>{1});
  EXPECT_EQ(two.tunables.peer_credits, config::Tunables{}.peer_credits);
  EXPECT_EQ(two.tunables.peer_timeout, config::Seconds(77));
  EXPECT_EQ(two.lnd_tunables.at("timeout"), 9);
  LocalNis& nis = *a.node->control().nis;
  EXPECT_EQ(nis.find(nid("10.0.0.1@tcp"))->workers, (std::vector<WorkerId>{WorkerId{0}, WorkerId{1}}));
  EXPECT_EQ(nis.find(nid("10.0.1.1@tcp"))->workers, (std::vector<WorkerId>{WorkerId{2}, WorkerId{3}}));
  EXPECT_EQ(nis.find(nid("10.0.0.1@tcp"))->params.peer_credits, 16);
  EXPECT_EQ(nis.find(nid("10.0.0.1@tcp"))->slices[0]->credits.total(), 256) << "512 of two workers";
  rig.stop_all();
}

}  // namespace
}  // namespace ulnet::test
