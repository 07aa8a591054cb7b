// The Internet checksum (RFC 1071), over pieces of any length and alignment, and its update for a changed word (RFC
// 1624). Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ulnet::dpdk {

using Bytes = std::span<const std::byte>;

/// Sums pieces of a byte string as if they lay behind one another.
class Checksum {
 public:
  void add(Bytes bytes) {
    const std::byte* at = bytes.data();
    size_t left = bytes.size();
    uint64_t sum = 0;
    for (; left >= 4; at += 4, left -= 4) {
      uint32_t word;
      std::memcpy(&word, at, 4);
      sum += word;
    }
    if (left >= 2) {
      uint16_t word;
      std::memcpy(&word, at, 2);
      sum += word;
      at += 2;
      left -= 2;
    }
    if (left > 0) sum += uint8_t(*at);
    const uint16_t folded = fold(sum);
    sum_ += odd_ ? __builtin_bswap16(folded) : folded;
    odd_ ^= (bytes.size() & 1) != 0;
  }
  /// A 16-bit field given as a number. Requires: an even number of bytes so far.
  void add16(uint16_t value) { sum_ += __builtin_bswap16(value); }
  void add32(uint32_t value) {
    add16(uint16_t(value >> 16));
    add16(uint16_t(value));
  }
  /// The field's value as a number (host order): the complement of the sum. 0 over data that includes a right checksum.
  [[nodiscard]] uint16_t value() const { return __builtin_bswap16(uint16_t(~fold(sum_))); }

 private:
  static uint16_t fold(uint64_t sum) {
    while ((sum >> 16) != 0) sum = (sum & 0xFFFF) + (sum >> 16);
    return uint16_t(sum);
  }
  uint64_t sum_ = 0;  // of little-endian words: swapped once, at the end
  bool odd_ = false;
};

/// Checksum field after one 16-bit word under it has changed (RFC 1624, equation 3).
[[nodiscard]] constexpr uint16_t checksum_update(uint16_t checksum, uint16_t old_word, uint16_t new_word) {
  uint32_t sum = uint16_t(~checksum) + uint32_t(uint16_t(~old_word)) + new_word;
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return uint16_t(~sum);
}

}  // namespace ulnet::dpdk
