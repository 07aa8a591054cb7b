// Health at work between whole nodes: rails that fail in each way, messages that take another rail, and rails that come
// back. The nodes have two rails, each a pair of NIs on a network of its own or on one network for all.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "control/health/rail_probes.h"
#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

class SimHealth : public ::testing::Test {
 protected:
  static constexpr uint32_t kLarge = 256 << 10;
  SimNet sim{{.seed = 11}};
  SimNode* a = nullptr;
  SimNode* b = nullptr;

  void build(std::vector<std::string> a_nis, std::vector<std::string> b_nis, bool fast = false, unsigned workers = 1) {
    b = &sim.add_node({.nis = std::move(b_nis), .workers = workers, .fast_detection = fast});
    a = &sim.add_node({.nis = std::move(a_nis), .workers = workers, .fast_detection = fast});
    ASSERT_TRUE(puts(2));  // discovers
  }
  void two_nets(bool fast = false) {
    build({"10.0.0.1@tcp", "10.1.0.1@tcp1"}, {"10.0.0.2@tcp", "10.1.0.2@tcp1"}, fast);
  }
  static Nid nid(const std::string& text) { return nid_parse(text).value(); }
  /// One after the other. True if all ended well.
  bool puts(int count, Duration limit = 100s) {
    const size_t bad = a->ended(false);
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(a->put(*b));
      if (!sim.run_until([&] { return a->open_operations() == 0; }, limit)) return false;
    }
    return a->ended(false) == bad;
  }
  void begin_puts(int count, uint32_t length = 64) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(a->put(*b, {.length = length}));
  }
  PeerNi& peer_ni(const std::string& text) { return *a->node().control().peers->find(nid(text)); }
  uint16_t peer_health(const std::string& text) { return peer_ni(text).health.value(); }
  LocalNi& local_ni(const std::string& text) { return *a->node().control().nis->find(nid(text)); }
  uint16_t local_health(const std::string& text) { return local_ni(text).health.value(); }
  uint64_t sent_over(const std::string& text) { return local_ni(text).counted(NiTraffic::kSent); }
  uint64_t probes() { return a->node().control().rail_probes->sent(); }
  /// From now on PUTs to this NID come back with an error that says they did not arrive.
  void refuse(const std::string& text) {
    sim.fabric().hook = [to = nid(text)](const Nid&, const Nid& at, const wire::Header& header) {
      return at == to && header.type == MsgType::kPut ? sim::Fate::kLoseWithError : sim::Fate::kPass;
    };
  }
};

// Goal: a message that did not arrive takes the other rail, and the peer NI at fault loses health. Messages that follow
// avoid that peer NI, and pings raise its health again.
TEST_F(SimHealth, refused_messages_take_the_other_rail) {
  two_nets();
  refuse("10.1.0.2@tcp1");
  EXPECT_TRUE(puts(6));
  EXPECT_GT(a->stat(Stat::kResendCount), 0u);
  EXPECT_EQ(a->stat(Stat::kResendCount), a->stat(Stat::kSuccessfulResends));
  EXPECT_LT(peer_health("10.1.0.2@tcp1"), 1000);
  EXPECT_EQ(peer_health("10.0.0.2@tcp"), 1000);
  EXPECT_EQ(a->node().control().health->recovering_peers(), std::vector{nid("10.1.0.2@tcp1")});
  const uint64_t resends = a->stat(Stat::kResendCount), before = sent_over("10.0.0.1@tcp");
  sim.fabric().hook = {};
  EXPECT_TRUE(puts(1));
  EXPECT_GT(sent_over("10.0.0.1@tcp"), before);
  EXPECT_EQ(a->stat(Stat::kResendCount), resends) << "the NI that failed is not tried";
  ASSERT_TRUE(sim.run_until([&] { return peer_health("10.1.0.2@tcp1") == 1000; }, 60s));
  EXPECT_TRUE(a->node().control().health->recovering_peers().empty());
}

