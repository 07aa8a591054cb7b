// The states of our NIs change, such as links that come and go. Peers get a push, and no message waits for it.
#include "tests/unit/control/discovery_rig.h"

namespace ulnet::test {
namespace {

class DiscoveryStates : public DiscoveryTest {
 protected:
  bool not_told(uint32_t, uint32_t times) override {
    said_ += "not told; ";
    return times < 1;
  }
  /// Links change `times` times; our NIDs are as they were.
  void states_change(uint32_t times = 1) {
    while (times-- > 0) machine.set_sequence(machine.sequence() + 1, 4);
  }
};

TEST_F(DiscoveryStates, messages_go_on_during_the_push) {
  know({20, 21});
  states_change();
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(turn(), "push to 20; ");
  EXPECT_EQ(discover(20, 7), "done 7; ");
  states_change(2);
  EXPECT_EQ(ack(), "push to 20; ") << "the newest list";
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(ack(), "");
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(peer(20)->discovery.node_seqno, 7u);
}

// Goal: an NI more is no state. The peer would take its messages for those of another node.
TEST_F(DiscoveryStates, messages_wait_when_the_peer_lacks_a_nid) {
  know({20, 21});
  states_change();
  turn();
  machine.set_sequence(6, 6);
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(ack(), "push to 20; ");
  states_change();
  EXPECT_FALSE(peer(20)->up_to_date) << "it still lacks the NID";
  EXPECT_EQ(ack(), "push to 20; ");
  EXPECT_EQ(ack(), "");
  EXPECT_TRUE(peer(20)->up_to_date);
}

TEST_F(DiscoveryStates, a_peer_that_was_not_up_to_date_still_is_not) {
  know({20, 21});
  discover(20, 7, true);
  states_change();
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(ack(), "done 7; ");
  EXPECT_TRUE(peer(20)->up_to_date);
}

// Goal: while a push that failed will be repeated, messages go on. Later, the next message waits for a ping.
TEST_F(DiscoveryStates, a_push_that_fails) {
  know({20, 21});
  states_change();
  turn();
  EXPECT_EQ(ack(-ETIMEDOUT), "not told; ");
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(discover(20, 7), "done 7; ");
  machine.tell_again(peer(20)->id);
  EXPECT_EQ(turn(), "ping 20; ");
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(ping_fails(-ETIMEDOUT), "not told; ");
  EXPECT_FALSE(peer(20)->up_to_date);
  EXPECT_EQ(discover(20, 8), "ping exactly 20; ");
}

TEST_F(DiscoveryStates, a_push_that_is_repeated) {
  know({20, 21});
  states_change();
  turn();
  ack(-ETIMEDOUT);
  machine.tell_again(peer(20)->id);
  turn();
  EXPECT_EQ(reply(data({20, 21}, 3)), "push from 1 to 20; ");
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(ack(), "");
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_FALSE(peer(20)->discovery.states_only);
}

// Goal: news about the peer itself holds its messages up, as at any other time.
TEST_F(DiscoveryStates, news_about_the_peer_count) {
  const std::vector<std::pair<const char*, std::function<void()>>> news = {
      {"forced", [&] { discover(20, 7, true); }},
      {"an older list",
       [&] {
         pushed(data({20, 21}, 2));
       }},
      {"a corrupt push",
       [&] {
         PingData corrupt = data({20}, 4);
         corrupt.error = -EPROTO;
         pushed(corrupt);
       }},
      {"its NID is listed by a stranger",
       [&] {
         pushed(data({40, 21}, 9));
       }},
      {"push_all", [&] { machine.push_all(); }},
      {"the mode was another",
       [&] { machine.set_mode(config::Discovery::kVerify), machine.set_mode(config::Discovery::kOn); }},
  };
  for (const auto& [what, happens] : news) {
    SCOPED_TRACE(what);
    peers.find(peer_nid(20)) == nullptr ? know({20, 21}) : void(discover(20, 1, true));
    while (!pings_.empty() || !pushes_.empty()) {
      if (!pings_.empty()) reply(data({20, 21}, 3));
      if (!pushes_.empty()) ack();
    }
    ASSERT_TRUE(peer(20)->up_to_date);
    states_change();
    turn();
    ASSERT_TRUE(peer(20)->up_to_date);
    happens();
    EXPECT_FALSE(peer(20)->up_to_date);
  }
}

// Goal: links of both nodes change at one moment. The peer's list is merged at once, and holds up nothing.
TEST_F(DiscoveryStates, both_sides_change) {
  know({20, 21});
  states_change();
  turn();
  machine.push_came(data({20, 21}, 4));
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(turn(), "");
  EXPECT_TRUE(peer(20)->up_to_date);
  EXPECT_EQ(ack(), "");
  EXPECT_TRUE(peer(20)->up_to_date);
}

}  // namespace
}  // namespace ulnet::test
