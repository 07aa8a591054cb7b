#include "tools/ulnetd/ports/ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "lnd/net/dpdk/eal.h"
#include "lnd/net/dpdk/pool_plan.h"
#include "lnd/net/dpdk/port_user_ctl.h"
#include "lnd/net/packet/net_address_text.h"
#include "tools/ulnetd/ports/capture_stream.h"
#include "tools/ulnetd/ports/port_yaml.h"

namespace ulnet {
namespace {

/// The address as a NID whose net means nothing.
Nid nid_of(const dpdk::IpAddress& address) {
  const Net net = Net::of(NetType::kTcp, 0);
  if (address.is_v4()) return Nid::v4(net, address.v4());
  return Nid::v6(net, address.bytes);
}

std::string text_of(const std::string& name, const Problem& problem) {
  return fmt::format("port {}: {}", name, problem.what);
}

/// One port, with the requests that wait for its capture or its reset.
class Served final : public PortWatcher {
 public:
  Served(std::string name, const Ports::Deps& deps) : name_(std::move(name)), deps_(deps) {}

  void link_changed(const dpdk::LinkState& link) override {
    deps_.log(fmt::format("port {}: link {}", name_, link.up ? "up" : "down"));
    for (PortUser* user : deps_.users) user->link_changed(name_, link);
  }
  void interrupts_failed(unsigned queue) override {
    deps_.log(fmt::format("port {}: interrupts of queue {} do not come, so it is polled with a timer", name_, queue));
  }
  void reset_done(const Problem* problem) override {
    std::string said = problem == nullptr ? fmt::format("port {}: reset", name_) : text_of(name_, *problem);
    if (port_->problem() != nullptr) said += "; the port is closed, and ulnet tries again until it opens";
    deps_.log(said);
    if (reset_by_.client == 0) return;
    const auto id = std::exchange(reset_by_, {});
    deps_.reply(id,
                problem == nullptr ? api::Answer{} : api::answer_error("manage", "port_reset", problem->code, said));
  }
  void capture_ended(uint64_t written, uint64_t skipped, const Error* error) override {
    stream_->end(written, skipped, error);
    stream_.reset();
    until_ = kForever;
  }

  std::string name_;
  std::unique_ptr<LivePort> port_;
  std::unique_ptr<CaptureStream> stream_;  // outlives the capture
  Instant until_ = kForever;               // end of the capture
  api::RequestId reset_by_;                // client 0 = no request waits

 private:
  const Ports::Deps& deps_;
};

class OpenPorts final : public Ports {
 public:
  explicit OpenPorts(Deps deps) : deps_(std::move(deps)) {}
  ~OpenPorts() override { close(); }
  [[nodiscard]] config::Checked<void> open(const std::vector<config::DeviceConfig>& devices, Host& host);

  unsigned turn(Instant now) override;
  [[nodiscard]] Instant next_deadline() const override;
  void wait_fds(std::vector<int>& out) const override {
    for (const auto& one : ports_) one->port_->wait_fds(out);
  }
  [[nodiscard]] std::vector<std::string> names() const override;
  [[nodiscard]] std::vector<Devices::Interface> interfaces() const override;
  [[nodiscard]] config::Doc shown(const std::string& name, int verbosity) override;
  void capture(api::RequestId id, const api::Request& request) override;
  void reset(api::RequestId id, const api::Request& request) override;
  void gone(api::RequestId id) override;
  void captures_stop() override;
  [[nodiscard]] bool captured() const override {
    return std::ranges::any_of(ports_, [](const auto& one) { return one->port_->captured(); });
  }
  void close() override {
    for (auto& one : ports_) one->port_->close();
  }

 private:
  /// Null when there is none of this name.
  [[nodiscard]] Served* find(const std::string& name);
  [[nodiscard]] std::string no_port_text(const std::string& name) const;

