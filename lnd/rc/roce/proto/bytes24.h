// Numbers of 24 bits in byte strings, big endian: PSN, QPN, MSN. Pure, any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ulnet::rc::roce {

[[nodiscard]] inline uint32_t load24(const std::byte* at) {
  return uint32_t(at[0]) << 16 | uint32_t(at[1]) << 8 | uint32_t(at[2]);
}
inline void store24(std::byte* at, uint32_t value) {
  at[0] = std::byte(uint8_t(value >> 16));
  at[1] = std::byte(uint8_t(value >> 8));
  at[2] = std::byte(uint8_t(value));
}

}  // namespace ulnet::rc::roce
