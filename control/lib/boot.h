// Maps a configuration to the parameters of Host, LNDs and Node. Pure mappings, for the programs that start a node with
// real threads: libulnet's Instance and ulnetd.
#pragma once
#include "config/model.h"
#include "config/problem.h"
#include "control/node_config.h"
#include "dataplane/host/host.h"
#include "lnd/registry.h"

namespace ulnet {

/// Errors: EINVAL when `ulnet: cores` is no list of cores.
[[nodiscard]] config::Checked<HostConfig> boot_host(const config::DesiredState& state, DpdkMode dpdk);
/// The settings of every driver of driver_types(), for Drivers::open() and Drivers::retune().
[[nodiscard]] DriverNumbers boot_drivers(const config::DesiredState& state);
[[nodiscard]] NodeConfig boot_node(const config::DesiredState& state, const Placement& placement,
                                   const Topology& machine);

}  // namespace ulnet
