#include "tests/fuzz/dpdk_seeds.h"

#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/arp.h"
#include "lnd/net/packet/eth.h"
#include "lnd/net/packet/icmp.h"
#include "lnd/net/packet/nd.h"
#include "lnd/net/packet/udp.h"

namespace ulnet::fuzz {
namespace {

using namespace dpdk;

void append(Input& to, const std::byte* from, size_t bytes) {
  to.insert(to.end(), from, from + bytes);
}

Input frame_of(uint16_t type, uint8_t tags, const Input& packet) {
  std::byte head[kEthBytesMax];
  const unsigned bytes =
      eth_encode({{{2, 0, 0, 0, 0, 1}}, {{2, 0, 0, 0, 0, 2}}, type, tags, {uint16_t(100), uint16_t(7)}}, head);
  Input out(head, head + bytes);
  append(out, packet.data(), packet.size());
  return out;
}

Input packet_of(bool v6, uint8_t protocol, Input body) {
  IpHeader ip;
  ip.source = v6 ? IpAddress{{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}} : IpAddress::of_v4(0x0A000001);
  ip.destination = v6 ? IpAddress{{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}} : IpAddress::of_v4(0x0A000002);
  ip.protocol = protocol;
  ip.ttl = 255;
  ip.payload_bytes = uint16_t(body.size());
  if (protocol != kProtocolUdp) {
    Checksum sum = v6 ? pseudo_header(ip, uint32_t(body.size())) : Checksum{};
    sum.add(body);
    wire::store<uint16_t>(body.data() + 2, sum.value(), true);
  }
  std::byte head[kIpv6Bytes];
  Input out(head, head + ip_encode(ip, head));
  append(out, body.data(), body.size());
  return out;
}

Input arp_body(bool reply) {
  Input out(kArpBytes);
  arp_encode({reply, {{2, 0, 0, 0, 0, 2}}, IpAddress::of_v4(0x0A000001), {}, IpAddress::of_v4(0x0A000002)}, out.data());
  return out;
}

Input nd_body(bool advertisement) {
  Input out(kNdBytesMax);
  NdMessage message{advertisement,       {{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}}, false, false, true,
                    {{2, 0, 0, 0, 0, 2}}};
  nd_encode(message, out.data());
  return out;
}

}  // namespace

std::vector<Input> dpdk_seeds(std::string_view target) {
  if (target == "arp") return {arp_body(true), arp_body(false)};
  if (target == "nd") {
    std::vector<Input> out{nd_body(false), nd_body(true)};
    for (Input& input : out) input.insert(input.begin(), std::byte{0});
    return out;
  }
  Input udp(kUdpBytes + 40), echo(kIcmpEchoBytes + 56);
  udp_encode({0xC000, 4791, 40, 0}, udp.data());
  std::vector<Input> out;
  for (uint8_t tags = 0; tags <= 2; ++tags) {
    for (const bool reply : {false, true}) out.push_back(frame_of(kEthArp, tags, arp_body(reply)));
    for (const bool v6 : {false, true}) {
      icmp_echo_encode({IcmpKind::kEchoRequest, 0, 0, 0, 1, 2}, v6, echo.data());
      const uint16_t type = v6 ? kEthIpv6 : kEthIpv4;
      out.push_back(frame_of(type, tags, packet_of(v6, kProtocolUdp, udp)));
      out.push_back(frame_of(type, tags, packet_of(v6, v6 ? kProtocolIcmpv6 : kProtocolIcmp, echo)));
    }
    for (const bool advertisement : {false, true})
      out.push_back(frame_of(kEthIpv6, tags, packet_of(true, kProtocolIcmpv6, nd_body(advertisement))));
  }
  return out;
}

void dpdk_mutate(Input& input, Rng& rng) {
  const size_t at = size_t(rng.below(input.size() + 1));
  const bool inside = at < input.size();
  switch (rng.below(5)) {
    case 0:
      if (inside) input[at] ^= std::byte(1u << rng.below(8));
      break;
    case 1:
      if (inside) input[at] = std::byte(uint8_t(rng.next()));
      break;
    case 2: input.resize(at); break;
    case 3: input.insert(input.begin() + std::ptrdiff_t(at), std::byte(uint8_t(rng.next()))); break;
    case 4:
      if (inside) input.erase(input.begin() + std::ptrdiff_t(at));
      break;
  }
}

}  // namespace ulnet::fuzz
