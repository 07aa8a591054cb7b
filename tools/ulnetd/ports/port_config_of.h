// From a device of the configuration to what a port is opened with. Pure. Thread: control.
#pragma once
#include "config/devices.h"
#include "control/text_error.h"
#include "lnd/net/dpdk/port_config.h"

namespace ulnet {

/// Errors: EINVAL; which key of which device, and what it should be.
[[nodiscard]] TextResult<dpdk::PortConfig> port_config_of(const config::DeviceConfig& device);

}  // namespace ulnet
