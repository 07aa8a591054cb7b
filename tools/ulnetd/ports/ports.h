// The packet ports of `ulnet: devices:` in a running ulnetd: opened at start, shown, captured and reset over the
// control socket. Drivers use them. If ulnet is built without DPDK, open() refuses any port. Thread: control.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/devices.h"
#include "config/doc.h"
#include "config/problem.h"
#include "control/api/server.h"
#include "dataplane/host/host.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

class PortUser;  // lnd/net/dpdk/port_user_ctl.h

class Ports {
 public:
  struct Deps {
    std::function<void(const std::string&)> log;
    std::function<void(api::RequestId, const api::Answer&)> reply;
    std::function<size_t(api::RequestId)> backlog;  ///< bytes that wait to be sent to the request's client
    std::vector<PortUser*> users;                   ///< parts of drivers; outlive the ports
  };
  /// Adds to `host` the requirements of the ports: DPDK, PCI devices, memory. The host must meet them before open().
  /// Errors: a device that is not understood, with the reason.
  [[nodiscard]] static config::Checked<void> host_needs(const std::vector<config::DeviceConfig>& devices,
                                                        HostConfig& host);
  /// Opens them all, or none. The host outlives them. Errors: which port, and why.
  [[nodiscard]] static config::Checked<std::unique_ptr<Ports>> open(const std::vector<config::DeviceConfig>& devices,
                                                                    Host& host, Deps deps);
  virtual ~Ports() = default;

  virtual unsigned turn(Instant now) = 0;
  [[nodiscard]] virtual Instant next_deadline() const = 0;
  virtual void wait_fds(std::vector<int>& out) const = 0;

  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  /// Each port, as NIs see an interface.
  [[nodiscard]] virtual std::vector<Devices::Interface> interfaces() const = 0;
  /// One port as `show port` shows it. Requires: one of names().
  [[nodiscard]] virtual config::Doc shown(const std::string& name, int verbosity) = 0;
  /// `manage capture` and `manage port_reset`. gone(): the client of the request has gone.
  virtual void capture(api::RequestId id, const api::Request& request) = 0;
  virtual void reset(api::RequestId id, const api::Request& request) = 0;
  virtual void gone(api::RequestId id) = 0;
  /// Ends all captures and refuses new ones. Called before the socket closes, so that each client gets all packets.
  virtual void captures_stop() = 0;
  /// Captures are running or ending.
  [[nodiscard]] virtual bool captured() const = 0;
  /// Ends captures and closes all ports. Waits for the threads. Requires: the workers of nodes that use the ports do
  /// not run.
  virtual void close() = 0;
};

}  // namespace ulnet
