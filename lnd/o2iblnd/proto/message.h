// Messages of o2iblnd: bytes <-> struct, and the fault of each message that cannot be decoded. Sans-IO and pure. The
// caller judges whether a message fits the state of its connection, and finds its cookie. A "flipped" message comes
// from a node of the other byte order; own messages are little endian. Source: docs/wire/o2iblnd.md §2, §3, §8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/nid.h"
#include "dataplane/wire/header.h"

namespace ulnet::o2iblnd {

inline constexpr uint32_t kMagic = 0x0BE91B91;
inline constexpr uint16_t kVersion = 0x0012;
inline constexpr uint16_t kVersion1 = 0x0011;  ///< Lustre 1.8: recognised, and refused
inline constexpr size_t kMessageMax = 4096;    ///< bytes of one message, and of one receive buffer
inline constexpr size_t kHeaderBytes = 48;
inline constexpr size_t kImmediatePrefix = kHeaderBytes + wire::kHeaderNid4Bytes;  ///< where its payload begins
inline constexpr size_t kImmediateMax = kMessageMax - kImmediatePrefix;            ///< payload bytes of an IMMEDIATE
inline constexpr size_t kConnectBytes = 56;                                        ///< of a CONNREQ or CONNACK
inline constexpr uint32_t kFragmentsMax = 257;
inline constexpr size_t kFragmentBytes = 12;

enum class MessageType : uint8_t {
  kConnReq = 0xC0,
  kConnAck = 0xC1,
  kNoop = 0xD0,
  kImmediate = 0xD1,
  kPutReq = 0xD2,
  kPutNak = 0xD3,
  kPutAck = 0xD4,
  kPutDone = 0xD5,
  kGetReq = 0xD6,
  kGetDone = 0xD7
};
/// The name in docs/wire/o2iblnd.md §3, e.g. "PUT_REQ"; "?" for a value that is no type.
[[nodiscard]] const char* message_type_text(MessageType type);

/// The two NIs of a connection, each with its incarnation (a stamp), from the sender's side.
struct Ends {
  Nid src, dst;
  uint64_t src_stamp = 0;
  uint64_t dst_stamp = 0;  ///< 0 in a CONNREQ: the peer's stamp is not known yet
  constexpr bool operator==(const Ends&) const = default;
};

/// The limits of a connection: offered by CONNREQ, settled by CONNACK.
struct ConnParams {
  uint16_t queue_depth = 0;
  uint16_t fragments = 0;
  uint32_t message_max = kMessageMax;
  constexpr bool operator==(const ConnParams&) const = default;
};

/// A piece of remote memory.
struct Fragment {
  uint64_t address = 0;
  uint32_t bytes = 0;
  constexpr bool operator==(const Fragment&) const = default;
};

/// Remote memory under one key, offered by a peer for RDMA writes. The fragments stay in the bytes of the message,
/// which must outlive this object.
class RemoteSink {
 public:
  RemoteSink() = default;
  /// Requires a multiple of kFragmentBytes.
  RemoteSink(uint32_t key, std::span<const std::byte> fragments, bool flip)
      : fragments_(fragments), key_(key), flip_(flip) {}
  [[nodiscard]] uint32_t key() const { return key_; }
  [[nodiscard]] uint32_t count() const { return uint32_t(fragments_.size() / kFragmentBytes); }
  /// Requires index < count().
  [[nodiscard]] Fragment at(uint32_t index) const;
  /// Sum over all fragments.
  [[nodiscard]] uint64_t bytes() const;

