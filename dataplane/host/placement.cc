#include "dataplane/host/placement.h"

#include <algorithm>
#include <tuple>

#include "dataplane/base/limits.h"

namespace ulnet {
namespace {

/// NUMA nodes that have CPUs: first `near_numas` in their order, then the others by their distance to the nearest of
/// these, then by number.
std::vector<unsigned> numa_order(const Topology& topology, const std::vector<unsigned>& near_numas) {
  std::vector<unsigned> out;
  for (const auto& cpu : topology.cpus)
    if (std::find(out.begin(), out.end(), cpu.numa) == out.end()) out.push_back(cpu.numa);
  const auto rank = [&](unsigned numa) {
    const auto at = std::find(near_numas.begin(), near_numas.end(), numa);
    unsigned distance = 255;
    for (const unsigned other : near_numas) distance = std::min(distance, topology.distance(numa, other));
    return std::tuple{at - near_numas.begin(), distance, numa};
  };
  std::sort(out.begin(), out.end(), [&](unsigned a, unsigned b) { return rank(a) < rank(b); });
  return out;
}

/// The CPUs of one node in the order in which workers take them.
std::vector<Topology::Cpu> cpus_of(const Topology& topology, unsigned numa, unsigned control_core) {
  std::vector<Topology::Cpu> out;
  for (const auto& cpu : topology.cpus)
    if (cpu.numa == numa) out.push_back(cpu);
  const auto rank = [&](const Topology::Cpu& cpu) {
    return std::tuple{cpu.core == control_core, cpu.thread, cpu.number};
  };
  std::sort(out.begin(), out.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return out;
}

/// Order in which CPUs are taken. Near nodes share workers evenly; far ones come after them.
std::vector<unsigned> cpu_order(const Topology& topology, const std::vector<unsigned>& near_numas) {
  const auto lowest = std::min_element(topology.cpus.begin(), topology.cpus.end(),
                                       [](const auto& a, const auto& b) { return a.number < b.number; });
  const auto numas = numa_order(topology, near_numas);
  const auto near = [&](unsigned numa) {
    return near_numas.empty() || std::find(near_numas.begin(), near_numas.end(), numa) != near_numas.end();
  };
  std::vector<unsigned> out;
  std::vector<unsigned> last;  // control's core: only when nothing else is left
  for (const bool wanted : {true, false}) {
    std::vector<std::vector<Topology::Cpu>> columns;
    for (const unsigned numa : numas)
      if (near(numa) == wanted) columns.push_back(cpus_of(topology, numa, lowest->core));
    for (size_t row = 0, left = 1; left > 0; ++row) {
      left = 0;
      for (const auto& column : columns) {
        if (row >= column.size()) continue;
        ++left;
        (column[row].core == lowest->core ? last : out).push_back(column[row].number);
      }
    }
  }
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

/// One worker for each whole core but control's, within bounds.
unsigned default_count(const Topology& topology) {
  unsigned cores = 0;
  for (const auto& cpu : topology.cpus) cores += cpu.thread == 0;
  return std::clamp(cores - std::min(cores, 1u), 1u, kWorkersDefaultMax);
}

Result<std::vector<unsigned>> wanted_cpus(const Topology& topology, const PlacementRequest& request) {
  std::vector<unsigned> out = request.cpus;
  if (!out.empty()) {
    if (request.worker_count != 0 && request.worker_count != out.size())
      return fail(EINVAL, "the number of workers and the list of their CPUs disagree: give one of them");
    for (size_t i = 0; i < out.size(); ++i) {
      if (topology.cpu(out[i]) == nullptr)
        return fail(EINVAL, "this process may not run on that CPU (taskset, cgroup), or there is no such CPU", out[i]);
      if (std::find(out.begin(), out.begin() + ptrdiff_t(i), out[i]) != out.begin() + ptrdiff_t(i))
        return fail(EINVAL, "that CPU is listed twice", out[i]);
    }
  } else {
    const auto order = cpu_order(topology, request.near_numas);
    const unsigned count = request.worker_count != 0 ? request.worker_count : default_count(topology);
    for (unsigned i = 0; i < count && i < kWorkersMax + 1; ++i) out.push_back(order[i % order.size()]);
  }
  if (out.size() > kWorkersMax) return fail(EINVAL, "more workers than a node can have", kWorkersMax);
  return out;
}

}  // namespace

Result<Placement> place_workers(const Topology& topology, const PlacementRequest& request) {
  if (topology.cpus.empty()) return fail(EINVAL, "there is no CPU to place workers on");
  auto cpus = wanted_cpus(topology, request);
  if (!cpus) return tl::unexpected(cpus.error());
  // Neighbours in number are neighbours in memory: sorted by node, in the order in which nodes were first taken.
  std::vector<unsigned> numas;
  for (const unsigned cpu : *cpus)
    if (std::find(numas.begin(), numas.end(), topology.cpu(cpu)->numa) == numas.end())
      numas.push_back(topology.cpu(cpu)->numa);
  if (request.cpus.empty())
    std::stable_sort(cpus->begin(), cpus->end(), [&](unsigned a, unsigned b) {
      return std::find(numas.begin(), numas.end(), topology.cpu(a)->numa) <
             std::find(numas.begin(), numas.end(), topology.cpu(b)->numa);
    });
  Placement out;
  for (const unsigned numa : numas) out.groups.push_back({numa, {}});
  for (const unsigned cpu : *cpus) {
    const WorkerId worker{uint16_t(out.workers.size())};
    const unsigned numa = topology.cpu(cpu)->numa;
    const auto group = unsigned(std::find(numas.begin(), numas.end(), numa) - numas.begin());
    const bool shared = std::count(cpus->begin(), cpus->end(), cpu) > 1;
    out.workers.push_back({worker, cpu, numa, group, shared});
    out.groups[group].workers.push_back(worker);
  }
  for (const auto& cpu : topology.cpus)
    if (std::find(cpus->begin(), cpus->end(), cpu.number) == cpus->end()) out.control_cpus.push_back(cpu.number);
  if (out.control_cpus.empty())
    for (const auto& cpu : topology.cpus) out.control_cpus.push_back(cpu.number);
  return out;
}

}  // namespace ulnet
