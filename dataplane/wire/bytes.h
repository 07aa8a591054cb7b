// Integers in byte strings, at any alignment. Little endian, except for a peer of the other byte order: see `flip`. The
// byte order of ulnet's machines is little endian, so "host order" on the wire is too (docs/wire/lnet.md, head).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dataplane/base/nid.h"

namespace ulnet::wire {

static_assert(std::endian::native == std::endian::little);

template <class T>
[[nodiscard]] constexpr T byte_swap(T value) {
  if constexpr (sizeof(T) == 1)
    return value;
  else if constexpr (sizeof(T) == 2)
    return T(__builtin_bswap16(value));
  else if constexpr (sizeof(T) == 4)
    return T(__builtin_bswap32(value));
  else
    return T(__builtin_bswap64(value));
}

/// Reads a T at `at`; `flip` when the sender's byte order is the other one. Requires sizeof(T) readable bytes.
template <class T>
[[nodiscard]] inline T load(const std::byte* at, bool flip = false) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return flip ? byte_swap(value) : value;
}

template <class T>
inline void store(std::byte* at, T value, bool flip = false) {
  if (flip) value = byte_swap(value);
  std::memcpy(at, &value, sizeof value);
}

/// A u64 NID as a Nid. Every spelling of ANY (type 0xFF) becomes the one that compares equal to kAnyNid.
[[nodiscard]] inline Nid nid_from_wire(uint64_t nid4) {
  const bool any = (nid4 >> 48 & 0xFF) == 0xFF;
  return any ? Nid{} : Nid::from_u64(nid4);
}

/// A large NID from its 20 bytes, which are never swapped (docs/wire/lnet.md §1.2). ANY as above; address bytes behind
/// the significant ones become zero, which they must be, so that what reads the same compares equal.
[[nodiscard]] inline Nid nid_load16(const std::byte* at) {
  Nid nid;
  std::memcpy(&nid, at, sizeof nid);
  if (nid.is_any()) return kAnyNid;
  for (size_t i = size_t{nid.size} + 4; i < nid.addr.size(); ++i) nid.addr[i] = 0;
  return nid;
}

inline void nid_store16(std::byte* at, const Nid& nid) {
  std::memcpy(at, &nid, sizeof nid);
}

}  // namespace ulnet::wire
