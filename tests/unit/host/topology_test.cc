// Topology and placement: tables over made-up machines, and rules that must hold on the real one.
#include "dataplane/host/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "dataplane/host/placement.h"

namespace ulnet {
namespace {

/// "0:4 1:5 | 2:12" - worker:cpu, groups apart; a shared CPU has a star.
std::string table(const Result<Placement>& placement) {
  if (!placement)
    return std::string("error ") + std::to_string(placement.error().code) + " about " +
           std::to_string(placement.error().object) + ": " + placement.error().what;
  std::string out;
  for (const auto& group : placement->groups) {
    out += out.empty() ? "" : " |";
    for (const WorkerId worker : group.workers) {
      const auto& slot = placement->workers[worker.value];
      EXPECT_EQ(worker, slot.worker);
      EXPECT_EQ(group.numa, slot.numa);
      EXPECT_EQ(&group, &placement->groups[slot.group]);
      out += (out.empty() ? "" : " ") + std::to_string(worker.value) + ":" + std::to_string(slot.cpu) +
             (slot.shared ? "*" : "");
    }
  }
  return out;
}

std::string place(const Topology& topology, const PlacementRequest& request) {
  return table(place_workers(topology, request));
}

TEST(Placement, on_one_socket) {
  const Topology two = Topology::synthetic(1, 2);
  EXPECT_EQ("0:1", place(two, {})) << "core 0 is left to control";
  EXPECT_EQ("0:1 1:0", place(two, {.worker_count = 2}));
  EXPECT_EQ("0:1* 1:0 2:1*", place(two, {.worker_count = 3})) << "more workers than CPUs";
  EXPECT_EQ("0:0", place(Topology::synthetic(1, 1), {}));
  EXPECT_EQ("0:1 1:2 2:3", place(Topology::synthetic(1, 4), {}));
  EXPECT_EQ("0:1 1:2 2:3 3:4 4:5 5:6 6:7 7:8", place(Topology::synthetic(1, 64), {})) << "not more without being asked";
}

TEST(Placement, whole_cores_before_hardware_threads) {
  // CPUs 0-3 are the cores, 4-7 their second threads; core 0 = CPUs 0 and 4 is control's.
  const Topology smt = Topology::synthetic(1, 4, 2);
  EXPECT_EQ("0:1 1:2 2:3", place(smt, {}));
  EXPECT_EQ("0:1 1:2 2:3 3:5 4:6", place(smt, {.worker_count = 5}));
  EXPECT_EQ("0:1 1:2 2:3 3:5 4:6 5:7 6:0 7:4", place(smt, {.worker_count = 8}));
}

TEST(Placement, on_four_sockets) {
  const Topology four = Topology::synthetic(4, 4);
  EXPECT_EQ("0:1 1:2 | 2:4 3:5 | 4:8 5:9 | 6:12 7:13", place(four, {})) << "evenly, neighbours on one node";
  EXPECT_EQ("0:8 1:9 2:10", place(four, {.worker_count = 3, .near_numas = {2}}));
  EXPECT_EQ("0:12 1:13 | 2:4 3:5", place(four, {.worker_count = 4, .near_numas = {3, 1}}));
  EXPECT_EQ("0:8 1:9 2:10 3:11 | 4:1 | 5:4", place(four, {.worker_count = 6, .near_numas = {2}})) << "then the others";
}

TEST(Placement, the_nearer_socket_comes_next) {
  Topology four = Topology::synthetic(4, 2);
  four.distances = {{10, 32, 32, 21}, {32, 10, 21, 32}, {32, 21, 10, 32}, {21, 32, 32, 10}};
  EXPECT_EQ("0:4 1:5 | 2:2", place(four, {.worker_count = 3, .near_numas = {2}}));
}

TEST(Placement, a_list_is_taken_as_it_is) {
  const Topology four = Topology::synthetic(4, 4);
  EXPECT_EQ("0:5 2:4 | 1:0", place(four, {.cpus = {5, 0, 4}}));
  EXPECT_EQ("0:3", place(four, {.cpus = {3}, .worker_count = 1}));
  EXPECT_EQ("error -22 about 99: this process may not run on that CPU (taskset, cgroup), or there is no such CPU",
            place(four, {.cpus = {1, 99}}));
  EXPECT_EQ("error -22 about 1: that CPU is listed twice", place(four, {.cpus = {1, 2, 1}}));
  EXPECT_EQ("error -22 about 0: the number of workers and the list of their CPUs disagree: give one of them",
            place(four, {.cpus = {1, 2}, .worker_count = 3}));
  EXPECT_EQ("error -22 about 64: more workers than a node can have", place(four, {.worker_count = 65}));
}

TEST(Placement, control_floats_over_what_is_left) {
  const auto some = place_workers(Topology::synthetic(1, 4), {.cpus = {1, 3}});
  ASSERT_TRUE(some.has_value());
  EXPECT_EQ((std::vector<unsigned>{0, 2}), some->control_cpus);
  const auto all = place_workers(Topology::synthetic(1, 2), {.worker_count = 2});
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ((std::vector<unsigned>{0, 1}), all->control_cpus);
}

TEST(Topology, reads_a_described_machine) {
  auto machine = Machine::read("pack:4 [numa(memory=1GB)] core:2 pu:2");
  ASSERT_TRUE(machine.has_value()) << machine.error().what;
  const Topology& read = (*machine)->topology();
  ASSERT_EQ(16u, read.cpus.size());
  ASSERT_EQ(4u, read.numas.size());
  EXPECT_EQ(3u, read.cpu(15)->socket);
  EXPECT_EQ(3u, read.cpu(15)->numa);
  EXPECT_EQ(1u, read.cpu(15)->thread);
  EXPECT_EQ(read.cpu(14)->core, read.cpu(15)->core);
  EXPECT_NE(read.cpu(13)->core, read.cpu(14)->core);
  EXPECT_EQ(3u, read.numas[3].socket);
  EXPECT_EQ(nullptr, read.cpu(16));
  EXPECT_EQ(10u, read.distance(2, 2));
  EXPECT_LT(10u, read.distance(0, 1));
  EXPECT_EQ(255u, read.distance(0, 7));
  int memory = 0;
  auto bound = (*machine)->bind_memory(&memory, sizeof memory, 0);
  ASSERT_FALSE(bound.has_value());
  EXPECT_EQ(-ENOSYS, bound.error().code);
  EXPECT_FALSE(Machine::read("nonsense").has_value());
}

// Goal: only CPUs that this process may use are there.
TEST(Topology, real_machine_respects_affinity) {
  cpu_set_t before;
  ASSERT_EQ(0, sched_getaffinity(0, sizeof before, &before));
  auto machine = Machine::read();
  ASSERT_TRUE(machine.has_value()) << machine.error().what;
  const Topology& all = (*machine)->topology();
  ASSERT_FALSE(all.cpus.empty());
  EXPECT_FALSE(all.numas.empty());
  for (const auto& cpu : all.cpus) EXPECT_TRUE(CPU_ISSET(cpu.number, &before));
  EXPECT_TRUE(place_workers(all, {}).has_value());

  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all.cpus.back().number, &one);
  ASSERT_EQ(0, sched_setaffinity(0, sizeof one, &one));
  auto less = Machine::read();
  sched_setaffinity(0, sizeof before, &before);
  ASSERT_TRUE(less.has_value());
  ASSERT_EQ(1u, (*less)->topology().cpus.size());
  EXPECT_EQ(all.cpus.back().number, (*less)->topology().cpus[0].number);
}

/// Four nodes, of which number 3 is missing; the matrix is not uniform and not symmetric.
Topology four_nodes() {
  Topology out;
  for (const unsigned number : {0, 1, 2, 4}) out.numas.push_back({number, 0, 0});
  out.distances = {{10, 11, 20, 40}, {12, 10, 21, 41}, {22, 23, 10, 42}, {43, 44, 45, 10}};
  return out;
}

// Goal: distances to a device are those from each node's memory, by the node's number. A device of no known node is the
// farthest. Without numbers where nothing is to be compared.
TEST(Topology, distances_to_a_device) {
  const Topology machine = four_nodes();
  using List = std::vector<uint32_t>;
  EXPECT_EQ(machine.distances_to(0), (List{10, 12, 22, 255, 43}));
  EXPECT_EQ(machine.distances_to(4), (List{40, 41, 42, 255, 10}));
  EXPECT_EQ(machine.distances_to(3), List(5, 255)) << "no such node";
  EXPECT_EQ(machine.distances_to(kNoNuma), List(5, 255));
  EXPECT_EQ(Topology::synthetic(1, 2).distances_to(0), List{}) << "one node";
  EXPECT_EQ(Topology::synthetic(2, 1).distances_to(1), (List{20, 10}));
  const auto read = Machine::read("numa:2 core:2 pu:1");
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)->topology().distances_to(1).size(), 2u);
}

