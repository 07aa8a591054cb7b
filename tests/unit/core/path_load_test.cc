// Path selection follows what the worker itself has under way.
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

constexpr WorkerId kHome{0}, kOther{1};

/// Two NIs of a peer, both served by the other worker, and messages of the home worker to them.
struct CorePathLoad : ::testing::Test {
  CorePathLoad() {
    for (const Nid& nid : {tcp(2), tcp(3)}) {
      bench.add_peer(nid, kOther);
      bench.join(tcp(2), nid);
    }
    bench.publish();
    submitter = &bench.submitter(kHome);
    md = *submitter->md_bind({.segments = {&segment, 1}});
    bench.settle();
  }
  ~CorePathLoad() override { EXPECT_EQ(bench.not_at_rest(), ""); }
  void put(unsigned count, bool ack = false) {
    for (unsigned i = 0; i < count; ++i)
      ASSERT_TRUE(submitter->put({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1, .ack = ack}));
    bench.turn(kHome);
    bench.settle();
  }
  std::vector<Tx*> sent_to(const Nid& nid) {
    std::vector<Tx*> found;
    for (Tx* tx : bench.lnd(kOther).sent)
      if (tx->next_hop == nid) found.push_back(tx);
    return found;
  }
  void complete(const std::vector<Tx*>& all, Completion how = {}) {
    for (Tx* tx : all) bench.lnd(kOther).complete_tx(*tx, how);
    bench.settle();
  }

  Bench bench{{.workers = 2, .peer_credits = 8}};
  std::array<std::byte, 64> memory{};
  Segment segment{memory.data(), 64};
  Submitter* submitter = nullptr;
  MdHandle md;
};

// Goal: of two rails, the next message takes the one where fewer of this worker's messages are under way.
TEST_F(CorePathLoad, fewer_under_way_goes_first) {
  put(8);
  EXPECT_EQ(sent_to(tcp(2)).size(), 4u);
  EXPECT_EQ(sent_to(tcp(3)).size(), 4u);
  complete(sent_to(tcp(2)));
  put(4);
  EXPECT_EQ(sent_to(tcp(2)).size(), 4u) << "0 under way against 4";
  EXPECT_EQ(sent_to(tcp(3)).size(), 4u);
  put(2);
  EXPECT_EQ(sent_to(tcp(2)).size(), 5u) << "both have as many";
  complete(sent_to(tcp(2)));
  complete(sent_to(tcp(3)));
}

// Goal: of two peer NIs with different credits, the next message takes the one with more free credits.
TEST_F(CorePathLoad, free_credits_count) {
  bench.slice(tcp(3)).credits.set_total(4);
  bench.publish();
  put(8);
  EXPECT_EQ(sent_to(tcp(2)).size(), 6u);
  EXPECT_EQ(sent_to(tcp(3)).size(), 2u);
  complete(sent_to(tcp(2)));
  complete(sent_to(tcp(3)));
}

// Goal: a request counts until its answer is here, or it fails: the payload of a GET comes after its lease is back.
TEST_F(CorePathLoad, requests_count_until_they_are_answered) {
  put(2, true);
  const wire::Header request = sent_to(tcp(2)).front()->header;
  complete(sent_to(tcp(2)));
  complete(sent_to(tcp(3)));
  EXPECT_EQ(bench.local(tcp(2), kHome).tally->under_way(), 1u);
  EXPECT_EQ(bench.local(tcp(3), kHome).tally->under_way(), 1u);
  EXPECT_EQ(bench.local(tcp(2), kOther).tally->under_way(), 0u);
  wire::Header ack;
  ack.type = wire::MsgType::kAck;
  ack.dest_nid = tcp(1);
  ack.src_nid = tcp(2);
  ack.set(wire::AckBody{request.put().ack_wmd, 1, 64});
  bench.inject(ack, tcp(2));
  bench.settle();
  EXPECT_EQ(bench.local(tcp(2), kHome).tally->under_way(), 0u);
  put(1, true);
  put(1, true);
  EXPECT_EQ(sent_to(tcp(2)).size(), 1u);
  EXPECT_EQ(sent_to(tcp(3)).size(), 1u) << "as many are under way on both, and it is its turn";
  complete(sent_to(tcp(2)), {-ETIMEDOUT, LndStatus::kRemoteTimeout});
  complete(sent_to(tcp(3)), {-ETIMEDOUT, LndStatus::kRemoteTimeout});
  bench.now += 1000s;
  bench.settle();
}

}  // namespace
}  // namespace ulnet::test
