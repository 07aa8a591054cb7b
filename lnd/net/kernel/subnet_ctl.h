// Several interfaces of this machine in one subnet. The kernel does not keep them apart: a packet leaves by the first
// route, whatever its source address. Each interface also answers ARP for the addresses of all. This file decides which
// interface an address must be bound to, and finds settings that bring its packets to another interface. Drivers whose
// devices are the kernel's share it. Thread: control. Nothing blocks: it reads tables of the kernel, and /proc/sys.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/nid.h"

namespace ulnet {

/// An address of an interface that is up. Only the address of the NID counts, not its net.
struct SubnetAddress {
  std::string interface;
  Nid address;
  unsigned prefix_bits = 0;
};

/// All of this machine, those of loopback and link-local ones left out.
[[nodiscard]] std::vector<SubnetAddress> subnet_addresses();
/// Whether `nid` is an address of the subnet of `at`.
[[nodiscard]] bool in_subnet(const SubnetAddress& at, const Nid& nid);

/// The interfaces in the subnet of `nid`'s, its own first; empty when it has the subnet for itself, or is not there.
[[nodiscard]] std::vector<std::string> subnet_sharers(const std::vector<SubnetAddress>& all, const Nid& nid);
/// The interface of `local`, if another interface is in its subnet, too, and `remote` is in that subnet. A connection
/// between the two must then be bound to the interface. Empty: the kernel's routes lead there.
[[nodiscard]] std::string subnet_hold(const std::vector<SubnetAddress>& all, const Nid& local, const Nid& remote);

/// A setting that brings packets of interfaces of one subnet together on one of them.
struct SubnetAdvice {
  std::string what;  ///< a sentence: the setting, and what comes of it
  std::string mend;  ///< the command that sets it right
};
/// The value of net.ipv4.conf.INTERFACE.KEY; nothing when there is none.
using SysctlRead = std::function<std::optional<long>(const std::string& interface, const std::string& key)>;
/// Settings that are wrong for `sharers` (of subnet_sharers). IPv6 has no such settings: use it for IPv4 only.
[[nodiscard]] std::vector<SubnetAdvice> subnet_advice(const std::vector<std::string>& sharers, const SysctlRead& read);
/// The kernel's own.
[[nodiscard]] std::optional<long> sysctl_ipv4(const std::string& interface, const std::string& key);

}  // namespace ulnet
