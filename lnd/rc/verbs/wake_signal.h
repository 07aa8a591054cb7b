// A wake-up between threads: a descriptor that is readable from raise() to clear(). Any thread may raise it, and may be
// asleep or not.
#pragma once
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "dataplane/base/result.h"

namespace ulnet::rc::verbs {

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
  void raise() {
    const uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof one);  // a full counter is readable, too
    // After the write: a clear() that sees the flag reads the counter, and a later one needs no system call.
    raised_.store(true, std::memory_order_release);
  }
  /// True if it was raised since the last call. While raise() is in another thread, the descriptor may stay readable.
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

}  // namespace ulnet::rc::verbs
