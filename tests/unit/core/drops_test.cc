// Drop reasons that need more than a wrong header. Cases: a next hop that fails, a second response, a failed receive,
// an asymmetric route, and an NI that is gone.
#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

const Nid kFar = Nid::v4(Net::of(NetType::kTcp, 9), 1);

struct DropsTest : CoreTest {
  explicit DropsTest(RoutingState routing = RoutingState::kDisabled) : CoreTest({.routing = routing}) {
    bench.add_peer(tcp1(2));
    bench.publish();
    bench.settle();
  }
  MdHandle sink() { return CoreTest::sink(uint32_t(memory.size())); }
};
struct RouterDropsTest : DropsTest {
  RouterDropsTest() : DropsTest(RoutingState::kEnabled) {
    bench.add_router_buffers(WorkerId{0}, {4, 4, 4});
    bench.settle();
  }
};

TEST_F(RouterDropsTest, next_hop_down_no_gateway_leads_there_though_a_route_does) {
  bench.add_route(kFar.net(), tcp1(99));  // there is no peer for this gateway
  bench.publish();
  bench.inject(put_header(kFar, tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  EXPECT_EQ(drops(Drop::kNextHopDown), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(RouterDropsTest, next_hop_down_it_fails_each_time_that_it_is_tried) {
  bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 0), tcp(2));
  bench.settle();
  for (int tries = 0; tries < 10 && !bench.lnd().sent.empty(); ++tries) {
    bench.lnd().complete_tx(*bench.lnd().sent[0], {-EHOSTUNREACH, LndStatus::kRemoteError});
    bench.settle();
  }
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(drops(Drop::kNextHopDown), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(DropsTest, reply_twice_the_second_while_the_first_is_being_received) {
  const Segment segment{memory.data(), 64};
  const MdHandle md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  ASSERT_TRUE(submitter->get({.md = md, .target = {tcp(2), kLnetPid}, .portal = 1}));
  bench.settle();
  wire::Header reply;
  reply.type = wire::MsgType::kReply;
  reply.dest_nid = tcp(1);
  reply.src_nid = tcp(2);
  reply.payload_length = 64;
  reply.set(wire::ReplyBody{bench.lnd().sent.at(0)->header.get().return_wmd});
  bench.lnd().complete_tx(*bench.lnd().sent[0], {});
  bench.inject(reply, tcp(2));
  bench.inject(reply, tcp(2));
  bench.settle();
  EXPECT_EQ(drops(Drop::kReplyTwice), 1u);
  while (!bench.lnd().receiving.empty()) bench.lnd().complete_rx(*bench.lnd().receiving[0], 0, 5);
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].status, 0);
}

TEST_F(DropsTest, receive_failed) {
  sink();
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 1000), tcp(2));
  bench.settle();
  bench.lnd().complete_rx(*bench.lnd().receiving.at(0), -ECONNRESET);
  const auto seen = events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, EventKind::kPut);
  EXPECT_EQ(seen[0].status, -ECONNRESET);
  EXPECT_EQ(drops(Drop::kReceiveFailed), 1u);
  EXPECT_TRUE(bench.lnd().sent.empty()) << "what did not come is not acknowledged";
}

TEST_F(DropsTest, md_unlinked_while_it_is_being_received_into) {
  const MdHandle md = sink();
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 1000), tcp(2));
  bench.settle();
  RxSlot& slot = *bench.lnd().receiving.at(0);
  ASSERT_TRUE(submitter->unlink(md));
  bench.settle();
  ASSERT_EQ(bench.lnd().diverted.size(), 1u);
  bench.lnd().complete_rx(slot, -ECANCELED);
  const auto seen = events();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].kind, EventKind::kPut);
  EXPECT_EQ(seen[0].status, -ECANCELED);
  EXPECT_EQ(seen[1].kind, EventKind::kUnlink);
  EXPECT_EQ(drops(Drop::kMdUnlinked), 1u);
  EXPECT_EQ(drops(Drop::kReceiveFailed), 0u);
}

TEST_F(DropsTest, asymmetric_route_only_when_the_check_is_on) {
  sink();
  for (const bool asked : {false, true}) {
    bench.node.drop_asym_route = asked;
    bench.publish();
    bench.inject(put_header(tcp(1), kFar, 9, 77, 0, 0, false), tcp(2));  // there is no route back through tcp(2)
    EXPECT_EQ(events().size(), asked ? 0u : 1u);
    EXPECT_EQ(drops(Drop::kAsymmetricRoute), asked ? 1u : 0u);
  }
  bench.add_route(kFar.net(), tcp(2));
  bench.publish();
  bench.inject(put_header(tcp(1), kFar, 9, 77, 0, 0, false), tcp(2));
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(drops(Drop::kAsymmetricRoute), 1u);
}

TEST_F(DropsTest, node_stopping_the_ni_that_it_came_over_is_gone) {
  sink();
  bench.inject(put_header(tcp(1), tcp(2), 9, 77, 0), tcp(2)).ni = NiId{99};
  EXPECT_TRUE(events().empty());
  EXPECT_EQ(drops(Drop::kNodeStopping), 1u);
}

}  // namespace
}  // namespace ulnet::test
