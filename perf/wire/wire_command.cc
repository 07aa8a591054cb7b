// ulnet-perf wire: runs one app on a packet port. The result is the upper limit for LNet over that port.
#include "perf/wire/wire_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "lnd/net/packet/net_address_text.h"
#include "perf/wire/wire_run.h"

namespace ulnet::perf {
namespace {

/// Values that CLI11 fills, and that options.h has in types of its own.
struct Words {
  std::vector<std::string> addresses;
  std::vector<std::string> neighbours;  ///< "10.0.0.1=02:00:00:00:00:01"
  std::string peer, peer_mac, mac, idle = "adaptive";
  bool json = false;
  double seconds = 10;
  int64_t interval_us = 0;
};

void add_options(CLI::App& app, WireOptions& options, Words& words) {
  app.add_option("mode", options.app.mode, "serve (echo, the default), generate, ping, hold, macswap, rawgen")
      ->check(CLI::IsMember({"serve", "generate", "ping", "hold", "macswap", "rawgen"}));
  app.add_flag("--json", words.json, "Print the figures as one JSON object instead of a table");
  app.add_option("--device", options.port.device, "PCI address, or a kind with parameters")->required();
  app.add_option("--name", options.port.name);
  app.add_option("--address", words.addresses, "IP address with prefix length; may be repeated");
  app.add_option("--neighbour", words.neighbours, "ADDRESS=MAC, never resolved");
  app.add_option("--mac", words.mac);
  app.add_option("--mtu", options.port.mtu);
  app.add_option("--vlan", options.port.vlan);
  app.add_option("--pcp", options.port.pcp, "priority (802.1p) of the frames");
  app.add_option("--queues", options.port.queues);
  app.add_option("--rx-depth", options.port.rx_depth);
  app.add_option("--tx-depth", options.port.tx_depth);
  app.add_option("--in-flight", options.port.in_flight);
  app.add_option("--workers", options.workers);
  app.add_option("--cpu", options.cpus, "CPU of a worker; repeat for each worker");
  app.add_option("--idle", words.idle, "busy, adaptive, interrupt");
  app.add_option("--seconds", words.seconds);
  app.add_option("--memory-mb", options.memory_mb);
  app.add_option("--peer", words.peer);
  app.add_option("--peer-mac", words.peer_mac);
  app.add_option("--bytes", options.app.bytes);
  app.add_option("--count", options.app.count);
  app.add_option("--window", options.app.window);
  app.add_option("--interval-us", words.interval_us);
  app.add_option("--hold", options.app.hold);
  app.add_flag("--no-verify{false}", options.app.verify);
  app.add_flag("--flood-only", options.app.flood_only,
               "send to the discard port; end when the other side answers a ping behind the last packet");
  app.add_option("--capture", options.capture_path, "pcapng file of the packets that pass or are dropped");
  app.add_option("--filter", options.capture_filter);
}

/// Errors: EINVAL.
Result<void> convert(const Words& words, WireOptions& options) {
  const auto take = [](auto parsed, auto& into) -> Result<void> {
    if (!parsed) return tl::unexpected(parsed.error());
    into = *parsed;
    return {};
  };
  for (const std::string& text : words.addresses) {
    dpdk::IpPrefix prefix;
    if (auto done = take(dpdk::prefix_parse(text), prefix); !done) return done;
    options.port.addresses.own.push_back(prefix);
  }
  for (const std::string& text : words.neighbours) {
    dpdk::StaticNeighbour neighbour;
    const size_t at = std::min(text.find('='), text.size() - 1);
    if (auto done = take(dpdk::ip_parse(text.substr(0, at)), neighbour.address); !done) return done;
    if (auto done = take(dpdk::mac_parse(text.substr(at + 1)), neighbour.mac); !done) return done;
    options.port.neighbours.push_back(neighbour);
  }
  if (!words.peer.empty())
    if (auto done = take(dpdk::ip_parse(words.peer), options.app.peer); !done) return done;
  if (!words.peer_mac.empty())
    if (auto done = take(dpdk::mac_parse(words.peer_mac), options.app.peer_mac); !done) return done;
  if (!words.mac.empty()) {
    dpdk::Mac mac;
    if (auto done = take(dpdk::mac_parse(words.mac), mac); !done) return done;
    options.port.mac = mac;
  }
  options.idle.mode = words.idle == "busy"        ? IdleMode::kBusy
                      : words.idle == "interrupt" ? IdleMode::kInterrupt
                                                  : IdleMode::kAdaptive;
  options.duration = Duration{int64_t(words.seconds * 1e9)};
  options.app.interval = std::chrono::microseconds{words.interval_us};
  if (options.app.mode == "ping" && options.app.count == 0) options.app.count = 10;
  return {};
}

double microseconds(const nlohmann::json& latency, const char* key) {
  return latency.value(key, 0.0) / 1000;
}

/// A line of the table. A full disk makes no exception here: ulnet-perf checks its output at the end.
template <class... Values>
void put(fmt::format_string<Values...> format, Values&&... values) {
  std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), stdout);
}

/// A line for each worker, then the drops by reason.
void print_table(const nlohmann::json& figures) {
  put("{:>6} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "worker", "packets/s", "Gb/s", "p50 us",
      "p99 us", "p99.9 us", "max us", "lost", "corrupted", "cycles");
  unsigned index = 0;
  for (const auto& worker : figures.at("workers")) {
    const nlohmann::json latency = worker.value("latency_ns", nlohmann::json::object());
    put("{:>6} {:>12.0f} {:>9.3f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9} {:>9} {:>7.0f}\n", index++,
        worker.value("packets_per_second", 0.0), worker.value("bytes_per_second", 0.0) * 8e-9,
        microseconds(latency, "p50"), microseconds(latency, "p99"), microseconds(latency, "p999"),
        microseconds(latency, "max"), worker.value("lost", uint64_t{0}), worker.value("corrupted", uint64_t{0}),
        worker.value("cycles_per_packet", 0.0));
  }
  for (const auto& queue : figures.at("port").at("queues"))
    for (const auto& [reason, count] : queue.at("drops").items())
      put("queue {}: {} dropped: {}\n", queue.value("queue", 0), count.get<uint64_t>(), reason);
}

}  // namespace

int wire(int argc, char** argv) {
  CLI::App app{"Opens a packet port and runs one mode on it.", "ulnet-perf wire"};
  WireOptions options;
  options.port.name = "port0";
  Words words;
  add_options(app, options, words);
  CLI11_PARSE(app, argc, argv);
  if (auto done = convert(words, options); !done) {
    std::fprintf(stderr, "ulnet-perf wire: %s\n", done.error().what);
    return 2;
  }
  const nlohmann::json figures = wire_run(options);
  if (words.json || !figures.contains("workers")) {
    std::printf("%s\n", figures.dump().c_str());
  } else {
    print_table(figures);
  }
  return figures.contains("error") || !figures.value("packets_conserved", false) ? 1 : 0;
}

}  // namespace ulnet::perf
