// Codec of o2iblnd messages. Of a peer of the other byte order all integers are swapped. Cookies are opaque, and the
// LNet header is little endian from every sender (docs/wire/o2iblnd.md §2).
#include "lnd/o2iblnd/proto/message.h"

#include <bit>

#include "dataplane/base/check.h"
#include "dataplane/wire/bytes.h"

namespace ulnet::o2iblnd {
namespace {

using wire::load;
using wire::store;

// Offsets in every message (§2), and in its body (§3).
constexpr size_t kVersionAt = 4, kTypeAt = 6, kCreditsAt = 7, kBytesAt = 8, kChecksumAt = 12;
constexpr size_t kSrcAt = 16, kSrcStampAt = 24, kDstAt = 32, kDstStampAt = 40;
constexpr size_t kDepthAt = kHeaderBytes, kFragmentsAt = kHeaderBytes + 2, kMessageMaxAt = kHeaderBytes + 4;
constexpr size_t kRequestCookieAt = kImmediatePrefix, kGetSinkAt = kRequestCookieAt + 8;
constexpr size_t kAckCookieAt = kHeaderBytes, kAckSinkCookieAt = kAckCookieAt + 8, kAckSinkAt = kAckSinkCookieAt + 8;
constexpr size_t kDoneCookieAt = kHeaderBytes, kDoneStatusAt = kDoneCookieAt + 8;
constexpr size_t kSinkHeaderBytes = 8;  // key, number of fragments
static_assert(kMessageMaxAt + 4 == kConnectBytes);
static_assert(kGetSinkAt + kSinkHeaderBytes + kFragmentsMax * kFragmentBytes <= kMessageMax);

/// Least bytes of a message of this type; 0 for a value that is no type.
size_t least_bytes(MessageType type) {
  switch (type) {
    case MessageType::kConnReq:
    case MessageType::kConnAck: return kConnectBytes;
    case MessageType::kNoop: return kHeaderBytes;
    case MessageType::kImmediate: return kImmediatePrefix;
    case MessageType::kPutReq: return kRequestCookieAt + 8;
    case MessageType::kPutNak:
    case MessageType::kPutDone:
    case MessageType::kGetDone: return kDoneStatusAt + 4;
    case MessageType::kPutAck: return kAckSinkAt + kSinkHeaderBytes;
    case MessageType::kGetReq: return kGetSinkAt + kSinkHeaderBytes;
  }
  return 0;
}

MessageFault decode_lnet_header(std::span<const std::byte> bytes, wire::Header& out) {
  return wire::header_decode_nid4(bytes.subspan<kHeaderBytes, wire::kHeaderNid4Bytes>(), out)
             ? MessageFault::kNone
             : MessageFault::kLnetHeader;
}

MessageFault decode_payload(std::span<const std::byte> bytes, Message& out) {
  const std::span<const std::byte> rest = bytes.subspan(kImmediatePrefix);
  if (rest.size() < out.header.payload_length) return MessageFault::kPayload;
  out.payload = rest.first(out.header.payload_length);
  return MessageFault::kNone;
}

MessageFault decode_sink(std::span<const std::byte> bytes, size_t at, Message& out) {
  const uint32_t count = load<uint32_t>(&bytes[at + 4], out.flip);
  const std::span<const std::byte> rest = bytes.subspan(at + kSinkHeaderBytes);
  if (count == 0) return MessageFault::kNoFragment;
  if (count > kFragmentsMax) return MessageFault::kFragments;
  if (rest.size() < count * kFragmentBytes) return MessageFault::kSinkCut;
  out.sink = {load<uint32_t>(&bytes[at], out.flip), rest.first(count * kFragmentBytes), out.flip};
  return MessageFault::kNone;
}

/// Requires that `bytes` is exactly the message, and has the least bytes of its type.
MessageFault decode_body(std::span<const std::byte> bytes, Message& out) {
  const std::byte* at = bytes.data();
  MessageFault fault = MessageFault::kNone;
  switch (out.type) {
    case MessageType::kConnReq:
    case MessageType::kConnAck:
      out.params = {load<uint16_t>(at + kDepthAt, out.flip), load<uint16_t>(at + kFragmentsAt, out.flip),
                    load<uint32_t>(at + kMessageMaxAt, out.flip)};
      return fault;
    case MessageType::kNoop: return fault;
    case MessageType::kImmediate:
      fault = decode_lnet_header(bytes, out.header);
      return fault == MessageFault::kNone ? decode_payload(bytes, out) : fault;
    case MessageType::kPutReq:
      out.cookie = load<uint64_t>(at + kRequestCookieAt);
      return decode_lnet_header(bytes, out.header);
    case MessageType::kPutNak:
    case MessageType::kPutDone:
    case MessageType::kGetDone:
      out.cookie = load<uint64_t>(at + kDoneCookieAt);
      out.status = load<int32_t>(at + kDoneStatusAt, out.flip);
      return fault;
    case MessageType::kPutAck:
      out.cookie = load<uint64_t>(at + kAckCookieAt);
      out.sink_cookie = load<uint64_t>(at + kAckSinkCookieAt);
      return decode_sink(bytes, kAckSinkAt, out);
    case MessageType::kGetReq:
      out.cookie = load<uint64_t>(at + kRequestCookieAt);
      fault = decode_lnet_header(bytes, out.header);
      return fault == MessageFault::kNone ? decode_sink(bytes, kGetSinkAt, out) : fault;
  }
  return MessageFault::kType;
}

bool checksum_right(std::span<const std::byte> message, bool flip) {
  const auto sum = load<uint32_t>(&message[kChecksumAt], flip);
  return sum == 0 || sum == message_checksum(message, ChecksumBytes::kUnsigned) ||
         sum == message_checksum(message, ChecksumBytes::kSigned);
}

/// Writes the header of a message of `bytes` bytes, and returns them.
size_t encode_header(MessageBuffer out, MessageType type, const Ends& ends, size_t bytes) {
  ULNET_CHECK(bytes >= kHeaderBytes && bytes <= kMessageMax && bytes >= least_bytes(type));
  std::byte* at = out.data();
  store(at, kMagic);
  store(at + kVersionAt, kVersion);
  store(at + kTypeAt, type);
  store(at + kCreditsAt, uint8_t{0});
  store(at + kBytesAt, uint32_t(bytes));
  store(at + kChecksumAt, uint32_t{0});
  store(at + kSrcAt, ends.src.to_u64());
  store(at + kSrcStampAt, ends.src_stamp);
  store(at + kDstAt, ends.dst.to_u64());
  store(at + kDstStampAt, ends.dst_stamp);
  return bytes;
}

void encode_lnet_header(MessageBuffer out, const wire::Header& header) {
  wire::header_encode_nid4(header, out.subspan<kHeaderBytes, wire::kHeaderNid4Bytes>());
}

/// Returns where the sink ends.
size_t encode_sink(MessageBuffer out, size_t at, uint32_t key, std::span<const Fragment> fragments) {
  ULNET_CHECK(!fragments.empty() && fragments.size() <= kFragmentsMax);
  store(out.data() + at, key);
  store(out.data() + at + 4, uint32_t(fragments.size()));
  at += kSinkHeaderBytes;
  for (const Fragment& one : fragments) {
    store(out.data() + at, one.bytes);
    store(out.data() + at + 4, one.address);
    at += kFragmentBytes;
  }
  return at;
}

}  // namespace

Fragment RemoteSink::at(uint32_t index) const {
  ULNET_CHECK(index < count());
  const std::byte* from = fragments_.data() + index * kFragmentBytes;
  return {load<uint64_t>(from + 4, flip_), load<uint32_t>(from, flip_)};
}

uint64_t RemoteSink::bytes() const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count(); ++i) sum += at(i).bytes;
  return sum;
}

