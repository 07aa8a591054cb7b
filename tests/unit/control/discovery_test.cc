// The rules of the discovery machine one by one (discovery_rig.h). The cases 1 to 12 of the Multi-Rail design document
// have tests of their names.
#include "tests/unit/control/discovery_rig.h"

namespace ulnet::test {
namespace {

// Goal: a peer that pushes without pause gets its turn like others, and takes no turn of theirs.
TEST_F(DiscoveryTest, a_peer_that_pushes_without_pause_takes_no_turn_of_others) {
  know({20, 21});
  know({30, 31});
  machine.push_came(data({30, 31, 32}, 4));
  for (uint32_t sequence = 4; sequence < 4 + 4 * kDiscoveryBudget; ++sequence)
    machine.push_came(data({20, 21, 22}, sequence));
  EXPECT_LE(machine.turn(), 2u);
  EXPECT_EQ(nids(30), "30 31 32");
  EXPECT_EQ(nids(20), "20 21 22");
  EXPECT_FALSE(machine.pending());
}

// Goal: an NI has sent no message yet, and its node reports it up as before. Such an NI has full health
// (docs/wire/lnet.md §5.6). An NI that has sent a message keeps its health.
TEST_F(DiscoveryTest, an_ni_never_heard_of_that_stays_up_has_full_health) {
  know({20, 21}, 3);
  PeerNi& ni = *peers.find(peer_nid(21));
  ni.health.fail(5, {}, kNever);
  discover(20, 2, true);
  reply(data({20, 21}, 4));
  ack();
  EXPECT_EQ(ni.health.value(), 1000);
  ni.health.fail(5, {}, kNever);
  ni.blocks->slice.last_alive_ns.set(1);
  discover(20, 3, true);
  reply(data({20, 21}, 5));
  EXPECT_EQ(ni.health.value(), 500);
}

// Goal: the steps are ping, merge, push, done, and each state has its letters. A peer that is up to date is not pinged
// again.
TEST_F(DiscoveryTest, a_whole_discovery) {
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(letters(20), "RQ");
  EXPECT_STREQ(discovery_state(*peer(20)), "ping sent");
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(letters(20), "PMAQ");
  EXPECT_STREQ(discovery_state(*peer(20)), "push sent");
  EXPECT_EQ(nids(21), "20 21");
  EXPECT_EQ(ack(), "done 1; ");
  EXPECT_EQ(letters(20), "LPM");
  EXPECT_STREQ(discovery_state(*peer(20)), "active");
  EXPECT_EQ(peer(20)->state, 273u);
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(discover(21, 2), "done 2; ");
}

// Goal: a ping changes nothing on the passive side. The passive side learns the pinging peer from the push.
TEST_F(DiscoveryTest, case_1_the_passive_side_answers_before_it_gets_the_push) {
  ASSERT_TRUE(peers.find_or_create(peer_nid(20), peer_nid(1)));
  EXPECT_EQ(turn(), "");
  EXPECT_EQ(peer(20)->state, 0u);
  EXPECT_EQ(pushed(data({20, 21}, 3)), "push to 20; ") << "from where and where to is chosen freely";
  EXPECT_EQ(nids(20), "20 21");
  EXPECT_EQ(ack(), "");
  EXPECT_EQ(letters(20), "LPM");
}

// Goal: two NIDs of one node discovered at once become one peer, which is pushed to once.
TEST_F(DiscoveryTest, case_2_discovery_of_several_nids_of_a_peer_at_once) {
  EXPECT_EQ(discover(20, 1), "ping 20; ");
  EXPECT_EQ(discover(21, 2), "ping 21; ");
  EXPECT_NE(peer(20), peer(21));
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(peer(20), peer(21));
  EXPECT_EQ(reply(data({20, 21}, 3, kOrdinary, 21)), "") << "its peer has ended";
  EXPECT_EQ(ack(), "done 1; done 2; ");
  EXPECT_EQ(peers.peers().size(), 1u);
}

// Goal: a peer that is configured while it is being discovered keeps its configuration, and the waiting request gets
// its answer.
TEST_F(DiscoveryTest, case_3_discovery_and_configuration_at_the_same_time) {
  EXPECT_EQ(discover(20), "ping 20; ");
  configure({20, 22});
  EXPECT_EQ(turn(), "ping 20; ") << "the configured peer is another one";
  EXPECT_EQ(reply(data({20, 21}, 3)), "") << "to the ping of the peer that was";
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 1; ");
  EXPECT_EQ(nids(20), "20 22");
  EXPECT_EQ(peer(21), nullptr);
  EXPECT_EQ(journal, (std::vector<std::string>{"configured: peer 10.0.0.20@tcp reports 10.0.0.21@tcp; no peer has it",
                                               "configured: peer 10.0.0.20@tcp does not report 10.0.0.22@tcp"}));
}

// Goal: discovered peers may be changed and deleted by configuration, also while they are worked on.
TEST_F(DiscoveryTest, case_4_configuration_modifies_discovered_peers) {
  know({20, 21});
  ASSERT_TRUE(peers.remove(peer_nid(20), {peer_nid(21)}, false));
  EXPECT_FALSE(peer(20)->up_to_date) << "it is looked at anew before it is sent to";
  EXPECT_EQ(discover(20, 2), "ping 20; ");
  ASSERT_TRUE(peers.remove(peer_nid(20), {}, false));
  EXPECT_EQ(turn(), "done 2 -2; ");
  EXPECT_EQ(reply(data({20, 21}, 3)), "") << "nobody's";
  EXPECT_EQ(nids(20), "none");
}

// Goal: discovery does not change a configured peer. If a NID of the peer is not in its node's list, it counts as down.
TEST_F(DiscoveryTest, case_5_discovery_leaves_configured_peers_alone) {
  configure({20, 21});
  EXPECT_EQ(discover(20), "ping 20; ");
  reply(data({22, 20}, 3, kOrdinary, 20));
  EXPECT_EQ(ack(), "done 1; ");
  EXPECT_EQ(nids(20), "20 21");
  EXPECT_EQ(peers.find(peer_nid(21))->status, wire::kNiDown);
  EXPECT_LT(peers.find(peer_nid(21))->health.value(), kHealthMax);
  EXPECT_EQ(peers.find(peer_nid(20))->status, wire::kNiUp);
  EXPECT_EQ(pushed(data({20, 23}, 4)), "");
  EXPECT_EQ(nids(20), "20 21");
  // Nor may another peer take its NIDs.
  know({30, 31});
  pushed(data({30, 21}, 4));
  EXPECT_EQ(nids(30), "30");
  EXPECT_EQ(journal.back(),
            "peer 10.0.0.30@tcp reports 10.0.0.21@tcp, which stays with peer 10.0.0.20@tcp: that peer is configured");
}

// Goal: with discovery off here, a push adds nothing.
TEST_F(DiscoveryTest, case_6_the_passive_node_has_discovery_disabled) {
  machine.set_mode(config::Discovery::kOff);
  ASSERT_TRUE(peers.find_or_create(peer_nid(20), kAnyNid));
  EXPECT_EQ(pushed(data({20, 21}, 3)), "");
  EXPECT_EQ(nids(20), "20");
  EXPECT_FALSE(peer(20)->multi_rail());
  EXPECT_TRUE(peer(20)->has(kPeerNoDiscovery));
}

// Goal: with discovery off here, the first message still causes one ping, which only reports the status. A configured
// multi-rail peer stays one, and gets no push.
TEST_F(DiscoveryTest, case_7_the_active_node_has_discovery_disabled) {
  machine.set_mode(config::Discovery::kOff);
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(reply(data({20, 21}, 3)), "done 1; ");
  EXPECT_EQ(nids(20), "20");
  EXPECT_EQ(peers.find(peer_nid(20))->status, wire::kNiUp);
  configure({30, 31});
  EXPECT_EQ(discover(30, 2), "ping 30; ");
  EXPECT_EQ(reply(data({30, 31, 32}, 3)), "done 2; ");
  EXPECT_EQ(nids(30), "30 31");
  EXPECT_TRUE(peer(30)->multi_rail());
}

// Goal: switching discovery on sends nothing at once. The next send to a peer starts its discovery.
TEST_F(DiscoveryTest, case_8_the_active_side_enables_discovery) {
  machine.set_mode(config::Discovery::kOff);
  discover(20);
  reply(data({20, 21}, 3));
  EXPECT_TRUE(peer(20)->up_to_date);
  machine.set_mode(config::Discovery::kOn);
  EXPECT_EQ(turn(), "");
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(discover(20, 2), "ping 20; ");
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 2; ");
  EXPECT_EQ(nids(20), "20 21");
}

// Goal: a push that a newer one has overtaken does not bring back an old list.
TEST_F(DiscoveryTest, case_9_pushes_that_come_in_the_wrong_order) {
  know({20, 21}, 3);
  pushed(data({20, 21, 22, 23}, 5));
  EXPECT_EQ(nids(20), "20 21 22 23");
  EXPECT_EQ(pushed(data({20, 21, 22}, 4)), "ping 20; ") << "older, or from a new life: the node itself must say";
  EXPECT_EQ(nids(20), "20 21 22 23");
  EXPECT_EQ(reply(data({20, 21, 22, 23}, 5)), "");
  EXPECT_EQ(nids(20), "20 21 22 23");
  EXPECT_TRUE(peer(20)->up_to_date);
}

// Two pushes come before the first is merged: the newer one counts.
TEST_F(DiscoveryTest, case_9_pushes_in_the_wrong_order_before_either_is_merged) {
  know({20, 21}, 3);
  machine.push_came(data({20, 22}, 5));
  machine.push_came(data({20, 23}, 4));
  EXPECT_EQ(turn(), "");
  EXPECT_EQ(nids(20), "20 22");
}

// Goal: two nodes that discover each other at the same time both end, in every order of the messages.
TEST_F(DiscoveryTest, case_10_simultaneous_discovery_pinged_first) {
  ASSERT_TRUE(peers.find_or_create(peer_nid(20), peer_nid(1))) << "its ping came";
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(pushed(data({20, 21}, 3)), "") << "its push crosses ours: nothing new";
  EXPECT_EQ(ack(), "done 1; ");
}
TEST_F(DiscoveryTest, case_10_simultaneous_discovery_its_push_before_its_reply) {
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(pushed(data({20, 21}, 3)), "push to 20; ");
  EXPECT_EQ(ack(), "done 1; ") << "the push was as good as the reply";
  EXPECT_EQ(reply(data({20, 21}, 3)), "");
  EXPECT_TRUE(peer(20)->up_to_date);
}
TEST_F(DiscoveryTest, case_10_simultaneous_discovery_the_reply_is_older_than_the_push) {
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(pushed(data({20, 21, 22}, 4)), "push to 20; ");
  EXPECT_EQ(reply(data({20, 21}, 3)), "ping 20; ") << "it was on its way when its node changed";
  EXPECT_EQ(nids(20), "20 21 22");
  EXPECT_EQ(reply(data({20, 21, 22}, 4)), "");
  EXPECT_EQ(ack(), "done 1; ");
}
TEST_F(DiscoveryTest, case_10_simultaneous_discovery_the_ping_is_lost_but_the_push_comes) {
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(pushed(data({20, 21}, 3)), "push to 20; ");
  EXPECT_EQ(ack(), "done 1; ");
  EXPECT_EQ(ping_fails(-ETIMEDOUT), "");
  EXPECT_TRUE(peer(20)->up_to_date);
}

// Goal: a second NID of a known peer is found to be its own, and no second push is sent.
TEST_F(DiscoveryTest, case_11_one_sided_discovery_of_another_nid) {
  know({20, 22});
  EXPECT_EQ(discover(21, 2), "ping 21; ");
  EXPECT_EQ(reply(data({20, 21, 22}, 4, kOrdinary, 21)), "done 2; ");
  EXPECT_EQ(nids(21), "20 22 21");
  EXPECT_EQ(peers.peers().size(), 1u);
}
// On the passive side, the push joins two peers that two sources had created.
TEST_F(DiscoveryTest, case_11_a_push_joins_two_sources) {
  ASSERT_TRUE(peers.find_or_create(peer_nid(20), peer_nid(1)));
  ASSERT_TRUE(peers.find_or_create(peer_nid(21), peer_nid(1)));
  EXPECT_EQ(pushed(data({20, 21}, 3, kOrdinary, 21)), "push to 20; ");
  EXPECT_EQ(peer(20), peer(21));
}

// Goal: both sides at once, over several NIDs each.
TEST_F(DiscoveryTest, case_12_simultaneous_discovery_on_several_nids) {
  discover(20, 1);
  discover(21, 2);
  EXPECT_EQ(pushed(data({20, 21}, 3, kOrdinary, 21)), "push to 20; ");
  EXPECT_EQ(peer(20), peer(21));
  EXPECT_EQ(reply(data({20, 21}, 3)), "");
  EXPECT_EQ(reply(data({20, 21}, 3, kOrdinary, 21)), "");
  EXPECT_EQ(ack(), "done 1; done 2; ");
}

// Goal: a node that does not discover is known by the NID that was pinged.
TEST_F(DiscoveryTest, nodes_without_discovery_stay_apart) {
  for (const uint32_t features : {kNotDiscovering, kDownrev}) {
    const int first = features == kDownrev ? 20 : 30;
    EXPECT_NE(discover(first, 1), "");
    EXPECT_EQ(reply(data({first, first + 1}, 3, features)), "done 1; ");
    EXPECT_EQ(nids(first), std::to_string(first));
    EXPECT_NE(discover(first + 1, 2), "");
    EXPECT_EQ(reply(data({first, first + 1}, 3, features, first + 1)), "done 2; ");
    EXPECT_EQ(nids(first + 1), std::to_string(first + 1));
    EXPECT_FALSE(peer(first)->multi_rail());
  }
}

// Goal: a node that stops to discover becomes a peer per NID. When it begins again, it becomes one peer.
TEST_F(DiscoveryTest, a_peer_that_stops_discovering_falls_apart) {
  know({20, 21}, 3);
  EXPECT_EQ(pushed(data({20, 21}, 3, kNotDiscovering)), "");
  EXPECT_EQ(nids(20), "20");
  EXPECT_EQ(nids(21), "none");
  EXPECT_EQ(peer(20)->state, uint32_t(kPeerNoDiscovery | kPeerDiscovered | kPeerNidsUptodate));
  EXPECT_EQ(pushed(data({20, 21}, 3)), "");
  EXPECT_EQ(nids(20), "20 21");
}

// Goal: a change of our own NIDs is pushed to known peers, once per sequence number, and to no others.
TEST_F(DiscoveryTest, local_changes_are_pushed) {
  know({20, 21});
  ASSERT_TRUE(peers.find_or_create(peer_nid(30), kAnyNid));
  machine.set_sequence(5, 5);
  EXPECT_EQ(letters(20), "PMQ");
  EXPECT_EQ(turn(), "push to 20; ");
  machine.set_sequence(6, 6);
  EXPECT_EQ(turn(), "") << "the one under way comes first";
  EXPECT_EQ(ack(), "push to 20; ");
  EXPECT_EQ(ack(), "");
  EXPECT_EQ(letters(20), "LPM");
  machine.push_all();
  EXPECT_EQ(turn(), "push to 20; ") << "forced: with the same sequence number";
  EXPECT_EQ(ack(-ETIMEDOUT), "");
  EXPECT_TRUE(peer(20)->has(kPeerRediscover));
  EXPECT_FALSE(peer(20)->up_to_date) << "tried again when somebody sends";
  EXPECT_EQ(discover(20, 7), "ping 20; ") << "who could not be told may have changed";
  EXPECT_EQ(reply(data({20, 21}, 3)), "done 7; ") << "its list of ours is known to be right";
}

// Goal: when discovery is switched off, each peer that has our list gets one push.
TEST_F(DiscoveryTest, switching_off_is_pushed_once) {
  know({20, 21});
  machine.set_mode(config::Discovery::kOff);
  EXPECT_EQ(turn(), "push to 20; ");
  EXPECT_EQ(ack(), "");
  machine.set_sequence(9, 9);
  EXPECT_EQ(turn(), "");
}

// Goal: a reply that is cut short causes another ping with more room. If no reply is ever right, discovery ends in an
// error.
TEST_F(DiscoveryTest, replies_that_do_not_fit_or_are_corrupt) {
  EXPECT_EQ(discover(20), "ping 20; ");
  PingData cut = data({20}, 3);
  cut.decode.truncated = true;
  cut.decode.needed_bytes = 4000;
  machine.ping_answered(uint64_t{peer(20)->id} << 32, cut);  // a number that was never given
  EXPECT_EQ(turn(), "");
  EXPECT_EQ(reply(cut), "ping 20 in 4000; ");
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 1; ");
  PingData corrupt;
  corrupt.error = -EPROTO;
  EXPECT_EQ(discover(20, 2, true), "ping 20 in 4000; ");
  for (uint32_t i = 0; i < kBadRepliesMax; ++i) EXPECT_EQ(reply(corrupt), "ping 20 in 4000; ") << i;
  EXPECT_EQ(reply(corrupt), "done 2 -71; ");
  EXPECT_TRUE(peer(20)->has(kPeerRediscover));
  EXPECT_EQ(discover(20, 3), "ping 20 in 4000; ") << "the next who sends tries again";
}

// Goal: a push that is cut short or corrupt causes a ping.
TEST_F(DiscoveryTest, pushes_that_do_not_fit_or_are_corrupt) {
  know({20, 21});
  PingData cut = data({20}, 4);
  cut.decode.truncated = true;
  cut.decode.needed_bytes = 6000;
  EXPECT_EQ(pushed(cut), "ping 20 in 6000; ");
  EXPECT_EQ(reply(data({20, 21, 22}, 4)), "");
  EXPECT_EQ(nids(20), "20 21 22");
  cut.error = -EPROTO;
  EXPECT_EQ(pushed(cut), "ping 20 in 6000; ");
  PingData stranger = data({90}, 1);
  EXPECT_EQ(pushed(stranger), "") << "from nobody that is known";
  EXPECT_EQ(nids(90), "none");
}

// Goal: a failure is reported to the waiting request. The next send tries again.
TEST_F(DiscoveryTest, failures_end_it_until_somebody_sends) {
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(ping_fails(-ETIMEDOUT), "done 1 -110; ");
  EXPECT_STREQ(discovery_state(*peer(20)), "init");
  EXPECT_EQ(turn(), "") << "not by itself";
  EXPECT_EQ(discover(20, 2), "ping 20; ");
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(ack(-EHOSTUNREACH), "done 2 -113; ");
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(discover(20, 3), "ping 20; ") << "the NID that it was pushed to may be gone";
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 3; ");
}

// Goal: if forced, a peer that is up to date is pinged and gets a push again.
TEST_F(DiscoveryTest, forced_rediscovery) {
  know({20, 21}, 3);
  EXPECT_EQ(discover(20, 2, true), "ping 20; ");
  EXPECT_EQ(reply(data({20, 22}, 4)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 2; ");
  EXPECT_EQ(nids(20), "20 22");
  discover(20, 3, true);
  EXPECT_EQ(ping_fails(-ETIMEDOUT), "done 3 -110; ") << "that it was known before is no answer";
  discover(30, 4);
  reply(data({30}, 1, kDownrev));
  EXPECT_EQ(discover(30, 5, true), "ping 30; ");
  EXPECT_EQ(reply(data({30}, 1, kDownrev)), "done 5; ") << "who is not multi-rail is not pushed to";
  EXPECT_TRUE(peer(30)->up_to_date);
}

// Goal: a rebooted node starts its sequence again. The answer to a ping counts although its sequence is lower.
TEST_F(DiscoveryTest, reboot_with_fewer_nids) {
  know({20, 21, 22}, 9);
  EXPECT_EQ(pushed(data({20, 23}, 2)), "ping 20; ");
  EXPECT_EQ(reply(data({20, 23}, 2)), "");
  EXPECT_EQ(nids(20), "20 23");
  pushed(data({20, 24}, 3));
  EXPECT_EQ(nids(20), "20 24") << "the new count goes on";
}

// Goal: a NID that moves to another node leaves its old peer, whether it was the primary NID or not.
TEST_F(DiscoveryTest, nid_reuse) {
  know({20, 21});
  know({30, 31});
  pushed(data({30, 31, 21}, 4));
  EXPECT_EQ(nids(30), "30 31 21");
  EXPECT_EQ(nids(20), "20");
  pushed(data({30, 20}, 5));
  EXPECT_EQ(nids(20), "30 20");
  EXPECT_EQ(peers.peers().size(), 1u);
}

// Goal: a node that reports another primary NID gets it. The old one leaves the peer when its node no longer lists it.
TEST_F(DiscoveryTest, the_primary_nid_may_change) {
  know({20, 21}, 3);
  pushed(data({21, 20}, 4, kOrdinary, 20));
  EXPECT_EQ(nids(20), "21 20");
  pushed(data({22, 20}, 5, kOrdinary, 20));
  EXPECT_EQ(nids(20), "22 20");
}

// Goal: a locked primary NID does not change. If two peers claim each other's NIDs, both keep their own.
TEST_F(DiscoveryTest, a_locked_primary_nid_stays) {
  know({20, 21});
  peer(20)->state |= kPeerLockPrimary;
  pushed(data({21, 22}, 4, kOrdinary, 21));
  EXPECT_EQ(nids(20), "20 21 22");
  know({30, 31});
  pushed(data({30, 20}, 4, kOrdinary, 30));
  EXPECT_EQ(nids(30), "30");
  EXPECT_EQ(nids(20), "20 21 22");
  EXPECT_TRUE(peer(20)->has(kPeerBadConfig));
  EXPECT_TRUE(peer(30)->has(kPeerBadConfig));
  EXPECT_EQ(journal.back(),
            "peer 10.0.0.30@tcp reports 10.0.0.20@tcp, which stays with peer 10.0.0.20@tcp: its primary NID is locked");
}

// Goal: a locked peer of one NID is absorbed by the peer that has this NID. The joint peer then has the locked name.
TEST_F(DiscoveryTest, a_locked_name_goes_along_when_its_peer_is_absorbed) {
  know({30, 31});
  ASSERT_TRUE(peers.find_or_create(peer_nid(32), kAnyNid));
  peer(32)->state |= kPeerLockPrimary;
  pushed(data({30, 31, 32}, 4));
  EXPECT_EQ(nids(32), "32 30 31");
  EXPECT_TRUE(peer(32)->has(kPeerLockPrimary));
}

// Goal: under `verify`, discovery pings, pushes and reports differences, and changes nothing.
TEST_F(DiscoveryTest, verify_merges_nothing) {
  machine.set_mode(config::Discovery::kVerify);
  configure({20, 21});
  EXPECT_EQ(discover(20), "ping 20; ");
  EXPECT_EQ(reply(data({22, 20}, 3, kOrdinary, 20)), "push from 1 to 20; ");
  EXPECT_EQ(ack(), "done 1; ");
  EXPECT_EQ(nids(20), "20 21");
  EXPECT_EQ(journal, (std::vector<std::string>{"verify: peer 10.0.0.20@tcp reports 10.0.0.22@tcp; no peer has it",
                                               "verify: peer 10.0.0.20@tcp does not report 10.0.0.21@tcp",
                                               "verify: peer 10.0.0.20@tcp reports the primary NID 10.0.0.22@tcp"}));
  EXPECT_EQ(discover(30, 2), "ping 30; ");
  EXPECT_EQ(reply(data({30, 31}, 3)), "done 2; ");
  EXPECT_EQ(nids(30), "30");
  EXPECT_FALSE(peer(30)->multi_rail());
  EXPECT_EQ(journal.back(), "verify: peer 10.0.0.30@tcp reports 10.0.0.31@tcp; no peer has it");
}

// Goal: the status that a peer reports for its NIs is kept, and path selection avoids NIs that are down.
TEST_F(DiscoveryTest, ni_status) {
  know({20, 21});
  PingData push = data({20, 21}, 4);
  push.decode.info.nis[1].status = wire::kNiDown;
  pushed(push);
  EXPECT_EQ(peers.find(peer_nid(21))->health.value(), kHealthMax - 100);
  EXPECT_EQ(peers.find(peer_nid(20))->health.value(), kHealthMax);
  pushed(push);
  EXPECT_EQ(peers.find(peer_nid(21))->health.value(), kHealthMax - 100) << "only the change counts";
  pushed(data({20, 21}, 5));
  EXPECT_EQ(peers.find(peer_nid(21))->health.value(), kHealthMax);
}

// Goal: if another node's list contains our own NIDs, they stay ours.
TEST_F(DiscoveryTest, our_own_nids_are_not_a_peers) {
  know({20, 21});
  pushed(data({20, 2}, 4));
  EXPECT_EQ(nids(20), "20");
  EXPECT_EQ(journal.back(), "peer 10.0.0.20@tcp reports 10.0.0.2@tcp, which is a NID of this node");
}

/// Any event that the machine can get, in any order.
class DiscoveryAtRandom : public DiscoveryTest {
 protected:
  int any() { return 20 + int(rng.below(6)); }
  PingData any_data() {
    std::vector<int> list{any()};
    for (int i = 0; i < int(rng.below(4)); ++i)
      if (const int more = any(); std::find(list.begin(), list.end(), more) == list.end()) list.push_back(more);
    const uint32_t features = rng.one_in(8) ? kNotDiscovering : rng.one_in(8) ? kDownrev : kOrdinary;
    PingData info = data(list, uint32_t(rng.below(6)), features, any());
    info.decode.truncated = rng.one_in(16);
    if (rng.one_in(16)) info.error = -EPROTO;
    return info;
  }
  void of_the_network() {
    switch (rng.below(5)) {
      case 0: return machine.push_came(any_data());
      case 1:
        if (!pings_.empty()) machine.ping_answered(next(pings_), any_data());
        return;
      case 2:
        if (!pings_.empty()) machine.ping_failed(next(pings_), -ETIMEDOUT);
        return;
      default:
        if (!pushes_.empty()) ack(rng.one_in(3) ? -ETIMEDOUT : 0);
    }
  }
  void change_own() {
    const uint32_t sequence = machine.sequence() + uint32_t(rng.below(2));
    machine.set_sequence(sequence, sequence - uint32_t(rng.below(3)));
  }
  void of_this_node(uint64_t waiter) {
    PeerNi& ni = *peers.find_or_create(peer_nid(any()), kAnyNid).value();
    switch (rng.below(5)) {
      case 0:
      case 1: ++waiting_; return machine.discover(ni, waiter, rng.one_in(2));
      case 2: return change_own();
      case 3:
        if (!ni.peer->has(kPeerRtrDiscovery)) machine.check_gateway(*ni.peer, ni.nid.net());
        return;
      default:
        if (rng.one_in(4)) machine.push_all();
    }
  }
  void of_the_operator() {
    static constexpr config::Discovery kModes[] = {config::Discovery::kOn, config::Discovery::kOn,
                                                   config::Discovery::kOff, config::Discovery::kVerify};
    const PeerNi* ni = peers.find(peer_nid(any()));
    switch (rng.below(3)) {
      case 0: return machine.set_mode(kModes[rng.below(std::size(kModes))]);
      case 1: {
        config::PeerConfig config;
        config.primary = peer_nid(any());
        if (const int more = any(); peer_nid(more) != config.primary) config.nids.push_back(peer_nid(more));
        config.multi_rail = !rng.one_in(4);
        if (!config.multi_rail) config.nids.clear();
        config.lock_primary = rng.one_in(4);
        if (auto added = peers.add(config, rng.one_in(4))) machine.refresh(**added);
        return;
      }
      default:
        if (ni != nullptr) (void)peers.remove(ni->peer->primary().nid, {}, true);
    }
  }
  Rng rng{5};
};

// Goal: whatever events come, in any order, each peer comes to rest and each waiting request is answered once.
TEST_F(DiscoveryAtRandom, events_always_end) {
  for (uint64_t round = 0; round < 40000; ++round) {
    switch (rng.below(20)) {
      case 0: of_the_operator(); break;
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6:
      case 7: of_this_node(round); break;
      default: of_the_network();
    }
    if (rng.one_in(2)) turn();
  }
  turn();
  for (int i = 0; i < 1000 && (!pings_.empty() || !pushes_.empty()); ++i) {
    while (!pings_.empty()) machine.ping_failed(next(pings_), -ETIMEDOUT);
    while (!pushes_.empty()) ack();
    turn();
  }
  constexpr uint32_t kBusy =
      kPeerDiscovering | kPeerPingSent | kPeerPushSent | kPeerDataPresent | kPeerRtrDiscovery | kPeerMarkDeletion;
  for (const auto& [id, one] : peers.peers()) {
    EXPECT_FALSE(one->has(kBusy)) << one->state;
    EXPECT_FALSE(one->nets.empty());
    EXPECT_TRUE(machine.waiters(*one).empty());
  }
  EXPECT_EQ(waiting_, 0) << "each who waited was answered once";
}

}  // namespace
}  // namespace ulnet::test