// Goal: the last path fails as well. The message ends with its error after one attempt for each path, however many
// retries are allowed.
TEST_F(SimHealth, resends_end_when_no_path_is_left) {
  build({"10.0.0.1@tcp"}, {"10.0.0.2@tcp", "10.0.0.3@tcp", "10.0.0.4@tcp"});
  a->apply({config::SetValue{"retry_count", 20}});
  ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 10s));
  std::vector<Nid> tried;
  sim.fabric().hook = [&](const Nid&, const Nid& at, const wire::Header& header) {
    if (header.type != MsgType::kPut) return sim::Fate::kPass;
    tried.push_back(at);
    return sim::Fate::kLoseWithError;
  };
  EXPECT_FALSE(puts(1));
  std::sort(tried.begin(), tried.end());
  EXPECT_EQ(tried, (std::vector{nid("10.0.0.2@tcp"), nid("10.0.0.3@tcp"), nid("10.0.0.4@tcp")}));
  EXPECT_EQ(a->stat(Stat::kResendCount), 2u);
  EXPECT_EQ(a->stat(Stat::kFailedResends), 1u);
  sim.fabric().hook = {};
}

TEST_F(SimHealth, no_resend_beyond_retry_count) {
  build({"10.0.0.1@tcp"}, {"10.0.0.2@tcp", "10.0.0.3@tcp", "10.0.0.4@tcp"});
  for (const int64_t retries : {0, 1}) {
    a->apply({config::SetValue{"retry_count", retries}});
    ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 10s));
    int attempts = 0;
    sim.fabric().hook = [&](const Nid&, const Nid&, const wire::Header& header) {
      attempts += header.type == MsgType::kPut;
      return header.type == MsgType::kPut ? sim::Fate::kLoseWithError : sim::Fate::kPass;
    };
    EXPECT_FALSE(puts(1));
    EXPECT_EQ(attempts, retries + 1);
    sim.fabric().hook = {};
    sim.run_for(2s);
  }
}

// Goal: the only NI of a peer keeps its health (docs/wire/lnet.md §9): a lower value would help nobody.
TEST_F(SimHealth, a_single_peer_ni_keeps_its_health) {
  build({"10.0.0.1@tcp", "10.1.0.1@tcp1"}, {"10.0.0.2@tcp"});
  refuse("10.0.0.2@tcp");
  EXPECT_FALSE(puts(3));
  EXPECT_EQ(peer_health("10.0.0.2@tcp"), 1000);
  sim.fabric().hook = {};
}

// Goal: a request without an answer by its deadline ends with ETIMEDOUT, and costs the health of its next hop.
TEST_F(SimHealth, no_answer_costs_the_next_hop) {
  two_nets();
  a->apply({config::SetValue{"transaction_timeout", 5}});
  ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 10s));
  sim.fabric().hook = [&](const Nid& from, const Nid&, const wire::Header& header) {
    return from == nid("10.1.0.2@tcp1") && header.type == MsgType::kAck ? sim::Fate::kLoseSilently : sim::Fate::kPass;
  };
  EXPECT_FALSE(puts(2));
  EXPECT_EQ(a->stat(Stat::kResponseTimeoutCount), 1u);
  EXPECT_LT(peer_health("10.1.0.2@tcp1"), 1000);
  EXPECT_EQ(peer_health("10.0.0.2@tcp"), 1000);
  sim.fabric().hook = {};
}

// Goal: recovery pings of a peer NI that stays silent come after 1, 2, 4, 8 ... s, and no ping comes for others.
TEST_F(SimHealth, recovery_pings_back_off) {
  two_nets();
  refuse("10.1.0.2@tcp1");
  EXPECT_TRUE(puts(2));
  std::vector<int64_t> at;
  const Instant start = sim.now();
  sim.fabric().hook = [&](const Nid&, const Nid& to, const wire::Header& header) {
    if (header.type != MsgType::kGet) return sim::Fate::kPass;
    EXPECT_EQ(to, nid("10.1.0.2@tcp1"));
    at.push_back((sim.now() - start + 500ms) / 1s);
    return sim::Fate::kLoseSilently;
  };
  sim.run_for(64s);
  EXPECT_EQ(at, (std::vector<int64_t>{1, 3, 7, 15, 31, 63}));
  EXPECT_LT(peer_health("10.1.0.2@tcp1"), 1000);
  sim.fabric().hook = {};
}

