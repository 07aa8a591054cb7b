// Golden bytes of o2iblnd, in both byte orders. Each message type and each reject reason that a capture has is here.
// The bytes of other types, and the worked examples, are those of docs/wire/o2iblnd.md. Each fault of a message has a
// case.
#include <gtest/gtest.h>

#include <set>

#include "dataplane/wire/bytes.h"
#include "lnd/o2iblnd/proto/connect.h"
#include "lnd/o2iblnd/proto/message.h"
#include "tests/nid_of.h"
#include "tests/wire/hex.h"
#include "tests/wire/o2iblnd_encode.h"

namespace ulnet::o2iblnd {
namespace {

using test::fragments_of;
using test::hex;
using test::hex_text;
using test::nid;
using test::o2iblnd_encode;
using Bytes = std::vector<std::byte>;

// The examples of §6.1.
constexpr const char* kConnReqExample = R"(91 1b e9 0b 12 00 c0 00 38 00 00 00 00 00 00 00
                                           05 00 00 0a 00 00 05 00 01 00 fe ca 0d f0 05 00
                                           06 00 00 0a 00 00 05 00 00 00 00 00 00 00 00 00
                                           08 00 01 01 00 10 00 00)";
constexpr const char* kConnAckExample = R"(91 1b e9 0b 12 00 c1 00 38 00 00 00 00 00 00 00
                                           06 00 00 0a 00 00 05 00 02 00 ef be 0d f0 05 00
                                           05 00 00 0a 00 00 05 00 01 00 fe ca 0d f0 05 00
                                           08 00 01 01 00 10 00 00)";
// From e1.
constexpr const char* kConnReq = R"(91 1b e9 0b 12 00 c0 00 38 00 00 00 00 00 00 00
                                    01 00 0a 0a 00 00 05 00 a2 00 e3 86 bc 60 06 00
                                    02 00 0a 0a 00 00 05 00 00 00 00 00 00 00 00 00
                                    08 00 01 01 00 10 00 00)";
constexpr const char* kConnAck = R"(91 1b e9 0b 12 00 c1 00 38 00 00 00 00 00 00 00
                                    02 00 0a 0a 00 00 05 00 db 9b 11 87 bc 60 06 00
                                    01 00 0a 0a 00 00 05 00 a2 00 e3 86 bc 60 06 00
                                    08 00 01 01 00 10 00 00)";
constexpr const char* kImmediateGet = R"(91 1b e9 0b 12 00 d1 00 78 00 00 00 00 00 00 00
                                         01 00 0a 0a 00 00 05 00 a2 00 e3 86 bc 60 06 00
                                         02 00 0a 0a 00 00 05 00 db 9b 11 87 bc 60 06 00
                                         02 00 0a 0a 00 00 05 00 01 00 0a 0a 00 00 05 00
                                         39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
                                         63 62 bc 8d 6e e0 e9 18 0d 1c 00 00 00 00 00 00
                                         00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00
                                         78 0f 00 00 00 00 00 00)";
// From e4.
constexpr const char* kPutReq = R"(91 1b e9 0b 12 00 d2 01 80 00 00 00 00 00 00 00
                                   02 00 0a 0a 00 00 05 00 fb f2 7f 8a bc 60 06 00
                                   01 00 0a 0a 00 00 05 00 e6 b2 56 8a bc 60 06 00
                                   01 00 0a 0a 00 00 05 00 02 00 0a 0a 00 00 05 00
                                   39 30 00 00 39 30 00 00 01 00 00 00 00 10 00 00
                                   ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
                                   08 00 00 00 00 00 d0 c5 00 00 00 00 00 00 00 00
                                   34 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00)";
constexpr const char* kPutAck = R"(91 1b e9 0b 12 00 d4 00 54 00 00 00 00 00 00 00
                                   01 00 0a 0a 00 00 05 00 e6 b2 56 8a bc 60 06 00
                                   02 00 0a 0a 00 00 05 00 fb f2 7f 8a bc 60 06 00
                                   05 00 00 00 00 00 00 00 12 00 00 00 00 00 00 00
                                   2e 13 06 00 01 00 00 00 00 10 00 00 00 b0 15 98
                                   73 ea 14 ff)";
