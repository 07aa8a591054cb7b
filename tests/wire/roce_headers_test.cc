// RoCEv2 packets: each frame of the captures is decoded and encoded again, and its ICRC computed. The published vectors
// of the ICRC, and each fault of a packet.
#include <gtest/gtest.h>
#include <isa-l/crc.h>

#include <map>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "dataplane/base/rng.h"
#include "dataplane/wire/bytes.h"
#include "lnd/net/packet/eth.h"
#include "lnd/net/packet/udp.h"
#include "lnd/rc/roce/proto/frame.h"
#include "lnd/rc/roce/proto/headers.h"
#include "lnd/rc/roce/proto/icrc.h"
#include "lnd/rc/roce/proto/path.h"
#include "tests/wire/hex.h"
#include "tests/wire/pcap.h"

namespace ulnet::rc::roce {
namespace {

using test::hex;
using test::hex_text;

constexpr unsigned kIpBytes = 20;

/// ICRC of an IPv4 packet that ends with one, and that one.
std::pair<uint32_t, uint32_t> icrc_both(Bytes ip) {
  const Bytes behind = ip.subspan(kIcrcHeadV4, ip.size() - kIcrcHeadV4 - kIcrcBytes);
  Icrc icrc(ip.first(kIcrcHeadV4), behind.size());
  icrc.add(behind);
  return {icrc.value(), wire::load<uint32_t>(ip.data() + ip.size() - kIcrcBytes)};
}

/// BTH and extended headers as `packet` says.
std::vector<std::byte> encode(const Packet& packet) {
  std::vector<std::byte> out(kRoceHeadersMax);
  unsigned at = bth_encode(packet.bth, out.data());
  switch (packet.kind) {
    case PacketKind::kRequest:
      EXPECT_EQ(uint8_t(opcode_of(packet.shape)), packet.bth.opcode);
      if (packet.shape.write && packet.shape.first) at += reth_encode(packet.reth, out.data() + at);
      break;
    case PacketKind::kAcknowledge: at += aeth_encode(packet.aeth, out.data() + at); break;
    case PacketKind::kDatagram: at += deth_encode(packet.deth, out.data() + at); break;
    case PacketKind::kRefused:
    case PacketKind::kCnp: break;
  }
  out.resize(at);
  return out;
}

struct Seen {
  std::map<PacketKind, unsigned> kinds;
  std::map<Verdict, unsigned> verdicts;
  unsigned frames = 0;
};

/// One frame of a capture, if it is RoCE.
void check_frame(Bytes frame, Seen& seen) {
  const auto eth = dpdk::eth_decode(frame.first(std::min<size_t>(frame.size(), 22)));
  if (!eth || eth->type != dpdk::kEthIpv4) return;
  const Bytes packet = frame.subspan(eth->bytes());
  const auto ip = dpdk::ipv4_decode(packet, packet.size(), dpdk::ChecksumCheck::kVerify);
  if (!ip || ip->protocol != dpdk::kProtocolUdp) return;
  const auto udp = dpdk::udp_decode(packet.subspan(kIpBytes), ip->payload_bytes);
  if (!udp || udp->destination_port != kUdpPort) return;
  ++seen.frames;
  const Bytes bytes = packet.subspan(kIpBytes + dpdk::kUdpBytes, udp->payload_bytes);
  const auto decoded = packet_decode(bytes.first(std::min<size_t>(bytes.size(), kRoceHeadersMax)), udp->payload_bytes);
  ASSERT_TRUE(decoded) << dpdk::text_of(decoded.error()).name << "\n" << hex_text(bytes);
  ++seen.kinds[decoded->kind];
  if (decoded->kind == PacketKind::kAcknowledge) ++seen.verdicts[decoded->aeth.verdict];
  EXPECT_EQ(hex_text(encode(*decoded)), hex_text(bytes.first(decoded->header_bytes)));
  const auto [ours, theirs] = icrc_both(packet.first(kIpBytes + dpdk::kUdpBytes + udp->payload_bytes));
  EXPECT_EQ(ours, theirs) << hex_text(bytes);
  const FrameHead head({ip->source, ip->destination, udp->source_port, ip->traffic_class});
  std::array<std::byte, kFrameHeadMax> again;
  const uint32_t behind = udp->payload_bytes - kBthBytes - kIcrcBytes;
  const unsigned written = head.write(decoded->bth, behind, again.data(), ip->identification);
  EXPECT_EQ(hex_text(Bytes(again).first(written)), hex_text(packet.first(kIcrcHeadV4)));
  EXPECT_EQ(decoded->bth.pad_bytes, pad_bytes_of(decoded->payload_bytes));
}

TEST(RoceHeaders, each_frame_of_the_captures_is_decoded_and_encoded_again) {
  Seen seen;
  for (const std::string& name : test::capture_names()) {
    SCOPED_TRACE(name);
    const std::string error = test::pcap_frames(test::capture_path(name), [&](Duration, Bytes frame) {
      if (!::testing::Test::HasFailure()) check_frame(frame, seen);
    });
    EXPECT_EQ(error, "");
  }
  EXPECT_GT(seen.frames, 3000u);
  EXPECT_EQ(seen.kinds.size(), 3u) << "requests, acknowledgements and messages of the CM";
  EXPECT_EQ(seen.verdicts.size(), 2u) << "ACK and NAK for the sequence";
}

// The vectors of docs/wire/roce.md §3: a CNP of a ConnectX-4, a SEND of UC, an ACK, a WRITE.
constexpr const char* kVectors[] = {
    R"(45 c2 00 3c 71 8c 40 00 40 11 91 61 0a 00 11 01 0a 00 12 01
       00 00 12 b7 00 28 00 00 81 00 ff ff 40 00 01 18 00 00 00 00 00*16 82 fd 00 2a)",
    R"(45 01 00 40 04 78 40 00 40 11 b4 d5 c0 a8 00 07 c0 a8 00 07 c0 00 12 b7 00 2c ac a2
       24 60 ff ff 00 00 00 d3 00 cf 17 10 46 30 81 8b e2 89 35 d9 0e 9a 95 50 54 01 be 88 5e 50 00 00 78 f3 53 f3)",
    R"(45 00 00 30 00 01 40 00 40 11 26 b2 0a 00 00 06 0a 00 00 05 c0 1b 12 b7 00 1c 00 00
       11 00 ff ff 00 00 00 11 00 00 01 00 1f 00 00 01 d9 dd 93 fe)",
    R"(45 00 00 44 00 02 40 00 40 11 26 9d 0a 00 00 05 0a 00 00 06 c0 1b 12 b7 00 30 00 00
       0a 30 ff ff 00 00 00 12 80 00 01 01 00 00 00 01 23 45 60 00 00 01 23 45 00 00 00 05
       68 65 6c 6c 6f 00 00 00 b2 0e df a9)"};

