// Speeds of links: the kernel's masks of link modes, and interfaces of this machine.
#include <gtest/gtest.h>
#include <linux/ethtool.h>

#include <array>

#include "lnd/net/kernel/link_speed_ctl.h"

namespace ulnet {
namespace {

uint32_t best_of(std::initializer_list<unsigned> bits) {
  std::array<uint32_t, 4> modes{};
  for (const unsigned bit : bits) modes.at(bit / 32) |= 1u << bit % 32;
  return best_of_modes(modes);
}

TEST(LinkSpeed, best_of_the_modes_that_a_device_supports) {
  EXPECT_EQ(best_of({}), 0u);
  EXPECT_EQ(best_of({ETHTOOL_LINK_MODE_Autoneg_BIT, ETHTOOL_LINK_MODE_FIBRE_BIT, ETHTOOL_LINK_MODE_Pause_BIT}), 0u);
  EXPECT_EQ(best_of({ETHTOOL_LINK_MODE_10baseT_Half_BIT}), 10u);
  EXPECT_EQ(best_of({ETHTOOL_LINK_MODE_100baseT_Full_BIT, ETHTOOL_LINK_MODE_1000baseT_Full_BIT,
                     ETHTOOL_LINK_MODE_10baseT_Full_BIT}),
            1000u);
  EXPECT_EQ(best_of({ETHTOOL_LINK_MODE_25000baseCR_Full_BIT, ETHTOOL_LINK_MODE_10000baseKR_Full_BIT}), 25'000u);
  EXPECT_EQ(best_of({ETHTOOL_LINK_MODE_100000baseSR4_Full_BIT, ETHTOOL_LINK_MODE_40000baseSR4_Full_BIT}), 100'000u);
  EXPECT_EQ(best_of({ETHTOOL_LINK_MODE_400000baseCR4_Full_BIT}), 400'000u) << "in the third word";
}

TEST(LinkSpeed, of_masks_that_end_early) {
  const std::array<uint32_t, 1> modes{1u << ETHTOOL_LINK_MODE_1000baseT_Full_BIT};
  EXPECT_EQ(best_of_modes(modes), 1000u);
  EXPECT_EQ(best_of_modes({}), 0u);
}

TEST(LinkSpeed, is_unknown_where_there_is_no_link) {
  EXPECT_EQ(link_speed_of("lo"), LinkSpeed{});
  EXPECT_EQ(link_speed_of("no such interface, and a name that is long"), LinkSpeed{});
}

TEST(LinkSpeed, is_reduced_if_the_device_can_do_more) {
  EXPECT_FALSE((LinkSpeed{0, 0}).reduced());
  EXPECT_FALSE((LinkSpeed{0, 1000}).reduced()) << "no link is not a slow link";
  EXPECT_FALSE((LinkSpeed{1000, 1000}).reduced());
  EXPECT_TRUE((LinkSpeed{100, 1000}).reduced());
}

}  // namespace
}  // namespace ulnet
