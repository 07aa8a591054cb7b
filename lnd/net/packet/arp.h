// ARP for IPv4 over Ethernet (RFC 826): bytes to struct and back. Pure, any thread.
#pragma once
#include "lnd/net/packet/checksum.h"
#include "lnd/net/packet/drops.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

inline constexpr unsigned kArpBytes = 28;

struct ArpPacket {
  bool reply = false;  ///< else a request
  Mac sender_mac;
  IpAddress sender;  ///< 0.0.0.0: a probe (RFC 5227), names nobody
  Mac target_mac;
  IpAddress target;
  bool operator==(const ArpPacket&) const = default;
};

/// `body`: the bytes behind the Ethernet header. Drops: kTruncated, kArpFormat (other hardware, protocol or operation;
/// a group as sender).
[[nodiscard]] Decoded<ArpPacket> arp_decode(Bytes body);
/// Writes 28 bytes.
unsigned arp_encode(const ArpPacket& packet, std::byte* out);

}  // namespace ulnet::dpdk
