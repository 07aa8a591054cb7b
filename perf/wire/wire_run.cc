#include "perf/wire/wire_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>

#include "lnd/net/dpdk/eal.h"
#include "lnd/net/dpdk/live_port.h"
#include "lnd/net/dpdk/pool_plan.h"
#include "lnd/net/packet/net_address_text.h"

namespace ulnet::perf {
namespace {

using nlohmann::json;
using namespace dpdk;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

json problem_json(const Problem& problem) {
  return json{{"error", problem.what}, {"errno", problem.code}};
}

class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, &old_);
    fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  ~Signals() {
    ::close(fd_);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int take() const {
    signalfd_siginfo info{};
    return ::read(fd_, &info, sizeof info) == sizeof info ? int(info.ssi_signo) : 0;
  }

 private:
  int fd_ = -1;
  sigset_t old_{};
};

/// A capture as a file.
class FileSink final : public CaptureSink {
 public:
  ~FileSink() override {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool open(const std::string& path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    return fd_ >= 0;
  }
  Result<void> write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return fail(errno, "the capture cannot be written");
      bytes = bytes.subspan(size_t(wrote));
    }
    return {};
  }

 private:
  int fd_ = -1;
};

class Run final : private PortWatcher {
 public:
  explicit Run(const WireOptions& options) : options_(options) {}
  json run();

 private:
  [[nodiscard]] uint32_t memory_mb() const;
  [[nodiscard]] json open();
  void loop();
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] json close(Duration took);
  void link_changed(const LinkState& link) override;
  void reset_done(const Problem* problem) override;
  void capture_ended(uint64_t written, uint64_t skipped, const Error* error) override;

  const WireOptions& options_;
  Signals signals_;
  FileSink capture_;
  std::unique_ptr<Host> host_;
  std::vector<App*> apps_;  // the port's, by worker
  std::unique_ptr<LivePort> port_;
  std::string failed_;
};

/// Memory for the pools, and for DPDK's own use: rings, allocator, the device.
uint32_t Run::memory_mb() const {
  if (options_.memory_mb != 0) return options_.memory_mb;
  return port_memory_mb({&options_.port, 1}, options_.workers);
}

json Run::open() {
  HostConfig config;
  config.worker_count = unsigned(options_.workers);
  config.cpus = options_.cpus;
  config.idle = options_.idle;
  config.dpdk = DpdkMode::kOwn;
  config.start_eal = &start_eal;
  config.eal_memory_mb = memory_mb();
  config.eal_memory_text = port_memory_text({&options_.port, 1}, unsigned(options_.workers));
  const auto spec = device_spec(options_.port.device);
  if (spec && spec->kind == DeviceKind::kPci) config.devices = {spec->pci};
  auto host = Host::start(config);
  if (!host) {
    const std::string detail = host.error().code == -ENOMEM ? ": " + config.eal_memory_text : "";
    return problem_json({.what = host.error().what + detail, .code = host.error().code});
  }
  host_ = std::move(*host);
  LivePort::Options live;
  live.port = options_.port;
  live.watcher = this;
  live.app = [this](unsigned queue, PortQueue& port, Stack& stack, const Mac& mac) -> Result<std::unique_ptr<PortApp>> {
    AppOptions its = options_.app;
    if (queue != 0 && its.mode == "ping") its.mode = "serve";  // one of them is enough
    auto app = options_.app_maker ? options_.app_maker(port, stack) : app_make(its, port, &stack, mac);
    if (!app) return tl::unexpected(app.error());
    apps_.push_back(app->get());
    return std::move(*app);
  };
  if (!options_.capture_path.empty()) {
    if (!capture_.open(options_.capture_path))
      return problem_json({.what = "the capture's file cannot be created", .code = -errno});
    live.capture = &capture_;
    live.capture_options.filter = options_.capture_filter;
  }
  auto port = LivePort::open(*host_, std::move(live));
  if (!port) return problem_json(port.error());
  port_ = std::move(*port);
  return {};
}

const char* link_text(const LinkState& its) {
  return its.up ? "link up" : "link down";
}

void Run::link_changed(const LinkState& link) {
  if (!options_.quiet) say(link_text(link));
}

void Run::reset_done(const Problem* problem) {
  if (!options_.quiet) say(problem == nullptr ? "reset done" : "reset failed: " + problem->what);
}

void Run::capture_ended(uint64_t, uint64_t, const Error* error) {
  if (error != nullptr) failed_ = error->what;
}

bool Run::all_done() const {
  for (unsigned i = 0; i < port_->worker_count(); ++i)
    if (!port_->worker(i).done()) return false;
  return true;
}

void Run::loop() {
  const Instant end = clock_now() + options_.duration;
  while (!all_done() && failed_.empty()) {
    const Instant now = clock_now();
    if (now >= end) return;
    port_->turn(now);
    std::vector<int> fds{signals_.fd()};
    port_->wait_fds(fds);
    std::vector<pollfd> waits;
    for (const int fd : fds) waits.push_back({fd, POLLIN, 0});
    const auto nap = std::clamp<Duration>(port_->next_deadline() - now, 1ms, 20ms);  // apps end without a word
    (void)::poll(waits.data(), waits.size(), int(nap / 1ms));
    const int signal = signals_.take();
    if (signal == SIGUSR1) port_->reset();
    if (signal == SIGTERM || signal == SIGINT) return;
  }
}

