// Golden bytes of docs/wire/lnet.md §1 to §4: every worked example there, both ways.
#include <gtest/gtest.h>

#include "dataplane/wire/bytes.h"
#include "dataplane/wire/header.h"
#include "dataplane/wire/ping_info.h"
#include "tests/nid_of.h"
#include "tests/wire/hex.h"

namespace ulnet {
namespace {

using namespace wire;
using test::hex;
using test::hex_text;
using test::nid;

const WireHandle kHandle{0x17F1A2B3C4D5E6F7, 0x105};

Header ping_header(MsgType type, const char* dest, const char* src, uint32_t payload_length) {
  Header header;
  header.dest_nid = nid(dest);
  header.src_nid = nid(src);
  header.type = type;
  header.payload_length = payload_length;
  return header;
}

/// Both directions of the 72-byte form.
void expect_nid4(const Header& header, std::string_view golden) {
  std::array<std::byte, kHeaderNid4Bytes> out;
  out.fill(std::byte{0xEE});
  header_encode_nid4(header, out);
  EXPECT_EQ(hex_text(out), hex_text(hex(golden)));
  Header decoded;
  ASSERT_TRUE(header_decode_nid4(out, decoded));
  EXPECT_EQ(decoded.dest_nid, header.dest_nid);
  EXPECT_EQ(decoded.src_nid, header.src_nid);
  EXPECT_EQ(decoded.dest_pid, header.dest_pid);
  EXPECT_EQ(decoded.src_pid, header.src_pid);
  EXPECT_EQ(decoded.type, header.type);
  EXPECT_EQ(decoded.payload_length, header.payload_length);
  EXPECT_EQ(decoded.body, header.body);
}

std::string wire_u64(const Nid& n) {
  std::byte out[8];
  store(out, n.to_u64());
  return hex_text(out);
}

std::string wire_large(const Nid& n) {
  std::byte out[20];
  nid_store16(out, n);
  return hex_text(out);
}

// Goal: NIDs of §1.1 and §1.2 have the documented integers and bytes.
TEST(WireGolden, nids) {
  EXPECT_EQ(nid("192.168.122.10@tcp").to_u64(), 0x00020000C0A87A0Au);
  EXPECT_EQ(nid("10.0.0.5@o2ib1").to_u64(), 0x000500010A000005u);
  EXPECT_EQ(kLoNid.to_u64(), 0x0009000000000000u);
  EXPECT_EQ(kAnyNid.to_u64(), ~uint64_t{0});
  EXPECT_EQ(wire_u64(nid("192.168.122.10@tcp")), "0a 7a a8 c0 00 00 02 00 ");
  EXPECT_EQ(wire_u64(nid("10.0.0.5@o2ib1")), "05 00 00 0a 01 00 05 00 ");
  EXPECT_EQ(wire_large(nid("192.168.122.10@tcp")), hex_text(hex("00 02 00 00 c0 a8 7a 0a 00*12")));
  EXPECT_EQ(wire_large(nid("fd00::1@tcp")), hex_text(hex("0c 02 00 00 fd 00*14 01")));
  EXPECT_EQ(wire_large(kAnyNid), hex_text(hex("ff*20")));
  for (const char* text : {"192.168.122.10@tcp", "10.0.0.5@o2ib1", "0@lo", "fd00::1@tcp", "7@gni3"}) {
    std::byte out[20];
    nid_store16(out, nid(text));
    EXPECT_EQ(nid_load16(out), nid(text));
    if (nid(text).fits_u64()) {
      EXPECT_EQ(nid_from_wire(nid(text).to_u64()), nid(text));
    }
  }
}

// Goal: whatever stands behind type 0xFF, the NID is ANY and equal to it (§1.2), in both forms.
TEST(WireGolden, every_spelling_of_any_is_any) {
  EXPECT_EQ(nid_load16(hex("0c ff 00 01 fd 00*14 01").data()), kAnyNid);
  EXPECT_EQ(nid_from_wire(0x00FF000012345678), kAnyNid);
  EXPECT_EQ(nid_from_wire(~uint64_t{0}), kAnyNid);
}

// Goal: a 4-byte NID with rubbish in its unused bytes is the NID that it shows (fuzzing found it).
TEST(WireGolden, unused_address_bytes_are_cleared) {
  EXPECT_EQ(nid_load16(hex("00 02 00 00 c0 a8 7a 0a ff*12").data()), nid("192.168.122.10@tcp"));
}

// Goal: the ping of §2.4, GET and REPLY.
TEST(WireGolden, ping_get_and_reply) {
  Header get = ping_header(MsgType::kGet, "192.168.122.20@tcp", "192.168.122.10@tcp", 0);
  get.set(GetBody{.return_wmd = kHandle, .match_bits = kPingMatchBits, .sink_length = 272});
  expect_nid4(get, R"(14 7a a8 c0 00 00 02 00 0a 7a a8 c0 00 00 02 00
                      39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
                      f7 e6 d5 c4 b3 a2 f1 17 05 01 00 00 00 00 00 00
                      00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00
                      10 01 00 00 00 00 00 00)");
  EXPECT_EQ(get.get().return_wmd, kHandle);
  EXPECT_EQ(get.get().match_bits, kPingMatchBits);
  EXPECT_EQ(get.get().sink_length, 272u);

  Header reply = ping_header(MsgType::kReply, "192.168.122.10@tcp", "192.168.122.20@tcp", 64);
  reply.set(ReplyBody{kHandle});
  expect_nid4(reply, R"(0a 7a a8 c0 00 00 02 00 14 7a a8 c0 00 00 02 00
                        39 30 00 00 39 30 00 00 03 00 00 00 40 00 00 00
                        f7 e6 d5 c4 b3 a2 f1 17 05 01 00 00 00 00 00 00 00*24)");
  EXPECT_EQ(reply.reply().dst_wmd, kHandle);
}

// Goal: the push of §2.4, PUT and ACK.
TEST(WireGolden, push_put_and_ack) {
  const WireHandle handle{kHandle.interface_cookie, 0x109};
  Header put = ping_header(MsgType::kPut, "192.168.122.20@tcp", "192.168.122.10@tcp", 64);
  put.set(PutBody{.ack_wmd = handle, .match_bits = kPingMatchBits});
  expect_nid4(put, R"(14 7a a8 c0 00 00 02 00 0a 7a a8 c0 00 00 02 00
                      39 30 00 00 39 30 00 00 01 00 00 00 40 00 00 00
                      f7 e6 d5 c4 b3 a2 f1 17 09 01 00 00 00 00 00 00
                      00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00
                      00 00 00 00 00 00 00 00)");
  Header ack = ping_header(MsgType::kAck, "192.168.122.10@tcp", "192.168.122.20@tcp", 0);
  ack.set(AckBody{handle, kPingMatchBits, 64});
  expect_nid4(ack, R"(0a 7a a8 c0 00 00 02 00 14 7a a8 c0 00 00 02 00
                      39 30 00 00 39 30 00 00 00 00 00 00 00 00 00 00
                      f7 e6 d5 c4 b3 a2 f1 17 09 01 00 00 00 00 00 00
                      00 00 00 00 00 00 00 80 40 00 00 00 00 00 00 00
                      00 00 00 00 00 00 00 00)");
  EXPECT_EQ(ack.ack().mlength, 64u);
  EXPECT_FALSE(put.put().ack_wmd.is_none());
}

TEST(WireGolden, a_response_goes_back_the_way_of_its_request) {
  Header put = ping_header(MsgType::kPut, "192.168.122.20@tcp", "192.168.122.10@tcp", 64);
  put.src_pid = 7;
  put.dest_pid = 9;
  Header ack = put;
  become_response(ack, MsgType::kAck);
  EXPECT_EQ(ack.type, MsgType::kAck);
  EXPECT_EQ(ack.dest_nid, put.src_nid);
  EXPECT_EQ(ack.src_nid, put.dest_nid);
  EXPECT_EQ(ack.dest_pid, 7u);
  EXPECT_EQ(ack.src_pid, 9u);
  EXPECT_EQ(ack.payload_length, 0u);
}

// Goal: each field of each body lies at its offset of §2.1, shown by values that differ in every byte.
TEST(WireGolden, body_fields_lie_where_documented) {
  Header put;
  put.set(PutBody{{1, 2}, 3, 0x1112131415161718, 0x21222324, 0x31323334});
  EXPECT_EQ(hex_text(put.body),
            hex_text(hex("01 00*7 02 00*7 03 00*7 18 17 16 15 14 13 12 11 24 23 22 21 34 33 32 31")));
  EXPECT_EQ(put.put().hdr_data, 0x1112131415161718u);
  EXPECT_EQ(put.put().portal, 0x21222324u);
  EXPECT_EQ(put.put().offset, 0x31323334u);
  Header get;
  get.set(GetBody{{1, 2}, 3, 0x11121314, 0x21222324, 0x31323334});
  EXPECT_EQ(hex_text(get.body), hex_text(hex("01 00*7 02 00*7 03 00*7 14 13 12 11 24 23 22 21 34 33 32 31 00*4")));
  EXPECT_EQ(get.get().portal, 0x11121314u);
  EXPECT_EQ(get.get().src_offset, 0x21222324u);
}

// Goal: setting a body leaves nothing of the one before (unused tails are zero on the wire).
TEST(WireGolden, set_clears_the_unused_tail) {
  for (int i = 0; i < 3; ++i) {
    Header header;
    header.body.fill(std::byte{0xAA});
    if (i == 0) header.set(ReplyBody{{1, 2}});
    if (i == 1) header.set(GetBody{{1, 2}, 0, 0, 0, 0});
    if (i == 2) header.set(AckBody{{1, 2}, 0, 0});
    EXPECT_EQ(hex_text(header.body), hex_text(hex("01 00*7 02 00*7 00*24")));
  }
}

// Goal: the 96-byte form has its fields where §2 says (the same GET between large NIDs).
TEST(WireGolden, large_header) {
  Header get = ping_header(MsgType::kGet, "fd00::2@tcp", "fd00::1@tcp", 0);
  get.set(GetBody{.return_wmd = kHandle, .match_bits = kPingMatchBits, .sink_length = 272});
  std::array<std::byte, kHeaderNid16Bytes> out;
  header_encode_nid16(get, out);
  EXPECT_EQ(hex_text(out), hex_text(hex(R"(0c 02 00 00 fd 00*14 02 0c 02 00 00 fd 00*14 01
      39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
      f7 e6 d5 c4 b3 a2 f1 17 05 01 00*6 00*7 80 00*8 10 01 00*6)")));
  Header decoded;
  ASSERT_TRUE(header_decode_nid16(out, decoded));
  EXPECT_EQ(decoded.dest_nid, get.dest_nid);
  EXPECT_EQ(decoded.body, get.body);
}

// Goal: an unknown message type is a protocol error that names it; all five known ones pass.
TEST(WireGolden, unknown_message_type) {
  std::array<std::byte, kHeaderNid4Bytes> raw{};
  Header header;
  for (uint32_t type = 0; type < kMsgTypes; ++type) {
    raw[24] = std::byte(type);
    EXPECT_TRUE(header_decode_nid4(raw, header)) << type;
  }
  raw[24] = std::byte{5};
  const auto decoded = header_decode_nid4(raw, header);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, -EPROTO);
  EXPECT_EQ(decoded.error().object, 5u);
}

}  // namespace
}  // namespace ulnet
