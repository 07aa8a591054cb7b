// The answer to `show port`: the packet ports of `ulnet: devices:`, then the ports of RDMA devices. Thread: control.
#pragma once
#include <filesystem>

#include "control/api/server.h"
#include "tools/ulnetd/ports/ports.h"

namespace ulnet {

/// `ports`: null if the configuration names none. `rdma`: the folder of RDMA devices. Errors in the answer: ENOENT, no
/// port has the name that was given.
[[nodiscard]] api::Answer show_ports(Ports* ports, const std::filesystem::path& rdma, const api::Request& request);

}  // namespace ulnet
