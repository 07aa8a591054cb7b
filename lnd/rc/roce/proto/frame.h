// The packets of one direction of a connection, from IP to ICRC. IP and UDP come from a template. Pure. Thread: any;
// one at a time.
#pragma once
#include <array>

#include "lnd/net/packet/net_address.h"
#include "lnd/rc/roce/proto/headers.h"
#include "lnd/rc/roce/proto/icrc.h"

namespace ulnet::rc::roce {

inline constexpr unsigned kFrameHeadMax = kIcrcHeadV6 + kRethBytes;  ///< from IP to the extended headers

struct FlowAddresses {
  dpdk::IpAddress source, destination;
  uint16_t source_port = 0;  ///< UDP: udp_source_port()
  uint8_t traffic_class = 0;
};

class FrameHead {
 public:
  explicit FrameHead(const FlowAddresses& flow);
  /// Writes IP, UDP and BTH, kIcrcHeadV4 or kIcrcHeadV6 bytes; returns how many. `behind`: bytes of extended headers,
  /// payload and padding, without the ICRC. `identification`: IPv4 only; packets that are not fragmented need none.
  unsigned write(const Bth& bth, uint32_t behind, std::byte* out, uint16_t identification = 0) const;

 private:
  /// The words of the headers, as they lie in memory. Zero: lengths, identification, IPv4 checksum, and all of the BTH.
  std::array<uint64_t, kIcrcHeadV6 / 8> template_{};
  bool v4_;
  uint16_t checksum_ = 0;  ///< of a packet with no bytes behind UDP; IPv4 only
};

/// Zeros behind a payload of this length.
[[nodiscard]] constexpr uint8_t pad_bytes_of(uint32_t payload_bytes) {
  return uint8_t(-payload_bytes & 3);
}

}  // namespace ulnet::rc::roce
