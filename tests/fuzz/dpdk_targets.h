// Fuzz targets of the decoders for packets, which any host on the same link can send. As targets.h.
#pragma once
#include <cstddef>
#include <span>

namespace ulnet::fuzz {

using Bytes = std::span<const std::byte>;

void fuzz_dpdk_frame(Bytes in);  ///< an Ethernet frame, down to UDP, ARP, ICMP or neighbour discovery
void fuzz_dpdk_arp(Bytes in);    ///< the bytes behind EtherType 0x0806
void fuzz_dpdk_nd(Bytes in);     ///< first byte: facts from the IP header; then an ICMPv6 message

struct DpdkTarget {
  const char* name;
  void (*run)(Bytes);
};
inline constexpr DpdkTarget kDpdkTargets[] = {{"frame", fuzz_dpdk_frame}, {"arp", fuzz_dpdk_arp}, {"nd", fuzz_dpdk_nd}};

}  // namespace ulnet::fuzz
