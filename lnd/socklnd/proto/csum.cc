// CRC-32 by eight table look-ups per eight bytes. Table t holds the effect of a byte that t further bytes follow.
#include "lnd/socklnd/proto/csum.h"

#include <array>

#include "dataplane/wire/bytes.h"

namespace ulnet::socklnd {
namespace {

constexpr unsigned kStride = 8;
using Tables = std::array<std::array<uint32_t, 256>, kStride>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
    tables[0][byte] = crc;
  }
  for (unsigned t = 1; t < kStride; ++t)
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[t - 1][byte];
      tables[t][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t csum_update(uint32_t csum, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kStride; left -= kStride, at += kStride) {
    const uint64_t word = wire::load<uint64_t>(at) ^ csum;
    csum = 0;
    for (unsigned t = 0; t < kStride; ++t) csum ^= kTables[kStride - 1 - t][(word >> (8 * t)) & 0xFF];
  }
  for (; left != 0; --left, ++at) csum = (csum >> 8) ^ kTables[0][(csum ^ uint32_t(*at)) & 0xFF];
  return csum;
}

}  // namespace ulnet::socklnd
