// Which worker runs on which CPU. Pure: from a Topology and a wish to a table. Groups of workers are what upstream
// calls CPTs.
#pragma once
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/host/topology.h"

namespace ulnet {

struct PlacementRequest {
  std::vector<unsigned> cpus;        ///< exactly these, in this order, one worker each; empty = chosen
  unsigned worker_count = 0;         ///< 0 = by the machine (or by cpus)
  std::vector<unsigned> near_numas;  ///< NUMA nodes of the NICs in use, best first; filled before others
};

struct Placement {
  struct Slot {
    WorkerId worker{};
    unsigned cpu = 0;
    unsigned numa = 0;
    unsigned group = 0;   ///< index in groups
    bool shared = false;  ///< another worker runs on this CPU: more workers than CPUs
    constexpr bool operator==(const Slot&) const = default;
  };
  struct Group {
    unsigned numa = 0;
    std::vector<WorkerId> workers;
    bool operator==(const Group&) const = default;
  };
  std::vector<Slot> workers;  ///< by worker
  std::vector<Group> groups;  ///< by first worker
  std::vector<unsigned>
      control_cpus;  ///< control floats over the allowed CPUs, without the workers' CPUs if any is left
};

inline constexpr unsigned kWorkersDefaultMax = 8;  ///< limit if the request names no count and no list

/// Without a list: whole cores first and second hardware threads last, evenly over the nearest NUMA nodes. The
/// machine's first core is left to control as long as there are others. Errors: EINVAL (a CPU is listed twice, missing
/// or not allowed: object is its number; count and list disagree; more than kWorkersMax).
[[nodiscard]] Result<Placement> place_workers(const Topology& topology, const PlacementRequest& request);

}  // namespace ulnet
