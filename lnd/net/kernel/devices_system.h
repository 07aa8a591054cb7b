// The machine's own interfaces: addresses from the kernel, speed and NUMA node from /sys. Thread: control; each
// question is asked anew, so that what has come up since is found.
#pragma once
#include <memory>

#include "lnd/net/kernel/devices.h"

namespace ulnet {

[[nodiscard]] std::unique_ptr<Devices> system_devices();

}  // namespace ulnet
