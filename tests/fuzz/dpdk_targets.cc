// See dpdk_targets.h. The properties: nothing is read beyond the input (sanitizers). An accepted part lies within the
// frame, and encodes and decodes to the same again.
#include "tests/fuzz/dpdk_targets.h"

#include "dataplane/base/check.h"
#include "lnd/net/packet/arp.h"
#include "lnd/net/packet/eth.h"
#include "lnd/net/packet/icmp.h"
#include "lnd/net/packet/nd.h"
#include "lnd/net/packet/udp.h"

namespace ulnet::fuzz {
namespace {

using namespace dpdk;

void check_ip_again(const IpHeader& header) {
  std::array<std::byte, kIpv6Bytes> out;
  const unsigned bytes = ip_encode(header, out.data());
  const auto part = Bytes(out).first(bytes);
  const size_t packet_bytes = size_t{bytes} + header.payload_bytes;
  if (packet_bytes > 0xFFFF && header.is_v4()) return;  // was shorter by its options
  const auto again =
      header.is_v4() ? ipv4_decode(part, packet_bytes, ChecksumCheck::kVerify) : ipv6_decode(part, packet_bytes);
  ULNET_CHECK(again.has_value() && again->source == header.source && again->destination == header.destination);
  ULNET_CHECK(again->protocol == header.protocol && again->payload_bytes == header.payload_bytes);
  ULNET_CHECK(again->ttl == header.ttl && again->traffic_class == header.traffic_class);
  ULNET_CHECK(again->flow_label == header.flow_label && again->may_fragment == header.may_fragment);
}

void upper(const IpHeader& ip, Bytes body) {
  if (ip.protocol == kProtocolUdp) {
    const auto udp = udp_decode(body, body.size());
    if (!udp) return;
    ULNET_CHECK(size_t{kUdpBytes} + udp->payload_bytes <= body.size());
    std::array<std::byte, kUdpBytes> out;
    udp_encode(*udp, out.data());
    ULNET_CHECK(std::memcmp(out.data(), body.data(), kUdpBytes) == 0);
  } else if (const auto icmp = icmp_decode(body, !ip.is_v4())) {
    if (!ip.is_v4()) (void)nd_decode(ip, body);
    if (icmp->kind != IcmpKind::kEchoRequest) return;
    std::array<std::byte, kIcmpEchoBytes> out;
    icmp_echo_encode(*icmp, !ip.is_v4(), out.data());
    ULNET_CHECK(std::memcmp(out.data(), body.data(), kIcmpEchoBytes) == 0);
    icmp_echo_answer(out.data(), !ip.is_v4());
    ULNET_CHECK(icmp_decode(out, !ip.is_v4())->kind == IcmpKind::kEchoReply);
  }
}

}  // namespace

void fuzz_dpdk_frame(Bytes in) {
  const auto eth = eth_decode(in);
  if (!eth) return;
  ULNET_CHECK(eth->bytes() <= in.size());
  std::array<std::byte, kEthBytesMax> out;
  ULNET_CHECK(eth_encode(*eth, out.data()) == eth->bytes());
  ULNET_CHECK(eth_decode(Bytes(out).first(eth->bytes())).value() == *eth);
  const Bytes packet = in.subspan(eth->bytes());
  if (eth->type == kEthArp) return fuzz_dpdk_arp(packet);
  if (eth->type != kEthIpv4 && eth->type != kEthIpv6) return;
  const auto ip = eth->type == kEthIpv4 ? ipv4_decode(packet, packet.size(), ChecksumCheck::kSkip)
                                        : ipv6_decode(packet, packet.size());
  if (!ip) return;
  ULNET_CHECK(size_t{ip->header_bytes} + ip->payload_bytes <= packet.size());
  check_ip_again(*ip);
  upper(*ip, packet.subspan(ip->header_bytes, ip->payload_bytes));
}

void fuzz_dpdk_arp(Bytes in) {
  const auto packet = arp_decode(in);
  if (!packet) return;
  std::array<std::byte, kArpBytes> out;
  ULNET_CHECK(arp_encode(*packet, out.data()) == kArpBytes);
  ULNET_CHECK(std::memcmp(out.data(), in.data(), kArpBytes) == 0);
}

void fuzz_dpdk_nd(Bytes in) {
  if (in.empty()) return;
  IpHeader ip;
  const auto bits = uint8_t(in[0]);
  ip.ttl = (bits & 1) != 0 ? 64 : kNdHopLimit;
  ip.source = (bits & 2) != 0 ? IpAddress{} : IpAddress{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  ip.destination = (bits & 4) != 0 ? kAllNodes : IpAddress{{0xFD}};
  const auto message = nd_decode(ip, in.subspan(1));
  if (!message) return;
  ULNET_CHECK(ip.ttl == kNdHopLimit && !message->target.is_group());
  std::array<std::byte, kNdBytesMax> out;
  const unsigned bytes = nd_encode(*message, out.data());
  ULNET_CHECK(nd_decode(ip, Bytes(out).first(bytes)).value() == *message);
}

}  // namespace ulnet::fuzz
