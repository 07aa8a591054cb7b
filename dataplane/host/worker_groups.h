// The groups of workers and their NUMA nodes by worker, and the machine, as a node sees them. Pure data;
// dataplane/host/placement.h decides.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/host/topology.h"

namespace ulnet {

/// Which workers form a group (a CPT in LNet's words), and on which NUMA node they run.
struct WorkerGroups {
  std::vector<uint16_t> group_of;  ///< by worker; empty: all in group 0
  std::vector<uint32_t> numa_of;   ///< by worker; empty: unknown
  Topology machine;                ///< empty: unknown
  [[nodiscard]] uint16_t group(WorkerId worker) const {
    return worker.value < group_of.size() ? group_of[worker.value] : uint16_t(0);
  }
  [[nodiscard]] uint32_t numa(WorkerId worker) const {
    return worker.value < numa_of.size() ? numa_of[worker.value] : UINT32_MAX;
  }
  [[nodiscard]] uint16_t count() const {
    return group_of.empty() ? uint16_t(1) : uint16_t(*std::max_element(group_of.begin(), group_of.end()) + 1);
  }
  [[nodiscard]] std::vector<uint16_t> all() const {
    std::vector<uint16_t> groups(count());
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = uint16_t(i);
    return groups;
  }
};

}  // namespace ulnet
