// Ping info: golden bytes of docs/wire/lnet.md §4.4, validation of §4.3, truncation, the other byte order.
#include "dataplane/wire/ping_info.h"

#include <gtest/gtest.h>

#include "dataplane/base/nid_text.h"
#include "dataplane/wire/bytes.h"
#include "tests/wire/hex.h"

namespace ulnet {
namespace {

using namespace wire;
using test::hex;
using test::hex_text;

constexpr uint32_t kInterfacesMax = 4096;
constexpr uint32_t kUsualFeatures = kFeatureNiStatus | kFeatureRteDisabled | kFeatureMultiRail | kFeatureDiscovery;

constexpr const char* kTwoNis = R"(67 6e 69 70 1e 00 00 00 39 30 00 00 03 00 00 00
                                   00 00 00 00 00 00 09 00 07 00 00 00 00 00 00 00
                                   14 7a a8 c0 00 00 02 00 de c0 aa 15 00 00 00 00
                                   15 7a a8 c0 00 00 02 00 de c0 aa 15 00 00 00 00)";
constexpr const char* kIpv6Only = R"(67 6e 69 70 7e 00 00 00 39 30 00 00 01 00 00 00
                                     00 00 00 00 00 00 09 00 03 00 00 00 38 00 00 00
                                     de c0 aa 15 0c 02 00 00 fd 00 00 00 00 00 00 00
                                     00 00 00 00 00 00 00 01)";
constexpr const char* kIpv4AndIpv6 = R"(67 6e 69 70 3e 00 00 00 39 30 00 00 02 00 00 00
                                        00 00 00 00 00 00 09 00 03 00 00 00 48 00 00 00
                                        14 7a a8 c0 00 00 02 00 de c0 aa 15 00 00 00 00
                                        de c0 aa 15 0c 02 00 00 fd 00 00 00 00 00 00 00
                                        00 00 00 00 00 00 00 01)";

PingInfo info_of(uint32_t sequence, std::initializer_list<const char*> nids) {
  PingInfo info{.features = kUsualFeatures, .sequence = sequence};
  for (const char* text : nids) info.nis.push_back({nid_parse(text).value(), kNiUp});
  return info;
}

void expect_same(const PingInfo& info, const char* golden) {
  EXPECT_EQ(ping_info_size(info), hex(golden).size());
  EXPECT_EQ(hex_text(ping_info_encode(info)), hex_text(hex(golden)));
  const auto decoded = ping_info_decode(hex(golden), kInterfacesMax);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_FALSE(decoded->truncated);
  EXPECT_EQ(decoded->needed_bytes, hex(golden).size());
  EXPECT_EQ(decoded->info.pid, info.pid);
  EXPECT_EQ(decoded->info.sequence, info.sequence);
  ASSERT_EQ(decoded->info.nis.size(), info.nis.size());
  for (size_t i = 0; i < info.nis.size(); ++i) {
    EXPECT_EQ(nid_text(decoded->info.nis[i].nid), nid_text(info.nis[i].nid));
    EXPECT_EQ(decoded->info.nis[i].status, info.nis[i].status);
  }
}

// Goal: the three examples of §4.4, with the feature bits for large NIDs derived.
TEST(PingInfo, golden_examples) {
  expect_same(info_of(7, {"192.168.122.20@tcp", "192.168.122.21@tcp"}), kTwoNis);
  expect_same(info_of(3, {"fd00::1@tcp"}), kIpv6Only);
  expect_same(info_of(3, {"192.168.122.20@tcp", "fd00::1@tcp"}), kIpv4AndIpv6);
}

// Goal: a large primary stays the first one although 4-byte NIDs come before it on the wire.
TEST(PingInfo, large_primary_comes_first) {
  const auto bytes = ping_info_encode(info_of(1, {"fd00::1@tcp", "10.0.0.1@tcp", "fd00::2@tcp"}));
  const auto decoded = ping_info_decode(bytes, kInterfacesMax);
  ASSERT_TRUE(decoded);
  ASSERT_EQ(decoded->info.nis.size(), 3u);
  EXPECT_EQ(nid_text(decoded->info.nis[0].nid), "fd00::1@tcp");
  EXPECT_EQ(nid_text(decoded->info.nis[1].nid), "10.0.0.1@tcp");
  EXPECT_EQ(decoded->info.features & kFeaturePrimaryLarge, kFeaturePrimaryLarge);
}

// Goal: a good ping info may be cut anywhere behind its head without an error. The result then has the full size for
// the next ping, and only complete entries.
// Method: every length.
TEST(PingInfo, truncation_at_every_length) {
  for (const char* golden : {kTwoNis, kIpv6Only, kIpv4AndIpv6}) {
    const auto whole = hex(golden);
    const auto all = ping_info_decode(whole, kInterfacesMax);
    ASSERT_TRUE(all);
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto decoded = ping_info_decode(std::span(whole).first(length), kInterfacesMax);
      ASSERT_EQ(decoded.has_value(), length >= 16) << length;
      if (!decoded) continue;
      EXPECT_TRUE(decoded->truncated);
      EXPECT_LE(decoded->info.nis.size(), all->info.nis.size());
      if (length >= 32) {
        EXPECT_EQ(decoded->needed_bytes, whole.size());
      }
    }
  }
}

