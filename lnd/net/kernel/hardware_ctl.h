// Which interfaces of this machine are hardware, from /sys. Thread: control.
#pragma once
#include <filesystem>
#include <string>

namespace ulnet {

/// Do all packets of the interface cross a device of its own, so that another node gets a copy of what is sent? True
/// for hardware, and for VLANs and bonds over hardware only. Interfaces of software (veth, bridges, lo) pass pages on
/// to a node on the same machine. False for these, for interfaces that do not exist, and if /sys shows another network
/// namespace than that of this process.
[[nodiscard]] bool is_hardware(const std::string& interface);
/// The same from a tree like /sys/class/net, without the look at the namespace.
[[nodiscard]] bool is_hardware_in(const std::filesystem::path& tree, const std::string& device);

}  // namespace ulnet
