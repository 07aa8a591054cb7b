#include "dataplane/state/requests_seen.h"

#include <algorithm>
#include <bit>

namespace ulnet {
namespace {

constexpr uint32_t kSecondsMask = (1u << 28) - 1;
constexpr uint32_t kYoungS = uint32_t(kRequestsSeenFor / std::chrono::seconds(1));

uint32_t seconds_of(Instant now) {
  return uint32_t(now.time_since_epoch() / std::chrono::seconds(1)) & kSecondsMask;
}

bool young(uint32_t seen_s, uint32_t now_s) {
  return ((now_s - seen_s) & kSecondsMask) < kYoungS;
}

/// Life of the sender, worker and slot. The multiplication is a bijection, and so is what follows of it.
uint64_t key_of(const wire::WireHandle& handle) {
  uint64_t key = (handle.interface_cookie & kCookieOwn) ^ uint64_t { uint32_t(handle.object_cookie & ~kCookieCopy) } << 20;
  key *= 0x9E3779B97F4A7C15ull;
  return key ^ (key >> 29);
}

uint32_t generation_of(const wire::WireHandle& handle) {
  return uint32_t(handle.object_cookie >> 32);
}

uint32_t sets_for(uint32_t requests, unsigned ways) {
  return std::bit_ceil(std::max(requests / ways, 1u));
}

}  // namespace

RequestsSeen::RequestsSeen(uint32_t requests, WorkerMemory* memory)
    : mask_(sets_for(requests, kWays) - 1), sets_(size_t{mask_} + 1, memory) {}

RequestsSeen::Look RequestsSeen::look(const wire::WireHandle& handle, Instant now) const {
  const uint64_t key = key_of(handle);
  const uint32_t now_s = seconds_of(now);
  const Set& set = set_of(key);
  bool room = false;
  for (const Entry& one : set.ways) {
    const bool kept = one.state != kFree && young(one.seen_s, now_s);
    room = room || !kept || one.copied == 0;
    if (one.key != key || !kept) continue;
    const auto ahead = int32_t(generation_of(handle) - one.generation);
    if (ahead > 0) return {};
    if (ahead < 0) return {Verdict::kOld, {}};
    if (one.state == kIsOpen) return {Verdict::kOpen, {}};
    return {Verdict::kDelivered, {one.mlength, one.offset, {0, 0, one.md_index, one.md_generation}}};
  }
  const bool lost = set.lost && young(set.lost_s, now_s);
  if (is_copy(handle) && (lost || !room)) return {Verdict::kUnknown, {}};
  return {};
}

uint32_t RequestsSeen::open(const wire::WireHandle& handle, Instant now) {
  const uint64_t key = key_of(handle);
  const uint32_t now_s = seconds_of(now);
  Set& set = set_of(key);
  Entry* into = nullptr;
  uint32_t best = 0;
  for (Entry& one : set.ways) {
    const bool kept = one.state != kFree && young(one.seen_s, now_s);
    if (one.key == key && one.state != kFree) {
      into = &one;
      break;
    }
    // Free or old ones first, then the oldest.
    const uint32_t worth = !kept ? UINT32_MAX : one.copied != 0 ? 0 : 1 + ((now_s - one.seen_s) & kSecondsMask);
    if (worth > best) {
      best = worth;
      into = &one;
    }
  }
  if (into == nullptr || (into->key != key && into->state != kFree && young(into->seen_s, now_s))) {
    set.lost = true;
    set.lost_s = now_s;
  }
  if (into == nullptr) return kNowhere;
  *into = {key, generation_of(handle), now_s, kIsOpen, is_copy(handle) ? 1u : 0u, 0, 0, 0, 0};
  return uint32_t(size_t(&set - sets_.data()) * kWays + size_t(into - set.ways));
}

RequestsSeen::Entry* RequestsSeen::at(uint32_t place, const wire::WireHandle& handle) {
  if (place == kNowhere) return nullptr;
  Entry& one = sets_[place / kWays].ways[place % kWays];
  const bool same = one.state != kFree && one.key == key_of(handle) && one.generation == generation_of(handle);
  return same ? &one : nullptr;
}

void RequestsSeen::delivered(uint32_t place, const wire::WireHandle& handle, const Delivered& how) {
  Entry* one = at(place, handle);
  if (one == nullptr) return;
  one->state = kIsDelivered;
  one->mlength = how.mlength;
  one->offset = how.offset;
  one->md_index = how.md.index;
  one->md_generation = how.md.generation;
}

void RequestsSeen::forget(uint32_t place, const wire::WireHandle& handle) {
  if (Entry* one = at(place, handle)) one->state = kFree;
}

}  // namespace ulnet
