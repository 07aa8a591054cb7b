// Messages of the CM over RoCEv2. Each message of the captures is decoded and encoded again. The request of
// docs/wire/roce.md §8, and the header of rdma_cm.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "lnd/rc/roce/proto/cm_message.h"
#include "lnd/rc/roce/proto/cma_header.h"
#include "lnd/rc/roce/proto/path.h"
#include "tests/wire/hex.h"
#include "tests/wire/roce.h"

namespace ulnet::rc::roce {
namespace {

using test::hex;
using test::hex_text;

std::span<const std::byte, kMadBytes> mad_of(const std::vector<std::byte>& bytes) {
  EXPECT_EQ(bytes.size(), kMadBytes);
  return std::span<const std::byte, kMadBytes>(bytes.data(), kMadBytes);
}
std::vector<std::byte> encode(const CmMessage& message) {
  std::vector<std::byte> out(kMadBytes, std::byte{0xEE});
  cm_encode(message, std::span<std::byte, kMadBytes>(out.data(), kMadBytes));
  return out;
}

// Goal: a MAD of real nodes survives decoding and encoding, so no field of it is lost.
TEST(RoceCm, each_message_of_the_captures_is_decoded_and_encoded_again) {
  std::map<size_t, unsigned> kinds;
  std::map<unsigned, unsigned> reasons;
  for (const std::string& name : test::o2ib_capture_names()) {
    SCOPED_TRACE(name);
    const auto error = test::roce_frames(test::capture_path(name), [&](const test::RoceFrame& frame) {
      if (frame.opcode != uint8_t(Opcode::kUdSendOnly)) return;
      const std::vector<std::byte> mad(frame.payload.begin() + kDethBytes, frame.payload.end());
      const auto message = cm_decode(mad_of(mad));
      ASSERT_TRUE(message);
      ++kinds[message->body.index()];
      if (const auto* rej = std::get_if<CmRej>(&message->body)) ++reasons[rej->reason];
      EXPECT_EQ(hex_text(encode(*message)), hex_text(mad));
    });
    EXPECT_EQ(error, "");
  }
  for (const size_t kind : {0, 2, 3, 4, 5, 6}) EXPECT_GT(kinds[kind], 0u) << "no MRA, and each other kind: " << kind;
  EXPECT_GT(reasons[unsigned(RejReason::kConsumer)], 0u);
  EXPECT_GT(reasons[unsigned(RejReason::kInvalidServiceId)], 0u);
  EXPECT_GT(reasons[unsigned(RejReason::kTimeout)], 0u);
}

// The REQ of §8, whose private data is the header of rdma_cm and an LNet CONNREQ.
constexpr const char* kReq = R"(01 07 02 03 00 00 00 00 00 00 00 01 11 22 33 44
                                00 10 00 00 00 00 00 00 11 22 33 44 00 00 00 00
                                00 00 00 00 01 06 03 db 00 02 c9 03 00 ab cd ef
                                00 00 00 00 00 00 00 00 00 00 11 00 00 00 00 00
                                00 00 00 a1 00 01 00 a5 ff ff 36 f0 ff ff ff ff
                                00 00 00 00 00 00 00 00 00 00 ff ff 0a 00 00 05
                                00 00 00 00 00 00 00 00 00 00 ff ff 0a 00 00 06
                                07 fb c0 00 00 40 00 88 00*40
                                00 00 00 00 00 40 03 ff 00 00 00 00 00 00 00 00
                                00 00 00 00 0a 00 00 05 00 00 00 00 00 00 00 00
                                00 00 00 00 0a 00 00 06 91 1b e9 0b 12 00 c0 00
                                38 00 00 00 00 00 00 00 05 00 00 0a 00 00 05 00
                                01 00 fe ca 0d f0 05 00 06 00 00 0a 00 00 05 00
                                00 00 00 00 00 00 00 00 08 00 01 01 00 10 00 00)";

TEST(RoceCm, fields_of_the_worked_request) {
  const std::vector<std::byte> mad = hex(kReq);
  const auto message = cm_decode(mad_of(mad));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->transaction, 0x1'1122'3344u);
  const auto& req = std::get<CmReq>(message->body);
  EXPECT_EQ(req.local_id, 0x1122'3344u);
  EXPECT_EQ(req.service_id, service_id_of(987));
  EXPECT_EQ(req.ca_guid, 0x0002'C903'00AB'CDEFu);
  EXPECT_EQ(req.qpn, 0x11u);
  EXPECT_EQ(req.starting_psn, Psn(0x100));
  EXPECT_EQ(req.remote_timeout, 20);
  EXPECT_EQ(req.local_timeout, 20);
  EXPECT_EQ(req.transport, 0);
  EXPECT_TRUE(req.flow_control);
  EXPECT_EQ(req.retry_count, 5);
  EXPECT_EQ(req.rnr_retry_count, 6);
  EXPECT_EQ(mtu_bytes(req.mtu), 1024u);
  EXPECT_EQ(req.cm_retries, 15);
  EXPECT_EQ(req.local_gid, IpAddress::of_v4(0x0A000005));
  EXPECT_EQ(req.remote_gid, IpAddress::of_v4(0x0A000006));
  EXPECT_EQ(req.flow_label, flow_label(1023, 987));
  EXPECT_EQ(req.hop_limit, 64);
  EXPECT_EQ(req.ack_timeout, 17);
  EXPECT_FALSE(req.has_alternate);
  const auto cma = cma_decode(req.private_data.first<kCmaHeaderBytes>());
  ASSERT_TRUE(cma);
  EXPECT_EQ(cma->source, req.local_gid);
  EXPECT_EQ(cma->destination, req.remote_gid);
  EXPECT_EQ(cma->source_port, 1023);
  std::array<std::byte, kCmaHeaderBytes> again;
  cma_encode(*cma, again);
  EXPECT_EQ(hex_text(again), hex_text(req.private_data.first(kCmaHeaderBytes)));
  EXPECT_EQ(hex_text(encode(*message)), hex_text(mad));
}

// Goal: fields that LNet leaves zero are at their places, too.
TEST(RoceCm, fields_that_are_zero_in_the_captures) {
  const std::array data{std::byte{7}};
  const CmReq req{.local_id = 1,
                  .responder_resources = 2,
                  .initiator_depth = 3,
                  .transport = 1,
                  .flow_control = false,
                  .traffic_class = 0x68,
                  .service_level = 5,
                  .subnet_local = true,
                  .private_data = data};
  const auto mad = encode({.transaction = 9, .body = req});
  const auto message = cm_decode(mad_of(mad));
  ASSERT_TRUE(message);
  const auto& got = std::get<CmReq>(message->body);
  EXPECT_EQ(got.responder_resources, 2);
  EXPECT_EQ(got.initiator_depth, 3);
  EXPECT_EQ(got.transport, 1);
  EXPECT_FALSE(got.flow_control);
  EXPECT_EQ(got.traffic_class, 0x68);
  EXPECT_EQ(got.service_level, 5);
  EXPECT_TRUE(got.subnet_local);
  EXPECT_EQ(got.private_data.size(), kReqDataMax);
  EXPECT_EQ(got.private_data[0], std::byte{7});
  EXPECT_EQ(got.private_data[1], std::byte{0});
}

TEST(RoceCm, a_message_that_extends_the_wait) {
  const auto mad = encode({.transaction = 9, .body = CmMra{1, 2, CmAbout::kRep, 24}});
  EXPECT_EQ(hex_text(Bytes(mad).subspan(24, 12)), hex_text(hex("00 00 00 01 00 00 00 02 40 c0 00 00")));
  const auto message = cm_decode(mad_of(mad));
  ASSERT_TRUE(message);
  const auto& mra = std::get<CmMra>(message->body);
  EXPECT_EQ(mra.local_id, 1u);
  EXPECT_EQ(mra.remote_id, 2u);
  EXPECT_EQ(mra.about, CmAbout::kRep);
  EXPECT_EQ(mra.service_timeout, 24);
}

// Goal: an active side that gives up names itself by its GUID in the additional information (§7.3).
TEST(RoceCm, additional_information_of_a_reject) {
  const std::vector<std::byte> guid = hex("00 02 c9 03 00 ab cd ef");
  const auto mad = encode(
      {.transaction = 9,
       .body = CmRej{.local_id = 1, .about = CmAbout::kOther, .reason = uint16_t(RejReason::kTimeout), .info = guid}});
  EXPECT_EQ(hex_text(Bytes(mad).subspan(24, 20)),
            hex_text(hex("00 00 00 01 00 00 00 00 80 10 00 04 00 02 c9 03 00 ab cd ef")));
  std::vector<std::byte> wild = mad;
  wild[24 + 9] = std::byte{0xFF};
  wild[24 + 8] = std::byte{0xFF};
  const auto message = cm_decode(mad_of(wild));
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<CmRej>(message->body).info.size(), 72u) << "no more than there is";
  EXPECT_EQ(std::get<CmRej>(message->body).about, CmAbout::kOther);
}

TEST(RoceCm, other_mads_are_refused) {
  const std::vector<std::byte> right = hex(kReq);
  for (const size_t at : {0, 1, 2, 3, 16, 17}) {
    std::vector<std::byte> wrong = right;
    wrong[at] ^= std::byte{0x80};
    const auto message = cm_decode(mad_of(wrong));
    ASSERT_FALSE(message) << at;
    EXPECT_EQ(message.error(), FrameDrop::kRoceMad);
  }
  for (unsigned attribute = 0; attribute < 0x40; ++attribute) {
    std::vector<std::byte> other = right;
    other[17] = std::byte(uint8_t(attribute));
    EXPECT_EQ(cm_decode(mad_of(other)).has_value(), attribute >= 0x10 && attribute <= 0x16) << attribute;
  }
}

TEST(RoceCma, both_families_and_faults) {
  const IpAddress one{{0xFD, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const IpAddress two{{0xFD, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  std::array<std::byte, kCmaHeaderBytes> bytes;
  cma_encode({one, two, 1021}, bytes);
  EXPECT_EQ(hex_text(bytes), hex_text(hex("00 60 03 fd fd 00 00 01 00*11 01 fd 00 00 01 00*11 02")));
  const auto header = cma_decode(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, one);
  EXPECT_EQ(header->destination, two);
  EXPECT_EQ(header->source_port, 1021);
  for (const uint8_t family : {0x00, 0x50, 0x70}) {
    bytes[1] = std::byte(family);
    EXPECT_FALSE(cma_decode(bytes)) << unsigned(family);
  }
  bytes[1] = std::byte{0x4F};
  EXPECT_TRUE(cma_decode(bytes)) << "the low bits have no meaning";
  bytes[0] = std::byte{1};
  EXPECT_FALSE(cma_decode(bytes)) << "version";
}

}  // namespace
}  // namespace ulnet::rc::roce
