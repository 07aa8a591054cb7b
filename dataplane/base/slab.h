// Pool of objects of one type with generation handles. Fixed size, allocated at start; taking and giving back is O(1).
// Owned by one worker: only it takes and gives back. An object keeps its address for the slab's life.
#pragma once
#include <cstdint>

#include "dataplane/base/check.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/worker_memory.h"

namespace ulnet {

template <class T>
class Slab {
 public:
  /// `memory` null: on the heap. It outlives the slab.
  explicit Slab(uint32_t capacity, WorkerMemory* memory = nullptr) : capacity_(capacity), entries_(capacity, memory) {
    for (uint32_t i = 0; i < capacity; ++i) entries_[i].next_free = i + 1;
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// A free object, or null when all are out. Its content is what the last user left: the caller resets it.
  [[nodiscard]] T* take() {
    if (free_head_ == capacity_) return nullptr;
    Entry& entry = entries_[free_head_];
    ULNET_CHECK(!entry.out);
    free_head_ = entry.next_free;
    entry.generation += 1 + (entry.generation == UINT32_MAX);  // 0 is never valid
    entry.out = true;
    ++out_;
    if (out_ > out_max_) out_max_ = out_;
    return &entry.value;
  }
  /// Requires: `value` was taken from this slab and not given back since. Its handle is dead from now on.
  void give(T& value) {
    Entry& entry = entry_of(value);
    const size_t index = size_t(&entry - entries_.data());
    ULNET_CHECK(index < capacity_ && entry.out);
    entry.out = false;
    entry.next_free = free_head_;
    free_head_ = uint32_t(index);
    --out_;
  }
  [[nodiscard]] Handle handle(T& value) {
    Entry& entry = entry_of(value);
    return {uint32_t(&entry - entries_.data()), entry.generation};
  }
  /// The object that `handle` names, or null when it has been given back since (or never was).
  [[nodiscard]] T* find(Handle handle) {
    if (handle.index >= capacity_) return nullptr;
    Entry& entry = entries_[handle.index];
    return entry.out && entry.generation == handle.generation ? &entry.value : nullptr;
  }
  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] uint32_t out() const { return out_; }
  [[nodiscard]] uint32_t out_max() const { return out_max_; }
  /// Calls `visit(T&)` for every object that is out. For control commands and checks, not for the data path.
  template <class F>
  void for_each_out(F&& visit) {
    for (uint32_t i = 0; i < capacity_; ++i)
      if (entries_[i].out) visit(entries_[i].value);
  }

 private:
  struct Entry {
    T value;  // first, so that an object's address is its entry's
    uint32_t generation = 0;
    uint32_t next_free = 0;
    bool out = false;
  };
  Entry& entry_of(T& value) { return *reinterpret_cast<Entry*>(&value); }
  const uint32_t capacity_;
  NearArray<Entry> entries_;
  uint32_t free_head_ = 0;
  uint32_t out_ = 0;
  uint32_t out_max_ = 0;
};

}  // namespace ulnet