constexpr const char* kPutDone = R"(91 1b e9 0b 12 00 d5 00 3c 00 00 00 00 00 00 00
                                    02 00 0a 0a 00 00 05 00 fb f2 7f 8a bc 60 06 00
                                    01 00 0a 0a 00 00 05 00 e6 b2 56 8a bc 60 06 00
                                    12 00 00 00 00 00 00 00 00 10 00 00)";
// From e3.
constexpr const char* kGetReq = R"(91 1b e9 0b 12 00 d6 01 94 00 00 00 00 00 00 00
                                   02 00 0a 0a 00 00 05 00 16 9f aa 89 bc 60 06 00
                                   01 00 0a 0a 00 00 05 00 70 46 83 89 bc 60 06 00
                                   01 00 0a 0a 00 00 05 00 02 00 0a 0a 00 00 05 00
                                   39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
                                   22 22 ed 19 79 e0 e9 18 25 20 00 00 00 00 00 00
                                   08 00 00 00 00 00 c2 c5 34 00 00 00 00 00 00 00
                                   00 10 00 00 00 00 00 00 05 00 00 00 00 00 00 00
                                   b4 09 04 00 01 00 00 00 00 10 00 00 00 a0 f0 db
                                   3b 5f 31 ff)";
constexpr const char* kGetDone = R"(91 1b e9 0b 12 00 d7 00 3c 00 00 00 00 00 00 00
                                    01 00 0a 0a 00 00 05 00 70 46 83 89 bc 60 06 00
                                    02 00 0a 0a 00 00 05 00 16 9f aa 89 bc 60 06 00
                                    05 00 00 00 00 00 00 00 00 10 00 00)";
// No capture has these two: §2, §3. The PUT_NAK answers the PUT_REQ above with ENOENT, the NOOP returns 4 credits.
constexpr const char* kPutNak = R"(91 1b e9 0b 12 00 d3 00 3c 00 00 00 00 00 00 00
                                   01 00 0a 0a 00 00 05 00 e6 b2 56 8a bc 60 06 00
                                   02 00 0a 0a 00 00 05 00 fb f2 7f 8a bc 60 06 00
                                   05 00 00 00 00 00 00 00 fe ff ff ff)";
constexpr const char* kNoop = R"(91 1b e9 0b 12 00 d0 04 30 00 00 00 00 00 00 00
                                 01 00 0a 0a 00 00 05 00 e6 b2 56 8a bc 60 06 00
                                 02 00 0a 0a 00 00 05 00 fb f2 7f 8a bc 60 06 00)";
constexpr const char* kAllMessages[] = {kConnReqExample, kConnAckExample, kConnReq, kConnAck, kImmediateGet, kPutReq,
                                        kPutAck,         kPutDone,        kGetReq,  kGetDone, kPutNak,       kNoop};

const Nid kNode1 = Nid::v4(Net::of(NetType::kO2ib, 0), 0x0A0A0001),
          kNode2 = Nid::v4(Net::of(NetType::kO2ib, 0), 0x0A0A0002);

/// Decodes `bytes`, which must outlive the result, and expects that they encode to themselves.
Message decoded(const Bytes& bytes) {
  Message message;
  EXPECT_EQ(message_decode(bytes, message), MessageFault::kNone);
  EXPECT_FALSE(message.flip);
  EXPECT_EQ(hex_text(o2iblnd_encode(message)), hex_text(bytes));
  return message;
}

