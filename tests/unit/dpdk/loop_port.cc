#include "tests/unit/dpdk/loop_port.h"

#include <numeric>

#include "lnd/net/dpdk/eal.h"
#include "lnd/net/packet/net_address_text.h"

namespace ulnet::dpdk {
namespace {

class EalForAll final : public testing::Environment {
 public:
  void SetUp() override {
    EalConfig config{{0}, {}, {}, {}, 128};
    config.program = "unit_dpdk_port";
    auto started = Eal::start(config);
    ASSERT_TRUE(started.has_value()) << started.error().what;
    eal_ = std::move(*started);
  }
  void TearDown() override { eal_.reset(); }

 private:
  std::unique_ptr<Eal> eal_;
};

[[maybe_unused]] const testing::Environment* const kEal = testing::AddGlobalTestEnvironment(new EalForAll);

}  // namespace

unsigned LoopPort::next_index() {
  static unsigned next = 0;
  return next++;
}

void LoopPort::SetUp() {
  PortConfig config;
  config.name = "loop";
  config.device = "ring";
  config.mtu = 9000;
  config.in_flight = 40;
  config.rx_depth = config.tx_depth = 64;
  config.addresses.own = {prefix_parse("10.0.0.1/24").value()};
  config.neighbours = {{ip_parse("10.0.0.2").value(), mac_parse("02:00:00:00:00:02").value()}};
  auto opened = Port::open(config, 1, next_index());
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  port = std::move(*opened);
  start();
  memory.resize(9000);
  std::iota(memory.begin(), memory.end(), 0);
}

void LoopPort::TearDown() {
  stop();
  EXPECT_TRUE(port->packets_conserved());
}

void LoopPort::start() {
  port->start();
  (void)queue().receive({}, now);  // stops, if requested
}

void LoopPort::stop() {
  port->stop_begin();
  (void)queue().receive({}, now);
  ASSERT_TRUE(port->stopped());
}

Payload LoopPort::payload(uint32_t bytes) {
  segments[0] = {reinterpret_cast<std::byte*>(memory.data()), 1000};
  segments[1] = {reinterpret_cast<std::byte*>(memory.data()) + 1000, 8000};
  return {segments, 2, 0, bytes};
}

rte_mbuf* LoopPort::packet_of(std::vector<std::byte> bytes) {
  const Segment all{bytes.data(), uint32_t(bytes.size())};
  PayloadCursor cursor(Payload{&all, 1, 0, all.bytes});
  return frame_make(pool(), {}, cursor, all.bytes, nullptr, true);
}

}  // namespace ulnet::dpdk
