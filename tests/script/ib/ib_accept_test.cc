// Requests of strangers, and of peers that have come back: docs/decisions.md #117.
#include "tests/script/ib/ib_nodes.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

class IbAccept : public IbNodes {};

// Goal: a stranger with the NID of a peer and another stamp does not end the connections of the peer.
TEST_F(IbAccept, a_stranger_ends_no_connection_of_a_peer) {
  IbNode& a = add(0);
  add(1);
  a.put(1, 1, 100);
  pass();
  ASSERT_EQ(a.control->ni_connections(NiId{1}), 1u);
  IbStranger stranger(net, 2);
  stranger.request(0, ib_nid(1), 4711, now);
  pass_with(stranger);
  EXPECT_EQ(stranger.rejects, std::vector{RejectReason::kConnStale});
  EXPECT_TRUE(a.downs.empty());
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 1u);
  EXPECT_EQ(a.logged, std::vector<std::string>{
                          "o2iblnd: request of 10.0.0.2@o2ib (10.0.0.3) is rejected (CONN_STALE): the peer has "
                          "connections of another life"});
}

// Goal: requests without end from one address do not keep others out (compare docs/decisions.md #50). The oldest
// connection of the address with the most gives way.
TEST_F(IbAccept, half_open_connections_of_the_address_with_the_most_give_way) {
  IbNodeOptions few;
  few.config.half_open_max = 3;
  IbNode& a = add(0, few);
  IbStranger quiet(net, 3), loud(net, 2);
  request_and_hang(quiet, 0, {ib_nid(30)}, 1);
  request_and_hang(loud, 0, {ib_nid(20), ib_nid(21)}, 1);
  const auto has = [&](unsigned node) { return a.control->connections(NiId{1}, ib_nid(node)).size(); };
  EXPECT_EQ(has(30) + has(20) + has(21), 3u);
  add(1);
  IbTx& tx = nodes[1]->put(0, 1, 100);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_EQ(has(30), 1u);
  EXPECT_EQ(has(20), 0u);
  EXPECT_EQ(has(21), 1u);
}

// Goal: a peer NI has as many connections as it may have. From its own address, another replaces the oldest.
TEST_F(IbAccept, a_peer_with_many_connections) {
  IbNodeOptions few;
  few.config.passives_max = 2;
  IbNode& a = add(0, few);
  IbStranger own(net, 1), other(net, 2);
  for (unsigned i = 0; i < 2; ++i) own.request(0, ib_nid(1), ib_stamp(1), now), pass_with(own);
  EXPECT_EQ(own.accepted, 2u);
  other.request(0, ib_nid(1), ib_stamp(1), now);
  pass_with(other);
  EXPECT_EQ(other.rejects, std::vector{RejectReason::kNoResources});
  EXPECT_EQ(a.logged, std::vector<std::string>{
                          "o2iblnd: no room for a connection of 10.0.0.2@o2ib (10.0.0.3): the peer has too many, and "
                          "the request comes from another address"});
  EXPECT_EQ(own.closed, 0u);
  own.request(0, ib_nid(1), ib_stamp(1), now);
  pass_with(own);
  EXPECT_EQ(own.accepted, 3u);
  EXPECT_EQ(own.closed, 1u);
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 2u);
}

// Goal: no connection gives way for a request that is refused.
TEST_F(IbAccept, a_refused_request_costs_no_connection) {
  IbNodeOptions few;
  few.config.passives_max = few.config.conns_max = 2;
  add(0, few);
  IbStranger own(net, 1);
  for (unsigned i = 0; i < 3; ++i) own.request(0, ib_nid(1), ib_stamp(1), now), pass_with(own);
  EXPECT_EQ(own.accepted, 2u);
  EXPECT_EQ(own.rejects, std::vector{RejectReason::kNoResources});
  EXPECT_EQ(own.closed, 0u);

  few.config.passives_max = few.config.half_open_max = 1;
  few.config.conns_max = 100;
  IbNode& b = add(5, few);
  own.request(5, ib_nid(1), ib_stamp(1), now);
  pass_with(own);
  IbStranger quiet(net, 3), other(net, 2);
  request_and_hang(quiet, 5, {ib_nid(30)}, 1);
  other.request(5, ib_nid(1), ib_stamp(1), now);
  pass_with(other);
  EXPECT_EQ(other.rejects, std::vector{RejectReason::kNoResources});
  EXPECT_EQ(b.control->connections(NiId{1}, ib_nid(30)).size(), 1u);
}

// Goal: a stranger that begins connections under the NID of a peer does not keep this node from the peer.
TEST_F(IbAccept, a_stranger_does_not_hold_up_a_message) {
  IbNode& a = add(0);
  add(1);
  IbStranger stranger(net, 2);
  request_and_hang(stranger, 0, {ib_nid(1)}, 1);
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 1u);
  IbTx& tx = a.put(1, 1, 100);
  pass();
  EXPECT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
}

// Goal: one address cannot take all connections of a worker with the NIDs of others.
TEST_F(IbAccept, connections_under_the_nids_of_others_have_a_bound) {
  IbNodeOptions few;
  few.config.foreign_max = 3;
  few.config.conns_max = 4;
  IbNode& a = add(0, few);
  IbStranger stranger(net, 2);
  for (unsigned node = 20; node < 25; ++node) stranger.request(0, ib_nid(node), 1, now), pass_with(stranger);
  EXPECT_EQ(stranger.accepted, 3u);
  EXPECT_EQ(stranger.rejects, std::vector(2, RejectReason::kNoResources));
  add(1);
  IbTx& tx = nodes[1]->put(0, 1, 100);
  pass();
  EXPECT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 4u);
}

}  // namespace
}  // namespace ulnet::test