template <class T>
void put_at(Bytes& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

TEST(O2iblndGolden, connreq) {
  const Bytes bytes = hex(kConnReq);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kConnReq);
  EXPECT_EQ(message.ends, (Ends{kNode1, kNode2, 0x000660BC86E300A2, 0}));
  EXPECT_EQ(message.params, (ConnParams{8, 257, 4096}));
  EXPECT_EQ(message.credits, 0);
  const Bytes example = hex(kConnReqExample);
  EXPECT_EQ(decoded(example).ends, (Ends{nid("10.0.0.5@o2ib"), nid("10.0.0.6@o2ib"), 0x0005F00DCAFE0001, 0}));
}

TEST(O2iblndGolden, connack) {
  const Bytes bytes = hex(kConnAck);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kConnAck);
  EXPECT_EQ(message.ends, (Ends{kNode2, kNode1, 0x000660BC87119BDB, 0x000660BC86E300A2}));
  EXPECT_EQ(message.params, (ConnParams{8, 257, 4096}));
  const Bytes example = hex(kConnAckExample);
  EXPECT_EQ(decoded(example).ends.src_stamp, 0x0005F00DBEEF0002u);
}

TEST(O2iblndGolden, immediate) {
  Bytes bytes = hex(kImmediateGet);
  const Message get = decoded(bytes);
  EXPECT_EQ(get.type, MessageType::kImmediate);
  EXPECT_EQ(get.header.type, wire::MsgType::kGet);
  EXPECT_EQ(get.header.src_nid, kNode1);
  EXPECT_EQ(get.header.get().sink_length, 3960u);
  EXPECT_TRUE(get.payload.empty());
  // With a payload: a PUT of three bytes. Bytes behind the payload are ignored.
  bytes.insert(bytes.end(), {std::byte{7}, std::byte{8}, std::byte{9}});
  put_at(bytes, 8, uint32_t{123});
  put_at(bytes, 72, uint32_t{1});
  put_at(bytes, 76, uint32_t{3});
  EXPECT_EQ(hex_text(decoded(bytes).payload), hex_text(hex("07 08 09")));
  put_at(bytes, 76, uint32_t{2});
  Message message;
  EXPECT_EQ(message_decode(bytes, message), MessageFault::kNone);
  EXPECT_EQ(hex_text(message.payload), hex_text(hex("07 08")));
}

TEST(O2iblndGolden, immediate_of_the_largest_payload) {
  Bytes bytes = hex(kImmediateGet);
  bytes.resize(kMessageMax, std::byte{0x5A});
  put_at(bytes, 8, uint32_t{4096});
  put_at(bytes, 76, uint32_t{3976});
  EXPECT_EQ(decoded(bytes).payload.size(), kImmediateMax);
}

TEST(O2iblndGolden, put_req) {
  const Bytes bytes = hex(kPutReq);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kPutReq);
  EXPECT_EQ(message.credits, 1);
  EXPECT_EQ(message.ends, (Ends{kNode2, kNode1, 0x000660BC8A7FF2FB, 0x000660BC8A56B2E6}));
  EXPECT_EQ(message.header.type, wire::MsgType::kPut);
  EXPECT_EQ(message.header.payload_length, 4096u);
  EXPECT_EQ(message.header.put().portal, 52u);
  EXPECT_EQ(message.cookie, 5u);
}

TEST(O2iblndGolden, put_ack) {
  const Bytes bytes = hex(kPutAck);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kPutAck);
  EXPECT_EQ(message.cookie, 5u);
  EXPECT_EQ(message.sink_cookie, 0x12u);
  EXPECT_EQ(message.sink.key(), 0x0006132Eu);
  EXPECT_EQ(fragments_of(message.sink), (std::vector<Fragment>{{0xFF14EA739815B000, 4096}}));
  EXPECT_EQ(message.sink.bytes(), 4096u);
}

TEST(O2iblndGolden, put_done) {
  const Bytes bytes = hex(kPutDone);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kPutDone);
  EXPECT_EQ(message.cookie, 0x12u);
  EXPECT_EQ(message.status, 4096);
}