// Goal: a link goes down under load. Messages that have not begun take the other rail at once, and all operations end
// well. When the link is back, the rail is used again.
TEST_F(SimHealth, link_down_moves_the_messages) {
  for (const bool fast : {false, true}) {
    two_nets(fast);
    sim.fabric().rules().bytes_per_second = 100'000'000;
    begin_puts(40, kLarge);
    sim.run_for(3ms);
    sim.fabric().link_down(nid("10.1.0.1@tcp1"));
    sim.run_for(1ms);
    const uint64_t over_dead = sent_over("10.1.0.1@tcp1");
    begin_puts(20);
    ASSERT_TRUE(sim.run_until([&] { return a->open_operations() <= 16; }, 20s));
    EXPECT_LE(sent_over("10.1.0.1@tcp1"), over_dead + 8) << "only those that had begun";
    sim.fabric().link_up(nid("10.1.0.1@tcp1"));
    ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 60s));
    EXPECT_EQ(a->ended(false), 0u);
    ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") == 1000; }, 60s));
    ASSERT_TRUE(sim.run_until([&] { return peer_health("10.1.0.2@tcp1") == 1000; }, 60s));
    EXPECT_TRUE(puts(4));
    EXPECT_GT(sent_over("10.1.0.1@tcp1"), over_dead);
    a->stop_cleanly();
    b->stop_cleanly();
  }
}

// Goal: a rail that is up and carries nothing is found within 500 ms while another rail answers. Nothing new goes over
// it, messages that wait for it move, and it is used again within 2 s after it is back.
TEST_F(SimHealth, a_black_hole_is_found_while_others_answer) {
  two_nets(true);
  sim.fabric().rules().bytes_per_second = 8'000'000;
  const auto keep_busy = [&](Duration time) {
    const Instant end = sim.now() + time;
    while (sim.now() < end) {
      while (a->open_operations() < 32) begin_puts(1, 4096);
      sim.run_for(1ms);
    }
  };
  keep_busy(100ms);
  sim.fabric().cut(nid("10.1.0.1@tcp1"), nid("10.1.0.2@tcp1"));
  keep_busy(500ms);
  EXPECT_EQ(peer_health("10.1.0.2@tcp1"), 0);
  EXPECT_EQ(local_health("10.1.0.1@tcp1"), 0);
  EXPECT_EQ(peer_health("10.0.0.2@tcp"), 1000);
  EXPECT_EQ(local_health("10.0.0.1@tcp"), 1000);
  const uint64_t over_dead = sent_over("10.1.0.1@tcp1"), over_other = sent_over("10.0.0.1@tcp");
  keep_busy(3s);
  EXPECT_EQ(sent_over("10.1.0.1@tcp1"), over_dead);
  EXPECT_GT(sent_over("10.0.0.1@tcp"), over_other + 100);
  sim.fabric().heal(nid("10.1.0.1@tcp1"), nid("10.1.0.2@tcp1"));
  keep_busy(2s);
  EXPECT_EQ(peer_health("10.1.0.2@tcp1"), 1000);
  EXPECT_EQ(local_health("10.1.0.1@tcp1"), 1000);
  EXPECT_GT(sent_over("10.1.0.1@tcp1"), over_dead + 10);
  ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 60s));
  EXPECT_EQ(a->ended(false), 0u);
}

// Goal: on one network, an NI of this node carries nothing, to any peer NI. Then the NI is out of service, and no peer
// NI is: the others still reach them.
TEST_F(SimHealth, a_black_hole_is_charged_to_the_side_that_is_silent) {
  build({"10.0.0.1@tcp", "10.0.0.2@tcp"}, {"10.0.0.11@tcp", "10.0.0.12@tcp"}, true);
  sim.fabric().rules().bytes_per_second = 8'000'000;
  const auto keep_busy = [&](Duration time) {
    const Instant end = sim.now() + time;
    while (sim.now() < end) {
      while (a->open_operations() < 32) begin_puts(1, 4096);
      sim.run_for(1ms);
    }
  };
  keep_busy(100ms);
  for (const char* theirs : {"10.0.0.11@tcp", "10.0.0.12@tcp"}) sim.fabric().cut(nid("10.0.0.2@tcp"), nid(theirs));
  keep_busy(600ms);
  EXPECT_EQ(local_health("10.0.0.2@tcp"), 0);
  EXPECT_EQ(local_health("10.0.0.1@tcp"), 1000);
  EXPECT_EQ(peer_health("10.0.0.11@tcp"), 1000);
  EXPECT_EQ(peer_health("10.0.0.12@tcp"), 1000);
  sim.fabric().heal_all();
  keep_busy(2s);
  EXPECT_EQ(local_health("10.0.0.2@tcp"), 1000);
  ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 60s));
  EXPECT_EQ(a->ended(false), 0u);
}

