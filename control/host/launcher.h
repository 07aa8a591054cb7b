// The seam between Host threads and who makes threads: plain pthreads, or DPDK's lcores when the Host owns the EAL.
// Thread: control.
#pragma once
#include <pthread.h>

#include <optional>
#include <vector>

#include "dataplane/base/result.h"

namespace ulnet {

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Runs `entry(argument)` on the thread of `worker`. Errors: EBUSY (it runs something), EAGAIN (no more threads),
  /// EINVAL.
  [[nodiscard]] virtual Result<void> launch(unsigned worker, int (*entry)(void*), void* argument) = 0;
  /// Waits until what was launched for `worker` has returned. No effect when nothing was.
  virtual void join(unsigned worker) = 0;
};

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
