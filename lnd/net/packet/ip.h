// IPv4 and IPv6 headers: bytes to struct and back. Fragments are refused, not put together; IPv4 options are skipped;
// IPv6 extension headers are refused. Pure, any thread.
#pragma once
#include "lnd/net/packet/checksum.h"
#include "lnd/net/packet/drops.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

inline constexpr unsigned kIpv4Bytes = 20;
inline constexpr unsigned kIpv6Bytes = 40;
inline constexpr uint8_t kProtocolIcmp = 1;
inline constexpr uint8_t kProtocolUdp = 17;
inline constexpr uint8_t kProtocolIcmpv6 = 58;
inline constexpr uint8_t kIpTtl = 64;  ///< of packets that ulnet sends

/// Both versions; is_v4() decides by the source address.
struct IpHeader {
  IpAddress source;
  IpAddress destination;
  uint8_t protocol = 0;
  uint8_t ttl = kIpTtl;       ///< IPv6: hop limit
  uint8_t traffic_class = 0;  ///< IPv4: TOS
  uint16_t header_bytes = 0;  ///< set by decoding; 20 or 40 when encoded
  uint16_t payload_bytes = 0;
  uint16_t identification = 0;     ///< IPv4 only
  bool may_fragment = false;       ///< IPv4: DF is not set
  uint32_t flow_label = 0;         ///< IPv6 only
  bool checksum_verified = false;  ///< set by decoding: computed here and right
  [[nodiscard]] bool is_v4() const { return source.is_v4(); }
};

enum class ChecksumCheck : uint8_t { kVerify, kSkip };  ///< kSkip: the port has verified it

/// `packet`: the first bytes (all headers, or everything there is); `packet_bytes`: how long the packet is in all, with
/// Ethernet's padding. Drops: kTruncated, kIpHeader, kIpLength, kIpChecksum, kIpFragment.
[[nodiscard]] Decoded<IpHeader> ipv4_decode(Bytes packet, size_t packet_bytes, ChecksumCheck check);
/// As above. Drops: kTruncated, kIpHeader, kIpLength, kIpFragment, kIpExtension.
[[nodiscard]] Decoded<IpHeader> ipv6_decode(Bytes packet, size_t packet_bytes);

/// Writes 20 or 40 bytes, the IPv4 checksum included; returns how many.
unsigned ip_encode(const IpHeader& header, std::byte* out);

/// A sum with the pseudo header of UDP or ICMPv6 (RFC 768, RFC 8200 §8.1).
[[nodiscard]] Checksum pseudo_header(const IpHeader& header, uint32_t upper_bytes);

}  // namespace ulnet::dpdk
