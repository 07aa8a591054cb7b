// Ports of a build without DPDK: there are none.
#include "tools/ulnetd/ports/ports.h"

namespace ulnet {

TextResult<void> Ports::host_needs(const std::vector<config::DeviceConfig>&, HostConfig&) {
  return fail_text(ENOTSUP, "ulnet: devices: this ulnetd is built without DPDK; remove the section, or build with it");
}

TextResult<std::unique_ptr<Ports>> Ports::open(const std::vector<config::DeviceConfig>&, Host&, Deps) {
  return fail_text(ENOTSUP, "built without DPDK");
}

}  // namespace ulnet
