// Path selection follows the load of interfaces that other workers serve, though their gauges are read once per turn.
#include <gtest/gtest.h>

#include "dataplane/select/path.h"
#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr WorkerId kHome{0}, kOther{1};

/// Two NIs here, and two of a peer, all on one net and all served by the other worker.
struct Rails {
  Rails() {
    for (uint32_t i = 0; i < 2; ++i) {
      NiView ni;
      ni.id = NiId{i + 1};
      ni.nid = tcp(i + 1);
      for (auto& slice : slices[i]) ni.slices.push_back(&slice);
      local.nis.push_back(ni);
      PeerNiView far;
      far.nid = tcp(i + 11);
      far.server = kOther;
      far.slice = &peer_slices[i];
      far.locals = pointers[i].data();
      peer.nis.push_back(far);
    }
    local.nets.push_back({kTcp, kNoPriority, 0, 2});
    peer.nets.push_back({kTcp, kNoPriority, 0, 2});
    peer.multi_rail = true;
    const uint64_t hash = tcp(11).hash();
    leaf.entries.push_back({tcp(11), {&peer, 0}});
    branch.leaves[PeerTable::child(hash, 2)] = &leaf;
    limb.branches[PeerTable::child(hash, 1)] = &branch;
    table.limbs[PeerTable::child(hash, 0)] = &limb;
    set.local = &local;
    set.peers = &table;
    set.routes = &routes;
  }
  /// Which of the two NIs, and of the peer's, a PUT takes in this turn of the home worker.
  std::pair<int, int> choose(uint32_t turn) {
    PathRequest request;
    request.dst = tcp(11);
    const PathChoice choice = choose_path(set, request, {kHome, nullptr, turn});
    EXPECT_EQ(choice.kind, PathKind::kPath);
    return {int(choice.ni - local.nis.data()), int(choice.hop - peer.nis.data())};
  }

  std::array<std::array<NiSlice, 2>, 2> slices{
      {{NiSlice{NiId{1}, 8, 1}, NiSlice{NiId{1}, 8, 1}}, {NiSlice{NiId{2}, 8, 1}, NiSlice{NiId{2}, 8, 1}}}};
  std::array<PeerSlice, 2> peer_slices{PeerSlice{PeerNiId{1}, 8, 8}, PeerSlice{PeerNiId{2}, 8, 8}};
  std::array<std::array<PeerLocal, 2>, 2> locals;
  std::array<std::array<PeerLocal*, 2>, 2> pointers{{{&locals[0][0], &locals[0][1]}, {&locals[1][0], &locals[1][1]}}};
  LocalView local;
  PeerView peer;
  PeerTable::Leaf leaf;
  PeerTable::Branch branch;
  PeerTable::Limb limb;
  PeerTable table;
  RouteTable routes;
  ViewSet set;
};

// Goal: a choice follows what the gauges said at the first choice of its turn; without a turn, what they say now.
TEST(CorePathLoad, gauges_are_read_once_per_turn) {
  Rails rails;
  rails.slices[0][kOther.value].credits.set_total(3);  // the gauge that counts is that of the worker which sends
  rails.slices[1][kHome.value].credits.set_total(1);
  rails.peer_slices[1].credits.set_total(3);
  EXPECT_EQ(rails.choose(1), std::pair(1, 0));
  rails.slices[0][kOther.value].credits.set_total(9);
  rails.peer_slices[1].credits.set_total(9);
  EXPECT_EQ(rails.choose(1), std::pair(1, 0)) << "the same turn";
  EXPECT_EQ(rails.choose(0), std::pair(0, 1));
  EXPECT_EQ(rails.choose(2), std::pair(0, 1)) << "the next turn";
}

// Goal: messages of one turn go to the rail with more credits only until both have as many left; then they take turns.
// A rail whose credits come back gets more in the next turn.
TEST(CorePathLoad, messages_of_one_turn_spread) {
  Bench bench({.workers = 2, .peer_credits = 8});
  bench.add_peer(tcp(2), kOther);
  bench.add_peer(tcp(3), kOther).credits.set_total(4);
  bench.join(tcp(2), tcp(2));
  bench.join(tcp(2), tcp(3));
  bench.publish();
  Submitter& s = bench.submitter(kHome);
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  const MdHandle md = *s.md_bind({.segments = {&segment, 1}});
  bench.settle();
  const auto put = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      ASSERT_TRUE(s.put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = false}));
    bench.turn(kHome);
    bench.settle();
  };
  const auto sent_to = [&](const Nid& nid) {
    return std::count_if(bench.lnd(kOther).sent.begin(), bench.lnd(kOther).sent.end(),
                         [&](const Tx* tx) { return tx->next_hop == nid; });
  };
  put(8);
  EXPECT_EQ(sent_to(tcp(2)), 6);
  EXPECT_EQ(sent_to(tcp(3)), 2);
  for (Tx* tx : std::vector<Tx*>(bench.lnd(kOther).sent))
    if (tx->next_hop == tcp(2)) bench.lnd(kOther).complete_tx(*tx, {});
  bench.settle();
  put(4);
  EXPECT_EQ(sent_to(tcp(2)), 4) << "8 credits against 2";
  EXPECT_EQ(sent_to(tcp(3)), 2);
  for (Tx* tx : std::vector<Tx*>(bench.lnd(kOther).sent)) bench.lnd(kOther).complete_tx(*tx, {});
  bench.settle();
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
