#include "lnd/rc/roce/proto/frame.h"

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
  const unsigned ip_bytes = dpdk::ip_encode(ip, template_.data());
  dpdk::udp_encode({flow.source_port, kUdpPort, 0, 0}, template_.data() + ip_bytes);
  if (v4_) checksum_ = wire::load<uint16_t>(template_.data() + 10, true);
}

unsigned FrameHead::write(const Bth& bth, uint32_t behind, std::byte* out, uint16_t identification) const {
  const unsigned ip_bytes = v4_ ? kIpv4Bytes : kIpv6Bytes;
  const auto udp_bytes = uint16_t(kUdpBytes + kBthBytes + behind + kIcrcBytes);
  std::memcpy(out, template_.data(), ip_bytes + kUdpBytes);
  if (v4_) {
    const auto bytes = uint16_t(kIpv4Bytes + udp_bytes);
    uint16_t sum = dpdk::checksum_update(checksum_, kIpv4Bytes + kUdpBytes, bytes);
    if (identification != 0) sum = dpdk::checksum_update(sum, 0, identification);
    wire::store<uint16_t>(out + 2, bytes, true);
    wire::store<uint16_t>(out + 4, identification, true);
    wire::store<uint16_t>(out + 10, sum, true);
  } else {
    wire::store<uint16_t>(out + 4, udp_bytes, true);
  }
  wire::store<uint16_t>(out + ip_bytes + 4, udp_bytes, true);
  return ip_bytes + kUdpBytes + bth_encode(bth, out + ip_bytes + kUdpBytes);
}

}  // namespace ulnet::rc::roce
