// See decode.h. It walks a stream the way a connection does: request, HELLO, frames, each decoder taking what is its
// own.
#include "tests/wire/decode.h"

#include <algorithm>

#include "tests/wire/hex.h"

namespace ulnet::test {
namespace {

using namespace socklnd;

/// A stream handed out in pieces.
class Feeder {
 public:
  Feeder(std::vector<std::byte> stream, size_t piece) : stream_(std::move(stream)), piece_(piece) {}
  [[nodiscard]] size_t offset() const { return offset_; }
  [[nodiscard]] size_t left() const { return stream_.size() - offset_; }
  [[nodiscard]] std::span<const std::byte> since(size_t start) const {
    return std::span(stream_).subspan(start, offset_ - start);
  }
  /// Feeds until the decoder needs no more bytes or the stream ends.
  template <class Decoder>
  void feed(Decoder& decoder) {
    while (left() != 0 && decoder.need() != 0) {
      std::span<const std::byte> in = std::span(stream_).subspan(offset_, std::min(piece_, left()));
      const size_t offered = in.size();
      decoder.feed(in);
      offset_ += offered - in.size();
    }
  }
  std::vector<std::byte> take(size_t bytes) {
    offset_ += bytes;
    const auto span = since(offset_ - bytes);
    return {span.begin(), span.end()};
  }

 private:
  std::vector<std::byte> stream_;
  size_t piece_;
  size_t offset_ = 0;
};

void compare(DecodedSide& side, const char* what, std::span<const std::byte> came, std::span<const std::byte> encoded) {
  if (!side.mismatch.empty() || std::equal(came.begin(), came.end(), encoded.begin(), encoded.end())) return;
  side.mismatch = std::string(what) + " came as\n" + hex_text(came) + "\nand encodes to\n" + hex_text(encoded);
}

bool decode_request(Feeder& feeder, DecodedSide& side) {
  ConnRequestDecoder decoder;
  feeder.feed(decoder);
  side.accept = decoder.status();
  if (side.accept != AcceptStatus::kRequest) return false;
  side.request = decoder.request();
  std::array<std::byte, kConnRequestMaxBytes> out;
  const size_t bytes = conn_request_encode(side.request.target, out, side.request.flip);
  compare(side, "connection request", feeder.since(0), std::span(out).first(bytes));
  return true;
}

bool decode_hello(Feeder& feeder, DecodedSide& side) {
  const size_t start = feeder.offset();
  HelloDecoder decoder(side.dialled ? HelloRole::kPassive : HelloRole::kActive);
  feeder.feed(decoder);
  side.hello_status = decoder.status();
  if (side.hello_status != HelloStatus::kHello) return false;
  side.hello = decoder.hello();
  std::array<std::byte, kHelloMaxBytes> out;
  const size_t bytes = hello_encode(*side.hello, out);
  compare(side, "HELLO", feeder.since(start), std::span(out).first(bytes));
  return true;
}

void decode_frame(Feeder& feeder, size_t start, uint32_t version, const FrameDecoder& decoder, DecodedSide& side) {
  DecodedFrame frame{.frame = decoder.frame()};
  std::array<std::byte, kFramePrefixMaxBytes> out;
  size_t bytes = kFrameHeaderBytes;
  if (decoder.status() == FrameStatus::kNoop) {
    frame_header_encode(frame.frame, std::span(out).first<kFrameHeaderBytes>());
    compare(side, "NOOP", feeder.since(start), std::span(out).first(bytes));
  } else {
    frame.header = decoder.header();
    wire::Header rebuilt = *frame.header;  // through the typed bodies, so that these are compared, too
    switch (rebuilt.type) {
      case wire::MsgType::kAck: rebuilt.set(rebuilt.ack()); break;
      case wire::MsgType::kPut: rebuilt.set(rebuilt.put()); break;
      case wire::MsgType::kGet: rebuilt.set(rebuilt.get()); break;
      case wire::MsgType::kReply: rebuilt.set(rebuilt.reply()); break;
      case wire::MsgType::kHello: break;
    }
    bytes = frame_prefix_encode(version, frame.frame, rebuilt, out);
    compare(side, "message", feeder.since(start), std::span(out).first(bytes));
    frame.payload = feeder.take(frame.header->payload_length);
  }
  side.frames.push_back(std::move(frame));
}

void decode_frames(Feeder& feeder, uint32_t version, bool flip, DecodedSide& side) {
  FrameDecoder decoder(version, flip);
  for (;;) {
    const size_t start = feeder.offset();
    decoder.next();
    feeder.feed(decoder);
    side.frame_status = decoder.status();
    const bool message = decoder.status() == FrameStatus::kMessage;
    const bool complete =
        decoder.status() == FrameStatus::kNoop || (message && decoder.header().payload_length <= feeder.left());
    if (!complete) {
      side.left_over = feeder.left() + (feeder.offset() - start);
      return;
    }
    decode_frame(feeder, start, version, decoder, side);
  }
}

}  // namespace

DecodedSide decode_side(const TcpConversation& conversation, Side side, size_t piece) {
  DecodedSide decoded;
  Feeder feeder(conversation.stream(side), piece);
  uint32_t version = kVersion3;
  bool flip = false;
  decoded.dialled = side == Side::kDialler && !conversation.opened_mid;
  if (!conversation.opened_mid) {
    const size_t all = feeder.left();
    decoded.left_over = all;
    if (decoded.dialled && !decode_request(feeder, decoded)) return decoded;
    decoded.left_over = feeder.left();
    if (!decode_hello(feeder, decoded)) return decoded;
    version = decoded.hello->version;
    flip = decoded.hello->flip;
  } else {
    decoded.hello_status = HelloStatus::kHello;
  }
  decode_frames(feeder, version, flip, decoded);
  return decoded;
}

void MessageCount::add(const DecodedSide& side) {
  static constexpr const char* kNames[wire::kMsgTypes] = {"ACK", "PUT", "GET", "REPLY", "HELLO"};
  if (side.hello) ++counts_["HELLO"];
  for (const DecodedFrame& frame : side.frames) ++counts_[frame.header ? kNames[size_t(frame.header->type)] : "NOOP"];
}

std::string MessageCount::text() const {
  std::string out;
  for (const char* name : {"HELLO", "GET", "REPLY", "PUT", "ACK", "NOOP"}) {
    const auto found = counts_.find(name);
    if (found == counts_.end()) continue;
    out += (out.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(found->second);
  }
  return out;
}

}  // namespace ulnet::test