TEST(RoceIcrc, published_vectors) {
  for (const char* vector : kVectors) {
    const auto [ours, theirs] = icrc_both(hex(vector));
    EXPECT_EQ(ours, theirs) << vector;
  }
}

// Goal: the masked fields do not count, and each other bit does.
TEST(RoceIcrc, masked_fields_do_not_count_and_all_others_do) {
  const std::vector<std::byte> whole = hex(kVectors[3]);
  const uint32_t right = icrc_both(whole).first;
  const std::map<size_t, std::string> masked{{1, "TOS"},           {8, "TTL"},           {10, "IP checksum"},
                                             {11, "IP checksum"},  {26, "UDP checksum"}, {27, "UDP checksum"},
                                             {32, "FECN and BECN"}};
  for (size_t at = 0; at < whole.size() - kIcrcBytes; ++at) {
    std::vector<std::byte> other = whole;
    other[at] ^= std::byte{0x10};
    EXPECT_EQ(icrc_both(other).first == right, masked.contains(at)) << at;
  }
}

TEST(RoceIcrc, masked_fields_of_ipv6) {
  std::vector<std::byte> head(kIcrcHeadV6, std::byte{0x21});
  head[0] = std::byte{0x60};
  const uint32_t right = Icrc(head, 0).value();
  const std::map<size_t, std::string> masked{{1, "class, label"},  {2, "label"},         {3, "label"},
                                             {7, "hop limit"},     {46, "UDP checksum"}, {47, "UDP checksum"},
                                             {52, "FECN and BECN"}};
  for (size_t at = 0; at < head.size(); ++at) {
    std::vector<std::byte> other = head;
    other[at] ^= std::byte{0x10};
    EXPECT_EQ(Icrc(other, 0).value() == right, masked.contains(at)) << at;
  }
  head[0] = std::byte{0x65};
  EXPECT_EQ(Icrc(head, 0).value(), right) << "traffic class";
}

