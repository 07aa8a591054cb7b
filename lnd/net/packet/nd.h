// IPv6 neighbour discovery (RFC 4861): neighbour solicitations and advertisements. Checksums are the caller's. Pure,
// any thread.
#pragma once
#include "lnd/net/packet/ip.h"

namespace ulnet::dpdk {

inline constexpr uint8_t kNdSolicitation = 135;
inline constexpr uint8_t kNdAdvertisement = 136;
inline constexpr uint8_t kNdHopLimit = 255;  ///< anything else has passed a router and is forged
inline constexpr unsigned kNdBytes = 24;     ///< without options
inline constexpr unsigned kNdBytesMax = 32;  ///< with our one option

struct NdMessage {
  bool advertisement = false;  ///< else a solicitation
  IpAddress target;
  bool solicited = false;  ///< advertisements: it answers a solicitation
  bool overrides = false;  ///< advertisements: to replace what was known
  bool has_mac = false;
  Mac mac;  ///< link-layer address: of the sender in a solicitation, of the target in an advertisement
  bool operator==(const NdMessage&) const = default;
};

/// `message`: the whole ICMPv6 message, type 135 or 136. Drops: kTruncated, kNdFormat.
[[nodiscard]] Decoded<NdMessage> nd_decode(const IpHeader& ip, Bytes message);
/// Writes 24 bytes, or 32 with has_mac; the checksum is 0. Returns how many.
unsigned nd_encode(const NdMessage& message, std::byte* out);

}  // namespace ulnet::dpdk
