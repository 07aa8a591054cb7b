// The CRC is that of Ethernet and gzip. The library of DPDK that computes it cannot go on where a piece ended, so it is
// ISA-L's, which is also several times faster (perf/notebook.md).
#include "lnd/rc/roce/proto/icrc.h"

#include <isa-l/crc.h>

#include <array>

#include "dataplane/base/check.h"

namespace ulnet::rc::roce {
namespace {

constexpr uint32_t kAfterEightOnes = ~0xDEBB'20E3u;  ///< of 8 bytes 0xFF, which stand for the header of InfiniBand
constexpr std::byte kMasked{0xFF};

uint32_t crc32(uint32_t before, const std::byte* at, size_t bytes) {
  return crc32_gzip_refl(before, reinterpret_cast<const unsigned char*>(at), bytes);
}

/// TOS, TTL and header checksum.
void mask_v4(std::byte* ip) {
  ip[1] = ip[8] = ip[10] = ip[11] = kMasked;
}
/// Traffic class and flow label, hop limit.
void mask_v6(std::byte* ip) {
  ip[0] |= std::byte{0x0F};
  ip[1] = ip[2] = ip[3] = ip[7] = kMasked;
}

}  // namespace

Icrc::Icrc(Bytes head) {
  ULNET_CHECK(head.size() == kIcrcHeadV4 || head.size() == kIcrcHeadV6);
  std::array<std::byte, kIcrcHeadV6> masked;
  std::memcpy(masked.data(), head.data(), head.size());
  const bool v4 = head.size() == kIcrcHeadV4;
  if (v4) {
    mask_v4(masked.data());
  } else {
    mask_v6(masked.data());
  }
  std::byte* udp = masked.data() + (v4 ? dpdk::kIpv4Bytes : dpdk::kIpv6Bytes);
  udp[6] = udp[7] = kMasked;           // checksum
  udp[dpdk::kUdpBytes + 4] = kMasked;  // FECN, BECN and reserved bits of the BTH
  crc_ = crc32(kAfterEightOnes, masked.data(), head.size());
}

void Icrc::add(Bytes piece) {
  crc_ = crc32(crc_, piece.data(), piece.size());
}

}  // namespace ulnet::rc::roce
