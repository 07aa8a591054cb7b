// The frame decoder over whole streams, and the pure rules beside it: connection choice (docs/wire/socklnd.md §5) and
// zero-copy cookies (§3.3).
#include "lnd/socklnd/proto/frame.h"

#include <gtest/gtest.h>

#include <set>

#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/proto/zc.h"

namespace ulnet::socklnd {
namespace {

using wire::Header;
using wire::MsgType;

Header put_of(uint32_t payload_length, bool large) {
  Header header;
  header.dest_nid = nid_parse(large ? "fd00::2@tcp" : "10.0.0.2@tcp").value();
  header.src_nid = nid_parse(large ? "fd00::1@tcp" : "10.0.0.1@tcp").value();
  header.type = MsgType::kPut;
  header.payload_length = payload_length;
  return header;
}

/// A NOOP (where the version has one), a PUT with 5 bytes of payload, a PUT without: as one stream.
std::vector<std::byte> stream_of(uint32_t version, bool with_csum) {
  std::vector<std::byte> out;
  const auto append = [&](std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
  if (version != kVersion1) {
    std::array<std::byte, kFrameHeaderBytes> noop;
    FrameHeader header{FrameType::kNoop, 0, 0, 5};
    frame_header_encode(header, noop);
    if (with_csum) header.csum = frame_csum_start(noop);
    frame_header_encode(header, noop);
    append(noop);
  }
  for (uint32_t payload_length : {5u, 0u}) {
    std::array<std::byte, kFramePrefixMaxBytes> prefix;
    const std::vector<std::byte> payload(payload_length, std::byte{0x5A});
    FrameHeader frame{FrameType::kLnet, 0, payload_length, 0};
    const Header header = put_of(payload_length, version == kVersion4);
    size_t bytes = frame_prefix_encode(version, frame, header, prefix);
    if (with_csum) frame.csum = csum_update(frame_csum_start(std::span(prefix).first(bytes)), payload);
    bytes = frame_prefix_encode(version, frame, header, prefix);
    append(std::span(prefix).first(bytes));
    append(payload);
  }
  return out;
}

// Goal: every version's stream decodes to the same messages in pieces of any size, and ends at a boundary. The checksum
// over header and payload equals the sender's.
TEST(FrameDecoder, streams_of_every_version) {
  for (uint32_t version = kVersion1; version <= kVersion4; ++version)
    for (bool with_csum : {false, version != kVersion1})
      for (size_t piece = 1; piece < 300; piece += piece < 130 ? 1 : 40) {
        const auto stream = stream_of(version, with_csum);
        FrameDecoder decoder(version);
        std::span<const std::byte> rest(stream);
        std::string trace;
        while (!rest.empty()) {
          std::span<const std::byte> in = rest.first(std::min(piece, rest.size()));
          const size_t offered = in.size();
          const FrameStatus status = decoder.feed(in);
          rest = rest.subspan(offered - in.size());
          if (status == FrameStatus::kMore) continue;
          ASSERT_TRUE(status == FrameStatus::kNoop || status == FrameStatus::kMessage);
          trace += status == FrameStatus::kNoop ? "noop " : "put ";
          const size_t payload = status == FrameStatus::kNoop ? 0 : decoder.header().payload_length;
          if (status == FrameStatus::kMessage) {
            const Header sent = put_of(uint32_t(payload), version == kVersion4);
            EXPECT_EQ(decoder.header().dest_nid, sent.dest_nid);
            EXPECT_EQ(decoder.header().src_nid, sent.src_nid);
            EXPECT_EQ(decoder.header().type, MsgType::kPut);
            EXPECT_EQ(decoder.frame().type, FrameType::kLnet);
            EXPECT_EQ(decoder.frame().cookie0, version == kVersion1 ? 0 : payload);
            EXPECT_EQ(decoder.frame().cookie1, 0u);
          }
          const uint32_t csum = csum_update(decoder.csum(), rest.first(payload));
          if (status == FrameStatus::kMessage && with_csum) {
            EXPECT_EQ(csum, decoder.frame().csum);
          }
          rest = rest.subspan(payload);
          decoder.next();
        }
        EXPECT_EQ(trace, version == kVersion1 ? "put put " : "noop put put ");
        EXPECT_TRUE(decoder.at_boundary());
      }
}

// Goal: rubbish is named, and an error is final.
TEST(FrameDecoder, errors) {
  const auto decode = [](std::vector<std::byte> stream, size_t offset, std::byte value) {
    stream[offset] = value;
    FrameDecoder decoder(kVersion3);
    std::span<const std::byte> in(stream);
    decoder.feed(in);
    const size_t left = in.size();
    decoder.feed(in);
    EXPECT_EQ(in.size(), left);
    EXPECT_EQ(decoder.need() == 0, decoder.status() != FrameStatus::kMore);
    return decoder.status();
  };
  const auto stream = stream_of(kVersion3, true);
  EXPECT_EQ(decode(stream, 0, std::byte{0xC7}), FrameStatus::kBadType);
  EXPECT_EQ(decode(stream, 16, std::byte{6}), FrameStatus::kBadCsum);
  const std::vector<std::byte> message(stream.begin() + 24, stream.end());
  EXPECT_EQ(decode(message, 24 + 24, std::byte{5}), FrameStatus::kBadHeader);
  EXPECT_EQ(decode(message, 23, std::byte{0}), FrameStatus::kMessage);
  const auto no_csum = stream_of(kVersion3, false);
  const std::vector<std::byte> plain(no_csum.begin() + 24, no_csum.end());
  EXPECT_EQ(decode(plain, 24 + 24, std::byte{5}), FrameStatus::kBadHeader);
  EXPECT_EQ(decode(plain, 0, std::byte{0xC7}), FrameStatus::kBadType);
}

// Goal: the table of §5 for v3 and v4, and the rule for v2, row by row.
TEST(ConnFit, table) {
  using enum Fit;
  using Row = std::array<Fit, 4>;  // CONTROL, BULK_OUT, BULK_IN, ANY
  const auto row = [](uint32_t version, const TxShape& tx) {
    Row out;
    const ConnType types[] = {ConnType::kControl, ConnType::kBulkOut, ConnType::kBulkIn, ConnType::kAny};
    for (size_t i = 0; i < 4; ++i) out[i] = conn_fit(types[i], version, tx, 1024);
    EXPECT_EQ(conn_fit(ConnType::kNone, version, tx, 1024), kNo);
    return out;
  };
  const TxShape small{.payload_bytes = 1024 - 97}, bulk{.payload_bytes = 1024 - 96};
  for (uint32_t version : {kVersion3, kVersion4}) {
    EXPECT_EQ(row(version, small), (Row{kYes, kMay, kNo, kNo}));
    EXPECT_EQ(row(version, bulk), (Row{kMay, kYes, kNo, kNo}));
    EXPECT_EQ(row(version, {.noop = true, .non_blocking = true}), (Row{kNo, kNo, kYes, kNo}));
    EXPECT_EQ(row(version, {.noop = true}), (Row{kYes, kMay, kMay, kNo}));
  }
  EXPECT_EQ(row(kVersion2, small), (Row{kYes, kMay, kMay, kYes}));
  EXPECT_EQ(row(kVersion2, bulk), (Row{kMay, kYes, kMay, kYes}));
  EXPECT_EQ(row(kVersion2, {.noop = true, .non_blocking = true}), (Row{kYes, kMay, kMay, kYes}));
}

// Goal: inverting twice gives the type again, and only the bulk types change.
TEST(ConnType, inverse) {
  for (ConnType type : {ConnType::kAny, ConnType::kControl, ConnType::kBulkIn, ConnType::kBulkOut, ConnType::kNone})
    EXPECT_EQ(conn_type_inverse(conn_type_inverse(type)), type);
  EXPECT_EQ(conn_type_inverse(ConnType::kBulkIn), ConnType::kBulkOut);
  EXPECT_EQ(conn_type_inverse(ConnType::kControl), ConnType::kControl);
}

// Goal: the cookies that each form of §3.3 acknowledges.
TEST(ZcAck, forms) {
  using Kind = ZcAck::Kind;
  const auto noop = [](uint64_t a, uint64_t b, uint32_t version = kVersion3) {
    return zc_ack_of({FrameType::kNoop, 0, a, b}, version);
  };
  EXPECT_EQ(noop(0, 7), (ZcAck{Kind::kRange, 7, 7}));
  EXPECT_EQ(noop(9, 5), (ZcAck{Kind::kPair, 9, 5}));
  EXPECT_EQ(noop(5, 9), (ZcAck{Kind::kRange, 5, 9}));
  EXPECT_EQ(noop(5, 5), (ZcAck{Kind::kRange, 5, 5}));
  EXPECT_EQ(noop(0, 0), ZcAck{});
  EXPECT_EQ(noop(5, 0), ZcAck{});
  EXPECT_EQ(noop(0, 1).kind, Kind::kKeepalive);
  EXPECT_EQ(noop(4, 1).kind, Kind::kInvalid);
  EXPECT_EQ(noop(0, 1, kVersion2), (ZcAck{Kind::kRange, 1, 1}));
  EXPECT_EQ(zc_ack_of({FrameType::kLnet, 0, 4, 7}, kVersion3), (ZcAck{Kind::kRange, 7, 7}));
  EXPECT_EQ(zc_ack_of({FrameType::kLnet, 0, 4, 0}, kVersion3), ZcAck{});
}

/// The cookies that a NOOP acknowledges.
std::set<uint64_t> covered(const FrameHeader& noop) {
  const ZcAck ack = zc_ack_of(noop, kVersion3);
  if (ack.kind == ZcAck::Kind::kPair) return {ack.first, ack.last};
  std::set<uint64_t> out;
  if (ack.kind == ZcAck::Kind::kRange)
    for (uint64_t c = ack.first; c <= ack.last; ++c) out.insert(c);
  return out;
}

// Goal: merging never acknowledges more or less than what was added. Method: every sequence of four different cookies
// of a small range, merged as far as it goes.
TEST(ZcAck, merge_covers_exactly_what_was_added) {
  for (uint64_t code = 0; code < 6 * 6 * 6 * 6; ++code) {
    FrameHeader noop{FrameType::kNoop, 0, 0, 0};
    std::set<uint64_t> added;
    uint64_t digits = code;
    for (int i = 0; i < 4; ++i, digits /= 6) {
      const uint64_t cookie = kFirstZcCookie + digits % 6;
      if (added.contains(cookie)) continue;
      if (zc_ack_merge(noop, cookie)) added.insert(cookie);
      ASSERT_EQ(covered(noop), added) << code;
    }
  }
}

// Goal: cookies that come in order end up in one NOOP, however many.
TEST(ZcAck, a_run_is_one_range) {
  FrameHeader noop{FrameType::kNoop, 0, 0, 0};
  for (uint64_t cookie = 2; cookie < 100; ++cookie) ASSERT_TRUE(zc_ack_merge(noop, cookie));
  EXPECT_EQ(zc_ack_of(noop, kVersion3), (ZcAck{ZcAck::Kind::kRange, 2, 99}));
}

}  // namespace
}  // namespace ulnet::socklnd
