// A build without DPDK: there are no packet ports.
#include "lnd/rc/providers_ctl.h"
#include "lnd/rc/verbs/verbs.h"

namespace ulnet::rc {

Result<SystemProvider> open_system_provider(const SystemOptions& options) {
  auto verbs = verbs::open_provider(options.workers);
  if (!verbs) return tl::unexpected(verbs.error());
  return SystemProvider{std::move(*verbs), nullptr};
}

}  // namespace ulnet::rc
