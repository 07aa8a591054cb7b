// Numbers of a RoCE path: MTU codes, flow label and UDP port, times of timers, GUID. Pure, any thread. Source:
// docs/wire/roce.md §1, §4, §5, §7.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/time.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::rc::roce {

/// Payload bytes of a packet: code 1 to 5.
[[nodiscard]] constexpr uint32_t mtu_bytes(uint8_t code) {
  return 128u << code;
}
[[nodiscard]] constexpr bool mtu_code_valid(uint8_t code) {
  return code >= 1 && code <= 5;
}
/// The code for an interface with this MTU, as the Linux RoCE core chooses it; 0: the MTU is too small.
[[nodiscard]] constexpr uint8_t mtu_code(uint32_t link_mtu) {
  constexpr uint32_t kHeaders = 96;
  uint8_t code = 5;
  while (code > 0 && mtu_bytes(code) + kHeaders > link_mtu) --code;
  return code;
}

/// Flow label of a connection by its CM ports, 20 bits, as Linux sets it for IPv4.
[[nodiscard]] constexpr uint32_t flow_label(uint16_t source_port, uint16_t destination_port) {
  return (uint32_t{source_port} * 31 + destination_port) & 0xFFFFF;
}
/// For a connection whose REQ has no flow label.
[[nodiscard]] constexpr uint32_t flow_label_of_qpns(uint32_t local_qpn, uint32_t remote_qpn) {
  uint64_t value = uint64_t{local_qpn} * remote_qpn;
  value ^= value >> 20;
  value ^= value >> 40;
  return uint32_t(value & 0xFFFFF);
}
/// UDP source port of both directions of a connection. Requires: 20 bits.
[[nodiscard]] constexpr uint16_t udp_source_port(uint32_t label) {
  return uint16_t(0xC000 | ((label & 0x3FFF) ^ (label >> 14)));
}
/// UDP source port of a UD queue pair, as rdma_rxe chooses it.
[[nodiscard]] constexpr uint16_t udp_source_port_ud(uint32_t qpn) {
  return uint16_t(0xC000 + (uint32_t(qpn * 0x61C8'8647u) >> 18));
}

/// Time of a 5-bit timeout: 4.096 us * 2^code. Code 0 means "never" in an ACK timeout.
[[nodiscard]] constexpr Duration timeout_of(uint8_t code) {
  return Duration(int64_t{4096} << code);
}

/// Wait of an RNR NAK.
[[nodiscard]] constexpr Duration rnr_wait(uint8_t code) {
  constexpr std::array<uint32_t, 32> kUnits{65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                            48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                            2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Duration(int64_t{10'000} * kUnits[code & 31]);
}

/// EUI-64 of a MAC address: the GUID of its port.
[[nodiscard]] constexpr uint64_t guid_of(const dpdk::Mac& mac) {
  const std::array<uint8_t, 8> bytes{
      uint8_t(mac.bytes[0] ^ 2), mac.bytes[1], mac.bytes[2], 0xFF, 0xFE, mac.bytes[3], mac.bytes[4], mac.bytes[5]};
  uint64_t guid = 0;
  for (const uint8_t byte : bytes) guid = guid << 8 | byte;
  return guid;
}

}  // namespace ulnet::rc::roce
