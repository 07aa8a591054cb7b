#include "lnd/net/dpdk/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>

namespace ulnet::dpdk {

Eal::Eal(std::vector<std::string> arguments, unsigned workers)
    : arguments_(std::move(arguments)), worker_count_(workers) {
  for (std::string& argument : arguments_) argv_.push_back(argument.data());
  argv_.push_back(nullptr);
}

Result<std::unique_ptr<Eal>> Eal::start(const EalConfig& config) {
  std::unique_ptr<Eal> eal(new Eal(eal_arguments(config), unsigned(config.worker_cpus.size())));
  if (rte_eal_init(int(eal->arguments_.size()), eal->argv_.data()) >= 0) return eal;
  const int code = rte_errno;
  eal->worker_count_ = 0;
  eal->argv_.clear();  // not started: nothing to clean up
  switch (code) {
    case EALREADY: return fail(EALREADY, "DPDK was started before in this process and cannot start twice");
    case EACCES: return fail(EACCES, "DPDK may not use the devices or hugepages (root or group rights are missing)");
    case ENODEV: return fail(ENODEV, "DPDK finds no such device, or no driver has been bound to it (vfio-pci)");
    case ENOMEM: return fail(ENOMEM, "DPDK gets no memory (are enough huge pages free?)");
    case EINVAL: return fail(EINVAL, "DPDK refuses its arguments (is a CPU of `cores` missing or not allowed?)");
    default: return fail(code != 0 ? code : EIO, "DPDK did not start; see its lines on stderr");
  }
}

Eal::~Eal() {
  if (!argv_.empty()) (void)rte_eal_cleanup();
}

Result<void> Eal::launch(unsigned worker, int (*entry)(void*), void* argument) {
  if (worker >= worker_count_) return fail(EINVAL, "DPDK has no lcore for this worker", worker);
  const int rc = rte_eal_remote_launch(entry, argument, worker + 1);
  if (rc != 0) return fail(rc, "the worker's lcore is busy", worker);
  return {};
}

void Eal::join(unsigned worker) {
  if (worker < worker_count_) (void)rte_eal_wait_lcore(worker + 1);
}

}  // namespace ulnet::dpdk
