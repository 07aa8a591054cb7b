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
#include "dataplane/state/pace.h"

namespace ulnet {

/// The numbers of a tally at one moment.
struct TallyNow {
  uint32_t under_way = 0;
  int64_t bytes = 0;
  int64_t sequence = 0;
  uint32_t weight = 1;  ///< Weights::of()
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

/// How slow an interface is beside the best one that could carry the same message, by kind of message. 1: it is as
/// good, or its pace is not known. Owner: the worker. All threads may read it.
class Weights {
 public:
  [[nodiscard]] uint8_t of(PaceKind kind) const {
    return uint8_t(1 + above_one_[size_t(kind)].load(std::memory_order_relaxed));
  }
  /// Owner only.
  void set(PaceKind kind, uint8_t weight) {
    above_one_[size_t(kind)].store(uint8_t(weight - 1), std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint8_t>, kPaceKinds> above_one_{};
};

/// Interfaces whose slots differ only in the low bits.
struct alignas(kCacheLine) TallyBlock {
  static constexpr uint32_t kSlots = kTallyBlock;
  std::array<Tally, kSlots> tallies;
  std::array<Weights, kSlots> weights;
  std::array<Pace, kSlots> paces;  ///< the worker's alone
};

/// One interface of a worker's tallies.
struct TallyRef {
  TallyBlock& block;
  uint32_t index;
  [[nodiscard]] Tally& tally() const { return block.tallies[index]; }
  [[nodiscard]] Weights& weights() const { return block.weights[index]; }
  [[nodiscard]] Pace& pace() const { return block.paces[index]; }
};

/// The tallies of one worker, and the rotation of its choices: equal candidates take turns (docs/wire/lnet.md §6.4).
/// Sequences have 64 bits. If they started again at 0, the candidate with the oldest choice would come last instead of
/// first. Owner: the worker. Control reads them to explain a choice.
class alignas(kCacheLine) Tallies {
 public:
  /// `peer_nis_max`: most slots of peer NIs. Control adds the blocks that are needed.
  explicit Tallies(uint32_t peer_nis_max) : peer_nis_(peer_nis_max / TallyBlock::kSlots + 1) {}
  /// Ensures that there is a block for the slot. Control only, before a view names the slot. `near`: memory of the
  /// worker, which outlives this; null: the heap.
  void ensure(uint32_t slot, WorkerMemory* near) {
    Near<TallyBlock>& block = peer_nis_[slot / TallyBlock::kSlots];
    if (block == nullptr) block = Near<TallyBlock>(near_new<TallyBlock>(near), NearDelete<TallyBlock>{near});
  }
  /// By NiView::slot.
  [[nodiscard]] TallyRef ni(uint32_t slot) { return {nis_, slot}; }
  /// By PeerNiView::slot. Requires: there is a block for the slot.
  [[nodiscard]] TallyRef peer_ni(uint32_t slot) {
    return {*peer_nis_[slot / TallyBlock::kSlots], slot % TallyBlock::kSlots};
  }
  [[nodiscard]] TallyNow ni_now(uint32_t slot, PaceKind kind) const { return now(nis_, slot, kind); }
  [[nodiscard]] TallyNow peer_ni_now(uint32_t slot, PaceKind kind) const {
    return now(*peer_nis_[slot / TallyBlock::kSlots], slot % TallyBlock::kSlots, kind);
  }
  /// The tallies of interfaces with consecutive slots in one block.
  [[nodiscard]] const Tally* nis_from(uint32_t slot) const { return &nis_.tallies[slot]; }
  [[nodiscard]] const Tally* peer_nis_from(uint32_t slot) const {
    return &peer_nis_[slot / TallyBlock::kSlots]->tallies[slot % TallyBlock::kSlots];
  }
  /// Owner only.
  void set_weight(TallyRef of, PaceKind kind, uint8_t weight) {
    const uint8_t before = of.weights().of(kind);
    if (before == weight) return;
    weighted_.add(int64_t(weight > 1) - int64_t(before > 1));
    of.weights().set(kind, weight);
  }
  /// Does some interface have a weight above 1?
  [[nodiscard]] bool weighted() const { return weighted_.get() != 0; }
  [[nodiscard]] int64_t route(uint32_t id) const { return id < kRoutesMax ? routes[id].get() : 0; }

  Gauge choices;                         ///< number of the worker's last choice
  Gauge route_choices;                   ///< the same, of choices that took a route
  std::array<Gauge, kRoutesMax> routes;  ///< by RouteView::id: when it was chosen

 private:
  [[nodiscard]] TallyNow now(const TallyBlock& block, uint32_t index, PaceKind kind) const {
    TallyNow now = block.tallies[index].now();
    if (weighted()) now.weight = block.weights[index].of(kind);
    return now;
  }
  Gauge weighted_;
  std::vector<Near<TallyBlock>> peer_nis_;
  TallyBlock nis_;
  static_assert(kNisMax <= TallyBlock::kSlots);
};

}  // namespace ulnet
