#include "tests/replay/pieces.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>

#include "tests/wire/decode.h"
#include "tests/wire/hex.h"

namespace ulnet::test {
namespace {

using Bytes = std::vector<std::byte>;

struct Field {
  size_t at, bytes;
  const char* name;
};

const char* message_name(wire::MsgType type) {
  switch (type) {
    case wire::MsgType::kAck: return "ACK";
    case wire::MsgType::kPut: return "PUT";
    case wire::MsgType::kGet: return "GET";
    case wire::MsgType::kReply: return "REPLY";
    case wire::MsgType::kHello: return "HELLO message";
  }
  return "?";
}

std::vector<Field> hello_fields(uint32_t version) {
  if (version == 1) return {{0, 44, "v1 header"}, {32, 8, "src_incarnation"}, {40, 4, "ctype"}};
  if (version == 4)
    return {{0, 4, "magic"},    {4, 4, "version"},  {8, 20, "src_nid"},         {28, 20, "dst_nid"},
            {48, 4, "src_pid"}, {52, 4, "dst_pid"}, {56, 8, "src_incarnation"}, {64, 8, "dst_incarnation"},
            {72, 4, "ctype"},   {76, 4, "nips"}};
  return {{0, 4, "magic"},    {4, 4, "version"},  {8, 8, "src_nid"},          {16, 8, "dst_nid"},
          {24, 4, "src_pid"}, {28, 4, "dst_pid"}, {32, 8, "src_incarnation"}, {40, 8, "dst_incarnation"},
          {48, 4, "ctype"},   {52, 4, "nips"}};
}

/// Of a message's type-specific part, from its beginning.
std::vector<Field> body_fields(wire::MsgType type) {
  switch (type) {
    case wire::MsgType::kAck: return {{0, 16, "dst_wmd"}, {16, 8, "match_bits"}, {24, 4, "mlength"}, {28, 12, "tail"}};
    case wire::MsgType::kPut:
      return {{0, 16, "ack_wmd"}, {16, 8, "match_bits"}, {24, 8, "hdr_data"}, {32, 4, "ptl_index"}, {36, 4, "offset"}};
    case wire::MsgType::kGet:
      return {{0, 16, "return_wmd"}, {16, 8, "match_bits"},  {24, 4, "ptl_index"},
              {28, 4, "src_offset"}, {32, 4, "sink_length"}, {36, 4, "tail"}};
    case wire::MsgType::kReply: return {{0, 16, "dst_wmd"}, {16, 24, "tail"}};
    case wire::MsgType::kHello: return {{0, 40, "body"}};
  }
  return {};
}

bool has_ping_info(const Piece& piece) {
  if (!piece.header || piece.header->payload_length < 32) return false;
  if (piece.header->type == wire::MsgType::kPut) return piece.header->put().portal == 0;
  return piece.header->type == wire::MsgType::kReply;
}

std::vector<Field> message_fields(const Piece& piece) {
  std::vector<Field> fields = {{0, 4, "ksock type"}, {4, 4, "csum"}, {8, 8, "cookie0"}, {16, 8, "cookie1"}};
  const size_t nid = piece.body_at() == 24 + 32 ? 8 : 20;
  size_t at = 24;
  const auto add = [&](size_t bytes, const char* name) {
    fields.push_back({at, bytes, name});
    at += bytes;
  };
  add(nid, "dest_nid");
  add(nid, "src_nid");
  for (const char* name : {"dest_pid", "src_pid", "type", "payload_length"}) add(4, name);
  for (const Field& field : body_fields(piece.header->type)) add(field.bytes, field.name);
  if (has_ping_info(piece)) {
    for (const char* name : {"pi_magic", "pi_features", "pi_pid", "pi_nnis"}) add(4, name);
    add(8, "entry 0 NID");
    add(4, "sequence number");
    add(4, "entry 0 size");
  }
  add(piece.bytes - at, "payload");
  return fields;
}

std::vector<Field> fields_of(const Piece& piece) {
  switch (piece.kind) {
    case PieceKind::kRequest: return {{0, 4, "magic"}, {4, 4, "version"}, {8, piece.bytes - 8, "target NID"}};
    case PieceKind::kHello: return hello_fields(piece.version);
    case PieceKind::kNoop: return {{0, 4, "ksock type"}, {4, 4, "csum"}, {8, 8, "cookie0"}, {16, 8, "cookie1"}};
    case PieceKind::kMessage: return message_fields(piece);
    case PieceKind::kRest: return {{0, piece.bytes, "bytes"}};
  }
  return {};
}

std::string list(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += (text.empty() ? "" : ", ") + piece.name();
  return text.empty() ? "nothing" : text;
}

/// The same conversation in which `side` sent other bytes.
TcpConversation with_stream(const TcpConversation& conversation, Side side, const Bytes& sent) {
  TcpConversation changed = conversation;
  changed.events.clear();
  if (!sent.empty()) changed.events.push_back({{}, side, TcpEvent::Kind::kData, sent});
  return changed;
}

void clear(Bytes& stream, size_t at, size_t bytes) {
  for (size_t i = at; i < at + bytes && i < stream.size(); ++i) stream[i] = std::byte{0};
}

/// When the first frame of a pcap file was captured.
Duration first_time(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 32> head{};
  file.read(head.data(), head.size());
  uint32_t seconds = 0, micros = 0;
  std::memcpy(&seconds, head.data() + 24, 4);
  std::memcpy(&micros, head.data() + 28, 4);
  return std::chrono::seconds(seconds) + std::chrono::microseconds(micros);
}

}  // namespace

std::string Piece::name() const {
  switch (kind) {
    case PieceKind::kRequest: return "connection request";
    case PieceKind::kHello: return "HELLO";
    case PieceKind::kNoop: return "NOOP";
    case PieceKind::kMessage: return message_name(header->type);
    case PieceKind::kRest: return std::to_string(bytes) + " other bytes";
  }
  return "?";
}

size_t Piece::body_at() const {
  return payload_at() - 40;
}

size_t Piece::payload_at() const {
  return bytes - header->payload_length;
}

std::vector<Piece> split(const TcpConversation& conversation, Side side) {
  const DecodedSide decoded = decode_side(conversation, side, size_t{1} << 20);
  std::vector<Piece> pieces;
  size_t at = 0;
  uint32_t version = 3;
  const auto add = [&](PieceKind kind, size_t bytes) -> Piece& {
    pieces.push_back({kind, at, bytes, version, {}});
    at += bytes;
    return pieces.back();
  };
  if (decoded.dialled && decoded.accept == socklnd::AcceptStatus::kRequest)
    add(PieceKind::kRequest, socklnd::conn_request_bytes(decoded.request.target));
  if (decoded.hello) {
    version = decoded.hello->version;
    add(PieceKind::kHello, socklnd::hello_bytes(version));
  }
  for (const DecodedFrame& frame : decoded.frames) {
    if (!frame.header) {
      add(PieceKind::kNoop, socklnd::kFrameHeaderBytes);
      continue;
    }
    const size_t head = socklnd::frame_header_bytes(version) + socklnd::lnet_header_bytes(version);
    add(PieceKind::kMessage, head + frame.payload.size()).header = frame.header;
  }
  const size_t all = conversation.stream(side).size();
  if (at < all) add(PieceKind::kRest, all - at);
  return pieces;
}

bool Mask::originated(const Piece& piece) const {
  return piece.header && std::find(ours.begin(), ours.end(), piece.header->src_nid) != ours.end();
}

std::vector<std::byte> masked(const TcpConversation& conversation, Side side, const Mask& mask) {
  Bytes stream = conversation.stream(side);
  for (const Piece& piece : split(conversation, side)) {
    if (piece.kind == PieceKind::kHello) clear(stream, piece.at + (piece.version == 4 ? 56 : 32), 8);
    if (!mask.originated(piece)) continue;
    const bool get = piece.header->type == wire::MsgType::kGet;
    const bool put = piece.header->type == wire::MsgType::kPut && !piece.header->put().ack_wmd.is_none();
    if (get || put) clear(stream, piece.at + piece.body_at(), 16);
    if (!has_ping_info(piece)) continue;
    const size_t info = piece.at + piece.payload_at();
    clear(stream, info + 24, 4);
  }
  return stream;
}

std::string difference(const TcpConversation& kernel, Side side, const std::vector<std::byte>& sent, const Mask& mask) {
  const TcpConversation ours = with_stream(kernel, side, sent);
  const std::vector<Piece> expected = split(kernel, side), got = split(ours, side);
  const Bytes expected_bytes = masked(kernel, side, mask), got_bytes = masked(ours, side, mask);
  if (expected_bytes == got_bytes) return "";
  std::string text = kernel.dialler.text() + " > " + kernel.passive.text() + ":";
  for (size_t i = 0; i < std::min(expected.size(), got.size()); ++i) {
    const Piece& e = expected[i];
    const Piece& g = got[i];
    if (e.name() != g.name() || e.bytes != g.bytes) break;
    for (const Field& field : fields_of(e)) {
      const std::span a = std::span(expected_bytes).subspan(e.at + field.at, field.bytes);
      const std::span b = std::span(got_bytes).subspan(g.at + field.at, field.bytes);
      if (std::equal(a.begin(), a.end(), b.begin(), b.end())) continue;
      text += "\n  " + std::to_string(i) + " " + e.name() + ", " + field.name + ": kernel " + hex_text(a) + " ulnet " +
              hex_text(b);
    }
  }
  return text + "\n  kernel sent " + list(expected) + "\n  ulnet sent " + list(got);
}

Capture merge_captures(const std::vector<std::string>& names) {
  Capture merged;
  Duration begin = Duration::max();
  for (const std::string& name : names) begin = std::min(begin, first_time(capture_path(name)));
  for (const std::string& name : names) {
    Capture part = pcap_read(capture_path(name));
    if (!part.error.empty()) merged.error = part.error;
    merged.frame_count += part.frame_count;
    const Duration later = first_time(capture_path(name)) - begin;
    for (TcpConversation& conversation : part.conversations) {
      for (TcpEvent& event : conversation.events) event.time += later;
      merged.conversations.push_back(std::move(conversation));
    }
  }
  return merged;
}

}  // namespace ulnet::test
