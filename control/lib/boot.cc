#include "control/lib/boot.h"

#include <algorithm>

#include "config/ranges.h"
#include "config/schema.h"
#include "lnd/net/dpdk/eal.h"

namespace ulnet {
namespace {

IdleMode idle_mode(config::Idle idle) {
  switch (idle) {
    case config::Idle::kBusy: return IdleMode::kBusy;
    case config::Idle::kAdaptive: return IdleMode::kAdaptive;
    case config::Idle::kInterrupt: return IdleMode::kInterrupt;
  }
  return IdleMode::kAdaptive;
}

HugePages huge_pages(config::Tristate wanted) {
  switch (wanted) {
    case config::Tristate::kAuto: return HugePages::kAuto;
    case config::Tristate::kYes: return HugePages::kYes;
    case config::Tristate::kNo: return HugePages::kNo;
  }
  return HugePages::kAuto;
}

/// Parts of `memory.messages_per_worker`. One line per holder.
constexpr uint32_t kOperationParts = 2;  // own puts and gets
constexpr uint32_t kIncomingParts = 1;   // PUTs and GETs for this node, and their ACKs and REPLYs
constexpr uint32_t kUnusedParts = 1;     // forwarded messages lie in router buffers, which have their own
constexpr uint32_t kMessageParts = kOperationParts + kIncomingParts + kUnusedParts;

}  // namespace

config::Checked<HostConfig> boot_host(const config::DesiredState& state, DpdkMode dpdk) {
  HostConfig host;
  host.dpdk = dpdk;
  host.start_eal = &dpdk::start_eal;
  host.worker_count = unsigned(state.ulnet.workers);
  host.idle.mode = idle_mode(state.ulnet.idle);
  host.huge = huge_pages(state.ulnet.memory.hugepages);
  if (state.ulnet.cores != "auto") {
    const auto cores = config::core_list_parse(state.ulnet.cores);
    if (!cores) return config::fail(EINVAL, "ulnet: cores: " + cores.error());
    host.cpus.assign(cores->begin(), cores->end());
  }
  for (const config::NetConfig& net : state.nets)
    for (const config::NiConfig& ni : net.nis)
      if (!ni.interface.empty()) host.interfaces.push_back(ni.interface);
  return host;
}

DriverNumbers boot_drivers(const config::DesiredState& state) {
  DriverNumbers settings;
  for (const DriverType* type : driver_types())
    settings.push_back(config::driver_values(type->settings, state.ulnet.driver));
  return settings;
}

NodeConfig boot_node(const config::DesiredState& state, const Placement& placement, const Topology& machine) {
  NodeConfig node;
  node.workers = unsigned(placement.workers.size());
  const auto messages = uint32_t(state.ulnet.memory.messages_per_worker);
  node.worker_size.operations = std::max(messages * kOperationParts / kMessageParts, 64u);
  node.worker_size.incoming = std::max(messages * kIncomingParts / kMessageParts, 64u);
  node.peers_max = uint32_t(state.ulnet.memory.peer_nis);
  node.groups.machine = machine;
  for (const Placement::Slot& slot : placement.workers) {
    node.groups.group_of.push_back(uint16_t(slot.group));
    node.groups.numa_of.push_back(slot.numa);
  }
  return node;
}

}  // namespace ulnet
