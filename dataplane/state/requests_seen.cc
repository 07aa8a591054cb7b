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

uint64_t sender_of(const wire::WireHandle& handle) {
  return handle.interface_cookie & kCookieOwn;
}

uint32_t slot_of(const wire::WireHandle& handle) {
  return uint32_t(handle.object_cookie & ~kCookieCopy);
}

uint32_t generation_of(const wire::WireHandle& handle) {
  return uint32_t(handle.object_cookie >> 32);
}

size_t hash_of(const wire::WireHandle& handle) {
  return size_t((sender_of(handle) ^ uint64_t{slot_of(handle)} << 16) * 0x9E3779B97F4A7C15ull >> 32);
}

uint32_t sets_for(uint32_t requests, unsigned ways) {
  return std::bit_ceil(std::max(requests / ways, 1u));
}

}  // namespace

RequestsSeen::RequestsSeen(uint32_t requests, WorkerMemory* memory)
    : mask_(sets_for(requests, kWays) - 1), sets_(size_t{mask_} + 1, memory) {}

RequestsSeen::Set& RequestsSeen::set_of(const wire::WireHandle& handle) {
  return sets_[hash_of(handle) & mask_];
}

const RequestsSeen::Set& RequestsSeen::set_of(const wire::WireHandle& handle) const {
  return sets_[hash_of(handle) & mask_];
}

/// Does the entry say something about its slot?
bool RequestsSeen::Entry::holds(uint32_t now_s) const {
  return state != kFree && (young(seen_s, now_s) || kept(now_s));
}

/// Must it stay, because a request that was delivered as a copy may still come itself?
bool RequestsSeen::Entry::kept(uint32_t now_s) const {
  return state != kFree && copied != 0 && young(copied_s, now_s);
}

RequestsSeen::Look RequestsSeen::look(const wire::WireHandle& handle, Instant now) const {
  const uint64_t sender = sender_of(handle);
  const uint32_t slot = slot_of(handle), now_s = seconds_of(now);
  const Set& set = set_of(handle);
  bool room = false;
  for (const Entry& one : set.ways) {
    room = room || !one.kept(now_s);
    if (one.sender != sender || one.slot != slot || !one.holds(now_s)) continue;
    const auto ahead = int32_t(generation_of(handle) - one.generation);
    if (ahead > 0 || (ahead == 0 && one.state == kIsLost)) return {};
    if (ahead < 0) return {Verdict::kOld, {}, {}};
    if (one.state == kIsOpen) return {Verdict::kOpen, {}, {one.mlength, one.offset}};
    return {Verdict::kDelivered, {one.mlength, one.offset, one.order}, {}};
  }
  const bool lost = set.lost && young(set.lost_s, now_s);
  if (is_copy(handle) && (lost || !room)) return {Verdict::kUnknown, {}, {}};
  return {};
}

uint32_t RequestsSeen::open(const wire::WireHandle& handle, Handle incoming, Instant now) {
  const uint64_t sender = sender_of(handle);
  const uint32_t slot = slot_of(handle), now_s = seconds_of(now);
  Set& set = set_of(handle);
  Entry* into = nullptr;
  bool same = false;
  uint32_t best = 0;
  for (Entry& one : set.ways) {
    if (one.sender == sender && one.slot == slot && one.state != kFree) {
      into = &one;
      same = true;
      break;
    }
    // Free or old ones first, then the oldest.
    const bool held = one.holds(now_s);
    const uint32_t worth = !held ? UINT32_MAX : one.kept(now_s) ? 0 : 1 + ((now_s - one.seen_s) & kSecondsMask);
    if (worth > best) {
      best = worth;
      into = &one;
    }
  }
  if (into == nullptr || (!same && into->holds(now_s))) {
    set.lost = true;
    set.lost_s = now_s;
  }
  if (into == nullptr) return kNowhere;
  const bool copied = is_copy(handle), was_kept = same && into->kept(now_s);
  const uint32_t copied_s = copied ? now_s : into->copied_s;
  *into = {.sender = sender,
           .slot = slot,
           .generation = generation_of(handle),
           .seen_s = now_s,
           .state = kIsOpen,
           .copied = copied || was_kept ? 1u : 0u,
           .copied_s = copied_s,
           .mlength = incoming.index,
           .offset = incoming.generation};
  return uint32_t(size_t(&set - sets_.data()) * kWays + size_t(into - set.ways));
}

bool RequestsSeen::came_again(const wire::WireHandle& handle) {
  for (Entry& one : set_of(handle).ways)
    if (one.state == kIsOpen && one.sender == sender_of(handle) && one.slot == slot_of(handle) &&
        one.generation == generation_of(handle)) {
      const bool before = one.copy_came != 0;
      one.copy_came = 1;
      return before;
    }
  return false;
}

RequestsSeen::Entry* RequestsSeen::at(uint32_t place, const wire::WireHandle& handle) {
  if (place == kNowhere) return nullptr;
  Entry& one = sets_[place / kWays].ways[place % kWays];
  const bool same = one.state != kFree && one.sender == sender_of(handle) && one.slot == slot_of(handle) &&
                    one.generation == generation_of(handle);
  return same ? &one : nullptr;
}

void RequestsSeen::delivered(uint32_t place, const wire::WireHandle& handle, const Delivered& how) {
  Entry* one = at(place, handle);
  if (one == nullptr) return;
  one->state = kIsDelivered;
  one->mlength = how.mlength;
  one->offset = how.offset;
  one->order = how.order;
}

void RequestsSeen::forget(uint32_t place, const wire::WireHandle& handle) {
  if (Entry* one = at(place, handle)) one->state = kIsLost;
}

}  // namespace ulnet
