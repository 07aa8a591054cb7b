// The IP addresses of a port: which are ours, and over which neighbour a destination is reached. Fixed while the port
// runs. Pure, any thread.
#pragma once
#include <optional>
#include <vector>

#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

inline constexpr unsigned kStaticNeighboursMax = 512;  ///< of one port; the cache keeps as many places for others
inline constexpr unsigned kPortAddressesMax = 16;      ///< IP addresses of one port

struct PortAddresses {
  std::vector<IpPrefix> own;
  std::optional<IpAddress> gateway_v4;  ///< for destinations on no link of ours
  std::optional<IpAddress> gateway_v6;

  [[nodiscard]] bool is_ours(const IpAddress& address) const {
    for (const IpPrefix& prefix : own)
      if (prefix.address == address) return true;
    return false;
  }
  /// Group address that we listen to: all nodes, and the solicited-node groups of our addresses.
  [[nodiscard]] bool is_our_group(const IpAddress& address) const {
    if (address == kAllNodes) return true;
    for (const IpPrefix& prefix : own)
      if (!prefix.address.is_v4() && solicited_node(prefix.address) == address) return true;
    return false;
  }
  /// Directed broadcast of a link of ours, or 255.255.255.255.
  [[nodiscard]] bool is_broadcast(const IpAddress& address) const {
    if (!address.is_v4()) return false;
    for (const IpPrefix& prefix : own) {
      // The cheap test is first: each packet passes here.
      if (prefix.bits < 31 && (~address.v4() & (0xFFFFFFFFu >> prefix.bits)) == 0 && prefix.covers(address))
        return true;
    }
    return address.v4() == 0xFFFFFFFF;
  }
  /// The neighbour that gets a packet for `destination`; null: no route.
  [[nodiscard]] const IpAddress* next_hop(const IpAddress& destination) const {
    for (const IpPrefix& prefix : own)
      if (prefix.covers(destination)) return &destination;
    const auto& gateway = destination.is_v4() ? gateway_v4 : gateway_v6;
    return gateway ? &*gateway : nullptr;
  }
  /// Our address to send from: the one on the link of `hop`, else the first of its family; null: none.
  [[nodiscard]] const IpAddress* source_for(const IpAddress& hop) const {
    const IpAddress* any = nullptr;
    for (const IpPrefix& prefix : own) {
      if (prefix.covers(hop)) return &prefix.address;
      if (any == nullptr && prefix.address.is_v4() == hop.is_v4()) any = &prefix.address;
    }
    return any;
  }
};

}  // namespace ulnet::dpdk
