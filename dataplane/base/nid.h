// Addresses of LNet: network, NID, process. A Nid is kept in the 20-byte wire layout, so it is compared and written as
// bytes. Source: docs/wire/lnet.md §1. Text forms are in nid_text.h (control side only).
#pragma once
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "dataplane/base/word_pair.h"

namespace ulnet {

/// Network type numbers (docs/wire/lnet.md §1.3). A router forwards types that are not listed, too.
enum class NetType : uint8_t {
  kTcp = 2,
  kO2ib = 5,
  kLo = 9,
  kGni = 13,
  kGip = 14,
  kPtlf = 15,
  kKfi = 16,
  kTofu = 17,
  kEfa = 18,
  kBxi3f = 19,
  kAny = 0xFF
};

/// A network: type and number, e.g. tcp1. As the u32 of the wire: (type << 16) | number.
struct Net {
  uint32_t value = 0xFFFFFFFF;
  static constexpr Net of(NetType type, uint16_t number) { return Net{(uint32_t(type) << 16) | number}; }
  [[nodiscard]] constexpr NetType type() const { return NetType((value >> 16) & 0xFF); }
  [[nodiscard]] constexpr uint16_t number() const { return uint16_t(value); }
  constexpr auto operator<=>(const Net&) const = default;
};
inline constexpr Net kAnyNet{0xFFFFFFFF};

/// A network identifier: one interface of one node. 20 bytes, exactly as a large NID lies on the wire; ANY is all ones.
/// Invariant: unused address bytes are zero, so equality and order are those of the bytes (the order decides connection
/// races, docs/wire/socklnd.md §6).
struct Nid {
  uint8_t size = 0xFF;  ///< significant bytes minus 8: 0 for 4-byte addresses, 12 for IPv6
  uint8_t type = 0xFF;  ///< NetType, 0xFF = ANY
  std::array<uint8_t, 2> number_be{0xFF, 0xFF};
  std::array<uint8_t, 16> addr{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                               0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

  /// A NID with a 4-byte address, given as the host-order integer of the 8-byte form (10.0.0.1 = 0x0A000001).
  static constexpr Nid v4(Net net, uint32_t address) {
    static_assert(std::endian::native == std::endian::little);
    const uint32_t number = net.number();
    const uint32_t head = uint32_t(net.type()) << 8 | (number >> 8) << 16 | (number & 0xFF) << 24;
    const uint32_t address_be = __builtin_bswap32(address);
    if (std::is_constant_evaluated()) return std::bit_cast<Nid>(std::array<uint32_t, 5>{head, address_be, 0, 0, 0});
    Nid nid;
    store_pair(&nid, uint64_t{address_be} << 32 | head, 0);
    std::memset(nid.addr.data() + 12, 0, 4);
    return nid;
  }
  /// A NID with a 16-byte address in network order (IPv6).
  static constexpr Nid v6(Net net, const std::array<uint8_t, 16>& address) {
    Nid nid = zero(net, 12);
    nid.addr = address;
    return nid;
  }
  /// From the u64 of the 8-byte form; all ones gives ANY.
  static constexpr Nid from_u64(uint64_t nid4) {
    if (nid4 == ~uint64_t{0}) return Nid{};
    return v4(Net{uint32_t(nid4 >> 32) & 0x00FFFFFF}, uint32_t(nid4));
  }

  [[nodiscard]] constexpr bool is_any() const { return type == 0xFF; }
  // Inline by force: -O2 leaves it out of line, and the choice of a path calls it many times.
  [[nodiscard]] [[gnu::always_inline]] constexpr Net net() const {
    return is_any() ? kAnyNet : Net{(uint32_t(type) << 16) | (uint32_t(number_be[0]) << 8) | number_be[1]};
  }
  [[nodiscard]] constexpr bool is_lo() const { return type == uint8_t(NetType::kLo); }
  /// True when the 8-byte form can carry it (also ANY).
  [[nodiscard]] constexpr bool fits_u64() const { return is_any() || size == 0; }
  /// The u64 of the 8-byte form. Requires fits_u64().
  [[nodiscard]] constexpr uint64_t to_u64() const {
    return is_any() ? ~uint64_t{0} : (uint64_t(net().value) << 32) | address_v4();
  }
  /// The 4-byte address as a host-order integer. Meaningless for large NIDs.
  [[nodiscard]] constexpr uint32_t address_v4() const {
    return (uint32_t(addr[0]) << 24) | (uint32_t(addr[1]) << 16) | (uint32_t(addr[2]) << 8) | addr[3];
  }
  /// A well-mixed 64-bit hash, the same in every run.
  [[nodiscard]] uint64_t hash() const {
    uint64_t a, b;
    uint32_t c;
    std::memcpy(&a, this, 8);
    std::memcpy(&b, addr.data() + 4, 8);
    std::memcpy(&c, addr.data() + 12, 4);
    uint64_t h = (a ^ (b * 0x9E3779B97F4A7C15ull) ^ c) * 0xBF58476D1CE4E5B9ull;
    h ^= h >> 31;
    h *= 0x94D049BB133111EBull;
    return h ^ (h >> 29);
  }

  constexpr auto operator<=>(const Nid&) const = default;
  /// Most NIDs that differ do so in the first 8 bytes. A choice of path compares many.
  constexpr bool operator==(const Nid& other) const {
    if (std::is_constant_evaluated()) return (*this <=> other) == 0;
    uint64_t mine[2], its[2];
    uint32_t my_last, its_last;
    std::memcpy(mine, this, sizeof mine);
    std::memcpy(its, &other, sizeof its);
    std::memcpy(&my_last, addr.data() + 12, sizeof my_last);
    std::memcpy(&its_last, other.addr.data() + 12, sizeof its_last);
    return mine[0] == its[0] && ((mine[1] ^ its[1]) | (my_last ^ its_last)) == 0;
  }

 private:
  static constexpr Nid zero(Net net, uint8_t size) {
    Nid nid;
    nid.size = size;
    nid.type = uint8_t(net.type());
    nid.number_be = {uint8_t(net.number() >> 8), uint8_t(net.number())};
    nid.addr = {};
    return nid;
  }
};
static_assert(sizeof(Nid) == 20);

/// ANY: every NID matches it.
inline constexpr Nid kAnyNid{};
/// 0@lo.
inline constexpr Nid kLoNid = Nid::v4(Net::of(NetType::kLo, 0), 0);

/// Process numbers (docs/wire/lnet.md §1.4).
inline constexpr uint32_t kLnetPid = 12345;
inline constexpr uint32_t kAnyPid = 0xFFFFFFFF;
inline constexpr uint32_t kUserPidFlag = 0x80000000;

/// A process that sends or receives.
struct ProcessId {
  Nid nid;
  uint32_t pid = kAnyPid;
  constexpr auto operator<=>(const ProcessId&) const = default;
};

struct NidHash {
  size_t operator()(const Nid& nid) const noexcept { return nid.hash(); }
};

}  // namespace ulnet
