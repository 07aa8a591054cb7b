// Frame codec. The LNet header is always little endian, whatever byte order the ksock header around it has.
#include "lnd/socklnd/proto/frame.h"

#include "dataplane/wire/bytes.h"

namespace ulnet::socklnd {

using wire::load;
using wire::store;

namespace {

constexpr size_t kCsumOffset = 4;

Result<void> lnet_header_decode(const std::byte* at, uint32_t version, wire::Header& out) {
  using namespace wire;
  if (version == kVersion4)
    return header_decode_nid16(std::span<const std::byte, kHeaderNid16Bytes>(at, kHeaderNid16Bytes), out);
  return header_decode_nid4(std::span<const std::byte, kHeaderNid4Bytes>(at, kHeaderNid4Bytes), out);
}

}  // namespace

void frame_header_encode(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out, bool flip) {
  store(out.data(), uint32_t(header.type), flip);
  store(out.data() + kCsumOffset, header.csum, flip);
  store(out.data() + 8, header.cookie0, flip);
  store(out.data() + 16, header.cookie1, flip);
}

Result<FrameHeader> frame_header_decode(std::span<const std::byte, kFrameHeaderBytes> in, bool flip) {
  const auto type = load<uint32_t>(in.data(), flip);
  if (type != uint32_t(FrameType::kNoop) && type != uint32_t(FrameType::kLnet)) {
    return fail(EPROTO, "unknown ksock message type", type);
  }
  return FrameHeader{FrameType(type), load<uint32_t>(in.data() + kCsumOffset, flip),
                     load<uint64_t>(in.data() + 8, flip), load<uint64_t>(in.data() + 16, flip)};
}

size_t frame_prefix_encode(uint32_t version, const FrameHeader& frame, const wire::Header& header,
                           std::span<std::byte, kFramePrefixMaxBytes> out) {
  const size_t before = frame_header_bytes(version);
  if (before != 0) frame_header_encode(frame, out.first<kFrameHeaderBytes>());
  std::byte* at = out.data() + before;
  if (version == kVersion4) {
    wire::header_encode_nid16(header, std::span<std::byte, wire::kHeaderNid16Bytes>(at, wire::kHeaderNid16Bytes));
  } else {
    wire::header_encode_nid4(header, std::span<std::byte, wire::kHeaderNid4Bytes>(at, wire::kHeaderNid4Bytes));
  }
  return before + lnet_header_bytes(version);
}

uint32_t frame_csum_start(std::span<const std::byte> prefix) {
  ULNET_CHECK(prefix.size() >= kFrameHeaderBytes);
  constexpr std::byte kNoCsum[4]{};
  uint32_t csum = csum_update(kCsumStart, prefix.first(kCsumOffset));
  csum = csum_update(csum, kNoCsum);
  return csum_update(csum, prefix.subspan(kCsumOffset + sizeof kNoCsum));
}

const char* frame_status_text(FrameStatus status) {
  switch (status) {
    case FrameStatus::kMore:
    case FrameStatus::kNoop:
    case FrameStatus::kMessage: return "";
    case FrameStatus::kBadType: return "unknown ksock message type";
    case FrameStatus::kBadHeader: return "unknown LNet message type";
    case FrameStatus::kBadCsum: return "NOOP with a wrong checksum";
  }
  return "";
}

void FrameDecoder::reset(uint32_t version, bool flip) {
  version_ = version;
  flip_ = flip;
  next();
}

void FrameDecoder::next() {
  const size_t before = frame_header_bytes(version_);
  bytes_.reset(before != 0 ? before : lnet_header_bytes(version_));
  frame_ = {};
  csum_ = kCsumStart;
  status_ = FrameStatus::kMore;
}

// The headers of almost every message come whole, and then need no copy. With a checksum they do, because it covers
// them.
bool FrameDecoder::take_whole(std::span<const std::byte>& in) {
  const size_t bytes = kFrameHeaderBytes + lnet_header_bytes(version_);
  if (!at_boundary() || version_ == kVersion1 || flip_ || in.size() < bytes) return false;
  const bool plain =
      load<uint32_t>(in.data()) == uint32_t(FrameType::kLnet) && load<uint32_t>(in.data() + kCsumOffset) == 0;
  if (!plain) return false;
  frame_ = {FrameType::kLnet, 0, load<uint64_t>(in.data() + 8), load<uint64_t>(in.data() + 16)};
  const bool known = bool(lnet_header_decode(in.data() + kFrameHeaderBytes, version_, header_));
  status_ = known ? FrameStatus::kMessage : FrameStatus::kBadHeader;
  in = in.subspan(bytes);
  return true;
}

FrameStatus FrameDecoder::feed(std::span<const std::byte>& in) {
  if (take_whole(in)) return status_;
  while (status_ == FrameStatus::kMore && bytes_.take(in)) status_ = step();
  return status_;
}

FrameStatus FrameDecoder::step() {
  const size_t before = frame_header_bytes(version_);
  if (bytes_.have() == before) return frame_header_done();
  if (!lnet_header_decode(bytes_.data() + before, version_, header_)) return FrameStatus::kBadHeader;
  if (frame_.csum != 0) csum_ = frame_csum_start(bytes_.bytes());
  return FrameStatus::kMessage;
}

FrameStatus FrameDecoder::frame_header_done() {
  const auto frame =
      frame_header_decode(std::span<const std::byte, kFrameHeaderBytes>(bytes_.data(), kFrameHeaderBytes), flip_);
  if (!frame) return FrameStatus::kBadType;
  frame_ = *frame;
  if (frame_.type == FrameType::kNoop) {
    const bool wrong = frame_.csum != 0 && frame_csum_start(bytes_.bytes()) != frame_.csum;
    return wrong ? FrameStatus::kBadCsum : FrameStatus::kNoop;
  }
  bytes_.set_goal(kFrameHeaderBytes + lnet_header_bytes(version_));
  return FrameStatus::kMore;
}

}  // namespace ulnet::socklnd
