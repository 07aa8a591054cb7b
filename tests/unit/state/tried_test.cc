// The pairs of NIs over which a message has failed.
#include "dataplane/state/tried.h"

#include <gtest/gtest.h>

namespace ulnet::test {
namespace {

TEST(Tried, counts_failures_at_the_side_at_fault) {
  Tried tried;
  tried.clear();
  tried.add(3, 70, true, false);
  tried.add(4, 70, false, true);
  EXPECT_EQ(tried.at_ni(3, false), 1u);
  EXPECT_EQ(tried.at_ni(4, false), 0u) << "the peer NI was at fault";
  EXPECT_EQ(tried.at_ni(4, true), 1u);
  EXPECT_EQ(tried.at_peer(70), 1u);
  EXPECT_EQ(tried.at_peer(71), 0u);
  EXPECT_EQ(tried.at_peer(70, 3), 2u) << "over this pair, and by the peer NI's own fault";
  EXPECT_EQ(tried.at_peer(70, 4), 2u);
  EXPECT_EQ(tried.at_peer(70, 9), 1u);
  EXPECT_TRUE(tried.has(3, 70));
  EXPECT_FALSE(tried.has(3, 71));
  EXPECT_FALSE(tried.has(9, 70));
}

TEST(Tried, holds_the_greatest_slots) {
  Tried tried;
  tried.clear();
  tried.add(kNisMax - 1, kPeerNisMax - 1, false, true);
  EXPECT_TRUE(tried.has(kNisMax - 1, kPeerNisMax - 1));
  EXPECT_FALSE(tried.has(0, kPeerNisMax - 1));
  EXPECT_EQ(tried.at_peer(kPeerNisMax - 1), 1u);
}

// Goal: of more failures than there is room for, the last ones count.
TEST(Tried, keeps_the_last_pairs) {
  for (uint32_t failures = 1; failures <= 40; ++failures) {
    Tried tried;
    tried.clear();
    for (uint32_t i = 0; i < failures; ++i) tried.add(uint16_t(i), 100 + i, true, true);
    for (uint32_t i = 0; i < failures; ++i)
      EXPECT_EQ(tried.has(uint16_t(i), 100 + i), i + Tried::kMax >= failures) << failures << ", pair " << i;
  }
}

}  // namespace
}  // namespace ulnet::test