const char* message_type_text(MessageType type) {
  switch (type) {
    case MessageType::kConnReq: return "CONNREQ";
    case MessageType::kConnAck: return "CONNACK";
    case MessageType::kNoop: return "NOOP";
    case MessageType::kImmediate: return "IMMEDIATE";
    case MessageType::kPutReq: return "PUT_REQ";
    case MessageType::kPutNak: return "PUT_NAK";
    case MessageType::kPutAck: return "PUT_ACK";
    case MessageType::kPutDone: return "PUT_DONE";
    case MessageType::kGetReq: return "GET_REQ";
    case MessageType::kGetDone: return "GET_DONE";
  }
  return "?";
}

const char* message_fault_text(MessageFault fault) {
  switch (fault) {
    case MessageFault::kNone: return "";
    case MessageFault::kShort: return "the message is shorter than a header";
    case MessageFault::kBadMagic: return "the message does not have the magic of o2iblnd";
    case MessageFault::kBadVersion: return "the message has another protocol version";
    case MessageFault::kLength: return "the length in the message is less than a header";
    case MessageFault::kTruncated: return "the message is shorter than its header says";
    case MessageFault::kChecksum: return "the checksum of the message is wrong";
    case MessageFault::kType: return "the type of the message is unknown";
    case MessageFault::kTooSmall: return "the message is too short for its type";
    case MessageFault::kLnetHeader: return "the LNet header in the message has an unknown type";
    case MessageFault::kPayload: return "the payload is shorter than the LNet header says";
    case MessageFault::kNoFragment: return "the offered memory has no fragment";
    case MessageFault::kFragments: return "the offered memory has more than 257 fragments";
    case MessageFault::kSinkCut: return "the message ends within the list of fragments";
    case MessageFault::kNids: return "the NIDs in the message are not those of its connection";
    case MessageFault::kStamps: return "the incarnations in the message are not those of its connection";
  }
  return "";
}

uint16_t message_version(std::span<const std::byte> bytes) {
  if (bytes.size() < kTypeAt) return 0;
  const auto magic = load<uint32_t>(bytes.data());
  if (magic != kMagic && magic != wire::byte_swap(kMagic)) return 0;
  return load<uint16_t>(bytes.data() + kVersionAt, magic != kMagic);
}

