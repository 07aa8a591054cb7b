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

std::vector<Devices::Interface> PortDevices::list() {
  std::vector<Interface> all = system_->list();
  for (Interface& one : ports()) all.push_back(std::move(one));
  return all;
}

Result<Devices::Interface> PortDevices::find(const std::string& name) {
  for (Interface& one : ports())
    if (one.name == name) return std::move(one);
  return system_->find(name);
}

Result<Devices::Interface> PortDevices::find_address(const Nid& nid) {
  auto own = port_with(nid);
  if (!own.empty()) return std::move(own.front());
  return system_->find_address(nid);
}

bool PortDevices::reaches(const Nid& from, const Nid& to) {
  const auto own = port_with(from);
  return own.empty() ? system_->reaches(from, to) : own.front().link_up;
}

std::vector<std::string> PortDevices::advice(const Nid& nid) {
  return port_with(nid).empty() ? system_->advice(nid) : std::vector<std::string>{};
}

}  // namespace ulnet
