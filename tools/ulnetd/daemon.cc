#include "tools/ulnetd/daemon.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <exception>

#include "control/api/counts_reader.h"
#include "control/lib/boot.h"
#include "control/node_config.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/host/clock.h"
#include "dataplane/host/random_seed.h"
#include "lnd/net/kernel/devices.h"
#include "tools/ulnetd/ports/rdma_ports.h"
#include "tools/ulnetd/ports/show_ports.h"

namespace ulnet {
namespace {

/// Time for running jobs of ulnet-perf to end. After that, the node stops in any case.
constexpr Duration kJobsStopMax = 3s;
constexpr Duration kFailuresSaidEvery = 10s;
constexpr Duration kFlushMax = 3s;  // for clients that do not read their last answers

/// If a file sets more than the `ulnet:` section, the file also implies `lnet configure`.
bool configures(const config::ChangeList& changes) {
  return std::any_of(changes.begin(), changes.end(), [](const config::PlacedChange& one) {
    return !std::holds_alternative<config::UlnetSet>(one.change);
  });
}

/// If the file sets `routing:`, that value takes precedence over `ulnet: forwarding`.
bool sets_routing(const config::ChangeList& changes) {
  return std::any_of(changes.begin(), changes.end(), [](const config::PlacedChange& one) {
    return std::holds_alternative<config::SetRouting>(one.change);
  });
}

}  // namespace

config::Checked<std::unique_ptr<Daemon>> Daemon::start(DaemonOptions options) {
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options)));
  daemon->options_.log = [it = daemon.get(), write = std::move(daemon->options_.log)](const std::string& line) {
    if (level_of(line) <= it->log_level_) write(line);
  };
  if (auto opened = daemon->open(); !opened) return tl::unexpected(opened.error());
  return daemon;
}

config::Checked<void> Daemon::open() {
  config::Problems problems;
  const config::DesiredState state = config::state_of(options_.changes, problems);
  if (!problems.empty()) return config::fail(problems.front().code, config::problem_text(problems.front()));
  log_level_ = state.ulnet.log;
  if (auto opened = open_node(state); !opened) return opened;
  return open_socket(state.ulnet);
}

config::Checked<void> Daemon::open_node(const config::DesiredState& state) {
  auto host_config = boot_host(state, DpdkMode::kNone);
  if (!host_config) return tl::unexpected(host_config.error());
  const auto devices = config::devices_of(state.ulnet.devices);
  if (!devices) return config::fail(EINVAL, "ulnet: " + devices.error());
  if (!devices->empty())
    if (auto needs = Ports::host_needs(*devices, *host_config); !needs) return needs;
  auto host = Host::start(*host_config);
  if (!host) {
    config::Problem error = config::problem_of("cannot start the worker threads", host.error());
    if (error.code == -ENOMEM && !host_config->eal_memory_text.empty())
      error.what += ": " + host_config->eal_memory_text;
    return tl::unexpected(std::move(error));
  }
  host_ = std::move(*host);
  for (const std::string& line : host_->describe()) options_.log(line);

  devices_ = std::make_unique<PortDevices>(system_devices());
  memory_ = std::make_unique<HostMemory>(host_->arenas());
  worker_memory_ = worker_memory(host_->arenas(), host_->topology());
  const uint64_t incarnation = real_time_ns();
  auto drivers = Drivers::open(boot_drivers(state), {.workers = host_->worker_count(),
                                                     .incarnation = incarnation,
                                                     .ports = !devices->empty(),
                                                     .seed = random_seed()});
  if (!drivers) return tl::unexpected(config::problem_of("cannot start the drivers", drivers.error()));
  drivers_.emplace(std::move(*drivers));
  for (const Drivers::Note& one : drivers_->notes()) options_.log(std::string(one.note.about) + ": " + one.note.text);

  NodeDeps deps;
  deps.seed = random_seed();
  deps.incarnation = incarnation;
  deps.lnds = drivers_->entries();
  deps.devices = devices_.get();
  deps.memory = memory_.get();
  deps.worker_memory = worker_memory_.get();
  deps.reserve = &reserve_;
  deps.log = options_.log;
  deps.real_threads = true;
  deps.control_gate = &host_->control_gate();
  deps.helper = &helper_.emplace(host_->control_gate());
  auto node = Node::create(boot_node(state, host_->placement(), host_->topology()), std::move(deps), clock_now());
  if (!node) return tl::unexpected(config::problem_of("cannot make the node", node.error()));
  node_ = std::move(*node);
  perf_target_ = std::make_unique<PerfTarget>(*node_);
  // Before the workers of the node, which use the ports.
  if (!devices->empty())
    if (auto opened = open_ports(*devices); !opened) return opened;
  turnables_ = worker_turnables(*node_);
  for (uint16_t worker = 0; worker < host_->worker_count(); ++worker) {
    if (auto added = host_->add(WorkerId{worker}, *turnables_[worker]); !added) {
      return tl::unexpected(config::problem_of("cannot start a worker", added.error()));
    }
  }
  return {};
}