TEST(O2iblndGolden, put_nak) {
  const Bytes bytes = hex(kPutNak);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kPutNak);
  EXPECT_EQ(message.cookie, 5u);
  EXPECT_EQ(message.status, -2);
}

TEST(O2iblndGolden, get_req) {
  const Bytes bytes = hex(kGetReq);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kGetReq);
  EXPECT_EQ(message.header.get().sink_length, 4096u);
  EXPECT_EQ(message.cookie, 5u);
  EXPECT_EQ(message.sink.key(), 0x000409B4u);
  EXPECT_EQ(fragments_of(message.sink), (std::vector<Fragment>{{0xFF315F3BDBF0A000, 4096}}));
}

TEST(O2iblndGolden, get_done) {
  const Bytes bytes = hex(kGetDone);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kGetDone);
  EXPECT_EQ(message.cookie, 5u);
  EXPECT_EQ(message.status, 4096);
}

TEST(O2iblndGolden, noop) {
  const Bytes bytes = hex(kNoop);
  const Message message = decoded(bytes);
  EXPECT_EQ(message.type, MessageType::kNoop);
  EXPECT_EQ(message.credits, 4);
}

// Goal: up to 257 fragments, and an address at any alignment.
TEST(O2iblndGolden, many_fragments) {
  for (const auto& [golden, sink_at] : {std::pair(kPutAck, size_t{64}), std::pair(kGetReq, size_t{128})}) {
    Bytes bytes = hex(golden);
    bytes.resize(sink_at + 8);
    std::vector<Fragment> expected;
    for (uint32_t i = 0; i < 257; ++i) {
      bytes.resize(bytes.size() + 12);
      put_at(bytes, bytes.size() - 12, 1000 + i);
      put_at(bytes, bytes.size() - 8, 0x1122334455667700u + i);
      expected.push_back({0x1122334455667700u + i, 1000 + i});
    }
    put_at(bytes, 8, uint32_t(bytes.size()));
    put_at(bytes, sink_at + 4, uint32_t{257});
    const Message message = decoded(bytes);
    EXPECT_EQ(message.sink.count(), kFragmentsMax);
    EXPECT_EQ(fragments_of(message.sink), expected);
    EXPECT_EQ(message.sink.bytes(), 257u * 1000 + 257 * 256 / 2);
  }
}

/// Integers of a message beside the header's, as offset and bytes: by hand from §2 and §3.
using Fields = std::vector<std::pair<size_t, size_t>>;
Fields integers_of(uint8_t type) {
  Fields fields{{0, 4}, {4, 2}, {8, 4}, {12, 4}, {16, 8}, {24, 8}, {32, 8}, {40, 8}};
  const auto add = [&](const Fields& more) { fields.insert(fields.end(), more.begin(), more.end()); };
  if (type == 0xC0 || type == 0xC1) add({{48, 2}, {50, 2}, {52, 4}});
  if (type == 0xD3 || type == 0xD5 || type == 0xD7) add({{56, 4}});
  if (type == 0xD4) add({{64, 4}, {68, 4}, {72, 4}, {76, 8}});
  if (type == 0xD6) add({{128, 4}, {132, 4}, {136, 4}, {140, 8}});
  return fields;
}
/// The message as a node of the other byte order sends it. Requires one fragment at most.
Bytes flipped(Bytes bytes) {
  for (const auto& [at, size] : integers_of(uint8_t(bytes[6])))
    std::reverse(bytes.begin() + std::ptrdiff_t(at), bytes.begin() + std::ptrdiff_t(at + size));
  return bytes;
}

