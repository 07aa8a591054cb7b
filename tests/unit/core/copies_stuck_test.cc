// The path of a request is down, and a driver has the request, or receives its REPLY. The driver gives it back, and it
// takes another path (dataplane/stages/copies.h).
#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/stages/copies.h"
#include "tests/unit/core/copies_rig.h"

namespace ulnet::test {
namespace {

/// The path of a request or of its REPLY is down for 1 s, and the driver has it.
struct CopiesStuck : CopiesSent {
  void path_down() {
    bench.set_known_down(hop, true);
    bench.publish();
    bench.lnd().cancelled.clear();
    bench.lnd().diverted.clear();
    pass(kStuckMax - 2 * kSilenceLook);
    EXPECT_TRUE(bench.lnd().cancelled.empty() && bench.lnd().diverted.empty()) << "not yet";
    pass(4 * kSilenceLook);
  }
  void path_up() {
    bench.set_known_down(hop, false);
    bench.publish();
  }
  /// The rail of the request goes down or comes back, as its node says, and time passes.
  void flap(bool down, Duration time) {
    bench.set_known_down(hop, down);
    bench.publish();
    bench.settle();  // the message of control comes later
    bench.tell(WorkerId{0}, AvoidPeerMsg{&bench.slice(hop), down});
    pass(time);
  }
  /// No copy leaves.
  void pass(Duration time) {
    for (const Instant end = bench.now + time; bench.now < end; bench.advance(10ms)) bench.settle();
  }
};

// Goal: the transport has begun to send a request, or waits for a connection, and its rail goes down. The driver has to
// give the request back, and then it takes the other rail. The peer cannot have it, so this is no copy.
TEST_F(CopiesStuck, a_request_that_the_driver_has_comes_back) {
  for (const bool begun : {true, false}) {
    Tx& tx = send(spec());
    path_down();
    EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, true}}));
    end_lease(tx,
              begun ? Completion{-EHOSTUNREACH, LndStatus::kRemoteDropped} : Completion{-ECANCELED, LndStatus::kOk});
    ASSERT_EQ(bench.lnd().sent.size(), 1u);
    EXPECT_EQ(copy().next_hop, other_rail());
    EXPECT_FALSE(marked(copy()));
    end_lease(copy(), {});
    answer(first, other_rail());
    EXPECT_EQ(ended(), 0);
    path_up();
  }
  expect_rest();
}