json app_json(const AppFigures& its, Duration duration) {
  const double seconds = double(duration.count()) * 1e-9;
  json out{{"sent", its.sent},
           {"received", its.received},
           {"bytes", its.bytes},
           {"corrupted", its.corrupted},
           {"lost", its.lost},
           {"copied", its.copied},
           {"held_max", its.held_max},
           {"leases_out", its.leases - its.leases_back},
           {"packets_per_second", double(its.received) / seconds},
           {"bytes_per_second", double(its.bytes) / seconds}};
  if (its.free_min != UINT64_MAX) out["free_min"] = its.free_min;
  if (its.latency.count() > 0) {
    json latency;
    for (const auto& [name, fraction] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}})
      latency[name] = its.latency.quantile(fraction).count();
    latency["max"] = its.latency.max().count();
    out["latency_ns"] = latency;
  }
  return out;
}

json stack_json(const StackCounters& its) {
  return {{"arp_answers", its.arp_answers.get()},     {"nd_answers", its.nd_answers.get()},
          {"echo_answers", its.echo_answers.get()},   {"echo_requests", its.echo_requests.get()},
          {"echo_replies", its.echo_replies.get()},   {"questions", its.questions.get()},
          {"udp_delivered", its.udp_delivered.get()}, {"udp_sent", its.udp_sent.get()},
          {"news_lost", its.news_lost.get()}};
}

json Run::close(Duration took) {
  json out;
  port_->close();
  out["environment"] = host_->environment();
  out["port"] = port_json(port_->show());
  for (unsigned i = 0; i < port_->worker_count(); ++i) {
    const PortWorker& worker = port_->worker(i);
    json its = app_json(apps_[i]->figures, took);
    its["stack"] = stack_json(worker.stack().counters());
    const HostThreadStats stats = host_->thread(WorkerId{uint16_t(i)})->stats();
    const auto packets = std::max<uint64_t>(1, port_->port().queue(i).counters().rx_packets.get());
    its["busy_cycles"] = worker.busy_cycles();
    its["idle_cycles"] = worker.idle_cycles();
    its["cycles_per_packet"] = double(worker.busy_cycles()) / double(packets);
    its["sleeps"] = stats.sleeps;
    its["asleep_ns"] = stats.asleep.count();
    out["workers"].push_back(its);
  }
  out["packets_conserved"] = port_->port().packets_conserved();
  if (!failed_.empty()) out["error"] = failed_;
  port_.reset();
  return out;
}

json Run::run() {
  json opened = open();
  if (opened.contains("error")) return opened;
  say("ready " + mac_text(port_->port().mac()));
  if (!options_.quiet) say(link_text(port_->link()));
  const Instant from = clock_now();
  loop();
  const Duration took = clock_now() - from;
  json out = close(took);
  out["seconds"] = double(took.count()) * 1e-9;
  return out;
}

}  // namespace

json port_json(const PortShown& shown) {
  json out{{"name", shown.name},
           {"device", shown.device},
           {"driver", shown.driver},
           {"mac", mac_text(shown.mac)},
           {"mtu", shown.mtu},
           {"vlan", shown.vlan},
           {"pcp", shown.pcp},
           {"link", shown.link.up ? "up" : "down"},
           {"speed_mbps", shown.link.speed_mbps},
           {"missed", shown.missed},
           {"rx_errors", shown.rx_errors},
           {"tx_errors", shown.tx_errors},
           {"no_buffer", shown.no_buffer},
           {"resets", shown.resets}};
  out["offloads"] = {{"rx_ip_checksum", shown.offloads.rx_ip_checksum},
                     {"rx_udp_checksum", shown.offloads.rx_udp_checksum},
                     {"tx_ip_checksum", shown.offloads.tx_ip_checksum},
                     {"tx_udp_checksum", shown.offloads.tx_udp_checksum},
                     {"multi_segment", shown.offloads.multi_segment},
                     {"scatter", shown.offloads.scatter},
                     {"rss", shown.offloads.rss}};
  for (const QueueShown& its : shown.queues) {
    json drops = json::object();
    for (size_t i = 0; i < its.drops.size(); ++i)
      if (its.drops[i] != 0) drops[text_of(FrameDrop(i)).name] = its.drops[i];
    out["queues"].push_back({{"queue", its.queue},
                             {"rx_packets", its.rx_packets},
                             {"rx_bytes", its.rx_bytes},
                             {"tx_packets", its.tx_packets},
                             {"tx_bytes", its.tx_bytes},
                             {"polls", its.polls},
                             {"polls_empty", its.polls_empty},
                             {"copied", its.copied},
                             {"rx_bursts", its.rx_bursts},
                             {"tx_bursts", its.tx_bursts},
                             {"pool_free", its.pool_free},
                             {"pool_size", its.pool_size},
                             {"pool_held", its.pool_held},
                             {"pool_held_max", its.pool_held_max},
                             {"interrupt", its.sleeps_on_interrupt},
                             {"drops", drops}});
  }
  return out;
}

json wire_run(const WireOptions& options) {
  return Run(options).run();
}

}  // namespace ulnet::perf
