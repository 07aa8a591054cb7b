#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <memory>

#include "dataplane/host/topology.h"

namespace ulnet {

Result<std::unique_ptr<Machine>> Machine::read(const char* description) {
  hwloc_topology_t handle = nullptr;
  if (hwloc_topology_init(&handle) != 0) return fail(EIO, "hwloc does not start");
  std::unique_ptr<Machine> machine(new Machine(handle));
  if (description != nullptr && hwloc_topology_set_synthetic(handle, description) != 0)
    return fail(EINVAL, "hwloc does not understand this description of a machine");
  (void)hwloc_topology_set_io_types_filter(handle, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(handle) != 0) return fail(EIO, "hwloc cannot read this machine");
  machine->read_numas();
  machine->read_cpus(description == nullptr);
  machine->read_devices();
  if (machine->topology_.cpus.empty()) return fail(EIO, "hwloc finds no CPU on which this process may run");
  return machine;
}

Machine::~Machine() {
  hwloc_topology_destroy(handle_);
}

/// The first node of a set, as the system numbers it.
unsigned Machine::numa_at(const void* nodeset) const {
  const int first = nodeset == nullptr ? -1 : hwloc_bitmap_first(static_cast<hwloc_const_bitmap_t>(nodeset));
  return first < 0 ? kNoNuma : unsigned(first);
}

void Machine::read_numas() {
  const auto socket_of = [](hwloc_obj_t object) {
    for (; object != nullptr; object = object->parent)
      if (object->type == HWLOC_OBJ_PACKAGE) return object->logical_index;
    return 0u;
  };
  const int count = hwloc_get_nbobjs_by_type(handle_, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < count; ++i) {
    hwloc_obj_t node = hwloc_get_obj_by_type(handle_, HWLOC_OBJ_NUMANODE, unsigned(i));
    topology_.numas.push_back({node->os_index, socket_of(node), node->attr->numanode.local_memory});
  }
  if (topology_.numas.empty()) topology_.numas.push_back({});
  const auto by_number = [](const Topology::Numa& a, const Topology::Numa& b) { return a.number < b.number; };
  std::sort(topology_.numas.begin(), topology_.numas.end(), by_number);

  unsigned matrices = 1;
  hwloc_distances_s* distances = nullptr;
  if (hwloc_distances_get_by_type(handle_, HWLOC_OBJ_NUMANODE, &matrices, &distances,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      matrices == 0)
    return;
  const size_t n = topology_.numas.size();
  const auto index = [&](hwloc_obj_t node) {
    for (size_t i = 0; node != nullptr && i < n; ++i)
      if (topology_.numas[i].number == node->os_index) return i;
    return n;
  };
  topology_.distances.assign(n, std::vector<unsigned>(n, 255));
  for (size_t a = 0; a < distances->nbobjs; ++a)
    for (size_t b = 0; b < distances->nbobjs; ++b) {
      const size_t row = index(distances->objs[a]), column = index(distances->objs[b]);
      if (row < n && column < n)
        topology_.distances[row][column] = unsigned(distances->values[a * distances->nbobjs + b]);
    }
  hwloc_distances_release(handle_, distances);
}

/// hwloc leaves out CPUs that the cgroup forbids. This function also removes CPUs outside the affinity of the process.
void Machine::read_cpus(bool real) {
  cpu_set_t affinity;
  const bool known = real && sched_getaffinity(0, sizeof affinity, &affinity) == 0;
  hwloc_obj_t core = nullptr;
  unsigned thread = 0;
  const int count = hwloc_get_nbobjs_by_type(handle_, HWLOC_OBJ_PU);
  for (int i = 0; i < count; ++i) {
    hwloc_obj_t pu = hwloc_get_obj_by_type(handle_, HWLOC_OBJ_PU, unsigned(i));
    if (known && (pu->os_index >= CPU_SETSIZE || !CPU_ISSET(pu->os_index, &affinity))) continue;
    hwloc_obj_t socket = hwloc_get_ancestor_obj_by_type(handle_, HWLOC_OBJ_PACKAGE, pu);
    hwloc_obj_t its_core = hwloc_get_ancestor_obj_by_type(handle_, HWLOC_OBJ_CORE, pu);
    if (its_core == nullptr) its_core = pu;
    thread = its_core == core ? thread + 1 : 0;
    core = its_core;
    const unsigned numa = numa_at(pu->nodeset);
    topology_.cpus.push_back({pu->os_index, its_core->logical_index, thread,
                              socket == nullptr ? 0 : socket->logical_index,
                              numa == kNoNuma ? topology_.numas.front().number : numa});
  }
  std::sort(topology_.cpus.begin(), topology_.cpus.end(),
            [](const Topology::Cpu& a, const Topology::Cpu& b) { return a.number < b.number; });
}

/// NICs, and accelerators. hwloc lists several objects for one accelerator; the first one names it.
void Machine::read_devices() {
  const void* last = nullptr;  // PCI device of the accelerator before
  for (hwloc_obj_t device = hwloc_get_next_osdev(handle_, nullptr); device != nullptr;
       device = hwloc_get_next_osdev(handle_, device)) {
    const hwloc_obj_osdev_type_t type = device->attr->osdev.type;
    if (device->name == nullptr) continue;
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(handle_, device);
    // On a machine with several nodes, a device at the root of the tree is near to none of them.
    const bool local = place != nullptr && hwloc_bitmap_weight(place->nodeset) == 1;
    const unsigned numa = local ? numa_at(place->nodeset) : kNoNuma;
    std::vector<uint64_t> bridges;
    for (hwloc_obj_t above = device->parent; above != nullptr && above != place; above = above->parent)
      if (above->type == HWLOC_OBJ_BRIDGE && above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
        bridges.push_back(above->gp_index);
    if (type == HWLOC_OBJ_OSDEV_NETWORK) topology_.nics.push_back({device->name, numa, bridges});
    const bool accelerates = type == HWLOC_OBJ_OSDEV_GPU || type == HWLOC_OBJ_OSDEV_COPROC;
    if (accelerates && device->parent != last) topology_.accelerators.push_back({device->name, numa, bridges});
    if (accelerates) last = device->parent;
  }
}

uint32_t Machine::numa_of(const void* address) const {
  if (!hwloc_topology_is_thissystem(handle_)) return UINT32_MAX;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  const bool known = hwloc_get_area_memlocation(handle_, address, 1, set, HWLOC_MEMBIND_BYNODESET) == 0;
  const int first = known ? hwloc_bitmap_first(set) : -1;
  hwloc_bitmap_free(set);
  return first < 0 ? UINT32_MAX : uint32_t(first);
}

Result<void> Machine::bind_memory(void* address, size_t bytes, unsigned numa, bool prefer) const {
  if (!hwloc_topology_is_thissystem(handle_))
    return fail(ENOSYS, "memory cannot be bound on a simulated machine", numa);
  if (topology_.distance(numa, numa) == 255) return fail(EINVAL, "this machine has no such NUMA node", numa);
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  hwloc_bitmap_only(set, numa);
  const int flags = HWLOC_MEMBIND_BYNODESET | (prefer ? 0 : HWLOC_MEMBIND_STRICT);
  const int rc = hwloc_set_area_membind(handle_, address, bytes, set, HWLOC_MEMBIND_BIND, flags);
  const int code = errno;
  hwloc_bitmap_free(set);
  if (rc != 0) return fail(code, "memory cannot be bound to its NUMA node", numa);
  return {};
}

}  // namespace ulnet
