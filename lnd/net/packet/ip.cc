#include "lnd/net/packet/ip.h"

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {
namespace {

constexpr uint16_t kDontFragment = 0x4000;
constexpr uint16_t kMoreFragments = 0x2000;
constexpr uint16_t kFragmentOffset = 0x1FFF;
constexpr uint8_t kIpv6Fragment = 44;

bool is_extension(uint8_t next_header) {
  constexpr uint8_t kHopByHop = 0, kRouting = 43, kEsp = 50, kAuthentication = 51, kDestination = 60, kMobility = 135;
  return next_header == kHopByHop || next_header == kRouting || next_header == kEsp || next_header == kAuthentication ||
         next_header == kDestination || next_header == kMobility;
}

Decoded<void> decode_v4(Bytes packet, size_t packet_bytes, ChecksumCheck check, IpHeader& out) {
  if (packet.size() < kIpv4Bytes) return drop(FrameDrop::kTruncated);
  const std::byte* at = packet.data();
  const unsigned header_bytes = 4 * (uint8_t(at[0]) & 15u);
  if (uint8_t(at[0]) >> 4 != 4 || header_bytes < kIpv4Bytes) return drop(FrameDrop::kIpHeader);
  if (packet.size() < header_bytes) return drop(FrameDrop::kTruncated);
  const unsigned total_bytes = wire::load<uint16_t>(at + 2, true);
  if (total_bytes < header_bytes || total_bytes > packet_bytes) return drop(FrameDrop::kIpLength);
  if (check == ChecksumCheck::kVerify) {
    Checksum sum;
    sum.add(packet.first(header_bytes));
    if (sum.value() != 0) return drop(FrameDrop::kIpChecksum);
    out.checksum_verified = true;
  }
  const auto fragment = wire::load<uint16_t>(at + 6, true);
  if ((fragment & (kMoreFragments | kFragmentOffset)) != 0) return drop(FrameDrop::kIpFragment);
  out.source = IpAddress::of_v4(wire::load<uint32_t>(at + 12, true));
  out.destination = IpAddress::of_v4(wire::load<uint32_t>(at + 16, true));
  out.protocol = uint8_t(at[9]);
  out.ttl = uint8_t(at[8]);
  out.traffic_class = uint8_t(at[1]);
  out.header_bytes = uint16_t(header_bytes);
  out.payload_bytes = uint16_t(total_bytes - header_bytes);
  out.identification = wire::load<uint16_t>(at + 4, true);
  out.may_fragment = (fragment & kDontFragment) == 0;
  return {};
}

Decoded<void> decode_v6(Bytes packet, size_t packet_bytes, IpHeader& out) {
  if (packet.size() < kIpv6Bytes) return drop(FrameDrop::kTruncated);
  const std::byte* at = packet.data();
  const auto first = wire::load<uint32_t>(at, true);
  if (first >> 28 != 6) return drop(FrameDrop::kIpHeader);
  out.payload_bytes = wire::load<uint16_t>(at + 4, true);
  if (size_t{kIpv6Bytes} + out.payload_bytes > packet_bytes) return drop(FrameDrop::kIpLength);
  out.protocol = uint8_t(at[6]);
  if (out.protocol == kIpv6Fragment) return drop(FrameDrop::kIpFragment);
  if (is_extension(out.protocol)) return drop(FrameDrop::kIpExtension);
  out.traffic_class = uint8_t(first >> 20);
  out.flow_label = first & 0xFFFFF;
  out.ttl = uint8_t(at[7]);
  out.header_bytes = kIpv6Bytes;
  std::memcpy(out.source.bytes.data(), at + 8, 16);
  std::memcpy(out.destination.bytes.data(), at + 24, 16);
  if (out.source.is_v4() || out.destination.is_v4()) return drop(FrameDrop::kIpHeader);  // never on the wire (RFC 4942)
  return {};
}

}  // namespace

Decoded<IpHeader> ipv4_decode(Bytes packet, size_t packet_bytes, ChecksumCheck check) {
  Decoded<IpHeader> out;
  if (const auto read = decode_v4(packet, packet_bytes, check, *out); !read) out = drop(read.error());
  return out;
}

Decoded<IpHeader> ipv6_decode(Bytes packet, size_t packet_bytes) {
  Decoded<IpHeader> out;
  if (const auto read = decode_v6(packet, packet_bytes, *out); !read) out = drop(read.error());
  return out;
}

unsigned ip_encode(const IpHeader& header, std::byte* out) {
  if (!header.is_v4()) {
    wire::store<uint32_t>(out, 0x60000000u | uint32_t(header.traffic_class) << 20 | (header.flow_label & 0xFFFFF),
                          true);
    wire::store<uint16_t>(out + 4, header.payload_bytes, true);
    out[6] = std::byte{header.protocol};
    out[7] = std::byte{header.ttl};
    std::memcpy(out + 8, header.source.bytes.data(), 16);
    std::memcpy(out + 24, header.destination.bytes.data(), 16);
    return kIpv6Bytes;
  }
  out[0] = std::byte{0x45};
  out[1] = std::byte{header.traffic_class};
  wire::store<uint16_t>(out + 2, uint16_t(kIpv4Bytes + header.payload_bytes), true);
  wire::store<uint16_t>(out + 4, header.identification, true);
  wire::store<uint16_t>(out + 6, header.may_fragment ? uint16_t{0} : kDontFragment, true);
  out[8] = std::byte{header.ttl};
  out[9] = std::byte{header.protocol};
  wire::store<uint16_t>(out + 10, 0);
  std::memcpy(out + 12, header.source.bytes.data() + 12, 4);
  std::memcpy(out + 16, header.destination.bytes.data() + 12, 4);
  Checksum sum;
  sum.add({out, kIpv4Bytes});
  wire::store<uint16_t>(out + 10, sum.value(), true);
  return kIpv4Bytes;
}

Checksum pseudo_header(const IpHeader& header, uint32_t upper_bytes) {
  Checksum sum;
  const size_t from = header.is_v4() ? 12 : 0;
  sum.add(std::as_bytes(std::span(header.source.bytes).subspan(from)));
  sum.add(std::as_bytes(std::span(header.destination.bytes).subspan(from)));
  sum.add32(upper_bytes);
  sum.add16(header.protocol);
  return sum;
}

}  // namespace ulnet::dpdk
