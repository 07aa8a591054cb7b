// SpscRing under two threads: order, completeness, no torn item. Bounded by counts. Run under TSan, too.
#include "dataplane/base/ring.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "dataplane/base/rng.h"

namespace ulnet {
namespace {

/// Eight words that must belong together.
struct Item {
  uint64_t words[8];
};

class RaceRing : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Capacities, RaceRing, testing::Values(2, 8, 1024));

TEST_P(RaceRing, items_come_whole_and_in_order) {
  // A ring of two goes to and fro between the threads at every item: each takes its turn on a busy machine.
  const uint64_t items = std::min<uint64_t>(300'000, 10'000 * GetParam());
  SpscRing<Item> ring{GetParam()};
  std::thread producer([&] {
    Rng rng{1};
    for (uint64_t i = 0; i < items;) {
      Item item;
      for (uint64_t w = 0; w < 8; ++w) item.words[w] = i * 8 + w;
      const bool full = ring.full();
      const bool pushed = ring.push(item);
      if (!full) {
        ASSERT_TRUE(pushed) << "room seen by the producer stays";
      }
      i += pushed;
      if (rng.one_in(8)) ring.fence_pushes();
      if (!pushed || rng.one_in(256)) sched_yield();
    }
  });
  Rng rng{2};
  for (uint64_t i = 0; i < items;) {
    Item item;
    const bool empty = ring.empty();
    const bool popped = ring.pop(item);
    if (!empty) {
      ASSERT_TRUE(popped) << "an item seen by the consumer stays";
    }
    if (popped) {
      for (uint64_t w = 0; w < 8; ++w) ASSERT_EQ(i * 8 + w, item.words[w]);
    }
    i += popped;
    if (!popped || rng.one_in(256)) sched_yield();
  }
  producer.join();
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace ulnet
