// MAC and IP addresses, and an IP address with its prefix, as packet ports use them. Pure values, any thread. Text
// forms: net_address_text.h.
#pragma once
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>

namespace ulnet::dpdk {

struct Mac {
  std::array<uint8_t, 6> bytes{};
  constexpr auto operator<=>(const Mac&) const = default;
  /// Multicast or broadcast.
  [[nodiscard]] constexpr bool is_group() const { return (bytes[0] & 1) != 0; }
  [[nodiscard]] constexpr bool is_zero() const { return *this == Mac{}; }
};
inline constexpr Mac kMacBroadcast{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};

/// An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d: the form of a RoCE GID (docs/wire/roce.md §1).
struct IpAddress {
  std::array<uint8_t, 16> bytes{};
  constexpr auto operator<=>(const IpAddress&) const = default;

  [[nodiscard]] static constexpr IpAddress of_v4(uint32_t host_order) {
    IpAddress out;
    out.bytes[10] = out.bytes[11] = 0xFF;
    for (unsigned i = 0; i < 4; ++i) out.bytes[12 + i] = uint8_t(host_order >> (24 - 8 * i));
    return out;
  }
  /// By words: each packet passes here several times.
  [[nodiscard]] constexpr bool is_v4() const {
    struct Words {
      uint64_t first;
      uint32_t middle, last;
    };
    constexpr auto kMapped = std::bit_cast<Words>(std::array<uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF});
    const auto words = std::bit_cast<Words>(bytes);
    return words.first == kMapped.first && words.middle == kMapped.middle;
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
};

/// An address of a port together with how much of it names the link.
struct IpPrefix {
  IpAddress address;
  uint8_t bits = 0;  ///< of the address's own family: 0..32 or 0..128
  constexpr auto operator<=>(const IpPrefix&) const = default;
  /// Is `other` on the same link?
  [[nodiscard]] constexpr bool covers(const IpAddress& other) const {
    if (address.is_v4() != other.is_v4()) return false;
    unsigned left = address.is_v4() ? bits + 96u : bits;
    for (unsigned i = 0; left > 0 && i < 16; ++i) {
      const unsigned here = left < 8 ? left : 8;
      const auto mask = uint8_t(0xFF00u >> here);
      if (((address.bytes[i] ^ other.bytes[i]) & mask) != 0) return false;
      left -= here;
    }
    return true;
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
