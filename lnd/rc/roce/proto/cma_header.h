// The header that rdma_cm puts in front of a REQ's private data: which IP addresses and port the active side uses.
// Pure, any thread. Source: docs/wire/roce.md §7.6.
#pragma once
#include <optional>
#include <span>

#include "lnd/net/packet/checksum.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::rc::roce {

inline constexpr unsigned kCmaHeaderBytes = 36;

/// Service id of the CM for a port of RDMA_PS_TCP.
[[nodiscard]] constexpr uint64_t service_id_of(uint16_t port) {
  return uint64_t{0x0106} << 16 | port;
}

struct CmaHeader {
  dpdk::IpAddress source, destination;  ///< both of one family
  uint16_t source_port = 0;
};

void cma_encode(const CmaHeader& header, std::span<std::byte, kCmaHeaderBytes> out);
/// Nothing if the version is another one, or the IP version neither 4 nor 6.
[[nodiscard]] std::optional<CmaHeader> cma_decode(std::span<const std::byte, kCmaHeaderBytes> in);

}  // namespace ulnet::rc::roce