config::Checked<void> Daemon::open_ports(const std::vector<config::DeviceConfig>& devices) {
  Ports::Deps deps;
  deps.log = options_.log;
  deps.reply = [this](api::RequestId id, const api::Answer& answer) { requests_->reply(id, answer); };
  deps.backlog = [this](api::RequestId id) { return server_->backlog(id); };
  deps.users = drivers_->port_users();
  auto ports = Ports::open(devices, *host_, std::move(deps));
  if (!ports) return tl::unexpected(ports.error());
  ports_ = std::move(*ports);
  devices_->set_ports(ports_.get());
  return {};
}

/// `show port`, `manage capture`, `manage port_reset`.
void Daemon::serve_ports() {
  const auto show = [this](api::RequestId id, const api::Request& request) {
    requests_->reply(id, show_ports(ports_.get(), kRdmaDevices, request));
  };
  requests_->serve(api::Call::kShowPort, {show, {}, {}});
  const auto serve = [this](api::Call call, void (Ports::*handle)(api::RequestId, const api::Request&)) {
    const auto answer = [this, handle](api::RequestId id, const api::Request& request) {
      if (ports_ != nullptr) return (ports_.get()->*handle)(id, request);
      requests_->reply(id, api::answer_error("manage", request.object, -ENODEV,
                                             "this ulnetd has no ports: name them under ulnet: devices:"));
    };
    const auto gone = [this](api::RequestId id) {
      if (ports_ != nullptr) ports_->gone(id);
    };
    requests_->serve(call, {answer, gone, {}});
  };
  serve(api::Call::kCapture, &Ports::capture);
  serve(api::Call::kPortReset, &Ports::reset);
}

config::Checked<void> Daemon::open_socket(const config::UlnetSection& ulnet) {
  requests_ = std::make_unique<NodeRequests>(*node_, options_.version);
  requests_->set_real_time(real_time_ns);
  requests_->set_status([this](config::Doc& doc) {
    for (const Drivers::Note& one : drivers_->notes()) doc.set(one.note.about, one.note.text);
    const auto counts = perf_target_->counts();
    if (!perf_target_->running()) return;
    config::Doc& target = doc.set("perf target", config::Doc::map());
    target.set("puts", counts.puts);
    target.set("gets", counts.gets);
    target.set("failed", counts.failed);
  });
  requests_->set_worker_times([this](WorkerId worker) -> std::optional<api::WorkerTime> {
    using std::chrono::duration_cast, std::chrono::milliseconds;
    const HostThread* thread = host_->thread(worker);
    if (thread == nullptr) return {};
    const HostThreadStats stats = thread->stats();
    return api::WorkerTime{duration_cast<milliseconds>(stats.busy), duration_cast<milliseconds>(stats.spinning),
                           duration_cast<milliseconds>(stats.asleep), stats.busy_cycles};
  });
  open_perf();
  serve_ports();
  api::ServerOptions options;
  options.path = options_.socket.empty() ? ulnet.socket.path : options_.socket;
  options.group = ulnet.socket.group;
  options.mode = unsigned(ulnet.socket.mode);
  options.version = options_.version;
  options.reserve = &reserve_;
  auto server = api::Server::open(options, *requests_);
  if (!server) return config::fail(EADDRINUSE, server.error());
  server_ = std::move(*server);
  requests_->set_server(*server_);
  options_.log("control socket: " + options.path);
  return {};
}

