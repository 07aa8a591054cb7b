// Arenas: mapped, bound, bounded, freed.
#include "dataplane/host/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace ulnet {
namespace {

/// Address space of this process in pages.
uint64_t mapped_pages() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages;
}

TEST(Arena, maps_zeroed_memory_and_gives_it_back) {
  Arenas arenas{nullptr, 64 << 20};
  {
    auto arena = arenas.map({.bytes = 5'000'000, .touch = true});
    ASSERT_TRUE(arena.has_value()) << arena.error().what;
    EXPECT_GE(arena->bytes(), 5'000'000u);
    EXPECT_EQ(arena->bytes(), arenas.mapped_bytes());
    EXPECT_EQ(arena->pages() == PageKind::kHuge2M ? arena->bytes() : 0, arenas.huge_bytes());
    EXPECT_EQ(kNoNuma, arena->numa());
    for (size_t i = 0; i < arena->bytes(); i += 4096) ASSERT_EQ(std::byte{0}, arena->data()[i]);
    std::memset(arena->data(), 1, arena->bytes());
    Arena moved = std::move(*arena);
    EXPECT_EQ(std::byte{1}, moved.data()[4'999'999]);
    moved = Arena{};
    EXPECT_EQ(0u, arenas.mapped_bytes());
  }
  EXPECT_EQ(0u, arenas.mapped_bytes());
}

TEST(Arena, keeps_to_its_limit) {
  Arenas arenas{nullptr, 8 << 20};
  auto first = arenas.map({.bytes = 6 << 20, .huge = false});
  ASSERT_TRUE(first.has_value());
  auto second = arenas.map({.bytes = 3 << 20, .huge = false});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(-ENOSPC, second.error().code);
  EXPECT_EQ(uint64_t{6} << 20, arenas.mapped_bytes());
  EXPECT_EQ(-EINVAL, arenas.map({.bytes = 0}).error().code);
  EXPECT_EQ(-ENOSPC, arenas.map({.bytes = SIZE_MAX}).error().code);
  *first = Arena{};
  EXPECT_TRUE(arenas.map({.bytes = 3 << 20}).has_value());
}

// Goal: `yes` gives huge pages or an error, depending on the machine. `no` never gives huge pages.
TEST(Arena, huge_pages_as_configured) {
  Arenas demanding{nullptr, 64 << 20, HugePages::kYes}, frugal{nullptr, 64 << 20, HugePages::kNo};
  auto demanded = demanding.map({.bytes = 1 << 20});
  if (demanded)
    EXPECT_EQ(PageKind::kHuge2M, demanded->pages());
  else
    EXPECT_EQ(-ENOMEM, demanded.error().code);
  EXPECT_EQ(huge_pages_free() > 0 || demanded.has_value(), demanded.has_value());
  auto plain = frugal.map({.bytes = 1 << 20});
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(PageKind::kNormal, plain->pages());
  EXPECT_EQ(0u, frugal.huge_bytes());
}

TEST(Arena, binds_to_a_node) {
  auto machine = Machine::read();
  ASSERT_TRUE(machine.has_value());
  Arenas arenas{machine->get(), 64 << 20};
  const unsigned numa = (*machine)->topology().numas.front().number;
  auto arena = arenas.map({.bytes = 1 << 20, .numa = numa, .touch = true});
  ASSERT_TRUE(arena.has_value()) << arena.error().what;
  EXPECT_TRUE(arena->numa() == numa || arena->numa() == kNoNuma) << "unbound only where binding is forbidden";
  auto nowhere = arenas.map({.bytes = 1 << 20, .numa = 4711});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(-EINVAL, nowhere.error().code);
  EXPECT_EQ(arena->bytes(), arenas.mapped_bytes()) << "a failure gives back what it had";
}

// Untouched arenas cost nothing: a process can map more than the machine has, and rounds leave no mapping.
TEST(Arena, large_and_many) {
  Arenas arenas{nullptr, uint64_t{1} << 44};
  auto huge = arenas.map({.bytes = size_t{1} << 40, .huge = false});
  EXPECT_TRUE(huge.has_value()) << huge.error().what;
  if (huge) *huge = Arena{};
  const uint64_t before = mapped_pages();
  for (int round = 0; round < 1000; ++round) ASSERT_TRUE(arenas.map({.bytes = 4 << 20}).has_value());
  EXPECT_LE(mapped_pages(), before + 50 * 1024) << "1,000 leaked arenas would be a million pages";
}

}  // namespace
}  // namespace ulnet
