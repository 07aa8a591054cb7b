#include "dataplane/host/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "dataplane/base/check.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace ulnet {
namespace {

constexpr size_t kHugeBytes = size_t{2} << 20;
constexpr int kHugeFlags = MAP_HUGETLB | (21 << MAP_HUGE_SHIFT);

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this == &other) return *this;
  if (owner_ != nullptr) owner_->unmap(*this);
  owner_ = std::exchange(other.owner_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  pages_ = other.pages_;
  numa_ = other.numa_;
  return *this;
}

Arena::~Arena() {
  if (owner_ != nullptr) owner_->unmap(*this);
}

Arenas::~Arenas() {
  ULNET_CHECK(mapped_bytes_ == 0);
}

void Arenas::unmap(Arena& arena) {
  ULNET_CHECK(munmap(arena.data_, arena.bytes_) == 0);
  mapped_bytes_ -= arena.bytes_;
  if (arena.pages_ == PageKind::kHuge2M) huge_bytes_ -= arena.bytes_;
  arena.owner_ = nullptr;
}

Result<Arena> Arenas::map(const ArenaRequest& request) {
  if (request.bytes == 0 || request.bytes > limit_bytes_)
    return request.bytes == 0 ? Result<Arena>(fail(EINVAL, "an arena needs at least one byte"))
                              : Result<Arena>(fail(ENOSPC, "more memory than this process may map", limit_bytes_));
  if (request.huge && huge_ != HugePages::kNo) {
    auto huge = map_pages(round_up(request.bytes, kHugeBytes), PageKind::kHuge2M, request);
    if (huge || huge_ == HugePages::kYes) return huge;
  }
  return map_pages(round_up(request.bytes, size_t(sysconf(_SC_PAGESIZE))), PageKind::kNormal, request);
}

/// Populates huge pages at once: pages that the pool has promised may be missing on the requested NUMA node. The first
/// touch of a missing page would end the process. Normal pages are not reserved, so that an arena may be larger than
/// the part of it that is ever used.
Result<Arena> Arenas::map_pages(size_t bytes, PageKind pages, const ArenaRequest& request) {
  if (bytes > limit_bytes_ - mapped_bytes_) return fail(ENOSPC, "more memory than this process may map", limit_bytes_);
  const bool huge = pages == PageKind::kHuge2M;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | (huge ? kHugeFlags : MAP_NORESERVE), -1, 0);
  if (address == MAP_FAILED) return fail(ENOMEM, "the system gives no more memory", bytes);
  Arena arena;
  arena.owner_ = this;
  arena.data_ = static_cast<std::byte*>(address);
  arena.bytes_ = bytes;
  arena.pages_ = pages;
  mapped_bytes_ += bytes;
  if (huge) huge_bytes_ += bytes;
  if (!huge && request.huge && huge_ != HugePages::kNo) (void)madvise(address, bytes, MADV_HUGEPAGE);
  if (machine_ != nullptr && request.numa != kNoNuma) {
    const auto bound = machine_->bind_memory(address, bytes, request.numa, request.prefer);
    if (!bound && bound.error().code == -EINVAL) return tl::unexpected(bound.error());
    if (bound) arena.numa_ = request.numa;
  }
  if ((huge || request.touch) && madvise(address, bytes, MADV_POPULATE_WRITE) != 0 && (huge || errno != EINVAL))
    return fail(ENOMEM, "the system does not have that much memory left", bytes);
  return arena;
}

uint64_t huge_pages_free() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  uint64_t pages = 0;
  return file >> pages ? pages : 0;
}

}  // namespace ulnet
