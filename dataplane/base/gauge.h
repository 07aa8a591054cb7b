// A number that one owner writes and others may read, stale: load, never work or configuration.
#pragma once
#include <atomic>
#include <cstdint>

namespace ulnet {

class Gauge {
 public:
  /// Owner only.
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(int64_t delta) { set(get() + delta); }
  /// Owner only. A reader of the sum with get_acquire() sees what the owner did before.
  void add_release(int64_t delta) { value_.store(get() + delta, std::memory_order_release); }
  /// Anybody; may be stale.
  [[nodiscard]] int64_t get() const { return value_.load(std::memory_order_relaxed); }
  [[nodiscard]] int64_t get_acquire() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<int64_t> value_{0};
};

}  // namespace ulnet
