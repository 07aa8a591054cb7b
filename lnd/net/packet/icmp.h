// ICMP and ICMPv6 echo (RFC 792, RFC 4443). Of other messages only type, code and checksum are read. Pure, any thread.
#pragma once
#include "lnd/net/packet/ip.h"

namespace ulnet::dpdk {

inline constexpr unsigned kIcmpEchoBytes = 8;  ///< of the header; the data follow

enum class IcmpKind : uint8_t { kEchoRequest, kEchoReply, kOther };

struct IcmpHeader {
  IcmpKind kind = IcmpKind::kOther;
  uint8_t type = 0;
  uint8_t code = 0;
  uint16_t checksum = 0;
  uint16_t identifier = 0;  ///< of an echo
  uint16_t sequence = 0;
};

/// `message`: its first bytes, at least 8. `v6`: ICMPv6. Checksum not verified here. Drops: kTruncated, kIcmpFormat (an
/// echo with a code).
[[nodiscard]] Decoded<IcmpHeader> icmp_decode(Bytes message, bool v6);
/// Writes an echo's 8 bytes, the checksum as it stands there; returns how many.
unsigned icmp_echo_encode(const IcmpHeader& header, bool v6, std::byte* out);
/// Turns an echo request into its reply in place, with its checksum; `message` needs the 8 bytes only. The pseudo
/// header of ICMPv6 stays the same, since the addresses only change places.
void icmp_echo_answer(std::byte* message, bool v6);

}  // namespace ulnet::dpdk
