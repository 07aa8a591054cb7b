// Seeded randomness, handed in by the code that builds a Node. Same seed, same sequence, on every machine.
#pragma once
#include <cstdint>

namespace ulnet {

/// xoshiro256** seeded by splitmix64. Not for secrets.
class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9E3779B97F4A7C15ull;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
      word = z ^ (z >> 31);
    }
  }
  uint64_t next() {
    const uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }
  /// Uniform in [0, bound); 0 when bound is 0.
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : uint64_t((__uint128_t(next()) * bound) >> 64); }
  /// True once in `n` on average; never when n is 0.
  bool one_in(uint64_t n) { return n != 0 && below(n) == 0; }
  /// True with probability p of 0..1.
  bool chance(double p) { return double(next() >> 11) * 0x1.0p-53 < p; }

 private:
  static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace ulnet
