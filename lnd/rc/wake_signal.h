// A wake-up between threads: a descriptor that is readable from raise() to clear(). Any thread may raise it, and may be
// asleep or not.
#pragma once
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "dataplane/base/result.h"

namespace ulnet::rc {

class Signal {
 public:
  Signal() = default;
  ~Signal() {
    if (fd_ >= 0) ::close(fd_);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  /// Errors: EMFILE.
  [[nodiscard]] Result<void> open() {
    fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd_ < 0) return fail(errno, "cannot open an eventfd");
    return {};
  }
  /// No effect if the signal is not open: its threads are one.
  void raise() {
    if (fd_ < 0) return;
    // Before the write: the scheduler often runs the woken thread at once on this CPU. That thread would find the
    // descriptor readable and no flag, and spin until this thread goes on.
    raised_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof one);  // a full counter is readable, too
    // After the write, too: a clear() in between may have taken the flag when there was nothing to read.
    raised_.store(true, std::memory_order_release);
  }
  /// True if there was something to read. While raise() is in another thread, the descriptor may become readable after
  /// this call, or stay so.
  bool clear() {
    if (!raised_.load(std::memory_order_relaxed) || !raised_.exchange(false, std::memory_order_acquire)) return false;
    uint64_t count = 0;
    return ::read(fd_, &count, sizeof count) == sizeof count;
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  std::atomic<bool> raised_{false};
  int fd_ = -1;
};

/// Rung for a worker: something that it looks at has changed.
struct Bell {
  Signal signal;
  std::atomic<bool> rung{false};
  /// A worker that has not heard the last ring gets no other.
  void ring() {
    if (!rung.exchange(true, std::memory_order_seq_cst)) signal.raise();
  }
  /// True if it was rung since the last call.
  bool take() { return rung.load(std::memory_order_relaxed) && rung.exchange(false, std::memory_order_seq_cst); }
  /// Before the worker sleeps: true if it was rung. The signal is cleared first, since `rung` is set before the signal.
  /// So a signal whose `rung` take() has seen does not keep the worker awake, and no ring is lost.
  bool is_rung() {
    signal.clear();
    return rung.load(std::memory_order_seq_cst);
  }
};

}  // namespace ulnet::rc
