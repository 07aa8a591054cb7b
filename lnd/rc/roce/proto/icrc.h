// The invariant CRC (ICRC) of RoCEv2, over pieces of any length. Pure, any thread. Source: docs/wire/roce.md §3.
#pragma once
#include <array>

#include "lnd/net/packet/udp.h"
#include "lnd/rc/roce/proto/headers.h"

namespace ulnet::rc::roce {

/// The part of a packet that the ICRC takes with bits masked: IP header without options or extensions, UDP, BTH.
inline constexpr unsigned kIcrcHeadV4 = dpdk::kIpv4Bytes + dpdk::kUdpBytes + kBthBytes;
inline constexpr unsigned kIcrcHeadV6 = dpdk::kIpv6Bytes + dpdk::kUdpBytes + kBthBytes;

/// The pieces of a small packet are gathered, and the CRC is computed at once. Zeros before them make kTogether bytes,
/// since the library is fastest from this length on (perf/notebook.md).
class Icrc {
 public:
  /// `head`: kIcrcHeadV4 or kIcrcHeadV6 bytes, as they are sent. `behind`: how many bytes add() will bring.
  Icrc(Bytes head, size_t behind);
  /// The next bytes behind the head: extended headers, payload, padding, in order.
  void add(Bytes piece);
  /// Goes on the wire with its lowest byte first. Requires: all bytes were added.
  [[nodiscard]] uint32_t value() const;

 private:
  static constexpr uint32_t kTogether = 256;
  [[nodiscard]] std::byte* gathered() { return memory_.data() + kTogether; }

  const bool gathers_;
  uint32_t crc_ = 0;                                         ///< unless it gathers
  uint32_t bytes_ = 0;                                       ///< gathered
  alignas(64) std::array<std::byte, 2 * kTogether> memory_;  ///< zeros, then what is gathered
};

}  // namespace ulnet::rc::roce
