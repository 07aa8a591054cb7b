// Opens, watches, resets and closes ports. Only this file and port_queue.cc use DPDK's ethdev.
#include "lnd/net/dpdk/port.h"

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <rte_version.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>

namespace ulnet::dpdk {

/// Written by DPDK's interrupt thread, read by control.
struct Port::Events {
  std::atomic<bool> reset{false};
  std::atomic<bool> link{false};
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ~Events() {
    if (fd >= 0) ::close(fd);
  }
  static int happened(uint16_t, rte_eth_event_type type, void* self, void*) {
    auto& its = *static_cast<Events*>(self);
    (type == RTE_ETH_EVENT_INTR_RESET ? its.reset : its.link).store(true, std::memory_order_release);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(its.fd, &one, sizeof one);
    return 0;
  }
};

namespace {

/// A problem with further words, for example those of DPDK or the sum of buffers. `detail` may be empty.
tl::unexpected<Problem> problem(const Error& error, const std::string& detail = {}) {
  return tl::unexpected(
      Problem{.what = detail.empty() ? error.what : error.what + (": " + detail), .code = error.code});
}
tl::unexpected<Problem> problem(int code, const char* what, const std::string& detail = {}) {
  return problem(fail(code, what).value(), detail);
}

std::string driver_words(int code) {
  return std::string("the driver says: ") + rte_strerror(code < 0 ? -code : code);
}

/// mlx5 gives a channel of events, for example.
bool is_eventfd(int fd) {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none) == "anon_inode:[eventfd]";
}

}  // namespace

Port::Port(const PortConfig& config) : config_(config), events_(std::make_unique<Events>()) {}

Checked<std::unique_ptr<Port>> Port::open(const PortConfig& config, unsigned workers, unsigned index) {
  std::unique_ptr<Port> port(new Port(config));
  auto spec = device_spec(config.device);
  if (!spec) return problem(spec.error(), config.device);
  port->spec_ = *spec;
  port->index_ = index;
  port->queue_wish_ = config.queues != 0 ? config.queues : workers;
  if (port->queue_wish_ > workers) return problem(EINVAL, "a port has at most one queue per worker");
  const bool tap_without_name = spec->kind == DeviceKind::kTap && spec->parameter("iface").empty();
  if (tap_without_name) port->spec_.parameters += (spec->parameters.empty() ? "iface=" : ",iface=") + config.name;
  if (auto checked = port_config_check(config, port->spec_, port->queue_wish_); !checked) {
    const uint64_t limit = checked.error().object;
    return problem(checked.error(), limit != 0 ? "the limit is " + std::to_string(limit) : "");
  }
  if (auto done = port->make_relay(); !done) return tl::unexpected(done.error());
  if (auto done = port->probe(index); !done) return tl::unexpected(done.error());
  if (auto done = port->make_pools(); !done) return tl::unexpected(done.error());
  if (auto done = port->start_device(); !done) return tl::unexpected(done.error());
  return port;
}

Checked<void> Port::make_relay() {
  if (spec_.kind != DeviceKind::kMemif) return {};
  auto relay = MemifRelay::make(spec_);
  if (!relay) return tl::unexpected(relay.error());
  relay_ = std::move(*relay);
  if (relay_->is_client() && relay_->ask_server() == MemifRelay::Answer::kNoServer) return no_server();
  return {};
}

/// Opens and sets up the system's interface under the device. tap creates its interface later: set_mtu().
Checked<void> Port::prepare_kernel_side() {
  if (!traits_of(spec_.kind).kernel_side || spec_.kind == DeviceKind::kTap) return {};
  if (auto opened = kernel_.open(spec_.parameter("iface")); !opened)
    return problem(opened.error(), spec_.parameter("iface"));
  if (auto set = kernel_.set_mtu(config_.mtu); !set) return problem(set.error(), "MTU of " + kernel_.interface());
  if (auto set = kernel_.set_up(); !set) return problem(set.error(), kernel_.interface());
  if (spec_.kind != DeviceKind::kAfXdp || queue_wish_ <= kernel_.combined_channels()) return {};
  return problem(EINVAL, "af_xdp has at most one queue per combined channel of its interface: set `queues`",
                 kernel_.interface() + " has " + std::to_string(kernel_.combined_channels()));
}

