#include "tools/ulnetd/ports/port_config_of.h"

#include <fmt/format.h>

#include "lnd/net/packet/net_address_text.h"

namespace ulnet {
namespace {

tl::unexpected<TextError> wrong(const config::DeviceConfig& device, const char* key, const std::string& text,
                                const char* wanted) {
  return fail_text(EINVAL, fmt::format("ulnet: devices: {}: {}: '{}' is not {}", device.name, key, text, wanted));
}

constexpr const char* kMacForm = "a MAC address such as 02:00:00:00:00:01";

}  // namespace

TextResult<dpdk::PortConfig> port_config_of(const config::DeviceConfig& device) {
  dpdk::PortConfig port;
  port.name = device.name;
  port.device = device.device;
  port.mtu = uint16_t(device.mtu);
  port.vlan = uint16_t(device.vlan);
  port.queues = uint16_t(device.queues);
  port.rx_depth = uint16_t(device.rx_depth);
  port.tx_depth = uint16_t(device.tx_depth);
  port.in_flight = uint32_t(device.in_flight);
  for (const std::string& text : device.addresses) {
    const auto prefix = dpdk::prefix_parse(text);
    if (!prefix) return wrong(device, "addresses", text, "an IP address with prefix length such as 10.0.0.1/24");
    port.addresses.own.push_back(*prefix);
  }
  for (const std::string& text : device.gateways) {
    const auto gateway = dpdk::ip_parse(text);
    if (!gateway) return wrong(device, "gateways", text, "an IP address such as 10.0.0.254");
    auto& slot = gateway->is_v4() ? port.addresses.gateway_v4 : port.addresses.gateway_v6;
    if (slot) return wrong(device, "gateways", text, "the only one of its family");
    slot = *gateway;
  }
  for (const auto& one : device.neighbours) {
    const auto address = dpdk::ip_parse(one.address);
    if (!address) return wrong(device, "neighbours", one.address, "an IP address such as 10.0.0.2");
    const auto mac = dpdk::mac_parse(one.mac);
    if (!mac) return wrong(device, "neighbours", one.mac, kMacForm);
    port.neighbours.push_back({*address, *mac});
  }
  if (!device.mac.empty()) {
    const auto mac = dpdk::mac_parse(device.mac);
    if (!mac) return wrong(device, "mac", device.mac, kMacForm);
    port.mac = *mac;
  }
  return port;
}

}  // namespace ulnet
