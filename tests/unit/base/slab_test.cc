// Tests of the pool with generation handles (dataplane/base/slab.h).
#include "dataplane/base/slab.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ulnet {
namespace {

// Goal: takes give distinct objects, a handle is valid exactly while its object is taken, and the counts are right.
// Method: all sequences of eight steps on a slab of three. A step takes an object or gives back a taken one.
TEST(Slab, every_short_sequence_keeps_handles_true) {
  constexpr int kSteps = 8, kChoices = 4;
  for (int sequence = 0; sequence < (1 << (2 * kSteps)); ++sequence) {
    Slab<int> slab(3);
    std::vector<std::pair<int*, Handle>> out;
    std::vector<Handle> dead;
    uint32_t most = 0;
    for (int rest = sequence, step = 0; step < kSteps; ++step, rest /= kChoices) {
      const size_t choice = size_t(rest % kChoices);
      if (choice == 3) {
        int* taken = slab.take();
        ASSERT_EQ(taken == nullptr, out.size() == 3);
        if (taken != nullptr) out.push_back({taken, slab.handle(*taken)});
      } else if (choice < out.size()) {
        slab.give(*out[choice].first);
        dead.push_back(out[choice].second);
        out.erase(out.begin() + int(choice));
      }
      most = std::max(most, uint32_t(out.size()));
      std::set<int*> distinct;
      for (const auto& [object, handle] : out) {
        ASSERT_TRUE(handle.valid());
        ASSERT_EQ(slab.find(handle), object);
        distinct.insert(object);
      }
      ASSERT_EQ(distinct.size(), out.size());
      for (const Handle& handle : dead) ASSERT_EQ(slab.find(handle), nullptr);
      ASSERT_EQ(slab.out(), out.size());
      ASSERT_EQ(slab.out_max(), most);
    }
    uint32_t visited = 0;
    slab.for_each_out([&](int&) { ++visited; });
    ASSERT_EQ(visited, out.size());
  }
}

TEST(Slab, nonsense_handles_find_nothing) {
  Slab<int> slab(2);
  int* taken = slab.take();
  const Handle handle = slab.handle(*taken);
  EXPECT_EQ(slab.find({}), nullptr);
  EXPECT_EQ(slab.find({2, 1}), nullptr);
  EXPECT_EQ(slab.find({UINT32_MAX, handle.generation}), nullptr);
  EXPECT_EQ(slab.find({handle.index, handle.generation + 1}), nullptr);
  EXPECT_EQ(Slab<int>(0).take(), nullptr);
}

TEST(SlabDeath, misuse_is_found) {
  Slab<int> slab(2), other(2);
  int* taken = slab.take();
  slab.give(*taken);
  EXPECT_DEATH(slab.give(*taken), "broken invariant");
  int* again = slab.take();
  EXPECT_DEATH(other.give(*again), "broken invariant");
}

}  // namespace
}  // namespace ulnet
