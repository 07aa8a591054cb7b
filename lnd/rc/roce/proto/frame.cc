#include "lnd/rc/roce/proto/frame.h"

#include <cstring>

#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/udp.h"

namespace ulnet::rc::roce {
namespace {

using dpdk::kIpv4Bytes;
using dpdk::kIpv6Bytes;
using dpdk::kUdpBytes;

}  // namespace

FrameHead::FrameHead(const FlowAddresses& flow) : v4_(flow.source.is_v4()) {
  dpdk::IpHeader ip;
  ip.source = flow.source;
  ip.destination = flow.destination;
  ip.protocol = dpdk::kProtocolUdp;
  ip.traffic_class = flow.traffic_class;
  ip.payload_bytes = kUdpBytes;
  std::array<std::byte, kIpv6Bytes + kUdpBytes> bytes{};
  const unsigned ip_bytes = dpdk::ip_encode(ip, bytes.data());
  dpdk::udp_encode({flow.source_port, kUdpPort, 0, 0}, bytes.data() + ip_bytes);
  if (v4_) checksum_ = wire::load<uint16_t>(bytes.data() + 10, true);
  if (v4_) std::memset(bytes.data() + 10, 0, 2);
  std::memset(bytes.data() + (v4_ ? 2 : 4), 0, 2);
  std::memset(bytes.data() + ip_bytes + 4, 0, 2);
  std::memcpy(template_.data(), bytes.data(), bytes.size());
}

/// In whole words, as the next steps read them: a load from parts that were just written is slow (store_pair()).
unsigned FrameHead::write(const Bth& bth, uint32_t behind, std::byte* out, uint16_t identification) const {
  const auto field = [](uint16_t value) { return uint64_t{wire::byte_swap(value)}; };
  const auto udp_bytes = uint16_t(kUdpBytes + kBthBytes + behind + kIcrcBytes);
  const auto [kind, receiver, psn] = bth_words(bth);
  const auto put = [out](size_t word, uint64_t value) { wire::store<uint64_t>(out + 8 * word, value); };
  if (v4_) {
    const auto bytes = uint16_t(kIpv4Bytes + udp_bytes);
    uint16_t sum = dpdk::checksum_update(checksum_, kIpv4Bytes + kUdpBytes, bytes);
    if (identification != 0) sum = dpdk::checksum_update(sum, 0, identification);
    put(0, template_[0] | field(bytes) << 16 | field(identification) << 32);
    put(1, template_[1] | field(sum) << 16);
    put(2, template_[2]);
    put(3, field(udp_bytes) | uint64_t{kind} << 32);
    put(4, receiver | uint64_t{psn} << 32);
    return kIcrcHeadV4;
  }
  put(0, template_[0] | field(udp_bytes) << 32);
  for (size_t word = 1; word < 5; ++word) put(word, template_[word]);
  put(5, template_[5] | field(udp_bytes) << 32);
  put(6, kind | uint64_t{receiver} << 32);
  wire::store<uint32_t>(out + 56, psn);
  return kIcrcHeadV6;
}

}  // namespace ulnet::rc::roce
