// Regions of memory by their slot. One thread adds and removes, workers look. Nobody names a region before it is added,
// or when it is removed.
#pragma once
#include <atomic>
#include <memory>
#include <optional>

#include "dataplane/state/payload.h"

namespace ulnet::rc::roce {

class RegionTable {
 public:
  RegionTable() : slots_(std::make_unique<Slot[]>(kRegionSlots)) {}
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;
  ~RegionTable();

  // regions_ctl.cc
  void add(RegionId region, std::span<std::byte> memory);
  void remove(RegionId region);

  /// Is this segment in the region that it names?
  [[nodiscard]] bool holds(const Segment& segment) const {
    const Region* region = slots_[region_slot(segment.region)].load(std::memory_order_acquire);
    if (region == nullptr || region->id != segment.region) return false;
    const std::byte* begin = region->memory.data();
    return segment.base >= begin && segment.base + segment.bytes <= begin + region->memory.size();
  }
  /// The memory of a window, if that is one piece of one region.
  [[nodiscard]] std::optional<std::span<std::byte>> one_piece(const Payload& window) const {
    std::optional<std::span<std::byte>> whole;
    RegionId region{};
    PayloadCursor cursor(window);
    for (Segment piece; cursor.segments({&piece, 1}) == 1; cursor.advance(piece.bytes)) {
      if (!holds(piece)) return std::nullopt;
      if (!whole) {
        whole.emplace(piece.base, piece.bytes);
        region = piece.region;
      } else if (piece.region == region && piece.base == whole->data() + whole->size()) {
        whole.emplace(whole->data(), whole->size() + piece.bytes);
      } else {
        return std::nullopt;
      }
    }
    return whole;
  }

 private:
  struct Region {
    RegionId id{};
    std::span<std::byte> memory;
  };
  using Slot = std::atomic<const Region*>;
  void replace(RegionId region, const Region* by);
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace ulnet::rc::roce
