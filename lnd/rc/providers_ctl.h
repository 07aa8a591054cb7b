// The providers of this build as one: RDMA devices over verbs, and packet ports over our RoCE. Thread: control.
#pragma once
#include <memory>

#include "lnd/rc/rc.h"

namespace ulnet {
class PortUser;  // lnd/net/dpdk/port_user_ctl.h
}  // namespace ulnet

namespace ulnet::rc {

struct SystemOptions {
  unsigned workers = 1;
  bool ports = false;  ///< the process opens packet ports
  uint64_t seed = 0;
};
struct SystemProvider {
  std::unique_ptr<Provider> provider;
  PortUser* port_user = nullptr;  ///< the provider's; null: there is no use for ports
};
/// Errors: EMFILE.
[[nodiscard]] Result<SystemProvider> open_system_provider(const SystemOptions& options);

}  // namespace ulnet::rc