// Goal: one of two rails carries nothing, and nobody has found that yet. A discovery and a push both get through, by
// the rail of the primary NIDs or by the other one.
TEST_F(SimHealth, discovery_and_pushes_take_the_rail_that_lives) {
  two_nets();
  size_t known = 2;
  for (const auto& [ours, theirs] : {std::pair("10.0.0.1@tcp", "10.0.0.2@tcp"), {"10.1.0.1@tcp1", "10.1.0.2@tcp1"}}) {
    sim.fabric().cut(nid(ours), nid(theirs));
    for (int i = 0; i < 4; ++i) {
      std::vector<DiscoverAnswer> answers;
      a->node().control().discovery->discover({nid("10.0.0.2@tcp")}, true,
                                              [&](std::vector<DiscoverAnswer> got) { answers = std::move(got); });
      ASSERT_TRUE(sim.run_until([&] { return !answers.empty(); }, 5s)) << theirs;
      EXPECT_EQ(answers[0].error, 0) << theirs;
    }
    config::NetAdd add;
    add.ni.nid = nid(known == 2 ? "10.2.0.1@tcp2" : "10.3.0.1@tcp3");
    add.net = add.ni.nid->net();
    a->apply({add});
    ++known;
    EXPECT_TRUE(sim.run_until([&] { return b->node().control().peers->find(a->nid())->peer->ni_count() == known; }, 5s))
        << theirs;
    sim.fabric().heal_all();
    sim.run_for(120s);  // messages that wait over the dead rail end
  }
}

// Goal: where nobody answers, no rail is judged: the whole peer may be gone.
TEST_F(SimHealth, a_dead_peer_is_no_black_hole) {
  two_nets(true);
  sim.cut(*a, *b);
  begin_puts(8);
  sim.run_for(3s);
  EXPECT_EQ(peer_health("10.0.0.2@tcp"), 1000);
  EXPECT_EQ(peer_health("10.1.0.2@tcp1"), 1000);
  EXPECT_EQ(local_health("10.0.0.1@tcp"), 1000);
  EXPECT_EQ(local_health("10.1.0.1@tcp1"), 1000);
  sim.heal(*a, *b);
  ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 200s));
}

TEST_F(SimHealth, without_fast_detection_nothing_is_probed) {
  two_nets(false);
  sim.fabric().cut(nid("10.1.0.1@tcp1"), nid("10.1.0.2@tcp1"));
  begin_puts(8);
  sim.run_for(10s);
  EXPECT_EQ(probes(), 0u);
  EXPECT_EQ(peer_health("10.1.0.2@tcp1"), 1000);
  sim.fabric().heal_all();
  ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 200s));
}

// Goal: an idle node sends no probe, and neither does a node whose messages are answered.
TEST_F(SimHealth, nothing_is_probed_where_nothing_waits) {
  two_nets(true);
  const uint64_t before = a->stat(Stat::kSendCount) + b->stat(Stat::kSendCount);
  sim.run_for(59s);
  EXPECT_EQ(a->stat(Stat::kSendCount) + b->stat(Stat::kSendCount), before);
  EXPECT_TRUE(puts(100));
  EXPECT_EQ(probes(), 0u);
}

