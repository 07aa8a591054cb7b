// Portals and their match lists on their home worker. First entry in list order wins (docs/wire/lnet.md §3).
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "dataplane/base/list.h"
#include "dataplane/state/event.h"
#include "dataplane/state/md.h"
#include "dataplane/state/slices.h"
#include "dataplane/wire/header.h"
#include "lnd/lnd.h"

namespace ulnet {

class Worker;
struct PortalView;

/// Entries that must match all bits lie in buckets by bits; the others in one list. Both are kept in list order.
struct Portal {
  static constexpr unsigned kBuckets = 64;
  std::array<List<Md, MatchTag>, kBuckets> exact;
  List<Md, MatchTag> wild;
  List<RxSlot, RxTag> lazy;  ///< receives that wait for an entry (lazy portals)
  int64_t order_first = 0;   ///< order of the next entry put in front, counting down
  int64_t order_last = 1;    ///< of the next one put behind
  uint32_t entries = 0;
  static unsigned bucket_of(uint64_t bits) { return unsigned((bits * 0x9E3779B97F4A7C15ull) >> kBucketShift); }
  static constexpr unsigned kBucketShift = 64 - unsigned(std::countr_zero(kBuckets));
};
static_assert(std::has_single_bit(Portal::kBuckets), "the uppermost bits of a hash are the number of a bucket");

/// The properties of an arriving PUT or GET that the match list compares.
struct MatchAsk {
  bool is_get = false;
  ProcessId initiator;  ///< primary NID
  Nid source;           ///< NID in the header
  uint64_t match_bits = 0;
  uint32_t rlength = 0;
  uint32_t roffset = 0;
};
struct MatchFound {
  Md* md = nullptr;
  uint32_t offset = 0;
  uint32_t mlength = 0;
  bool too_long = false;  ///< matched, but longer than the room and no truncation: drop
};

/// Worker that is home to a message for `portal` with these bits (docs/architecture.md: single, hashed, per worker).
[[nodiscard]] WorkerId portal_home(const PortalView& portal, uint64_t match_bits, WorkerId here, unsigned workers);
/// Puts the MD into the list. Requires: bound, not attached.
void portal_attach(Portal& portal, Md& md, const MatchEntry& entry, bool at_head);
void portal_detach(Portal& portal, Md& md);
/// Does this attached MD match `ask`, whatever entries stand before it?
[[nodiscard]] bool entry_matches(const Md& md, const MatchAsk& ask);
/// Finds the first match; changes nothing. Null if no entry matches.
[[nodiscard]] Md* portal_find(Portal& portal, const MatchAsk& ask);
/// Finds the first match and uses it once: takes the offset, counts the threshold down. The caller adds its message to
/// md->ops, and calls md_close_gate() if the MD is used up.
[[nodiscard]] MatchFound portal_match(Portal& portal, const MatchAsk& ask);

}  // namespace ulnet
