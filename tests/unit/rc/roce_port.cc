#include "tests/unit/rc/roce_port.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/eth.h"
#include "lnd/net/packet/udp.h"
#include "tests/unit/dpdk/loop_port.h"

namespace ulnet::test {

using namespace dpdk;

IpAddress ring_address(unsigned index) {
  return IpAddress::of_v4(0x0A000000 + index);
}

Mac ring_mac(unsigned index) {
  return {{2, 0, 0, 0, 0, uint8_t(index)}};
}

PortConfig ring_config(const std::string& name, unsigned own) {
  PortConfig config;
  config.name = name;
  config.device = "ring";
  config.mac = ring_mac(own);
  config.rx_depth = config.tx_depth = 64;
  config.addresses.own = {IpPrefix{ring_address(own), 24}};
  for (unsigned other = 1; other < 10; ++other)
    if (other != own) config.neighbours.push_back({ring_address(other), ring_mac(other)});
  return config;
}

std::unique_ptr<Port> ring_open(const PortConfig& config, Instant now, unsigned workers) {
  auto opened = Port::open(config, workers, LoopPort::next_index());
  EXPECT_TRUE(opened.has_value()) << opened.error().what;
  if (!opened) return nullptr;
  ring_start(**opened, now);
  return std::move(*opened);
}

void ring_start(Port& port, Instant now) {
  port.start();
  for (unsigned i = 0; i < port.queue_count(); ++i) (void)port.queue(i).receive({}, now);
}

void ring_stop(Port& port, Instant now) {
  port.stop_begin();
  for (unsigned i = 0; i < port.queue_count(); ++i) (void)port.queue(i).receive({}, now);
  EXPECT_TRUE(port.stopped());
}

FrameBytes frame_of(unsigned from, unsigned to, const FrameBytes& payload, const FrameShape& shape) {
  EthHeader eth{ring_mac(to), ring_mac(from), kEthIpv4, uint8_t(shape.vlan_tags.size()), {}};
  std::copy(shape.vlan_tags.begin(), shape.vlan_tags.end(), eth.vlan_tci.begin());
  FrameBytes frame(eth.bytes() + kIpv4Bytes + shape.option_bytes + kUdpBytes);
  std::byte* const ip = frame.data() + eth_encode(eth, frame.data());
  IpHeader header;
  header.source = ring_address(from);
  header.destination = ring_address(to);
  header.protocol = kProtocolUdp;
  header.traffic_class = shape.traffic_class;
  header.identification = shape.identification;
  header.payload_bytes = uint16_t(shape.option_bytes + kUdpBytes + payload.size());
  ip_encode(header, ip);
  const unsigned ip_bytes = kIpv4Bytes + shape.option_bytes;
  if (shape.option_bytes != 0) {
    ip[0] = std::byte(0x40 | ip_bytes / 4);
    std::fill(ip + kIpv4Bytes, ip + ip_bytes, std::byte{1});  // the option that means nothing
    wire::store<uint16_t>(ip + 10, 0);
    Checksum sum;
    sum.add({ip, ip_bytes});
    wire::store<uint16_t>(ip + 10, sum.value(), true);
  }
  udp_encode({shape.source_port, shape.destination_port, uint16_t(payload.size()), 0}, ip + ip_bytes);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

FrameBytes bytes_of(size_t count, uint8_t first) {
  FrameBytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = std::byte(uint8_t(first + i * 7 + (i >> 8)));
  return bytes;
}

void ring_put(PortQueue& queue, const FrameBytes& frame, Instant now, const std::vector<uint32_t>& cuts) {
  rte_mbuf* packet = nullptr;
  size_t cut = 0;
  for (size_t at = 0; at < frame.size();) {
    rte_mbuf* one = queue.pool().take();
    ASSERT_NE(one, nullptr);
    const size_t here =
        std::min<size_t>({frame.size() - at, rte_pktmbuf_tailroom(one), cut < cuts.size() ? cuts[cut] : SIZE_MAX});
    std::copy_n(frame.begin() + ptrdiff_t(at), here, rte_pktmbuf_mtod(one, std::byte*));
    one->data_len = uint16_t(here);
    one->pkt_len = uint32_t(here);
    at += here;
    ++cut;
    if (packet == nullptr)
      packet = one;
    else
      ASSERT_EQ(rte_pktmbuf_chain(packet, one), 0);
  }
  ASSERT_EQ(queue.send({&packet, 1}, now), 1u);
}

std::vector<FrameBytes> ring_take(PortQueue& queue, Instant now) {
  std::vector<FrameBytes> frames;
  std::array<rte_mbuf*, kBurst> packets;
  while (const unsigned count = queue.receive(packets, now)) {
    for (unsigned i = 0; i < count; ++i) {
      FrameBytes& frame = frames.emplace_back();
      for (const rte_mbuf* one = packets[i]; one != nullptr; one = one->next) {
        const auto* at = rte_pktmbuf_mtod(one, const std::byte*);
        frame.insert(frame.end(), at, at + one->data_len);
      }
      packet_free(packets[i]);
    }
  }
  return frames;
}

}  // namespace ulnet::test
