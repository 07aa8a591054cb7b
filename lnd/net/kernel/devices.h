// The interfaces of this machine. Real: system_devices(); tests: a table. Thread: control; must not block.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/link_speed.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/result.h"

namespace ulnet {

class Devices {
 public:
  struct Interface {
    std::string name;
    std::vector<Nid> addresses;  ///< net part is tcp and means nothing: only the address bytes count; IPv4 first
    LinkSpeed speed;
    uint32_t numa_node = UINT32_MAX;
    bool link_up = true;
  };
  virtual ~Devices() = default;
  [[nodiscard]] virtual std::vector<Interface> list() = 0;
  /// As a network of this type may use it. Error ENODEV when there is none of this name.
  [[nodiscard]] virtual Result<Interface> find(const std::string& name, NetType type) = 0;
  /// The interface that has this address; ENODEV if none.
  [[nodiscard]] virtual Result<Interface> find_address(const Nid& nid) = 0;
  /// Whether interfaces or addresses may have changed since the last call; does not block.
  [[nodiscard]] virtual bool changed() { return false; }
  /// Readable when changed() has something to say; -1 = it never has.
  [[nodiscard]] virtual int wait_fd() { return -1; }
  /// Would packets from one of this machine's addresses to another machine leave over an interface that runs?
  [[nodiscard]] virtual bool reaches(const Nid& from, const Nid& to) {
    (void)from, (void)to;
    return true;
  }
  /// Settings of the machine that make packets of this address leave or arrive by another interface. Each entry is a
  /// sentence with the command that corrects the setting.
  [[nodiscard]] virtual std::vector<std::string> advice(const Nid& nid) {
    (void)nid;
    return {};
  }
};

/// The machine's own interfaces: addresses from the kernel, speed and NUMA node from /sys. Each call reads them again,
/// so new interfaces are found.
[[nodiscard]] std::unique_ptr<Devices> system_devices();

}  // namespace ulnet
