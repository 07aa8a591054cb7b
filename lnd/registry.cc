#include "lnd/registry.h"

#include <cstring>

#include "lnd/lo/lo.h"
#include "lnd/net/kernel/link_events.h"
#include "lnd/net/kernel/subnet_ctl.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet {
namespace {

socklnd::SockConfig sock_config(const LndSettings& s) {
  socklnd::SockConfig config;
  config.sock_timeout = s.sock_timeout;
  config.accept_port = s.accept_port;
  config.accept_backlog = s.accept_backlog;
  config.accept = s.accept == LndSettings::Accept::kSecure ? socklnd::AcceptMode::kSecure
                  : s.accept == LndSettings::Accept::kAll  ? socklnd::AcceptMode::kAll
                                                           : socklnd::AcceptMode::kNone;
  config.accept_timeout = s.accept_timeout;
  config.min_reconnect = s.min_reconnect;
  config.max_reconnect = s.max_reconnect;
  config.conns_per_peer = s.conns_per_peer;
  config.typed_conns = s.typed_conns;
  config.conns_max = s.connections_per_worker;
  config.min_bulk = s.min_bulk;
  config.tx_buffer_bytes = s.tx_buffer_bytes;
  config.rx_buffer_bytes = s.rx_buffer_bytes;
  config.nagle = s.nagle;
  config.keepalive = s.keepalive;
  config.keepalive_idle = s.keepalive_idle;
  config.keepalive_interval = s.keepalive_interval;
  config.keepalive_count = s.keepalive_count;
  config.enable_csum = s.enable_csum;
  config.zc_min_payload = s.zc_min_payload;
  config.tos = s.tos;
  config.unprivileged_ports = s.unprivileged_ports;
  config.incarnation = s.incarnation;
  return config;
}

Nid nid_of(Net net, const socklnd::IpAddress& address) {
  if (address.v6) return Nid::v6(net, address.bytes);
  const auto& b = address.bytes;
  return Nid::v4(net, (uint32_t{b[0]} << 24) | (uint32_t{b[1]} << 16) | (uint32_t{b[2]} << 8) | b[3]);
}

class Runtime final : public LndRuntime, private socklnd::SockDevices {
 public:
  explicit Runtime(const LndSettings& settings) : settings_(settings), net_(socklnd::make_kernel_net_io()) {}

  Result<void> open(unsigned workers) {
    if (auto opened = links_.open(LinkEvents::About::kLinksAndAddresses); !opened) return opened;
    for (unsigned i = 0; i < workers; ++i) {
      Error why_not{};
      engines_.push_back(settings_.engine == LndSettings::Engine::kEpoll
                             ? socklnd::make_epoll_engine(settings_.connections_per_worker)
                             : socklnd::make_uring_engine(settings_.connections_per_worker, &why_not));
      const bool epoll = std::strcmp(engines_.back()->name(), "epoll") == 0;
      if (epoll && settings_.engine == LndSettings::Engine::kIoUring) return fail(ENOSYS, why_not.what);
      if (epoll) reason_ = settings_.engine == LndSettings::Engine::kEpoll ? "as configured" : why_not.what;
    }
    return {};
  }

  std::vector<LndEntry> entries() override {
    const socklnd::SockConfig sock = sock_config(settings_);
    return {
        lnd_loopback(),
        {"tcp", NetType::kTcp,
         [this, sock](LndCore& core) { return socklnd::make_sock_lnd(core, *engines_[core.worker_id().value], sock); },
         [this, sock](LndControlHost& host) {
           auto made = socklnd::make_sock_lnd_control(host, *net_, sock, this);
           sock_control_ = made.get();
           return made;
         }},
    };
  }

  void retune(const LndSettings& settings, Instant now) override {
    if (sock_control_ != nullptr) socklnd::sock_lnd_retune(*sock_control_, sock_config(settings), now);
  }

  std::string engine_text() const override {
    const std::string name = engines_.empty() ? "none" : engines_.front()->name();
    return reason_.empty() ? name : name + ": " + reason_;
  }

 private:
  uint32_t link_mbps(const NiParams& ni) override { return settings_.link_mbps ? settings_.link_mbps(ni) : 0; }
  bool changed() override { return links_.take(); }
  std::optional<bool> usable(const NiParams& ni) override {
    const AddressState state = address_state(ni.nid);
    return state == AddressState::kNone ? std::nullopt : std::optional(state == AddressState::kUp);
  }
  std::string hold_to(const NiParams& ni, const socklnd::IpAddress& remote) override {
    const Nid far = nid_of(ni.nid.net(), remote);
    const auto addresses = subnet_addresses();
    std::string interface = subnet_hold(addresses, ni.nid, far);
    if (interface.empty() || remote.v6) return interface;
    // Held to it while packets come in over another, a connection would get nothing.
    return subnet_problems(subnet_sharers(addresses, ni.nid), sysctl_ipv4).empty() ? interface : std::string();
  }
  int wait_fd() const override { return links_.fd(); }

  const LndSettings settings_;
  std::unique_ptr<socklnd::NetIo> net_;
  LinkEvents links_;
  std::vector<std::unique_ptr<socklnd::StreamEngine>> engines_;  // by worker
  std::string reason_;
  LndControl* sock_control_ = nullptr;  // the Node's
};

}  // namespace

bool lnd_has(NetType type) {
  return type == NetType::kLo || type == NetType::kTcp;
}

LndEntry lnd_loopback() {
  return {"lo", NetType::kLo, [](LndCore& core) { return std::make_unique<LoLnd>(core); },
          [](LndControlHost& host) { return std::make_unique<LoControl>(host); }};
}

Result<std::unique_ptr<LndRuntime>> lnd_runtime_make(const LndSettings& settings, unsigned workers) {
  auto runtime = std::make_unique<Runtime>(settings);
  if (auto opened = runtime->open(workers); !opened) return tl::unexpected(opened.error());
  return std::unique_ptr<LndRuntime>(std::move(runtime));
}

}  // namespace ulnet