// Goal: more bytes than announced are ignored (a sink may be larger than the info).
TEST(PingInfo, trailing_bytes_are_ignored) {
  auto bytes = hex(kIpv4AndIpv6);
  bytes.resize(272, std::byte{0xAB});
  const auto decoded = ping_info_decode(bytes, kInterfacesMax);
  ASSERT_TRUE(decoded);
  EXPECT_FALSE(decoded->truncated);
  EXPECT_EQ(decoded->info.nis.size(), 2u);
}

// Goal: a sender of the other byte order is understood; only its large NIDs are not swapped.
TEST(PingInfo, other_byte_order) {
  const auto decoded = ping_info_decode(hex(R"(70 69 6e 67 00 00 00 3e 00 00 30 39 00 00 00 02
                                               00 09 00 00 00 00 00 00 00 00 00 03 00 00 00 48
                                               00 02 00 00 c0 a8 7a 14 15 aa c0 de 00 00 00 00
                                               de ad fa ce 0c 02 00 00 fd 00*14 01)"),
                                        kInterfacesMax);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_EQ(decoded->info.sequence, 3u);
  ASSERT_EQ(decoded->info.nis.size(), 2u);
  EXPECT_EQ(nid_text(decoded->info.nis[0].nid), "192.168.122.20@tcp");
  EXPECT_EQ(decoded->info.nis[0].status, kNiUp);
  EXPECT_EQ(nid_text(decoded->info.nis[1].nid), "fd00::1@tcp");
  EXPECT_EQ(decoded->info.nis[1].status, kNiDown);
}

/// The error sentence for a ping info with the 32-bit word at `offset` replaced.
std::string error_with(const char* golden, size_t offset, uint32_t value, uint32_t interfaces_max = kInterfacesMax) {
  auto bytes = hex(golden);
  store(bytes.data() + offset, value);
  const auto decoded = ping_info_decode(bytes, interfaces_max);
  if (decoded) return "";
  EXPECT_EQ(decoded.error().code, -EPROTO);
  return decoded.error().what;
}

// Goal: each rule of §4.3 refuses, with its own sentence.
TEST(PingInfo, validation) {
  EXPECT_EQ(error_with(kTwoNis, 0, 0x12345678), "ping info has a wrong magic");
  EXPECT_EQ(error_with(kTwoNis, 4, 0x1C), "ping info has no NI status");
  EXPECT_EQ(error_with(kTwoNis, 12, 0), "ping info has too few or too many NIs");
  EXPECT_EQ(error_with(kTwoNis, 12, 4097), "ping info has too few or too many NIs");
  EXPECT_EQ(error_with(kTwoNis, 12, 3, 2), "ping info has too few or too many NIs");
  EXPECT_EQ(error_with(kTwoNis, 20, 0x00020000), "ping info does not begin with 0@lo");
  EXPECT_EQ(error_with(kIpv4AndIpv6, 28, 44), "ping info states a size below that of its NIs");
  EXPECT_EQ(error_with(kIpv4AndIpv6, 28, 0x00200000), "ping info states a size that no message can carry");
  EXPECT_EQ(error_with(kIpv4AndIpv6, 28, 68), "ping info has large NIs that do not fill its size");
  EXPECT_EQ(error_with(kTwoNis, 4, 0xFFFFFF1E), "");  // unknown features are ignored
  EXPECT_EQ(error_with(kIpv4AndIpv6, 28, 0x4B), "");  // the low two bits of the size are masked
}

// Goal: a life is read only from features that name one (docs/wire/copies.md §1).
TEST(PingInfo, life) {
  EXPECT_EQ(life_in(0x8123001E), 0x0123);
  EXPECT_EQ(life_in(0xFFFF001E), 0x7FFF);
  EXPECT_EQ(life_in(0x0123001E), 0) << "features of a later LNet";
}

// Goal: a large entry of a size that we cannot hold is skipped, those behind it are read (§4.2).
TEST(PingInfo, oversized_entry_is_skipped) {
  const auto decoded = ping_info_decode(hex(R"(67 6e 69 70 7e 00 00 00 39 30 00 00 01 00 00 00
                                               00 00 00 00 00 00 09 00 03 00 00 00 54 00 00 00
                                               de c0 aa 15 0d 02 00 00 fd 00*15 01 00*3
                                               de c0 aa 15 0c 02 00 00 fd 00*14 01)"),
                                        kInterfacesMax);
  ASSERT_TRUE(decoded) << decoded.error().what;
  ASSERT_EQ(decoded->info.nis.size(), 1u);
  EXPECT_EQ(nid_text(decoded->info.nis[0].nid), "fd00::1@tcp");
}

}  // namespace
}  // namespace ulnet
