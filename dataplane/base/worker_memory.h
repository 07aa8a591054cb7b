// Memory for the objects of one worker, on the NUMA node of that worker. Control makes the objects here and ends them;
// the worker uses them in between. If there is no such memory (null), or no room in it, objects are on the heap, on any
// NUMA node. The end of memory therefore shows as usual: std::bad_alloc, or null where nothing may throw.
// Thread: control.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "dataplane/base/ring.h"

namespace ulnet {

class WorkerMemory {
 public:
  /// `bytes` bytes that begin a cache line; their content is not defined. Null: no room.
  [[nodiscard]] virtual std::byte* take(size_t bytes) = 0;
  /// Is `memory` from take(bytes), and not given back since?
  [[nodiscard]] virtual bool has(const void* memory, size_t bytes) const = 0;
  /// Requires: has(memory, bytes).
  virtual void give(std::byte* memory, size_t bytes) = 0;

 protected:
  ~WorkerMemory() = default;
};

template <class T, class... Args>
[[nodiscard]] T* near_new(WorkerMemory* memory, Args&&... args) {
  static_assert(alignof(T) <= kCacheLine);
  std::byte* at = memory == nullptr ? nullptr : memory->take(sizeof(T));
  if (at == nullptr) return std::make_unique<T>(std::forward<Args>(args)...).release();
  return new (at) T(std::forward<Args>(args)...);
}
/// Null when there is no memory. Members that have no initial value have none.
template <class T>
[[nodiscard]] T* near_new_or_null(WorkerMemory* memory) {
  static_assert(alignof(T) <= kCacheLine);
  std::byte* at = memory == nullptr ? nullptr : memory->take(sizeof(T));
  return at == nullptr ? new (std::nothrow) T : new (at) T;
}
/// Requires: `object` is null, or made by one of the above with this memory.
template <class T>
void near_delete(WorkerMemory* memory, T* object) {
  if (memory == nullptr || object == nullptr || !memory->has(object, sizeof(T))) {
    delete object;
    return;
  }
  object->~T();
  memory->give(reinterpret_cast<std::byte*>(object), sizeof(T));
}

/// Ends what near_new() made.
template <class T>
struct NearDelete {
  WorkerMemory* memory = nullptr;
  void operator()(T* object) const { near_delete(memory, object); }
};
template <class T>
using Near = std::unique_ptr<T, NearDelete<T>>;

/// A row of `count` objects, for as long as this lives.
template <class T>
class NearArray {
  static_assert(alignof(T) <= kCacheLine);

 public:
  NearArray(size_t count, WorkerMemory* memory) : count_(count), memory_(memory) {
    std::byte* at = memory == nullptr || count == 0 ? nullptr : memory->take(count * sizeof(T));
    if (at == nullptr) {
      heap_ = std::make_unique<T[]>(count);
      items_ = heap_.get();
      return;
    }
    items_ = reinterpret_cast<T*>(at);
    std::uninitialized_value_construct_n(items_, count);
  }
  ~NearArray() {
    if (heap_ != nullptr) return;
    std::destroy_n(items_, count_);
    memory_->give(reinterpret_cast<std::byte*>(items_), count_ * sizeof(T));
  }
  NearArray(const NearArray&) = delete;
  NearArray& operator=(const NearArray&) = delete;

  [[nodiscard]] T* data() { return items_; }
  [[nodiscard]] const T* data() const { return items_; }
  T& operator[](size_t index) { return items_[index]; }
  const T& operator[](size_t index) const { return items_[index]; }

 private:
  const size_t count_;
  WorkerMemory* const memory_;
  std::unique_ptr<T[]> heap_;  // null: in memory_
  T* items_ = nullptr;
};

}  // namespace ulnet
