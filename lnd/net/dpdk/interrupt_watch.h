// Does a NIC's interrupt report the packets that come while a worker sleeps? Some drivers offer interrupts that never
// come. Pure. Thread: the worker; any thread reads is_deaf().
#pragma once
#include <atomic>

#include "dataplane/base/time.h"

namespace ulnet::dpdk {

class InterruptWatch {
 public:
  /// An interrupt may be late by less than this, if the NIC gathers packets for it.
  static constexpr Duration kLate = 1ms;
  /// Longest sleep on an interrupt that may not come.
  static constexpr Duration kSleepMax = 10ms;
  /// Number of sleeps in a row with missed packets, after which the queue is polled until reset().
  static constexpr unsigned kMissedMax = 32;

  /// After a sleep that lasted `slept`; zero: the thread did not sleep. `reported`: the descriptor was readable;
  /// `packets`: some have come. True: the interrupt has missed them.
  bool woke(Duration slept, bool reported, bool packets) {
    if (!packets) return false;
    if (reported) missed_ = 0;
    if (reported || slept < kLate) return false;
    if (++missed_ >= kMissedMax) deaf_.store(true, std::memory_order_relaxed);
    return true;
  }
  void reset() {
    missed_ = 0;
    deaf_.store(false, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_deaf() const { return deaf_.load(std::memory_order_relaxed); }

 private:
  unsigned missed_ = 0;
  std::atomic<bool> deaf_{false};
};

}  // namespace ulnet::dpdk
