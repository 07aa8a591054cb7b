// Single-producer single-consumer ring of fixed size: the only way work passes from one thread to another. What finds
// it full stays with the producer (docs/architecture.md, "one owner"). Memory order: the producer releases the index
// after the slot is written, the consumer acquires it before the slot is read; the other way round for free slots. That
// reaches a consumer that is awake. If the consumer may sleep, the producer calls IdleGate::notify(ring) after its last
// push (base/idle_gate.h).
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "dataplane/base/check.h"

namespace ulnet {

inline constexpr unsigned kCacheLine = 64;

template <class T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr uint32_t kCapacityMax = 1u << 31;  // head and tail run on: their difference is the depth

 public:
  /// `capacity` is rounded up to a power of two. Allocates: start-up only.
  explicit SpscRing(uint32_t capacity) : mask_(mask_of(capacity)), slots_(std::make_unique<T[]>(size_t{mask_} + 1)) {}
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  [[nodiscard]] uint32_t capacity() const { return mask_ + 1; }

  /// Producer only. False when full: nothing was taken. A consumer that sleeps may miss the item until the producer
  /// calls IdleGate::notify(ring).
  [[nodiscard]] bool push(const T& item) {
    T* slot = back();
    if (slot == nullptr) return false;
    *slot = item;
    push_back();
    return true;
  }
  /// Producer only: the slot of the next item, or null when full. push_back() passes it on. So an item is made in its
  /// place, since a copy of what was just written is slow (store_pair()).
  [[nodiscard]] T* back() {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_cache_ > mask_) {
      head_cache_ = head_.load(std::memory_order_acquire);
      if (tail - head_cache_ > mask_) return nullptr;
    }
    return &slots_[tail & mask_];
  }
  /// Producer only. Requires: back() was not null, and its slot is written.
  void push_back() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  /// Producer only: all earlier pushes come before the producer's next seq_cst load. Part of IdleGate::notify(); the
  /// full barrier of a batch of pushes.
  void fence_pushes() { tail_.store(tail_.load(std::memory_order_relaxed), std::memory_order_seq_cst); }

  /// Consumer only. False when empty.
  [[nodiscard]] bool pop(T& item) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_cache_) {
      tail_cache_ = tail_.load(std::memory_order_acquire);
      if (head == tail_cache_) return false;
    }
    item = slots_[head & mask_];
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  /// Consumer only: the item that is popped after `index` others, or null when fewer wait. It stays in the ring; the
  /// consumer may change it.
  [[nodiscard]] T* peek(uint32_t index = 0) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (index >= tail_cache_ - head) {
      tail_cache_ = tail_.load(std::memory_order_acquire);
      if (index >= tail_cache_ - head) return nullptr;
    }
    return &slots_[(head + index) & mask_];
  }

  /// Consumer only; seq_cst, so that it can stand in a sleep re-check: false for items that were pushed before a
  /// notify() that saw the gate not armed.
  [[nodiscard]] bool empty() const {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_seq_cst);
  }
  /// Anyone: about how many items are in it, for shows.
  [[nodiscard]] uint32_t depth() const {
    const uint32_t head = head_.load(std::memory_order_acquire);
    const uint32_t depth = tail_.load(std::memory_order_acquire) - head;
    return depth > capacity() ? capacity() : depth;
  }
  /// Producer only: room for at least one more.
  [[nodiscard]] bool full() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) > mask_;
  }

 private:
  static uint32_t mask_of(uint32_t capacity) {
    ULNET_CHECK(capacity <= kCapacityMax);
    return std::bit_ceil(capacity < 2 ? 2u : capacity) - 1;
  }
  const uint32_t mask_;
  std::unique_ptr<T[]> slots_;
  alignas(kCacheLine) std::atomic<uint32_t> tail_{0};  // producer: w, consumer: r
  uint32_t head_cache_ = 0;                            // producer
  alignas(kCacheLine) std::atomic<uint32_t> head_{0};  // consumer: w, producer: r
  uint32_t tail_cache_ = 0;                            // consumer
};

}  // namespace ulnet
