// Payload that packets refer to in place. A port may keep such packets after they were acknowledged, for example copies
// of a packet that was repeated. The memory is free when the port has none of them.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>

namespace ulnet::rc::roce {

/// The payload of one operation, lent to a port. Stays at its place until end() has returned true.
class Loan {
 public:
  using Close = void (*)(Loan&);
  Loan() = default;
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  // The port's side. Thread: the worker, but for give_back().
  [[nodiscard]] bool is_open() const { return close_ != nullptr; }
  /// Packets may refer to the payload from now on. `close` is called once, when no further packet will: then, or later
  /// when none is left, the port calls give_back().
  void open(Close close) { close_ = close; }
  /// Any thread.
  void give_back() { back_.store(true, std::memory_order_release); }
  /// For the port, from open() to give_back().
  [[nodiscard]] void* place() { return place_.data(); }
  static constexpr size_t kPlaceBytes = 40;

  // The lender's side. Thread: the worker.
  /// No further packets. True: no packet refers to the payload, and the loan may be opened again. False: look later.
  [[nodiscard]] bool end() {
    if (close_ == nullptr) return true;
    if (!ending_) {
      ending_ = true;
      close_(*this);
    }
    if (!back_.load(std::memory_order_acquire)) return false;
    close_ = nullptr;
    ending_ = false;
    back_.store(false, std::memory_order_relaxed);
    return true;
  }

 private:
  Close close_ = nullptr;  ///< null: no port has the payload
  bool ending_ = false;
  std::atomic<bool> back_{false};
  alignas(std::max_align_t) std::array<std::byte, kPlaceBytes> place_;
};

}  // namespace ulnet::rc::roce
