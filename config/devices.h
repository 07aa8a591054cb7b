// The packet ports of `ulnet: devices:` as plain values. Addresses stay text, because only the ports interpret them.
// Defaults are the member initialisers here; bounds and text: schema_ulnet.cc. Control side only.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "config/doc.h"

namespace ulnet::config {

struct DeviceConfig {
  struct Neighbour {
    std::string address;
    std::string mac;
    bool operator==(const Neighbour&) const = default;
  };
  std::string name;    ///< as NIs name it
  std::string device;  ///< PCI address, or a kind with parameters: "memif,role=server,socket=/run/a.sock"
  std::vector<std::string> addresses;  ///< with length of prefix: "10.0.0.1/24"
  std::vector<std::string> gateways;   ///< at most one of each family
  std::string mac;                     ///< empty = the device's
  int64_t mtu = 1500;
  int64_t vlan = 0;    ///< 0 = untagged
  int64_t pcp = 0;     ///< priority of frames
  int64_t queues = 0;  ///< 0 = one per worker
  int64_t rx_depth = 512;
  int64_t tx_depth = 512;
  std::optional<int64_t> in_flight;  ///< unset: 1024 with huge pages, else none
  std::vector<Neighbour> neighbours;
  bool operator==(const DeviceConfig&) const = default;
};

/// The list under `ulnet: devices:`; null = none. Errors: a sentence with the item and key of a mistake that the import
/// did not find.
[[nodiscard]] tl::expected<std::vector<DeviceConfig>, std::string> devices_of(const Doc& list);

}  // namespace ulnet::config
