// Where memory lies. Thread: any.
#pragma once
#include <cstdint>

namespace ulnet {

class MemoryLocator {
 public:
  virtual ~MemoryLocator() = default;
  /// NUMA node of the page at `address`; UINT32_MAX: no page is there yet, or the node cannot be found out. A system
  /// call: not for workers.
  [[nodiscard]] virtual uint32_t numa_of(const void* address) const = 0;
};

}  // namespace ulnet
