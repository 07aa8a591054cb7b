// The ports of RDMA devices as `port show` shows them. Each call reads sysfs again. Thread: control; a device may take
// some milliseconds for its counters.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "config/doc.h"

namespace ulnet {

inline constexpr const char* kRdmaDevices = "/sys/class/infiniband";

/// One port of an RDMA device.
struct RdmaPort {
  std::filesystem::path device;  ///< folder of the device
  std::string number;            ///< of the port: "1"
  /// The device's name, followed by "/2" and so on if it has several ports.
  std::string name;
};

/// All ports below this folder, by name; none if there is no such folder.
[[nodiscard]] std::vector<RdmaPort> rdma_ports(const std::filesystem::path& devices);

/// Verbosity 0: the port. From 1 on also the counters of the device, by the kernel's names. A value that sysfs does not
/// have is left out.
[[nodiscard]] config::Doc rdma_port_doc(const RdmaPort& port, int verbosity);

}  // namespace ulnet
