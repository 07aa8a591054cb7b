// Which LNDs there are, as a Node gets them. Start-up only, control thread. registry.cc is the one file that names
// concrete LNDs; what they want to know comes in as plain values, so that nobody above needs their headers.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lnd/lnd.h"

namespace ulnet {

/// One LND. Number 0 of a Node must be loopback.
struct LndEntry {
  std::string name;  ///< "tcp", "o2ib", "lo"
  NetType type = NetType::kLo;
  /// Called once per worker; core.worker_id() says for which.
  std::function<std::unique_ptr<Lnd>(LndCore& core)> make_worker_half;
  std::function<std::unique_ptr<LndControl>(LndControlHost& host)> make_control_half;
};

/// Tunables of the LNDs that hold for a whole node; defaults are those of each LND. Source: docs/wire/socklnd.md §8.
struct LndSettings {
  enum class Engine : uint8_t { kAuto, kIoUring, kEpoll };
  enum class Accept : uint8_t { kSecure, kAll, kNone };
  Engine engine = Engine::kAuto;
  uint32_t connections_per_worker = 4096;
  uint64_t incarnation = 1;  ///< unique per life of the node: real time in ns
  bool unprivileged_ports = false;
  Accept accept = Accept::kSecure;
  uint16_t accept_port = 988;
  int accept_backlog = 127;
  Duration accept_timeout = 5s;
  Duration sock_timeout = 50s;
  int32_t conns_per_peer = 0;
  bool typed_conns = true;
  uint32_t min_bulk = 1024;
  uint32_t tx_buffer_bytes = 0;
  uint32_t rx_buffer_bytes = 0;
  bool nagle = false;
  Duration keepalive = 30s;
  int keepalive_idle = 30;
  int keepalive_interval = 5;
  int keepalive_count = 5;
  bool enable_csum = false;
  uint32_t zc_min_payload = 0;
  Duration min_reconnect = 1000ms;
  Duration max_reconnect = 60000ms;
  int tos = -1;
  std::function<uint32_t(const NiParams&)> link_mbps;  ///< speed of an NI's device; null or 0 = unknown
};

/// What the LNDs of one Node stand on: engines, sockets. Outlives the Node.
class LndRuntime {
 public:
  virtual ~LndRuntime() = default;
  /// Every LND there is, loopback first.
  [[nodiscard]] virtual std::vector<LndEntry> entries() = 0;
  /// Changes what drivers can change at run time (lnd/socklnd/socklnd.h says what). Control thread of the Node that
  /// entries() were given to, while it lives.
  virtual void retune(const LndSettings& settings, Instant now) = 0;
  /// How bytes are moved, for the journal: "io_uring", or "epoll: " and why it is not io_uring.
  [[nodiscard]] virtual std::string engine_text() const = 0;
};

/// Errors: EMFILE, EPERM (no notices about links: netlink is forbidden here); ENOSYS when io_uring was demanded and is
/// not to be had.
[[nodiscard]] Result<std::unique_ptr<LndRuntime>> lnd_runtime_make(const LndSettings& settings, unsigned workers);

/// Whether there is a driver for networks of this type.
[[nodiscard]] bool lnd_has(NetType type);

/// Loopback alone: for nodes whose other LNDs a test brings along.
[[nodiscard]] LndEntry lnd_loopback();

}  // namespace ulnet