/// Makes DPDK find the device: creates a virtual one, or attaches to the PCI address.
Checked<void> Port::probe(unsigned index) {
  if (auto done = prepare_kernel_side(); !done) return done;
  const bool pci = spec_.kind == DeviceKind::kPci;
  const DeviceSpec& spec = relay_ != nullptr ? relay_->device() : spec_;
  const std::string arguments = pci ? spec.pci : vdev_arguments(config_, spec, queue_wish_, index);
  const std::string name = arguments.substr(0, arguments.find(','));
  uint16_t found = UINT16_MAX;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &found) != 0) {
    const int rc = rte_dev_probe(arguments.c_str());
    if (rc != 0) return problem(rc, "the device cannot be opened", arguments + ": " + driver_words(rc));
    if (const int got = rte_eth_dev_get_port_by_name(name.c_str(), &found); got != 0)
      return problem(ENODEV, "the device is not a network device", name);
  }
  port_ = found;
  probed_ = true;
  const int numa = rte_eth_dev_socket_id(port_);
  numa_ = numa < 0 ? SOCKET_ID_ANY : numa;
  rte_eth_dev_info info;
  if (const int rc = rte_eth_dev_info_get(port_, &info); rc != 0)
    return problem(rc, "the device gives no information about itself", driver_words(rc));
  driver_ = info.driver_name != nullptr ? info.driver_name : "";
  if (queue_wish_ > info.max_rx_queues || queue_wish_ > info.max_tx_queues) {
    return problem(EINVAL, "the device has fewer queues than there are workers: set `queues`",
                   "it has " + std::to_string(std::min(info.max_rx_queues, info.max_tx_queues)));
  }
  if (pci && info.max_mtu != 0 && config_.mtu > info.max_mtu)
    return problem(EINVAL, "the MTU is above the NIC's limit", "the limit is " + std::to_string(info.max_mtu));
  offloads_ = {};
  const auto rx = [&](uint64_t bit) { return (info.rx_offload_capa & bit) != 0; };
  const auto tx = [&](uint64_t bit) { return (info.tx_offload_capa & bit) != 0; };
  offloads_.rx_ip_checksum = rx(RTE_ETH_RX_OFFLOAD_IPV4_CKSUM);
  offloads_.rx_udp_checksum = rx(RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
  offloads_.tx_ip_checksum = tx(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
  offloads_.tx_udp_checksum = tx(RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
  offloads_.multi_segment = tx(RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
  const Scatter scatter = traits_of(spec_.kind).scatter;
  offloads_.scatter = scatter == Scatter::kAlways || (scatter == Scatter::kReported && rx(RTE_ETH_RX_OFFLOAD_SCATTER));
  // memif of DPDK 22.11 copies a frame of several segments into one slot, which holds the longest frame. Other versions
  // were not looked at.
  if (spec_.kind == DeviceKind::kMemif && (rte_version_year() != 22 || rte_version_month() != 11))
    offloads_.multi_segment = false;
  // tap's driver reports RSS, too, and means something else.
  const bool spreads = pci || spec_.kind == DeviceKind::kNull;
  offloads_.rss = spreads && queue_wish_ > 1 && (info.flow_type_rss_offloads & RTE_ETH_RSS_IP) != 0;
  return {};
}

Checked<void> Port::make_pools() {
  plan_ = pool_plan(config_, buffer_shape(config_, spec_.kind, offloads_.scatter));
  if (!config_.hold_small && rte_eal_has_hugepages() == 0) plan_.held_max = 0;
  for (unsigned i = 0; i < queue_wish_; ++i) {
    const std::string name = "ulnet" + std::to_string(index_) + "q" + std::to_string(i);
    auto pool = PacketPool::create(name, plan_, numa_);
    if (!pool) {
      rte_malloc_socket_stats stats{};
      uint64_t free_bytes = 0;
      for (unsigned socket = 0; socket < rte_socket_count(); ++socket)
        if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(socket), &stats) == 0)
          free_bytes += stats.heap_freesz_bytes;
      return problem(ENOMEM,
                     "too little memory for the packet buffers: "
                     "set smaller depths, a smaller in_flight, or more memory",
                     pool_plan_text(config_, plan_, queue_wish_) + "; free now, with " + std::to_string(i) +
                         " queues made: " + std::to_string(free_bytes >> 20) + " MiB");
    }
    queues_.push_back(std::make_unique<PortQueue>(uint16_t(i), std::move(*pool)));
  }
  return {};
}

Checked<void> Port::configure() {
  rte_eth_conf conf{};
  const bool pci = spec_.kind == DeviceKind::kPci;
  rte_eth_dev_info info;
  if (const int rc = rte_eth_dev_info_get(port_, &info); rc != 0)
    return problem(rc, "the device gives no information about itself", driver_words(rc));
  if (pci) conf.rxmode.mtu = config_.mtu;
  const auto want = [](bool on, uint64_t bit) { return on ? bit : uint64_t{0}; };
  conf.rxmode.offloads = want(offloads_.rx_ip_checksum, RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) |
                         want(offloads_.rx_udp_checksum, RTE_ETH_RX_OFFLOAD_UDP_CKSUM) |
                         want(plan_.shape.segments > 1, RTE_ETH_RX_OFFLOAD_SCATTER & info.rx_offload_capa);
  conf.txmode.offloads = want(offloads_.tx_ip_checksum, RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) |
                         want(offloads_.tx_udp_checksum, RTE_ETH_TX_OFFLOAD_UDP_CKSUM) |
                         want(offloads_.multi_segment, RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
  std::array<uint8_t, 64> key{};
  std::copy(kRssKey.begin(), kRssKey.end(), key.begin());
  if (offloads_.rss) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
    const uint8_t key_bytes = info.hash_key_size != 0 ? info.hash_key_size : 40;
    if (key_bytes <= key.size()) {
      conf.rx_adv_conf.rss_conf.rss_key = key.data();
      conf.rx_adv_conf.rss_conf.rss_key_len = key_bytes;
    }
  }
  // With this, DPDK reports the link of the last interrupt, which may never come: a NIC's link is read from the NIC.
  conf.intr_conf.lsc = !pci && (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
  tells_link_ = conf.intr_conf.lsc != 0;
  conf.intr_conf.rxq = traits_of(spec_.kind).rx_interrupt;
  const auto queues = uint16_t(queue_wish_);
  int rc = rte_eth_dev_configure(port_, queues, queues, &conf);
  if (rc != 0 && conf.intr_conf.rxq != 0) {
    conf.intr_conf.rxq = 0;  // then this port is polled
    rc = rte_eth_dev_configure(port_, queues, queues, &conf);
  }
  if (rc != 0) return problem(rc, "the device refuses its configuration", driver_words(rc));
  interrupts_ = conf.intr_conf.rxq != 0;
  rss_types_ = conf.rx_adv_conf.rss_conf.rss_hf;
  return {};
}

/// Gives the device our key and an even table. The model is known if the device takes the table and then reports our
/// key.
void Port::agree_on_rss() {
  rss_ = {};
  rte_eth_dev_info info;
  if (!offloads_.rss || rte_eth_dev_info_get(port_, &info) != 0 || info.reta_size == 0) return;
  std::array<uint8_t, kRssKey.size()> key = kRssKey;
  rte_eth_rss_conf conf{};
  conf.rss_key = key.data();
  conf.rss_key_len = uint8_t(key.size());
  conf.rss_hf = rss_types_;
  (void)rte_eth_dev_rss_hash_update(port_, &conf);  // some devices take it with their configuration only
  std::vector<uint16_t> queues(info.reta_size);
  std::vector<rte_eth_rss_reta_entry64> table((queues.size() + 63) / 64);
  for (size_t i = 0; i < queues.size(); ++i) {
    queues[i] = uint16_t(i % queue_wish_);
    table[i / 64].mask |= uint64_t{1} << i % 64;
    table[i / 64].reta[i % 64] = queues[i];
  }
  if (rte_eth_dev_rss_reta_update(port_, table.data(), info.reta_size) != 0) return;
  std::array<uint8_t, 64> theirs{};
  conf = {};
  conf.rss_key = theirs.data();
  conf.rss_key_len = uint8_t(theirs.size());
  if (rte_eth_dev_rss_hash_conf_get(port_, &conf) != 0) return;
  if (!std::equal(kRssKey.begin(), kRssKey.end(), theirs.begin())) return;
  rss_.known = true;
  rss_.udp_ports_v4 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
  rss_.udp_ports_v6 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_UDP) != 0;
  rss_.redirection = std::move(queues);
}

Checked<void> Port::set_up_queues() {
  uint16_t rx_depth = config_.rx_depth, tx_depth = config_.tx_depth;
  if (const int rc = rte_eth_dev_adjust_nb_rx_tx_desc(port_, &rx_depth, &tx_depth); rc != 0)
    return problem(rc, "the device refuses the depth of its queues", driver_words(rc));
  if (rx_depth > config_.rx_depth || tx_depth > config_.tx_depth)
    return problem(EINVAL, "the device needs deeper queues than configured",
                   "rx_depth " + std::to_string(rx_depth) + ", tx_depth " + std::to_string(tx_depth));
  for (auto& queue : queues_) {
    const auto socket = unsigned(numa_);
    int rc = rte_eth_rx_queue_setup(port_, queue->index(), rx_depth, socket, nullptr, queue->pool().mempool());
    if (rc == 0) rc = rte_eth_tx_queue_setup(port_, queue->index(), tx_depth, socket, nullptr);
    if (rc != 0) return problem(rc, "the device refuses a queue", driver_words(rc));
    queue->given_.port = port_;
    queue->given_.offloads = offloads_;
    queue->given_.lends = spec_.kind != DeviceKind::kPci;
  }
  return {};
}

/// tap's interface exists only now. A NIC got its MTU in configure().
Checked<void> Port::set_mtu() {
  if (spec_.kind != DeviceKind::kTap) return {};
  if (auto opened = kernel_.open(spec_.parameter("iface")); !opened)
    return problem(opened.error(), spec_.parameter("iface"));
  if (auto set = kernel_.set_mtu(config_.mtu); !set) return problem(set.error(), "MTU of " + kernel_.interface());
  return {};
}

Checked<void> Port::start_device() {
  if (auto done = configure(); !done) return done;
  if (auto done = set_up_queues(); !done) return done;
  if (auto done = set_mtu(); !done) return done;
  (void)rte_eth_dev_callback_register(port_, RTE_ETH_EVENT_INTR_LSC, &Events::happened, events_.get());
  (void)rte_eth_dev_callback_register(port_, RTE_ETH_EVENT_INTR_RESET, &Events::happened, events_.get());
  if (const int rc = rte_eth_dev_start(port_); rc != 0)
    return problem(rc, "the device does not start", driver_words(rc));
  agree_on_rss();
  rte_ether_addr address{};
  (void)rte_eth_macaddr_get(port_, &address);
  std::memcpy(mac_.bytes.data(), address.addr_bytes, 6);
  if (config_.mac) {
    mac_ = *config_.mac;
  } else if (traits_of(spec_.kind).own_mac) {
    mac_.bytes[0] = uint8_t((mac_.bytes[0] ^ 0x04) | 0x02);  // the kernel's end keeps the device's
  }
  if (spec_.kind == DeviceKind::kPci && config_.mac) {
    std::memcpy(address.addr_bytes, mac_.bytes.data(), 6);
    (void)rte_eth_dev_default_mac_addr_set(port_, &address);
  }
  // Neighbour discovery needs group addresses. Where a device has no filter for them, software filters.
  if (spec_.kind == DeviceKind::kPci) {
    (void)rte_eth_allmulticast_enable(port_);
  } else {
    (void)rte_eth_promiscuous_enable(port_);
  }
  find_wait_fds();
  return {};
}

void Port::find_wait_fds() {
  for (auto& queue : queues_) {
    queue->given_.wait_fd = interrupts_ ? rte_eth_dev_rx_intr_ctl_q_get_fd(port_, queue->index()) : -1;
    queue->given_.may_miss = spec_.kind == DeviceKind::kPci;
    queue->given_.drain_fd = queue->given_.may_miss && is_eventfd(queue->given_.wait_fd);
    queue->given_.peek = rte_eth_rx_queue_count(port_, queue->index()) >= 0;
  }
}

void Port::close_device() {
  if (!probed_) return;
  if (relay_ != nullptr) relay_->let_go();
  rte_eth_dev_info info{};
  (void)rte_eth_dev_info_get(port_, &info);
  (void)rte_eth_dev_callback_unregister(port_, RTE_ETH_EVENT_INTR_LSC, &Events::happened, events_.get());
  (void)rte_eth_dev_callback_unregister(port_, RTE_ETH_EVENT_INTR_RESET, &Events::happened, events_.get());
  (void)rte_eth_dev_stop(port_);
  rte_device* device = info.device;
  (void)rte_eth_dev_close(port_);
  if (device != nullptr) (void)rte_dev_remove(device);
  probed_ = false;
}

Port::~Port() {
  close_device();
}

void Port::start() {
  for (auto& queue : queues_) queue->ask_run();
}

void Port::stop_begin() {
  for (auto& queue : queues_) queue->ask_stop();
}

bool Port::stopped() const {
  for (const auto& queue : queues_)
    if (!queue->stopped()) return false;
  return true;
}

Result<void> Port::may_reopen() const {
  if (plan_.shape.kept_by_device != 0)
    return fail(ENOTSUP,
                "the driver of this kind of device keeps its packet buffers after a close: restart ulnetd instead");
  if (spec_.kind == DeviceKind::kMemif && !loses_link_for_good())
    return fail(ENOTSUP, "memif's server keeps its socket after a close: restart ulnetd instead");
  return {};
}

Checked<bool> Port::ready_to_reopen(Instant now) {
  if (!loses_link_for_good()) return true;
  close_device();
  if (greeting_until_ == kForever) greeting_until_ = now + kGreetingPatience;
  const auto answer = relay_->ask_server();
  if (answer == MemifRelay::Answer::kNone && now < greeting_until_) return false;
  greeting_until_ = kForever;
  if (answer == MemifRelay::Answer::kGreeted) return true;
  ++resets_failed_;
  if (answer == MemifRelay::Answer::kNoServer) return no_server();
  return problem(ETIMEDOUT, "memif's server does not answer at its socket: it may hang, or be stopped",
                 spec_.parameter("socket"));
}

tl::unexpected<Problem> Port::no_server() const {
  return problem(ECONNREFUSED, "memif's client finds no server at its socket: start the server first",
                 spec_.parameter("socket"));
}

Checked<void> Port::reopen() {
  if (auto may = may_reopen(); !may) return problem(may.error());
  if (!stopped()) return problem(EBUSY, "a worker still uses the port");
  close_device();
  events_->reset.store(false, std::memory_order_release);
  Checked<void> done = probe(index_);
  if (done) done = start_device();
  ++(done ? resets_ : resets_failed_);
  if (!done) close_device();
  return done;
}

LinkState Port::link() {
  LinkState out;
  rte_eth_link link{};
  if (!probed_ || rte_eth_link_get_nowait(port_, &link) != 0) return out;
  out.up = link.link_status == RTE_ETH_LINK_UP && (relay_ == nullptr || relay_->connected());
  out.speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
  if (kernel_.is_open()) {
    const auto state = kernel_.state();
    // A tap has a carrier while a process has it open, and this process has.
    out.up = out.up && state && (spec_.kind == DeviceKind::kTap ? state->up : state->running);
  }
  return out;
}

bool Port::take_reset_request() {
  return events_->reset.exchange(false, std::memory_order_acq_rel);
}

void Port::wait_fds(std::vector<int>& out) const {
  if (tells_link_ && events_->fd >= 0) out.push_back(events_->fd);
  if (kernel_.is_open()) out.push_back(kernel_.fd());
  if (relay_ != nullptr) relay_->wait_fds(out);
}

bool Port::drain_events(Instant now) {
  uint64_t count;
  const bool told = events_->fd >= 0 && ::read(events_->fd, &count, sizeof count) > 0;
  return relay_turn(now) || (kernel_.is_open() && kernel_.drain()) || told;
}

/// A server's device learns that its client is gone only when no worker uses the rings. That of a client is closed
/// before: see ready_to_reopen().
bool Port::relay_turn(Instant now) {
  if (relay_ == nullptr) return false;
  const bool any = relay_->turn(now);
  if (!relay_->ending()) return any;
  stop_begin();
  return (!relay_->is_client() && stopped() && relay_->release()) || any;
}

PortShown Port::show() {
  PortShown out{config_.name, config_.device, driver_, mac_,      config_.mtu, config_.vlan,
                config_.pcp,  numa_,          link(),  offloads_, {}};
  out.is_open = probed_;
  out.resets = resets_;
  out.resets_failed = resets_failed_;
  rte_eth_stats stats{};
  if (probed_ && rte_eth_stats_get(port_, &stats) == 0) {
    out.missed = stats.imissed;
    out.rx_errors = stats.ierrors;
    out.tx_errors = stats.oerrors;
    out.no_buffer = stats.rx_nombuf;
  }
  for (auto& queue : queues_) {
    QueueShown shown;
    QueueCounters& counters = queue->counters();
    shown.queue = queue->index();
    shown.rx_packets = counters.rx_packets.get();
    shown.rx_bytes = counters.rx_bytes.get();
    shown.tx_packets = counters.tx_packets.get();
    shown.tx_bytes = counters.tx_bytes.get();
    shown.polls = counters.polls.get();
    shown.polls_empty = counters.polls_empty.get();
    shown.copied = counters.copied.get();
    for (unsigned i = 0; i < QueueCounters::kBurstClasses; ++i) {
      shown.rx_bursts[i] = counters.rx_bursts[i].get();
      shown.tx_bursts[i] = counters.tx_bursts[i].get();
    }
    for (size_t i = 0; i < shown.drops.size(); ++i) shown.drops[i] = counters.drops.counts[i].get();
    shown.pool_free = queue->pool().free_count();
    shown.pool_size = queue->pool().capacity();
    shown.pool_held = queue->pool().held();
    shown.pool_held_max = queue->pool().held_max();
    shown.sleeps_on_interrupt = queue->given_.wait_fd >= 0 && !queue->is_deaf();
    shown.interrupts_missed = counters.interrupts_missed.get();
    out.queues.push_back(shown);
  }
  return out;
}

bool Port::packets_conserved() const {
  for (const auto& queue : queues_)
    if (!queue->pool().whole()) return false;
  return true;
}

}  // namespace ulnet::dpdk
