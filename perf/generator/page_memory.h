// Page-aligned memory for the payloads of a load test.
#pragma once
#include <cstddef>
#include <memory>
#include <new>

namespace ulnet::perf {

inline constexpr std::align_val_t kPageAlign{4096};

struct PageDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, kPageAlign); }
};

using PageMemory = std::unique_ptr<std::byte, PageDelete>;

/// `bytes` of memory, not zeroed, on a page boundary. Throws std::bad_alloc.
inline PageMemory page_memory(size_t bytes) {
  return PageMemory(static_cast<std::byte*>(::operator new[](bytes, kPageAlign)));
}

}  // namespace ulnet::perf
