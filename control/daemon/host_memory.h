// Memory of a Node from its Host's arenas: near the worker, on huge pages where there are any. Thread: control.
#pragma once
#include <map>

#include "control/host/arena.h"
#include "control/memory.h"

namespace ulnet {

class HostMemory final : public MemorySource {
 public:
  /// `arenas` outlives this.
  explicit HostMemory(Arenas& arenas) : arenas_(arenas) {}
  [[nodiscard]] std::byte* map(size_t bytes, uint32_t numa) override {
    auto arena = arenas_.map({.bytes = bytes, .numa = numa});
    if (!arena) return nullptr;
    std::byte* data = arena->data();
    held_.emplace(data, std::move(*arena));
    return data;
  }
  void unmap(std::byte* memory, size_t) override { held_.erase(memory); }

 private:
  Arenas& arenas_;
  std::map<std::byte*, Arena> held_;
};

}  // namespace ulnet
