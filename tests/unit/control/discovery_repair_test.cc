// Faults that random clusters (tools/simulate) have found in the discovery machine, each by its smallest case.
#include "tests/unit/control/discovery_rig.h"

namespace ulnet::test {
namespace {

using DiscoveryRepair = DiscoveryTest;

// Goal: under `verify`, a ping merges nothing. When discovery is switched on, the peer is pinged again and its list is
// merged.
TEST_F(DiscoveryRepair, from_verify_to_on_every_peer_is_pinged_again) {
  machine.set_mode(config::Discovery::kVerify);
  discover(30);
  EXPECT_EQ(reply(data({30, 31}, 3)), "done 1; ");
  EXPECT_EQ(nids(30), "30");
  machine.set_mode(config::Discovery::kOn);
  EXPECT_FALSE(peer(30)->up_to_date);
  EXPECT_EQ(discover(30, 2), "ping 30; ");
  EXPECT_EQ(reply(data({30, 31}, 3)), "push from 1 to 30; ");
  EXPECT_EQ(nids(30), "30 31");
}

// Goal: a peer stops to discover while this node is in mode `verify`. When discovery is switched on, the peer is split
// up.
TEST_F(DiscoveryRepair, a_peer_that_stopped_to_discover_under_verify) {
  know({20, 21});
  machine.set_mode(config::Discovery::kVerify);
  discover(20, 2, true);
  reply(data({20, 21}, 3, kNotDiscovering));
  EXPECT_EQ(nids(20), "20 21") << "nothing is merged";
  machine.set_mode(config::Discovery::kOn);
  discover(20, 3, true);
  reply(data({20, 21}, 3, kNotDiscovering));
  EXPECT_EQ(nids(20), "20");
  EXPECT_FALSE(peer(20)->multi_rail());
}

// Goal: if the primary NID of a peer fails, discovery tries each NID of the peer in turn, with pings to exactly this
// NID.
TEST_F(DiscoveryRepair, after_failures_each_nid_has_its_turn) {
  know({20, 21, 22});
  EXPECT_EQ(discover(20, 2, true), "ping 20; ");
  ping_fails(-EHOSTUNREACH);
  for (const char* said : {"ping exactly 20; ", "ping exactly 21; ", "ping exactly 22; ", "ping exactly 20; "}) {
    EXPECT_EQ(discover(20, 3), said);
    ping_fails(-EHOSTUNREACH);
  }
  EXPECT_EQ(discover(20, 4), "ping exactly 21; ");
  EXPECT_EQ(reply(data({21}, 9)), "push from 1 to 21; ");
  EXPECT_EQ(nids(21), "21");
  ack();
  EXPECT_EQ(discover(21, 5, true), "ping 21; ");
}

// Goal: a peer is refused a NID because a configured peer has it. When the configured peer is deleted, the first peer
// gets it.
TEST_F(DiscoveryRepair, nids_of_a_deleted_configured_peer_go_to_their_node) {
  configure({21});
  discover(20);
  reply(data({20, 21}, 3));
  ack();
  EXPECT_EQ(nids(20), "20");
  ASSERT_TRUE(peers.remove(peer_nid(21), {}, false));
  EXPECT_EQ(discover(20, 2), "ping 20; ");
  reply(data({20, 21}, 3));
  EXPECT_EQ(nids(20), "20 21");
}

// Goal: as above, if the NID is the primary NID of the list, so that the list counts as the configured peer's.
TEST_F(DiscoveryRepair, the_primary_nid_of_a_deleted_configured_peer_goes_to_its_node) {
  discover(21);
  reply(data({21}, 3));
  ack();
  configure({20});
  discover(21, 2, true);
  reply(data({20, 21}, 4, kOrdinary, 21));
  EXPECT_EQ(nids(21), "21");
  ASSERT_TRUE(peers.remove(peer_nid(20), {}, false));
  peers.ask_anew_who_was_held_back();
  EXPECT_FALSE(peer(21)->has(kPeerNidsUptodate));
  discover(21, 3);
  reply(data({20, 21}, 4, kOrdinary, 21));
  EXPECT_EQ(nids(21), "20 21");
}

// Goal: when a NID becomes this node's own, its peer loses it and is no longer up to date.
TEST_F(DiscoveryRepair, a_nid_that_becomes_ours_leaves_its_peer) {
  know({20, 21});
  know({22});
  for (const int last : {21, 22}) {
    config::NiConfig config;
    config.nid = peer_nid(last);
    ASSERT_TRUE(nis_.add(config.nid->net(), config, 4096, NiDefaults{}, Instant{1s}));
  }
  peers.nis_changed();
  EXPECT_EQ(nids(20), "20");
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(nids(21), "none");
  EXPECT_EQ(nids(22), "none");
}

// Goal: a NID of a peer has gone to another node, which answers the ping. The answer counts for that node, not for the
// peer.
TEST_F(DiscoveryRepair, the_answer_of_another_node_that_does_not_discover) {
  know({20, 21});
  discover(20, 2, true);
  EXPECT_EQ(reply(data({30, 21}, 4, kNotDiscovering, 21)), "ping 20; ") << "who waits for 20 has no answer yet";
  EXPECT_EQ(nids(21), "21");
  EXPECT_FALSE(peer(21)->multi_rail());
  EXPECT_EQ(nids(20), "20");
  EXPECT_FALSE(peer(20)->has(kPeerNoDiscovery));
  EXPECT_EQ(reply(data({20}, 5)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 2; ");
}

TEST_F(DiscoveryRepair, the_answer_of_another_node_that_is_known) {
  know({20, 21});
  know({30});
  discover(20, 2, true);
  EXPECT_EQ(reply(data({30, 21}, 5, kOrdinary, 21)), "ping 20; ");
  EXPECT_EQ(nids(30), "30 21");
  EXPECT_EQ(nids(20), "20");
}

// Goal: as above, if the other node is configured without the NID. The peer loses the NID nevertheless.
TEST_F(DiscoveryRepair, the_answer_of_another_node_that_is_configured) {
  know({20, 21});
  configure({30});
  discover(20, 2, true);
  EXPECT_EQ(reply(data({30, 21}, 5, kOrdinary, 21)), "push from 1 to 21; ping 20; ");
  EXPECT_EQ(nids(30), "30");
  EXPECT_EQ(nids(20), "20");
  EXPECT_EQ(reply(data({20}, 4)), "push from 1 to 20; ");
}

// Goal: a NID leaves the peer while its answer is on the way. The answer is ignored, and the peer is pinged again.
TEST_F(DiscoveryRepair, the_answer_of_a_nid_that_left_meanwhile) {
  know({20, 21});
  discover(20, 2, true);
  pushed(data({20}, 5));
  EXPECT_EQ(reply(data({30, 21}, 6, kOrdinary, 21)), "ping 20; ");
  EXPECT_EQ(nids(20), "20");
  EXPECT_EQ(nids(30), "none");
}

// Goal: a push from an unknown NID comes over a router, while an older answer of the same node is on its way. The node
// is pinged again, because it will not push that list a second time.
TEST_F(DiscoveryRepair, a_push_from_an_unknown_nid_before_an_older_answer) {
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(pushed(data({20, 21, 22}, 6, kOrdinary, 21)), "");
  EXPECT_EQ(reply(data({20, 21}, 5)), "ping 20; ");
  EXPECT_EQ(reply(data({20, 21, 22}, 6)), "push from 1 to 20; ");
  EXPECT_EQ(nids(20), "20 21 22");
}

// Goal: as above, when no ping is under way. A list without any known NID is ignored.
TEST_F(DiscoveryRepair, a_push_from_an_unknown_nid_of_a_known_peer) {
  know({20, 21});
  EXPECT_EQ(pushed(data({30, 31}, 9, kOrdinary, 31)), "");
  EXPECT_EQ(pushed(data({20, 21, 22}, 6, kOrdinary, 22)), "ping 20; ");
  EXPECT_EQ(reply(data({20, 21, 22}, 6)), "");
  EXPECT_EQ(nids(20), "20 21 22");
}

// Goal: a push from another peer's NID joins both peers, while an older answer of the first is on its way. That answer
// is not merged.
TEST_F(DiscoveryRepair, a_list_by_another_way_before_an_older_answer) {
  know({20});
  know({21});
  EXPECT_EQ(discover(20, 2, true), "ping 20; ");
  pushed(data({20, 21}, 6, kOrdinary, 21));
  EXPECT_EQ(nids(20), "20 21");
  EXPECT_EQ(reply(data({20}, 5)), "ping 20; ");
  EXPECT_EQ(nids(20), "20 21");
}

// Goal: if the answers of a peer always come from another peer's NID, it is pinged a few times, and again at the next
// use.
TEST_F(DiscoveryRepair, answers_that_always_come_from_another_peer) {
  know({30});
  EXPECT_EQ(discover(20, 2), "ping 20; ");
  const PingData strange = data({20, 21}, 3, kOrdinary, 30);
  for (uint32_t i = 0; i < kBadRepliesMax; ++i) EXPECT_EQ(reply(strange), "ping 20; ") << i;
  EXPECT_EQ(reply(strange), "done 2 -71; ");
  EXPECT_EQ(journal.back(),
            "warning: discovery of peer 10.0.0.20@tcp fails: 4 replies in a row were useless; the last came from "
            "10.0.0.30@tcp, which is no NID of the peer");
  EXPECT_EQ(discover(20, 3), "ping 20; ");
  EXPECT_EQ(reply(strange), "ping 20; ") << "counted from the start";
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 3; ");
}

// Goal: as above, if each answer is older than a push that crossed it. The lists of the pushes are merged.
TEST_F(DiscoveryRepair, answers_that_are_always_older_than_a_push) {
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(pushed(data({20, 21}, 10)), "push to 20; ");
  for (uint32_t i = 0; i < kBadRepliesMax; ++i) {
    EXPECT_EQ(reply(data({20}, 5)), "ping 20; ") << i;
    EXPECT_EQ(pushed(data({20, 21}, 11 + i)), "");
  }
  EXPECT_EQ(reply(data({20}, 5)), "done 1 -71; ");
  EXPECT_EQ(nids(20), "20 21");
  EXPECT_EQ(journal.back(),
            "warning: discovery of peer 10.0.0.20@tcp fails: 4 replies in a row were useless; the last may be older "
            "than a push that came before it");
}

// Goal: as above, for a push that another peer's NID acknowledges each time.
TEST_F(DiscoveryRepair, pushes_that_another_peer_always_acknowledges) {
  know({30});
  know({20, 21});
  machine.set_sequence(5, 5);
  EXPECT_EQ(turn(), "push to 30; push to 20; ");
  ack();
  for (uint32_t i = 0; i <= kBadRepliesMax; ++i) {
    machine.push_ended(next(pushes_), 0, peer_nid(30));
    EXPECT_EQ(turn(), i < kBadRepliesMax ? "push to 20; " : "") << i;
  }
  EXPECT_EQ(journal.back(),
            "warning: discovery of peer 10.0.0.20@tcp fails: 4 replies in a row were useless; the last push was "
            "acknowledged by 10.0.0.30@tcp, which is no NID of the peer");
  EXPECT_EQ(discover(20, 3), "ping 20; ");
}

// Goal: if the NID that acknowledged our last push moves to another node, the peer gets another push.
TEST_F(DiscoveryRepair, the_nid_that_acknowledged_a_push_goes_to_another_node) {
  know({30});
  know({20, 21});
  discover(20, 2, true);
  reply(data({20, 21}, 3));
  machine.push_ended(next(pushes_), 0, peer_nid(21));
  EXPECT_EQ(turn(), "done 2; ");
  pushed(data({30, 21}, 4));
  EXPECT_EQ(nids(20), "20");
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(discover(20, 3), "push to 20; ");
  EXPECT_EQ(ack(), "done 3; ");
}

// Goal: as above, while the push is under way.
TEST_F(DiscoveryRepair, the_nid_that_acknowledges_a_push_has_left) {
  know({30});
  know({20, 21});
  machine.set_sequence(5, 5);
  EXPECT_EQ(turn(), "push to 30; push to 20; ");
  ack();
  pushed(data({30, 21}, 4));
  machine.push_ended(next(pushes_), 0, peer_nid(21));
  EXPECT_EQ(turn(), "push to 20; ");
  ack();
  EXPECT_TRUE(peer(20)->up_to_date);
}

// Goal: when a NID moves to another node, the acknowledged sequence number of its old peer does not move with it.
TEST_F(DiscoveryRepair, a_node_that_takes_over_a_nid_gets_a_push) {
  know({20});
  discover(30, 2);
  reply(data({30, 20}, 4));
  EXPECT_EQ(nids(30), "30 20");
  ack(-ETIMEDOUT);
  EXPECT_EQ(peer(30)->discovery.node_seqno, 0u);
}

// Goal: if a push reports that a peer has stopped to discover, the peer is split up, also while it is being discovered.
TEST_F(DiscoveryRepair, a_peer_that_stops_to_discover_while_it_is_discovered) {
  know({20, 21});
  discover(20, 2, true);
  reply(data({20, 21}, 3));
  pushed(data({20, 21}, 3, kNotDiscovering));
  ack();
  EXPECT_EQ(nids(20), "20");
  EXPECT_FALSE(peer(20)->multi_rail());
}

// Goal: if discovery is switched off and on again, a push that was sent in between does not count.
TEST_F(DiscoveryRepair, an_acknowledged_push_of_before_discovery_was_switched_on) {
  know({20, 21});
  machine.set_mode(config::Discovery::kOff);
  EXPECT_EQ(turn(), "push to 20; ");
  machine.set_mode(config::Discovery::kOn);
  ack();
  EXPECT_FALSE(peer(20)->up_to_date);
  discover(20, 2);
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
}

// Goal: an answer turns out to be about another peer, and is older than that peer's list. The old list is not merged,
// and the NID is pinged again.
TEST_F(DiscoveryRepair, an_old_answer_that_turns_out_to_be_about_another_peer) {
  know({30}, 5);
  EXPECT_EQ(discover(31, 2), "ping 31; ");
  EXPECT_EQ(reply(data({30, 31}, 4, kOrdinary, 31)), "ping 31; ");
  EXPECT_EQ(nids(30), "30");
  EXPECT_EQ(ping_fails(-EHOSTUNREACH), "done 2 -113; ");
  EXPECT_EQ(nids(30), "30");
  discover(31, 3);
  reply(data({30, 31}, 4, kOrdinary, 31));
  EXPECT_EQ(nids(30), "30 31") << "asked again, it says the same: that node began anew";
}

// Goal: when discovery is off, an answer turns out to be about another peer. That peer is split up into one peer per
// NID, and no part of it stays multi-rail.
TEST_F(DiscoveryRepair, an_answer_about_another_peer_when_discovery_is_off) {
  know({30, 31}, 5);
  EXPECT_EQ(discover(32, 2), "ping 32; ");
  machine.set_mode(config::Discovery::kOff);
  EXPECT_EQ(turn(), "push to 30; ");
  EXPECT_EQ(reply(data({30, 31}, 6, kOrdinary, 32)), "done 2; ");
  EXPECT_EQ(nids(30), "30");
  EXPECT_FALSE(peer(30)->multi_rail());
  ack();
  EXPECT_EQ(nids(30), "30");
  EXPECT_TRUE(peer(30)->up_to_date);
}

// Goal: after a doubtful push, only the answer to a later ping counts. The answer to an earlier ping and a push do
// not.
TEST_F(DiscoveryRepair, an_answer_that_was_requested_before_a_doubtful_push) {
  know({30}, 5);
  EXPECT_EQ(discover(31, 2), "ping 31; ");
  EXPECT_EQ(pushed(data({30, 31}, 4, kOrdinary, 31)), "");
  EXPECT_EQ(reply(data({30, 31}, 4, kOrdinary, 31)), "ping 31; ") << "it was asked before";
  EXPECT_EQ(nids(30), "30");
  EXPECT_EQ(pushed(data({30, 31}, 4, kOrdinary, 31)), "");
  EXPECT_EQ(nids(30), "30");
  EXPECT_EQ(reply(data({30, 31}, 4, kOrdinary, 31)), "ping 31; ");
  EXPECT_EQ(nids(30), "30");
  reply(data({30, 31}, 4, kOrdinary, 31));
  EXPECT_EQ(nids(30), "30 31");
}

constexpr uint32_t of_life(uint32_t life) {
  return kOrdinary | wire::kFeatureCopies | life << wire::kLifeShift;
}

// Goal: a node was started again, and a push of its former life comes after the list of the new one. The sequences are
// equal, because both lives count from 1. The push is not merged, and the peer is pinged.
TEST_F(DiscoveryRepair, a_push_of_a_former_life_does_not_bring_back_its_list) {
  discover(20);
  reply(data({20, 21}, 3, of_life(7)));
  ack();
  for (const uint32_t sequence : {3, 9}) {
    EXPECT_EQ(pushed(data({20, 22}, sequence, of_life(6))), "ping 20; ") << sequence;
    EXPECT_EQ(nids(20), "20 21");
    EXPECT_EQ(peer(20)->life, 7);
    EXPECT_EQ(reply(data({20, 21}, 3, of_life(7))), "");
    EXPECT_TRUE(peer(20)->up_to_date);
  }
}

// Goal: as above, if the push comes while the list of the new life waits to be merged. Either may be the newest.
TEST_F(DiscoveryRepair, lists_of_two_lives_before_either_is_merged) {
  discover(20);
  reply(data({20, 21}, 3, of_life(7)));
  ack();
  machine.push_came(data({20, 21, 22}, 4, of_life(7)));
  EXPECT_EQ(pushed(data({20, 23}, 1, of_life(8))), "ping 20; ");
  EXPECT_EQ(nids(20), "20 21 22");
  EXPECT_EQ(reply(data({20, 23}, 1, of_life(8))), "");
  EXPECT_EQ(nids(20), "20 23");
  EXPECT_EQ(peer(20)->life, 8);
}

// Goal: the push of another life crosses a ping. The answer may come from either life: only the next one counts.
TEST_F(DiscoveryRepair, an_answer_of_another_life_that_a_push_crossed) {
  discover(20);
  reply(data({20, 21}, 3, of_life(7)));
  ack();
  EXPECT_EQ(discover(20, 2, true), "ping 20; ");
  EXPECT_EQ(pushed(data({20, 21}, 4, of_life(7))), "push to 20; ");
  EXPECT_EQ(reply(data({20, 22}, 5, of_life(6))), "ping 20; ");
  EXPECT_EQ(nids(20), "20 21");
  EXPECT_EQ(peer(20)->life, 7);
  ack();
  EXPECT_EQ(reply(data({20, 21}, 4, of_life(7))), "done 2; ");
  EXPECT_EQ(nids(20), "20 21");
}

// Goal: without a push in between, an answer of another life is the newest list.
TEST_F(DiscoveryRepair, an_answer_of_another_life_counts) {
  discover(20);
  reply(data({20, 21}, 3, of_life(7)));
  ack();
  discover(20, 2, true);
  EXPECT_EQ(reply(data({20, 22}, 1, of_life(8))), "push from 1 to 20; ");
  EXPECT_EQ(nids(20), "20 22");
  EXPECT_EQ(peer(20)->life, 8);
}

// Goal: an answer turns out to be about another peer, of which another life is known. The NID is pinged once more, and
// then the peer has the list and the life.
TEST_F(DiscoveryRepair, an_answer_about_another_life_of_another_peer) {
  discover(30);
  reply(data({30}, 5, of_life(7)));
  ack();
  EXPECT_EQ(discover(31, 2), "ping 31; ");
  EXPECT_EQ(reply(data({30, 31}, 6, of_life(8), 31)), "ping 31; ");
  EXPECT_EQ(nids(30), "30");
  reply(data({30, 31}, 6, of_life(8), 31));
  EXPECT_EQ(nids(30), "30 31");
  EXPECT_EQ(peer(30)->life, 8);
}

}  // namespace
}  // namespace ulnet::test
