// Copies of requests that the peer may have (dataplane/stages/copies.h). A copy leaves at its time, over another path,
// with its mark, and one answer ends the operation. The receiver is in copies_received_test.cc.
#include "dataplane/stages/copies.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/core/copies_rig.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

constexpr int32_t kLost = -ECONNRESET;

// Goal: a request waits on a rail that has become bad. A copy of it, marked, leaves over the other rail when the
// request has waited for kCopyAfter. The first ACK ends the operation, whichever it answers. The second is stale.
TEST_F(CopiesSent, a_copy_leaves_over_the_other_rail_and_either_ack_ends_the_request) {
  for (const bool of_copy : {true, false})
    for (const bool is_out : {false, true}) {
      await(spec());
      set_health(hop, 500);
      EXPECT_FALSE(copy_within(kCopyAfterFault - kSilenceLook));
      ASSERT_TRUE(copy_within(2 * kSilenceLook));
      const wire::Header second = copy().header;
      EXPECT_EQ(copy().next_hop, other_rail());
      EXPECT_EQ(second.dest_nid, other_rail());
      EXPECT_TRUE(marked(copy()));
      EXPECT_FALSE(is_copy(handle_of(first)));
      EXPECT_EQ(handle_of(second).object_cookie, handle_of(first).object_cookie | kCookieCopy);
      EXPECT_EQ(handle_of(second).interface_cookie,
                handle_of(first).interface_cookie | uint64_t{kPeerLife} << kCookieLifeShift);
      EXPECT_EQ(second.put().match_bits, first.put().match_bits);
      EXPECT_EQ(second.payload_length, 64u);
      Tx& tx = copy();
      if (!is_out) end_lease(tx, {});
      answer(of_copy ? second : first, of_copy ? other_rail() : hop);
      if (is_out) {
        EXPECT_EQ(ended(), 1) << "the driver still has the copy";
        end_lease(tx, {});
      }
      EXPECT_EQ(ended(), 0);
      const uint64_t stale = drops(Drop::kStaleHandle);
      answer(of_copy ? first : second, hop);
      EXPECT_EQ(drops(Drop::kStaleHandle), stale + 1);
      EXPECT_EQ(ended(), 1);
      set_health(hop, 1000);
      bench.advance(1s);
    }
  expect_rest();
}

TEST_F(CopiesSent, a_get_waits_on_a_bad_rail) {
  await(spec(), true);
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  EXPECT_TRUE(marked(copy()));
  EXPECT_EQ(copy().next_hop, other_rail());
  expect_answer_to_copy(1);
}

TEST_F(CopiesSent, a_down_peer_ni_is_worse_than_an_ill_one) {
  await(spec());
  bench.set_down(hop, true);
  set_health(other_rail(), 1);
  set_health(hop, 0);
  ASSERT_TRUE(copy_within(2 * kSilenceLook)) << "at once";
  EXPECT_EQ(copy().next_hop, other_rail());
  end_lease(copy(), {});
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
}

