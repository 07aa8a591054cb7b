// The queues of flows. Devices that spread by RSS have the key and table of the model; other devices are not modelled.
#include "lnd/net/dpdk/rss.h"

#include <rte_ethdev.h>

#include "lnd/net/packet/net_address_text.h"
#include "tests/unit/dpdk/loop_port.h"

namespace ulnet::dpdk {
namespace {

class DpdkRssPort : public testing::Test {
 protected:
  void open(const char* device, unsigned workers) {
    PortConfig config;
    config.name = "spread";
    config.device = device;
    config.in_flight = 0;
    config.rx_depth = config.tx_depth = 64;
    index = LoopPort::next_index();
    auto opened = Port::open(config, workers, index);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    port = std::move(*opened);
  }
  std::unique_ptr<Port> port;
  unsigned index = 0;
};

/// A second Toeplitz hash, bit by bit after its definition. Each input bit that is set adds the 32 bits of key that
/// begin at its place.
uint32_t toeplitz(std::span<const uint8_t> key, std::span<const uint8_t> input) {
  uint32_t hash = 0;
  for (size_t bit = 0; bit < input.size() * 8; ++bit) {
    if ((input[bit / 8] >> (7 - bit % 8) & 1) == 0) continue;
    uint32_t window = 0;
    for (size_t i = 0; i < 32; ++i) window = window << 1 | (key[(bit + i) / 8] >> (7 - (bit + i) % 8) & 1);
    hash ^= window;
  }
  return hash;
}

std::vector<uint8_t> bytes_of(const FlowKey& flow, bool ports) {
  std::vector<uint8_t> out;
  const int from = flow.source.is_v4() ? 12 : 0;
  out.insert(out.end(), flow.source.bytes.begin() + from, flow.source.bytes.end());
  out.insert(out.end(), flow.destination.bytes.begin() + from, flow.destination.bytes.end());
  if (ports)
    for (const uint16_t port : {flow.source_port, flow.destination_port}) {
      out.push_back(uint8_t(port >> 8));
      out.push_back(uint8_t(port));
    }
  return out;
}

// Goal: the model gives the same queue as a device that has the model's key and table.
// Method: DPDK's null device takes both and gives them back. The test computes the hash from them itself.
TEST_F(DpdkRssPort, a_device_has_the_models_key_and_table) {
  ASSERT_NO_FATAL_FAILURE(open("null", 4));
  ASSERT_TRUE(port->rss().known);
  uint16_t id = 0;
  ASSERT_EQ(0, rte_eth_dev_get_port_by_name(("net_null" + std::to_string(index)).c_str(), &id));
  std::array<uint8_t, 40> key{};
  rte_eth_rss_conf conf{};
  conf.rss_key = key.data();
  conf.rss_key_len = uint8_t(key.size());
  ASSERT_EQ(0, rte_eth_dev_rss_hash_conf_get(id, &conf));
  rte_eth_dev_info info;
  ASSERT_EQ(0, rte_eth_dev_info_get(id, &info));
  std::vector<rte_eth_rss_reta_entry64> table(info.reta_size / 64);
  for (auto& part : table) part.mask = UINT64_MAX;
  ASSERT_EQ(0, rte_eth_dev_rss_reta_query(id, table.data(), info.reta_size));
  std::array<unsigned, 4> landed{};
  for (unsigned i = 0; i < 1000; ++i) {
    FlowKey flow{ip_parse(i % 2 == 0 ? "10.1.2.3" : "fd00::7:3").value(),
                 ip_parse(i % 2 == 0 ? "10.1.9.9" : "fd00::7:9").value(), uint16_t(40000 + i * 7), 4791};
    flow.source.bytes[15] = uint8_t(i);
    const bool ports = i % 2 == 0 ? port->rss().udp_ports_v4 : port->rss().udp_ports_v6;
    const uint32_t hash = toeplitz(key, bytes_of(flow, ports)) % info.reta_size;
    const uint16_t queue = table[hash / 64].reta[hash % 64];
    ASSERT_EQ(queue, port->rss().queue_of(flow)) << i;
    ++landed[queue];
  }
  for (const unsigned count : landed) EXPECT_GT(count, 150u);  // evenly: 250 each
}

TEST_F(DpdkRssPort, others_are_not_modelled) {
  ASSERT_NO_FATAL_FAILURE(open("ring", 2));
  EXPECT_FALSE(port->rss().known);
  EXPECT_FALSE(port->show().offloads.rss);
  ASSERT_NO_FATAL_FAILURE(open("null", 1));  // one queue: nothing to spread
  EXPECT_FALSE(port->rss().known);
}

}  // namespace
}  // namespace ulnet::dpdk
