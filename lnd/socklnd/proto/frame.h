// Framing of the byte stream after HELLO: ksock header, LNet header, payload. Sans-IO. The decoder stops before the
// payload, because where that goes is decided upon the header. Source: docs/wire/socklnd.md §3.2 to §3.5.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/wire/header.h"
#include "lnd/socklnd/proto/collect.h"
#include "lnd/socklnd/proto/csum.h"
#include "lnd/socklnd/proto/ctype.h"

namespace ulnet::socklnd {

enum class FrameType : uint32_t { kNoop = 0xC0, kLnet = 0xC1 };

inline constexpr size_t kFrameHeaderBytes = 24;
/// ksock header and the larger LNet header: the room that a sender needs in front of a payload.
inline constexpr size_t kFramePrefixMaxBytes = kFrameHeaderBytes + wire::kHeaderNid16Bytes;

/// The ksock header (v2 to v4).
struct FrameHeader {
  FrameType type = FrameType::kLnet;
  uint32_t csum = 0;     ///< 0 = none
  uint64_t cookie0 = 0;  ///< LNET: zero-copy request; NOOP: first ack cookie (zc.h)
  uint64_t cookie1 = 0;  ///< zero-copy ack, or the keepalive mark
  constexpr bool operator==(const FrameHeader&) const = default;
};

void frame_header_encode(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out, bool flip = false);
/// Error EPROTO (object = the raw type) when the type is neither NOOP nor LNET.
[[nodiscard]] Result<FrameHeader> frame_header_decode(std::span<const std::byte, kFrameHeaderBytes> in,
                                                      bool flip = false);

/// Bytes of the ksock header on a connection of this version: 0 on version 1.
[[nodiscard]] constexpr size_t frame_header_bytes(uint32_t version) {
  return version == kVersion1 ? 0 : kFrameHeaderBytes;
}
/// Bytes of the LNet header on a connection of this version.
[[nodiscard]] constexpr size_t lnet_header_bytes(uint32_t version) {
  return version == kVersion4 ? wire::kHeaderNid16Bytes : wire::kHeaderNid4Bytes;
}
/// Encodes what stands before a payload: the ksock header where the version has one, then the LNet header. Returns the
/// bytes written. Requires room for kFramePrefixMaxBytes, and NIDs that fit in 8 bytes below version 4. frame.csum is
/// written as it is; frame_csum_start() helps to compute it.
size_t frame_prefix_encode(uint32_t version, const FrameHeader& frame, const wire::Header& header,
                           std::span<std::byte, kFramePrefixMaxBytes> out);
/// Checksum over an encoded prefix (or a bare NOOP header) with its csum field taken as 0; go on over the payload with
/// csum_update(). Requires at least kFrameHeaderBytes.
[[nodiscard]] uint32_t frame_csum_start(std::span<const std::byte> prefix);

enum class FrameStatus : uint8_t {
  kMore,       ///< need() bytes are missing
  kNoop,       ///< frame() is a NOOP, complete
  kMessage,    ///< frame() and header() are complete; header().payload_length bytes of payload follow in the stream
  kBadType,    ///< unknown ksock type. From here on: protocol error, close
  kBadHeader,  ///< unknown LNet message type
  kBadCsum     ///< NOOP whose checksum is wrong (that of a message is known only behind its payload)
};
/// Why, as a sentence for logs; "" where there is no error.
[[nodiscard]] const char* frame_status_text(FrameStatus status);

/// Incremental decoder of frames on one connection. After kNoop or kMessage (and its payload) call next(); errors are
/// final.
class FrameDecoder {
 public:
  FrameDecoder() = default;
  /// `version` and `flip` as HELLO settled them.
  explicit FrameDecoder(uint32_t version, bool flip = false) { reset(version, flip); }
  void reset(uint32_t version, bool flip);
  /// Begins the next frame.
  void next();
  /// Bytes to the next decision, at least 1 while the status is kMore, else 0. Never reaches into a payload.
  [[nodiscard]] size_t need() const { return status_ == FrameStatus::kMore ? bytes_.need() : 0; }
  /// True while nothing of the frame has come: the stream may end here.
  [[nodiscard]] bool at_boundary() const { return status_ == FrameStatus::kMore && bytes_.have() == 0; }
  /// Takes from the front of `in` what belongs to the headers.
  FrameStatus feed(std::span<const std::byte>& in);
  [[nodiscard]] FrameStatus status() const { return status_; }
  [[nodiscard]] const FrameHeader& frame() const { return frame_; }
  [[nodiscard]] const wire::Header& header() const { return header_; }
  /// Checksum so far, to go on with over the payload. Only counted when frame().csum is not 0.
  [[nodiscard]] uint32_t csum() const { return csum_; }

 private:
  bool take_whole(std::span<const std::byte>& in);
  FrameStatus step();
  FrameStatus frame_header_done();
  Collector<kFramePrefixMaxBytes> bytes_;
  FrameHeader frame_;
  wire::Header header_;
  uint32_t version_ = kVersion3;
  uint32_t csum_ = kCsumStart;
  bool flip_ = false;
  FrameStatus status_ = FrameStatus::kMore;
};

}  // namespace ulnet::socklnd
