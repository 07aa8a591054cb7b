// MAC and IP addresses, and an IP address with its prefix, as packet ports use them. Pure values, any thread. Text
// forms: net_address_text.h.
#pragma once
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "dataplane/base/word_pair.h"

namespace ulnet::dpdk {

struct Mac {
  std::array<uint8_t, 6> bytes{};
  constexpr auto operator<=>(const Mac&) const = default;
  /// By words: each packet passes here.
  constexpr bool operator==(const Mac& other) const {
    struct Words {
      uint16_t first, middle, last;
    };
    const auto mine = std::bit_cast<Words>(bytes), its = std::bit_cast<Words>(other.bytes);
    return mine.first == its.first && mine.middle == its.middle && mine.last == its.last;
  }
  /// Multicast or broadcast.
  [[nodiscard]] constexpr bool is_group() const { return (bytes[0] & 1) != 0; }
  [[nodiscard]] constexpr bool is_zero() const { return *this == Mac{}; }
};
inline constexpr Mac kMacBroadcast{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};

/// An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d: the form of a RoCE GID (docs/wire/roce.md §1).
struct IpAddress {
  std::array<uint8_t, 16> bytes{};
  constexpr auto operator<=>(const IpAddress&) const = default;
  // By words: each packet passes here several times.
  constexpr bool operator==(const IpAddress& other) const { return words() == other.words(); }

  [[nodiscard]] static constexpr IpAddress of_v4(uint32_t host_order) {
    static_assert(std::endian::native == std::endian::little);
    const uint64_t last = uint64_t{__builtin_bswap32(host_order)} << 32 | kMapped;
    if (std::is_constant_evaluated()) return std::bit_cast<IpAddress>(std::array<uint64_t, 2>{0, last});
    IpAddress out;
    store_pair(&out, 0, last);
    return out;
  }
  [[nodiscard]] constexpr bool is_v4() const {
    const auto [first, last] = words();
    return first == 0 && uint32_t(last) == kMapped;
  }
  /// In host order. Requires is_v4().
  [[nodiscard]] constexpr uint32_t v4() const {
    return uint32_t(bytes[12]) << 24 | uint32_t(bytes[13]) << 16 | uint32_t(bytes[14]) << 8 | bytes[15];
  }
  /// :: or 0.0.0.0.
  [[nodiscard]] constexpr bool is_unspecified() const { return *this == IpAddress{} || *this == of_v4(0); }
  /// Multicast, and IPv4's limited broadcast.
  [[nodiscard]] constexpr bool is_group() const {
    if (is_v4()) return bytes[12] >= 0xE0 && (bytes[12] < 0xF0 || v4() == 0xFFFFFFFF);
    return bytes[0] == 0xFF;
  }
  [[nodiscard]] constexpr bool is_link_local() const {
    return is_v4() ? bytes[12] == 169 && bytes[13] == 254 : bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80;
  }
  /// As they lie in memory.
  [[nodiscard]] constexpr std::array<uint64_t, 2> words() const {
    return std::bit_cast<std::array<uint64_t, 2>>(bytes);
  }

 private:
  static constexpr uint32_t kMapped = 0xFFFF'0000;  ///< the third word of an IPv4 address
};

/// An address of a port together with how much of it names the link.
struct IpPrefix {
  IpAddress address;
  uint8_t bits = 0;  ///< of the address's own family: 0..32 or 0..128
  constexpr auto operator<=>(const IpPrefix&) const = default;
  /// Is `other` on the same link?
  [[nodiscard]] constexpr bool covers(const IpAddress& other) const {
    if (address.is_v4() != other.is_v4()) return false;
    const auto [first, last] = address.words();
    const auto [its_first, its_last] = other.words();
    const unsigned counted = address.is_v4() ? bits + 96u : bits;
    return ((first ^ its_first) & mask(counted)) == 0 &&
           (counted <= 64 || ((last ^ its_last) & mask(counted - 64)) == 0);
  }

 private:
  /// The first bits of a word in network order, as it lies in memory.
  [[nodiscard]] static constexpr uint64_t mask(unsigned count) {
    if (count == 0) return 0;
    return count >= 64 ? ~uint64_t{0} : __builtin_bswap64(~uint64_t{0} << (64 - count));
  }
};

/// Group address (ff02::1:ffXX:XXXX) that takes requests for the owner of `address` (RFC 4291 §2.7.1). IPv6 only.
[[nodiscard]] constexpr IpAddress solicited_node(const IpAddress& address) {
  IpAddress out{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF}};
  for (unsigned i = 13; i < 16; ++i) out.bytes[i] = address.bytes[i];
  return out;
}
/// All nodes of the link, ff02::1.
inline constexpr IpAddress kAllNodes{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/// MAC address to which packets for a group go (RFC 1112, RFC 2464).
[[nodiscard]] constexpr Mac group_mac(const IpAddress& group) {
  const auto& b = group.bytes;
  if (!group.is_v4()) return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
  if (group.v4() == 0xFFFFFFFF) return kMacBroadcast;
  return {{0x01, 0x00, 0x5E, uint8_t(b[13] & 0x7F), b[14], b[15]}};
}

}  // namespace ulnet::dpdk
