// The LNet message header: bytes <-> struct, both wire forms. Source: docs/wire/lnet.md §2. Nothing but encoding: which
// message is acceptable is decided in stages/.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dataplane/base/nid.h"
#include "dataplane/base/result.h"
#include "dataplane/wire/bytes.h"

namespace ulnet::wire {

enum class MsgType : uint32_t { kAck = 0, kPut = 1, kGet = 2, kReply = 3, kHello = 4 };
inline constexpr unsigned kMsgTypes = 5;
static_assert(kMsgTypes == unsigned(MsgType::kHello) + 1);

/// The 16 opaque bytes by which a node recognises its own operation in an ACK or REPLY (docs/wire/lnet.md §2.2). Kept
/// as the two u64 that lie on the wire (little endian), so that they are echoed bit for bit.
struct WireHandle {
  uint64_t interface_cookie = ~uint64_t{0};
  uint64_t object_cookie = ~uint64_t{0};
  constexpr auto operator<=>(const WireHandle&) const = default;
  /// Both cookies all ones: the sender of a PUT requests no ACK.
  [[nodiscard]] constexpr bool is_none() const {
    return interface_cookie == ~uint64_t{0} && object_cookie == ~uint64_t{0};
  }
};

struct AckBody {
  WireHandle dst_wmd;
  uint64_t match_bits = 0;
  uint32_t mlength = 0;
};
struct PutBody {
  WireHandle ack_wmd;
  uint64_t match_bits = 0;
  uint64_t hdr_data = 0;
  uint32_t portal = 0;
  uint32_t offset = 0;
};
struct GetBody {
  WireHandle return_wmd;
  uint64_t match_bits = 0;
  uint32_t portal = 0;
  uint32_t src_offset = 0;
  uint32_t sink_length = 0;
};
struct ReplyBody {
  WireHandle dst_wmd;
};

/// A header in host form. `body` holds the 40 body bytes as they lie on the wire, so that a router passes on any body
/// unchanged. The typed accessors read and write these bytes. They are inline, because many callers use one field.
struct Header {
  Nid dest_nid;
  Nid src_nid;
  uint32_t dest_pid = kLnetPid;
  uint32_t src_pid = kLnetPid;
  MsgType type = MsgType::kAck;
  uint32_t payload_length = 0;
  std::array<std::byte, 40> body{};

  [[nodiscard]] AckBody ack() const;
  [[nodiscard]] PutBody put() const;
  [[nodiscard]] GetBody get() const;
  [[nodiscard]] ReplyBody reply() const;
  void set(const AckBody& b);
  void set(const PutBody& b);
  void set(const GetBody& b);
  void set(const ReplyBody& b);
};

inline WireHandle handle_load(const std::byte* at) {
  return {load<uint64_t>(at), load<uint64_t>(at + 8)};
}
inline void handle_store(std::byte* at, const WireHandle& handle) {
  store(at, handle.interface_cookie);
  store(at + 8, handle.object_cookie);
}
inline AckBody Header::ack() const {
  const std::byte* b = body.data();
  return {handle_load(b), load<uint64_t>(b + 16), load<uint32_t>(b + 24)};
}
inline PutBody Header::put() const {
  const std::byte* b = body.data();
  return {handle_load(b), load<uint64_t>(b + 16), load<uint64_t>(b + 24), load<uint32_t>(b + 32),
          load<uint32_t>(b + 36)};
}
inline GetBody Header::get() const {
  const std::byte* b = body.data();
  return {handle_load(b), load<uint64_t>(b + 16), load<uint32_t>(b + 24), load<uint32_t>(b + 28),
          load<uint32_t>(b + 32)};
}
inline ReplyBody Header::reply() const {
  return {handle_load(body.data())};
}
inline void Header::set(const AckBody& b) {
  body = {};
  handle_store(body.data(), b.dst_wmd);
  store(body.data() + 16, b.match_bits);
  store(body.data() + 24, b.mlength);
}
inline void Header::set(const PutBody& b) {
  handle_store(body.data(), b.ack_wmd);
  store(body.data() + 16, b.match_bits);
  store(body.data() + 24, b.hdr_data);
  store(body.data() + 32, b.portal);
  store(body.data() + 36, b.offset);
}
inline void Header::set(const GetBody& b) {
  body = {};
  handle_store(body.data(), b.return_wmd);
  store(body.data() + 16, b.match_bits);
  store(body.data() + 24, b.portal);
  store(body.data() + 28, b.src_offset);
  store(body.data() + 32, b.sink_length);
}
inline void Header::set(const ReplyBody& b) {
  body = {};
  handle_store(body.data(), b.dst_wmd);
}

/// Makes the header of a request that of its ACK or REPLY: it goes back the way that the request came
/// (docs/wire/lnet.md §3.1). The body stays, and is the caller's to set.
inline void become_response(Header& header, MsgType type) {
  std::swap(header.dest_nid, header.src_nid);
  std::swap(header.dest_pid, header.src_pid);
  header.type = type;
  header.payload_length = 0;
}

inline constexpr size_t kHeaderNid4Bytes = 72;
inline constexpr size_t kHeaderNid16Bytes = 96;

/// Encodes the 72-byte form. Requires both NIDs to fit in 8 bytes.
void header_encode_nid4(const Header& header, std::span<std::byte, kHeaderNid4Bytes> out);
/// Encodes the 96-byte form.
void header_encode_nid16(const Header& header, std::span<std::byte, kHeaderNid16Bytes> out);
/// Decodes the 72-byte form. Error EPROTO (object = the raw type) when the type is none of the five, and `out` is not
/// complete then. Everything else is kept as it came.
[[nodiscard]] Result<void> header_decode_nid4(std::span<const std::byte, kHeaderNid4Bytes> in, Header& out);
[[nodiscard]] Result<void> header_decode_nid16(std::span<const std::byte, kHeaderNid16Bytes> in, Header& out);

}  // namespace ulnet::wire
