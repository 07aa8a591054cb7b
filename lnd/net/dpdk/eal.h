// DPDK's environment (EAL) as the Host uses it. A process starts it at most once, before the workers. The EAL provides
// the worker threads, which are registered in DPDK as "lcores". Thread: control. The EAL holds only the memory that
// packet ports need; hosts with sockets only never start it. Built without DPDK, start() returns ENOTSUP.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/host/launcher.h"

namespace ulnet::dpdk {

/// The arguments that start() hands to DPDK, program name first. Pure. `--in-memory` with hugepages, else `--no-huge
/// --no-shconf` (the two do not go together).
[[nodiscard]] std::vector<std::string> eal_arguments(const EalConfig& config);

class Eal {
 public:
  /// Starts it. Errors: ENOTSUP (built without DPDK), EALREADY (started before in this process: DPDK cannot start
  /// twice), EINVAL (a CPU that is not there), EACCES, ENODEV, ENOMEM. DPDK's own lines go to stderr.
  [[nodiscard]] static Result<std::unique_ptr<Eal>> start(const EalConfig& config);
  /// Ends it for the life of the process. Requires: nothing runs on its lcores.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  /// Runs `entry(argument)` on lcore 1 + worker. Errors: EBUSY (something runs there), EINVAL (no such worker).
  [[nodiscard]] Result<void> launch(unsigned worker, int (*entry)(void*), void* argument);
  /// Waits until what runs on lcore 1 + worker has returned.
  void join(unsigned worker);
  [[nodiscard]] unsigned worker_count() const { return worker_count_; }

 private:
  Eal(std::vector<std::string> arguments, unsigned workers);
  std::vector<std::string> arguments_;  ///< DPDK may keep pointers into them
  std::vector<char*> argv_;
  unsigned worker_count_;
};

/// Eal::start() for a Host (HostConfig::start_eal): its lcores as a Launcher, which pin themselves.
[[nodiscard]] Result<std::unique_ptr<Launcher>> start_eal(const EalConfig& config);

}  // namespace ulnet::dpdk
