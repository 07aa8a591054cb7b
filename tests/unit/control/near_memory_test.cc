// Memory near workers: the NUMA node from which a node takes the memory of its workers. All of it is given back and
// used again. Without such memory, the node still works.
#include "dataplane/host/near_memory.h"

#include <fstream>

#include "control/lib/boot.h"
#include "dataplane/host/arena.h"
#include "tests/counting_memory.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// Ordinary mappings, each with the NUMA node that map() was called for; at most `left` bytes.
class RecordingMemory final : public MemorySource {
 public:
  ~RecordingMemory() override { EXPECT_TRUE(maps.empty()); }
  [[nodiscard]] std::byte* map(size_t bytes, uint32_t numa) override {
    if (bytes > left) return nullptr;
    left -= bytes;
    std::byte* at = plain.map(bytes, numa);
    maps[at] = {bytes, numa};
    return at;
  }
  void unmap(std::byte* memory, size_t bytes) override {
    EXPECT_EQ(maps.at(memory).first, bytes);
    left += bytes;
    maps.erase(memory);
    plain.unmap(memory, bytes);
  }
  /// The NUMA node of the mapping that holds `object`; -1: no mapping of this source holds it.
  [[nodiscard]] int numa_of(const void* object) const {
    const auto* byte = static_cast<const std::byte*>(object);
    auto at = maps.upper_bound(byte);
    if (at == maps.begin()) return -1;
    --at;
    return byte < at->first + at->second.first ? int(at->second.second) : -1;
  }
  std::map<const std::byte*, std::pair<size_t, uint32_t>> maps;
  size_t left = size_t{1} << 30;
  PlainMemory plain;
};

WorkerGroups on_numas(std::vector<uint32_t> numas) {
  WorkerGroups groups;
  groups.numa_of = std::move(numas);
  return groups;
}

// Goal: objects of one size share mappings and do not overlap. A place that was given back is taken again. All empty
// mappings but one are unmapped.
TEST(NearMemory, objects_share_mappings) {
  RecordingMemory source;
  NearMemory memory(&source, {3}, 1);
  WorkerMemory& near = *memory.of(WorkerId{0});
  std::set<std::byte*> places;
  constexpr size_t kBytes = 1000, kCount = 5000;  // 1024 bytes each, of 2 MiB
  for (size_t i = 0; i < kCount; ++i) {
    std::byte* at = near.take(kBytes);
    ASSERT_EQ(uintptr_t(at) % kCacheLine, 0u);
    ASSERT_EQ(source.numa_of(at), 3);
    ASSERT_EQ(source.numa_of(at + kBytes - 1), 3);
    ASSERT_TRUE(places.insert(at).second);
  }
  for (auto at = places.begin(); std::next(at) != places.end(); ++at)
    ASSERT_GE(*std::next(at) - *at, ptrdiff_t(kBytes));
  EXPECT_EQ(source.maps.size(), 3u);
  EXPECT_EQ(memory.objects(), kCount);
  std::byte* again = *std::next(places.begin(), 77);
  EXPECT_TRUE(near.has(again, kBytes));
  near.give(again, kBytes);
  EXPECT_EQ(near.take(kBytes), again);
  int elsewhere = 0;
  EXPECT_FALSE(near.has(&elsewhere, sizeof elsewhere));
  std::byte* large = near.take(size_t{5} << 20);
  EXPECT_EQ(source.maps.at(large).first, size_t{5} << 20) << "a mapping of its own";
  near.give(large, size_t{5} << 20);
  for (std::byte* at : places) near.give(at, kBytes);
  EXPECT_EQ(memory.objects(), 0u);
  EXPECT_EQ(source.maps.size(), 2u) << "one empty mapping of each size is kept";
}

