// Golden bytes of docs/wire/socklnd.md §1 to §3: every worked example there, both ways, fed whole and byte by byte.
#include <gtest/gtest.h>

#include "dataplane/base/nid_text.h"
#include "lnd/socklnd/proto/acceptor.h"
#include "lnd/socklnd/proto/csum.h"
#include "lnd/socklnd/proto/frame.h"
#include "lnd/socklnd/proto/hello.h"
#include "tests/nid_of.h"
#include "tests/wire/hex.h"

namespace ulnet::socklnd {
namespace {

using test::hex;
using test::hex_text;
using test::nid;

constexpr uint64_t kIncarnation = 0x17F1A2B3C4D5E6F7;

constexpr const char* kRequestV1 = "00 71 ce ac 01 00 00 00 14 7a a8 c0 00 00 02 00";
constexpr const char* kRequestV2 = "00 71 ce ac 02 00 00 00 0c 02 00 00 fd 00*14 01";
constexpr const char* kHelloV3 = R"(63 69 72 45 03 00 00 00 0a 7a a8 c0 00 00 02 00
                                    14 7a a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
                                    f7 e6 d5 c4 b3 a2 f1 17 00 00 00 00 00 00 00 00
                                    01 00 00 00 00 00 00 00)";
constexpr const char* kHelloV4 = R"(63 69 72 45 04 00 00 00 0c 02 00 00 fd 00 00 00
                                    00 00 00 00 00 00 00 00 00 00 00 01 0c 02 00 00
                                    fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
                                    39 30 00 00 00 00 00 00 f7 e6 d5 c4 b3 a2 f1 17
                                    00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00)";
constexpr const char* kHelloV1 = R"(ed 0d bc ee 01 00 00 00 0a 7a a8 c0 00 00 02 00
                                    00 00 00 00 39 30 00 00 04 00 00 00 00 00 00 00
                                    f7 e6 d5 c4 b3 a2 f1 17 01 00 00 00 00*28)";

/// Feeds `bytes` in pieces of `piece`, checks that need() never promises more than the structure has; returns what is
/// left over.
template <class Decoder>
size_t feed_all(Decoder& decoder, const std::vector<std::byte>& bytes, size_t piece) {
  std::span<const std::byte> rest(bytes);
  while (!rest.empty() && decoder.need() != 0) {
    std::span<const std::byte> in = rest.first(std::min(piece, rest.size()));
    const size_t offered = in.size();
    decoder.feed(in);
    rest = rest.subspan(offered - in.size());
  }
  return rest.size();
}

template <class Check>
void request_in_pieces(const std::vector<std::byte>& bytes, Check check) {
  for (size_t piece : {size_t{1}, size_t{3}, size_t{1000}}) {
    ConnRequestDecoder decoder;
    const size_t left = feed_all(decoder, bytes, piece);
    check(decoder, left);
  }
}

HelloDecoder hello_of(const std::vector<std::byte>& bytes, HelloRole role = HelloRole::kPassive,
                      size_t* left = nullptr) {
  HelloDecoder whole(role), single(role);
  const size_t left_whole = feed_all(whole, bytes, 1000);
  EXPECT_EQ(feed_all(single, bytes, 1), left_whole);
  EXPECT_EQ(whole.status(), single.status());
  if (left != nullptr) *left = left_whole;
  return whole;
}