// Goal: a message of the other byte order gives the same values. Cookies and LNet headers are not swapped.
TEST(O2iblndGolden, other_byte_order) {
  Bytes asymmetric = hex(kConnReq);
  put_at(asymmetric, 50, uint16_t{256});  // 257 reads the same in both byte orders
  Message request;
  ASSERT_EQ(message_decode(flipped(asymmetric), request), MessageFault::kNone);
  EXPECT_EQ(request.params, (ConnParams{8, 256, 4096}));
  for (const char* golden : kAllMessages) {
    const Bytes own = hex(golden), other = flipped(own);
    EXPECT_EQ(other[0], std::byte{0x0B});
    Message message;
    ASSERT_EQ(message_decode(other, message), MessageFault::kNone) << golden;
    EXPECT_TRUE(message.flip);
    EXPECT_EQ(hex_text(o2iblnd_encode(message)), hex_text(own));
  }
}

// Goal: a message is read at any address, and bytes behind its length are ignored.
TEST(O2iblndGolden, any_alignment) {
  for (const char* golden : kAllMessages)
    for (size_t shift = 0; shift < 8; ++shift) {
      Bytes padded(shift);
      const Bytes own = hex(golden);
      padded.insert(padded.end(), own.begin(), own.end());
      padded.resize(padded.size() + 100, std::byte{0xEE});
      Message message;
      ASSERT_EQ(message_decode(std::span(padded).subspan(shift), message), MessageFault::kNone);
      EXPECT_EQ(hex_text(o2iblnd_encode(message)), hex_text(own));
    }
}

// Goal: each type ends exactly where §3 says, so a byte less is a fault.
TEST(O2iblndFaults, each_type_has_its_least_size) {
  for (const char* golden : kAllMessages) {
    const Bytes whole = hex(golden);
    for (size_t length = 0; length < whole.size(); ++length) {
      Message message;
      Bytes cut(whole.begin(), whole.begin() + std::ptrdiff_t(length));
      EXPECT_EQ(message_decode(cut, message), length < 48 ? MessageFault::kShort : MessageFault::kTruncated);
      if (length < 48) continue;
      put_at(cut, 8, uint32_t(length));
      const bool has_sink = whole[6] == std::byte{0xD4} || whole[6] == std::byte{0xD6};
      const bool in_sink = has_sink && whole.size() - length <= 12;
      EXPECT_EQ(message_decode(cut, message), in_sink ? MessageFault::kSinkCut : MessageFault::kTooSmall) << length;
    }
  }
}

// Goal: each wrong field has its own fault.
TEST(O2iblndFaults, each_wrong_field) {
  std::set<MessageFault> seen;
  const auto fault = [&](const char* golden, size_t at, auto value) {
    Bytes bytes = hex(golden);
    put_at(bytes, at, value);
    Message message;
    const MessageFault found = message_decode(bytes, message);
    seen.insert(found);
    return found;
  };
  EXPECT_EQ(fault(kNoop, 0, uint32_t{0x45726963}), MessageFault::kBadMagic);
  EXPECT_EQ(fault(kNoop, 4, uint16_t{0x11}), MessageFault::kBadVersion);
  EXPECT_EQ(fault(kNoop, 4, uint16_t{0x13}), MessageFault::kBadVersion);
  EXPECT_EQ(fault(kNoop, 8, uint32_t{47}), MessageFault::kLength);
  EXPECT_EQ(fault(kNoop, 8, uint32_t{49}), MessageFault::kTruncated);
  EXPECT_EQ(fault(kNoop, 8, ~uint32_t{0}), MessageFault::kTruncated);
  EXPECT_EQ(fault(kNoop, 12, uint32_t{1}), MessageFault::kChecksum);
  for (const int type : {0x00, 0xBF, 0xC2, 0xCF, 0xD8, 0xFF})
    EXPECT_EQ(fault(kNoop, 6, uint8_t(type)), MessageFault::kType);
  EXPECT_EQ(fault(kNoop, 6, uint8_t{0xD5}), MessageFault::kTooSmall);
  for (const char* golden : {kImmediateGet, kPutReq, kGetReq})
    EXPECT_EQ(fault(golden, 72, uint32_t{5}), MessageFault::kLnetHeader);
  EXPECT_EQ(fault(kImmediateGet, 76, uint32_t{1}), MessageFault::kPayload);
  EXPECT_EQ(fault(kImmediateGet, 76, ~uint32_t{0}), MessageFault::kPayload);
  EXPECT_EQ(fault(kPutReq, 76, ~uint32_t{0}), MessageFault::kNone);  // its payload comes by RDMA
  for (const auto& [golden, count_at] : {std::pair(kPutAck, size_t{68}), std::pair(kGetReq, size_t{132})}) {
    EXPECT_EQ(fault(golden, count_at, uint32_t{0}), MessageFault::kNoFragment);
    EXPECT_EQ(fault(golden, count_at, uint32_t{2}), MessageFault::kSinkCut);
    EXPECT_EQ(fault(golden, count_at, uint32_t{257}), MessageFault::kSinkCut);
    EXPECT_EQ(fault(golden, count_at, uint32_t{258}), MessageFault::kFragments);
    EXPECT_EQ(fault(golden, count_at, ~uint32_t{0}), MessageFault::kFragments);
  }
  Message message;
  seen.insert(message_decode({}, message));
  seen.insert({MessageFault::kNids, MessageFault::kStamps});  // the next test
  EXPECT_EQ(seen.size(), kMessageFaults);
  std::set<std::string> texts;
  for (unsigned i = 0; i < kMessageFaults; ++i) texts.insert(message_fault_text(MessageFault(i)));
  EXPECT_EQ(texts.size(), kMessageFaults);
}

