// ulnet-wire: a port and what is done with it, from the command line; prints its figures as one JSON object, last.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "lnd/dpdk/net_address_text.h"
#include "perf/echo/wire_run.h"

namespace ulnet::perf {
namespace {

/// What CLI11 fills and options.h has in types of its own.
struct Words {
  std::vector<std::string> addresses;
  std::vector<std::string> neighbours;  ///< "10.0.0.1=02:00:00:00:00:01"
  std::string peer, peer_mac, mac, idle = "adaptive";
  double seconds = 10;
  int64_t interval_us = 0;
};

void add_options(CLI::App& app, WireOptions& options, Words& words) {
  app.add_option("mode", options.app.mode, "serve, hold, generate, ping, macswap, rawgen");
  app.add_option("--device", options.port.device, "PCI address, or a kind with parameters")->required();
  app.add_option("--name", options.port.name);
  app.add_option("--address", words.addresses, "IP address with prefix length; may be repeated");
  app.add_option("--neighbour", words.neighbours, "ADDRESS=MAC, never asked for");
  app.add_option("--mac", words.mac);
  app.add_option("--mtu", options.port.mtu);
  app.add_option("--vlan", options.port.vlan);
  app.add_option("--queues", options.port.queues);
  app.add_option("--rx-depth", options.port.rx_depth);
  app.add_option("--tx-depth", options.port.tx_depth);
  app.add_option("--in-flight", options.port.in_flight);
  app.add_option("--workers", options.workers);
  app.add_option("--cpu", options.cpus, "CPU of a worker; once for each");
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
  app.add_flag("--flood-only", options.app.flood_only, "to the discard port, no answers wanted");
  app.add_option("--capture", options.capture_path, "pcapng of what passes and what is dropped");
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

}  // namespace
}  // namespace ulnet::perf

int main(int argc, char** argv) {
  CLI::App app{"A packet port of ulnet, and one thing done with it."};
  ulnet::perf::WireOptions options;
  options.port.name = "port0";
  ulnet::perf::Words words;
  ulnet::perf::add_options(app, options, words);
  CLI11_PARSE(app, argc, argv);
  if (auto done = ulnet::perf::convert(words, options); !done) {
    std::fprintf(stderr, "ulnet-wire: %s\n", done.error().what);
    return 2;
  }
  const nlohmann::json figures = ulnet::perf::wire_run(options);
  std::printf("%s\n", figures.dump().c_str());
  return figures.contains("error") || !figures.value("packets_conserved", false) ? 1 : 0;
}
