// A node with NIs, peers and gateways that selection policies rank, and its results as text.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/policy/policies.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
using config::UdspAdd;
using config::UdspDel;
using config::UdspRule;

inline std::string priority_text(uint32_t priority) {
  return priority == kNoPriority ? "-" : std::to_string(priority);
}

inline std::string list_text(const Preferences* list, const std::function<std::string(uint32_t)>& name) {
  if (list == nullptr) return "-";
  std::set<std::string> entries;
  for (const Preferences::One& one : list->all) entries.insert(name(one.id) + ":" + priority_text(one.rank));
  std::string text;
  for (const std::string& one : entries) text += (text.empty() ? "" : "+") + one;
  return text;
}

/// Everything that the views of a node say about policies, sorted by name: nets, NIs, peer nets, peer NIs.
inline std::string results(Node& node) {
  const ViewSet& view = node.control().publisher->current();
  std::string text;
  for (const NetView& net : view.local->nets)
    if (net.priority != kNoPriority) text += "net " + net_text(net.net) + " " + priority_text(net.priority) + "\n";
  std::map<uint32_t, std::string> nis, gateways;
  for (const NiView& ni : view.local->nis) {
    nis[ni.id.value] = nid_text(ni.nid);
    if (ni.priority != kNoPriority) text += "ni " + nid_text(ni.nid) + " " + priority_text(ni.priority) + "\n";
  }
  std::set<std::string> lines;
  for (const auto& [id, peer] : node.control().peers->peers()) gateways[id] = nid_text(peer->primary().nid);
  for (const auto& [id, peer] : node.control().peers->peers()) {
    const PeerRef ref = view.peers->find(peer->primary().nid);
    if (!ref) continue;
    for (const PeerNetView& net : ref.peer->nets)
      if (net.priority != kNoPriority)
        lines.insert("peer " + gateways[id] + " net " + net_text(net.net) + " " + priority_text(net.priority) + "\n");
    for (const PeerNiView& ni : ref.peer->nis) {
      const std::string line = priority_text(ni.priority) + " from " +
                               list_text(ni.sources, [&](uint32_t number) { return nis[number]; }) + " over " +
                               list_text(ni.gateways, [&](uint32_t number) { return gateways[number]; });
      if (line != "- from - over -") lines.insert("peer ni " + nid_text(ni.nid) + " " + line + "\n");
    }
  }
  for (const std::string& line : lines) text += line;
  return text;
}

inline config::PeerAdd peer_add(std::vector<std::string> nids, bool multi_rail = true) {
  config::PeerAdd add;
  add.peer.primary = nid(nids.front());
  for (const std::string& one : nids) add.peer.nids.push_back(nid(one));
  add.peer.multi_rail = multi_rail;
  return add;
}

inline config::ChangeList rules(const std::vector<UdspRule>& all) {
  config::ChangeList changes;
  for (const UdspRule& rule : all) changes.push_back({UdspAdd{rule}, {}});
  return changes;
}

/// This node on two nets with two NIs each; two multi-rail peers, a plain one, and a peer behind two gateways.
struct PoliciesOfNode : testing::Test {
  NodeRig rig_;
  RigNode& node = rig_.add({"10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@o2ib", "10.1.0.2@o2ib"});
  void SetUp() override {
    ASSERT_EQ(rig_.apply(node, {{peer_add({"10.0.0.11@tcp", "10.0.0.12@tcp", "10.1.0.11@o2ib"}), {}},
                                {peer_add({"10.0.0.21@tcp", "10.1.0.21@o2ib"}), {}},
                                {peer_add({"10.0.0.31@tcp"}, false), {}},
                                {peer_add({"10.0.0.91@tcp", "10.9.0.91@tcp9"}), {}},
                                {peer_add({"10.0.0.92@tcp", "10.9.0.92@tcp9"}), {}},
                                {NodeRig::route_add("tcp9", "10.0.0.91@tcp"), {}},
                                {NodeRig::route_add("tcp9", "10.0.0.92@tcp"), {}},
                                {peer_add({"10.9.0.41@tcp9"}), {}}}),
              "");
  }
  std::string with(const std::vector<UdspRule>& all) {
    EXPECT_EQ(rig_.apply(node, rules(all)), "");
    return results(*node.node);
  }
  /// The source that the plain peer sees.
  std::string source() { return nid_text(c.publisher->current().peers->find(nid("10.0.0.31@tcp")).ni().source); }
  static std::string other_than(const std::string& source) {
    return source == "10.0.0.1@tcp" ? "10.0.0.2@tcp" : "10.0.0.1@tcp";
  }
  void set_health(const std::string& ni, int64_t health) {
    EXPECT_EQ(rig_.apply(node, config::NetSet{.nid = nid(ni), .health = health}), "");
  }
  /// 2,000 multi-rail peers, and 200 rules for none of them.
  void make_many_peers() {
    config::ChangeList peers;
    for (unsigned i = 0; i < 2000; ++i)
      peers.push_back(
          {peer_add({"10.0." + std::to_string(10 + i / 200) + "." + std::to_string(1 + i % 200) + "@tcp"}), {}});
    ASSERT_EQ(rig_.apply(node, std::move(peers)), "");
  }
  static std::vector<UdspRule> many_rules() {
    std::vector<UdspRule> many(200, UdspRule{.src = "10.0.0.1@tcp"});
    for (size_t i = 0; i < many.size(); ++i) many[i].dst = "10.77.0." + std::to_string(i) + "@tcp";
    return many;
  }
  Control& c = node.node->control();
};

}  // namespace ulnet::test
