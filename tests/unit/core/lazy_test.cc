// Lazy portals: messages wait for entries up to the portal's bound, and end when the node or the message ends.
#include "dataplane/stages/receive.h"
#include "dataplane/wire/ping_info.h"
#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

using Lazy = CoreTest;

// Goal: portal 0 holds messages of all nodes. An entry for one node takes the first message of this node.
TEST_F(Lazy, portal_0_holds_all_and_an_entry_for_one_takes_the_first) {
  constexpr uint32_t kCount = kLazyMax + 40;
  bench.open_portal(0, WorkerId{0}, true);
  bench.publish();
  bench.inject(put_header(tcp(1), tcp(3), 0, wire::kPingMatchBits, 9, 0, false), tcp(3));
  for (uint32_t i = 0; i < kCount; ++i)
    bench.inject(put_header(tcp(1), tcp(2), 0, wire::kPingMatchBits, 10 + i, 0, false), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.lnd().held.size(), kCount + 1);
  const auto entry = [&](uint32_t threshold, const ProcessId& who) {
    Segment segment{memory.data(), uint32_t(memory.size())};
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1},
                                             .threshold = threshold,
                                             .options = kMdPut | kMdTruncate | kMdManageRemote,
                                             .eq = eq});
    EXPECT_TRUE(submitter->me_attach(PortalIndex{0}, who, wire::kPingMatchBits, 0, MePosition::kTail, md));
    bench.settle();
  };
  for (uint32_t i = 0; i < 3; ++i) {
    entry(1, {tcp(2)});
    EXPECT_EQ(bench.lnd().held.size(), kCount - i);
    arrive_all();
    const auto seen = events();
    ASSERT_EQ(seen.size(), 2u) << "it came, and the entry has gone";
    EXPECT_EQ(seen[0].rlength, 10 + i);
  }
  entry(kInfinite, {});
  uint32_t seen = 0;
  for (int i = 0; i < 100 && seen < kCount - 2; ++i) {
    arrive_all();
    seen += uint32_t(events().size());
  }
  EXPECT_EQ(seen, kCount - 2) << "the rest, and what came from another";
  EXPECT_EQ(drops(Drop::kLazyFull), 0u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: portal 0 holds no message that none of its entries can ever match.
TEST_F(Lazy, portal_0_holds_only_what_its_entries_can_match) {
  bench.open_portal(kReservedPortal, WorkerId{0}, true);
  bench.publish();
  bench.inject(put_header(tcp(1), tcp(2), kReservedPortal, 1, 10, 0, false), tcp(2));
  bench.inject(get_header(tcp(1), tcp(2), kReservedPortal, 2, 10), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.lnd().held.size(), 0u);
  EXPECT_EQ(drops(Drop::kNoMatch), 2u);
  bench.inject(put_header(tcp(1), tcp(2), kReservedPortal, wire::kPingMatchBits, 10, 0, false), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.lnd().held.size(), 1u);
  bench.open_portal(kReservedPortal, WorkerId{0}, false, PortalMode::kClosed);
  bench.publish();
  bench.settle();
  retry_lazy(bench.worker(), kReservedPortal);
  bench.settle();
  arrive_all();
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Lazy, a_lazy_portal_holds_until_an_entry_comes_and_no_more_than_its_bound) {
  bench.open_portal(9, WorkerId{0}, true);
  bench.publish();
  for (uint32_t i = 0; i < kLazyMax + 3; ++i) bench.inject(put_header(tcp(1), tcp(2), 9, 5, 10, 0, false), tcp(2));
  bench.settle();
  EXPECT_EQ(bench.lnd().held.size(), kLazyMax);
  EXPECT_EQ(drops(Drop::kLazyFull), 3u);
  sink(8192, kMdPut, 5);
  const uint32_t share = (bench.worker().incoming.capacity() - bench.worker().incoming_reserve()) / 2;
  EXPECT_EQ(bench.lnd().held.size(), kLazyMax - share) << "as many as one peer may have at once are received";
  unsigned seen = 0;
  for (int i = 0; i < 100 && seen < kLazyMax; ++i) {
    arrive_all();
    seen += unsigned(events().size());
  }
  EXPECT_EQ(seen, kLazyMax);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// A message that waits on a lazy portal of its own node ends like any other, and its memory comes back. An entry that
// is attached later gets an event with an error, because the message is lost.
TEST_F(Lazy, a_put_to_oneself_that_nobody_takes_ends_in_time) {
  bench.open_portal(9, WorkerId{0}, true);
  bench.publish();
  for (const bool ack : {true, false}) {
    std::array<std::byte, 64> source{};
    Segment segment{source.data(), source.size()};
    const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
    ASSERT_TRUE(submitter->put({.md = md, .target = {kLoNid, kLnetPid}, .portal = 9, .match_bits = 5, .ack = ack}));
    ASSERT_TRUE(submitter->unlink(md));
    EXPECT_TRUE(events().empty());
    bench.advance(bench.worker().view->node.transaction_timeout + 10ms);
    const auto seen = events();
    ASSERT_EQ(seen.size(), 2u) << ack;
    EXPECT_TRUE(seen[0].final);
    EXPECT_EQ(seen[0].kind, ack ? EventKind::kAck : EventKind::kSend);
    EXPECT_EQ(seen[0].status, -ETIMEDOUT);
    EXPECT_EQ(seen[1].kind, EventKind::kUnlink);
  }
  sink(4096, kMdPut, 5);
  const auto late = events();
  ASSERT_EQ(late.size(), 2u);
  for (const Event& event : late) EXPECT_NE(event.status, 0);
  EXPECT_EQ(submitter->mds_in_use(), 1u);
}

}  // namespace
}  // namespace ulnet::test
