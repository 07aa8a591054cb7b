// Memory near a worker, for tests, with a count of its content. All of it must be given back before the object ends.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "dataplane/base/worker_memory.h"

namespace ulnet::test {

class CountingMemory final : public WorkerMemory {
 public:
  ~CountingMemory() { EXPECT_TRUE(out.empty()) << out.size() << " objects were not given back"; }
  [[nodiscard]] std::byte* take(size_t bytes) override {
    if (full) return nullptr;
    const size_t whole = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    auto* at = static_cast<std::byte*>(std::aligned_alloc(kCacheLine, whole));
    out[at] = bytes;
    ++taken;
    return at;
  }
  [[nodiscard]] bool has(const void* memory, size_t bytes) const override {
    const auto found = out.find(static_cast<const std::byte*>(memory));
    return found != out.end() && found->second == bytes;
  }
  void give(std::byte* memory, size_t bytes) override {
    EXPECT_TRUE(has(memory, bytes));
    out.erase(memory);
    std::free(memory);
  }
  /// Does any part of it hold this byte?
  [[nodiscard]] bool holds(const void* memory) const {
    const auto* byte = static_cast<const std::byte*>(memory);
    auto at = out.upper_bound(byte);
    return at != out.begin() && byte < (--at)->first + at->second;
  }
  /// Objects of this size.
  [[nodiscard]] size_t count(size_t bytes) const {
    size_t sum = 0;
    for (const auto& [at, size] : out) sum += size == bytes;
    return sum;
  }
  std::map<const std::byte*, size_t> out;
  size_t taken = 0;
  bool full = false;
};

}  // namespace ulnet::test
