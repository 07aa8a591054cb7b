// The seam between Host threads and their creator: plain pthreads, or DPDK's lcores when the Host owns the EAL.
// Thread: control.
#pragma once
#include <pthread.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace ulnet {

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Runs `entry(argument)` on the thread of `worker`. Errors: EBUSY (it runs something), EAGAIN (no more threads),
  /// EINVAL.
  [[nodiscard]] virtual Result<void> launch(unsigned worker, int (*entry)(void*), void* argument) = 0;
  /// Waits until the function launched for `worker` has returned. No effect without a launched function.
  virtual void join(unsigned worker) = 0;
};

/// DPDK's environment (EAL), as a Host needs it.
struct EalConfig {
  std::vector<unsigned> control_cpus;        ///< lcore 0 floats over these: the calling thread
  std::vector<unsigned> worker_cpus;         ///< lcore 1 + i is pinned to worker_cpus[i]
  std::vector<std::string> devices;          ///< PCI addresses ("0000:03:00.0"); empty = no PCI device is touched
  std::vector<std::string> virtual_devices;  ///< e.g. "net_tap0"
  uint32_t memory_mb = 64;                   ///< for port pools; with hugepages it grows as needed
  bool hugepages = false;  ///< use huge pages: the Host found enough free ones; false: normal pages, no sharing
  std::string program = "ulnetd";
};

/// Starts the EAL, whose lcores become the workers' threads. Errors: those of dpdk::Eal::start().
using EalStart = Result<std::unique_ptr<Launcher>> (*)(const EalConfig& config);

/// One pthread per launch; it pins itself.
class PthreadLauncher final : public Launcher {
 public:
  explicit PthreadLauncher(unsigned workers) : threads_(workers) {}
  ~PthreadLauncher() override;
  PthreadLauncher(const PthreadLauncher&) = delete;
  PthreadLauncher& operator=(const PthreadLauncher&) = delete;
  [[nodiscard]] Result<void> launch(unsigned worker, int (*entry)(void*), void* argument) override;
  void join(unsigned worker) override;

 private:
  struct Thread {
    pthread_t id{};
    bool running = false;
    int (*entry)(void*) = nullptr;
    void* argument = nullptr;
  };
  std::vector<Thread> threads_;
};

}  // namespace ulnet
