// Fault rules between whole nodes, over the in-memory fabric with messages, the same with remote writes, and socklnd.
// SimNet's end checks that no credit is lost, and that each operation has ended once.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/faults/fault_rules.h"
#include "dataplane/base/nid_text.h"
#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

constexpr uint16_t failure(LndStatus status) {
  return uint16_t(1u << unsigned(status));
}
constexpr uint8_t type(wire::MsgType one) {
  return uint8_t(1u << unsigned(one));
}
constexpr uint8_t kPuts = type(wire::MsgType::kPut), kAcks = type(wire::MsgType::kAck),
                  kGets = type(wire::MsgType::kGet);
constexpr uint64_t kPortal9 = 1 << 9;  ///< of the tests' own messages; discovery uses portal 0

class SimFaults : public ::testing::TestWithParam<Transport> {
 protected:
  SimFaults() : sim({.seed = 31, .transport = GetParam()}) {}

  static FaultRules& rules(SimNode& node) { return node.node().control().faults; }
  static void add(SimNode& node, const FaultSpec& spec) {
    const auto added = rules(node).add(spec);
    ASSERT_TRUE(added.has_value()) << added.error().what;
  }
  static FaultRules::Counts counts(SimNode& node, FaultKind kind, size_t rule = 0) {
    return rules(node).list(kind).at(rule).counts;
  }
  static FaultNids only(const Nid& nid) { return {nid, kAnyNet}; }
  static FaultSpec delay(Duration latency) {
    return {.kind = FaultKind::kDelay, .portals = kPortal9, .types = kPuts, .rate = 1, .latency = latency};
  }

  /// Waits until the operation has ended; its status.
  int32_t wait(SimNode& node, std::optional<uint64_t> operation) {
    EXPECT_TRUE(operation && sim.run_until([&] { return node.outcome(*operation).ended; }, 400s)) << sim.replay_hint();
    return operation ? node.outcome(*operation).status : 1;
  }
  int32_t put(SimNode& from, SimNode& to, const Operation& op = {}) { return wait(from, from.put(to, op)); }
  Duration took(SimNode& node, uint64_t operation) {
    return node.outcome(operation).finished - node.outcome(operation).issued;
  }
  /// Two nodes of one NI each. Each has discovered the other.
  void pair() {
    a = &sim.add_node({.nis = {"10.0.0.1@tcp"}, .transaction_timeout = 20, .lnd_timeout = 6});
    b = &sim.add_node({.nis = {"10.0.0.2@tcp"}});
    ASSERT_EQ(put(*a, *b), 0);
    sim.run_for(1s);
  }

  SimNet sim;
  SimNode *a = nullptr, *b = nullptr;
};

// Goal: a message that is lost on receive is missing for its sender only: no answer comes, and the response times out.
TEST_P(SimFaults, a_put_lost_on_receive_times_out) {
  pair();
  add(*b, {.source = only(a->nid()), .portals = kPortal9, .types = kPuts, .rate = 1});
  const auto lost = a->put(*b);
  EXPECT_EQ(wait(*a, lost), -ETIMEDOUT);
  EXPECT_EQ(took(*a, *lost), 20s) << "its transaction_timeout";
  EXPECT_EQ(a->stat(Stat::kResponseTimeoutCount), 1u);
  EXPECT_EQ(b->put_count(), 1u) << "that of pair()";
  EXPECT_EQ(b->drops(Drop::kFault), 1u);
  EXPECT_EQ(put(*a, *b, {.ack = false}), 0) << "it was sent; nobody waits for an answer";
  sim.run_for(1s);
  EXPECT_EQ(counts(*b, FaultKind::kDrop).hit_sum(), 2u);
  ASSERT_TRUE(rules(*b).del({.all = true}));
  EXPECT_EQ(put(*a, *b), 0);
  EXPECT_EQ(b->put_count(), 2u);
}

// Goal: the ACK is lost, but the PUT has come: the sender's operation fails, and the target has its event.
TEST_P(SimFaults, an_ack_lost_on_receive_times_out) {
  pair();
  add(*a, {.source = only(b->nid()), .types = kAcks, .rate = 1});
  EXPECT_EQ(put(*a, *b), -ETIMEDOUT);
  EXPECT_EQ(b->put_count(), 2u);
  EXPECT_EQ(counts(*a, FaultKind::kDrop).hit[size_t(wire::MsgType::kAck)], 1u);
}

