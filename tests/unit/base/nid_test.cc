// Tests of nets and NIDs as values (dataplane/base/nid.h); text and wire forms: tests/wire.
#include "dataplane/base/nid.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace ulnet {
namespace {

const Net kTcp1 = Net::of(NetType::kTcp, 1);

std::vector<Nid> samples() {
  std::vector<Nid> nids{kAnyNid, kLoNid};
  for (NetType type : {NetType::kTcp, NetType::kO2ib, NetType::kKfi, NetType(77)})
    for (uint16_t number : {0, 1, 255, 256, 65535})
      for (uint32_t address : {0u, 1u, 0x0A000001u, 0x0100000Au, 0xFFFFFFFFu}) {
        nids.push_back(Nid::v4(Net::of(type, number), address));
        std::array<uint8_t, 16> large{};
        std::memcpy(large.data(), &address, 4);
        std::memcpy(large.data() + 12, &address, 4);
        nids.push_back(Nid::v6(Net::of(type, number), large));
      }
  return nids;
}

TEST(Nid, eight_byte_form_goes_both_ways) {
  EXPECT_EQ(Nid::v4(kTcp1, 0x0A000001).to_u64(), 0x000200010A000001u);
  for (const Nid& nid : samples()) {
    if (nid.fits_u64()) {
      EXPECT_EQ(Nid::from_u64(nid.to_u64()), nid);
    }
  }
  EXPECT_EQ(Nid::from_u64(~uint64_t{0}), kAnyNid);
  EXPECT_FALSE(Nid::v6(kTcp1, {}).fits_u64());
}

TEST(Nid, parts_come_back) {
  const Nid nid = Nid::v4(Net::of(NetType::kO2ib, 0x1234), 0x0A0B0C0D);
  EXPECT_EQ(nid.net(), Net::of(NetType::kO2ib, 0x1234));
  EXPECT_EQ(nid.net().type(), NetType::kO2ib);
  EXPECT_EQ(nid.net().number(), 0x1234);
  EXPECT_EQ(nid.address_v4(), 0x0A0B0C0Du);
  EXPECT_EQ(kAnyNid.net(), kAnyNet);
  EXPECT_TRUE(kLoNid.is_lo());
  EXPECT_FALSE(nid.is_lo());
}

TEST(Nid, order_and_equality_are_those_of_the_bytes) {
  const std::vector<Nid> nids = samples();
  for (const Nid& a : nids)
    for (const Nid& b : nids) {
      const int bytes = std::memcmp(&a, &b, sizeof a);
      ASSERT_EQ(a == b, bytes == 0);
      ASSERT_EQ(a < b, bytes < 0);
      if (a == b) {
        ASSERT_EQ(a.hash(), b.hash());
      }
    }
}

// Goal: a table indexed by low or high hash bits is filled evenly by the NIDs of a large cluster.
TEST(Nid, hash_spreads_neighbours) {
  std::vector<int> low(256), high(256);
  for (uint16_t number = 0; number < 4; ++number)
    for (uint32_t host = 0; host < 4096; ++host) {
      const uint64_t hash = Nid::v4(Net::of(NetType::kTcp, number), 0x0A000000 + host).hash();
      ++low[hash & 255];
      ++high[hash >> 56];
    }
  for (int i = 0; i < 256; ++i) {
    EXPECT_NEAR(low[size_t(i)], 64, 40);
    EXPECT_NEAR(high[size_t(i)], 64, 40);
  }
  std::set<uint64_t> large;
  for (uint32_t i = 0; i < 65536; ++i) {
    std::array<uint8_t, 16> address{0xFD};
    address[8] = uint8_t(i >> 8);
    address[15] = uint8_t(i);
    large.insert(Nid::v6(kTcp1, address).hash());
  }
  EXPECT_EQ(large.size(), 65536u);
}

}  // namespace
}  // namespace ulnet
