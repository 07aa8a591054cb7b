// Rules for connections that meet: races, duplicates, reboots, and which connection to open next. Pure functions of
// control's state. Source: docs/wire/socklnd.md §5 (order), §6.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/nid.h"
#include "lnd/socklnd/proto/ctype.h"

namespace ulnet::socklnd {

/// Connections of a set by type (index: ConnType value).
using TypeCounts = std::array<uint32_t, 4>;

/// Most connections of a type that a set may have.
[[nodiscard]] constexpr uint32_t type_limit(ConnType type, uint32_t conns_per_peer) {
  return type == ConnType::kBulkIn || type == ConnType::kBulkOut ? conns_per_peer : 1;
}

/// The type to open next. Without `typed` connections: one ANY. Else: CONTROL, then BULK_IN and BULK_OUT in turn,
/// BULK_IN when it has no more than BULK_OUT. kNone: all are there.
[[nodiscard]] constexpr ConnType next_type(const TypeCounts& counts, uint32_t conns_per_peer, bool typed = true) {
  if (!typed) return counts[size_t(ConnType::kAny)] == 0 ? ConnType::kAny : ConnType::kNone;
  const uint32_t in = counts[size_t(ConnType::kBulkIn)];
  const uint32_t out = counts[size_t(ConnType::kBulkOut)];
  if (counts[size_t(ConnType::kControl)] == 0) return ConnType::kControl;
  if (in < conns_per_peer && (in <= out || out >= conns_per_peer)) return ConnType::kBulkIn;
  if (out < conns_per_peer) return ConnType::kBulkOut;
  return ConnType::kNone;
}

/// True when there is a connection of each needed type, even if fewer than the limit.
[[nodiscard]] constexpr bool each_type_there(const TypeCounts& counts, bool typed = true) {
  if (!typed) return counts[size_t(ConnType::kAny)] > 0;
  return counts[size_t(ConnType::kControl)] > 0 && counts[size_t(ConnType::kBulkIn)] > 0 &&
         counts[size_t(ConnType::kBulkOut)] > 0;
}

/// conns_per_peer 0: from the link speed. 1 G: 1, 10 G: 2, 25 G: 3, 100 G: 4, 400 G: 5; unknown (0): 1.
[[nodiscard]] uint32_t conns_per_peer_for(uint32_t link_mbps);

/// A HELLO that the passive side has read, and control's state of the peer.
struct PassiveCase {
  Nid my_nid;
  Nid peer_nid;
  bool known = false;  ///< connections to the peer exist: version and incarnation are remembered
  uint32_t known_version = 0;
  uint64_t known_incarnation = 0;
  uint32_t version = 0;
  uint64_t incarnation = 0;
  bool dialling = false;  ///< a connect of ours to this peer is under way
  bool same_ip = false;   ///< both ends have the same address: duplicates are expected
  bool elsewhere = false;  ///< its address is neither that in the peer's NID nor that of a live connection
  uint32_t same_type_count = 0;
  uint32_t type_limit = 1;
};
enum class PassiveVerdict : uint8_t {
  kAccept,
  kRaceLost,   ///< answer NONE: our own connect survives
  kRebooted,   ///< answer NONE, close what exists and forget the peer's version
  kClaimed,    ///< answer NONE: another node claims to be this peer
  kDuplicate   ///< answer NONE
};
[[nodiscard]] PassiveVerdict passive_verdict(const PassiveCase& c);

/// A good answer that the active side has read.
struct ActiveCase {
  bool known = false;
  uint32_t known_version = 0;
  uint64_t known_incarnation = 0;
  uint32_t version = 0;
  uint64_t incarnation = 0;
  bool same_ip = false;
  uint32_t same_type_count = 0;
  uint32_t type_limit = 1;
};
enum class ActiveVerdict : uint8_t {
  kKeep,
  kDuplicate,  ///< close it, try again later
  kRebooted    ///< close it and what exists, dial again at once
};
[[nodiscard]] ActiveVerdict active_verdict(const ActiveCase& c);

}  // namespace ulnet::socklnd