// Goal: an accelerator below the interface's PCIe switch goes before one on its node, and that before all others.
TEST(Topology, accelerators_near_an_interface) {
  Topology machine = four_nodes();
  machine.nics = {{"eth0", 1, {100, 101}}, {"eth1", kNoNuma, {}}};
  machine.accelerators = {{"gpu0", 1, {102, 101}}, {"gpu1", 1, {103}}, {"gpu2", 2, {}}, {"gpu3", kNoNuma, {}}};
  using List = std::vector<uint32_t>;
  EXPECT_EQ(machine.accelerator_priorities("eth0"), (List{0, 1, 2, 2}));
  EXPECT_EQ(machine.accelerator_priorities("eth1"), (List{2, 2, 2, 2}));
  EXPECT_EQ(machine.accelerator_priorities("eth2"), List{});
}

// Goal: touched memory lies on a node of this machine, or its node is not known. A made-up machine has no memory.
TEST(Machine, node_of_memory) {
  std::vector<char> memory(4096, 'x');
  const auto real = Machine::read();
  ASSERT_TRUE(real);
  const uint32_t node = (*real)->numa_of(memory.data());
  EXPECT_TRUE(node == UINT32_MAX || (*real)->topology().distance(node, node) != 255) << node;
  const auto made_up = Machine::read("numa:2 core:2 pu:1");
  ASSERT_TRUE(made_up);
  EXPECT_EQ((*made_up)->numa_of(memory.data()), UINT32_MAX);
}

}  // namespace
}  // namespace ulnet