 private:
  std::span<const std::byte> fragments_;
  uint32_t key_ = 0;
  bool flip_ = false;
};

/// A message in host form. A field that the type does not have keeps its initial value.
struct Message {
  MessageType type = MessageType::kNoop;
  uint8_t credits = 0;  ///< returned by the sender
  Ends ends;
  ConnParams params;                   ///< CONNREQ, CONNACK
  wire::Header header;                 ///< IMMEDIATE, PUT_REQ, GET_REQ
  std::span<const std::byte> payload;  ///< IMMEDIATE: header.payload_length bytes, in the bytes that were decoded
  /// PUT_REQ, GET_REQ: the sender's. PUT_ACK, PUT_NAK, GET_DONE: that of the request. PUT_DONE: that of the PUT_ACK.
  uint64_t cookie = 0;
  uint64_t sink_cookie = 0;  ///< PUT_ACK: the cookie that PUT_DONE will have
  RemoteSink sink;           ///< PUT_ACK, GET_REQ
  int32_t status = 0;        ///< PUT_NAK, PUT_DONE, GET_DONE: bytes, or a negative errno
  bool flip = false;
};

enum class MessageFault : uint8_t {
  kNone,
  kShort,       ///< ends within its header
  kBadMagic,    ///< is no message of o2iblnd
  kBadVersion,  ///< has another version than kVersion
  kLength,      ///< its length field is less than a header
  kTruncated,   ///< ends before the length in its header
  kChecksum,    ///< has a checksum, and the checksum is wrong
  kType,        ///< its type is unknown
  kTooSmall,    ///< its length is less than the least of its type
  kLnetHeader,  ///< its LNet header has an unknown type
  kPayload,     ///< IMMEDIATE: its payload is shorter than its LNet header says
  kNoFragment,  ///< the offered memory has no fragment
  kFragments,   ///< the offered memory has more than kFragmentsMax fragments
  kSinkCut,     ///< the message ends within its fragments
  kNids,        ///< check_ends(): its NIDs are not those of the connection
  kStamps       ///< check_ends(): its stamps are not those of the connection
};
inline constexpr unsigned kMessageFaults = unsigned(MessageFault::kStamps) + 1;
/// A sentence for logs and errors, without a full stop; "" for kNone.
[[nodiscard]] const char* message_fault_text(MessageFault fault);

/// Decodes a message of kVersion. `bytes` may be longer than the message, as the private data of the CM is. After a
/// fault, the fields of `out` before the fault are valid. Cost: O(1), and O(bytes) if there is a checksum. Requires: no
/// message was decoded into `out` before.
[[nodiscard]] MessageFault message_decode(std::span<const std::byte> bytes, Message& out);
/// The version field of a message of either byte order; 0 if there are less than 6 bytes or another magic.
[[nodiscard]] uint16_t message_version(std::span<const std::byte> bytes);
/// Compares the ends of a received message with those of own messages: kNone, kNids or kStamps. Not for CONNREQ.
[[nodiscard]] MessageFault check_ends(const Ends& received, const Ends& own);

/// The encoders write a message for a receive buffer of the peer, and return its bytes. `ends` are the sender's. The
/// credits are 0 until set_credits(). Each requires NIDs that fit in 8 bytes.
using MessageBuffer = std::span<std::byte, kMessageMax>;
/// CONNREQ or CONNACK.
size_t encode_connect(MessageBuffer out, MessageType type, const Ends& ends, const ConnParams& params);
size_t encode_noop(MessageBuffer out, const Ends& ends);
/// The caller puts header.payload_length bytes, at most kImmediateMax, at kImmediatePrefix.
size_t encode_immediate(MessageBuffer out, const Ends& ends, const wire::Header& header);
size_t encode_put_req(MessageBuffer out, const Ends& ends, const wire::Header& header, uint64_t cookie);
/// `fragments`: at least one, at most kFragmentsMax.
size_t encode_put_ack(MessageBuffer out, const Ends& ends, uint64_t cookie, uint64_t sink_cookie, uint32_t key,
                      std::span<const Fragment> fragments);
size_t encode_get_req(MessageBuffer out, const Ends& ends, const wire::Header& header, uint64_t cookie, uint32_t key,
                      std::span<const Fragment> fragments);
/// PUT_NAK, PUT_DONE or GET_DONE.
size_t encode_completion(MessageBuffer out, MessageType type, const Ends& ends, uint64_t cookie, int32_t status);
/// Sets the credits that an encoded message returns.
void set_credits(MessageBuffer message, uint8_t credits);

/// Signedness of a byte in the sum: kSigned on x86 kernels before 6.2.
enum class ChecksumBytes : uint8_t { kUnsigned, kSigned };
/// The checksum over a whole message, with its checksum field taken as 0; never 0. Own messages have none.
[[nodiscard]] uint32_t message_checksum(std::span<const std::byte> message, ChecksumBytes bytes);

}  // namespace ulnet::o2iblnd
