// Where a Node gets large memory from: the machine's arenas (host/arena.h), or plain mappings. Thread: control.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace ulnet {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Zeroed, near NUMA node `numa` (UINT32_MAX = anywhere). Null when there is none.
  [[nodiscard]] virtual std::byte* map(size_t bytes, uint32_t numa) = 0;
  /// Requires: from map(), with the same size.
  virtual void unmap(std::byte* memory, size_t bytes) = 0;
};

/// Ordinary pages, which the kernel backs when they are first touched.
class PlainMemory final : public MemorySource {
 public:
  [[nodiscard]] std::byte* map(size_t bytes, uint32_t) override {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }
  void unmap(std::byte* memory, size_t bytes) override { munmap(memory, bytes); }
};

}  // namespace ulnet
