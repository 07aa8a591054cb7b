#include "lnd/rc/roce/proto/headers.h"

#include "dataplane/wire/bytes.h"
#include "lnd/rc/roce/proto/bytes24.h"

namespace ulnet::rc::roce {
namespace {

using dpdk::drop;

constexpr uint8_t kSolicited = 0x80, kPadShift = 4, kVersionMask = 0x0F;
constexpr uint8_t kFecn = 0x80, kBecn = 0x40, kAckRequest = 0x80;
constexpr uint16_t kPartitionMask = 0x7FFF;  // the highest bit is the kind of membership

/// Requests of RC that ulnet does not serve: with immediate data or an invalidation, READ, atomic operations.
bool is_other_request(uint8_t opcode) {
  switch (opcode) {
    case 0x03:
    case 0x05:
    case 0x09:
    case 0x0B:
    case 0x0C:
    case 0x13:
    case 0x14:
    case 0x16:
    case 0x17: return true;
    default: return false;
  }
}

Decoded<void> classify(Packet& packet) {
  switch (Opcode(packet.bth.opcode)) {
    case Opcode::kSendFirst: packet.shape = {false, true, false}; break;
    case Opcode::kSendMiddle: packet.shape = {false, false, false}; break;
    case Opcode::kSendLast: packet.shape = {false, false, true}; break;
    case Opcode::kSendOnly: packet.shape = {false, true, true}; break;
    case Opcode::kWriteFirst: packet.shape = {true, true, false}; break;
    case Opcode::kWriteMiddle: packet.shape = {true, false, false}; break;
    case Opcode::kWriteLast: packet.shape = {true, false, true}; break;
    case Opcode::kWriteOnly: packet.shape = {true, true, true}; break;
    case Opcode::kAcknowledge: packet.kind = PacketKind::kAcknowledge; return {};
    case Opcode::kUdSendOnly: packet.kind = PacketKind::kDatagram; return {};
    case Opcode::kCnp: packet.kind = PacketKind::kCnp; return {};
    default:
      if (!is_other_request(packet.bth.opcode)) return drop(FrameDrop::kRoceOpcode);
      packet.kind = PacketKind::kRefused;
      return {};
  }
  packet.kind = PacketKind::kRequest;
  return {};
}

/// Bytes of the headers behind the BTH.
unsigned extension_bytes(const Packet& packet) {
  switch (packet.kind) {
    case PacketKind::kRequest: return packet.shape.write && packet.shape.first ? kRethBytes : 0;
    case PacketKind::kAcknowledge: return kAethBytes;
    case PacketKind::kDatagram: return kDethBytes;
    case PacketKind::kRefused:
    case PacketKind::kCnp: return 0;
  }
  return 0;
}

Aeth aeth_decode(const std::byte* at) {
  const auto syndrome = uint8_t(at[0]);
  Aeth aeth{Verdict::kReserved, uint8_t(syndrome & 0x1F), load24(at + 1)};
  if (syndrome >> 5 == 0) aeth.verdict = Verdict::kAck;
  if (syndrome >> 5 == 1) aeth.verdict = Verdict::kRnr;
  if (syndrome >> 5 == 3 && aeth.code < 4) aeth.verdict = Verdict(unsigned(Verdict::kSequence) + aeth.code);
  return aeth;
}

Decoded<void> decode(Bytes head, uint32_t bytes, Packet& packet) {
  if (bytes < kBthBytes + kIcrcBytes || head.size() < kBthBytes) return drop(FrameDrop::kRoceLength);
  const std::byte* at = head.data();
  const auto flags = uint8_t(at[1]);
  if ((flags & kVersionMask) != 0) return drop(FrameDrop::kRoceHeader);
  if ((wire::load<uint16_t>(at + 2, true) & kPartitionMask) != kPartitionMask) return drop(FrameDrop::kRoceHeader);
  packet.bth.opcode = uint8_t(at[0]);
  packet.bth.solicited = (flags & kSolicited) != 0;
  packet.bth.fecn = (uint8_t(at[4]) & kFecn) != 0;
  packet.bth.becn = (uint8_t(at[4]) & kBecn) != 0;
  packet.bth.pad_bytes = uint8_t(flags >> kPadShift & 3);
  packet.bth.qpn = load24(at + 5);
  packet.bth.ack_request = (uint8_t(at[8]) & kAckRequest) != 0;
  packet.bth.psn = Psn(load24(at + 9));
  if (auto known = classify(packet); !known) return drop(known.error());
  packet.header_bytes = kBthBytes + extension_bytes(packet);
  const uint32_t around = packet.header_bytes + packet.bth.pad_bytes + kIcrcBytes;
  if (bytes < around || head.size() < packet.header_bytes) return drop(FrameDrop::kRoceLength);
  packet.payload_bytes = bytes - around;
  if (packet.kind == PacketKind::kAcknowledge && packet.payload_bytes > 0) return drop(FrameDrop::kRoceLength);
  const std::byte* behind = at + kBthBytes;
  if (packet.kind == PacketKind::kRequest && packet.shape.write && packet.shape.first)
    packet.reth = {wire::load<uint64_t>(behind, true), wire::load<uint32_t>(behind + 8, true),
                   wire::load<uint32_t>(behind + 12, true)};
  if (packet.kind == PacketKind::kAcknowledge) packet.aeth = aeth_decode(behind);
  if (packet.kind == PacketKind::kDatagram) packet.deth = {wire::load<uint32_t>(behind, true), load24(behind + 5)};
  return {};
}

}  // namespace

Decoded<Packet> packet_decode(Bytes head, uint32_t bytes) {
  Decoded<Packet> out;
  if (const auto read = decode(head, bytes, *out); !read) out = drop(read.error());
  return out;
}

std::array<uint32_t, 3> bth_words(const Bth& bth) {
  const uint32_t flags = uint32_t((bth.solicited ? kSolicited : 0) | bth.pad_bytes << kPadShift);
  const uint32_t congestion = uint32_t((bth.fecn ? kFecn : 0) | (bth.becn ? kBecn : 0));
  return {uint32_t(bth.opcode | flags << 8) | uint32_t{wire::byte_swap(kDefaultPartition)} << 16,
          congestion | wire::byte_swap(bth.qpn & kQpnMask),
          (bth.ack_request ? kAckRequest : 0u) | wire::byte_swap(bth.psn.value())};
}

unsigned bth_encode(const Bth& bth, std::byte* out) {
  const auto words = bth_words(bth);
  std::memcpy(out, words.data(), kBthBytes);
  return kBthBytes;
}

unsigned reth_encode(const Reth& reth, std::byte* out) {
  wire::store<uint64_t>(out, reth.address, true);
  wire::store<uint32_t>(out + 8, reth.key, true);
  wire::store<uint32_t>(out + 12, reth.bytes, true);
  return kRethBytes;
}

unsigned aeth_encode(const Aeth& aeth, std::byte* out) {
  uint8_t syndrome = aeth.code;
  if (aeth.verdict == Verdict::kRnr) syndrome |= 0x20;
  if (aeth.verdict > Verdict::kRnr) syndrome = uint8_t(0x60 | (unsigned(aeth.verdict) - unsigned(Verdict::kSequence)));
  out[0] = std::byte(syndrome);
  store24(out + 1, aeth.msn);
  return kAethBytes;
}

unsigned deth_encode(const Deth& deth, std::byte* out) {
  wire::store<uint32_t>(out, deth.qkey, true);
  out[4] = std::byte{0};
  store24(out + 5, deth.source_qpn);
  return kDethBytes;
}

}  // namespace ulnet::rc::roce
