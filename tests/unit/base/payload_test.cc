// Tests of payload windows and the copy between them (dataplane/state/payload.h).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dataplane/state/payload.h"

namespace ulnet {
namespace {

struct Memory {
  std::string text;
  std::vector<Segment> segments;
  /// Cuts `bytes` letters into segments of the sizes that the digits of `cuts` (base 4) give; 0 gives an empty segment.
  Memory(uint32_t bytes, unsigned cuts, char first) : text(bytes, first) {
    for (uint32_t i = 0; i < bytes; ++i) text[i] = char(first + char(i));
    uint32_t at = 0;
    while (at < bytes) {
      const uint32_t size = cuts == 0 ? bytes - at : std::min(cuts % 4, bytes - at);
      segments.push_back({reinterpret_cast<std::byte*>(text.data()) + at, size});
      at += size;
      cuts /= 4;
    }
  }
  Payload window(uint32_t offset, uint32_t length) const {
    return {segments.data(), uint32_t(segments.size()), offset, length};
  }
};

// Goal: a copy moves exactly the window's bytes, whatever the segments and whatever the step.
// Method: all cuts of 7 bytes into up to four first segments of 0..3 bytes on both sides, all offsets, three step
// sizes.
TEST(PayloadCopy, moves_exactly_the_window) {
  for (unsigned from_cuts = 0; from_cuts < 256; from_cuts += 3)
    for (unsigned to_cuts = 0; to_cuts < 256; to_cuts += 7)
      for (uint32_t from_offset = 0; from_offset <= 7; ++from_offset)
        for (uint32_t to_offset = 0; to_offset <= 7; ++to_offset) {
          const uint32_t length = std::min(7 - from_offset, 7 - to_offset);
          for (uint32_t step : {1u, 2u, 100u}) {
            Memory source(7, from_cuts, 'a'), target(7, to_cuts, 'A');
            std::string expected = target.text;
            expected.replace(to_offset, length, source.text, from_offset, length);
            PayloadCursor from(source.window(from_offset, length)), to(target.window(to_offset, length));
            uint32_t copied = 0;
            while (const uint32_t here = payload_copy(to, from, step)) copied += here;
            ASSERT_EQ(copied, length);
            ASSERT_EQ(from.left(), 0u);
            ASSERT_EQ(target.text, expected);
          }
        }
}

TEST(PayloadCopy, ends_with_the_shorter_window) {
  Memory source(8, 0, 'a'), target(8, 0, 'A');
  PayloadCursor from(source.window(0, 8)), to(target.window(1, 3));
  EXPECT_EQ(payload_copy(to, from), 3u);
  EXPECT_EQ(target.text, "AabcEFGH");
  EXPECT_EQ(from.left(), 5u);
  PayloadCursor nowhere;
  EXPECT_EQ(payload_copy(nowhere, from), 0u);
}

// A window beyond its segments is a caller's error. The copy must not run past the segments.
TEST(PayloadCopy, stops_where_the_segments_end) {
  Memory source(4, 0, 'a'), target(8, 0, 'A');
  PayloadCursor from(source.window(2, 8)), to(target.window(0, 8));
  EXPECT_EQ(payload_copy(to, from), 2u);
}

}  // namespace
}  // namespace ulnet
