// Peer NIs that cannot be reached while a link of this node is down (control/health/cut_off.h). The kernel's routes are
// a table.
#include "control/health/cut_off.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "control/health/health.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// Routes by destination; whatever is not in the table is reached.
class RouteTable final : public Devices {
 public:
  std::set<Nid> down;
  unsigned asked = 0;
  std::vector<Interface> list() override { return {}; }
  Result<Interface> find(const std::string&, NetType) override { return fail(ENODEV, "no such interface"); }
  Result<Interface> find_address(const Nid&) override { return fail(ENODEV, "no such interface"); }
  bool reaches(const Nid&, const Nid& to) override {
    ++asked;
    return down.count(to) == 0;
  }
};

/// This node and a peer, each with two NIs, in one subnet.
class CutOffTest : public testing::Test {
 protected:
  CutOffTest() {
    add_peer("10.0.0.2", {"10.0.0.2", "10.0.0.3"});
    CutOff::Deps deps{*c.nis, *c.peers, &routes, {}, {}, {}};
    deps.wanted = [this] { return wanted; };
    deps.by_ip = [this](const LocalNi&) { return by_ip; };
    deps.changed = [this](PeerNi& ni) {
      changes.push_back(ni.nid);
      c.health->cut_off_changed(ni, now);
    };
    cut_off.emplace(std::move(deps), timers);
  }
  void TearDown() override {
    cut_off.reset();
    rig.stop_all();
  }
  void add_peer(const std::string& primary, const std::vector<std::string>& nids) {
    config::PeerAdd add;
    add.peer.primary = nid(primary + "@tcp");
    for (const std::string& one : nids) add.peer.nids.push_back(nid(one + "@tcp"));
    ASSERT_EQ(rig.apply(a, add), "");
  }
  PeerNi& peer_ni(const std::string& text) { return *c.peers->find(nid(text + "@tcp")); }
  /// The link of an NI goes down or up; the kernel changes its routes `after` that.
  void link(bool down, Duration after = {}) {
    c.nis->find(nid("10.0.0.1@tcp"))->fatal = down;
    cut_off->link_changed();
    run_for(after);
    if (down)
      routes.down.insert(nid("10.0.0.2@tcp"));
    else
      routes.down.clear();
  }
  void run_for(Duration time) {
    for (const Instant end = now + time; now < end; now += 1ms) cut_off->turn(now);
  }

  NodeRig rig;
  RigNode& a = rig.add({"10.0.0.1@tcp", "10.0.0.101@tcp"});
  Control& c = a.node->control();
  RouteTable routes;
  Instant now{1h};
  Timers timers{now};
  std::optional<CutOff> cut_off;
  bool wanted = true, by_ip = true;
  std::vector<Nid> changes;
};

TEST_F(CutOffTest, follows_the_routes_while_a_link_is_down) {
  run_for(2s);
  EXPECT_EQ(routes.asked, 0u) << "nothing is asked while nothing happens";
  link(true);
  run_for(2ms);
  EXPECT_TRUE(peer_ni("10.0.0.2").cut_off);
  EXPECT_TRUE(peer_ni("10.0.0.2").known_down());
  EXPECT_FALSE(peer_ni("10.0.0.3").cut_off);
  EXPECT_LT(peer_ni("10.0.0.2").health.value(), 1000);
  EXPECT_EQ(peer_ni("10.0.0.3").health.value(), 1000);
  link(false);
  run_for(2 * kCutOffAgain);
  EXPECT_FALSE(peer_ni("10.0.0.2").known_down());
  EXPECT_EQ(peer_ni("10.0.0.2").health.value(), 1000);
  EXPECT_EQ(changes, std::vector<Nid>(2, nid("10.0.0.2@tcp")));
  const unsigned asked = routes.asked;
  run_for(2s);
  EXPECT_EQ(routes.asked, asked);
}