// Goal: probes of one pair are at least 100 ms apart, and become rare if the pair answers them: the application is
// slow.
TEST_F(SimHealth, a_slow_application_is_no_black_hole) {
  two_nets(true);
  sim.fabric().hook = [](const Nid&, const Nid&, const wire::Header& header) {
    return header.type == MsgType::kAck && header.ack().match_bits != 0x8000000000000000 ? sim::Fate::kLoseSilently
                                                                                         : sim::Fate::kPass;
  };
  begin_puts(2);
  sim.run_for(30s);
  EXPECT_GT(probes(), 2u);
  EXPECT_LT(probes(), 60u);
  for (const char* theirs : {"10.0.0.2@tcp", "10.1.0.2@tcp1"}) EXPECT_EQ(peer_health(theirs), 1000) << theirs;
  for (const char* ours : {"10.0.0.1@tcp", "10.1.0.1@tcp1"}) EXPECT_EQ(local_health(ours), 1000) << ours;
  sim.fabric().hook = {};
  ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 200s));
}

// Goal: a value set by hand stays, whatever gets through or fails, until the operator gives it back.
TEST_F(SimHealth, a_value_set_by_hand_is_held) {
  two_nets();
  const auto apply = [&](config::Change change) {
    a->apply({std::move(change)});
    ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 10s));
    ASSERT_EQ(a->apply_errors(), std::vector<std::string>{});
  };
  apply(config::PeerSet{.nid = nid("10.1.0.2@tcp1"), .health = 300});
  apply(config::NetSet{.nid = nid("10.1.0.1@tcp1"), .health = 0});
  EXPECT_TRUE(puts(10));
  sim.run_for(30s);
  EXPECT_EQ(peer_health("10.1.0.2@tcp1"), 300);
  EXPECT_EQ(local_health("10.1.0.1@tcp1"), 0);
  EXPECT_TRUE(a->node().control().health->recovering_peers().empty());
  apply(config::PeerSet{.nid = nid("10.1.0.2@tcp1"), .health = config::kHealthAuto});
  apply(config::NetSet{.nid = nid("10.1.0.1@tcp1"), .health = config::kHealthAuto});
  EXPECT_EQ(a->node().control().health->recovering_peers(), std::vector{nid("10.1.0.2@tcp1")});
  EXPECT_EQ(a->node().control().health->recovering_local(), std::vector{nid("10.1.0.1@tcp1")});
  ASSERT_TRUE(sim.run_until([&] { return peer_health("10.1.0.2@tcp1") == 1000; }, 100s));
  ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") == 1000; }, 100s));
}

// Goal: no peer is on the net of an NI, so that only its link shows that it is well. The NI recovers as fast as by
// pings that are answered. With waits that double, it would take 17 minutes.
TEST_F(SimHealth, an_ni_that_is_alone_on_its_net_recovers_soon) {
  build({"10.0.0.1@tcp", "10.1.0.1@tcp1"}, {"10.0.0.2@tcp"});
  for (const int64_t health : {int64_t{0}, config::kHealthAuto}) {
    a->apply({config::NetSet{.nid = nid("10.1.0.1@tcp1"), .health = health}});
    ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 10s));
    ASSERT_EQ(local_health("10.1.0.1@tcp1"), 0);
  }
  ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") == 1000; }, 30s));
}

// Goal: the same after pings without an answer, whose waits have become long. Only the first look has to wait.
TEST_F(SimHealth, an_ni_that_is_left_alone_recovers_soon_after_the_first_look) {
  build({"10.0.0.1@tcp", "10.1.0.1@tcp1"}, {"10.0.0.2@tcp"});
  for (const int64_t health : {int64_t{0}, config::kHealthAuto}) {
    a->apply({config::NetSet{.nid = nid("10.1.0.1@tcp1"), .health = health}});
    ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 10s));
  }
  for (int i = 0; i < 12; ++i) local_ni("10.1.0.1@tcp1").health.pinged({}, sim.now());
  ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") > 0; }, 901s));
  ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") == 1000; }, 30s));
}

/// Three nodes with two rails each.
struct SimWitness : SimHealth {
  SimNode* c = nullptr;
  SimWitness() {
    two_nets(true);
    c = &sim.add_node({.nis = {"10.0.0.3@tcp", "10.1.0.3@tcp1"}, .fast_detection = true});
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(a->put(*c));
    EXPECT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 10s));
    sim.fabric().rules().bytes_per_second = 8'000'000;
  }
  void keep_busy(Duration time, bool both) {
    for (const Instant end = sim.now() + time; sim.now() < end; sim.run_for(1ms))
      while (a->open_operations() < 32) ASSERT_TRUE(a->put(both && a->open_operations() % 2 == 0 ? *c : *b, {}));
  }
  void end_well() {
    sim.fabric().heal_all();
    ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 60s));
    EXPECT_EQ(a->ended(false), 0u);
  }
};

