// Registered memory of a worker for payloads whose window no single key covers: its segments lie in several regions.
// The peer writes into a block, from which the worker copies. Thread: its worker.
#pragma once
#include <cstdint>
#include <span>

#include "dataplane/base/limits.h"
#include "dataplane/base/worker_memory.h"
#include "dataplane/state/payload.h"

namespace ulnet::o2iblnd {

/// The number of the region that all blocks of a node lie in. Its slot belongs to no other region: the registrar begins
/// with 1.
inline constexpr RegionId kStagingRegion{kRegionSlots};
static_assert(region_slot(kStagingRegion) == 0);

class Staging {
 public:
  static constexpr size_t kBlockBytes = kMaxPayload;
  /// `memory`: whole blocks; outlives this.
  Staging(std::span<std::byte> memory, WorkerMemory* near)
      : memory_(memory), free_(memory.size() / kBlockBytes, near), count_(uint32_t(memory.size() / kBlockBytes)) {
    for (uint32_t i = 0; i < count_; ++i) free_[i] = i;
  }
  /// Null: all are in use.
  [[nodiscard]] std::byte* take() { return count_ == 0 ? nullptr : memory_.data() + free_[--count_] * kBlockBytes; }
  void give(const std::byte* block) { free_[count_++] = uint32_t(size_t(block - memory_.data()) / kBlockBytes); }
  [[nodiscard]] bool is_free() const { return count_ > 0; }
  /// There is no staging memory at all.
  [[nodiscard]] bool empty() const { return memory_.empty(); }

 private:
  std::span<std::byte> memory_;
  NearArray<uint32_t> free_;  ///< the first `count_` are free blocks
  uint32_t count_;
};

}  // namespace ulnet::o2iblnd
