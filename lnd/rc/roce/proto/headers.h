// Headers of RoCEv2 behind UDP: BTH and what follows it, for the operations that LNet uses. Pure, any thread. Source:
// docs/wire/roce.md §2.
#pragma once
#include <array>

#include "lnd/net/packet/checksum.h"
#include "lnd/net/packet/drops.h"
#include "lnd/rc/roce/proto/psn.h"

namespace ulnet::rc::roce {

using dpdk::Bytes;
using dpdk::Decoded;
using dpdk::FrameDrop;

inline constexpr uint16_t kUdpPort = 4791;
inline constexpr uint16_t kDefaultPartition = 0xFFFF;
inline constexpr uint32_t kGsiQpn = 1;             ///< takes the MADs of the connection manager
inline constexpr uint32_t kGsiQkey = 0x8001'0000;  ///< of that queue pair
inline constexpr uint32_t kQpnMask = 0xFF'FFFF;
inline constexpr unsigned kBthBytes = 12, kRethBytes = 16, kAethBytes = 4, kDethBytes = 8, kIcrcBytes = 4;
inline constexpr unsigned kCnpBytes = 16;  ///< zeros behind the BTH of a CNP
inline constexpr unsigned kRoceHeadersMax = kBthBytes + kRethBytes;

enum class Opcode : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendOnly = 0x04,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteOnly = 0x0A,
  kAcknowledge = 0x11,
  kUdSendOnly = 0x64,
  kCnp = 0x81
};

/// Part of an operation that a request packet carries.
struct RequestShape {
  bool write = false;  ///< else SEND
  bool first = false;  ///< with an RETH, if it is a WRITE
  bool last = false;
  constexpr bool operator==(const RequestShape&) const = default;
};
[[nodiscard]] constexpr Opcode opcode_of(RequestShape shape) {
  const uint8_t kind = shape.write ? 0x06 : 0x00;
  if (shape.first && shape.last) return Opcode(kind + 4);
  return Opcode(kind + (shape.first ? 0 : shape.last ? 2 : 1));
}

struct Bth {
  uint8_t opcode = 0;  ///< an Opcode, or another number of 000xxxxx: a request that ulnet refuses
  bool solicited = false;
  bool fecn = false, becn = false;
  uint8_t pad_bytes = 0;  ///< 0 to 3
  uint32_t qpn = 0;       ///< of the receiver
  bool ack_request = false;
  Psn psn;
};

struct Reth {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t bytes = 0;  ///< of the whole WRITE
};

/// The meaning of an AETH's syndrome.
enum class Verdict : uint8_t {
  kAck,
  kRnr,       ///< no receive buffer: Aeth::code is the timer
  kSequence,  ///< NAK codes from here on: a packet is missing
  kInvalidRequest,
  kRemoteAccess,
  kRemoteOperation,
  kReserved  ///< none of these
};
struct Aeth {
  Verdict verdict = Verdict::kAck;
  uint8_t code = 31;  ///< kAck: credits, 31 = not used; kRnr: timer code
  uint32_t msn = 0;   ///< messages that the responder has completed, 24 bits
};

struct Deth {
  uint32_t qkey = 0;
  uint32_t source_qpn = 0;
};

/// The kinds of packets by their receivers.
enum class PacketKind : uint8_t {
  kRequest,      ///< SEND or WRITE: `shape`, and `reth` in the first packet of a WRITE
  kRefused,      ///< another request of RC, which a responder answers with "invalid request"
  kAcknowledge,  ///< `aeth`
  kDatagram,     ///< UD SEND: `deth`
  kCnp
};
struct Packet {
  PacketKind kind = PacketKind::kRefused;
  RequestShape shape;
  Bth bth;
  Reth reth;
  Aeth aeth;
  Deth deth;
  uint32_t header_bytes = 0;   ///< of BTH and extended headers
  uint32_t payload_bytes = 0;  ///< without padding and ICRC
};

/// `head`: the first bytes behind the UDP header, kRoceHeadersMax of them or all; `bytes`: how many there are, the ICRC
/// among them. The ICRC is not verified. Drops: kRoceLength, kRoceHeader, kRoceOpcode.
[[nodiscard]] Decoded<Packet> packet_decode(Bytes head, uint32_t bytes);

/// The header in three words, as they lie in memory.
[[nodiscard]] std::array<uint32_t, 3> bth_words(const Bth& bth);
/// Each writes its header and returns its bytes.
unsigned bth_encode(const Bth& bth, std::byte* out);
unsigned reth_encode(const Reth& reth, std::byte* out);
unsigned aeth_encode(const Aeth& aeth, std::byte* out);
unsigned deth_encode(const Deth& deth, std::byte* out);

}  // namespace ulnet::rc::roce
