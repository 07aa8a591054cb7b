#include "dataplane/host/topology.h"

#include <algorithm>

namespace ulnet {

const Topology::Cpu* Topology::cpu(unsigned number) const {
  const auto found = std::find_if(cpus.begin(), cpus.end(), [&](const Cpu& cpu) { return cpu.number == number; });
  return found == cpus.end() ? nullptr : &*found;
}

unsigned Topology::distance(unsigned numa_a, unsigned numa_b) const {
  const auto index = [&](unsigned number) {
    return size_t(std::find_if(numas.begin(), numas.end(), [&](const Numa& n) { return n.number == number; }) -
                  numas.begin());
  };
  const size_t a = index(numa_a), b = index(numa_b);
  if (a == numas.size() || b == numas.size()) return 255;
  if (a < distances.size() && b < distances[a].size()) return distances[a][b];
  return a == b ? 10 : 20;
}

unsigned Topology::numa_of_nic(std::string_view name) const {
  for (const Nic& nic : nics)
    if (nic.name == name) return nic.numa;
  return kNoNuma;
}

std::vector<uint32_t> Topology::distances_to(unsigned device) const {
  if (numas.size() < 2) return {};
  std::vector<uint32_t> out(numas.back().number + 1, 255);
  for (const Numa& memory : numas) out[memory.number] = distance(memory.number, device);
  return out;
}

std::vector<uint32_t> Topology::accelerator_priorities(std::string_view nic) const {
  const auto found = std::find_if(nics.begin(), nics.end(), [&](const Nic& one) { return one.name == nic; });
  if (found == nics.end()) return {};
  std::vector<uint32_t> out;
  for (const Accelerator& one : accelerators) {
    const bool one_switch = std::find_first_of(one.bridges.begin(), one.bridges.end(), found->bridges.begin(),
                                               found->bridges.end()) != one.bridges.end();
    out.push_back(one_switch ? 0 : one.numa != kNoNuma && one.numa == found->numa ? 1 : 2);
  }
  return out;
}

Topology Topology::synthetic(unsigned sockets, unsigned cores_per_socket, unsigned threads_per_core) {
  Topology out;
  for (unsigned thread = 0; thread < threads_per_core; ++thread)
    for (unsigned socket = 0; socket < sockets; ++socket)
      for (unsigned i = 0; i < cores_per_socket; ++i)
        out.cpus.push_back({unsigned(out.cpus.size()), socket * cores_per_socket + i, thread, socket, socket});
  for (unsigned socket = 0; socket < sockets; ++socket) {
    out.numas.push_back({socket, socket, uint64_t{1} << 30});
    out.distances.emplace_back(sockets, 20u)[socket] = 10;
  }
  return out;
}

}  // namespace ulnet
