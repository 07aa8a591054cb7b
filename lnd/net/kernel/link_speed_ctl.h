// The speed of a kernel's interface: now, and the highest that it supports. Thread: control. Nothing blocks.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "dataplane/base/link_speed.h"

namespace ulnet {

/// An alias (eth0:1) has the speed of its interface. Unknown parts are 0.
[[nodiscard]] LinkSpeed link_speed_of(const std::string& interface);

/// The highest speed of these link modes: bits of ethtool_link_mode_bit_indices (linux/ethtool.h). 0: none is known.
[[nodiscard]] uint32_t best_of_modes(std::span<const uint32_t> modes);

}  // namespace ulnet
