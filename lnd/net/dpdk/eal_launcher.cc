#include "lnd/net/dpdk/eal.h"

namespace ulnet::dpdk {
namespace {

/// Workers as DPDK's lcores, which pin themselves.
class EalLauncher final : public Launcher {
 public:
  explicit EalLauncher(std::unique_ptr<Eal> eal) : eal_(std::move(eal)) {}
  [[nodiscard]] Result<void> launch(unsigned worker, int (*entry)(void*), void* argument) override {
    return eal_->launch(worker, entry, argument);
  }
  void join(unsigned worker) override { eal_->join(worker); }

 private:
  std::unique_ptr<Eal> eal_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> start_eal(const EalConfig& config) {
  auto started = Eal::start(config);
  if (!started) return tl::unexpected(started.error());
  return std::make_unique<EalLauncher>(std::move(*started));
}

}  // namespace ulnet::dpdk