TEST(RoceIcrc, pieces_of_any_length_are_as_the_whole) {
  std::vector<std::byte> data(4096);
  for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(uint8_t(i * 37 + (i >> 8)));
  const std::vector<std::byte> head = hex(kVectors[3]);
  Icrc whole(Bytes(head).first(kIcrcHeadV4), data.size());
  whole.add(data);
  for (size_t piece = 1; piece < data.size(); piece = piece * 3 + 1) {
    Icrc pieces(Bytes(head).first(kIcrcHeadV4), data.size());
    for (size_t at = 0; at < data.size(); at += piece)
      pieces.add(Bytes(data).subspan(at, std::min(piece, data.size() - at)));
    EXPECT_EQ(pieces.value(), whole.value()) << piece;
  }
}

/// Bit by bit, as the standard says.
uint32_t plain_icrc(Bytes head, Bytes behind) {
  std::vector<std::byte> all(8, std::byte{0xFF});
  all.insert(all.end(), head.begin(), head.end());
  all.insert(all.end(), behind.begin(), behind.end());
  const bool v4 = head.size() == kIcrcHeadV4;
  for (const size_t at :
       v4 ? std::vector<size_t>{1, 8, 10, 11, 26, 27, 32} : std::vector<size_t>{1, 2, 3, 7, 46, 47, 52})
    all[8 + at] = std::byte{0xFF};
  if (!v4) all[8] |= std::byte{0x0F};
  uint32_t crc = ~0u;
  for (const std::byte one : all) {
    crc ^= uint32_t(one);
    for (unsigned bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB8'8320 : 0);
  }
  return ~crc;
}

// Goal: packets around the length up to which pieces are gathered, whole and in two pieces.
TEST(RoceIcrc, small_packets_have_a_plain_crc) {
  Rng rng(7);
  for (const unsigned head_bytes : {kIcrcHeadV4, kIcrcHeadV6}) {
    for (size_t bytes = 0; bytes < 300; ++bytes) {
      std::vector<std::byte> head(head_bytes), data(bytes);
      for (std::vector<std::byte>* part : {&head, &data})
        for (std::byte& one : *part) one = std::byte(uint8_t(rng.next()));
      const size_t cut = rng.below(bytes + 1);
      Icrc whole(head, bytes), pieces(head, bytes);
      whole.add(data);
      pieces.add(Bytes(data).first(cut));
      pieces.add(Bytes(data).subspan(cut));
      const uint32_t plain = plain_icrc(head, data);
      ASSERT_EQ(whole.value(), plain) << head_bytes << " " << bytes;
      ASSERT_EQ(pieces.value(), plain) << head_bytes << " " << bytes << " cut at " << cut;
    }
  }
}

#if defined(__x86_64__)

[[gnu::target("xsave")]] bool upper_halves_in_use() {
  return (_xgetbv(1) & 1u << 2) != 0;
}

[[gnu::target("avx")]] void clear_upper_halves_here() {
  _mm256_zeroupper();
}

/// Does the processor say which parts of its registers are in use, and notice when they are cleared?
bool says_what_is_in_use() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(0xD, 1, &a, &b, &c, &d) == 0 || (a & 1u << 2) == 0 || !__builtin_cpu_supports("avx"))
    return false;
  clear_upper_halves_here();
  return !upper_halves_in_use();
}

