// Writes pcapng (draft-ietf-opsawg-pcapng): one section, one Ethernet interface per port. By hand, because DPDK 22.11's
// rte_pcapng cannot comment a packet (a drop's reason) and libpcap writes only the old format. Pure. Thread: control.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "dataplane/base/time.h"
#include "lnd/net/packet/checksum.h"

namespace ulnet::dpdk {

class PcapngWriter {
 public:
  enum class Direction : uint8_t { kUnknown = 0, kIn = 1, kOut = 2 };
  /// Begins the file: section and interface.
  void begin(std::string_view program, std::string_view interface, uint32_t snap_bytes);
  struct Packet {
    Duration since_1970{};
    Bytes bytes;              ///< at most snap_bytes
    uint32_t wire_bytes = 0;  ///< as it was on the wire
    Direction direction = Direction::kUnknown;
    uint32_t queue = 0;
    std::string_view comment;  ///< empty = none
  };
  void packet(const Packet& packet);
  /// Bytes that packet() adds.
  [[nodiscard]] static size_t packet_bytes(const Packet& packet) {
    const size_t comment = packet.comment.empty() ? 0 : 4 + padded(packet.comment.size());
    return 32 + padded(packet.bytes.size()) + comment + 2 * 8 + 4;
  }
  static constexpr size_t kPacketExtraMax = 256;  ///< beyond the packet's own bytes, with comments of up to 200
  static constexpr size_t kEndBytes = 64;         ///< that end() adds
  /// Ends the file: how many packets were seen, and how many of them had no room here.
  void end(Duration since_1970, uint64_t seen, uint64_t skipped);

  /// The bytes written since clear().
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  static constexpr size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }
  size_t block_begin(uint32_t type);
  void block_end(size_t at);
  void option(uint16_t code, Bytes value);
  void u16(uint16_t value);
  void u32(uint32_t value);
  void raw(Bytes value);
  std::vector<std::byte> bytes_;
};

}  // namespace ulnet::dpdk
