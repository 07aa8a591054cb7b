// Setting connections up between nodes of o2iblnd: requests, rejects, races, lives, limits (docs/wire/o2iblnd.md §6).
#include "lnd/o2iblnd/fields.h"
#include "tests/script/ib/ib_nodes.h"
#include "tests/script/ib/raw_peer.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

class IbConnect : public IbNodes {};

TEST_F(IbConnect, a_message_makes_a_connection) {
  IbNode &a = add(0), &b = add(1);
  IbTx& tx = a.put(1, 1, 100);
  IbTx& large = a.put(1, 2, 500'000);
  pass();
  EXPECT_TRUE(tx.done && large.done);
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_EQ(b.received, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(a.ups, std::vector<unsigned>{1});
  EXPECT_EQ(b.ups, std::vector<unsigned>{0});
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 1u);
  IbTx& back = b.put(0, 3, 100);
  pass();
  EXPECT_TRUE(back.done);
  EXPECT_EQ(b.control->ni_connections(NiId{1}), 1u) << "over the same connection";
}

// Goal: each connection is shown with its state and with the numbers of its worker.
TEST_F(IbConnect, connections_are_shown) {
  IbNode& a = add(0);
  add(1);
  const auto shown = [&](const Nid& peer) {
    std::string text;
    for (const ConnectionShow& one : a.control->connections(NiId{1}, peer)) {
      text += (text.empty() ? "" : "; ") + std::string(one.state);
      for (const auto& [name, limit] : one.limits) text += ", " + std::string(name) + " " + std::to_string(limit);
      for (const auto& [name, number] : one.numbers) text += ", " + std::string(name) + " " + std::to_string(number);
    }
    return text;
  };
  EXPECT_EQ(shown(ib_nid(1)), "");
  a.put(1, 1, 100);
  EXPECT_EQ(shown(ib_nid(1)), "");
  a.turn(now);
  EXPECT_EQ(shown(ib_nid(1)),
            "preparing, queue depth 8, credits 0, reserved 0, owed 0, sends 0, waiting 0, messages sent 0, messages "
            "received 0, bytes sent 0, bytes received 0");
  pass();
  const std::string up =
      "up, queue depth 8, credits 7, reserved 8, owed 0, sends 0, waiting 0, messages sent 1, messages received 0, "
      "bytes sent 220, bytes received 0";
  EXPECT_EQ(shown(ib_nid(1)), up);
  EXPECT_EQ(shown(kAnyNid), up);
  EXPECT_EQ(shown(ib_nid(2)), "");
  net.rules.delay_min = net.rules.delay_max = 10ms;
  for (uint64_t bits = 2; bits <= 12; ++bits) a.put(1, bits, 100);
  pass(2ms);
  EXPECT_EQ(shown(ib_nid(1)),
            "up, queue depth 8, credits 0, reserved 8, owed 0, sends 7, waiting 4, messages sent 8, messages received "
            "0, bytes sent 1760, bytes received 0");
  a.control->ni_stop(NiId{1}, now);
  EXPECT_EQ(shown(kAnyNid).substr(0, 8), "closing,");
}

// Goal: traffic of a connection counts messages, and bytes of messages and of payloads that were written.
TEST_F(IbConnect, traffic_is_counted) {
  IbNode &a = add(0), &b = add(1);
  a.put(1, 1, 100'000);  // PUT_REQ, PUT_ACK, PUT_DONE
  pass();
  a.get(1, 2200, 200'000);  // GET_REQ, GET_DONE
  pass();
  const auto traffic = [](const IbNode& node) {
    std::string text;
    const std::vector<ConnectionShow> shows = node.control->connections(NiId{1}, kAnyNid);
    for (const auto& [name, number] : shows.at(0).numbers)
      if (std::string_view(name).find(' ') != std::string_view::npos) text += std::to_string(number) + " ";
    return text;
  };
  EXPECT_EQ(traffic(a),
            "3 2 " + std::to_string(128 + 100'000 + 60 + 148) + " " + std::to_string(84 + 200'000 + 60) + " ");
  EXPECT_EQ(traffic(b),
            "2 3 " + std::to_string(84 + 200'000 + 60) + " " + std::to_string(128 + 100'000 + 60 + 148) + " ");
}

// Goal: both dial at once. The side with the smaller hash gives in, and nothing is lost.
TEST_F(IbConnect, a_race) {
  IbNode &a = add(0), &b = add(1);
  IbTx& one = a.put(1, 1, 100);
  IbTx& two = b.put(0, 2, 100);
  pass(200ms);
  EXPECT_TRUE(one.done && two.done);
  EXPECT_EQ(one.how.error, 0);
  EXPECT_EQ(two.how.error, 0);
  EXPECT_EQ(a.received, std::vector<uint64_t>{2});
  EXPECT_EQ(b.received, std::vector<uint64_t>{1});
  EXPECT_TRUE(a.logged.empty() && b.logged.empty()) << "races are everyday";
}

TEST_F(IbConnect, another_nid_is_there) {
  IbNode& a = add(0);
  IbNode& b = add(1, {.nid = Nid::v4(Net::of(NetType::kO2ib, 1), 0x0A000002)});
  IbTx& tx = a.put(1, 1, 100);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, -ECONNREFUSED);
  EXPECT_EQ(tx.how.health, LndStatus::kRemoteDropped);
  ASSERT_EQ(a.downs.size(), 1u);
  ASSERT_EQ(b.logged.size(), 1u);
  EXPECT_EQ(
      b.logged[0],
      "o2iblnd: request of 10.0.0.1@o2ib (10.0.0.1) is rejected (FATAL): the request is for a NID that is not here");
}

// Goal: the side with more gives in, also if the worker reports the end of the refused attempt before the REJ is read.
TEST_F(IbConnect, the_smaller_queue_depth_wins) {
  for (const unsigned order : {0, 1, 2, 3}) {
    SCOPED_TRACE(order);
    const bool first = (order & 1) != 0;
    add(0, {.peer_credits = 32}).worker_first = order > 1;
    add(1, {.peer_credits = 8}).worker_first = order > 1;
    IbTx& tx = nodes[first ? 0 : 1]->put(first ? 1 : 0, 1, 100);
    pass();
    EXPECT_TRUE(tx.done);
    EXPECT_EQ(tx.how.error, 0);
    stop(*nodes[0]);
    stop(*nodes[1]);
    nodes.clear();
  }
}

// Goal: the peer has restarted: the first attempt has the stamp of its former life.
TEST_F(IbConnect, a_peer_that_restarts) {
  IbNode& a = add(0);
  add(1);
  a.put(1, 1, 100);
  pass();
  stop(*nodes[1]);
  nodes.erase(1);
  pass();
  IbNodeOptions again;
  again.config.incarnation = 777;
  IbNode& b = add(1, again);
  IbTx& tx = a.put(1, 2, 100);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_EQ(b.received, std::vector<uint64_t>{2});
}

// Goal: the peer vanishes without a word, and another life of it connects: connections of the former life end.
TEST_F(IbConnect, a_peer_that_lost_power) {
  IbNode& a = add(0);
  IbNode& b = add(1);
  b.put(0, 1, 100);
  pass();
  ASSERT_EQ(a.control->ni_connections(NiId{1}), 1u);
  net.break_wires(ib_address(0), ib_address(1));
  stop(b);
  nodes.erase(1);
  IbNodeOptions again;
  again.config.incarnation = 777;
  IbNode& b2 = add(1, again);
  IbTx& tx = b2.put(0, 2, 100);
  pass(1s);
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, 0);
  EXPECT_EQ(a.received, (std::vector<uint64_t>{1, 2}));
}

TEST_F(IbConnect, nobody_is_there) {
  IbNode& a = add(0);
  IbTx& tx = a.put(1, 1, 100);
  pass(40s);
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, -ETIMEDOUT);
  EXPECT_EQ(tx.how.health, LndStatus::kNetworkTimeout);
  IbTx& again = a.put(1, 2, 100);
  add(1);
  pass();
  EXPECT_TRUE(again.done) << "the next message tries at once";
  EXPECT_EQ(again.how.error, 0);
}