// Goal: the library leaves the upper halves of vector registers in use, and the ICRC does not, for packets of all
// lengths. If they were, all code behind it would be slow on some processors.
TEST(RoceIcrc, leaves_no_upper_halves_in_use) {
  if (!says_what_is_in_use()) GTEST_SKIP() << "this processor does not say which registers are in use";
  const std::vector<std::byte> data(4096), head(kIcrcHeadV4);
  const uint32_t crc = crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(data.data()), data.size());
  const bool library_leaves_them = upper_halves_in_use();
  for (size_t bytes = 0; bytes <= data.size(); bytes = 2 * bytes + 4) {
    Icrc icrc(head, bytes);
    icrc.add(Bytes(data).first(bytes));
    const uint32_t value = icrc.value();
    const bool in_use = upper_halves_in_use();
    EXPECT_FALSE(in_use) << bytes << " " << crc << value;
  }
  if (!library_leaves_them) GTEST_SKIP() << "here, the library does not leave them in use either";
}

#endif

constexpr Bth kAllFields{.opcode = 0x0A,
                         .solicited = true,
                         .fecn = true,
                         .becn = true,
                         .pad_bytes = 2,
                         .qpn = 0xABCDEF,
                         .ack_request = true,
                         .psn = Psn(0x123457)};
constexpr const char* kAllFieldsText = "0a a0 ff ff c0 ab cd ef 80 12 34 57";

