// Bytes that can be checked at any offset: byte p of pattern `seed` depends on both and on nothing else. Not random
// enough for anything but finding misplaced, stale or torn data.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ulnet::perf {

/// Word `index` (8 bytes, little endian) of a pattern.
[[nodiscard]] constexpr uint64_t pattern_word(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9E3779B97F4A7C15ull + (index + 1) * 0xD1B54A32D192ED03ull;
  z = (z ^ (z >> 32)) * 0xBF58476D1CE4E5B9ull;
  return z ^ (z >> 29);
}
[[nodiscard]] constexpr std::byte pattern_byte(uint64_t seed, uint64_t position) {
  return std::byte(pattern_word(seed, position / 8) >> (8 * (position % 8)));
}

/// Writes the bytes from `position` on.
inline void pattern_fill(std::span<std::byte> out, uint64_t seed, uint64_t position = 0) {
  size_t i = 0;
  for (; i < out.size() && (position + i) % 8 != 0; ++i) out[i] = pattern_byte(seed, position + i);
  for (; i + 8 <= out.size(); i += 8) {
    const uint64_t word = pattern_word(seed, (position + i) / 8);
    std::memcpy(out.data() + i, &word, 8);
  }
  for (; i < out.size(); ++i) out[i] = pattern_byte(seed, position + i);
}

/// Number of leading bytes that are right: data.size() when all are.
[[nodiscard]] inline size_t pattern_match(std::span<const std::byte> data, uint64_t seed, uint64_t position = 0) {
  size_t i = 0;
  for (; i < data.size() && (position + i) % 8 != 0; ++i)
    if (data[i] != pattern_byte(seed, position + i)) return i;
  for (; i + 8 <= data.size(); i += 8) {
    const uint64_t word = pattern_word(seed, (position + i) / 8);
    if (std::memcmp(data.data() + i, &word, 8) != 0) break;
  }
  for (; i < data.size(); ++i)
    if (data[i] != pattern_byte(seed, position + i)) return i;
  return i;
}

}  // namespace ulnet::perf
