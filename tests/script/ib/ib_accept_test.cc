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

}  // namespace
}  // namespace ulnet::test
