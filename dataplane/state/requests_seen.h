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
  struct Look {
    Verdict verdict = Verdict::kNew;
    Delivered of;     ///< kDelivered
    Handle incoming;  ///< kOpen: the message that receives it
  };
  static constexpr uint32_t kNowhere = UINT32_MAX;

  /// Room for about `requests`. `memory` outlives the table; null: on the heap.
  explicit RequestsSeen(uint32_t requests, WorkerMemory* memory = nullptr);

  /// Requires names_request(). Cost: one set of four entries.
  [[nodiscard]] Look look(const wire::WireHandle& handle, Instant now) const;
  /// Enters a request that is matched now; it is kOpen from then on. Requires: look() finds it new. Returns its place
  /// for the calls below. kNowhere: there is no room; this does not happen to a copy.
  [[nodiscard]] uint32_t open(const wire::WireHandle& handle, Handle incoming, Instant now);
  /// A copy of a request that is open came. True: it is not the first one.
  [[nodiscard]] bool came_again(const wire::WireHandle& handle);
  /// Its payload is in place. No effect if the entry was replaced.
  void delivered(uint32_t place, const wire::WireHandle& handle, const Delivered& how);
  /// Its payload was lost: a copy is new, but not what came before it. No effect if the entry was replaced.
  void forget(uint32_t place, const wire::WireHandle& handle);

 private:
  enum State : uint32_t { kFree, kIsOpen, kIsDelivered, kIsLost };
  struct Entry {
    uint64_t sender = 0;  ///< the own part of the interface cookie
    uint32_t slot = 0;    ///< of the sender
    uint32_t generation = 0;
    uint32_t seen_s : 28 = 0;  ///< wraps; only differences count
    uint32_t state : 2 = kFree;
    uint32_t copy_came : 1 = 0;  ///< while it was open
    uint32_t copied : 1 = 0;     ///< in this slot, a copy arrived first at `copied_s`, so the first one may still come
    uint32_t copied_s = 0;
    uint32_t mlength = 0;  ///< open: Handle::index of the message
    uint32_t offset = 0;   ///< open: Handle::generation of the message
    int64_t order = 0;
    [[nodiscard]] bool holds(uint32_t now_s) const;
    [[nodiscard]] bool kept(uint32_t now_s) const;
  };
  static constexpr unsigned kWays = 4;
  struct Set {
    Entry ways[kWays];
    uint32_t lost_s = 0;  ///< when a young entry was last replaced, or a request found no room
    bool lost = false;
  };
  [[nodiscard]] Set& set_of(const wire::WireHandle& handle);
  [[nodiscard]] const Set& set_of(const wire::WireHandle& handle) const;
  [[nodiscard]] Entry* at(uint32_t place, const wire::WireHandle& handle);

  const uint32_t mask_;
  NearArray<Set> sets_;
};

}  // namespace ulnet
