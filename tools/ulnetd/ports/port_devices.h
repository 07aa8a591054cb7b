// The interfaces of a node: those of the system, and the packet ports of this ulnetd by their names. Thread: control.
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

  [[nodiscard]] std::vector<Interface> list() override;
  [[nodiscard]] Result<Interface> find(const std::string& name) override;
  [[nodiscard]] Result<Interface> find_address(const Nid& nid) override;
  [[nodiscard]] bool changed() override { return system_->changed(); }
  [[nodiscard]] int wait_fd() override { return system_->wait_fd(); }
  /// A port reaches all that its own addresses and gateways reach, if its link is up.
  [[nodiscard]] bool reaches(const Nid& from, const Nid& to) override;
  [[nodiscard]] std::vector<std::string> advice(const Nid& nid) override;

 private:
  [[nodiscard]] std::vector<Interface> ports() const;
  [[nodiscard]] std::vector<Interface> port_with(const Nid& nid) const;

  std::unique_ptr<Devices> system_;
  const Ports* ports_ = nullptr;
};

}  // namespace ulnet