// Goal: each rail goes down, one after another, as its node reports. A copy leaves at once each time, however lately
// the last one left.
TEST_F(CopiesSent, a_copy_leaves_at_once_when_the_path_of_the_last_one_goes_down) {
  third_rail();
  await(spec());
  std::vector<Nid> hops{hop};
  for (int rail = 0; rail < 2; ++rail) {
    bench.set_known_down(hops.back(), true);
    bench.publish();
    ASSERT_TRUE(copy_within(2 * kSilenceLook));
    EXPECT_EQ(std::count(hops.begin(), hops.end(), copy().next_hop), 0);
    hops.push_back(copy().next_hop);
    end_lease(copy(), {});
  }
  bench.set_known_down(hops.back(), true);
  bench.publish();
  EXPECT_FALSE(copy_within(100s)) << "all are down";
  answer(first, hops[1]);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

TEST_F(CopiesSent, a_copy_leaves_over_another_ni_of_this_node) {
  bench.add_ni(tcp(100));
  bench.publish();
  await(spec());
  const Nid from = first.src_nid;
  bench.set_fatal(from, true);
  bench.publish();
  ASSERT_TRUE(copy_within(2 * kSilenceLook)) << "at once";
  EXPECT_TRUE(marked(copy()));
  EXPECT_EQ(copy().header.src_nid, from == tcp(1) ? tcp(100) : tcp(1));
  answer(first, hop);
  end_lease(copy(), {});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the rail is well again before the time of the copy, but may have lost the request meanwhile.
TEST_F(CopiesSent, a_copy_leaves_though_the_rail_is_well_again) {
  await(spec());
  set_health(hop, 500);
  EXPECT_FALSE(copy_within(kCopyAfterFault - 2 * kSilenceLook));
  set_health(hop, 1000);
  ASSERT_TRUE(copy_within(1s));
  EXPECT_EQ(copy().next_hop, other_rail());
  end_lease(copy(), {});
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  await(spec());
  EXPECT_FALSE(copy_within(10s)) << "the next request had no failure";
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the connections of a rail that was away may still be silent for a while. One request leaves soon after its
// return, another when that time is over.
TEST_F(CopiesSent, a_copy_leaves_soon_if_the_rail_is_just_back) {
  NiSlice& ni = *bench.worker().view->local->nis[0].slices[0];
  for (const bool of_peer : {true, false}) {
    SCOPED_TRACE(of_peer);
    for (const bool avoid : {true, false}) {
      if (of_peer)
        for (const Nid& rail : {tcp(2), tcp(3)}) bench.tell(WorkerId{0}, AvoidPeerMsg{&bench.slice(rail), avoid});
      else
        bench.tell(WorkerId{0}, AvoidNiMsg{&ni, avoid});
      bench.settle();
    }
    bench.advance(kJustBack - 10ms);
    await(spec());
    EXPECT_FALSE(copy_within(kCopyAfterFault - 10ms));
    ASSERT_TRUE(copy_within(2 * kSilenceLook));
    end_lease(copy(), {});
    answer(first, hop);
    EXPECT_EQ(ended(), 0);
    bench.advance(10ms);
    await(spec());
    EXPECT_FALSE(copy_within(kCopyAfterSilence - 10ms));
    answer(first, hop);
    EXPECT_EQ(ended(), 0);
  }
  expect_rest();
}

TEST_F(CopiesSent, none_while_the_driver_has_the_request) {
  Tx& tx = send(spec());
  set_health(hop, 500);
  bench.advance(10s);
  bench.settle();
  EXPECT_EQ(bench.lnd().sent.size(), 1u);
  end_lease(tx, {});
  EXPECT_TRUE(copy_within(100ms)) << "it has waited long enough";
  answer(first, hop);
  end_lease(copy(), {});
  EXPECT_EQ(ended(), 0);
}

TEST_F(CopiesSent, none_while_its_path_is_well) {
  await(spec());
  set_health(other_rail(), 500);
  expect_no_copy();
}

TEST_F(CopiesSent, none_without_fast_detection) {
  bench.node.fast_detection = false;
  await(spec());
  set_health(hop, 500);
  expect_no_copy();
}

TEST_F(CopiesSent, none_to_a_peer_that_takes_none) {
  bench.set_knows_copies(tcp(2), false);
  await(spec());
  set_health(hop, 500);
  expect_no_copy();
}

// Goal: the peer may have got the first in a life before the one that this node has learned.
TEST_F(CopiesSent, none_if_the_peer_was_started_since) {
  await(spec());
  bench.set_knows_copies(tcp(2), true, bench.now);
  set_health(hop, 500);
  expect_no_copy();
}

TEST_F(CopiesSent, none_to_the_reserved_portal) {
  PutSpec ping = spec();
  ping.portal = kReservedPortal;
  await(ping);
  set_health(hop, 500);
  expect_no_copy();
}

TEST_F(CopiesSent, none_without_another_pair) {
  bench.set_knows_copies(tcp(4));
  PutSpec single = spec();
  single.target.nid = tcp(4);
  await(single);
  set_health(hop, 500);
  expect_no_copy();
}

TEST_F(CopiesSent, none_over_a_path_that_is_no_better) {
  await(spec());
  set_health(other_rail(), 500);
  set_health(hop, 500);
  expect_no_copy();
}

TEST_F(CopiesSent, none_without_retries) {
  bench.node.retry_count = 0;
  await(spec());
  set_health(hop, 500);
  expect_no_copy();
}

TEST_F(CopiesSent, none_of_a_request_whose_md_was_unlinked) {
  await(spec());
  set_health(hop, 500);
  (void)submitter->unlink(md);
  EXPECT_EQ(events().size(), 2u);
  EXPECT_FALSE(copy_within(10s));
  expect_rest();
}

TEST_F(CopiesSent, none_of_a_request_that_is_too_old) {
  await(spec());
  bench.advance(kCopyFor);
  set_health(hop, 500);
  expect_no_copy();
}

TEST_F(CopiesSent, one_after_long_silence_though_nothing_is_wrong_with_the_path) {
  await(spec());
  EXPECT_FALSE(copy_within(kCopyAfterSilence - 1ms));
  EXPECT_TRUE(copy_within(100ms));
  answer(first, hop);
  end_lease(copy(), {});
  EXPECT_EQ(ended(), 0);
}

TEST_F(CopiesSent, the_last_one_of_an_old_request) {
  await(spec());
  bench.advance(kCopyFor - 100ms);
  EXPECT_TRUE(copy_within(50ms));
  answer(first, hop);
  end_lease(copy(), {});
  EXPECT_EQ(ended(), 0);
}

// Goal: nothing would end the copies of a request without a deadline. Neither do its failures lead to copies.
TEST_F(CopiesSent, none_without_a_deadline) {
  md = bind(kMdNoTrack);
  PutSpec tracked = spec();
  tracked.md = bind();
  tracked.target.nid = tcp(4);
  await(tracked);  // so that the worker looks
  const wire::Header other = first;
  await(spec());
  set_health(hop, 500);
  EXPECT_FALSE(copy_within(10s));
  answer(other, tcp(4));
  EXPECT_EQ(ended(), 0);
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  end_lease(send(spec()), {kLost, LndStatus::kRemoteError});
  EXPECT_EQ(ended(), kLost);
  expect_rest();
}

TEST_F(CopiesSent, none_of_a_put_without_ack) {
  PutSpec blind = spec();
  blind.ack = false;
  end_lease(send(blind), {kLost, LndStatus::kRemoteError});
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(ended(), kLost);
}

// Goal: each rail gets bad after the request has left over it. The time from the first request to each copy doubles.
// When each rail has had it, it leaves over another than the last again.
TEST_F(CopiesSent, each_copy_waits_twice_as_long) {
  third_rail();
  const Instant start = bench.now;
  await(spec());
  std::vector<Nid> hops{hop};
  uint16_t health = 900;
  for (const Duration due : {kCopyAfterFault, 2 * kCopyAfterFault, 4 * kCopyAfterFault, 8 * kCopyAfterFault}) {
    set_health(hops.back(), health -= 100);
    ASSERT_TRUE(copy_within(10s));
    EXPECT_GE(bench.now - start, due);
    EXPECT_LE(bench.now - start, due + kSilenceLook);
    EXPECT_TRUE(marked(copy()));
    EXPECT_NE(copy().next_hop, hops.back());
    EXPECT_TRUE(hops.size() >= 3 || std::count(hops.begin(), hops.end(), copy().next_hop) == 0);
    hops.push_back(copy().next_hop);
    end_lease(copy(), {});
  }
  answer(first, hops[1]);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the rail of the first is well again when that of the copy goes down, and so on. The request takes each of them
// more than once.
TEST_F(CopiesSent, a_rail_that_is_well_again_is_taken_again) {
  const auto set_down = [&](bool down) {
    bench.set_known_down(hop, down);
    bench.publish();
  };
  await(spec());
  for (int times = 0; times < 4; ++times) {
    const Nid other = other_rail();
    set_down(true);
    ASSERT_TRUE(copy_within(2 * kSilenceLook)) << times;
    EXPECT_EQ(copy().next_hop, other);
    set_down(false);
    hop = copy().next_hop;
    end_lease(copy(), {});
  }
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the same with a third rail that is down all the time: that it was not tried does not count.
TEST_F(CopiesSent, a_rail_that_is_well_again_is_taken_before_one_that_is_down) {
  third_rail();
  bench.set_known_down(tcp(4), true);
  bench.publish();
  await(spec());
  const Nid rail = hop;
  for (const bool back : {false, true}) {
    bench.set_known_down(hop, true);
    bench.publish();
    ASSERT_TRUE(copy_within(2 * kSilenceLook));
    EXPECT_EQ(copy().next_hop, back ? rail : rail == tcp(2) ? tcp(3) : tcp(2));
    bench.set_known_down(hop, false);
    hop = copy().next_hop;
    end_lease(copy(), {});
  }
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: a copy has left over a rail that is well. The first one's rail says nothing about it.
TEST_F(CopiesSent, the_next_copy_waits_long_if_its_path_is_well) {
  await(spec());
  const Instant start = bench.now;
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  end_lease(copy(), {});
  set_health(hop, 1000);
  EXPECT_FALSE(copy_within(start + 2 * kCopyAfterSilence - bench.now - kSilenceLook));
  EXPECT_TRUE(copy_within(2 * kSilenceLook));
  end_lease(copy(), {});
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: copies of a request that waits are no retries. After a copy, the only retry is still there.
TEST_F(CopiesSent, a_copy_is_no_retry) {
  third_rail();
  bench.node.retry_count = 1;
  bench.publish();
  await(spec());
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  const Nid second = copy().next_hop;
  end_lease(copy(), {kLost, LndStatus::kRemoteDropped});
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_TRUE(copy().next_hop != second && copy().next_hop != hop);
  end_lease(copy(), {kLost, LndStatus::kRemoteDropped});
  EXPECT_TRUE(bench.lnd().sent.empty()) << "that was the retry";
  answer(first, hop);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: a lease fails, and the peer may have the request. A peer that takes copies gets one over another pair, with the
// time of a new message, but not beyond kCopyFor. For another peer, the request fails.
TEST_F(CopiesSent, a_failed_lease_leads_to_a_copy) {
  bench.node.transaction_timeout = 1000s;
  for (const bool knows : {true, false})
    for (const LndStatus status : {LndStatus::kRemoteError, LndStatus::kRemoteTimeout, LndStatus::kNetworkTimeout}) {
      bench.set_knows_copies(tcp(2), knows);
      bench.publish();
      Tx& tx = send(spec());
      const Instant issued = bench.now;
      bench.advance(5s);
      end_lease(tx, {kLost, status});
      if (!knows) {
        EXPECT_TRUE(bench.lnd().sent.empty());
        EXPECT_EQ(ended(), kLost);
        continue;
      }
      ASSERT_EQ(bench.lnd().sent.size(), 1u);
      EXPECT_TRUE(marked(copy()));
      EXPECT_EQ(copy().next_hop, other_rail());
      EXPECT_EQ(copy().deadline, issued + kCopyFor);
      const wire::Header second = copy().header;
      end_lease(copy(), {});
      answer(second, other_rail());
      EXPECT_EQ(ended(), 0);
    }
  expect_rest();
}

TEST_F(CopiesSent, a_failed_lease_of_this_node_leads_to_none) {
  end_lease(send(spec()), {kLost, LndStatus::kLocalError});
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(ended(), kLost);
}

// Goal: a request that a peer NI has surely not got is sent again as it is. Once it may have got it, all that follow
// are marked.
TEST_F(CopiesSent, only_what_the_peer_may_have_is_marked) {
  third_rail();
  end_lease(send(spec()), {kLost, LndStatus::kRemoteDropped});
  EXPECT_FALSE(marked(copy()));
  end_lease(copy(), {kLost, LndStatus::kNetworkTimeout});
  EXPECT_TRUE(marked(copy()));
  const wire::Header last = copy().header;
  end_lease(copy(), {});
  answer(last, tcp(2));
  EXPECT_EQ(ended(), 0);
  end_lease(send(spec()), {kLost, LndStatus::kNetworkTimeout});
  EXPECT_TRUE(marked(copy()));
  end_lease(copy(), {kLost, LndStatus::kRemoteDropped});
  EXPECT_TRUE(marked(copy()));
  answer(first, tcp(2));
  end_lease(copy(), {});
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: the lease of a copy fails. The first may still be answered, so the request goes on, until its ACK or deadline.
TEST_F(CopiesSent, a_request_waits_on_when_its_copy_fails) {
  for (const bool answered : {true, false}) {
    await(spec());
    set_health(hop, 500);
    ASSERT_TRUE(copy_within(1s));
    end_lease(copy(), {kLost, LndStatus::kLocalError});
    EXPECT_EQ(ended(), 1);
    if (answered) {
      answer(first, hop);
      EXPECT_EQ(ended(), 0);
    } else {
      while (copy_within(130s)) end_lease(copy(), {kLost, LndStatus::kLocalError});
      bench.advance(30s);
      EXPECT_EQ(ended(), -ETIMEDOUT);
    }
    set_health(hop, 1000);
  }
  for (int i = 0; i < 2; ++i) {  // in the memory of the operations before
    end_lease(send(spec()), {kLost, LndStatus::kLocalError});
    EXPECT_EQ(ended(), kLost) << "of a request that was not sent again";
  }
  expect_rest();
}

// Goal: the ACK of the first comes, the copy is still out, and its lease fails.
TEST_F(CopiesSent, an_ack_counts_though_the_copy_fails) {
  await(spec());
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  answer(first, hop);
  end_lease(copy(), {kLost, LndStatus::kRemoteError});
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

TEST_F(CopiesSent, a_deadline_or_unlink_ends_a_request_whose_copy_is_out) {
  for (const bool unlink : {false, true}) {
    await(spec());
    set_health(hop, 500);
    ASSERT_TRUE(copy_within(1s));
    if (unlink)
      (void)submitter->unlink(md);
    else
      bench.advance(160s);
    EXPECT_EQ(ended(), 1);
    end_lease(copy(), {kLost, LndStatus::kRemoteError});
    const std::vector<Event> all = events();
    ASSERT_EQ(all.size(), unlink ? 2u : 1u);
    EXPECT_EQ(all[0].status, unlink ? kLost : -ETIMEDOUT);
    set_health(hop, 1000);
  }
  expect_rest();
}

// Goal: the payload of a REPLY is lost. A copy of the GET leaves at once, even if both rails are well, and its REPLY
// ends the GET. Without such a copy, the GET ends with the error.
TEST_F(CopiesSent, a_lost_reply_leads_to_a_copy) {
  await(spec(), true);
  bench.lnd().complete_rx(answer(first, hop), kLost);
  bench.settle();
  ASSERT_EQ(bench.lnd().sent.size(), 1u);
  EXPECT_TRUE(marked(copy()));
  EXPECT_EQ(copy().next_hop, other_rail());
  const wire::Header second = copy().header;
  end_lease(copy(), {});
  EXPECT_EQ(ended(), 1);
  bench.lnd().complete_rx(answer(second, other_rail()), 0, 0x11);
  EXPECT_EQ(ended(), 0);
  EXPECT_EQ(memory[63], std::byte{0x11});
  await(spec(), true);
  bench.lnd().complete_rx(answer(first, hop), kLost);
  bench.settle();
  end_lease(copy(), {kLost, LndStatus::kLocalError});
  EXPECT_EQ(ended(), kLost) << "no other request may be answered";
  bench.set_knows_copies(tcp(2), false);
  bench.set_knows_copies(tcp(4));
  bench.publish();
  for (const Nid& peer : {tcp(2), tcp(4)}) {  // the second has one NI
    PutSpec one = spec();
    one.target.nid = peer;
    await(one, true);
    bench.lnd().complete_rx(answer(first, hop), kLost);
    EXPECT_EQ(ended(), kLost);
  }
  expect_rest();
}

// Goal: the first REPLY begins while the driver has the copy, and its payload is lost. The copy may still be answered.
TEST_F(CopiesSent, a_reply_is_lost_while_the_copy_is_out) {
  await(spec(), true);
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  const wire::Header second = copy().header;
  bench.lnd().complete_rx(answer(first, hop), kLost);
  bench.settle();
  end_lease(copy(), {});
  EXPECT_EQ(ended(), 1);
  bench.lnd().complete_rx(answer(second, other_rail()), 0, 0x11);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

// Goal: a copy goes over a driver with remote writes, and the peer refuses it. The first may still be answered.
TEST_F(CopiesSent, a_get_waits_on_when_its_copy_is_refused) {
  await(spec(), true);
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  ASSERT_EQ(copy().sink.length, 64u);
  bench.lnd().complete_get(copy(), 0, -EALREADY);
  EXPECT_EQ(ended(), 1);
  bench.lnd().complete_rx(answer(first, hop), 0, 1);
  EXPECT_EQ(ended(), 0);
  expect_rest();
}

TEST_F(CopiesSent, the_answer_to_a_copy_is_in_the_sink) {
  await(spec(), true);
  set_health(hop, 500);
  ASSERT_TRUE(copy_within(1s));
  bench.lnd().complete_get(copy(), 64, 0, 0x22);
  EXPECT_EQ(ended(), 0);
  EXPECT_EQ(memory[0], std::byte{0x22});
  const uint64_t stale = drops(Drop::kStaleHandle);
  answer(first, hop);
  EXPECT_EQ(drops(Drop::kStaleHandle), stale + 1);
  arrive_all();
  expect_rest();
}

}  // namespace
}  // namespace ulnet::test