// Goal: one NI of a peer carries nothing. The NI of this node on that net has no other traffic, but another peer there
// answers it: so it is not at fault.
TEST_F(SimWitness, clears_an_ni_of_this_node) {
  sim.fabric().cut(nid("10.1.0.1@tcp1"), nid("10.1.0.2@tcp1"));
  keep_busy(2s, false);
  EXPECT_EQ(peer_health("10.1.0.2@tcp1"), 0);
  EXPECT_EQ(peer_health("10.1.0.3@tcp1"), 1000);
  EXPECT_EQ(local_health("10.1.0.1@tcp1"), 1000);
  end_well();
}

TEST_F(SimWitness, that_is_silent_as_well_convicts_it) {
  for (const char* theirs : {"10.1.0.2@tcp1", "10.1.0.3@tcp1"}) sim.fabric().cut(nid("10.1.0.1@tcp1"), nid(theirs));
  keep_busy(1s, false);
  EXPECT_EQ(local_health("10.1.0.1@tcp1"), 0);
  end_well();
}

// Goal: probes that fail at once are no proof of a black hole: neither side falls to 0 for them.
TEST_F(SimHealth, a_probe_that_fails_at_once_judges_nobody) {
  two_nets(true);
  sim.fabric().hook = [](const Nid&, const Nid& at, const wire::Header& header) {
    const bool probe = header.type == MsgType::kGet && at == nid("10.1.0.2@tcp1");
    const bool ack = header.type == MsgType::kAck && header.ack().match_bits != 0x8000000000000000;
    return probe ? sim::Fate::kLoseWithError : ack ? sim::Fate::kLoseSilently : sim::Fate::kPass;
  };
  begin_puts(2);
  sim.run_for(500ms);
  EXPECT_GT(probes(), 2u);
  EXPECT_GT(peer_health("10.1.0.2@tcp1"), 0);
  for (const char* ours : {"10.0.0.1@tcp", "10.1.0.1@tcp1"}) EXPECT_EQ(local_health(ours), 1000) << ours;
  sim.fabric().hook = {};
  ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 200s));
}

// Goal: a rail comes back after minutes, in which its connections have ended and many dials have failed. Messages take
// it again within seconds: neither a back-off nor a SYN without answer is waited for.
TEST(SimReturn, a_rail_that_was_away_for_minutes_is_used_within_seconds) {
  SimNet sim({.seed = 12, .transport = Transport::kSockTcp, .tcp_backs_off = true});
  auto& b = sim.add_node({.nis = {"10.0.0.2@tcp", "10.1.0.2@tcp1"}, .fast_detection = true});
  auto& a = sim.add_node({.nis = {"10.0.0.1@tcp", "10.1.0.1@tcp1"}, .fast_detection = true});
  const Nid rail = b.nid(1);
  const auto sent = [&] {
    uint64_t count = 0;
    for (const auto& slice : a.node().control().nis->find(a.nid(1))->slices)
      count += slice->counters[NiTraffic::kSent][unsigned(MsgType::kPut)].get();
    return count;
  };
  const auto puts_for = [&](Duration time, const std::function<bool()>& done) {
    for (const Instant end = sim.now() + time; sim.now() < end && !done(); sim.run_for(50ms)) {
      if (a.open_operations() >= 4) continue;
      EXPECT_TRUE(a.put(b));
    }
    return done();
  };
  ASSERT_TRUE(puts_for(10s, [&] { return sent() > 10; }));
  const auto silence = [&](bool on) { sim.tcp().silence({.v6 = false, .bytes = rail.addr}, on); };
  silence(true);
  (void)puts_for(240s, [] { return false; });
  const uint64_t before = sent();
  silence(false);
  EXPECT_TRUE(puts_for(3s, [&] { return sent() > before; }));
  ASSERT_TRUE(sim.run_until([&] { return a.open_operations() == 0; }, 100s));
  EXPECT_EQ(a.ended(false), 0u);
}