MessageFault message_decode(std::span<const std::byte> bytes, Message& out) {
  if (bytes.size() < kHeaderBytes) return MessageFault::kShort;
  const std::byte* at = bytes.data();
  const auto magic = load<uint32_t>(at);
  out.flip = magic == wire::byte_swap(kMagic);
  if (magic != kMagic && !out.flip) return MessageFault::kBadMagic;
  if (load<uint16_t>(at + kVersionAt, out.flip) != kVersion) return MessageFault::kBadVersion;
  const auto length = load<uint32_t>(at + kBytesAt, out.flip);
  if (length < kHeaderBytes) return MessageFault::kLength;
  if (length > bytes.size()) return MessageFault::kTruncated;
  bytes = bytes.first(length);
  if (!checksum_right(bytes, out.flip)) return MessageFault::kChecksum;
  out.type = load<MessageType>(at + kTypeAt);
  out.credits = load<uint8_t>(at + kCreditsAt);
  out.ends = {wire::nid_from_wire(load<uint64_t>(at + kSrcAt, out.flip)),
              wire::nid_from_wire(load<uint64_t>(at + kDstAt, out.flip)), load<uint64_t>(at + kSrcStampAt, out.flip),
              load<uint64_t>(at + kDstStampAt, out.flip)};
  const size_t least = least_bytes(out.type);
  if (least == 0) return MessageFault::kType;
  if (length < least) return MessageFault::kTooSmall;
  return decode_body(bytes, out);
}

MessageFault check_ends(const Ends& received, const Ends& own) {
  if (received.src != own.dst || received.dst != own.src) return MessageFault::kNids;
  if (received.src_stamp != own.dst_stamp || received.dst_stamp != own.src_stamp) return MessageFault::kStamps;
  return MessageFault::kNone;
}

size_t encode_connect(MessageBuffer out, MessageType type, const Ends& ends, const ConnParams& params) {
  ULNET_CHECK(type == MessageType::kConnReq || type == MessageType::kConnAck);
  store(out.data() + kDepthAt, params.queue_depth);
  store(out.data() + kFragmentsAt, params.fragments);
  store(out.data() + kMessageMaxAt, params.message_max);
  return encode_header(out, type, ends, kConnectBytes);
}

size_t encode_noop(MessageBuffer out, const Ends& ends) {
  return encode_header(out, MessageType::kNoop, ends, kHeaderBytes);
}

size_t encode_immediate(MessageBuffer out, const Ends& ends, const wire::Header& header) {
  ULNET_CHECK(header.payload_length <= kImmediateMax);
  encode_lnet_header(out, header);
  return encode_header(out, MessageType::kImmediate, ends, kImmediatePrefix + header.payload_length);
}

size_t encode_put_req(MessageBuffer out, const Ends& ends, const wire::Header& header, uint64_t cookie) {
  encode_lnet_header(out, header);
  store(out.data() + kRequestCookieAt, cookie);
  return encode_header(out, MessageType::kPutReq, ends, kRequestCookieAt + 8);
}

size_t encode_put_ack(MessageBuffer out, const Ends& ends, uint64_t cookie, uint64_t sink_cookie, uint32_t key,
                      std::span<const Fragment> fragments) {
  store(out.data() + kAckCookieAt, cookie);
  store(out.data() + kAckSinkCookieAt, sink_cookie);
  return encode_header(out, MessageType::kPutAck, ends, encode_sink(out, kAckSinkAt, key, fragments));
}

size_t encode_get_req(MessageBuffer out, const Ends& ends, const wire::Header& header, uint64_t cookie, uint32_t key,
                      std::span<const Fragment> fragments) {
  encode_lnet_header(out, header);
  store(out.data() + kRequestCookieAt, cookie);
  return encode_header(out, MessageType::kGetReq, ends, encode_sink(out, kGetSinkAt, key, fragments));
}

size_t encode_completion(MessageBuffer out, MessageType type, const Ends& ends, uint64_t cookie, int32_t status) {
  ULNET_CHECK(type == MessageType::kPutNak || type == MessageType::kPutDone || type == MessageType::kGetDone);
  store(out.data() + kDoneCookieAt, cookie);
  store(out.data() + kDoneStatusAt, status);
  return encode_header(out, type, ends, kDoneStatusAt + 4);
}

void set_credits(MessageBuffer message, uint8_t credits) {
  store(message.data() + kCreditsAt, credits);
}

uint32_t message_checksum(std::span<const std::byte> message, ChecksumBytes bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < message.size(); ++i) {
    const bool own_field = i >= kChecksumAt && i < kChecksumAt + 4;
    const auto byte = own_field ? uint8_t{0} : uint8_t(message[i]);
    const uint32_t value = bytes == ChecksumBytes::kSigned ? uint32_t(int32_t{int8_t(byte)}) : uint32_t{byte};
    sum = std::rotl(sum, 1) + value;
  }
  return sum == 0 ? 1 : sum;
}

}  // namespace ulnet::o2iblnd
