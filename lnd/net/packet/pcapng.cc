#include "lnd/net/packet/pcapng.h"

#include <array>

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {
namespace {

constexpr uint32_t kSection = 0x0A0D0D0A, kInterface = 1, kStatistics = 5, kEnhancedPacket = 6;
constexpr uint16_t kOptEnd = 0, kOptComment = 1, kShbProgram = 4, kIfName = 2, kIfResolution = 9;
constexpr uint16_t kEpbFlags = 2, kEpbQueue = 6, kIsbEnd = 3, kIsbReceived = 4, kIsbSkipped = 5;
constexpr uint16_t kEthernet = 1;

Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
Bytes bytes_of_value(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

void PcapngWriter::u16(uint16_t value) {
  raw(bytes_of_value(value));
}

void PcapngWriter::u32(uint32_t value) {
  raw(bytes_of_value(value));
}

void PcapngWriter::raw(Bytes value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
}

size_t PcapngWriter::block_begin(uint32_t type) {
  const size_t at = bytes_.size();
  u32(type);
  u32(0);  // length: known at the end
  return at;
}

void PcapngWriter::block_end(size_t at) {
  const auto length = uint32_t(bytes_.size() - at + 4);
  u32(length);
  wire::store<uint32_t>(bytes_.data() + at + 4, length);
}

void PcapngWriter::option(uint16_t code, Bytes value) {
  u16(code);
  u16(uint16_t(value.size()));
  raw(value);
  bytes_.resize(padded(bytes_.size()));
}

void PcapngWriter::begin(std::string_view program, std::string_view interface, uint32_t snap_bytes) {
  size_t at = block_begin(kSection);
  u32(0x1A2B3C4D);
  u16(1);
  u16(0);
  u32(UINT32_MAX);  // length of the section: not known
  u32(UINT32_MAX);
  option(kShbProgram, bytes_of(program));
  option(kOptEnd, {});
  block_end(at);
  at = block_begin(kInterface);
  u16(kEthernet);
  u16(0);
  u32(snap_bytes);
  option(kIfName, bytes_of(interface));
  option(kIfResolution, bytes_of_value(uint8_t{9}));  // nanoseconds
  option(kOptEnd, {});
  block_end(at);
}

void PcapngWriter::packet(const Packet& packet) {
  const size_t at = block_begin(kEnhancedPacket);
  const auto ns = uint64_t(packet.since_1970.count());
  u32(0);
  u32(uint32_t(ns >> 32));
  u32(uint32_t(ns));
  u32(uint32_t(packet.bytes.size()));
  u32(packet.wire_bytes);
  raw(packet.bytes);
  bytes_.resize(padded(bytes_.size()));  // blocks lie on multiples of four
  if (!packet.comment.empty()) option(kOptComment, bytes_of(packet.comment));
  option(kEpbFlags, bytes_of_value(uint32_t(packet.direction)));
  option(kEpbQueue, bytes_of_value(packet.queue));
  option(kOptEnd, {});
  block_end(at);
}

void PcapngWriter::end(Duration since_1970, uint64_t seen, uint64_t skipped) {
  const size_t at = block_begin(kStatistics);
  const auto ns = uint64_t(since_1970.count());
  u32(0);
  u32(uint32_t(ns >> 32));
  u32(uint32_t(ns));
  const std::array<uint32_t, 2> when{uint32_t(ns >> 32), uint32_t(ns)};
  option(kIsbEnd, bytes_of_value(when));
  option(kIsbReceived, bytes_of_value(seen));
  option(kIsbSkipped, bytes_of_value(skipped));
  option(kOptEnd, {});
  block_end(at);
}

}  // namespace ulnet::dpdk