// Goal: exactly one of each 5 messages is lost, whatever the transport.
TEST_P(SimFaults, one_of_five_is_lost) {
  pair();
  add(*b, {.portals = kPortal9, .types = kPuts, .rate = 5});
  for (int i = 0; i < 50; ++i) {
    const auto one = a->put(*b, {.length = uint32_t(1000 * i), .ack = false});
    EXPECT_EQ(wait(*a, one), 0);
  }
  ASSERT_TRUE(sim.run_until([&] { return b->put_count() + b->drops(Drop::kFault) == 51; }, 10s));
  EXPECT_EQ(b->drops(Drop::kFault), 10u);
  const FaultRules::Counts counted = counts(*b, FaultKind::kDrop);
  EXPECT_EQ(counted.matched, 50u);
  EXPECT_EQ(counted.hit_sum(), 10u);
  rules(*b).reset(FaultKind::kDrop);
  EXPECT_EQ(counts(*b, FaultKind::kDrop).matched, 0u);
}

// Goal: a send fails with each of the ten statuses. The event has the status's error, and the node counts its class.
TEST_P(SimFaults, a_send_fails_with_each_status) {
  pair();
  const std::vector<std::pair<LndStatus, Stat>> classes = {{LndStatus::kLocalInterrupt, Stat::kLocalInterruptCount},
                                                           {LndStatus::kLocalDropped, Stat::kLocalDroppedCount},
                                                           {LndStatus::kLocalAborted, Stat::kLocalAbortedCount},
                                                           {LndStatus::kLocalNoRoute, Stat::kLocalNoRouteCount},
                                                           {LndStatus::kLocalError, Stat::kLocalErrorCount},
                                                           {LndStatus::kLocalTimeout, Stat::kLocalTimeoutCount},
                                                           {LndStatus::kRemoteError, Stat::kRemoteErrorCount},
                                                           {LndStatus::kRemoteDropped, Stat::kRemoteDroppedCount},
                                                           {LndStatus::kRemoteTimeout, Stat::kRemoteTimeoutCount},
                                                           {LndStatus::kNetworkTimeout, Stat::kNetworkTimeoutCount}};
  for (const auto& [status, counter] : classes) {
    add(*a, {.dest = only(b->nid()), .portals = kPortal9, .all = true, .failures = failure(status)});
    const uint64_t before = a->stat(counter);
    EXPECT_LT(put(*a, *b), 0) << int(status);
    EXPECT_EQ(a->stat(counter), before + 1) << int(status);
    ASSERT_TRUE(rules(*a).del({.all = true}));
  }
  EXPECT_EQ(a->stat(Stat::kResendCount), 0u) << "there is no other NI";
  EXPECT_EQ(b->put_count(), 1u);
  EXPECT_EQ(b->drops(Drop::kFault), 0u);
}

