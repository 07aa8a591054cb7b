#include "lnd/net/dpdk/eal.h"

namespace ulnet::dpdk {
namespace {

std::string number_list(const std::vector<unsigned>& numbers) {
  std::string out;
  for (const unsigned number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
  return out;
}

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

std::vector<std::string> eal_arguments(const EalConfig& config) {
  std::vector<std::string> out{config.program};
  std::string lcores = "0@(" + number_list(config.control_cpus) + ")";
  for (size_t i = 0; i < config.worker_cpus.size(); ++i)
    lcores += "," + std::to_string(i + 1) + "@" + std::to_string(config.worker_cpus[i]);
  out.insert(out.end(), {"--lcores", lcores, "--main-lcore", "0"});
  if (config.hugepages) {
    out.push_back("--in-memory");
  } else {
    out.insert(out.end(), {"--no-huge", "--no-shconf"});
  }
  out.insert(out.end(), {"-m", std::to_string(config.memory_mb)});
  // Frames carry payload by its virtual address (packet.cc), which a NIC only reaches through an IOMMU.
  out.insert(out.end(), {"--iova-mode", "va"});
  if (config.devices.empty()) out.push_back("--no-pci");
  for (const std::string& device : config.devices) out.insert(out.end(), {"--allow", device});
  for (const std::string& device : config.virtual_devices) out.insert(out.end(), {"--vdev", device});
  out.insert(out.end(), {"--no-telemetry", "--log-level", "lib.*:warning"});
  return out;
}

Result<std::unique_ptr<Launcher>> start_eal(const EalConfig& config) {
  auto started = Eal::start(config);
  if (!started) return tl::unexpected(started.error());
  return std::make_unique<EalLauncher>(std::move(*started));
}

}  // namespace ulnet::dpdk
