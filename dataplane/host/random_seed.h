// A seed from the operating system, for a Node outside of tests.
#pragma once
#include <sys/random.h>

#include <cstdint>

#include "dataplane/base/check.h"

namespace ulnet {

/// 64 random bits. Any thread; blocks only while the system boots.
[[nodiscard]] inline uint64_t random_seed() {
  uint64_t seed = 0;
  ULNET_CHECK(getrandom(&seed, sizeof seed, 0) == ssize_t(sizeof seed));  // never less, for so few bytes
  return seed;
}

}  // namespace ulnet