  const Deps deps_;
  std::vector<std::unique_ptr<Served>> ports_;
  bool stopping_ = false;
};

config::Checked<void> OpenPorts::open(const std::vector<config::DeviceConfig>& devices, Host& host) {
  for (const config::DeviceConfig& device : devices) {
    if (find(device.name) != nullptr)
      return config::fail(EEXIST, fmt::format("ulnet: devices: two ports have the name '{}'", device.name));
    auto config = port_config_of(device);
    if (!config) return tl::unexpected(config.error());
    auto served = std::make_unique<Served>(device.name, deps_);
    LivePort::Options options;
    options.port = std::move(*config);
    for (PortUser* user : deps_.users)
      if (PortAppMaker app = user->opening(options.port)) options.app = std::move(app);
    options.index = unsigned(ports_.size());
    options.watcher = served.get();
    auto port = LivePort::open(host, std::move(options));
    if (!port) return config::fail(port.error().code, text_of(device.name, port.error()));
    served->port_ = std::move(*port);
    deps_.log(fmt::format("port {}: {}, {} queues, link {}", device.name, dpdk::mac_text(served->port_->port().mac()),
                          served->port_->worker_count(), served->port_->link().up ? "up" : "down"));
    ports_.push_back(std::move(served));
    for (PortUser* user : deps_.users)
      if (const auto opened = user->opened(ports_.back()->port_->port(), ports_.back()->port_->link()); !opened)
        return config::fail(-opened.error().code, fmt::format("port {}: {}", device.name, opened.error().what));
  }
  return {};
}

unsigned OpenPorts::turn(Instant now) {
  unsigned done = 0;
  for (auto& one : ports_) {
    if (now >= one->until_) {
      one->until_ = kForever;
      one->port_->capture_stop();
    }
    done += one->port_->turn(now);
  }
  return done;
}

Instant OpenPorts::next_deadline() const {
  Instant next = kForever;
  for (const auto& one : ports_) next = std::min({next, one->until_, one->port_->next_deadline()});
  return next;
}

Served* OpenPorts::find(const std::string& name) {
  for (auto& one : ports_)
    if (one->name_ == name) return one.get();
  return nullptr;
}

std::string OpenPorts::no_port_text(const std::string& name) const {
  std::string known;
  for (const auto& one : ports_) known += (known.empty() ? "" : ", ") + one->name_;
  return fmt::format("there is no port '{}'; known: {}", name, known);
}

std::vector<std::string> OpenPorts::names() const {
  std::vector<std::string> names;
  for (const auto& one : ports_) names.push_back(one->name_);
  return names;
}

std::vector<Devices::Interface> OpenPorts::interfaces() const {
  std::vector<Devices::Interface> all;
  for (const auto& one : ports_) {
    const dpdk::LinkState link = one->port_->link();
    Devices::Interface interface;
    interface.name = one->name_;
    interface.link_up = link.up;
    interface.speed = {link.speed_mbps, link.speed_mbps};
    const int numa = one->port_->port().numa();
    if (numa >= 0) interface.numa_node = uint32_t(numa);
    for (const bool v4 : {true, false})
      for (const dpdk::IpPrefix& own : one->port_->port().config().addresses.own)
        if (own.address.is_v4() == v4) interface.addresses.push_back(nid_of(own.address));
    all.push_back(std::move(interface));
  }
  return all;
}

config::Doc OpenPorts::shown(const std::string& name, int verbosity) {
  config::Doc doc = port_doc(*find(name)->port_, verbosity);
  for (const PortUser* user : deps_.users) {
    const auto counts = user->counts(name);
    if (verbosity < 1 || counts.empty()) continue;
    config::Doc& shown = doc.set(user->protocol(), config::Doc::map());
    for (const PortUser::Count& one : counts)
      if (one.value != 0) shown.set(one.text->name, one.value);
  }
  return doc;
}

void OpenPorts::capture(api::RequestId id, const api::Request& request) {
  const auto refuse = [&](int code, std::string why) {
    deps_.reply(id, api::answer_error("manage", "capture", code, std::move(why)));
  };
  Served* one = find(request.arg_text("if"));
  if (one == nullptr) return refuse(-ENOENT, no_port_text(request.arg_text("if")));
  if (stopping_) return refuse(-ESHUTDOWN, "ulnetd is stopping");
  if (one->port_->captured()) return refuse(-EBUSY, fmt::format("port {} is captured already", one->name_));
  dpdk::CaptureOptions options;
  options.filter = request.arg_text("filter");
  static_assert(api::kCaptureSnapMax == dpdk::kCaptureSnapBytesMax);
  static_assert(api::kCaptureSizeMin == dpdk::kCaptureFileBytesMin);
  options.snap_bytes = uint32_t(request.arg_integer("snap", options.snap_bytes));
  options.file_bytes_max = uint64_t(request.arg_integer("size", int64_t(options.file_bytes_max)));
  options.rate_max = uint32_t(request.arg_integer("rate", options.rate_max));
  // Large snapshots have fewer slots, so that a capture holds no more memory than with the usual ones.
  options.slots = std::clamp<uint32_t>((4u << 20) / options.snap_bytes, 64, options.slots);
  one->stream_ = std::make_unique<CaptureStream>(id, deps_.reply, deps_.backlog);
  const auto started = one->port_->capture(*one->stream_, options);
  if (!started) {
    one->stream_.reset();
    return refuse(started.error().code, text_of(one->name_, started.error()));
  }
  const int64_t seconds = request.arg_integer("seconds", 0);
  one->until_ = seconds > 0 ? clock_now() + std::chrono::seconds{seconds} : kForever;
}

void OpenPorts::reset(api::RequestId id, const api::Request& request) {
  Served* one = find(request.arg_text("name"));
  const auto refuse = [&](int code, std::string why) {
    deps_.reply(id, api::answer_error("manage", "port_reset", code, std::move(why)));
  };
  if (one == nullptr) return refuse(-ENOENT, no_port_text(request.arg_text("name")));
  if (one->reset_by_.client != 0) return refuse(-EBUSY, fmt::format("port {} is being reset", one->name_));
  one->reset_by_ = id;
  one->port_->reset();
}

void OpenPorts::captures_stop() {
  stopping_ = true;
  for (auto& one : ports_) one->port_->capture_stop();
}

void OpenPorts::gone(api::RequestId id) {
  for (auto& one : ports_) {
    if (one->reset_by_ == id) one->reset_by_ = {};
    if (one->stream_ == nullptr || one->stream_->id() != id) continue;
    one->stream_->abandon();
    one->port_->capture_stop();
  }
}

}  // namespace

config::Checked<void> Ports::host_needs(const std::vector<config::DeviceConfig>& devices, HostConfig& host) {
  std::vector<dpdk::PortConfig> ports;
  for (const config::DeviceConfig& device : devices) {
    auto port = port_config_of(device);
    if (!port) return tl::unexpected(port.error());
    const auto spec = dpdk::device_spec(port->device);
    if (!spec)
      return config::fail(spec.error().code, fmt::format("ulnet: devices: {}: {}", device.name, spec.error().what));
    if (spec->kind == dpdk::DeviceKind::kPci) host.devices.push_back(spec->pci);
    ports.push_back(std::move(*port));
  }
  host.dpdk = DpdkMode::kOwn;
  host.start_eal = &dpdk::start_eal;
  const unsigned machine = std::max(1u, std::thread::hardware_concurrency());
  const unsigned workers = host.worker_count != 0 ? host.worker_count : machine;
  host.eal_memory_mb = port_memory_mb(ports, workers);
  host.eal_memory_text = port_memory_text(ports, workers);
  return {};
}

config::Checked<std::unique_ptr<Ports>> Ports::open(const std::vector<config::DeviceConfig>& devices, Host& host,
                                                    Deps deps) {
  auto ports = std::make_unique<OpenPorts>(std::move(deps));
  if (auto opened = ports->open(devices, host); !opened) return tl::unexpected(opened.error());
  return ports;
}

}  // namespace ulnet
