// A message's payload: segments of memory with another owner, and a window into them. An LND receives straight into a
// window and sends straight from it. The core copies only payloads that came as a handle (lnd.h, kTaken).
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"

namespace ulnet {

struct Segment {
  std::byte* base = nullptr;
  uint32_t bytes = 0;
  RegionId region{};  ///< that all of it lies in; for drivers that need registered memory (LndControl::regions_above)
};
static_assert(sizeof(Segment) == 16);

/// The place of a region's keys in a driver's table of kRegionSlots.
[[nodiscard]] constexpr uint32_t region_slot(RegionId region) {
  return region.value % kRegionSlots;
}
/// A region of an application: many MDs may lie in it. Others have one MD or one block of router buffers.
[[nodiscard]] constexpr bool region_is_shared(RegionId region) {
  return region_slot(region) <= kRegionsMax;
}

/// A window of `length` bytes that starts `offset` bytes into the concatenation of the segments. Borrowed: the owner
/// (an MD, a router buffer) keeps segments and memory alive until the receive or send is reported done.
struct Payload {
  const Segment* segments = nullptr;
  uint32_t segment_count = 0;
  uint32_t offset = 0;
  uint32_t length = 0;
};

/// Walks a window piece by piece; keeps its place, so that a partial send or receive goes on where it stopped.
class PayloadCursor {
 public:
  PayloadCursor() = default;
  explicit PayloadCursor(const Payload& payload) { start(payload); }
  /// Begins with another window. Faster than an assignment, which copies what was just written (store_pair()).
  void start(const Payload& payload) {
    payload_.segments = payload.segments;
    payload_.segment_count = payload.segment_count;
    payload_.offset = payload.offset;
    payload_.length = payload.length;
    uint32_t index = 0, skip = payload.offset;
    while (index < payload.segment_count && skip >= payload.segments[index].bytes)
      skip -= payload.segments[index++].bytes;
    index_ = index;
    inner_ = skip;
    done_ = 0;
  }
  [[nodiscard]] uint32_t left() const { return payload_.length - done_; }
  /// Describes the next bytes (not yet advanced over) in at most `out.size()` pieces; returns how many were filled.
  unsigned pieces(std::span<iovec> out, uint32_t max_bytes = UINT32_MAX) const {
    return fill(out, max_bytes, [](const Segment& piece) { return iovec{piece.base, piece.bytes}; });
  }
  /// The same; each piece names its region.
  unsigned segments(std::span<Segment> out, uint32_t max_bytes = UINT32_MAX) const {
    return fill(out, max_bytes, [](const Segment& piece) { return piece; });
  }
  /// Requires bytes <= left().
  void advance(uint32_t bytes) {
    done_ += bytes;
    while (bytes > 0) {
      const uint32_t here = payload_.segments[index_].bytes - inner_;
      if (bytes < here) {
        inner_ += bytes;
        return;
      }
      bytes -= here;
      inner_ = 0;
      ++index_;
    }
  }

 private:
  template <class Piece, class As>
  unsigned fill(std::span<Piece> out, uint32_t max_bytes, const As& as) const {
    unsigned count = 0;
    uint32_t rest = left() < max_bytes ? left() : max_bytes;
    uint32_t inner = inner_;
    for (uint32_t i = index_; rest > 0 && count < out.size() && i < payload_.segment_count; ++i, inner = 0) {
      const Segment& segment = payload_.segments[i];
      const uint32_t here = segment.bytes - inner < rest ? segment.bytes - inner : rest;
      if (here == 0) continue;
      out[count++] = as({segment.base + inner, here, segment.region});
      rest -= here;
    }
    return count;
  }

  Payload payload_;
  uint32_t index_ = 0;
  uint32_t inner_ = 0;
  uint32_t done_ = 0;
};

/// Copies at most `bytes` from one window to the other and advances both. Returns how many, less when either window (or
/// the segments behind it) ends first. The windows must not overlap. For drivers without a wire of their own (lo, sim),
/// and for a message that was read whole on another worker than its portal's home.
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
