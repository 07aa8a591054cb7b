// Runs the packet decoders' fuzz targets on a fixed, seeded set of damaged frames. The same inputs every time.
#include <gtest/gtest.h>

#include <vector>

#include "tests/fuzz/dpdk_seeds.h"
#include "tests/fuzz/dpdk_targets.h"

namespace ulnet::fuzz {
namespace {

constexpr unsigned kMutationsPerTarget = 200000;

class DpdkFuzz : public testing::TestWithParam<DpdkTarget> {};

TEST_P(DpdkFuzz, holds_its_properties) {
  const std::vector<Input> pool = dpdk_seeds(GetParam().name);
  for (const Input& seed : pool)
    for (size_t length = 0; length <= seed.size(); ++length)
      GetParam().run(Input(seed.begin(), seed.begin() + long(length)));
  Rng rng(0x6470646B);
  for (unsigned i = 0; i < kMutationsPerTarget; ++i) {
    Input input = pool[size_t(rng.below(pool.size()))];
    for (uint64_t count = 1 + rng.below(4); count != 0; --count) dpdk_mutate(input, rng);
    input.shrink_to_fit();  // so that a sanitizer sees the first byte behind it
    GetParam().run(input);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DpdkFuzz, testing::ValuesIn(kDpdkTargets),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace ulnet::fuzz