// Goal: the template gives the headers that the encoders of IP and UDP give, for each length, and all fields of the
// BTH.
TEST(RoceFrame, template_of_ipv6_and_lengths) {
  const dpdk::IpAddress one{{0xFD, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
      two{{0xFD, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  const auto v4 = [](uint32_t address) { return dpdk::IpAddress::of_v4(address); };
  for (const FlowAddresses& flow : {FlowAddresses{one, two, 0xC123, 0x68}, {v4(0x0A000001), v4(0xFFFFFFFE), 0xFFBD, 3}})
    for (uint32_t behind = 0; behind < 4200; ++behind) {
      std::array<std::byte, kFrameHeadMax> out{};
      const unsigned bytes = FrameHead(flow).write(kAllFields, behind, out.data());
      const bool is_v4 = flow.source.is_v4();
      ASSERT_EQ(bytes, is_v4 ? kIcrcHeadV4 : kIcrcHeadV6);
      const size_t all = bytes + behind + kIcrcBytes;
      const auto ip = is_v4 ? dpdk::ipv4_decode(out, all, dpdk::ChecksumCheck::kVerify) : dpdk::ipv6_decode(out, all);
      ASSERT_TRUE(ip) << behind;
      EXPECT_EQ(ip->source, flow.source);
      EXPECT_EQ(ip->destination, flow.destination);
      EXPECT_EQ(ip->traffic_class, flow.traffic_class);
      EXPECT_EQ(ip->header_bytes + ip->payload_bytes, all);
      const auto udp = dpdk::udp_decode(Bytes(out).subspan(ip->header_bytes), ip->payload_bytes);
      ASSERT_TRUE(udp);
      EXPECT_EQ(udp->source_port, flow.source_port);
      EXPECT_EQ(udp->destination_port, kUdpPort);
      EXPECT_EQ(udp->payload_bytes, kBthBytes + behind + kIcrcBytes);
      EXPECT_EQ(hex_text(Bytes(out).subspan(bytes - kBthBytes, kBthBytes)), hex_text(hex(kAllFieldsText)));
    }
}

Decoded<Packet> decode(const std::vector<std::byte>& bytes) {
  return packet_decode(Bytes(bytes).first(std::min<size_t>(bytes.size(), kRoceHeadersMax)), uint32_t(bytes.size()));
}

// A WRITE of 5 bytes, from BTH to ICRC, and an ACK.
constexpr const char* kWrite = R"(0a b0 ff ff 00 00 00 12 80 00 01 01 00 00 00 01 23 45 60 00 00 01 23 45 00 00 00 05
                                  68 65 6c 6c 6f 00 00 00 b2 0e df a9)";
constexpr const char* kAck = "11 00 ff ff 00 00 00 11 00 00 01 00 1f 00 00 01 d9 dd 93 fe";

TEST(RoceHeaders, fields_of_a_write) {
  const auto packet = decode(hex(kWrite));
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->kind, PacketKind::kRequest);
  EXPECT_EQ(packet->shape, (RequestShape{true, true, true}));
  EXPECT_TRUE(packet->bth.solicited);
  EXPECT_TRUE(packet->bth.ack_request);
  EXPECT_EQ(packet->bth.pad_bytes, 3);
  EXPECT_EQ(packet->bth.qpn, 0x12u);
  EXPECT_EQ(packet->bth.psn, Psn(0x101));
  EXPECT_EQ(packet->reth.address, 0x1'2345'6000u);
  EXPECT_EQ(packet->reth.key, 0x12345u);
  EXPECT_EQ(packet->reth.bytes, 5u);
  EXPECT_EQ(packet->payload_bytes, 5u);
  EXPECT_EQ(packet->header_bytes, 28u);
}

TEST(RoceHeaders, a_packet_that_is_cut_is_refused) {
  for (const char* text : {kWrite, kAck}) {
    const std::vector<std::byte> whole = hex(text);
    const size_t least = text == kWrite ? 12 + 16 + 3 + 4 : whole.size();
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const auto packet = decode({whole.begin(), whole.begin() + ptrdiff_t(bytes)});
      EXPECT_EQ(packet.has_value(), bytes >= least) << bytes;
      if (!packet) {
        EXPECT_EQ(packet.error(), FrameDrop::kRoceLength) << bytes;
      }
    }
  }
}

TEST(RoceHeaders, faults) {
  const auto fault = [](const char* text, size_t at, uint8_t value) {
    std::vector<std::byte> bytes = hex(text);
    bytes[at] = std::byte(value);
    return decode(bytes);
  };
  EXPECT_EQ(fault(kWrite, 1, 0x31).error(), FrameDrop::kRoceHeader) << "version";
  EXPECT_EQ(fault(kWrite, 3, 0xFE).error(), FrameDrop::kRoceHeader) << "P_Key";
  EXPECT_TRUE(fault(kWrite, 2, 0x7F)) << "a limited member of the partition";
  std::vector<std::byte> longer = hex(kAck);
  longer.resize(longer.size() + 4);
  EXPECT_EQ(decode(longer).error(), FrameDrop::kRoceLength) << "an ACK with a payload";
  // Goal: each opcode of RC that is a request is answered, all others are dropped.
  const std::map<PacketKind, std::vector<unsigned>> known{
      {PacketKind::kRequest, {0, 1, 2, 4, 6, 7, 8, 10}},
      {PacketKind::kRefused, {3, 5, 9, 0x0B, 0x0C, 0x13, 0x14, 0x16, 0x17}},
      {PacketKind::kAcknowledge, {0x11}},
      {PacketKind::kDatagram, {0x64}},
      {PacketKind::kCnp, {0x81}}};
  std::map<PacketKind, std::vector<unsigned>> seen;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const bool ack = opcode == 0x11;
    const auto packet = fault(ack ? kAck : kWrite, 0, uint8_t(opcode));
    if (packet) {
      seen[packet->kind].push_back(opcode);
    } else {
      EXPECT_EQ(packet.error(), FrameDrop::kRoceOpcode) << opcode;
    }
  }
  EXPECT_EQ(seen, known);
}

