#include "lnd/net/kernel/hardware_ctl.h"

#include <filesystem>
#include <fstream>

namespace ulnet {
namespace {

constexpr unsigned kLevelsMax = 8;  ///< VLANs over bonds over ...

bool has_lower_devices_only(const std::filesystem::path& at) {
  std::ifstream facts(at / "uevent");
  for (std::string line; std::getline(facts, line);)
    if (line == "DEVTYPE=vlan" || line == "DEVTYPE=bond") return true;
  return false;
}

bool is_hardware_below(const std::string& device, unsigned levels) {
  const std::filesystem::path at = "/sys/class/net/" + device;
  std::error_code none;
  if (std::filesystem::exists(at / "device", none)) return true;
  if (levels == 0 || !has_lower_devices_only(at)) return false;
  unsigned lower = 0;
  for (const auto& entry : std::filesystem::directory_iterator(at, none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("lower_")) continue;
    if (!is_hardware_below(name.substr(6), levels - 1)) return false;
    ++lower;
  }
  return lower > 0;
}

}  // namespace

bool is_hardware(const std::string& interface) {
  const std::string device = interface.substr(0, interface.find(':'));
  return !device.empty() && device.find('/') == std::string::npos && is_hardware_below(device, kLevelsMax);
}

}  // namespace ulnet
