#include "lnd/net/packet/udp.h"

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {
namespace {

Decoded<void> decode(Bytes datagram, size_t datagram_bytes, UdpHeader& out) {
  if (datagram.size() < kUdpBytes || datagram_bytes < kUdpBytes) return drop(FrameDrop::kTruncated);
  const auto length = wire::load<uint16_t>(datagram.data() + 4, true);
  if (length < kUdpBytes || length > datagram_bytes) return drop(FrameDrop::kUdpLength);
  out.source_port = wire::load<uint16_t>(datagram.data(), true);
  out.destination_port = wire::load<uint16_t>(datagram.data() + 2, true);
  out.payload_bytes = uint16_t(length - kUdpBytes);
  out.checksum = wire::load<uint16_t>(datagram.data() + 6, true);
  return {};
}

}  // namespace

Decoded<UdpHeader> udp_decode(Bytes datagram, size_t datagram_bytes) {
  Decoded<UdpHeader> out;
  if (const auto read = decode(datagram, datagram_bytes, *out); !read) out = drop(read.error());
  return out;
}

unsigned udp_encode(const UdpHeader& header, std::byte* out) {
  wire::store<uint16_t>(out, header.source_port, true);
  wire::store<uint16_t>(out + 2, header.destination_port, true);
  wire::store<uint16_t>(out + 4, uint16_t(kUdpBytes + header.payload_bytes), true);
  wire::store<uint16_t>(out + 6, header.checksum, true);
  return kUdpBytes;
}

}  // namespace ulnet::dpdk
