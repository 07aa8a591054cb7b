// A packet that a port has received, and walks over its bytes.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "lnd/net/packet/checksum.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::rc::roce {

using dpdk::Bytes;
using dpdk::IpAddress;

inline constexpr unsigned kArrivalPieces = 6;  ///< of one packet that comes

/// A datagram for UDP port 4791. Its memory is the port's until the packet goes back (WorkerPort). The port sets each
/// field but `port`, since the same object is filled again and again.
struct Arrival {
  IpAddress source, destination;
  uint8_t traffic_class = 0;
  uint8_t port = 0;       ///< the provider's
  bool verified = false;  ///< the provider's: the ICRC is right
  uint32_t bytes = 0;     ///< behind the UDP header
  uint32_t piece_count = 0;
  /// The packet from its IP header on, which has no options or extensions. All headers are in the first piece.
  std::array<std::span<std::byte>, kArrivalPieces> pieces{};
  void* packet = nullptr;  ///< the port's
};

/// Calls `use` for the pieces of `bytes` bytes from `offset` on. False: there are not as many.
template <class F>
bool each_piece(const Arrival& arrival, uint32_t offset, uint32_t bytes, F&& use) {
  for (uint32_t i = 0; i < arrival.piece_count && bytes > 0; ++i) {
    const std::span<std::byte> piece = arrival.pieces[i];
    if (offset >= piece.size()) {
      offset -= uint32_t(piece.size());
      continue;
    }
    const uint32_t here = std::min(uint32_t(piece.size()) - offset, bytes);
    use(piece.subspan(offset, here));
    bytes -= here;
    offset = 0;
  }
  return bytes == 0;
}

inline bool copy(const Arrival& arrival, uint32_t offset, uint32_t bytes, std::byte* to) {
  return each_piece(arrival, offset, bytes, [&](Bytes piece) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  });
}

}  // namespace ulnet::rc::roce
