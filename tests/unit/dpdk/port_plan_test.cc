// The plan of a port before it is opened: device texts, limits, the sum of its buffers, and the queues of flows.
#include <gtest/gtest.h>

#include "lnd/net/dpdk/pool_plan.h"
#include "lnd/net/dpdk/rss.h"
#include "lnd/net/packet/net_address_text.h"

namespace ulnet::dpdk {
namespace {

PortConfig port(const char* device, uint16_t mtu = 1500) {
  PortConfig config;
  config.name = "rail0";
  config.device = device;
  config.mtu = mtu;
  return config;
}

std::string check(const PortConfig& config, unsigned queues = 1) {
  const auto spec = device_spec(config.device);
  if (!spec) return spec.error().what;
  const auto checked = port_config_check(config, *spec, queues);
  return checked ? "ok" : checked.error().what + std::string(" / ") + std::to_string(checked.error().object);
}

std::string vdev(const PortConfig& config, unsigned queues = 1) {
  return vdev_arguments(config, device_spec(config.device).value(), queues, 3);
}

TEST(DpdkPortPlan, device_texts) {
  EXPECT_EQ(DeviceKind::kPci, device_spec("0000:03:00.0")->kind);
  EXPECT_EQ("03:00.1", device_spec("03:00.1")->pci);
  EXPECT_EQ("eth0", device_spec("af_xdp,iface=eth0,busy_budget=0")->parameter("iface"));
  EXPECT_EQ("", device_spec("memif,role=server")->parameter("rol"));
  for (const char* bad : {"", "eth0", "af_packet", "af_xdp,if=eth0", "0000:03:00.0,x=1", "000:03:00.0", "0000:03:00.g"})
    EXPECT_FALSE(device_spec(bad).has_value()) << bad;
}

TEST(DpdkPortPlan, limits_are_reported) {
  EXPECT_EQ("ok", check(port("memif", 9000)));
  EXPECT_EQ("memif's zero-copy is not supported: DPDK loses packets when the other process goes / 0",
            check(port("memif,role=client,zero-copy=yes")));
  EXPECT_EQ("ok", check(port("af_packet,iface=a", 9000), 4));
  EXPECT_EQ("one frame must fit into one page, together with XDP's and DPDK's own bytes / 3498",
            check(port("af_xdp,iface=a", 3499)));
  EXPECT_EQ("this kind of device has fewer queues than there are workers / 16", check(port("tap"), 17));
  PortConfig config = port("null", 1279);
  config.addresses.own = {prefix_parse("fd00::1/64").value()};
  EXPECT_EQ("the MTU is below 576 (IPv6: 1280) / 0", check(config));
  config = port("null");
  config.vlan = 4095;
  EXPECT_EQ("a VLAN id is 1 to 4094 / 0", check(config));
  config = port("null");
  config.pcp = 8;
  EXPECT_EQ("a priority (PCP) is 0 to 7 / 0", check(config));
  config = port("null");
  config.addresses.own = {prefix_parse("224.0.0.1/4").value()};
  EXPECT_EQ("a group or unspecified address cannot be an address of a port / 0", check(config));
}

TEST(DpdkPortPlan, virtual_devices) {
  EXPECT_EQ("net_af_packet3,iface=a,qpairs=4,framecnt=512", vdev(port("af_packet,iface=a"), 4));
  EXPECT_EQ("net_af_packet3,iface=a,qpairs=1,framesz=16384,blocksz=65536,framecnt=512",
            vdev(port("af_packet,iface=a", 9000)));
  EXPECT_EQ("net_memif3,role=client,bsize=2048,rsize=9", vdev(port("memif,role=client")));
  EXPECT_EQ("net_memif3,role=client,rsize=12,bsize=9216", vdev(port("memif,role=client,rsize=12", 9000)));
  EXPECT_EQ("net_null3", vdev(port("null"), 4));
}

TEST(DpdkPortPlan, buffers) {
  EXPECT_EQ(16384u, buffer_shape(port("", 9000), DeviceKind::kAfPacket, true).data_bytes);
  EXPECT_EQ(5u, buffer_shape(port("", 9000), DeviceKind::kPci, true).segments);
  EXPECT_EQ(9216u, buffer_shape(port("", 9000), DeviceKind::kPci, false).data_bytes);
  EXPECT_EQ(1u, buffer_shape(port("", 2026), DeviceKind::kPci, true).segments);
  EXPECT_EQ(2u, buffer_shape(port("", 2027), DeviceKind::kPci, true).segments);
  EXPECT_LE(buffer_shape(port("", 3498), DeviceKind::kAfXdp, false).data_bytes + 320, 4096u);
}

// Goal: the sum equals its lines. If every queue is full and all buffers are held, a quarter is free.
TEST(DpdkPortPlan, a_quarter_stays_free) {
  for (const uint32_t in_flight : {0u, 100u, 5000u})
    for (const uint16_t depth : {uint16_t{32}, uint16_t{512}, uint16_t{4096}}) {
      PortConfig config = port("null", 9000);
      config.in_flight = in_flight;
      config.rx_depth = config.tx_depth = depth;
      const PoolPlan plan = pool_plan(config, {2048, 5});
      uint32_t sum = 0;
      for (const auto& line : plan.lines) sum += line.buffers;
      EXPECT_EQ(sum, plan.buffers);
      EXPECT_GE(plan.lines.back().buffers, plan.buffers / 4);
      EXPECT_EQ(in_flight * 5, plan.held_max);
    }
}

// Goal: the memory for DPDK suffices for the plan of the open device, with a quarter to spare. Devices ring and null
// scatter a frame, memif never does, and a NIC may do either.
TEST(DpdkPortPlan, memory_for_dpdk_suffices_for_the_open_device) {
  struct {
    const char* device;
    bool scatter;
  } const cases[] = {{"0000:03:00.0", false}, {"0000:03:00.0", true}, {"null", true}, {"ring", true}, {"memif", false}};
  for (const auto& c : cases) {
    const PortConfig config = port(c.device, 9000);
    const PoolPlan plan = pool_plan(config, buffer_shape(config, device_spec(c.device)->kind, c.scatter));
    EXPECT_GE(uint64_t{port_memory_mb({&config, 1}, 1)} << 20, plan.bytes * 5 / 4 + (47 << 20)) << c.device;
  }
}

// The vectors that Microsoft publishes with its key (IPv4 and IPv6, addresses only and with ports).
TEST(DpdkRss, published_vectors) {
  const auto flow = [](const char* source, uint16_t source_port, const char* destination, uint16_t destination_port) {
    return FlowKey{ip_parse(source).value(), ip_parse(destination).value(), source_port, destination_port};
  };
  const FlowKey first = flow("66.9.149.187", 2794, "161.142.100.80", 1766);
  EXPECT_EQ(0x323E8FC2u, rss_hash(first, false));
  EXPECT_EQ(0x51CCC178u, rss_hash(first, true));
  const FlowKey second = flow("199.92.111.2", 14230, "65.69.140.83", 4739);
  EXPECT_EQ(0xD718262Au, rss_hash(second, false));
  EXPECT_EQ(0xC626B0EAu, rss_hash(second, true));
  const FlowKey v6 = flow("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766);
  EXPECT_EQ(0x2CC18CD5u, rss_hash(v6, false));
  EXPECT_EQ(0x40207D3Du, rss_hash(v6, true));
  RssModel model{true, true, {}};
  for (uint16_t i = 0; i < 128; ++i) model.redirection.push_back(i % 4);
  EXPECT_EQ((0x51CCC178u % 128) % 4, model.queue_of(first));
}

}  // namespace
}  // namespace ulnet::dpdk
