#include "lnd/net/packet/eth.h"

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {
namespace {

Decoded<void> decode(Bytes frame, EthHeader& out) {
  if (frame.size() < kEthBytes) return drop(FrameDrop::kTruncated);
  std::memcpy(out.destination.bytes.data(), frame.data(), 6);
  std::memcpy(out.source.bytes.data(), frame.data() + 6, 6);
  size_t at = 12;
  for (;; at += kVlanBytes) {
    if (frame.size() < at + 2) return drop(FrameDrop::kTruncated);
    out.type = wire::load<uint16_t>(frame.data() + at, true);
    if (out.type != kEthVlan && out.type != kEthQinq) break;
    if (out.vlan_count == out.vlan_tci.size()) return drop(FrameDrop::kVlanStacked);
    if (frame.size() < at + kVlanBytes) return drop(FrameDrop::kTruncated);
    out.vlan_tci[out.vlan_count++] = wire::load<uint16_t>(frame.data() + at + 2, true);
  }
  if (out.type < kEthTypeMin) return drop(FrameDrop::kEthType);
  return {};
}

}  // namespace

Decoded<EthHeader> eth_decode(Bytes frame) {
  Decoded<EthHeader> out;
  if (const auto read = decode(frame, *out); !read) out = drop(read.error());
  return out;
}

unsigned eth_encode(const EthHeader& header, std::byte* out) {
  std::memcpy(out, header.destination.bytes.data(), 6);
  std::memcpy(out + 6, header.source.bytes.data(), 6);
  unsigned at = 12;
  for (unsigned i = 0; i < header.vlan_count; ++i, at += kVlanBytes) {
    const bool outer_of_two = header.vlan_count == 2 && i == 0;
    wire::store<uint16_t>(out + at, outer_of_two ? kEthQinq : kEthVlan, true);
    wire::store<uint16_t>(out + at + 2, header.vlan_tci[i], true);
  }
  wire::store<uint16_t>(out + at, header.type, true);
  return at + 2;
}

}  // namespace ulnet::dpdk