TEST_F(CopiesStuck, a_request_that_is_sent_in_time_stays) {
  Tx& tx = send(spec());
  bench.set_known_down(hop, true);
  bench.publish();
  pass(kStuckMax - 2 * kSilenceLook);
  path_up();
  pass(kJustBack + kSilenceLook);
  bench.set_known_down(hop, true);
  bench.publish();
  pass(kStuckMax - 2 * kSilenceLook);
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  path_up();
  end_lease(tx, {});
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the rail goes down and comes back again and again, and the connection stays silent: TCP waits for its next
// attempt. The time that it is down is counted together.
TEST_F(CopiesStuck, a_request_on_a_rail_that_comes_and_goes_comes_back) {
  Tx& tx = send(spec());
  const std::pair<Tx*, bool> forced{&tx, true};
  const auto closes = [&] { return std::count(bench.lnd().cancelled.begin(), bench.lnd().cancelled.end(), forced); };
  for (int times = 0; times < 6; ++times) {
    flap(true, kStuckMax / 4);
    EXPECT_EQ(closes(), times < 4 ? 0 : 1) << times;
    if (closes() > 0) break;
    flap(false, kStuckMax / 2);
    EXPECT_EQ(closes(), 0) << times;
  }
  path_up();
  end_lease(tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_EQ(copy().next_hop, other_rail());
  EXPECT_FALSE(marked(copy()));
  end_lease(copy(), {});
  answer(first, other_rail());
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: a rail was down for a moment, and is down again later, for less than kStuckMax. The driver keeps the request
// longer than that, since there may be no room at the peer.
TEST_F(CopiesStuck, a_request_on_a_rail_that_was_down_for_a_moment_stays) {
  Tx& tx = send(spec());
  flap(true, kSilenceLook);
  flap(false, kJustBack + kStuckMax);
  flap(true, kStuckMax - 2 * kSilenceLook);
  flap(false, kStuckMax);
  EXPECT_EQ(std::count(bench.lnd().cancelled.begin(), bench.lnd().cancelled.end(), std::pair<Tx*, bool>{&tx, true}), 0);
  end_lease(tx, {});
  answer(first, hop);
  while (!bench.lnd().sent.empty()) end_lease(copy(), {});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the request was sent again, since its first rail failed, and that rail is well again. Its second one goes down
// while the driver has the request. Then the request takes the first rail again.
TEST_F(CopiesStuck, a_request_goes_back_to_a_rail_that_is_well_again) {
  for (const bool begun : {true, false}) {
    SCOPED_TRACE(begun);
    end_lease(send(spec()), {-ECONNREFUSED, LndStatus::kRemoteDropped});
    const Nid rail = hop;
    hop = copy().next_hop;
    ASSERT_NE(hop, rail);
    Tx& tx = copy();
    if (begun) {
      path_down();
      EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, true}}));
      end_lease(tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
    } else {
      flap(true, 1ms);
      end_lease(tx, {-ECANCELED, LndStatus::kOk});
    }
    ASSERT_EQ(bench.lnd().sent.size(), 1u);
    EXPECT_EQ(copy().next_hop, rail);
    EXPECT_FALSE(copy().stays);
    EXPECT_FALSE(marked(copy()));
    end_lease(copy(), {});
    answer(first, rail);
    EXPECT_EQ(ended(), 0);
    flap(false, 2 * kJustBack);
  }
  expect_rest();
}

// Goal: the rail of the REPLY was down for long, and the rest of the REPLY has come. That says nothing about the rail
// of the request, which the driver still has.
TEST_F(CopiesStuck, the_time_of_a_reply_is_not_that_of_its_request) {
  Tx& tx = send(spec(), true);
  RxSlot& slot = answer(first, other_rail());
  bench.set_known_down(other_rail(), true);
  bench.publish();
  pass(kStuckMax - 2 * kSilenceLook + 20ms);
  bench.set_known_down(other_rail(), false);
  bench.lnd().complete_rx(slot, 0, 0x11);
  path_down();
  EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, true}}));
  end_lease(tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the request was stuck on a rail whose connection then ended, and has taken another one since.
TEST_F(CopiesStuck, the_time_starts_again_with_each_rail) {
  third_rail();
  Tx& tx = send(spec());
  bench.set_known_down(hop, true);
  bench.publish();
  pass(kStuckMax - 2 * kSilenceLook + 20ms);  // no look follows until the next rail is down
  end_lease(tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  hop = copy().next_hop;
  path_down();  // checks that this takes as long
  end_lease(copy(), {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  end_lease(copy(), {});
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the REPLY comes over the rail of the first GET, which is well again, and not over that of the copy. Then that
// rail goes down again, and the rail of the copy is another path.
TEST_F(CopiesStuck, a_reply_over_another_rail_than_the_copy_does_not_come_further) {
  await(spec(), true);
  bench.set_known_down(hop, true);
  bench.publish();
  ASSERT_TRUE(copy_within(2 * kSilenceLook));
  end_lease(copy(), {});
  path_up();
  RxSlot& slot = answer(first, hop);
  path_down();
  EXPECT_EQ(bench.lnd().diverted, std::vector<RxSlot*>{&slot});
  bench.lnd().complete_rx(slot, -ECANCELED);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_EQ(copy().next_hop, other_rail());
  expect_answer_to_copy(0x11);
}

// Goal: a rail is back, and the driver keeps a request that was issued since then. There may be no room at the peer.
TEST_F(CopiesStuck, a_request_on_a_rail_that_is_just_back_stays) {
  for (const bool avoid : {true, false})
    for (const Nid& rail : {tcp(2), tcp(3)}) bench.tell(WorkerId{0}, AvoidPeerMsg{&bench.slice(rail), avoid});
  bench.settle();
  Tx& tx = send(spec());
  pass(kStuckMax);
  bench.set_known_down(hop, true);
  bench.publish();
  pass(kStuckMax - 2 * kSilenceLook);
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  path_up();
  end_lease(tx, {});
  answer(first, hop);
  while (!bench.lnd().sent.empty()) end_lease(copy(), {});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the path counts as down, but bytes still move over its connection. Slow is not stuck.
TEST_F(CopiesStuck, a_request_whose_connection_moves_stays) {
  Tx& tx = send(spec());
  bench.lnd().moves = true;
  bench.set_known_down(hop, true);
  bench.publish();
  pass(10s);
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  EXPECT_EQ(tx.message->recall.load(), Recall::kNone) << "a failure of its own takes no path twice";
  bench.lnd().moves = false;
  pass(kStuckMax + 4 * kSilenceLook);
  EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, true}}));
  end_lease(tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  end_lease(copy(), {});
  answer(first, other_rail());
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: one connection has several requests that are stuck. The first that comes back ends it, and so all others. They
// are leases of other workers by then, or of this one over a path that is well: nothing more happens to them.
TEST_F(CopiesStuck, requests_that_ended_with_the_first_are_left_alone) {
  bench.node.retry_count = 5;
  third_rail();
  std::vector<Tx*> stuck;
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(submitter->put(spec()));
  bench.settle();
  const Nid down = bench.lnd().sent.at(0)->next_hop;
  for (Tx* tx : bench.lnd().sent)
    if (tx->next_hop == down) stuck.push_back(tx);
  ASSERT_GE(stuck.size(), 2u);
  bench.set_known_down(down, true);
  bench.publish();
  bench.lnd().on_cancel = [&] {
    for (Tx* tx : std::exchange(stuck, {})) bench.lnd().complete_tx(*tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  };
  pass(3 * kStuckMax);
  EXPECT_EQ(bench.lnd().cancelled.size(), 1u);
  bench.lnd().on_cancel = {};
  ASSERT_EQ(bench.lnd().sent.size(), 6u);
  for (const Tx* tx : bench.lnd().sent) EXPECT_NE(tx->next_hop, down);
  while (!bench.lnd().sent.empty()) {
    const wire::Header header = copy().header;
    end_lease(copy(), {});
    answer(header, header.dest_nid);
  }
  EXPECT_EQ(events().size(), 6u);
  expect_rest();
}

// Goal: the end of a connection would lose what else waits in it, and only such a peer gets it again.
TEST_F(CopiesStuck, a_request_to_a_peer_that_takes_no_copies_stays) {
  bench.set_knows_copies(tcp(2), false);
  bench.publish();
  Tx& tx = send(spec());
  bench.set_known_down(hop, true);
  bench.publish();
  pass(10s);
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  end_lease(tx, {});
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
}

// Goal: the ACK of the first has come, and the copy is stuck: nothing holds up the event any longer.
TEST_F(CopiesStuck, a_copy_that_the_driver_has_comes_back) {
  await(spec());
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  Tx& tx = copy();
  answer(first, hop);
  set_health(hop, 1000);
  hop = tx.next_hop;
  path_down();
  EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, true}}));
  EXPECT_EQ(ended(), 1);
  end_lease(tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the same, but no path is left: TCP may still bring what else waits in the connection of the copy.
TEST_F(CopiesStuck, a_copy_that_the_driver_has_stays_without_another_path) {
  await(spec());
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  Tx& tx = copy();
  answer(first, hop);
  for (const Nid& rail : {tcp(2), tcp(3)}) bench.set_known_down(rail, true);
  bench.publish();
  bench.lnd().cancelled.clear();
  pass(5 * kStuckMax);
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  end_lease(tx, {});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: an attempt after a failure counts as a retry, so without one the driver keeps the request. With its ACK here,
// the request needs none.
TEST_F(CopiesStuck, without_a_retry_only_what_is_answered_comes_back) {
  bench.node.retry_count = 1;
  bench.publish();
  end_lease(send(spec()), {-ECONNREFUSED, LndStatus::kRemoteDropped});  // the retry
  Tx& tx = copy();
  const wire::Header second = tx.header;
  bench.set_known_down(tx.next_hop, true);
  bench.publish();
  pass(5 * kStuckMax);
  EXPECT_TRUE(bench.lnd().cancelled.empty());
  answer(second, tx.next_hop);
  pass(kStuckMax / 2);
  EXPECT_EQ(bench.lnd().cancelled, (std::vector<std::pair<Tx*, bool>>{{&tx, true}}));
  end_lease(tx, {-EHOSTUNREACH, LndStatus::kRemoteDropped});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the payload of a REPLY stops coming in the middle. The rest of it is not waited for.
TEST_F(CopiesStuck, a_reply_that_does_not_come_further_leads_to_a_copy) {
  await(spec(), true);
  RxSlot& slot = answer(first, hop);
  ASSERT_EQ(bench.lnd().receiving.size(), 1u);
  path_down();
  EXPECT_EQ(bench.lnd().diverted, std::vector<RxSlot*>{&slot});
  bench.lnd().complete_rx(slot, -ECANCELED);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_TRUE(marked(copy()));
  EXPECT_EQ(copy().next_hop, other_rail());
  expect_answer_to_copy(0x11);
  EXPECT_EQ(memory[63], std::byte{0x11});
}

// Goal: the same, while the lease of the GET is out. When it comes back, a copy leaves.
TEST_F(CopiesStuck, a_reply_does_not_come_further_while_the_driver_has_the_get) {
  Tx& tx = send(spec(), true);
  RxSlot& slot = answer(first, hop);
  path_down();
  EXPECT_EQ(bench.lnd().diverted, std::vector<RxSlot*>{&slot});
  bench.lnd().complete_rx(slot, -ECANCELED);
  bench.settle();
  end_lease(tx, {});
  ASSERT_TRUE(copy_within(1s));
  expect_answer_to_copy(0x11);
}

// Goal: there is no other path. Then TCP may still bring the message when the path is back.
TEST_F(CopiesStuck, nothing_comes_back_without_another_path) {
  for (const Nid& peer : {tcp(2), tcp(4)}) {  // the second has one NI
    bench.set_knows_copies(peer);
    bench.set_known_down(tcp(2), true);
    bench.set_known_down(tcp(3), true);
    bench.set_known_down(tcp(4), true);
    bench.publish();
    PutSpec one = spec();
    one.target.nid = peer;
    Tx& tx = send(one, true);
    pass(10s);
    EXPECT_TRUE(bench.lnd().cancelled.empty());
    end_lease(tx, {});
    RxSlot& slot = answer(first, hop);
    pass(10s);
    EXPECT_TRUE(bench.lnd().diverted.empty() && bench.lnd().sent.empty());
    bench.lnd().complete_rx(slot, 0, 0x11);
    EXPECT_EQ(ended(), 0);
  }
  expect_rest();
}

// Goal: while the driver gives a REPLY back, the peer turns into one that takes no copies. The GET does not fail for
// that: it waits.
TEST_F(CopiesStuck, a_get_waits_for_a_path_after_its_reply_stopped) {
  await(spec(), true);
  RxSlot& slot = answer(first, hop);
  path_down();
  ASSERT_EQ(bench.lnd().diverted.size(), 1u);
  bench.set_knows_copies(tcp(2), false);
  bench.publish();
  bench.lnd().complete_rx(slot, -ECANCELED);
  bench.settle();
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(ended(), 1);
  answer(first, hop);
  bench.lnd().complete_rx(*bench.lnd().receiving.at(0), 0, 0x11);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

}  // namespace
}  // namespace ulnet::test
