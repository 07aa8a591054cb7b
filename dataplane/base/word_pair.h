// A value of 16 bytes that is made of two words in registers. One store writes both. A load is fast only if one earlier
// store wrote all of it. Else it waits until the parts have reached the cache, about 15 cycles. Any thread.
#pragma once
#include <cstdint>
#include <cstring>

namespace ulnet {

inline void store_pair(void* to, uint64_t first, uint64_t second) {
  using Pair [[gnu::vector_size(16)]] = uint64_t;
  const Pair pair{first, second};
  std::memcpy(to, &pair, sizeof pair);
}

}  // namespace ulnet