// Goal: if objects come and go for years, they take no more memory than those that are there at once.
TEST(NearMemory, memory_that_is_given_back_is_used_again) {
  RecordingMemory source;
  NearMemory memory(&source, {0}, 1);
  WorkerMemory& near = *memory.of(WorkerId{0});
  Rng rng(7);
  std::vector<std::byte*> held;
  size_t most = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (held.size() < 300 && (held.empty() || rng.below(2) == 0)) {
      held.push_back(near.take(22'000));
    } else {
      std::swap(held[rng.below(held.size())], held.back());
      near.give(held.back(), 22'000);
      held.pop_back();
    }
    most = std::max(most, source.maps.size());
  }
  EXPECT_LE(most, 4u) << "300 of them need four mappings";
  for (std::byte* at : held) near.give(at, 22'000);
  EXPECT_EQ(source.maps.size(), 1u);
}

// Goal: the pools of a worker lie in the memory source of the worker, and return to it with the worker. Without a
// source, or when it is full, the pools are on the heap.
TEST(NearMemory, pools_of_a_worker) {
  IdleGate gates[2], control;
  IdleGate* const pointers[] = {&gates[0], &gates[1]};
  Mesh mesh(2, 16, 16, pointers, &control);
  const WorkerSize size{.operations = 128, .incoming = 128, .parked_peers = 16, .control_queue = 16};
  CountingMemory memories[2];
  {
    const Near<Worker> zero(near_new<Worker>(&memories[0], WorkerId{0}, mesh, size, 1, 1, &memories[0]),
                            {&memories[0]});
    memories[1].full = true;
    const Near<Worker> one(near_new<Worker>(&memories[1], WorkerId{1}, mesh, size, 1, 1, &memories[1]), {&memories[1]});
    EXPECT_EQ(memories[0].count(sizeof(Worker)), 1u);
    const auto expect_near = [&](auto& pool) {
      auto* message = pool.take();
      EXPECT_TRUE(memories[0].holds(message));
      pool.give(*message);
    };
    expect_near(zero->operations);
    expect_near(zero->incoming);
    Operation* operation = one->operations.take();
    ASSERT_NE(operation, nullptr);
    one->operations.give(*operation);
    EXPECT_EQ(memories[1].taken, 0u);
    EXPECT_GE(memories[0].taken, 5u) << "worker, operations, incoming, parked, questions";
  }
  EXPECT_TRUE(memories[0].out.empty());
}

config::PeerDel peer_del(const std::string& primary) {
  config::PeerDel del;
  del.primary = nid(primary);
  return del;
}

// Goal: on a machine with four NUMA nodes, a worker's memory comes from the node of its CPU. This includes its pools
// and its slices of NIs and of peer NIs, but no object that only control uses. Slices are given back with their NI or
// peer.
TEST(NearMemory, on_the_numa_node_of_the_workers_cpu) {
  const Topology machine = Topology::synthetic(4, 2);
  const auto placement = place_workers(machine, {.cpus = {7, 2}});
  ASSERT_TRUE(placement.has_value());
  const std::vector<uint32_t> numas = {3, 1};
  RecordingMemory source;
  {
    NodeRig rig;
    rig.worker_memory = &source;
    auto& a = rig.add({"10.0.0.1@tcp"}, 2, boot_node({}, *placement, machine));
    rig.worker_memory = nullptr;
    for (const char* other : {"10.0.0.2@tcp", "10.0.0.3@tcp"}) rig.add({other});
    Control& c = a.node->control();
    const size_t before = c.near.objects();
    std::set<uint16_t> servers;
    for (const char* other : {"10.0.0.2@tcp", "10.0.0.3@tcp"}) {
      ASSERT_EQ(NodeRig::text(rig.ping(a, other)), other);
      const PeerNi& ni = *c.peers->find(nid(other));
      servers.insert(ni.server.value);
      EXPECT_EQ(source.numa_of(&ni.blocks->slice), int(numas[ni.server.value]));
      for (unsigned w : {0, 1}) EXPECT_EQ(source.numa_of(ni.blocks->by_worker[w]), int(numas[w]));
      EXPECT_EQ(source.numa_of(&ni), -1);
    }
    EXPECT_EQ(servers.size(), 2u);
    EXPECT_EQ(c.near.objects(), before + 6 + 2) << "and a block of tallies for each worker, which stays";
    for (uint16_t w : {0, 1}) {
      Worker& worker = a.node->worker(WorkerId{w});
      EXPECT_EQ(source.numa_of(&worker), int(numas[w]));
      EXPECT_EQ(source.numa_of(c.nis->find(nid("10.0.0.1@tcp"))->slices[w].get()), int(numas[w]));
      Operation* operation = worker.operations.take();
      EXPECT_EQ(source.numa_of(operation), int(numas[w]));
      worker.operations.give(*operation);
    }
    for (size_t i : {1, 2}) EXPECT_EQ(rig.stop(*rig.nodes[i]), "");
    for (const char* other : {"10.0.0.2@tcp", "10.0.0.3@tcp"}) EXPECT_EQ(rig.apply(a, peer_del(other)), "");
    EXPECT_TRUE(rig.run_until([&] { return c.near.objects() == before + 2; }, 300s));
    rig.stop_all();
  }
  EXPECT_TRUE(source.maps.empty());
}

// Goal: if the NUMA nodes of a node's workers have no memory left, the node goes on with ordinary memory.
TEST(NearMemory, a_full_numa_node_is_no_error) {
  RecordingMemory source;
  source.left = 3u << 20;
  NodeRig rig;
  rig.worker_memory = &source;
  NodeConfig config;
  config.groups = on_numas({0, 1});
  auto& a = rig.add({"10.0.0.1@tcp"}, 2, config);
  rig.worker_memory = nullptr;
  rig.add({"10.0.0.2@tcp"});
  EXPECT_LE(source.left, 1u << 20);
  EXPECT_EQ(source.numa_of(a.node->control().nis->find(nid("10.0.0.1@tcp"))->slices[1].get()), -1);
  EXPECT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
  EXPECT_EQ(rig.apply(a, peer_del("10.0.0.2@tcp")), "");
  EXPECT_EQ(NodeRig::text(rig.ping(a, "10.0.0.2@tcp")), "10.0.0.2@tcp");
  rig.stop_all();
  rig.nodes.clear();
}

// Goal: a machine with one NUMA node gets no source of near memory. On other machines, the source maps ordinary pages.
TEST(NearMemory, only_where_there_is_a_choice) {
  Arenas arenas{nullptr, 64 << 20};
  EXPECT_EQ(worker_memory(arenas, Topology::synthetic(1, 8)), nullptr);
  const auto memory = worker_memory(arenas, Topology::synthetic(2, 4));
  ASSERT_NE(memory, nullptr);
  std::byte* at = memory->map(100, kNoNuma);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(arenas.mapped_bytes(), uint64_t(sysconf(_SC_PAGESIZE)));
  memory->unmap(at, 100);
  EXPECT_EQ(arenas.mapped_bytes(), 0u);
  EXPECT_EQ(memory->map(65 << 20, kNoNuma), nullptr);
}

/// The line of /proc/self/numa_maps for the mapping at `at`, such as "prefer:1 anon=1 ..."; "" if there is none.
std::string policy_at(const void* at) {
  std::ifstream maps("/proc/self/numa_maps");
  std::string address, policy;
  while (maps >> address && std::getline(maps >> std::ws, policy))
    if (std::stoull(address, nullptr, 16) == uintptr_t(at)) return policy;
  return "";
}

// Goal: the kernel prefers the worker's NUMA node, but may use others. With MPOL_BIND, a NUMA node without free pages
// would end the process.
TEST(NearMemory, the_kernel_prefers_that_node) {
  auto machine = Machine::read();
  ASSERT_TRUE(machine.has_value());
  Arenas arenas{machine->get(), 64 << 20};
  HostMemory memory(arenas, {.prefer = true, .huge = false});
  const unsigned numa = (*machine)->topology().numas.back().number;
  std::byte* at = memory.map(1 << 20, numa);
  ASSERT_NE(at, nullptr);
  *at = std::byte{1};
  const std::string policy = policy_at(at);
  memory.unmap(at, 1 << 20);
  if (policy.empty() || policy.starts_with("default")) GTEST_SKIP() << "no NUMA here, or binding is forbidden";
  EXPECT_TRUE(policy.starts_with("prefer")) << policy;
  EXPECT_NE(policy.find(":" + std::to_string(numa) + " "), std::string::npos) << policy;
}

}  // namespace
}  // namespace ulnet::test
