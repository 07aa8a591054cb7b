#include "lnd/net/kernel/hardware_ctl.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>

namespace ulnet {
namespace {

constexpr unsigned kLevelsMax = 8;  ///< VLANs over bonds over ...
constexpr size_t kMacBytes = 6;

bool has_lower_devices_only(const std::filesystem::path& at) {
  std::ifstream facts(at / "uevent");
  for (std::string line; std::getline(facts, line);)
    if (line == "DEVTYPE=vlan" || line == "DEVTYPE=bond") return true;
  return false;
}

bool is_hardware_below(const std::filesystem::path& tree, const std::string& device, unsigned levels) {
  const std::filesystem::path at = tree / device;
  std::error_code error;
  if (std::filesystem::exists(at / "device", error)) return true;
  if (levels == 0 || !has_lower_devices_only(at)) return false;
  unsigned lower = 0;
  for (std::filesystem::directory_iterator entry(at, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with("lower_")) continue;
    if (!is_hardware_below(tree, name.substr(6), levels - 1)) return false;
    ++lower;
  }
  return !error && lower > 0;
}

/// /sys belongs to the namespace of whoever mounted it, where another interface may have the name.
bool is_ours(const std::filesystem::path& at, const std::string& device) {
  unsigned index = 0;
  std::string address;
  ifreq request{};
  if (!(std::ifstream(at / "ifindex") >> index) || !(std::ifstream(at / "address") >> address)) return false;
  if (device.size() >= sizeof request.ifr_name || if_nametoindex(device.c_str()) != index) return false;
  std::memcpy(request.ifr_name, device.data(), device.size());
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  const bool known = ::ioctl(socket, SIOCGIFHWADDR, &request) == 0;
  (void)::close(socket);
  for (size_t i = 0; i < kMacBytes && known; ++i) {
    const size_t begin = std::min(3 * i, address.size()), end = std::min(begin + 2, address.size());
    uint8_t byte = 0;
    (void)std::from_chars(address.data() + begin, address.data() + end, byte, 16);
    if (byte != uint8_t(request.ifr_hwaddr.sa_data[i])) return false;
  }
  return known;
}

}  // namespace

bool is_hardware_in(const std::filesystem::path& tree, const std::string& device) {
  return !device.empty() && device.find('/') == std::string::npos && is_hardware_below(tree, device, kLevelsMax);
}

bool is_hardware(const std::string& interface) {
  const std::string device = interface.substr(0, interface.find(':'));
  const std::filesystem::path tree = "/sys/class/net";
  return is_hardware_in(tree, device) && is_ours(tree / device, device);
}

}  // namespace ulnet