/// `manage perf`: this node generates load for ulnet-perf.
void Daemon::open_perf() {
  perf::Service::Deps deps;
  deps.submitter_open = [this](const SubmitterSize& size) {
    return node_->submitter_open(WorkerId{uint16_t(next_home_++ % node_->worker_count())}, size);
  };
  deps.submitter_close = [this](Submitter& submitter) { node_->submitter_close(submitter); };
  deps.region_add = [this](std::span<std::byte> memory, std::function<void(RegionId)> done) {
    node_->region_add(memory, [this, done = std::move(done)](const auto& region) {
      if (!region) options_.log("warning: the load generator is slow: " + region.error().what);
      done(region.value_or(RegionId{}));
    });
  };
  deps.region_remove = [this](RegionId region, std::function<void()> done) {
    node_->region_remove(region, [done = std::move(done)](const auto&) { done(); });
  };
  deps.worker_thread = [this](const Submitter& submitter) {
    const WorkerId home = submitter.home();
    return perf::WorkerThread{.add = [this, home](Turnable& job) { return host_->add(home, job); },
                              .remove = [this, home](Turnable& job) { (void)host_->remove(home, job); }};
  };
  deps.busy_cycles = [this] {
    uint64_t sum = 0;
    for (uint16_t worker = 0; worker < host_->worker_count(); ++worker)
      sum += host_->thread(WorkerId{worker})->stats().busy_cycles;
    return sum;
  };
  deps.reply = [this](api::RequestId id, const api::Answer& answer) { requests_->reply(id, answer); };
  deps.counts_reader = [this] { return counts_reader(node_->control()); };
  perf_ = std::make_unique<perf::Service>(std::move(deps));
  requests_->serve(api::Call::kPerf,
                   {[this](api::RequestId id, const api::Request& request) { perf_->request(id, request); },
                    [this](api::RequestId id) { perf_->gone(id); },
                    {}});
}

Daemon::~Daemon() {
  if (perf_ != nullptr) perf_->halt();  // its jobs use submitters of the node, and threads of the host
  if (host_ != nullptr) {
    for (uint16_t worker = 0; worker < turnables_.size(); ++worker)
      (void)host_->remove(WorkerId{worker}, *turnables_[worker]);
    if (ports_ != nullptr) ports_->close();  // the workers of the node used them
    host_->stop();
  }
  node_.reset();  // before the objects that it uses: drivers, memory, the perf target's sink
  perf_.reset();
  perf_target_.reset();
  if (devices_ != nullptr) devices_->set_ports(nullptr);
  ports_.reset();
  server_.reset();  // after all objects that may still answer
}

void Daemon::configure() {
  applied_ = options_.changes;
  config::ChangeList networks;
  for (const config::PlacedChange& one : applied_)
    if (!std::holds_alternative<config::UlnetSet>(one.change)) networks.push_back(one);
  if (configures(applied_)) applied_.insert(applied_.begin(), {config::LnetConfigure{}, {}});
  node_->applier().set_configured_networks(std::move(networks));
  node_->applier().set_ulnet_changed([this] { follow_ulnet(); });
  node_->applier().set_in_use([this] {
    const size_t others = node_->control().submitters->open_count() - 1 - (perf_target_->idle() ? 0 : 1);
    return others == 0 ? std::string() : fmt::format("{} applications", others);
  });
  node_->applier().set_wait_for_devices(true);
  node_->applier().set_start_up(true);
  node_->apply(applied_, [this](const config::Problems& errors) { configured(errors); });
}

void Daemon::configured(const config::Problems& errors) {
  node_->applier().set_start_up(false);
  if (stopping_) return;
  for (const config::Problem& error : errors)
    options_.log("error: cannot apply the configuration: " + config::problem_text(placed(applied_, error)));
  if (!errors.empty()) {
    status_ = 1;
    return stop();
  }
  if (node_->control().desired.ulnet.forwarding == config::Forwarding::kEnabled && !sets_routing(applied_)) {
    node_->applier().set_start_up(true);
    node_->apply({{config::LnetConfigure{}, {}}, {config::SetRouting{true}, {}}},
                 [this](const auto&) { node_->applier().set_start_up(false); });
  }
  for (const auto& net : node_->control().nis->nets())
    for (const LocalNi& ni : net.nis) options_.log("serving " + nid_text(ni.nid));
  options_.log("ready");
  if (options_.notify) options_.notify("READY=1");
}

