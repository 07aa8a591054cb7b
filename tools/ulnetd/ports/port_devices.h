// The interfaces of a node: those of the system, and for o2ib networks also the packet ports of this ulnetd by their
// names. Thread: control.
#pragma once
#include <memory>

#include "lnd/net/kernel/devices.h"
#include "tools/ulnetd/ports/ports.h"

namespace ulnet {

class PortDevices final : public Devices {
 public:
  explicit PortDevices(std::unique_ptr<Devices> system) : system_(std::move(system)) {}
  /// From now on. `ports` outlives this, or set_ports(nullptr) follows.
  void set_ports(const Ports* ports) { ports_ = ports; }

  /// Without the ports: `ip2nets` names no ports.
  [[nodiscard]] std::vector<Interface> list() override { return system_->list(); }
  /// A port may have the name of an interface. For an o2ib network it comes first, other networks do not see it. Error
  /// EINVAL: a network of another type names a port.
  [[nodiscard]] Result<Interface> find(const std::string& name, NetType type) override;
  [[nodiscard]] Result<Interface> find_address(const Nid& nid) override;
  [[nodiscard]] bool changed() override { return system_->changed(); }
  [[nodiscard]] int wait_fd() override { return system_->wait_fd(); }
  [[nodiscard]] bool reaches(const Nid& from, const Nid& to) override;
  [[nodiscard]] std::vector<std::string> advice(const Nid& nid) override;

 private:
  [[nodiscard]] std::vector<Interface> ports() const;
  [[nodiscard]] std::vector<Interface> port_with(const Nid& nid) const;

  std::unique_ptr<Devices> system_;
  const Ports* ports_ = nullptr;
};

}  // namespace ulnet