// Goal: a rail that stays dead while others are active is pinged once a second, however long that lasts.
TEST_F(SimHealth, a_dead_rail_is_pinged_once_a_second) {
  two_nets(true);
  uint64_t pings = 0;
  sim.fabric().hook = [&](const Nid&, const Nid& at, const wire::Header& header) {
    pings += header.type == MsgType::kGet && at == nid("10.1.0.2@tcp1");
    return at.net() == nid("10.1.0.2@tcp1").net() ? sim::Fate::kLoseSilently : sim::Fate::kPass;
  };
  begin_puts(4, 4096);
  ASSERT_TRUE(sim.run_until([&] { return peer_health("10.1.0.2@tcp1") == 0; }, 2s));
  pings = 0;
  constexpr uint64_t kSeconds = 120;
  for (uint64_t i = 0; i < 4 * kSeconds; ++i, sim.run_for(250ms)) begin_puts(1);
  EXPECT_GT(pings, kSeconds);
  EXPECT_LE(pings, 2 * kSeconds + 2) << "one of the NI and one of the peer NI";
  sim.fabric().hook = {};
  ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") == 1000; }, 5s));
  ASSERT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 200s));
}

// Goal: the health of an NI is set to 0, or back to 1000. The peers get a push about it.
TEST_F(SimHealth, peers_get_a_push_about_a_value_of_0) {
  two_nets();
  const auto told_down = [&] { return b->node().control().peers->find(nid("10.1.0.1@tcp1"))->status == wire::kNiDown; };
  EXPECT_FALSE(told_down());
  a->apply({config::NetSet{.nid = nid("10.1.0.1@tcp1"), .health = 0}});
  EXPECT_TRUE(sim.run_until(told_down, 2s));
  a->apply({config::NetSet{.nid = nid("10.1.0.1@tcp1"), .health = 1000}});
  EXPECT_TRUE(sim.run_until([&] { return !told_down(); }, 2s));
}

// Goal: an operator gives an NI back that was out of service as silent. Messages use it again.
TEST_F(SimHealth, a_silent_ni_that_is_set_by_hand_is_used) {
  two_nets(true);
  sim.fabric().rules().bytes_per_second = 8'000'000;
  sim.fabric().cut(nid("10.1.0.1@tcp1"), nid("10.1.0.2@tcp1"));
  begin_puts(8, 4096);
  ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") == 0; }, 2s));
  sim.fabric().heal_all();
  a->apply({config::NetSet{.nid = nid("10.1.0.1@tcp1"), .health = 900}});
  a->apply({config::PeerSet{.nid = nid("10.1.0.2@tcp1"), .health = 900}});
  ASSERT_TRUE(sim.run_until([&] { return !a->applying() && a->open_operations() == 0; }, 20s));
  EXPECT_FALSE(local_ni("10.1.0.1@tcp1").watch.avoided);
  EXPECT_FALSE(peer_ni("10.1.0.2@tcp1").watch.avoided);
}

// Goal: the link of a silent NI goes down and comes back. That alone does not show that the NI carries anything.
TEST_F(SimHealth, a_silent_ni_stays_avoided_when_its_link_comes_back) {
  two_nets(true);
  sim.fabric().rules().bytes_per_second = 8'000'000;
  sim.fabric().cut(nid("10.1.0.1@tcp1"), nid("10.1.0.2@tcp1"));
  begin_puts(8, 4096);
  ASSERT_TRUE(sim.run_until([&] { return local_health("10.1.0.1@tcp1") == 0; }, 2s));
  sim.fabric().link_down(nid("10.1.0.1@tcp1"));
  sim.run_for(50ms);
  sim.fabric().link_up(nid("10.1.0.1@tcp1"));
  sim.run_for(50ms);
  EXPECT_FALSE(local_ni("10.1.0.1@tcp1").fatal);
  EXPECT_TRUE(local_ni("10.1.0.1@tcp1").watch.avoided);
  sim.fabric().heal_all();
  ASSERT_TRUE(sim.run_until([&] { return !local_ni("10.1.0.1@tcp1").watch.avoided; }, 20s));
}

}  // namespace
}  // namespace ulnet::test
