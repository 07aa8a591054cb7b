// Which interfaces of this machine are hardware, from /sys. Thread: control.
#pragma once
#include <string>

namespace ulnet {

/// Do all packets of the interface cross a device of its own, so that another node gets a copy of what is sent? True
/// for hardware, and for VLANs and bonds over hardware only. Interfaces of software (veth, bridges, lo) pass pages on
/// to a node on the same machine. False for these, and for interfaces that do not exist.
[[nodiscard]] bool is_hardware(const std::string& interface);

}  // namespace ulnet
