// Mode kAttach: who turns which worker. Threads of the application turn workers, one thread each (an io_uring takes
// calls from one thread only), and close() turns those that nobody else does, so that the end waits for nobody who is
// not there. The hard part: close() may run beside threads that go on turning theirs, and no worker may be turned by
// two.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/ring.h"
#include "dataplane/host/turnable.h"

namespace ulnet {

/// How long close() waits for a thread that turned a worker and does not any more.
inline constexpr Duration kTurnerSilenceMax = 2s;

class Turners {
 public:
  /// Before any thread turns. `workers` outlives this.
  void start(std::span<const std::unique_ptr<Turnable>> workers);

  /// The calling thread turns this worker from now on. False: another thread does, or close(), and the caller may not
  /// touch it.
  [[nodiscard]] bool take(WorkerId worker);
  /// The thread that took it, after each turn. Until the next turn the worker counts as asleep: a thread that turns no
  /// more, for a while or for ever, keeps no view from being freed or replaced.
  void turned(WorkerId worker);

  /// The thread that closes: turns what it turned before and what nobody has turned, until `ended` is true. Calls
  /// `give_up`, once, when a worker that another thread turned is not turned for kTurnerSilenceMax though it was woken.
  void turn_until(const std::atomic<bool>& ended, const std::function<void()>& give_up);

 private:
  struct alignas(kCacheLine) Turner {
    std::atomic<std::thread::id> thread{};  // who turns it; none = nobody yet
    std::atomic<bool> closing{false};       // close() turns it
    std::atomic<uint64_t> turns{0};         // `thread`: w, close(): r
  };
  struct Other {
    size_t worker = 0;
    uint64_t turns = 0;
    Instant seen{};  // when it had last turned
  };
  void claim(Instant now);
  [[nodiscard]] bool silent(Other& other, Instant now);

  std::span<const std::unique_ptr<Turnable>> workers_;
  std::unique_ptr<Turner[]> turners_;
  // The thread that closes:
  std::vector<size_t> claimed_;
  std::vector<Other> others_;
};

/// Sleeps between two looks: short at first, then cheap.
class Nap {
 public:
  void pause();

 private:
  long ns_ = 1000;
};

}  // namespace ulnet
