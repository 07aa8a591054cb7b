#include "lnd/net/packet/arp.h"

#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/eth.h"

namespace ulnet::dpdk {

Decoded<ArpPacket> arp_decode(Bytes body) {
  if (body.size() < kArpBytes) return drop(FrameDrop::kTruncated);
  const std::byte* at = body.data();
  const auto operation = wire::load<uint16_t>(at + 6, true);
  const bool ethernet = wire::load<uint16_t>(at, true) == 1 && at[4] == std::byte{6};
  const bool ipv4 = wire::load<uint16_t>(at + 2, true) == kEthIpv4 && at[5] == std::byte{4};
  if (!ethernet || !ipv4 || operation < 1 || operation > 2) return drop(FrameDrop::kArpFormat);
  ArpPacket out;
  out.reply = operation == 2;
  std::memcpy(out.sender_mac.bytes.data(), at + 8, 6);
  out.sender = IpAddress::of_v4(wire::load<uint32_t>(at + 14, true));
  std::memcpy(out.target_mac.bytes.data(), at + 18, 6);
  out.target = IpAddress::of_v4(wire::load<uint32_t>(at + 24, true));
  if (out.sender_mac.is_group() || out.sender_mac.is_zero() || out.sender.is_group())
    return drop(FrameDrop::kArpFormat);
  return out;
}

unsigned arp_encode(const ArpPacket& packet, std::byte* out) {
  wire::store<uint16_t>(out, 1, true);
  wire::store<uint16_t>(out + 2, kEthIpv4, true);
  out[4] = std::byte{6};
  out[5] = std::byte{4};
  wire::store<uint16_t>(out + 6, packet.reply ? 2 : 1, true);
  std::memcpy(out + 8, packet.sender_mac.bytes.data(), 6);
  wire::store<uint32_t>(out + 14, packet.sender.v4(), true);
  std::memcpy(out + 18, packet.target_mac.bytes.data(), 6);
  wire::store<uint32_t>(out + 24, packet.target.v4(), true);
  return kArpBytes;
}

}  // namespace ulnet::dpdk
