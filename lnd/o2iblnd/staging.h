// Registered memory of a worker, in blocks that hold any payload. Thread: its worker. Two kinds of payloads need one. A
// PUT for a window that no single key covers: the peer writes into the block, and the worker copies from there. A
// payload that is sent from memory of no region: the worker copies into the block, and writes from there. The first
// kind leaves one block to the second. Otherwise two nodes could wait for each other's writes for ever.
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
  /// For the peer to write into. Null: all are in use, but for the one that is kept.
  [[nodiscard]] std::byte* take_in() { return is_free_in() ? take() : nullptr; }
  /// For a payload to be written from. Null: all are in use.
  [[nodiscard]] std::byte* take_out() { return is_free_out() ? take() : nullptr; }
  void give(const std::byte* block) { free_[count_++] = uint32_t(size_t(block - memory_.data()) / kBlockBytes); }
  [[nodiscard]] bool is_free_in() const { return count_ > (memory_.size() > kBlockBytes ? 1 : 0); }
  [[nodiscard]] bool is_free_out() const { return count_ > 0; }
  /// There is no staging memory at all.
  [[nodiscard]] bool empty() const { return memory_.empty(); }

 private:
  [[nodiscard]] std::byte* take() { return memory_.data() + free_[--count_] * kBlockBytes; }

  std::span<std::byte> memory_;
  NearArray<uint32_t> free_;  ///< the first `count_` are free blocks
  uint32_t count_;
};

}  // namespace ulnet::o2iblnd
