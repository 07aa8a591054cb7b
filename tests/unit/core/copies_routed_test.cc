// Copies of requests that go through gateways (dataplane/stages/copies.h): another gateway takes the copy.
#include <gtest/gtest.h>

#include "dataplane/stages/copies.h"
#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

/// A peer behind two gateways, each with one NI.
struct CopiesRouted : CoreTest {
  CopiesRouted() {
    bench.add_peer(far);
    bench.set_knows_copies(far);
    for (const Nid& gateway : {tcp(2), tcp(3)}) bench.add_route(far.net(), gateway);
    bench.node.fast_detection = true;
    bench.publish();
    const Segment segment{memory.data(), 64};
    md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
  }
  const Nid far = Nid::v4(Net::of(NetType::kTcp, 2), 0x0A020005u);
  MdHandle md;
};

// Goal: a request waits over a gateway that is believed dead, by its route or its NI. A copy takes the other gateway.
TEST_F(CopiesRouted, a_copy_takes_the_other_gateway) {
  for (const bool by_route : {true, false}) {
    EXPECT_TRUE(submitter->put({.md = md, .target = {far, kLnetPid}, .portal = 5}));
    bench.settle();
    Tx& tx = *bench.lnd().sent.at(0);
    const Nid first = tx.next_hop, other = first == tcp(2) ? tcp(3) : tcp(2);
    bench.lnd().complete_tx(tx, {});
    bench.advance(1s);
    bench.settle();
    EXPECT_TRUE(bench.lnd().sent.empty()) << "both are well";
    if (by_route)
      bench.set_alive(first, false);
    else
      bench.set_down(first, true);
    bench.publish();
    bench.advance(1s);
    bench.settle();
    ASSERT_EQ(bench.lnd().sent.size(), 1u);
    EXPECT_EQ(tx.next_hop, other);
    EXPECT_EQ(tx.header.dest_nid, far);
    EXPECT_TRUE(is_copy(tx.header.put().ack_wmd));
    wire::Header ack = tx.header;
    become_response(ack, MsgType::kAck);
    ack.set(wire::AckBody{tx.header.put().ack_wmd, 0, 64});
    send_all();
    bench.inject(ack, other);
    const std::vector<Event> all = events();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, 0);
    bench.set_alive(first, true);
    bench.set_down(first, false);
    bench.publish();
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
