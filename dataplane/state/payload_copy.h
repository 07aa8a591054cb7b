// Copies between two windows: for drivers without a wire of their own (lo, sim), and for a message that was read whole
// on another worker than its portal's home.
#pragma once
#include <cstring>

#include "dataplane/state/payload.h"

namespace ulnet {

/// Copies at most `bytes` from one window to the other and advances both; returns how many, less when either window (or
/// the segments behind it) ends first. The windows must not overlap.
inline uint32_t payload_copy(PayloadCursor& to, PayloadCursor& from, uint32_t bytes = UINT32_MAX) {
  uint32_t copied = 0;
  while (copied < bytes) {
    iovec target, source;
    if (to.pieces({&target, 1}, bytes - copied) == 0 || from.pieces({&source, 1}, bytes - copied) == 0) break;
    const uint32_t here = uint32_t(target.iov_len < source.iov_len ? target.iov_len : source.iov_len);
    std::memcpy(target.iov_base, source.iov_base, here);
    to.advance(here);
    from.advance(here);
    copied += here;
  }
  return copied;
}

}  // namespace ulnet
