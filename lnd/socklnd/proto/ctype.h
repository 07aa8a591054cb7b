// Connection types of socklnd and the rule by which a sender picks a connection for a message. Pure.
// Source: docs/wire/socklnd.md §3.1, §5.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ulnet::socklnd {

/// Protocol versions of a connection, as HELLO carries them.
inline constexpr uint32_t kVersion1 = 1;  ///< no ksock header, LNet-style HELLO
inline constexpr uint32_t kVersion2 = 2;
inline constexpr uint32_t kVersion3 = 3;  ///< ours for IPv4 NIDs
inline constexpr uint32_t kVersion4 = 4;  ///< ours for large NIDs

/// The purpose of a connection, from its own side's point of view: my BULK_OUT is the peer's BULK_IN. A receiver
/// accepts any message on any connection.
enum class ConnType : uint32_t {
  kAny = 0,           ///< all traffic; v1 and v2 only
  kControl = 1,       ///< small messages
  kBulkIn = 2,        ///< bulk received; also the connection for acknowledgements
  kBulkOut = 3,       ///< bulk sent
  kNone = 0xFFFFFFFF  ///< in a HELLO answer: not now, try again
};

/// True for the four types that a connection can have.
[[nodiscard]] constexpr bool conn_type_valid(uint32_t raw) {
  return raw <= uint32_t(ConnType::kBulkOut);
}

/// The type that the other side gives the same connection.
[[nodiscard]] constexpr ConnType conn_type_inverse(ConnType type) {
  switch (type) {
    case ConnType::kBulkIn: return ConnType::kBulkOut;
    case ConnType::kBulkOut: return ConnType::kBulkIn;
    case ConnType::kAny:
    case ConnType::kControl:
    case ConnType::kNone: return type;
  }
  return ConnType::kNone;
}

/// The properties of a message that the choice of a connection depends on.
struct TxShape {
  bool noop = false;
  bool non_blocking = false;   ///< NOOP only: keepalive, or a zero-copy ack that must not wait behind bulk
  uint32_t payload_bytes = 0;  ///< LNET only
};

/// How well a connection suits a message: any kYes beats any kMay, kNo is never used.
enum class Fit : uint8_t { kNo, kMay, kYes };

/// `version` is the connection's; `min_bulk` the tunable (1024). The size compared counts 24 + 72 + payload, also on
/// v4.
[[nodiscard]] constexpr Fit conn_fit(ConnType type, uint32_t version, const TxShape& tx, uint32_t min_bulk) {
  const bool acks_have_own = version >= kVersion3;
  if (type == ConnType::kNone) return Fit::kNo;
  if (type == ConnType::kAny) return acks_have_own ? Fit::kNo : Fit::kYes;
  if (tx.noop && acks_have_own) {
    if (tx.non_blocking) return type == ConnType::kBulkIn ? Fit::kYes : Fit::kNo;
    return type == ConnType::kControl ? Fit::kYes : Fit::kMay;
  }
  if (type == ConnType::kBulkIn) return acks_have_own ? Fit::kNo : Fit::kMay;
  const uint64_t bytes = tx.noop ? 24 : uint64_t{24} + 72 + tx.payload_bytes;
  const bool bulk = bytes >= min_bulk;
  return bulk == (type == ConnType::kBulkOut) ? Fit::kYes : Fit::kMay;
}

}  // namespace ulnet::socklnd
