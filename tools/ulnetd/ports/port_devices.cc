#include "tools/ulnetd/ports/port_devices.h"

#include <algorithm>

namespace ulnet {
namespace {

bool has(const Devices::Interface& interface, const Nid& nid) {
  return std::ranges::any_of(interface.addresses,
                             [&](const Nid& own) { return own.size == nid.size && own.addr == nid.addr; });
}

}  // namespace

std::vector<Devices::Interface> PortDevices::ports() const {
  return ports_ == nullptr ? std::vector<Interface>{} : ports_->interfaces();
}

/// One, or none.
std::vector<Devices::Interface> PortDevices::port_with(const Nid& nid) const {
  std::vector<Interface> all = ports();
  std::erase_if(all, [&](const Interface& one) { return !has(one, nid); });
  return all;
}

Result<Devices::Interface> PortDevices::find(const std::string& name, NetType type) {
  std::vector<Interface> named = ports();
  std::erase_if(named, [&](const Interface& one) { return one.name != name; });
  if (named.empty()) return system_->find(name, type);
  if (type == NetType::kO2ib) return std::move(named.front());
  auto system = system_->find(name, type);
  if (!system) return fail(EINVAL, "this interface is a packet port: only o2ib networks use ports");
  return system;
}

Result<Devices::Interface> PortDevices::find_address(const Nid& nid) {
  auto own = port_with(nid);
  if (!own.empty()) return std::move(own.front());
  return system_->find_address(nid);
}

/// Of a port, only its link is looked at.
bool PortDevices::reaches(const Nid& from, const Nid& to) {
  const auto own = port_with(from);
  return own.empty() ? system_->reaches(from, to) : own.front().link_up;
}

std::vector<std::string> PortDevices::advice(const Nid& nid) {
  return port_with(nid).empty() ? system_->advice(nid) : std::vector<std::string>{};
}

}  // namespace ulnet