TEST_F(CutOffTest, follows_routes_that_change_after_the_link) {
  link(true, 2ms);
  EXPECT_FALSE(peer_ni("10.0.0.2").cut_off);
  run_for(2 * kCutOffAgain);
  EXPECT_TRUE(peer_ni("10.0.0.2").cut_off);
  routes.down = {nid("10.0.0.3@tcp")};
  run_for(kCutOffEvery + 2ms);
  EXPECT_FALSE(peer_ni("10.0.0.2").cut_off) << "another route was found while the link is down";
  EXPECT_TRUE(peer_ni("10.0.0.3").cut_off);
}

// Goal: the link is up again long before its routes are, as with routes that another program sets.
TEST_F(CutOffTest, ends_when_the_routes_are_back) {
  link(true);
  run_for(2ms);
  const std::set<Nid> down = routes.down;
  link(false);
  routes.down = down;
  run_for(2s);
  EXPECT_TRUE(peer_ni("10.0.0.2").cut_off);
  routes.down.clear();
  run_for(kCutOffEvery + 2ms);
  EXPECT_FALSE(peer_ni("10.0.0.2").cut_off);
}

TEST_F(CutOffTest, ends_with_the_peer) {
  link(true);
  run_for(2ms);
  config::PeerDel del;
  del.primary = nid("10.0.0.2@tcp");
  ASSERT_EQ(rig.apply(a, del), "");
  add_peer("10.0.0.2", {"10.0.0.3"});
  EXPECT_FALSE(peer_ni("10.0.0.2").cut_off) << "until the next look";
  EXPECT_EQ(peer_ni("10.0.0.2").health.value(), 1000);
}

TEST_F(CutOffTest, counts_only_for_ip_and_with_the_setting) {
  wanted = false;
  link(true);
  run_for(1s);
  EXPECT_FALSE(peer_ni("10.0.0.2").cut_off);
  wanted = true;
  by_ip = false;
  run_for(1s);
  EXPECT_FALSE(peer_ni("10.0.0.2").cut_off);
  by_ip = true;
  run_for(1s);
  EXPECT_TRUE(peer_ni("10.0.0.2").cut_off);
  wanted = false;
  run_for(1s);
  EXPECT_FALSE(peer_ni("10.0.0.2").cut_off) << "the setting was changed meanwhile";
}

// Goal: the link is up again, but the peer has reported its NI as down. Only both make it usable again.
TEST_F(CutOffTest, says_nothing_of_what_the_peer_reports) {
  link(true);
  run_for(10ms);
  PeerNi& one = peer_ni("10.0.0.2");
  one.status = wire::kNiDown;
  link(false);
  run_for(10ms);
  EXPECT_FALSE(one.cut_off);
  EXPECT_LT(one.health.value(), 1000);
  one.status = wire::kNiUp;
  c.health->said(one, true, now);
  EXPECT_EQ(one.health.value(), 1000);
}

// Goal: many peers are looked at, some in each turn. A peer with one NI has no other way, so that it is left alone.
TEST_F(CutOffTest, looks_at_some_peers_in_each_turn) {
  for (unsigned i = 0; i < 2 * kCutOffLook; ++i) {
    const std::string of = fmt::format("10.1.{}.{}", i / 250, i % 250 + 1);
    add_peer(of, {of, "10.2" + of.substr(4)});
    routes.down.insert(nid(of + "@tcp"));
  }
  add_peer("10.3.0.1", {"10.3.0.1"});
  routes.down.insert(nid("10.3.0.1@tcp"));
  link(true);
  cut_off->turn(now);
  EXPECT_LE(routes.asked, 2 * 2 * kCutOffLook);
  EXPECT_LT(changes.size(), routes.down.size() - 1);
  run_for(10ms);
  EXPECT_EQ(changes.size(), routes.down.size() - 1);
  EXPECT_FALSE(peer_ni("10.3.0.1").cut_off);
  link(false);
  run_for(10ms);
  EXPECT_EQ(changes.size(), 2 * (2 * kCutOffLook + 1));
}

}  // namespace
}  // namespace ulnet::test
