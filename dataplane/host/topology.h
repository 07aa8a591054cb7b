// The machine's layout: CPUs that this process may use, NUMA nodes, distances, places of NICs and accelerators. A plain
// value: read from hwloc at start, or made up by tests. Thread: any (immutable once made); reading it: control, at
// start.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/memory_locator.h"
#include "dataplane/base/result.h"

struct hwloc_topology;

namespace ulnet {

inline constexpr unsigned kNoNuma = ~0u;

struct Topology {
  struct Cpu {
    unsigned number = 0;  ///< the system's number (taskset, /proc)
    unsigned core = 0;    ///< index of its core; hardware threads of one core share it
    unsigned thread = 0;  ///< which hardware thread of the core: 0 is the first allowed one
    unsigned socket = 0;
    unsigned numa = 0;  ///< Numa::number
  };
  struct Numa {
    unsigned number = 0;  ///< the system's number
    unsigned socket = 0;
    uint64_t memory_bytes = 0;
  };
  struct Nic {
    std::string name;  ///< as `ip link` shows it
    unsigned numa = kNoNuma;
    std::vector<uint64_t> bridges = {};  ///< PCIe bridges and switches above it, without the host's
  };
  /// A device with memory of its own. Its number is its index.
  struct Accelerator {
    std::string name;  ///< as hwloc has it: "cuda0", "card0"
    unsigned numa = kNoNuma;
    std::vector<uint64_t> bridges = {};
  };
  std::vector<Cpu> cpus;    ///< only those that affinity and cgroup allow; by number
  std::vector<Numa> numas;  ///< by number; at least one
  std::vector<std::vector<unsigned>>
      distances;  ///< [index in numas][index in numas]; 10 = local, as the firmware reports
  std::vector<Nic> nics;
  std::vector<Accelerator> accelerators;

  [[nodiscard]] const Cpu* cpu(unsigned number) const;
  /// 10 for the same node; 255 when one is unknown.
  [[nodiscard]] unsigned distance(unsigned numa_a, unsigned numa_b) const;
  /// By number of a NUMA node: the distance from its memory to a device on node `device`. 255 if one of the nodes does
  /// not exist. Empty if the machine has one node.
  [[nodiscard]] std::vector<uint32_t> distances_to(unsigned device) const;
  /// By accelerator: 0 below one PCIe switch with the interface, 1 on one NUMA node, else 2. Empty if the interface is
  /// not known.
  [[nodiscard]] std::vector<uint32_t> accelerator_priorities(std::string_view nic) const;
  /// kNoNuma when the interface is unknown or hangs on no node (loopback, bridges).
  [[nodiscard]] unsigned numa_of_nic(std::string_view name) const;

  /// For tests: every socket is one NUMA node with 1 GiB. CPU numbers run through the sockets, second hardware threads
  /// last, as Linux numbers them. Distances are 10 or 20.
  [[nodiscard]] static Topology synthetic(unsigned sockets, unsigned cores_per_socket, unsigned threads_per_core = 1);
};

/// hwloc's view of this machine, kept for what needs more than numbers: binding memory, and finding it.
class Machine final : public MemoryLocator {
 public:
  /// Reads the machine; `description` (hwloc's synthetic syntax, "numa:4 core:8 pu:2") reads a made-up one instead, on
  /// which nothing can be bound. Errors: EIO, EINVAL (description).
  [[nodiscard]] static Result<std::unique_ptr<Machine>> read(const char* description = nullptr);
  ~Machine() override;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] const Topology& topology() const { return topology_; }
  /// Binds pages of [address, address + bytes) to a NUMA node, before they are first touched. `prefer`: if that node
  /// has no pages left, pages of other nodes are taken. Errors: EINVAL (no such node), ENOSYS (made-up machine, or the
  /// kernel has no NUMA), EPERM (forbidden in this container).
  [[nodiscard]] Result<void> bind_memory(void* address, size_t bytes, unsigned numa, bool prefer = false) const;
  [[nodiscard]] uint32_t numa_of(const void* address) const override;

 private:
  explicit Machine(hwloc_topology* handle) : handle_(handle) {}
  void read_numas();
  void read_cpus(bool real);
  void read_devices();
  [[nodiscard]] unsigned numa_at(const void* nodeset) const;
  hwloc_topology* handle_;
  Topology topology_;
};

}  // namespace ulnet
