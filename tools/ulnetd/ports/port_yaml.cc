#include "tools/ulnetd/ports/port_yaml.h"

#include <fmt/format.h>

#include "lnd/net/packet/net_address_text.h"

namespace ulnet {
namespace {

tl::unexpected<config::Problem> wrong(const config::DeviceConfig& device, const char* key, const std::string& text,
                                      const char* wanted) {
  return config::fail(EINVAL, fmt::format("ulnet: devices: {}: {}: '{}' is not {}", device.name, key, text, wanted));
}

constexpr const char* kMacForm = "a MAC address such as 02:00:00:00:00:01";

using config::Doc;
using Drops = std::array<uint64_t, size_t(dpdk::FrameDrop::kCount)>;

Doc bursts_doc(std::span<const uint64_t> counts) {
  constexpr std::array<const char*, dpdk::QueueCounters::kBurstClasses> kClasses{"1",     "2-3",   "4-7", "8-15",
                                                                                 "16-31", "32-63", "64"};
  Doc doc = Doc::map();
  for (size_t i = 0; i < counts.size(); ++i) doc.set(kClasses[i], counts[i]);
  return doc;
}

Doc drops_doc(const Drops& drops) {
  Doc doc = Doc::map();
  for (size_t i = 0; i < drops.size(); ++i)
    if (drops[i] != 0) doc.set(text_of(dpdk::FrameDrop(i)).name, drops[i]);
  return doc;
}

Doc offloads_doc(const dpdk::PortOffloads& its) {
  Doc doc = Doc::map();
  const auto where = [](bool device) { return device ? "device" : "software"; };
  doc.set("rx checksum", where(its.rx_ip_checksum && its.rx_udp_checksum));
  doc.set("tx checksum", where(its.tx_ip_checksum && its.tx_udp_checksum));
  doc.set("multi segment", its.multi_segment ? "device" : "copied");
  doc.set("scatter", its.scatter ? "yes" : "no");
  doc.set("rss", its.rss ? "yes" : "no");
  return doc;
}

Doc queue_doc(const dpdk::QueueShown& its, const PortWorker& worker) {
  Doc doc = Doc::map();
  doc.set("queue", uint64_t{its.queue});
  doc.set("rx packets", its.rx_packets);
  doc.set("rx bytes", its.rx_bytes);
  doc.set("tx packets", its.tx_packets);
  doc.set("tx bytes", its.tx_bytes);
  doc.set("polls", its.polls);
  doc.set("polls empty", its.polls_empty);
  doc.set("rx packets per burst", bursts_doc(its.rx_bursts));
  doc.set("tx packets per burst", bursts_doc(its.tx_bursts));
  doc.set("busy cycles", worker.busy_cycles());
  doc.set("idle cycles", worker.idle_cycles());
  doc.set("copied", its.copied);
  doc.set("drops", drops_doc(its.drops));
  Doc& buffers = doc.set("buffers", Doc::map());
  buffers.set("total", uint64_t{its.pool_size});
  buffers.set("free", uint64_t{its.pool_free});
  buffers.set("held", uint64_t{its.pool_held});
  buffers.set("held max", uint64_t{its.pool_held_max});
  if (its.interrupts_missed > 0) doc.set("interrupts missed", its.interrupts_missed);
  doc.set("sleeps on", its.sleeps_on_interrupt ? "interrupt" : "timer");
  return doc;
}

}  // namespace

config::Checked<dpdk::PortConfig> port_config_of(const config::DeviceConfig& device) {
  dpdk::PortConfig port;
  port.name = device.name;
  port.device = device.device;
  port.mtu = uint16_t(device.mtu);
  port.vlan = uint16_t(device.vlan);
  port.pcp = uint8_t(device.pcp);
  port.queues = uint16_t(device.queues);
  port.rx_depth = uint16_t(device.rx_depth);
  port.tx_depth = uint16_t(device.tx_depth);
  port.in_flight = uint32_t(device.in_flight.value_or(port.in_flight));
  port.hold_small = device.in_flight.has_value();
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

Doc port_doc(LivePort& port, int verbosity) {
  const dpdk::PortShown shown = port.show();
  Doc doc = Doc::map();
  doc.set("name", shown.name);
  doc.set("device", shown.device);
  doc.set("driver", shown.driver);
  doc.set("status", !shown.is_open ? "closed" : shown.link.up ? "up" : "down");
  if (const Problem* problem = port.problem(); problem != nullptr) doc.set("problem", problem->what);
  doc.set("speed", uint64_t{shown.link.speed_mbps});
  doc.set("mac", dpdk::mac_text(shown.mac));
  doc.set("mtu", uint64_t{shown.mtu});
  if (shown.vlan != 0) doc.set("vlan", uint64_t{shown.vlan});
  if (shown.pcp != 0) doc.set("pcp", uint64_t{shown.pcp});
  Doc addresses = Doc::list();
  for (const auto& prefix : port.port().config().addresses.own) addresses.push(Doc(dpdk::prefix_text(prefix)));
  doc.set("addresses", std::move(addresses));
  doc.set("queues", uint64_t{shown.queues.size()});
  doc.set("offloads", offloads_doc(shown.offloads));
  dpdk::QueueShown sum;
  Drops drops{};
  uint64_t dropped = 0;
  for (const auto& queue : shown.queues) {
    sum.rx_packets += queue.rx_packets;
    sum.rx_bytes += queue.rx_bytes;
    sum.tx_packets += queue.tx_packets;
    sum.tx_bytes += queue.tx_bytes;
    for (size_t i = 0; i < drops.size(); ++i) drops[i] += queue.drops[i];
  }
  for (const uint64_t count : drops) dropped += count;
  Doc& statistics = doc.set("statistics", Doc::map());
  statistics.set("rx packets", sum.rx_packets);
  statistics.set("rx bytes", sum.rx_bytes);
  statistics.set("tx packets", sum.tx_packets);
  statistics.set("tx bytes", sum.tx_bytes);
  statistics.set("dropped", dropped);
  statistics.set("resets", shown.resets);
  statistics.set("resets failed", shown.resets_failed);
  if (verbosity < 1) return doc;
  doc.set("drops", drops_doc(drops));
  Doc& device = doc.set("device counts", Doc::map());
  device.set("missed", shown.missed);
  device.set("rx errors", shown.rx_errors);
  device.set("tx errors", shown.tx_errors);
  device.set("no buffer", shown.no_buffer);
  if (verbosity < 2) return doc;
  Doc& queues = doc.set("queue", Doc::list());
  for (size_t i = 0; i < shown.queues.size(); ++i) queues.push(queue_doc(shown.queues[i], port.worker(unsigned(i))));
  return doc;
}

}  // namespace ulnet
