// Requests of other nodes that this worker has matched. A sender may send a request again although this node has the
// first one. With this table, the second one is not delivered. Such a sender gives each request a handle of its own,
// made of the life of its node, worker, slot and generation. A slot has one request at a time, and its generations
// rise. So one entry for each slot suffices, as in the slot tables of NFS 4.1 (RFC 8881, 2.10.6). Copies are marked
// (kCookieCopy), but a request and its copy may arrive in any order. Thread: the worker that is home of the portal.
// Source: docs/wire/copies.md.
//
// Bounded: sets of four entries. When a young entry is replaced, its set notes the time. From then on, until
// kRequestsSeenFor have passed, copies without an entry in this set are refused, because the first may have been
// delivered. If a copy was delivered first, its entry is not replaced while young, so that the first one always finds
// it.
#pragma once
#include <chrono>
#include <cstdint>

#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/time.h"
#include "dataplane/base/worker_memory.h"
#include "dataplane/wire/header.h"

namespace ulnet {

/// Bit of an interface cookie: of a node that gives each request a handle of its own. The kernel's cookies are times in
/// ns, which have it only after the year 2262.
inline constexpr uint64_t kCookieOfRequests = uint64_t{1} << 63;
/// Bit of an object cookie: the request has perhaps been sent before.
inline constexpr uint64_t kCookieCopy = 2;
/// Bits of an interface cookie that only a copy has: the life of the node that got the first one. A node that has been
/// started since then may have delivered it in its life before.
inline constexpr unsigned kCookieLifeShift = 48;
inline constexpr uint64_t kCookieLife = uint64_t{0x7FFF} << kCookieLifeShift;
inline constexpr uint64_t kCookieOwn = ~kCookieLife;  ///< the rest of the interface cookie

/// The life of the node with this interface cookie: 15 bits, not 0.
[[nodiscard]] constexpr uint16_t life_of(uint64_t interface_cookie) {
  const auto life = uint16_t(interface_cookie & 0x7FFF);
  return life == 0 ? 1 : life;
}
[[nodiscard]] constexpr bool same_request(const wire::WireHandle& one, const wire::WireHandle& other) {
  return ((one.interface_cookie ^ other.interface_cookie) & kCookieOwn) == 0 &&
         ((one.object_cookie ^ other.object_cookie) & ~kCookieCopy) == 0;
}
/// Of a copy: the life that it is meant for.
[[nodiscard]] constexpr uint16_t life_meant(const wire::WireHandle& handle) {
  return uint16_t((handle.interface_cookie & kCookieLife) >> kCookieLifeShift);
}

/// Does the handle name one request, so that a copy can be known?
[[nodiscard]] constexpr bool names_request(const wire::WireHandle& handle) {
  return (handle.interface_cookie & kCookieOfRequests) != 0 && !handle.is_none();
}
[[nodiscard]] constexpr bool is_copy(const wire::WireHandle& handle) {
  return (handle.object_cookie & kCookieCopy) != 0;
}

/// How a request was delivered, for its answer.
struct Delivered {
  uint32_t mlength = 0;  ///< bytes
  uint32_t offset = 0;   ///< in the MD
  int64_t order = 0;     ///< MatchEntry::order of the MD: names it, on its portal
};

class RequestsSeen {
 public:
  enum class Verdict : uint8_t {
    kNew,        ///< not delivered so far
    kOpen,       ///< its payload is on its way
    kDelivered,  ///< `of` says how
    kOld,        ///< ended by its sender, which has sent another one from the same slot
    kUnknown     ///< a copy, and the first was perhaps delivered
  };
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Look {
    Verdict verdict = Verdict::kNew;
    Delivered of;               ///< kDelivered
    Handle incoming;            ///< kOpen: the message that receives it
    uint32_t place = kNowhere;  ///< of the entry with the same slot, if there is one; for open()
  };

  /// Room for about `requests`. `memory` outlives the table; null: on the heap.
  explicit RequestsSeen(uint32_t requests, WorkerMemory* memory = nullptr);

  /// Requires names_request(). Cost: one set of four entries. Inline, as open() and delivered(), because each request
  /// pays for it.
  [[nodiscard]] Look look(const wire::WireHandle& handle, Instant now) const;
  /// Enters a request that is matched now; it is kOpen from then on. Requires: look() finds it new, at `place`. Returns
  /// its place for the calls below. kNowhere: there is no room; this does not happen to a copy.
  [[nodiscard]] uint32_t open(const wire::WireHandle& handle, Handle incoming, Instant now, uint32_t place = kNowhere);
  /// Its payload is in place. No effect if the entry was replaced.
  void delivered(uint32_t place, const wire::WireHandle& handle, const Delivered& how);
  /// Its payload was lost: a copy is new, but not what came before it. No effect if the entry was replaced.
  void forget(uint32_t place, const wire::WireHandle& handle);

