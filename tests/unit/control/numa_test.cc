// The machine in the views of workers: distances between memory and the devices of NIs.
#include <algorithm>

#include "config/emit.h"
#include "control/api/explain.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

using List = std::vector<uint32_t>;

NodeConfig on_machine(Topology machine) {
  NodeConfig config;
  config.groups.machine = std::move(machine);
  return config;
}
/// Four nodes; the matrix is not uniform.
Topology four_nodes() {
  Topology out = Topology::synthetic(4, 1);
  out.distances = {{10, 11, 20, 40}, {12, 10, 21, 41}, {22, 23, 10, 42}, {43, 44, 45, 10}};
  out.nics = {{"eth0", 2, {7}}};
  out.accelerators = {{"gpu0", 1, {}}, {"gpu1", 2, {}}, {"gpu2", 2, {7}}};
  return out;
}
const NiView& view_of(RigNode& node, const std::string& text) {
  return *node.node->control().parts.local->ni(nid(text));
}
/// A node with one NI on no device, and one on eth0, which lies on `numa`.
RigNode& add_node(NodeRig& rig, Topology machine, uint32_t numa, const std::string& subnet = "10.0.0") {
  RigNode& a = rig.add({subnet + ".1@tcp"}, 1, on_machine(std::move(machine)));
  a.devices->add("eth0", {subnet + ".2@tcp"}).numa_node = numa;
  config::NetAdd add;
  add.net = net("tcp");
  add.ni.interface = "eth0";
  EXPECT_EQ(rig.apply(a, {{add, {}}}), "");
  return a;
}

// Goal: an NI's view has the distances of the machine to its device, and the priorities of accelerators.
TEST(NodeNuma, distances_of_the_machine) {
  NodeRig rig;
  RigNode& a = add_node(rig, four_nodes(), 2);
  EXPECT_EQ(view_of(a, "10.0.0.2@tcp").distances, (List{20, 21, 10, 45}));
  EXPECT_EQ(view_of(a, "10.0.0.2@tcp").device_priorities, (List{2, 1, 0}));
  EXPECT_EQ(view_of(a, "10.0.0.1@tcp").distances, List(4, 255)) << "no device";
  EXPECT_EQ(view_of(a, "10.0.0.1@tcp").device_priorities, List{});
  RigNode& one = add_node(rig, Topology::synthetic(1, 4), 0, "10.0.1");
  EXPECT_EQ(view_of(one, "10.0.1.1@tcp").distances, List{}) << "one node";
  EXPECT_EQ(view_of(one, "10.0.1.2@tcp").distances, List{}) << "one node";
  RigNode& nowhere = add_node(rig, four_nodes(), UINT32_MAX, "10.0.2");
  EXPECT_EQ(view_of(nowhere, "10.0.2.2@tcp").distances, List(4, 255)) << "a device of no known node";
}

// Goal: distances below numa_range count as equal to it, and a change of it is published.
TEST(NodeNuma, numa_range_is_the_least_distance) {
  NodeRig rig;
  RigNode& a = add_node(rig, four_nodes(), 2);
  const uint64_t before = a.node->control().publisher->epoch().value;
  EXPECT_EQ(rig.apply(a, config::SetValue{"numa_range", 21}), "");
  EXPECT_EQ(view_of(a, "10.0.0.2@tcp").distances, (List{21, 21, 21, 45}));
  EXPECT_GT(a.node->control().publisher->epoch().value, before);
  EXPECT_EQ(rig.apply(a, config::SetValue{"numa_range", 0}), "");
  EXPECT_EQ(view_of(a, "10.0.0.2@tcp").distances, (List{20, 21, 10, 45}));
}

// Goal: an NI of no known node sends only if no other NI is better, wherever the memory is. With a numa_range of 255
// all NIs are equally near, and take turns.
TEST(NodeNuma, ni_of_no_known_node_comes_last) {
  NodeRig rig;
  RigNode& a = add_node(rig, four_nodes(), 2);
  config::PeerAdd add;
  add.peer.primary = nid("10.0.0.9@tcp");
  add.peer.nids = {add.peer.primary};
  EXPECT_EQ(rig.apply(a, {{config::SetValue{"discovery", 0}, {}}, {add, {}}}), "");
  // How four messages from memory of this node would spread.
  const auto spread = [&](uint32_t numa) {
    const ExplainRequest request{.to = add.peer.primary, .numa = numa, .count = 4};
    const std::string text = config::emit(explain_doc(a.node->control(), request));
    return text.substr(std::min(text.find("spread:"), text.size()));
  };
  const auto share = [](const std::string& source, int messages) {
    return "        - path: " + source + " -> 10.0.0.9@tcp\n          messages: " + std::to_string(messages) +
           "\n          percent: " + std::to_string(messages * 25) + "\n";
  };
  for (uint32_t numa = 0; numa < 4; ++numa) EXPECT_EQ(spread(numa), "spread:\n" + share("10.0.0.2@tcp", 4)) << numa;
  EXPECT_EQ(rig.apply(a, config::SetValue{"numa_range", 255}), "");
  for (uint32_t numa = 0; numa < 4; ++numa)
    EXPECT_EQ(spread(numa), "spread:\n" + share("10.0.0.1@tcp", 2) + share("10.0.0.2@tcp", 2)) << numa;
}

}  // namespace
}  // namespace ulnet::test
