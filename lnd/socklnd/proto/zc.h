// Zero-copy cookies: which of them an acknowledgement covers, and how several acknowledgements that wait merge into one
// NOOP. Pure. The sender's book holds the outstanding cookies. The sender must refuse a range longer than its book
// before it walks the range.
// Source: docs/wire/socklnd.md §3.3.
#pragma once
#include <cstdint>

#include "lnd/socklnd/proto/frame.h"

namespace ulnet::socklnd {

inline constexpr uint64_t kKeepaliveCookie = 1;
inline constexpr uint64_t kFirstZcCookie = 2;

struct ZcAck {
  enum class Kind : uint8_t {
    kNothing,    ///< acknowledges nothing
    kKeepalive,  ///< v3 and v4: the peer shows that it lives
    kRange,      ///< every cookie first..last inclusive; one cookie when they are equal
    kPair,       ///< exactly the two cookies first and last
    kInvalid     ///< protocol error: close
  };
  Kind kind = Kind::kNothing;
  uint64_t first = 0;
  uint64_t last = 0;
  constexpr bool operator==(const ZcAck&) const = default;
};

/// The cookies that a received frame acknowledges. In an LNET frame cookie0 is a request and does not count.
[[nodiscard]] constexpr ZcAck zc_ack_of(const FrameHeader& frame, uint32_t version) {
  using Kind = ZcAck::Kind;
  const uint64_t a = frame.type == FrameType::kNoop ? frame.cookie0 : 0;
  const uint64_t b = frame.cookie1;
  if (b == 0) return {};
  if (b == kKeepaliveCookie && version >= kVersion3) {
    return a <= kKeepaliveCookie ? ZcAck{Kind::kKeepalive, 0, 0} : ZcAck{Kind::kInvalid, a, b};
  }
  if (a == 0) return {Kind::kRange, b, b};
  return a > b ? ZcAck{Kind::kPair, a, b} : ZcAck{Kind::kRange, a, b};
}

/// Adds `cookie` to the acknowledgement that a queued NOOP carries; false when it does not fit: queue another NOOP.
/// Forms: {0, c} one; {a, b} with a > b a pair; {a, b} with a < b the range. Requires a cookie of at least
/// kFirstZcCookie.
[[nodiscard]] constexpr bool zc_ack_merge(FrameHeader& noop, uint64_t cookie) {
  uint64_t& a = noop.cookie0;
  uint64_t& b = noop.cookie1;
  if (b == 0) {
    b = cookie;
    return true;
  }
  if (a == 0) {
    if (cookie == b) return false;
    const uint64_t low = cookie < b ? cookie : b;
    const uint64_t high = cookie < b ? b : cookie;
    const bool adjacent = high - low == 1;
    a = adjacent ? low : high;
    b = adjacent ? high : low;
    return true;
  }
  if (a > b) {  // a pair with just the cookie between its two is a range of three
    if (a - b != 2 || cookie != b + 1) return false;
    a = cookie - 1;
    b = cookie + 1;
    return true;
  }
  if (cookie == b + 1)
    b = cookie;
  else if (cookie + 1 == a)
    a = cookie;
  else
    return false;
  return true;
}

/// The NOOP that says "I live" (v3 and v4 only).
[[nodiscard]] constexpr FrameHeader keepalive_noop() {
  return {FrameType::kNoop, 0, 0, kKeepaliveCookie};
}

}  // namespace ulnet::socklnd
