// Where a flow lands: the Toeplitz hash that NICs spread flows by, as DPDK models it (rte_softrss). Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

/// One direction of a UDP flow.
struct FlowKey {
  IpAddress source;
  IpAddress destination;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
};

/// Microsoft's key, which most NICs have, so that its published vectors check the model.
inline constexpr std::array<uint8_t, 40> kRssKey{0x6D, 0x5A, 0x56, 0xDA, 0x25, 0x5B, 0x0E, 0xC2, 0x41, 0x67,
                                                 0x25, 0x3D, 0x43, 0xA3, 0x8F, 0xB0, 0xD0, 0xCA, 0x2B, 0xCB,
                                                 0xAE, 0x7B, 0x30, 0xB4, 0x77, 0xCB, 0x2D, 0xA3, 0x80, 0x30,
                                                 0xF2, 0x0C, 0x6A, 0x42, 0xB7, 0x3B, 0xBE, 0xAC, 0x01, 0xFA};

/// `ports`: the NIC takes UDP ports into the hash, else addresses only.
[[nodiscard]] uint32_t rss_hash(const FlowKey& flow, bool ports);

/// How a port spreads arriving flows over its queues.
struct RssModel {
  bool known = false;  ///< the device has our key and table; else only arriving frames show their queue
  bool udp_ports_v4 = false, udp_ports_v6 = false;  ///< of the family: UDP ports are in the hash
  std::vector<uint16_t> redirection;  ///< queue by hash modulo size
  /// Queue on which frames of this flow arrive. Requires known.
  [[nodiscard]] uint16_t queue_of(const FlowKey& flow) const {
    const bool ports = flow.source.is_v4() ? udp_ports_v4 : udp_ports_v6;
    return redirection[rss_hash(flow, ports) % redirection.size()];
  }
};

}  // namespace ulnet::dpdk
