// Memory near the workers of a node, by NUMA node. The objects in it are the workers with their pools, and the slices
// and connections that control makes for workers. They lie in the mappings of a MemorySource. A mapping of 2 MiB
// holds objects of one size; a larger object has a mapping of its own. Memory that was given back is used again. An
// empty mapping goes back to the source when another one has room for objects of its size. Thread: control.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/worker_memory.h"
#include "dataplane/host/memory_source.h"

namespace ulnet {

class NearMemory {
 public:
  /// `source` null: all is on the heap. `source` outlives this object, and this object outlives all that lies in it.
  /// `numa_of`: the NUMA node of each worker; UINT32_MAX, or no number for a worker: unknown.
  NearMemory(MemorySource* source, const std::vector<uint32_t>& numa_of, unsigned workers);
  NearMemory(const NearMemory&) = delete;
  NearMemory& operator=(const NearMemory&) = delete;

  /// Memory on the worker's NUMA node; null: the heap, since its node is not known or there is no source.
  [[nodiscard]] WorkerMemory* of(WorkerId worker) const { return by_worker_[worker.value]; }
  [[nodiscard]] const std::vector<WorkerMemory*>& by_worker() const { return by_worker_; }
  /// How many objects lie in this memory: a row of a pool is one.
  [[nodiscard]] size_t objects() const;

 private:
  class OfNuma final : public WorkerMemory {
   public:
    OfNuma(MemorySource& source, uint32_t numa) : source_(source), numa_(numa) {}
    ~OfNuma();
    OfNuma(const OfNuma&) = delete;
    OfNuma& operator=(const OfNuma&) = delete;
    [[nodiscard]] std::byte* take(size_t bytes) override;
    [[nodiscard]] bool has(const void* memory, size_t bytes) const override;
    void give(std::byte* memory, size_t bytes) override;
    [[nodiscard]] size_t objects() const;

   private:
    struct FreePlace {
      FreePlace* next;
    };
    struct Mapping {
      size_t bytes = 0;
      uint32_t places = 0;
      uint32_t used = 0;          ///< places from the first on that were ever taken: the others were never touched
      uint32_t out = 0;           ///< places that are taken
      FreePlace* free = nullptr;  ///< the list lies in the places
    };
    using Mappings = std::map<const std::byte*, Mapping>;  // by address
    [[nodiscard]] Mappings::iterator map(Mappings& mappings, size_t size);

    MemorySource& source_;
    const uint32_t numa_;
    std::map<size_t, Mappings> sizes_;  // by size of an object
  };
  std::map<uint32_t, OfNuma> numas_;
  std::vector<WorkerMemory*> by_worker_;
};

}  // namespace ulnet
