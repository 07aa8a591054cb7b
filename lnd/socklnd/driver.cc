// The record of socklnd, and the kernel's sockets, links and addresses under its halves. Thread: control.
#include "lnd/driver.h"

#include <cstring>

#include "lnd/net/kernel/hardware_ctl.h"
#include "lnd/net/kernel/link_events.h"
#include "lnd/net/kernel/link_speed_ctl.h"
#include "lnd/net/kernel/route_ctl.h"
#include "lnd/net/kernel/subnet_ctl.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet::socklnd {
namespace {

Nid nid_of(Net net, const IpAddress& address) {
  if (address.v6) return Nid::v6(net, address.bytes);
  const auto& b = address.bytes;
  return Nid::v4(net, (uint32_t{b[0]} << 24) | (uint32_t{b[1]} << 16) | (uint32_t{b[2]} << 8) | b[3]);
}

class SockDriver final : public Driver, private SockDevices {
 public:
  SockDriver(const SockConfig& config) : config_(config), net_(make_kernel_net_io()) {}

  Result<void> open(unsigned workers) {
    if (auto opened = links_.open(LinkEvents::About::kLinksAndAddresses); !opened) return opened;
    for (unsigned i = 0; i < workers; ++i) {
      Error why_not{};
      engines_.push_back(config_.engine == EngineChoice::kEpoll ? make_epoll_engine(config_.conns_max)
                                                                : make_uring_engine(config_.conns_max, &why_not));
      const bool epoll = std::strcmp(engines_.back()->name(), "epoll") == 0;
      if (epoll && config_.engine == EngineChoice::kIoUring) return fail(ENOSYS, why_not.what);
      if (epoll) reason_ = config_.engine == EngineChoice::kEpoll ? "as configured" : why_not.what;
    }
    return {};
  }

  std::unique_ptr<LndControl> make_control(LndControlHost& host) override {
    auto made = make_sock_lnd_control(host, *net_, config_, this);
    control_ = made.get();
    return made;
  }
  std::unique_ptr<Lnd> make_worker(LndCore& core) override {
    return make_sock_lnd(core, *engines_[core.worker_id().value], config_);
  }
  void retune(std::span<const int64_t> settings, Instant now) override {
    if (control_ != nullptr) sock_lnd_retune(*control_, sock_config(settings), now);
  }
  DriverNote note() const override {
    const std::string name = engines_.empty() ? "none" : engines_.front()->name();
    return {"sockets", reason_.empty() ? name : name + ": " + reason_};
  }

 private:
  bool changed() override { return links_.take(); }
  std::optional<bool> usable(const NiParams& ni) override {
    const AddressState state = address_state(ni.nid);
    return state == AddressState::kNone ? std::nullopt : std::optional(state == AddressState::kUp);
  }
  LinkSpeed speed(const NiParams& ni) override {
    return ni.interface.empty() ? LinkSpeed{} : link_speed_of(ni.interface);
  }
  bool on_wire(const NiParams& ni, const IpAddress& remote) override {
    return is_hardware(ni.interface) && is_hardware(route_interface(ni.nid, nid_of(ni.nid.net(), remote)));
  }
  std::string hold_to(const NiParams& ni, const IpAddress& remote) override {
    const Nid far = nid_of(ni.nid.net(), remote);
    const auto addresses = subnet_addresses();
    std::string interface = subnet_hold(addresses, ni.nid, far);
    if (interface.empty() || remote.v6) return interface;
    // If packets come in over another interface, a connection that is bound to this one receives nothing.
    return subnet_advice(subnet_sharers(addresses, ni.nid), sysctl_ipv4).empty() ? interface : std::string();
  }
  int wait_fd() const override { return links_.fd(); }

  const SockConfig config_;
  std::unique_ptr<NetIo> net_;
  LinkEvents links_;
  std::vector<std::unique_ptr<StreamEngine>> engines_;  // by worker
  std::string reason_;
  LndControl* control_ = nullptr;  // the Node's
};

Result<std::unique_ptr<Driver>> open(const DriverContext& context) {
  SockConfig config = sock_config(context.settings);
  config.incarnation = context.incarnation;
  auto driver = std::make_unique<SockDriver>(config);
  if (auto opened = driver->open(context.workers); !opened) return tl::unexpected(opened.error());
  return driver;
}

}  // namespace

const DriverType kSockDriver{.name = "socklnd",
                             .net_type = NetType::kTcp,
                             .by_ip = true,
                             .settings = sock_setting_fields(),
                             .ni_tunables = sock_tunable_fields(),
                             .open = &open};

}  // namespace ulnet::socklnd
