// The bytes that a payload describes, for tests that stand in for a wire.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "dataplane/state/payload.h"
#include "lnd/rc/roce/port.h"

namespace ulnet::test {

/// The places of the next `bytes` of a payload. Advances over them.
[[nodiscard]] inline std::vector<std::span<const std::byte>> payload_pieces(PayloadCursor& from, uint32_t bytes) {
  std::vector<std::span<const std::byte>> all;
  for (iovec piece; bytes > 0; bytes -= uint32_t(piece.iov_len)) {
    const unsigned count = from.pieces({&piece, 1}, bytes);
    EXPECT_EQ(count, 1u) << "the payload is too short";
    if (count == 0) break;
    all.emplace_back(static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
    from.advance(uint32_t(piece.iov_len));
  }
  return all;
}

/// Appends the next `bytes` of a payload, and advances over them.
inline void payload_append(std::vector<std::byte>& to, PayloadCursor& from, uint32_t bytes) {
  for (const auto piece : payload_pieces(from, bytes)) to.insert(to.end(), piece.begin(), piece.end());
}

/// A packet from its IP header on.
[[nodiscard]] inline std::vector<std::byte> bytes_of(const rc::roce::Departure& packet) {
  std::vector<std::byte> bytes(packet.head.begin(), packet.head.end());
  PayloadCursor cursor = packet.payload;
  payload_append(bytes, cursor, packet.bytes);
  bytes.insert(bytes.end(), packet.tail.begin(), packet.tail.end());
  return bytes;
}

}  // namespace ulnet::test
