// The bounds on what is parked for peers that control has to look up: in messages of one peer, and in peers.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kPeers = 4;

struct ParkedTest : ::testing::Test {
  ParkedTest() : bench({.operations = 2 * kParkedPerPeerMax, .parked_peers = kPeers}) {
    bench.add_peer(tcp(2));
    bench.publish();
    submitter = &bench.submitter(WorkerId{0});
    eq = *submitter->eq_open(2 * kParkedPerPeerMax);
    const Segment segment{memory.data(), 64};
    md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
    bench.settle();
  }
  /// Returns its number.
  uint64_t put(const Nid& to) {
    const uint64_t number = next_++;
    EXPECT_TRUE(submitter->put({.md = md, .target = {to, kLnetPid}, .portal = 1, .ack = false, .user_data = number}));
    bench.settle();
    return number;
  }
  /// How each operation ended, by number; of one that has more than one end, all.
  std::multimap<uint64_t, int32_t>& ends() {
    bench.settle();
    Event event;
    while (submitter->eq_poll(eq, {&event, 1}) == 1)
      if (event.final) ends_.emplace(event.user_data, event.status);
    return ends_;
  }
  void resolved(const Nid& nid, int32_t error = 0) {
    bench.tell(WorkerId{0}, ResolvedMsg{nid, error});
    bench.settle();
  }
  void send_all() {
    while (!bench.lnd().sent.empty()) {
      bench.lnd().complete_tx(*bench.lnd().sent[0], {});
      bench.settle();
    }
  }
  uint64_t refused() { return bench.worker().counters[TurnStat::kParkedRefused].get(); }

  Bench bench;
  Submitter* submitter;
  EqHandle eq;
  MdHandle md;
  std::array<std::byte, 64> memory{};
  uint64_t next_ = 1;
  std::multimap<uint64_t, int32_t> ends_;
};

// Goal: beyond the bound of a peer each message ends at once, once, with ENOBUFS; those parked before it, and those for
// others, are not touched.
TEST_F(ParkedTest, messages_beyond_the_bound_of_one_peer_are_refused_alone) {
  for (uint32_t i = 0; i < kParkedPerPeerMax; ++i) put(tcp(9));
  EXPECT_TRUE(ends().empty());
  std::multimap<uint64_t, int32_t> expected;
  for (int i = 0; i < 5; ++i) expected.emplace(put(tcp(9)), -ENOBUFS);
  const uint64_t known = put(tcp(2)), other = put(tcp(8));
  EXPECT_EQ(ends(), expected);
  EXPECT_EQ(refused(), 5u);
  EXPECT_EQ(bench.take_control_items().size(), 2u) << "control is asked once for each peer";
  bench.add_peer(tcp(8));
  bench.add_peer(tcp(9));
  bench.publish();
  for (const Nid& nid : {tcp(8), tcp(9)}) resolved(nid);
  send_all();
  for (uint64_t number = 1; number <= kParkedPerPeerMax; ++number) expected.emplace(number, 0);
  expected.emplace(known, 0);
  expected.emplace(other, 0);
  EXPECT_EQ(ends(), expected);
  EXPECT_EQ(refused(), 5u);
  EXPECT_TRUE(bench.worker().parked.empty());
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the same for peers; when one has been looked up there is room for another.
TEST_F(ParkedTest, peers_beyond_the_bound_are_refused_alone) {
  std::multimap<uint64_t, int32_t> expected;
  for (uint32_t i = 0; i < kPeers; ++i) expected.emplace(put(tcp(10 + i)), -EHOSTUNREACH);
  EXPECT_TRUE(ends().empty());
  std::multimap<uint64_t, int32_t> at_once;
  for (uint32_t i = 0; i < 3; ++i) at_once.emplace(put(tcp(20 + i)), -ENOBUFS);
  EXPECT_EQ(ends(), at_once);
  EXPECT_EQ(refused(), 3u);
  expected.emplace(put(tcp(10)), -EHOSTUNREACH);  // of a peer that has room
  EXPECT_EQ(ends(), at_once);
  EXPECT_EQ(bench.take_control_items().size(), kPeers) << "control is not asked in vain";
  resolved(tcp(10), -EHOSTUNREACH);
  EXPECT_EQ(ends().size(), at_once.size() + 2);
  expected.emplace(put(tcp(20)), -EHOSTUNREACH);
  EXPECT_EQ(refused(), 3u);
  for (uint32_t i = 1; i < kPeers; ++i) resolved(tcp(10 + i), -EHOSTUNREACH);
  resolved(tcp(20), -EHOSTUNREACH);
  expected.merge(at_once);
  EXPECT_EQ(ends(), expected);
  EXPECT_TRUE(bench.worker().parked.empty());
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
