// The tallies of one worker: how many of its messages each interface carries now, and when the worker chose the
// interface last. A choice of path compares these numbers. They are the worker's own: if workers read each other's
// load, all of them would see the same idle interface, and send there. The numbers of one choice lie side by side in
// arrays.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/check.h"
#include "dataplane/base/gauge.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/ring.h"
#include "dataplane/base/worker_memory.h"

namespace ulnet {

/// The numbers of a tally at one moment.
struct TallyNow {
  uint32_t under_way = 0;
  int64_t bytes = 0;
  int64_t sequence = 0;
};

/// Of one worker and one local NI or peer NI. Owner: the worker. All threads may read it; the values are stale then.
class Tally {
 public:
  /// Owner only. A message with this number of bytes of header and payload begins to use the interface.
  void take(uint64_t bytes) {
    set(under_way_, under_way() + 1);
    set(kib_, kib_.load(std::memory_order_relaxed) + kib_of(bytes));
  }
  /// Owner only. Such a message does not use the interface any more.
  void give_back(uint64_t bytes) {
    ULNET_CHECK(under_way() > 0);
    set(under_way_, under_way() - 1);
    set(kib_, kib_.load(std::memory_order_relaxed) - kib_of(bytes));
  }
  /// Owner only.
  void chosen(int64_t number) { sequence_.set(number); }

  /// Messages that use the interface.
  [[nodiscard]] uint32_t under_way() const { return under_way_.load(std::memory_order_relaxed); }
  /// Their bytes. Each message counts for whole KiB, at least one.
  [[nodiscard]] int64_t bytes() const { return int64_t{kib_.load(std::memory_order_relaxed)} << 10; }
  /// Tallies::choices at the worker's last choice of the interface; 0: none since the interface is there.
  [[nodiscard]] int64_t sequence() const { return sequence_.get(); }
  [[nodiscard]] TallyNow now() const { return {under_way(), bytes(), sequence()}; }
  [[nodiscard]] static constexpr uint32_t kib_of(uint64_t bytes) { return uint32_t((bytes + 1023) >> 10); }

 private:
  static void set(std::atomic<uint32_t>& at, uint32_t value) { at.store(value, std::memory_order_relaxed); }
  std::atomic<uint32_t> under_way_{0};
  std::atomic<uint32_t> kib_{0};
  Gauge sequence_;
};
static_assert(sizeof(Tally) == 16, "four candidates of a choice in one cache line");

/// Tallies of peer NIs whose slots differ only in the low bits.
struct alignas(kCacheLine) TallyBlock {
  static constexpr uint32_t kTallies = 256;
  std::array<Tally, kTallies> all;
};

/// The tallies of one worker, and the rotation of its choices: equal candidates take turns (docs/wire/lnet.md §6.4).
/// Sequences have 64 bits. If they started again at 0, the candidate with the oldest choice would come last instead of
/// first. Owner: the worker. Control reads them to explain a choice.
struct alignas(kCacheLine) Tallies {
  /// `peer_nis_max`: most slots of peer NIs. Control adds the blocks that are needed.
  explicit Tallies(uint32_t peer_nis_max) : peer_nis_(peer_nis_max / TallyBlock::kTallies + 1) {}
  Gauge choices;        ///< number of the worker's last choice
  Gauge route_choices;  ///< the same, of choices that took a route
  /// By PeerNiView::slot. Requires: there is a block for the slot.
  [[nodiscard]] Tally& peer_ni(uint32_t slot) {
    return peer_nis_[slot / TallyBlock::kTallies]->all[slot % TallyBlock::kTallies];
  }
  [[nodiscard]] const Tally& peer_ni(uint32_t slot) const {
    return peer_nis_[slot / TallyBlock::kTallies]->all[slot % TallyBlock::kTallies];
  }
  /// Ensures that there is a block for the slot. Control only, before a view names the slot. `near`: memory of the
  /// worker, which outlives this; null: the heap.
  void ensure(uint32_t slot, WorkerMemory* near) {
    Near<TallyBlock>& block = peer_nis_[slot / TallyBlock::kTallies];
    if (block == nullptr) block = Near<TallyBlock>(near_new<TallyBlock>(near), NearDelete<TallyBlock>{near});
  }
  [[nodiscard]] int64_t route(uint32_t id) const { return id < kRoutesMax ? routes[id].get() : 0; }

  std::array<Tally, kNisMax> nis;                                           ///< by NiView::slot
  std::unique_ptr<Gauge[]> routes = std::make_unique<Gauge[]>(kRoutesMax);  ///< by RouteView::id: when it was chosen

 private:
  std::vector<Near<TallyBlock>> peer_nis_;
};

}  // namespace ulnet
