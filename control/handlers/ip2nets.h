// ip2nets: "add this net if an address of mine matches". Thread: control. Source: docs/wire/lnetctl.md §2.
#pragma once
#include <string_view>
#include <vector>

#include "config/change.h"
#include "control/devices.h"

namespace ulnet {

/// True when the IPv4 address (host order) fits the pattern: four dotted parts, each a number, `*`, or
/// `[a-b/stride,c]`.
[[nodiscard]] bool ip_pattern_matches(std::string_view pattern, uint32_t address);
/// The NIs that a rule stands for on this machine: those of its interfaces, or each interface with an address that
/// matches. `devices` may be null: then there are none.
[[nodiscard]] std::vector<config::NetAdd> ip2nets_match(const config::Ip2netsRule& rule, Devices* devices);

}  // namespace ulnet
