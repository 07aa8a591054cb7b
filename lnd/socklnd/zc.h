// The sender's book of zero-copy cookies: which are outstanding, for which message. Pure bookkeeping of one connection
// set, owned by its worker. proto/zc.h decodes which cookies an acknowledgement covers. Source: docs/wire/socklnd.md
// §3.3.
#pragma once
#include <cstdint>

#include "lnd/lnd.h"

namespace ulnet::socklnd {

/// Cookies are given out in rising order, so the book is a sorted array: an unbroken range of cookies is an unbroken
/// run of entries. Invariant: entries are strictly rising, all below next_.
class ZcBook {
 public:
  /// `capacity`: most cookies outstanding at once. Allocates: control thread.
  explicit ZcBook(uint32_t capacity, WorkerMemory* memory = nullptr)
      : entries_(capacity, memory), capacity_(capacity) {}

  [[nodiscard]] bool full() const { return count_ == capacity_; }
  [[nodiscard]] uint32_t size() const { return count_; }
  /// Gives the message the next cookie, from 2 on. Requires !full().
  [[nodiscard]] uint64_t add(Tx& tx);
  /// True when every cookie first..last is outstanding. Cost: O(log n + run), never more than the book is long.
  [[nodiscard]] bool covers(uint64_t first, uint64_t last) const;
  /// Takes the cookie out and returns its message; null when it is not outstanding.
  Tx* take(uint64_t cookie);
  /// Forgets all cookies; the numbers go on.
  void clear() { count_ = 0; }

 private:
  struct Entry {
    uint64_t cookie;
    Tx* tx;
  };
  [[nodiscard]] uint32_t lower_bound(uint64_t cookie) const;
  NearArray<Entry> entries_;
  uint32_t capacity_;
  uint32_t count_ = 0;
  uint64_t next_ = 2;
};

}  // namespace ulnet::socklnd
