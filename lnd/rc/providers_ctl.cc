// A build with DPDK.
#include "lnd/rc/providers_ctl.h"

#include "lnd/rc/joined.h"
#include "lnd/rc/roce/ports_ctl.h"
#include "lnd/rc/verbs/verbs.h"

namespace ulnet::rc {
namespace {

class WithPorts final : public Provider {
 public:
  WithPorts(std::unique_ptr<Provider> verbs, std::unique_ptr<roce::RoceProvider> roce, unsigned workers)
      : ports(*roce), joined_(join(std::move(verbs), std::move(roce), workers)) {}
  Control& control() override { return joined_->control(); }
  Worker& worker(WorkerId id) override { return joined_->worker(id); }

  roce::RocePorts ports;

 private:
  std::unique_ptr<Provider> joined_;
};

}  // namespace

Result<SystemProvider> open_system_provider(const SystemOptions& options) {
  auto verbs = verbs::open_provider(options.workers);
  if (!verbs) return tl::unexpected(verbs.error());
  if (!options.ports) return SystemProvider{std::move(*verbs), nullptr};
  auto roce = roce::open_provider({.workers = options.workers,
                                   .seed = options.seed,
                                   .first_conn = kSecondConns,
                                   .first_listener = kSecondListeners});
  if (!roce) return tl::unexpected(roce.error());
  auto both = std::make_unique<WithPorts>(std::move(*verbs), std::move(*roce), options.workers);
  PortUser* user = &both->ports;
  return SystemProvider{std::move(both), user};
}

}  // namespace ulnet::rc
