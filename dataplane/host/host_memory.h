// Memory of a Node from its Host's arenas: near the worker. Thread: control.
#pragma once
#include <map>
#include <memory>

#include "dataplane/host/arena.h"
#include "dataplane/host/memory_source.h"

namespace ulnet {

class HostMemory final : public MemorySource {
 public:
  /// `arenas` outlives this. `like`: what is asked for but size and NUMA node.
  explicit HostMemory(Arenas& arenas, const ArenaRequest& like = {}) : arenas_(arenas), like_(like) {}
  [[nodiscard]] std::byte* map(size_t bytes, uint32_t numa) override {
    ArenaRequest request = like_;
    request.bytes = bytes;
    request.numa = numa;
    auto arena = arenas_.map(request);
    if (!arena) return nullptr;
    std::byte* data = arena->data();
    held_.emplace(data, std::move(*arena));
    return data;
  }
  void unmap(std::byte* memory, size_t) override { held_.erase(memory); }

 private:
  Arenas& arenas_;
  const ArenaRequest like_;
  std::map<std::byte*, Arena> held_;
};

/// For what workers use (NodeDeps::worker_memory): pages as the heap has them, but on the worker's NUMA node. Null
/// where there is one node: the heap is as near.
[[nodiscard]] inline std::unique_ptr<HostMemory> worker_memory(Arenas& arenas, const Topology& topology) {
  if (topology.numas.size() < 2) return nullptr;
  return std::make_unique<HostMemory>(arenas, ArenaRequest{.prefer = true, .huge = false});
}

}  // namespace ulnet
