// Whole frames and parts of them that the packet decoders accept, and small damage to them.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "dataplane/base/rng.h"

namespace ulnet::fuzz {

using Input = std::vector<std::byte>;

/// `target`: "frame" (Ethernet, to 02:00:00:00:00:01), "arp", "nd". Checksums of ICMP are right.
[[nodiscard]] std::vector<Input> dpdk_seeds(std::string_view target);
/// One bit, one byte, or the length.
void dpdk_mutate(Input& input, Rng& rng);

}  // namespace ulnet::fuzz
