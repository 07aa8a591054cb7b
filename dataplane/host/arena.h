// Memory for pools and buffers: anonymous mappings bound to a NUMA node, on huge pages where the machine has them.
// Control can map and free them at any time (`set routing`, `net add`): nothing here needs DPDK. Thread: control. The
// content of an arena belongs to the receiver of the arena.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "dataplane/host/memory_source.h"
#include "dataplane/host/topology.h"

namespace ulnet {

class Arenas;

enum class PageKind : uint8_t {
  kNormal,  ///< touched pages only cost memory; the kernel may make them huge by itself
  kHuge2M   ///< from the pool of huge pages, all of them at once
};

/// One mapping; unmapped when destroyed. Its Arenas must outlive it. Zeroed.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] PageKind pages() const { return pages_; }
  /// Node that the pages are bound to; kNoNuma if the request names none or binding was not possible.
  [[nodiscard]] unsigned numa() const { return numa_; }

 private:
  friend class Arenas;
  Arenas* owner_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  PageKind pages_ = PageKind::kNormal;
  unsigned numa_ = kNoNuma;
};

struct ArenaRequest {
  size_t bytes = 0;  ///< rounded up to whole pages
  unsigned numa = kNoNuma;
  bool prefer = false;  ///< if that node has no free pages left, take pages of other nodes
  bool huge = true;     ///< try huge pages first
  bool touch = false;   ///< have all pages at once, so that a worker never waits for one
};

/// Whether huge pages are used: where there are any, always, or never.
enum class HugePages : uint8_t { kAuto, kYes, kNo };

class Arenas {
 public:
  /// `machine` binds; null = nothing is bound. `limit_bytes`: most that may be mapped at once. `huge` decides about
  /// requests for huge pages. kAuto: normal pages if there are no huge ones. kYes: ENOMEM then. kNo: always normal
  /// pages.
  Arenas(const Machine* machine, uint64_t limit_bytes, HugePages huge = HugePages::kAuto)
      : machine_(machine), limit_bytes_(limit_bytes), huge_(huge) {}
  ~Arenas();
  Arenas(const Arenas&) = delete;
  Arenas& operator=(const Arenas&) = delete;

  /// Errors: EINVAL (0 bytes, no such node), ENOSPC (over the limit), ENOMEM. If the process has no right to bind
  /// memory, the arena is unbound: slower, not broken.
  [[nodiscard]] Result<Arena> map(const ArenaRequest& request);
  [[nodiscard]] uint64_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] uint64_t huge_bytes() const { return huge_bytes_; }
  [[nodiscard]] HugePages policy() const { return huge_; }
  [[nodiscard]] uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  friend class Arena;
  [[nodiscard]] Result<Arena> map_pages(size_t bytes, PageKind pages, const ArenaRequest& request);
  void unmap(Arena& arena);
  const Machine* machine_;
  const uint64_t limit_bytes_;
  const HugePages huge_;
  uint64_t mapped_bytes_ = 0;
  uint64_t huge_bytes_ = 0;
};

/// Huge pages (2 MiB) that are free on this machine.
[[nodiscard]] uint64_t huge_pages_free();

/// Memory of a Node from its Host's arenas: near the worker. Thread: control.
class HostMemory final : public MemorySource {
 public:
  /// `arenas` outlives this. `like`: all properties of a request except size and NUMA node.
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