 private:
  static constexpr uint32_t kYoungS = uint32_t(kRequestsSeenFor / std::chrono::seconds(1));
  [[nodiscard]] static uint32_t seconds_of(Instant now) {
    return uint32_t(now.time_since_epoch() / std::chrono::seconds(1)) + 1;  // not 0 for 136 years
  }
  [[nodiscard]] static bool young(uint32_t seen_s, uint32_t now_s) { return now_s - seen_s < kYoungS; }
  [[nodiscard]] static uint64_t sender_of(const wire::WireHandle& handle) {
    return handle.interface_cookie & kCookieOwn;
  }
  [[nodiscard]] static uint32_t slot_of(const wire::WireHandle& handle) {
    return uint32_t(handle.object_cookie & ~kCookieCopy);
  }
  [[nodiscard]] static uint32_t generation_of(const wire::WireHandle& handle) {
    return uint32_t(handle.object_cookie >> 32);
  }

  // Values of Entry::order while the request is not delivered.
  static constexpr int64_t kIsOpen = INT64_MIN;
  static constexpr int64_t kIsLost = INT64_MIN + 1;
  /// Few and plain fields, since each request writes them.
  struct Entry {
    uint64_t sender = 0;  ///< the own part of the interface cookie; 0: the entry is free
    uint32_t slot = 0;    ///< of the sender
    uint32_t generation = 0;
    uint32_t seen_s = 0;
    uint32_t copied_s = 0;  ///< in this slot, a copy arrived first at this time; 0: none has
    uint32_t mlength = 0;   ///< open: Handle::index of the message
    uint32_t offset = 0;    ///< open: Handle::generation of the message
    int64_t order = 0;      ///< Delivered::order, kIsOpen or kIsLost
    /// Does the entry say something about its slot?
    [[nodiscard]] bool holds(uint32_t now_s) const { return sender != 0 && (young(seen_s, now_s) || kept(now_s)); }
    /// Must it stay, because a request that was delivered as a copy may still come itself?
    [[nodiscard]] bool kept(uint32_t now_s) const { return copied_s != 0 && young(copied_s, now_s); }
  };
  static constexpr unsigned kWays = 4;
  struct Set {
    Entry ways[kWays];
    uint32_t lost_s = 0;  ///< when a young entry was last replaced, or a request found no room; 0: never
  };
  [[nodiscard]] uint32_t set_of(const wire::WireHandle& handle) const {
    return uint32_t((sender_of(handle) ^ uint64_t{slot_of(handle)} << 16) * 0x9E3779B97F4A7C15ull >> 32) & mask_;
  }
  [[nodiscard]] static bool is_of(const Entry& one, const wire::WireHandle& handle) {
    return one.sender == sender_of(handle) && one.slot == slot_of(handle);
  }
  [[nodiscard]] Entry* at(uint32_t place, const wire::WireHandle& handle) {
    if (place == kNowhere) return nullptr;
    Entry& one = sets_[place / kWays].ways[place % kWays];
    return is_of(one, handle) && one.generation == generation_of(handle) ? &one : nullptr;
  }
  /// Of a copy without an entry in the set: was the first perhaps delivered, or is there no room for the copy?
  [[nodiscard]] static bool perhaps_lost(const Set& set, uint32_t now_s);
  /// The way whose entry one of another slot may replace, now free; kWays: none may be replaced.
  [[nodiscard]] static unsigned make_room(Set& set, uint32_t now_s);

  const uint32_t mask_;
  NearArray<Set> sets_;
};

inline RequestsSeen::Look RequestsSeen::look(const wire::WireHandle& handle, Instant now) const {
  const uint32_t now_s = seconds_of(now), set_index = set_of(handle);
  const Set& set = sets_[set_index];
  for (unsigned way = 0; way < kWays; ++way) {
    const Entry& one = set.ways[way];
    if (!is_of(one, handle) || !one.holds(now_s)) continue;
    const auto ahead = int32_t(generation_of(handle) - one.generation);
    if (ahead > 0 || (ahead == 0 && one.order == kIsLost)) return {.place = set_index * kWays + way};
    if (ahead < 0) return {.verdict = Verdict::kOld};
    if (one.order == kIsOpen) return {.verdict = Verdict::kOpen, .incoming = {one.mlength, one.offset}};
    return {.verdict = Verdict::kDelivered, .of = {one.mlength, one.offset, one.order}};
  }
  return {.verdict = is_copy(handle) && perhaps_lost(set, now_s) ? Verdict::kUnknown : Verdict::kNew};
}

inline uint32_t RequestsSeen::open(const wire::WireHandle& handle, Handle incoming, Instant now, uint32_t place) {
  const uint32_t now_s = seconds_of(now);
  if (place == kNowhere) {
    const uint32_t set_index = set_of(handle);
    Set& set = sets_[set_index];
    unsigned way = 0;
    while (way < kWays && !is_of(set.ways[way], handle)) ++way;
    if (way == kWays) way = make_room(set, now_s);
    if (way == kWays) return kNowhere;
    place = set_index * kWays + way;
  }
  Entry& into = sets_[place / kWays].ways[place % kWays];
  into.sender = sender_of(handle);
  into.slot = slot_of(handle);
  into.generation = generation_of(handle);
  into.seen_s = now_s;
  if (is_copy(handle)) into.copied_s = now_s;
  into.mlength = incoming.index;
  into.offset = incoming.generation;
  into.order = kIsOpen;
  return place;
}

inline void RequestsSeen::delivered(uint32_t place, const wire::WireHandle& handle, const Delivered& how) {
  Entry* one = at(place, handle);
  if (one == nullptr) return;
  one->mlength = how.mlength;
  one->offset = how.offset;
  one->order = how.order;
}

}  // namespace ulnet
