#include "lnd/net/packet/udp.h"

namespace ulnet::dpdk {

unsigned udp_encode(const UdpHeader& header, std::byte* out) {
  wire::store<uint16_t>(out, header.source_port, true);
  wire::store<uint16_t>(out + 2, header.destination_port, true);
  wire::store<uint16_t>(out + 4, uint16_t(kUdpBytes + header.payload_bytes), true);
  wire::store<uint16_t>(out + 6, header.checksum, true);
  return kUdpBytes;
}

}  // namespace ulnet::dpdk
