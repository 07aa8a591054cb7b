#include "dataplane/host/near_memory.h"

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet {
namespace {

constexpr size_t kMappingBytes = size_t{2} << 20;
constexpr size_t kPlacesMin = 8;  // of a mapping that objects share

size_t place_size(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// The mapping that holds `memory`, or end.
template <class Mappings>
auto mapping_of(Mappings& mappings, const void* memory) {
  auto at = mappings.upper_bound(static_cast<const std::byte*>(memory));
  if (at == mappings.begin()) return mappings.end();
  --at;
  return memory < at->first + at->second.bytes ? at : mappings.end();
}

}  // namespace

NearMemory::NearMemory(MemorySource* source, const std::vector<uint32_t>& numa_of, unsigned workers)
    : by_worker_(workers) {
  if (source == nullptr) return;
  for (size_t worker = 0; worker < std::min<size_t>(workers, numa_of.size()); ++worker)
    if (const uint32_t numa = numa_of[worker]; numa != UINT32_MAX)
      by_worker_[worker] = &numas_.try_emplace(numa, *source, numa).first->second;
}

size_t NearMemory::objects() const {
  size_t count = 0;
  for (const auto& [numa, memory] : numas_) count += memory.objects();
  return count;
}

NearMemory::OfNuma::~OfNuma() {
  for (auto& [size, mappings] : sizes_)
    for (auto& [at, mapping] : mappings) source_.unmap(const_cast<std::byte*>(at), mapping.bytes);
}

size_t NearMemory::OfNuma::objects() const {
  size_t count = 0;
  for (const auto& [size, mappings] : sizes_)
    for (const auto& [at, mapping] : mappings) count += mapping.out;
  return count;
}

NearMemory::OfNuma::Mappings::iterator NearMemory::OfNuma::map(Mappings& mappings, size_t size) {
  const size_t bytes = size * kPlacesMin > kMappingBytes ? size : kMappingBytes;
  std::byte* at = source_.map(bytes, numa_);
  if (at == nullptr) return mappings.end();
  return mappings.try_emplace(at, Mapping{.bytes = bytes, .places = uint32_t(bytes / size)}).first;
}

std::byte* NearMemory::OfNuma::take(size_t bytes) {
  const size_t size = place_size(bytes);
  Mappings& mappings = sizes_[size];
  auto found = std::find_if(mappings.begin(), mappings.end(),
                            [](const auto& one) { return one.second.out < one.second.places; });
  if (found == mappings.end()) found = map(mappings, size);
  if (found == mappings.end()) return nullptr;
  Mapping& mapping = found->second;
  ++mapping.out;
  if (mapping.free == nullptr) return const_cast<std::byte*>(found->first) + size * mapping.used++;
  FreePlace* place = std::exchange(mapping.free, mapping.free->next);
  return reinterpret_cast<std::byte*>(place);
}

bool NearMemory::OfNuma::has(const void* memory, size_t bytes) const {
  const auto mappings = sizes_.find(place_size(bytes));
  return mappings != sizes_.end() && mapping_of(mappings->second, memory) != mappings->second.end();
}

void NearMemory::OfNuma::give(std::byte* memory, size_t bytes) {
  ULNET_CHECK(has(memory, bytes));
  const size_t size = place_size(bytes);
  Mappings& mappings = sizes_.at(size);
  const auto found = mapping_of(mappings, memory);
  Mapping& mapping = found->second;
  ULNET_CHECK(mapping.out > 0 && size_t(memory - found->first) % size == 0);
  mapping.free = new (memory) FreePlace{mapping.free};
  if (--mapping.out > 0) return;
  const auto has_room = [&](const auto& one) {
    return one.first != found->first && one.second.out < one.second.places;
  };
  if (std::none_of(mappings.begin(), mappings.end(), has_room)) return;
  source_.unmap(const_cast<std::byte*>(found->first), mapping.bytes);
  mappings.erase(found);
}

}  // namespace ulnet
