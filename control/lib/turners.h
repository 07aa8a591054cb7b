// Mode kAttach: which thread turns which worker. Threads of the application turn workers; each worker has one thread,
// because an io_uring takes calls from one thread only. close() turns the workers that no other thread turns, so that
// the end does not wait for a thread that is not there. The hard part: close() may run while other threads still turn
// their workers, and two threads may not turn the same worker.
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

/// How long close() waits for a thread that has stopped turning its worker.
inline constexpr Duration kTurnerSilenceMax = 2s;

class Turners {
 public:
  /// To call before any thread turns. `workers` outlives this object.
  void start(std::span<const std::unique_ptr<Turnable>> workers);

  /// Turns the worker once, on the calling thread; returns work done. 0: another thread or close() turns it.
  unsigned turn(WorkerId worker);
  /// Waits until the worker has work, or `timeout` ends. Returns at once if another thread turns the worker.
  void wait(WorkerId worker, Duration timeout);
  /// From now on the calling thread turns this worker. False: another thread or close() turns it, and the caller may
  /// not touch the worker.
  [[nodiscard]] bool take(WorkerId worker);
  /// To call after each turn, by the thread that took the worker. Until the next turn the worker counts as asleep. So a
  /// thread that stops turning, for a while or for ever, does not keep a view from being freed or replaced.
  void turned(WorkerId worker);

  /// For the thread that closes: turns its own workers and the workers that no thread has taken, until `ended` is true.
  /// Calls `give_up`, once, if another thread was woken and has not turned its worker for kTurnerSilenceMax.
  void turn_until(const std::atomic<bool>& ended, const std::function<void()>& give_up);

 private:
  struct alignas(kCacheLine) Turner {
    std::atomic<std::thread::id> thread{};  // the thread that turns the worker; none = not taken yet
    std::atomic<bool> closing{false};       // close() turns the worker
    std::atomic<uint64_t> turns{0};         // `thread`: w, close(): r
  };
  struct Other {
    size_t worker = 0;
    uint64_t turns = 0;
    Instant seen{};  // when `turns` last changed
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