void Daemon::follow_ulnet() {
  log_level_ = node_->control().desired.ulnet.log;
  drivers_->retune(boot_drivers(node_->control().desired), clock_now());
  const bool wanted = node_->control().desired.ulnet.perf_target;
  if (wanted == perf_target_->running()) return;
  if (!wanted) return perf_target_->stop();
  auto started = perf_target_->start();
  options_.log(started ? "perf target: serving on portal 63"
                       : std::string("error: perf target: ") + started.error().what);
}

/// If a step gets no thread, or needs more memory than `reserve_` has, the daemon loses that step and goes on.
unsigned Daemon::turn(Instant now) {
  (void)reserve_.restore();
  try {
    return turn_parts(now);
  } catch (const std::exception& error) {
    turn_failed(error, now);
    return 0;
  }
}

void Daemon::turn_failed(const std::exception& error, Instant now) noexcept {
  ++turns_failed_;
  if (turn_failure_said_ != kNever && now - turn_failure_said_ < kFailuresSaidEvery) return;
  turn_failure_said_ = now;
  try {
    options_.log(fmt::format("control failed, {} times so far: {}", turns_failed_, error.what()));
  } catch (const std::exception&) {  // no memory for the line either
  }
}

unsigned Daemon::turn_parts(Instant now) {
  unsigned done = 0;
  if (watched_fd_ >= 0) {
    pollfd poll_fd{watched_fd_, POLLIN, 0};
    if (::poll(&poll_fd, 1, 0) > 0) {
      watched_();
      ++done;
    }
  }
  if (server_->poll(now)) ++done;
  if (stopping_ && !node_->stopping() && (perf_->idle() || now >= jobs_deadline_)) node_->stop(now);
  done += node_->turn_control(now);
  perf_target_->turn();
  done += perf_->turn(now);
  if (ports_ != nullptr) done += ports_->turn(now);
  const bool captured = ports_ != nullptr && ports_->captured();
  if (node_->stopped() && !captured) {
    flush_deadline_ = std::min(flush_deadline_, now + kFlushMax);
    if (server_->flushed() || now >= flush_deadline_) host_->stop_control();
  }
  return done;
}

Instant Daemon::next_deadline() {
  const bool soon = stopping_ || (!perf_target_->running() && !perf_target_->idle());
  Instant next = std::min({node_->next_deadline(), perf_->next_deadline(), server_->next_deadline()});
  if (ports_ != nullptr) next = std::min(next, ports_->next_deadline());
  return soon ? std::min(next, node_->control().now + 10ms) : next;
}

void Daemon::wait_fds(std::vector<int>& out) {
  out.push_back(server_->fd());
  if (watched_fd_ >= 0) out.push_back(watched_fd_);
  node_->wait_fds(out);
  if (ports_ != nullptr) ports_->wait_fds(out);
}

void Daemon::watch(int fd, std::function<void()> readable) {
  watched_fd_ = fd;
  watched_ = std::move(readable);
}

int Daemon::run() {
  configure();
  host_->run_control(*this);
  options_.log(node_->stop_leftovers().empty() ? "stopped"
                                               : "warning: stopped with unfinished work: " + node_->stop_leftovers());
  return node_->stop_leftovers().empty() ? status_ : 1;
}

void Daemon::stop() {
  if (stopping_) {
    options_.log("second request to stop: ending at once");
    status_ = 1;
    return host_->stop_control();
  }
  stopping_ = true;
  options_.log("stopping");
  if (options_.notify) options_.notify("STOPPING=1");
  perf_target_->stop();
  perf_->stop();  // the node follows when its jobs have ended
  if (ports_ != nullptr) ports_->captures_stop();
  jobs_deadline_ = clock_now() + kJobsStopMax;
}

}  // namespace ulnet
