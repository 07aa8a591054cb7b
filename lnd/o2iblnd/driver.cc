// The record of o2iblnd, over the RDMA devices of the machine and packet ports. The one file of this folder that names
// a provider. Thread: control.
#include "lnd/driver.h"

#include <filesystem>

#include "lnd/o2iblnd/fields.h"
#include "lnd/o2iblnd/o2iblnd.h"
#include "lnd/rc/providers_ctl.h"

namespace ulnet::o2iblnd {
namespace {

/// Whether the machine has an RDMA device now. Most nodes have tcp networks only, and bind their MDs without the
/// helper.
bool has_device() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

Result<std::unique_ptr<Driver>> open(const DriverContext& context) {
  auto system =
      rc::open_system_provider({.workers = context.workers, .ports = context.ports, .seed = context.seed});
  if (!system) return tl::unexpected<Error>(system.error());
  return make_ib_driver(context, std::move(system->provider), has_device() || context.ports, system->port_user);
}

}  // namespace

// A queue pair keeps its path: the system's IP routes lead the messages of the connection manager only.
const DriverType kIbDriver{.name = "o2iblnd",
                           .net_type = NetType::kO2ib,
                           .settings = ib_setting_fields(),
                           .ni_tunables = ib_tunable_fields(),
                           .open = &open};

}  // namespace ulnet::o2iblnd
