// Memory that is kept back for the steps of control. A step changes several tables, and an allocation that fails in the
// middle would leave them half changed. Such an allocation takes from the reserve, so that the step can end. Until the
// reserve is whole again, control refuses new work. Thread: the creator of the reserve. Allocations of other threads
// fail as without a reserve. So do allocations that need more than the reserve has. One per process: it is its
// new-handler.
#pragma once
#include <array>
#include <cstddef>
#include <new>
#include <thread>

namespace ulnet {

class MemoryReserve {
 public:
  static constexpr size_t kBlockBytes = 64 << 10;  ///< far below glibc's threshold for mappings of their own
  static constexpr size_t kBlocks = 16;

  MemoryReserve();
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  /// Refills the reserve. False: memory is short, and the caller must refuse all work that can be refused.
  [[nodiscard]] bool restore();

  /// While it lives, allocations do not take from the reserve: for work that leaves nothing half done when one fails.
  class Closed {
   public:
    /// `reserve` may be null: no effect.
    explicit Closed(MemoryReserve* reserve) : reserve_(reserve) {
      if (reserve_ != nullptr) ++reserve_->closed_;
    }
    ~Closed() {
      if (reserve_ != nullptr) --reserve_->closed_;
    }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    MemoryReserve* reserve_;
  };

 private:
  static void allocation_failed();
  [[nodiscard]] bool give();

  const std::thread::id owner_ = std::this_thread::get_id();
  std::array<void*, kBlocks> blocks_{};
  size_t count_ = 0;     ///< blocks that are here
  unsigned closed_ = 0;  ///< Closed objects
  std::new_handler before_ = nullptr;
};

}  // namespace ulnet