// Goal: a peer that says again and again that it connects itself. Ten reconnects are immediate, the others have a
// pause.
TEST_F(IbConnect, reconnects_have_pauses) {
  IbNode& a = add(0);
  RawPeer raw(net);
  const auto both = [&](Duration time) {
    for (const Instant until = now + time; now < until; now += kStep) raw.turn(now), a.turn(now);
  };
  raw.accepts = false;
  raw.reject_data.resize(kRejectBytes);
  reject_encode({.reason = RejectReason::kConnRace, .stamp = ib_stamp(1), .params = {kDepth, 257, kMessageMax}},
                std::span(raw.reject_data).first<kRejectBytes>());
  IbTx& tx = a.put(1, 1, 100);
  both(500ms);
  EXPECT_EQ(raw.requests, 1 + kReconnectsFree);
  both(3s);
  EXPECT_EQ(raw.requests, 1 + kReconnectsFree + 3);
  EXPECT_FALSE(tx.done);
  a.control->connect_again(NiId{1}, ib_nid(1), now);
  both(100ms);
  EXPECT_EQ(raw.requests, 1 + kReconnectsFree + 4) << "a recovery ping does not wait";
}

TEST_F(IbConnect, several_connections) {
  IbNodeOptions three;
  three.tunables = ib_tunable_numbers({.conns_per_peer = 3});
  IbNode& a = add(0, three);
  add(1);
  for (uint64_t bits = 1; bits <= 6; ++bits) a.put(1, bits, 100);
  pass();
  EXPECT_EQ(a.unfinished, 0u);
  EXPECT_EQ(a.control->ni_connections(NiId{1}), 3u);
}

