// UDP headers: bytes to struct and back. Pure, any thread.
#pragma once
#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/ip.h"

namespace ulnet::dpdk {

inline constexpr unsigned kUdpBytes = 8;

struct UdpHeader {
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t payload_bytes = 0;
  uint16_t checksum = 0;  ///< 0 = none; IPv6 too, as RoCE sends it (RFC 6936, docs/wire/roce.md §1)
};

/// `datagram`: the bytes behind the IP header, at least the first 8; `datagram_bytes`: the IP header's payload_bytes.
/// The UDP length may be less than that, as RFC 768 allows. Drops: kTruncated, kUdpLength.
[[nodiscard]] inline Decoded<UdpHeader> udp_decode(Bytes datagram, size_t datagram_bytes) {
  if (datagram.size() < kUdpBytes || datagram_bytes < kUdpBytes) return drop(FrameDrop::kTruncated);
  const auto length = wire::load<uint16_t>(datagram.data() + 4, true);
  if (length < kUdpBytes || length > datagram_bytes) return drop(FrameDrop::kUdpLength);
  return UdpHeader{wire::load<uint16_t>(datagram.data(), true), wire::load<uint16_t>(datagram.data() + 2, true),
                   uint16_t(length - kUdpBytes), wire::load<uint16_t>(datagram.data() + 6, true)};
}
/// Writes 8 bytes, `checksum` as it stands there; returns how many.
unsigned udp_encode(const UdpHeader& header, std::byte* out);
/// The checksum field for this header and the payload that `sum` holds: 0 is sent as 0xFFFF. `sum`: pseudo_header(),
/// then the UDP header with checksum 0, then the payload.
[[nodiscard]] inline uint16_t udp_checksum_field(const Checksum& sum) {
  const uint16_t value = sum.value();
  return value == 0 ? uint16_t{0xFFFF} : value;
}

}  // namespace ulnet::dpdk
