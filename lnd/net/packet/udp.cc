#include "lnd/net/packet/udp.h"

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {

Decoded<UdpHeader> udp_decode(Bytes datagram, size_t datagram_bytes) {
  if (datagram.size() < kUdpBytes || datagram_bytes < kUdpBytes) return drop(FrameDrop::kTruncated);
  const auto length = wire::load<uint16_t>(datagram.data() + 4, true);
  if (length < kUdpBytes || length > datagram_bytes) return drop(FrameDrop::kUdpLength);
  return UdpHeader{wire::load<uint16_t>(datagram.data(), true), wire::load<uint16_t>(datagram.data() + 2, true),
                   uint16_t(length - kUdpBytes), wire::load<uint16_t>(datagram.data() + 6, true)};
}

unsigned udp_encode(const UdpHeader& header, std::byte* out) {
  wire::store<uint16_t>(out, header.source_port, true);
  wire::store<uint16_t>(out + 2, header.destination_port, true);
  wire::store<uint16_t>(out + 4, uint16_t(kUdpBytes + header.payload_bytes), true);
  wire::store<uint16_t>(out + 6, header.checksum, true);
  return kUdpBytes;
}

}  // namespace ulnet::dpdk