TEST_F(IbConnect, a_stop_in_the_middle) {
  for (unsigned steps = 0; steps < 25; ++steps) {
    SCOPED_TRACE(steps);
    IbNode &a = add(0), &b = add(1);
    a.put(1, 1, 500'000);
    b.put(0, 2, 100);
    for (unsigned i = 0; i < steps; ++i, now += 100us)
      for (auto& [number, node] : nodes) node->turn(now);
    stop(steps % 2 == 0 ? a : b);
    stop(steps % 2 == 0 ? b : a);
    nodes.clear();
    ASSERT_FALSE(HasFailure());
  }
}

// Goal: the operator learns once that peers may write into whole regions.
TEST_F(IbConnect, a_device_without_windows) {
  if (kOverRoce) GTEST_SKIP() << "each key is for its bytes there";
  net.rules.keys_end = false;
  IbNode& a = add(0);
  for (const bool up : {false, true, false, true}) {
    net.set_port(ib_address(0), up);
    pass();
  }
  ASSERT_EQ(a.logged.size(), 1u);
  EXPECT_EQ(a.logged[0],
            "o2iblnd: 10.0.0.1@o2ib: sim0 has no memory windows: peers may write into registered memory, not only "
            "where a message goes, until it is freed");
}

TEST_F(IbConnect, the_port_goes_down) {
  IbNode& a = add(0);
  pass();
  EXPECT_FALSE(a.fatal);
  net.set_port(ib_address(0), false);
  pass();
  EXPECT_TRUE(a.fatal);
  net.set_port(ib_address(0), true);
  pass();
  EXPECT_FALSE(a.fatal);
}

TEST_F(IbConnect, nothing_passes_while_a_port_is_down) {
  IbNode& a = add(0);
  add(1);
  a.put(1, 1, 100);
  pass();
  net.set_port(ib_address(1), false);
  IbTx& lost = a.put(1, 2, 100);
  pass(5s);
  ASSERT_TRUE(lost.done);
  EXPECT_EQ(lost.how.error, -ETIMEDOUT);
  net.set_port(ib_address(1), true);
  IbTx& again = a.put(1, 3, 100);
  pass();
  ASSERT_TRUE(again.done);
  EXPECT_EQ(again.how.error, 0);
}

// Goal: the queue pair ends with the reject of the peer, and the worker reports that first. The reason in the reject
// still counts: the next attempt offers the queue depth of the peer.
TEST_F(IbConnect, a_reject_that_the_worker_sees_first) {
  Rng rng(1);
  for (unsigned round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    IbNode& a = add(0, {.peer_credits = 32});
    add(1, {.peer_credits = 8});
    a.late = [&rng] { return rng.one_in(2); };
    IbTx& tx = a.put(1, 1, 100);
    pass();
    ASSERT_TRUE(tx.done);
    EXPECT_EQ(tx.how.error, 0);
    for (auto& [number, node] : nodes) stop(*node);
    nodes.clear();
  }
}

TEST_F(IbConnect, a_bound_for_connections_that_are_set_up) {
  IbNodeOptions few;
  few.config.half_open_max = 0;
  IbNode& a = add(0);
  IbNode& b = add(1, few);
  IbTx& tx = a.put(1, 1, 100);
  pass();
  ASSERT_TRUE(tx.done);
  EXPECT_EQ(tx.how.error, -ECONNREFUSED);
  ASSERT_EQ(b.logged.size(), 1u);
  EXPECT_EQ(b.logged[0],
            "o2iblnd: no room for a connection of 10.0.0.1@o2ib (10.0.0.1): too many connections are being set up");
}

// Goal: nodes that connect, send and stop at random, with faults in the wires and the devices.
TEST_F(IbConnect, at_random) {
  uint64_t well = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    net.rules.lose_one_in = seed % 3 == 0 ? 200 : 0;
    net.rules.no_qp_one_in = seed % 3 == 1 ? 5 : 0;
    net.rules.local_error_one_in = seed % 3 == 2 ? 300 : 0;
    net.rules.retries_for = 50ms;
    net.rules.delay_max = Duration(2000 + rng.below(2'000'000));
    uint64_t bits = 0;
    for (unsigned i = 0; i < 3; ++i) {
      IbNodeOptions options;
      options.config.incarnation = seed * 1000 + i;
      options.peer_credits = int32_t(8 + rng.below(9));
      options.tunables = ib_tunable_numbers({.conns_per_peer = int32_t(1 + rng.below(3)),
                                             .peercredits_hiw = int32_t(rng.below(17)),
                                             .concurrent_sends = int32_t(rng.below(40))});
      IbNode& node = add(i, options);
      node.late = [&rng] { return rng.one_in(4); };
      node.ring_room = 1 + rng.below(3);
      node.worker_first = rng.one_in(2);
    }
    for (unsigned turn = 0; turn < 1500; ++turn, now += 100us)
      for (auto& [number, node] : nodes) {
        node->turn(now);
        const unsigned to = unsigned((number + 1 + rng.below(2)) % 3);
        if (node->unfinished < 8 && rng.one_in(4))
          node->put(to, ++bits, uint32_t(rng.one_in(4) ? rng.below(200'000) : rng.below(4000)));
      }
    net.rules.lose_one_in = net.rules.no_qp_one_in = net.rules.local_error_one_in = 0;
    for (auto& [number, node] : nodes) node->late = [] { return false; };
    pass(10s);
    for (auto& [number, node] : nodes) EXPECT_EQ(node->unfinished, 0u) << "node " << number << " waits for ever";
    for (auto& [number, node] : nodes) {
      stop(*node);
      for (const IbTx& tx : node->txs) well += tx.how.error == 0;
    }
    nodes.clear();
    EXPECT_EQ(net.conns(), 0u);
    if (HasFailure()) break;
  }
  EXPECT_GT(well, 5'000u);
}

}  // namespace
}  // namespace ulnet::test
