// The checksum of ksock messages: CRC-32 (reflected, 0xEDB88320), start value all ones, without the final inversion
// that the usual CRC-32 has. Only v2 senders make it, any receiver checks it when it is not 0. Source:
// docs/wire/socklnd.md §3.5.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace ulnet::socklnd {

inline constexpr uint32_t kCsumStart = 0xFFFFFFFF;

/// Goes on with `csum` over `bytes`; pieces may be of any size. Cost: about 1 cycle per byte.
[[nodiscard]] uint32_t csum_update(uint32_t csum, std::span<const std::byte> bytes);

}  // namespace ulnet::socklnd
