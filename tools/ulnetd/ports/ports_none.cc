// Ports of a build without DPDK: there are none.
#include "tools/ulnetd/ports/ports.h"

namespace ulnet {

config::Checked<void> Ports::host_needs(const std::vector<config::DeviceConfig>&, HostConfig&) {
  return config::fail(ENOTSUP,
                      "ulnet: devices: this ulnetd is built without DPDK; remove the section, or build with it");
}

config::Checked<std::unique_ptr<Ports>> Ports::open(const std::vector<config::DeviceConfig>&, Host&, Deps) {
  return config::fail(ENOTSUP, "built without DPDK");
}

}  // namespace ulnet