TEST(O2iblndFaults, foreign_ends) {
  const Ends own{kNode1, kNode2, 11, 22}, right{kNode2, kNode1, 22, 11};
  EXPECT_EQ(check_ends(right, own), MessageFault::kNone);
  EXPECT_EQ(check_ends({kNode1, kNode1, 22, 11}, own), MessageFault::kNids);
  EXPECT_EQ(check_ends({kNode2, kNode2, 22, 11}, own), MessageFault::kNids);
  EXPECT_EQ(check_ends({kNode2, kNode1, 21, 11}, own), MessageFault::kStamps);
  EXPECT_EQ(check_ends({kNode2, kNode1, 22, 0}, own), MessageFault::kStamps);
}

// Goal: the vectors of §8. A receiver takes either form, in either byte order; the sum covers the message alone.
TEST(O2iblndGolden, checksum) {
  const Bytes bytes = hex(kConnReqExample);
  EXPECT_EQ(message_checksum(bytes, ChecksumBytes::kUnsigned), 0x84E607CBu);
  EXPECT_EQ(message_checksum(bytes, ChecksumBytes::kSigned), 0xE3660796u);
  for (const auto form : {ChecksumBytes::kUnsigned, ChecksumBytes::kSigned})
    for (const bool other_order : {false, true}) {
      Bytes summed = other_order ? flipped(bytes) : bytes;
      wire::store(&summed[12], message_checksum(summed, form), other_order);
      summed.resize(80, std::byte{0xFF});
      Message message;
      EXPECT_EQ(message_decode(summed, message), MessageFault::kNone);
      summed[48] ^= std::byte{1};
      EXPECT_EQ(message_decode(summed, message), MessageFault::kChecksum);
    }
  EXPECT_EQ(message_checksum(Bytes(20), ChecksumBytes::kUnsigned), 1u);
}

TEST(O2iblndGolden, version_of_any_bytes) {
  EXPECT_EQ(message_version(hex("91 1b e9 0b 12 00")), 0x12);
  EXPECT_EQ(message_version(hex("91 1b e9 0b 11 00 00")), kVersion1);
  EXPECT_EQ(message_version(hex("0b e9 1b 91 00 12")), 0x12);
  EXPECT_EQ(message_version(hex("91 1b e9 0b 12")), 0);
  EXPECT_EQ(message_version(hex("63 69 72 45 12 00")), 0);
}

