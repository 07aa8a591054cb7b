// ulnet-hostile: floods a node with hostile RoCE packets from a packet port of its own, for perf/hostile-roce and
// tests. The option --kind names the kind of the packets ("nobody", "mads" ...). Without it, a line on standard input
// names the kind from then on, or "idle". In either case the worker polls. The program ends with the input, or after
// --seconds, and prints its figures.
#include <rte_mbuf.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>

#include "lnd/net/packet/net_address_text.h"
#include "lnd/o2iblnd/proto/message.h"
#include "perf/hostile/hostile_roce.h"
#include "perf/wire/wire_run.h"

namespace ulnet::perf {
namespace {

constexpr unsigned kPackets = 2048;  ///< of each kind, sent again and again
constexpr int kIdle = -1;

/// Packets of all kinds.
class Store {
 public:
  explicit Store(const HostileTarget& target) {
    HostileRoce hostile(target, 1);
    for (unsigned kind = 0; kind < kHostileKinds; ++kind)
      for (unsigned i = 0; i < kPackets; ++i) packets_[kind].push_back(hostile.make(HostileKind(kind)));
  }
  [[nodiscard]] const std::vector<std::byte>& at(int kind, uint64_t count) const {
    return packets_[size_t(kind)][count % kPackets];
  }

 private:
  std::array<std::vector<std::vector<std::byte>>, kHostileKinds> packets_;
};

class Flood final : public App {
 public:
  Flood(const Store& store, const std::atomic<int>& kind, const dpdk::IpAddress& to, dpdk::PortQueue& queue,
        dpdk::Stack& stack)
      : store_(store), kind_(kind), to_(to), queue_(queue), stack_(stack) {}
  unsigned turn(Instant now) override {
    const int kind = kind_.load(std::memory_order_relaxed);
    if (kind == kIdle) return yielded();
    unsigned sent = 0;
    for (unsigned room = stack_.tx_room(now); sent < room; ++sent)
      if (!send(store_.at(kind, figures.sent + sent), now)) break;
    figures.sent += sent;
    return sent == 0 ? yielded() : sent;
  }
  [[nodiscard]] Instant next_deadline() const override { return kNever; }

 private:
  /// The ring is full, or nothing is to be sent: a program on the same CPU goes on.
  static unsigned yielded() {
    (void)::sched_yield();
    return 0;
  }
  bool send(const std::vector<std::byte>& packet, Instant now) {
    rte_mbuf* frame = queue_.pool().take();
    if (frame == nullptr) return false;
    void* at = rte_pktmbuf_append(frame, uint16_t(packet.size()));
    if (at == nullptr) {
      dpdk::packet_free(frame);
      return false;
    }
    std::memcpy(at, packet.data(), packet.size());
    return stack_.ip_send(to_, frame, now);
  }
  const Store& store_;
  const std::atomic<int>& kind_;
  const dpdk::IpAddress to_;
  dpdk::PortQueue& queue_;
  dpdk::Stack& stack_;
};

/// Private data of a REQ that o2iblnd of the target accepts.
std::vector<std::byte> request_of(const dpdk::IpAddress& from, const dpdk::IpAddress& to, uint16_t number) {
  std::array<std::byte, o2iblnd::kMessageMax> out;
  const o2iblnd::Ends ends{Nid::v4(Net::of(NetType::kO2ib, number), from.v4()),
                           Nid::v4(Net::of(NetType::kO2ib, number), to.v4()), 1, 0};
  const size_t bytes = encode_connect(out, o2iblnd::MessageType::kConnReq, ends, {8, 256});
  return {out.begin(), out.begin() + std::ptrdiff_t(bytes)};
}

/// Obeys standard input, until its end.
void obey(std::atomic<int>& kind) {
  for (std::string line; std::getline(std::cin, line);) {
    const auto found = hostile_kind(line);
    if (!found && line != "idle") {
      std::printf("no such kind: %s\n", line.c_str());
    } else {
      kind.store(found ? int(*found) : kIdle, std::memory_order_relaxed);
      std::printf("now %s\n", line.c_str());
    }
    std::fflush(stdout);
  }
  (void)::kill(::getpid(), SIGTERM);  // wire_run() takes it
}

int hostile(int argc, char** argv) {
  CLI::App app{"Floods a node with hostile RoCE packets.", "ulnet-hostile"};
  WireOptions options;
  options.port.name = "port0";
  options.idle.mode = IdleMode::kBusy;
  std::string address, peer, only;
  double seconds = 3600;
  uint16_t net = 0;
  HostileTarget target;
  app.add_option("--device", options.port.device)->required();
  app.add_option("--address", address, "with prefix length")->required();
  app.add_option("--peer", peer)->required();
  app.add_option("--mtu", options.port.mtu);
  app.add_option("--rx-depth", options.port.rx_depth);
  app.add_option("--tx-depth", options.port.tx_depth);
  app.add_option("--cpu", options.cpus);
  app.add_option("--qpn", target.qpn, "of a live queue pair of the target");
  app.add_option("--net", net, "number of the o2ib network that requests are for");
  app.add_option("--kind", only);
  app.add_option("--seconds", seconds);
  app.add_option("--bytes", target.payload_bytes, "of payload, at most 4096");
  CLI11_PARSE(app, argc, argv);
  const auto own = dpdk::prefix_parse(address);
  const auto to = dpdk::ip_parse(peer);
  const auto first = hostile_kind(only);
  if (!own || !to || target.payload_bytes > 4096 || (!first && !only.empty())) {
    std::fprintf(stderr, "ulnet-hostile: an address, --kind or --bytes is wrong\n");
    return 2;
  }
  options.port.addresses.own.push_back(*own);
  target.from = own->address;
  target.to = *to;
  target.request_data = request_of(target.from, target.to, net);
  const Store store(target);
  options.duration = Duration{int64_t(seconds * 1e9)};
  std::atomic<int> kind{first ? int(*first) : kIdle};
  options.app_maker = [&](dpdk::PortQueue& queue, dpdk::Stack& stack) -> std::unique_ptr<App> {
    return std::make_unique<Flood>(store, kind, *to, queue, stack);
  };
  sigset_t set;  // signals are for wire_run(), and the thread below has this mask, too
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (!first) std::thread(obey, std::ref(kind)).detach();  // may wait for input until the end
  const nlohmann::json figures = wire_run(options);
  std::printf("%s\n", figures.dump().c_str());
  std::fflush(stdout);
  ::_exit(figures.contains("error") ? 1 : 0);  // the thread above has references to this frame
}

}  // namespace
}  // namespace ulnet::perf

int main(int argc, char** argv) {
  return ulnet::perf::hostile(argc, argv);
}
