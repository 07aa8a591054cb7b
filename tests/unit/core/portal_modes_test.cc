// The home of a message for a portal: one worker, the worker of its match bits, or the worker that it arrives at.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr unsigned kWorkers = 3;
constexpr uint32_t kPortalOne = 9;
constexpr uint64_t kBits = 30;

/// A worker's submitter, with one MD on the portal.
struct Taker {
  Submitter* submitter = nullptr;
  EqHandle eq;
  std::array<std::byte, 64> memory{};

  MdHandle attach(uint64_t bits, uint64_t ignore) {
    Segment segment{memory.data(), uint32_t(memory.size())};
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .options = kMdPut | kMdManageRemote, .eq = eq});
    EXPECT_TRUE(submitter->me_attach(PortalIndex{kPortalOne}, {}, bits, ignore, MePosition::kTail, md));
    return md;
  }
  std::vector<Event> events() {
    std::vector<Event> all(128);
    all.resize(submitter->eq_poll(eq, all));
    return all;
  }
};

struct PortalModes : testing::Test {
  void open(PortalMode mode) {
    for (unsigned i = 0; i < kWorkers; ++i) bench.add_peer(tcp(10 + i), WorkerId{uint16_t(i)});
    bench.open_portal(kPortalOne, WorkerId{1}, false, mode);
    bench.publish();
    for (unsigned i = 0; i < kWorkers; ++i) {
      takers[i].submitter = &bench.submitter(WorkerId{uint16_t(i)});
      takers[i].eq = *takers[i].submitter->eq_open(128);
    }
  }
  /// A PUT that comes in at a worker.
  void put(unsigned at, uint64_t bits) {
    bench.inject(put_header(tcp(1), tcp(10 + at), kPortalOne, bits, 8, 0, false), tcp(10 + at));
    bench.settle();
    ScriptLnd& lnd = bench.lnd(WorkerId{uint16_t(at)});
    while (!lnd.receiving.empty()) {
      lnd.complete_rx(*lnd.receiving[0], 0, 1);
      bench.settle();
    }
  }
  [[nodiscard]] std::array<size_t, kWorkers> puts() {
    std::array<size_t, kWorkers> counts{};
    for (unsigned i = 0; i < kWorkers; ++i)
      for (const Event& event : takers[i].events()) counts[i] += event.kind == EventKind::kPut;
    return counts;
  }
  [[nodiscard]] uint64_t unmatched() {
    uint64_t sum = 0;
    for (unsigned i = 0; i < kWorkers; ++i) sum += bench.worker(WorkerId{uint16_t(i)}).counters[Drop::kNoMatch].get();
    return sum;
  }
  Bench bench{{.workers = kWorkers}};
  std::array<Taker, kWorkers> takers;
};

TEST_F(PortalModes, hashed_each_match_bits_have_one_home_whoever_receives) {
  open(PortalMode::kHashed);
  PortalView view{PortalMode::kHashed, WorkerId{1}, false};
  std::array<size_t, kWorkers> expected{};
  std::set<unsigned> homes;
  for (uint64_t bits = 1; bits <= kBits; ++bits) {
    const unsigned home = portal_home(view, bits, WorkerId{0}, kWorkers).value;
    homes.insert(home);
    takers[home].attach(bits, 0);
    expected[home] += kWorkers;
    bench.settle();
  }
  EXPECT_EQ(homes.size(), kWorkers) << "they are spread over all workers";
  for (uint64_t bits = 1; bits <= kBits; ++bits)
    for (unsigned at = 0; at < kWorkers; ++at) put(at, bits);
  EXPECT_EQ(puts(), expected);
  EXPECT_EQ(unmatched(), 0u);
}

TEST_F(PortalModes, hashed_wildcards_and_entries_at_another_worker_are_refused) {
  open(PortalMode::kHashed);
  PortalView view{PortalMode::kHashed, WorkerId{1}, false};
  const unsigned home = portal_home(view, 5, WorkerId{0}, kWorkers).value;
  takers[home].attach(5, ~0ull);
  takers[(home + 1) % kWorkers].attach(5, 0);
  bench.settle();
  const auto wild = takers[home].events(), elsewhere = takers[(home + 1) % kWorkers].events();
  ASSERT_EQ(wild.size(), 1u);
  EXPECT_EQ(wild[0].kind, EventKind::kUnlink);
  EXPECT_EQ(wild[0].status, -EINVAL);
  ASSERT_EQ(elsewhere.size(), 1u);
  EXPECT_EQ(elsewhere[0].kind, EventKind::kUnlink);
  EXPECT_EQ(elsewhere[0].status, -EXDEV);
}

TEST_F(PortalModes, per_worker_a_message_stays_where_it_arrives) {
  open(PortalMode::kPerWorker);
  for (unsigned i = 0; i + 1 < kWorkers; ++i) takers[i].attach(0, ~0ull);
  bench.settle();
  put(0, 7);
  put(1, 7);
  put(1, 8);
  put(2, 7);  // this worker has no entry
  EXPECT_EQ(puts(), (std::array<size_t, kWorkers>{1, 2, 0}));
  EXPECT_EQ(unmatched(), 1u);
}

TEST_F(PortalModes, single_only_the_home_may_attach) {
  open(PortalMode::kSingle);
  takers[1].attach(0, ~0ull);
  takers[2].attach(0, ~0ull);
  bench.settle();
  for (unsigned at = 0; at < kWorkers; ++at) put(at, at);
  EXPECT_EQ(puts()[1], kWorkers);
  EXPECT_EQ(unmatched(), 0u);
}

}  // namespace
}  // namespace ulnet::test