TEST(O2iblndGolden, type_names) {
  std::set<std::string> names;
  for (unsigned type = 0; type < 256; ++type) names.insert(message_type_text(MessageType(type)));
  EXPECT_EQ(names, (std::set<std::string>{"?", "CONNREQ", "CONNACK", "NOOP", "IMMEDIATE", "PUT_REQ", "PUT_NAK",
                                          "PUT_ACK", "PUT_DONE", "GET_REQ", "GET_DONE"}));
}

// ---- reject blocks ------------------------------------------------------------------------------------------------

/// Both ways, padded as the CM does, and in the other byte order.
void expect_reject(const char* golden, const Reject& expected) {
  std::array<std::byte, kRejectBytes> out;
  reject_encode(expected, out);
  EXPECT_EQ(hex_text(out), hex_text(hex(golden)));
  Bytes padded = hex(golden);
  padded.resize(148);
  Reject reject;
  ASSERT_TRUE(reject_decode(padded, reject));
  EXPECT_EQ(reject, expected);
  for (const auto& [at, size] : Fields{{0, 4}, {4, 2}, {8, 8}, {16, 2}, {18, 2}, {20, 4}})
    std::reverse(padded.begin() + std::ptrdiff_t(at), padded.begin() + std::ptrdiff_t(at + size));
  ASSERT_TRUE(reject_decode(padded, reject));
  EXPECT_EQ(reject, expected);
}

// From e8.
TEST(O2iblndGolden, reject_conn_race) {
  expect_reject("91 1b e9 0b 12 00 01 00 57 68 66 a3 bc 60 06 00 08 00 01 01 00 10 00 00",
                {RejectReason::kConnRace, 0x12, 0x000660BCA3666857, {8, 257, 4096}});
}
// From g10: the NI was not found.
TEST(O2iblndGolden, reject_fatal) {
  expect_reject("91 1b e9 0b 12 00 03 00 00*8 00 00 00 00 00 10 00 00", {.reason = RejectReason::kFatal});
}
// From g7: 32 was offered.
TEST(O2iblndGolden, reject_msg_queue_size) {
  expect_reject("91 1b e9 0b 12 00 07 00 d7 01 d7 de bc 60 06 00 08 00 01 01 00 10 00 00",
                {RejectReason::kMsgQueueSize, 0x12, 0x000660BCDED701D7, {8, 257, 4096}});
}

// No capture has this one. 257 reads the same in both byte orders, 258 does not.
TEST(O2iblndGolden, reject_rdma_frags) {
  expect_reject("91 1b e9 0b 12 00 06 00 d7 01 d7 de bc 60 06 00 08 00 02 01 00 10 00 00",
                {RejectReason::kRdmaFrags, 0x12, 0x000660BCDED701D7, {8, 258, 4096}});
}

// Goal: the version decides how much of a block there is.
TEST(O2iblndGolden, reject_blocks_of_other_versions_and_lengths) {
  Reject reject;
  const Bytes whole = hex("91 1b e9 0b 12 00 05 00 d7 01 d7 de bc 60 06 00 08 00 01 01 00 10 00 00");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(reject_decode(std::span(whole).first(length), reject)) << length;
  Bytes old = whole;
  put_at(old, 4, uint16_t{0x11});
  for (const size_t length : {size_t{8}, size_t{24}}) {
    ASSERT_TRUE(reject_decode(std::span(old).first(length), reject));
    EXPECT_EQ(reject, (Reject{.reason = RejectReason::kConnStale, .version = kVersion1}));
  }
  EXPECT_FALSE(reject_decode(std::span(old).first(7), reject));
  Bytes newer = whole;
  put_at(newer, 4, uint16_t{0x13});
  ASSERT_TRUE(reject_decode(newer, reject));
  EXPECT_EQ(reject.version, 0x13);
  EXPECT_EQ(reject.params.queue_depth, 8);
  Bytes foreign = whole;
  put_at(foreign, 0, uint32_t{0x45726963});
  EXPECT_FALSE(reject_decode(foreign, reject));
}

}  // namespace
}  // namespace ulnet::o2iblnd