// Goal: of two rails with a rule on one NI, sends over that NI fail, and all messages arrive over the other one. The
// rule hits a class that may be sent again over another NI.
TEST_P(SimFaults, a_rule_on_one_of_two_nis_fails_only_there) {
  a = &sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.11@tcp"}});
  b = &sim.add_node({.nis = {"10.0.0.2@tcp", "10.0.0.12@tcp"}});
  ASSERT_EQ(put(*a, *b), 0);
  sim.run_for(1s);
  add(*a, {.local = only(a->nid(1)), .portals = kPortal9, .all = true, .failures = failure(LndStatus::kLocalDropped)});
  unsigned well = 0;
  for (int i = 0; i < 40; ++i) well += put(*a, *b) == 0;
  const uint64_t failed = a->stat(Stat::kLocalDroppedCount);
  EXPECT_GT(failed, 0u);
  EXPECT_EQ(failed, counts(*a, FaultKind::kDrop).hit_sum());
  EXPECT_EQ(a->stat(Stat::kResendCount) + (40 - well), failed) << "each failure was sent again, or the last attempt";
  EXPECT_EQ(b->put_count(), 1 + well);
  ASSERT_TRUE(rules(*a).del({.all = true}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(put(*a, *b), 0);
}

// Goal: a message that a rule delays arrives after its latency. A GET, which no rule delays, overtakes it. The delayed
// messages keep their order.
TEST_P(SimFaults, delayed_sends_arrive_later_and_in_order) {
  pair();
  FaultSpec spec = delay(3s);
  spec.types = kPuts;
  add(*a, spec);
  std::vector<uint64_t> delayed;
  for (uint64_t bits : {1, 2, 3}) delayed.push_back(*a->put(*b, {.match_bits = bits}));
  const auto get = a->get(*b);
  EXPECT_EQ(wait(*a, get), 0);
  EXPECT_LT(took(*a, *get), 1s) << "GETs are not of the rule";
  EXPECT_EQ(b->put_count(), 1u);
  for (const uint64_t one : delayed) {
    EXPECT_EQ(wait(*a, one), 0);
    EXPECT_GE(took(*a, one), 3s);
    EXPECT_LT(took(*a, one), 4s);
  }
  const std::vector<uint64_t>& bits = b->match_bits();
  EXPECT_EQ((std::vector<uint64_t>(bits.end() - 3, bits.end())), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(counts(*a, FaultKind::kDelay).hit_sum(), 3u);
}

TEST_P(SimFaults, delayed_receives_arrive_later_and_in_order) {
  pair();
  add(*b, delay(2s));
  std::vector<uint64_t> delayed;
  for (uint64_t bits : {1, 2, 3}) delayed.push_back(*a->put(*b, {.length = 5000, .match_bits = bits}));
  for (const uint64_t one : delayed) {
    EXPECT_EQ(wait(*a, one), 0);
    EXPECT_GE(took(*a, one), 2s);
  }
  const std::vector<uint64_t>& bits = b->match_bits();
  EXPECT_EQ((std::vector<uint64_t>(bits.end() - 3, bits.end())), (std::vector<uint64_t>{1, 2, 3}));
}

// Goal: when a delay rule is deleted, its messages go on at once, although the workers sleep.
TEST_P(SimFaults, a_deleted_delay_ends_at_once) {
  pair();
  add(*a, delay(15s));
  add(*b, delay(15s));
  const auto at_sender = a->put(*b);
  sim.run_for(1s);
  EXPECT_EQ(b->put_count(), 1u);
  ASSERT_TRUE(rules(*a).del({.kind = FaultKind::kDelay, .all = true}));
  sim.run_for(1s);
  EXPECT_EQ(b->put_count(), 1u) << "now the other node delays it";
  ASSERT_TRUE(rules(*b).del({.kind = FaultKind::kDelay, .all = true}));
  EXPECT_EQ(wait(*a, at_sender), 0);
  EXPECT_LT(took(*a, *at_sender), 3s);
}

// Goal: a delay that is longer than the time of an operation ends the operation in time, with a timeout. The message is
// not sent later. Method: first on the sender, then on the target.
TEST_P(SimFaults, a_delay_beyond_the_deadline_is_a_timeout) {
  pair();
  add(*a, delay(100s));
  const auto at_sender = a->put(*b);
  EXPECT_EQ(wait(*a, at_sender), -ETIMEDOUT);
  EXPECT_EQ(took(*a, *at_sender), 19s) << "all attempts of lnd_timeout, and 1 s";
  sim.run_for(200s);
  EXPECT_EQ(b->put_count(), 1u);
  ASSERT_TRUE(rules(*a).del({.kind = FaultKind::kDelay, .all = true}));
  add(*b, delay(100s));
  EXPECT_EQ(put(*a, *b), -ETIMEDOUT);
  sim.run_for(200s);
  EXPECT_EQ(counts(*b, FaultKind::kDelay).hit_sum(), 1u);
}

// Goal: a node that stops, and an NI that is deleted, wait for no delay: neither for messages that they delay.
TEST_P(SimFaults, a_stop_and_a_deleted_ni_wait_for_no_delay) {
  a = &sim.add_node({.nis = {"10.0.0.1@tcp", "10.0.0.11@tcp"}});
  b = &sim.add_node({.nis = {"10.0.0.2@tcp"}});
  ASSERT_EQ(put(*a, *b), 0);
  sim.run_for(1s);
  add(*a, delay(1000s));
  add(*b, delay(1000s));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(a->put(*b, {.ack = false}));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(b->put(*a, {.ack = false}));
  sim.run_for(1s);
  config::NetDel del;
  del.nid = a->nid(1);
  del.net = del.nid->net();
  del.now = true;
  const Instant began = sim.now();
  a->apply({del});
  ASSERT_TRUE(sim.run_until([&] { return !a->applying(); }, 100s));
  EXPECT_LT(sim.now() - began, 20s);
  for (SimNode* node : {b, a}) {
    node->node().stop(sim.now());
    sim.run_for(10s);  // less than kStopMax
    EXPECT_TRUE(node->node().stopped());
    EXPECT_EQ(node->node().stop_leftovers(), "");
    node->kill();
  }
}

// Goal: a rule of a router concerns messages between other nodes, in both directions.
TEST_P(SimFaults, a_router_loses_and_delays_messages_of_others) {
  a = &sim.add_node(
      {.nis = {"10.0.0.1@tcp"}, .routes = {{"tcp1", "10.0.0.9@tcp"}}, .transaction_timeout = 20, .lnd_timeout = 6});
  SimNode& router = sim.add_node({.nis = {"10.0.0.9@tcp", "10.1.0.9@tcp1"}, .routing = true});
  b = &sim.add_node({.nis = {"10.1.0.2@tcp1"}, .routes = {{"tcp", "10.1.0.9@tcp1"}}});
  ASSERT_EQ(put(*a, *b), 0);
  sim.run_for(1s);
  add(router, {.source = only(a->nid()), .portals = kPortal9, .rate = 1});
  EXPECT_EQ(put(*a, *b), -ETIMEDOUT);
  EXPECT_EQ(router.drops(Drop::kFault), 1u);
  ASSERT_TRUE(rules(router).del({.all = true}));
  add(router, delay(2s));
  const auto late = a->put(*b, {.length = 20000});
  EXPECT_EQ(wait(*a, late), 0);
  EXPECT_GE(took(*a, *late), 4s) << "on receive, and before the send";
  EXPECT_EQ(counts(router, FaultKind::kDelay).hit_sum(), 2u);
}

// Goal: under rules of all kinds, with links that break, every operation ends once, and nothing is left. Method: two
// nodes with two workers and two NIs each; the seeds differ in all orders. After the rules are gone, all goes well.
TEST_P(SimFaults, everything_at_once_leaves_nothing) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SimNet net({.seed = seed, .transport = GetParam()});
    const NodeSpec base{.workers = 2, .peer_credits = 2, .credits = 4, .transaction_timeout = 20, .lnd_timeout = 6};
    NodeSpec one = base, other = base;
    one.nis = {"10.0.0.1@tcp", "10.0.0.11@tcp"};
    other.nis = {"10.0.0.2@tcp", "10.0.0.12@tcp"};
    auto& left = net.add_node(one);
    auto& right = net.add_node(other);
    for (SimNode* node : {&left, &right}) {
      add(*node, {.kind = FaultKind::kDelay, .rate = 2, .latency = 30ms});
      add(*node, {.kind = FaultKind::kDelay, .types = kGets, .interval = 1s, .latency = 30s});
      add(*node, {.rate = 20});
      add(*node, {.rate = 10, .failures = 0x7FE});
      add(*node, {.local = only(node->nid(1)), .rate = 3, .failures = failure(LndStatus::kLocalTimeout)});
    }
    for (int round = 0; round < 8; ++round) {
      for (int i = 0; i < 10; ++i)
        for (auto [from, to] : {std::pair(&left, &right), std::pair(&right, &left)}) {
          const Operation op{.length = uint32_t(net.rng().below(40000)), .ack = net.rng().one_in(2)};
          (void)(net.rng().one_in(3) ? from->get(*to, op) : from->put(*to, op));
        }
      net.run_for(Duration(int64_t(net.rng().below(2'000'000'000))));
      if (round == 3) net.reset(left, right);
      if (round == 5) net.cut(left, right);
      if (round == 6) net.heal_all();
    }
    for (SimNode* node : {&left, &right}) {
      ASSERT_TRUE(rules(*node).del({.kind = FaultKind::kDrop, .all = true}));
      ASSERT_TRUE(rules(*node).del({.kind = FaultKind::kDelay, .all = true}));
    }
    ASSERT_TRUE(net.run_until([&] { return left.open_operations() + right.open_operations() == 0; }, 400s))
        << net.replay_hint();
    EXPECT_GT(left.ended(false), 0u);
    net.run_for(10s);
    const auto last = left.put(right);
    ASSERT_TRUE(last && net.run_until([&] { return left.outcome(*last).ended; }, 400s));
    EXPECT_EQ(left.outcome(*last).status, 0) << net.replay_hint();
    EXPECT_EQ(net.finish(), "") << net.replay_hint();
  }
}

INSTANTIATE_TEST_SUITE_P(All, SimFaults, ::testing::Values(Transport::kFabric, Transport::kRdma, Transport::kSockTcp),
                         [](const auto& of) { return transport_name(of.param); });

}  // namespace
}  // namespace ulnet::test
