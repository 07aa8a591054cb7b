// A port as YAML: from a device of the configuration to what a port is opened with, and what `port show` shows. Pure.
// Thread: control.
#pragma once
#include "config/devices.h"
#include "config/doc.h"
#include "config/problem.h"
#include "lnd/net/dpdk/live_port.h"
#include "lnd/net/dpdk/port_config.h"

namespace ulnet {

/// Errors: EINVAL; which key of which device, and what it should be.
[[nodiscard]] config::Checked<dpdk::PortConfig> port_config_of(const config::DeviceConfig& device);

/// Verbosity 0: the port and its sums. 1: also drops by reason and the device's own counts. 2: also queues with packets
/// per burst, buffers and the workers' cycles.
[[nodiscard]] config::Doc port_doc(LivePort& port, int verbosity);

}  // namespace ulnet