TEST(RoceHeaders, each_syndrome) {
  for (unsigned syndrome = 0; syndrome < 256; ++syndrome) {
    std::vector<std::byte> bytes = hex(kAck);
    bytes[12] = std::byte(uint8_t(syndrome));
    const auto packet = decode(bytes);
    ASSERT_TRUE(packet);
    Verdict expected = Verdict::kReserved;
    if (syndrome < 0x20) expected = Verdict::kAck;
    if (syndrome >= 0x20 && syndrome < 0x40) expected = Verdict::kRnr;
    if (syndrome >= 0x60 && syndrome < 0x64) expected = Verdict(unsigned(Verdict::kSequence) + syndrome - 0x60);
    EXPECT_EQ(packet->aeth.verdict, expected) << syndrome;
    if (expected != Verdict::kReserved) {
      EXPECT_EQ(hex_text(encode(*packet)), hex_text(Bytes(bytes).first(16))) << syndrome;
    }
  }
}

TEST(RocePsn, wraps) {
  constexpr Psn kLast(0xFF'FFFF), kFirst(0);
  static_assert(kLast + 1 == kFirst && kFirst - 1 == kLast);
  static_assert(kFirst - kLast == 1 && kLast - kFirst == -1);
  static_assert(Psn(0x7F'FFFF) - kFirst == 0x7F'FFFF && Psn(0x80'0000) - kFirst == -0x80'0000);
  static_assert(Psn(0x0100'0005) == Psn(5));
  for (uint32_t from = 0; from <= Psn::kMask; from += 0x1'0001) {
    for (const uint32_t by : {0u, 1u, 128u, 0x7F'FFFFu}) {
      EXPECT_EQ((Psn(from) + by) - Psn(from), int32_t(by));
      EXPECT_EQ(Psn(from) - (Psn(from) + by), -int32_t(by));
    }
  }
}

// Numbers of docs/wire/roce.md §1, §4, §5: seen in captures, or of tables there.
TEST(RocePath, numbers) {
  EXPECT_EQ(mtu_code(1500), 3);
  EXPECT_EQ(mtu_code(4200), 5);
  EXPECT_EQ(mtu_code(9000), 5);
  EXPECT_EQ(mtu_code(4191), 4);
  EXPECT_EQ(mtu_code(4192), 5);
  EXPECT_EQ(mtu_code(352), 1);
  EXPECT_EQ(mtu_code(351), 0);
  EXPECT_EQ(mtu_bytes(3), 1024u);
  EXPECT_EQ(mtu_bytes(5), 4096u);
  EXPECT_EQ(flow_label(1023, 987), 0x7FBCu);
  EXPECT_EQ(udp_source_port(flow_label(1023, 987)), 0xFFBD);
  EXPECT_EQ(udp_source_port(flow_label_of_qpns(0x11, 0x11)), 0xC121);
  EXPECT_EQ(udp_source_port(flow_label_of_qpns(0x29, 0x42)), 0xCA92);
  EXPECT_EQ(udp_source_port_ud(kGsiQpn), 0xD872);
  EXPECT_EQ(timeout_of(14), 67'108'864ns);
  EXPECT_EQ(timeout_of(19), 2'147'483'648ns);
  EXPECT_EQ(rnr_wait(0), 655'360us);
  EXPECT_EQ(rnr_wait(1), 10us);
  EXPECT_EQ(rnr_wait(14), 1'280us);
  EXPECT_EQ(rnr_wait(31), 491'520us);
  EXPECT_EQ(guid_of({{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}}), 0x5054'00FF'FE12'3456u);
}

}  // namespace
}  // namespace ulnet::rc::roce
