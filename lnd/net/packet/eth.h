// Ethernet headers with up to two VLAN tags (802.1Q, 802.1ad): bytes to struct and back. Pure, any thread.
#pragma once
#include "lnd/net/packet/checksum.h"
#include "lnd/net/packet/drops.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

inline constexpr uint16_t kEthIpv4 = 0x0800;
inline constexpr uint16_t kEthArp = 0x0806;
inline constexpr uint16_t kEthVlan = 0x8100;  ///< 802.1Q: the tag, or the inner of two
inline constexpr uint16_t kEthQinq = 0x88A8;  ///< 802.1ad: the outer of two
inline constexpr uint16_t kEthIpv6 = 0x86DD;
inline constexpr uint16_t kEthTypeMin = 0x0600;  ///< below it the field is an 802.3 length
inline constexpr unsigned kEthBytes = 14;
inline constexpr unsigned kVlanBytes = 4;
inline constexpr unsigned kEthBytesMax = kEthBytes + 2 * kVlanBytes;
inline constexpr uint16_t kVlanIdMask = 0x0FFF;  ///< of a TCI; above it drop bit and priority
inline constexpr unsigned kVlanPcpShift = 13;    ///< of the priority (PCP)

struct EthHeader {
  Mac destination;
  Mac source;
  uint16_t type = 0;  ///< of what follows the tags
  uint8_t vlan_count = 0;
  std::array<uint16_t, 2> vlan_tci{};  ///< outer first
  [[nodiscard]] constexpr unsigned bytes() const { return kEthBytes + vlan_count * kVlanBytes; }
  bool operator==(const EthHeader&) const = default;
};

/// Drops: kTruncated, kVlanStacked (three tags), kEthType (802.3 length).
[[nodiscard]] Decoded<EthHeader> eth_decode(Bytes frame);
/// Writes header.bytes() bytes; returns how many. A single tag is 802.1Q, of two the outer is 802.1ad.
unsigned eth_encode(const EthHeader& header, std::byte* out);

}  // namespace ulnet::dpdk