template <class T>
void put_at(std::vector<std::byte>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Goal: the two examples of §1.2. The bytes behind a request stay untouched for the HELLO.
TEST(AcceptorGolden, requests) {
  for (const auto& [golden, text] :
       {std::pair(kRequestV1, "192.168.122.20@tcp"), std::pair(kRequestV2, "fd00::1@tcp")}) {
    std::array<std::byte, kConnRequestMaxBytes> out;
    const size_t bytes = conn_request_encode(nid(text), out);
    EXPECT_EQ(bytes, conn_request_bytes(nid(text)));
    EXPECT_EQ(hex_text(std::span(out).first(bytes)), hex_text(hex(golden)));
    auto stream = hex(golden);
    stream.resize(stream.size() + 5);
    request_in_pieces(stream, [&](const ConnRequestDecoder& decoder, size_t left) {
      EXPECT_EQ(decoder.status(), AcceptStatus::kRequest);
      EXPECT_EQ(left, 5u);
      EXPECT_EQ(nid_text(decoder.request().target), text);
      EXPECT_FALSE(decoder.request().flip);
    });
  }
}

// Goal: a request of the other byte order is read (§1.2 rule 1), the large NID in it not swapped.
TEST(AcceptorGolden, other_byte_order) {
  for (const char* text : {"192.168.122.20@tcp", "fd00::1@tcp"}) {
    std::vector<std::byte> out(conn_request_bytes(nid(text)));
    conn_request_encode(nid(text), out, true);
    EXPECT_EQ(out[0], std::byte{0xAC});
    request_in_pieces(out, [&](const ConnRequestDecoder& decoder, size_t) {
      EXPECT_EQ(decoder.status(), AcceptStatus::kRequest);
      EXPECT_TRUE(decoder.request().flip);
      EXPECT_EQ(nid_text(decoder.request().target), text);
    });
  }
}

// Goal: the verdicts of §1.2 rules 2 and 3 and §2.5, and the answer's bytes.
TEST(AcceptorGolden, verdicts) {
  const std::pair<const char*, AcceptStatus> cases[] = {
      {"00 71 ce ac 63 00*11", AcceptStatus::kAnswerAndClose},
      {"00 71 ce ac 00*12", AcceptStatus::kAnswerAndClose},
      {"63 69 72 45 03 00 00 00 00*8", AcceptStatus::kAnswerAndClose},
      {"45 72 69 63 03 00 00 00 00*8", AcceptStatus::kAnswerAndClose},
      {"de ad be ef 01 00 00 00 00*8", AcceptStatus::kClose},
      {"00 71 ce ac 01 00 00 00 14 7a a8 c0 00 00 02", AcceptStatus::kMore}};
  for (const auto& [bytes, status] : cases)
    request_in_pieces(hex(bytes),
                      [&](const ConnRequestDecoder& decoder, size_t) { EXPECT_EQ(decoder.status(), status) << bytes; });
  std::array<std::byte, kAcceptorAnswerBytes> answer;
  acceptor_answer_encode(answer);
  EXPECT_EQ(hex_text(answer), hex_text(hex("00 71 ce ac 01 00 00 00 00*8")));
}

// Goal: the HELLO examples of §2.3 and §2.4, both ways.
TEST(HelloGolden, examples) {
  Hello hello =
      hello_request(nid("192.168.122.10@tcp"), nid("192.168.122.20@tcp"), kIncarnation, ConnType::kControl, kVersion3);
  const auto expect_both_ways = [&](const char* golden) {
    std::array<std::byte, kHelloMaxBytes> out;
    const size_t bytes = hello_encode(hello, out);
    EXPECT_EQ(bytes, hello_bytes(hello.version));
    EXPECT_EQ(hex_text(std::span(out).first(bytes)), hex_text(hex(golden)));
    auto stream = hex(golden);
    stream.resize(stream.size() + 7);
    size_t left = 0;
    const HelloDecoder decoder = hello_of(stream, HelloRole::kPassive, &left);
    ASSERT_EQ(decoder.status(), HelloStatus::kHello);
    EXPECT_EQ(left, 7u);
    EXPECT_EQ(decoder.hello().version, hello.version);
    EXPECT_EQ(decoder.hello().src_nid, hello.src_nid);
    EXPECT_EQ(decoder.hello().src_pid, hello.src_pid);
    EXPECT_EQ(decoder.hello().src_incarnation, kIncarnation);
    EXPECT_EQ(decoder.hello().ctype, ConnType::kControl);
    if (hello.version != kVersion1) {
      EXPECT_EQ(decoder.hello().dst_nid, hello.dst_nid);
    }
  };
  expect_both_ways(kHelloV3);
  hello.version = kVersion1;
  expect_both_ways(kHelloV1);
  hello.version = kVersion2;
  auto v2 = std::string(kHelloV3);
  v2[13] = '2';
  expect_both_ways(v2.c_str());
  hello.version = kVersion4;
  hello.src_nid = nid("fd00::1@tcp");
  hello.dst_nid = nid("fd00::2@tcp");
  expect_both_ways(kHelloV4);
}

// Goal: each error of §2.4 has its own verdict, given as soon as the field is there.
TEST(HelloGolden, verdicts) {
  const auto with = [](const char* golden, size_t offset, auto value) {
    auto bytes = hex(golden);
    put_at(bytes, offset, value);
    return hello_of(bytes).status();
  };
  EXPECT_EQ(with(kHelloV3, 0, uint32_t{0xDEADBEEF}), HelloStatus::kBadMagic);
  for (uint32_t version : {0u, 1u, 5u, 99u, ~0u}) EXPECT_EQ(with(kHelloV3, 4, version), HelloStatus::kUnknownVersion);
  EXPECT_EQ(with(kHelloV1, 4, uint32_t{2}), HelloStatus::kUnknownVersion);
  EXPECT_EQ(with(kHelloV3, 8, ~uint64_t{0}), HelloStatus::kBadSource);
  EXPECT_EQ(with(kHelloV4, 9, uint8_t{0xFF}), HelloStatus::kBadSource);
  EXPECT_EQ(with(kHelloV3, 48, uint32_t{9}), HelloStatus::kBadType);
  EXPECT_EQ(with(kHelloV4, 72, uint32_t{4}), HelloStatus::kBadType);
  EXPECT_EQ(with(kHelloV3, 48, ~0u), HelloStatus::kBadType);  // NONE is no request
  EXPECT_EQ(with(kHelloV3, 52, uint32_t{17}), HelloStatus::kTooManyIps);
  EXPECT_EQ(with(kHelloV1, 24, uint32_t{2}), HelloStatus::kNotHello);
  EXPECT_EQ(with(kHelloV1, 28, uint32_t{68}), HelloStatus::kTooManyIps);
  EXPECT_EQ(with(kHelloV3, 8, uint64_t{0}), HelloStatus::kHello);      // as upstream
  EXPECT_EQ(with(kHelloV4, 76, uint32_t{1000}), HelloStatus::kHello);  // nips of v4 is ignored
  EXPECT_EQ(with(kHelloV3, 4, uint32_t{4}), HelloStatus::kMore);       // 56 bytes are not enough for v4
  auto none = hex(kHelloV3);
  put_at(none, 48, ~0u);
  EXPECT_EQ(hello_of(none, HelloRole::kActive).status(), HelloStatus::kHello);
}

// Goal: interface addresses behind v1 and v3 are read to the byte; a zero one refuses (§2.1).
TEST(HelloGolden, interface_addresses) {
  for (const auto& [golden, count_offset, count] :
       {std::tuple(kHelloV3, size_t{52}, uint32_t{2}), std::tuple(kHelloV1, size_t{28}, uint32_t{8})}) {
    auto bytes = hex(golden);
    put_at(bytes, count_offset, count);
    for (int i = 0; i < 2 * 4 + 3; ++i) bytes.push_back(std::byte{1});
    size_t left = 0;
    const HelloDecoder decoder = hello_of(bytes, HelloRole::kPassive, &left);
    EXPECT_EQ(decoder.status(), HelloStatus::kHello);
    EXPECT_EQ(decoder.hello().ip_count, 2u);
    EXPECT_EQ(left, 3u);
    put_at(bytes, hex(golden).size() + 4, uint32_t{0});
    EXPECT_EQ(hello_of(bytes).status(), HelloStatus::kZeroIp);
  }
}

// Goal: of a peer of the other byte order integers are swapped, large NIDs are right, 8-byte NIDs mangled as upstream
// mangles them (§2.4).
TEST(HelloGolden, other_byte_order) {
  Hello hello = hello_request(nid("10.0.0.254@tcp"), nid("10.0.0.2@tcp"), kIncarnation, ConnType::kBulkIn, kVersion3);
  hello.flip = true;
  std::vector<std::byte> bytes(kHelloV2Bytes);
  hello_encode(hello, bytes);
  const HelloDecoder v3 = hello_of(bytes);
  ASSERT_EQ(v3.status(), HelloStatus::kHello);
  EXPECT_TRUE(v3.hello().flip);
  EXPECT_EQ(v3.hello().src_pid, kLnetPid);
  EXPECT_EQ(v3.hello().src_incarnation, kIncarnation);
  EXPECT_EQ(v3.hello().ctype, ConnType::kBulkIn);
  EXPECT_EQ(v3.hello().src_nid.to_u64(), 0x0000000A00000200u);  // 0x000200000A0000FE backwards, its top byte dropped
  hello.version = kVersion4;
  hello.src_nid = nid("fd00::1@tcp");
  bytes.resize(kHelloV4Bytes);
  hello_encode(hello, bytes);
  const HelloDecoder v4 = hello_of(bytes);
  ASSERT_EQ(v4.status(), HelloStatus::kHello);
  EXPECT_EQ(v4.hello().src_nid, hello.src_nid);
}

// Goal: the passive side's answers (§2.4): same version, inverse type or NONE, the request's dst fields reused.
TEST(HelloGolden, answers) {
  Hello request = hello_request(nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"), 5, ConnType::kBulkIn, kVersion3);
  request.dst_pid = 77;
  request.dst_incarnation = 88;
  Hello answer = hello_answer(request, nid("10.0.0.2@tcp"), 6, false);
  EXPECT_EQ(answer.version, kVersion3);
  EXPECT_EQ(answer.ctype, ConnType::kBulkOut);
  EXPECT_EQ(answer.dst_nid, request.src_nid);
  EXPECT_EQ(answer.dst_pid, 77u);
  EXPECT_EQ(answer.dst_incarnation, 88u);
  const ProcessId peer{nid("10.0.0.2@tcp"), kLnetPid};
  EXPECT_EQ(hello_answer_check(request, peer, answer), AnswerVerdict::kAccepted);
  EXPECT_EQ(hello_answer_check(request, peer, hello_answer(request, peer.nid, 6, true)), AnswerVerdict::kRetry);
  answer.ctype = ConnType::kBulkIn;
  EXPECT_EQ(hello_answer_check(request, peer, answer), AnswerVerdict::kProtocolError);
  answer = hello_answer_unknown_version(peer.nid, 6);
  EXPECT_EQ(answer.src_nid, answer.dst_nid);
  EXPECT_EQ(answer.ctype, ConnType::kNone);
  EXPECT_EQ(answer.version, kVersion3);
  EXPECT_EQ(hello_answer_unknown_version(nid("fd00::1@tcp"), 6).version, kVersion4);
  request.version = kVersion2;
  EXPECT_EQ(hello_answer_check(request, peer, answer), AnswerVerdict::kOtherVersion);
  answer.src_nid = nid("10.0.0.3@tcp");
  EXPECT_EQ(hello_answer_check(request, peer, answer), AnswerVerdict::kProtocolError);
}

// Goal: the ksock headers printed in §3.3.
TEST(FrameGolden, ksock_headers) {
  const std::pair<FrameHeader, const char*> cases[] = {
      {{FrameType::kNoop, 0, 0, 1}, "c0 00*15 01 00*7"},
      {{FrameType::kNoop, 0, 5, 9}, "c0 00*7 05 00*7 09 00*7"},
      {{FrameType::kLnet, 0, 0, 0}, "c1 00*23"},
      {{FrameType::kLnet, 0x11223344, 2, 3}, "c1 00 00 00 44 33 22 11 02 00*7 03 00*7"}};
  for (const auto& [header, golden] : cases) {
    std::array<std::byte, kFrameHeaderBytes> out;
    frame_header_encode(header, out);
    EXPECT_EQ(hex_text(out), hex_text(hex(golden)));
    EXPECT_EQ(frame_header_decode(out).value(), header);
    frame_header_encode(header, out, true);
    EXPECT_EQ(out[3], std::byte(uint8_t(header.type)));
    EXPECT_EQ(frame_header_decode(out, true).value(), header);
    EXPECT_FALSE(frame_header_decode(out));
  }
}

// Goal: the check values of §3.5; pieces of any size give the same.
TEST(FrameGolden, checksum) {
  const std::string digits = "123456789";
  EXPECT_EQ(csum_update(kCsumStart, std::as_bytes(std::span(digits))), 0x340BC6D9u);
  std::array<std::byte, kFrameHeaderBytes> noop;
  frame_header_encode({FrameType::kNoop, 0, 0, 5}, noop);
  EXPECT_EQ(frame_csum_start(noop), 0x7FBB3464u);
  frame_header_encode({FrameType::kNoop, 0x7FBB3464, 0, 5}, noop);
  EXPECT_EQ(frame_csum_start(noop), 0x7FBB3464u);  // its own field counts as 0

  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(uint8_t(i * 7 + i / 256));
  const uint32_t whole = csum_update(kCsumStart, bytes);
  for (size_t cut = 0; cut <= 40; ++cut) {
    const uint32_t first = csum_update(kCsumStart, std::span(bytes).first(cut));
    EXPECT_EQ(csum_update(first, std::span(bytes).subspan(cut)), whole) << cut;
  }
}

}  // namespace
}  // namespace ulnet::socklnd
