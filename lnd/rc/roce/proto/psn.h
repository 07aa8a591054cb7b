// Packet sequence numbers (PSN) of RC: 24 bits that wrap. Pure values, any thread. Source: docs/wire/roce.md §4.
#pragma once
#include <cstdint>

namespace ulnet::rc::roce {

class Psn {
 public:
  static constexpr uint32_t kMask = 0xFF'FFFF;

  constexpr Psn() = default;
  /// The low 24 bits of `value`.
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}
  [[nodiscard]] constexpr uint32_t value() const { return value_; }

  constexpr bool operator==(const Psn&) const = default;
  [[nodiscard]] friend constexpr Psn operator+(Psn from, uint32_t packets) { return Psn(from.value_ + packets); }
  [[nodiscard]] friend constexpr Psn operator-(Psn from, uint32_t packets) { return Psn(from.value_ - packets); }
  /// Packets from `b` to `a`: -2^23 to 2^23 - 1, and negative if `a` is earlier.
  [[nodiscard]] friend constexpr int32_t operator-(Psn a, Psn b) { return int32_t((a.value_ - b.value_) << 8) >> 8; }

 private:
  uint32_t value_ = 0;
};

}  // namespace ulnet::rc::roce
