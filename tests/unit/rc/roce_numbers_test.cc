// Numbers of queue pairs of our RoCE.
#include <gtest/gtest.h>

#include <set>

#include "lnd/rc/roce/proto/headers.h"
#include "lnd/rc/roce/qp_numbers_ctl.h"

namespace ulnet::rc::roce {
namespace {

TEST(RoceNumbers, name_their_worker_and_a_place_of_their_own) {
  Rng rng(3);
  QpNumbers numbers(kWorkersMax, rng);
  for (const uint16_t worker : {uint16_t{0}, uint16_t{5}, uint16_t{kWorkersMax - 1}}) {
    std::set<uint32_t> taken, places;
    for (uint32_t i = 0; i < kQpPlaces; ++i) {
      const auto number = numbers.take(WorkerId{worker});
      ASSERT_TRUE(number);
      EXPECT_GT(*number, kGsiQpn);
      EXPECT_LE(*number, kQpnMask);
      EXPECT_EQ(worker_of_qpn(*number), WorkerId{worker});
      EXPECT_TRUE(taken.insert(*number).second);
      EXPECT_TRUE(places.insert(place_of_qpn(*number)).second);
    }
    EXPECT_FALSE(numbers.take(WorkerId{worker}));
    EXPECT_EQ(numbers.used(WorkerId{worker}), kQpPlaces);
    for (const uint32_t number : taken) numbers.give_back(number);
    EXPECT_EQ(numbers.used(WorkerId{worker}), 0u);
  }
}

// Goal: a number comes again only after nearly all others, also if most places are in use. Packets of its last use are
// gone by then.
TEST(RoceNumbers, come_again_late) {
  Rng rng(4);
  QpNumbers numbers(1, rng);
  for (uint32_t i = 0; i < kQpPlaces - 4; ++i) (void)numbers.take(WorkerId{0});
  std::set<uint32_t> seen;
  constexpr uint32_t kAgain = (1u << kQpnCountBits) / kQpPlaces;  // times that a place comes in one round
  for (uint32_t i = 0; i < 4 * (kAgain - 1); ++i) {
    const uint32_t number = *numbers.take(WorkerId{0});
    EXPECT_TRUE(seen.insert(number).second) << i;
    numbers.give_back(number);
  }
}

TEST(RoceNumbers, begin_at_random) {
  Rng rng(5);
  std::set<uint32_t> first;
  for (int i = 0; i < 20; ++i) first.insert(*QpNumbers(1, rng).take(WorkerId{0}));
  EXPECT_GT(first.size(), 15u);
}

}  // namespace
}  // namespace ulnet::rc::roce
