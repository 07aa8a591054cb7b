#include "perf/echo/wire_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>

#include "lnd/dpdk/capture.h"
#include "lnd/dpdk/net_address_text.h"
#include "perf/echo/port_worker.h"

namespace ulnet::perf {
namespace {

using nlohmann::json;
using namespace dpdk;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

json problem_json(const Error& error, const std::string& detail = {}) {
  json out{{"error", error.what}, {"errno", error.code}};
  if (!detail.empty()) out["detail"] = detail;
  return out;
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

class Run {
 public:
  explicit Run(const WireOptions& options) : options_(options) {}
  json run();

 private:
  [[nodiscard]] uint32_t memory_mb() const;
  [[nodiscard]] json open();
  void loop();
  void watch_link();
  void reset();
  [[nodiscard]] json start_capture();
  void stop_capture();
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] json close(Duration took);

  const WireOptions& options_;
  Signals signals_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<Port> port_;
  std::unique_ptr<StackMesh> mesh_;
  std::vector<std::unique_ptr<PortWorker>> workers_;
  LinkState link_;
  std::unique_ptr<Capture> capture_;
  std::string failed_;
};

/// What the pools take, and room for DPDK's own: rings, allocator, the device.
uint32_t Run::memory_mb() const {
  if (options_.memory_mb != 0) return options_.memory_mb;
  const auto spec = device_spec(options_.port.device);
  if (!spec) return 64;
  const bool chains = spec->kind == DeviceKind::kRing || spec->kind == DeviceKind::kTap;
  const PoolPlan plan = pool_plan(options_.port, buffer_shape(options_.port, spec->kind, chains));
  return uint32_t(plan.bytes * options_.workers * 5 / 4 >> 20) + 48;
}

json Run::open() {
  HostConfig config;
  config.worker_count = unsigned(options_.workers);
  config.cpus = options_.cpus;
  config.idle = options_.idle;
  config.dpdk = DpdkMode::kOwn;
  config.eal_memory_mb = memory_mb();
  const auto spec = device_spec(options_.port.device);
  if (spec && spec->kind == DeviceKind::kPci) config.devices = {spec->pci};
  auto host = Host::start(config);
  if (!host) return problem_json(host.error());
  host_ = std::move(*host);
  auto port = Port::open(options_.port, options_.workers, 0);
  if (!port) return problem_json(port.error().error, port.error().detail);
  port_ = std::move(*port);
  if (port_->queue_count() > 1) mesh_ = std::make_unique<StackMesh>(port_->queue_count());
  for (unsigned i = 0; i < port_->queue_count(); ++i) {
    auto worker = PortWorker::make(options_.app, *port_, i, mesh_.get());
    if (!worker) return problem_json(worker.error());
    workers_.push_back(std::move(*worker));
  }
  if (!options_.capture_path.empty())
    if (json refused = start_capture(); refused.contains("error")) return refused;
  port_->start();
  for (unsigned i = 0; i < workers_.size(); ++i)
    if (auto added = host_->add(WorkerId{uint16_t(i)}, *workers_[i]); !added) return problem_json(added.error());
  link_ = port_->link();
  workers_[0]->ask_announce();
  return {};
}

json Run::start_capture() {
  const int fd = ::open(options_.capture_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0) return problem_json({-errno, "the capture's file cannot be made", 0});
  // Two clocks: the workers' time line, and what a reader of the file expects.
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  const Duration since_1970 = std::chrono::seconds{wall.tv_sec} + Duration{wall.tv_nsec};
  CaptureOptions options;
  options.filter = options_.capture_filter;
  auto started = Capture::start(*port_, fd, options, since_1970 - clock_now().time_since_epoch());
  if (!started) return problem_json(started.error().error, started.error().detail);
  capture_ = std::move(*started);
  return {};
}

void Run::stop_capture() {
  if (capture_ == nullptr) return;
  capture_->stop_begin();
  while (!capture_->stopped()) {
    for (auto& worker : workers_) worker->gate().notify();
    ::usleep(1000);
  }
  if (auto done = capture_->finish(clock_now()); !done) failed_ = done.error().what;
  capture_.reset();
}

const char* link_text(const LinkState& its) {
  return its.up ? "link up" : "link down";
}

void Run::watch_link() {
  const LinkState now = port_->link();
  if (now.up == link_.up) return;
  link_ = now;
  if (!options_.quiet) say(link_text(now));
  if (now.up) workers_[0]->ask_announce();
}

/// As control does it: ask, wake, wait, reopen. Here waiting is allowed.
void Run::reset() {
  port_->stop_begin();
  const Instant give_up = clock_now() + 2s;
  while (!port_->stopped() && clock_now() < give_up) {
    for (auto& worker : workers_) worker->gate().notify();
    ::usleep(1000);
  }
  auto done = port_->reopen();
  if (!done) {
    failed_ = std::string(done.error().error.what) + " " + done.error().detail;
    return;
  }
  port_->start();
  for (auto& worker : workers_) worker->gate().notify();
  workers_[0]->ask_announce();
  if (!options_.quiet) say("reset done");
}

bool Run::all_done() const {
  for (const auto& worker : workers_)
    if (!worker->done()) return false;
  return true;
}

void Run::loop() {
  const Instant end = clock_now() + options_.duration;
  while (clock_now() < end && !all_done() && failed_.empty()) {
    std::vector<int> fds{signals_.fd()};
    port_->wait_fds(fds);
    std::vector<pollfd> waits;
    for (const int fd : fds) waits.push_back({fd, POLLIN, 0});
    (void)::poll(waits.data(), waits.size(), 20);
    port_->drain_events();
    watch_link();
    if (capture_ != nullptr && (!capture_->turn() || capture_->full())) stop_capture();
    if (port_->take_reset_request()) reset();
    const int signal = signals_.take();
    if (signal == SIGUSR1) reset();
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
  if (its.latency.total() > 0) {
    json latency;
    for (const auto& [name, fraction] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}})
      latency[name] = its.latency.percentile(fraction);
    latency["max"] = its.latency.max();
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
  stop_capture();
  for (unsigned i = 0; i < workers_.size(); ++i) (void)host_->remove(WorkerId{uint16_t(i)}, *workers_[i]);
  const Instant now = clock_now();
  port_->stop_begin();
  for (unsigned i = 0; i < workers_.size(); ++i) {
    workers_[i]->finish(now);
    (void)port_->queue(i).receive({}, now);  // in the worker's place: it obeys
  }
  out["port"] = port_json(port_->show());
  for (unsigned i = 0; i < workers_.size(); ++i) {
    PortWorker& worker = *workers_[i];
    json its = app_json(worker.app().figures, took);
    its["stack"] = stack_json(worker.stack().counters());
    const HostThreadStats stats = host_->thread(WorkerId{uint16_t(i)})->stats();
    const auto packets = std::max<uint64_t>(1, port_->queue(i).counters().rx_packets.get());
    its["busy_cycles"] = worker.busy_cycles();
    its["idle_cycles"] = worker.idle_cycles();
    its["cycles_per_packet"] = double(worker.busy_cycles()) / double(packets);
    its["sleeps"] = stats.sleeps;
    its["asleep_ns"] = stats.asleep.count();
    out["workers"].push_back(its);
  }
  port_->close();
  out["packets_conserved"] = port_->packets_conserved();
  if (!failed_.empty()) out["error"] = failed_;
  workers_.clear();
  port_.reset();
  return out;
}

json Run::run() {
  json opened = open();
  if (opened.contains("error")) return opened;
  say("ready " + mac_text(port_->mac()));
  if (!options_.quiet) say(link_text(link_));
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
