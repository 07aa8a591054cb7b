// Goal: the core offers a driver with remote writes all that lnd/lnd.h promises at its top. That is the sink of a GET,
// an answer without a REPLY message, a refusal, and a REPLY that belongs to one request. Every order of the steps of a
// GET is in orders_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/core/core_rig.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

constexpr uint64_t kToken = 4711;

struct Requests : CoreTest {
  explicit Requests(const BenchOptions& options = {}) : CoreTest(options) {}
  /// A get() of this node; its Tx is with the driver.
  Tx& get(const Nid& from, uint32_t length) {
    Segment segment{memory.data(), uint32_t(memory.size())};
    md = *submitter->md_bind({.segments = {&segment, 1}, .eq = eq});
    EXPECT_TRUE(
        submitter->get({.md = md, .target = {from, kLnetPid}, .portal = 9, .md_offset = 100, .length = length}));
    bench.settle();
    return *bench.lnd(server).sent.at(0);
  }
  /// A GET_REQ of a peer.
  RxSlot& request(const Nid& from, uint64_t bits, uint32_t length = 600) {
    RxSlot& slot = bench.inject(get_header(tcp(1), from, 9, bits, length), from);
    slot.rdma_request = true;
    slot.token = kToken;
    return slot;
  }
  MdHandle source() { return sink(1000, kMdGet); }
  /// The driver is through with everything that it has.
  void send_all_replies() {
    while (!bench.lnd(server).sent.empty()) {
      bench.lnd(server).complete_tx(*bench.lnd(server).sent[0], {});
      bench.settle();
    }
  }
  void end_md(MdHandle one) {
    (void)submitter->unlink(one);
    bench.settle();
    (void)events();
  }
  MdHandle md;
  WorkerId server{0};
};

TEST_F(Requests, an_answer_in_the_sink_makes_the_event_of_a_reply) {
  Tx& tx = get(tcp(2), 500);
  ASSERT_EQ(tx.sink.length, 500u);
  EXPECT_EQ(tx.sink.offset, 100u);
  EXPECT_EQ(tx.payload.length, 0u);
  bench.advance(3ms);
  bench.lnd().complete_get(tx, 400, 0, 0x77);
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, EventKind::kReply);
  EXPECT_EQ(all[0].status, 0);
  EXPECT_TRUE(all[0].final);
  EXPECT_EQ(all[0].mlength, 400u);
  EXPECT_EQ(all[0].rlength, 500u);
  EXPECT_EQ(all[0].source, tcp(2));
  EXPECT_EQ(all[0].sender, tcp(2));
  EXPECT_EQ(all[0].target, tcp(1));
  EXPECT_EQ(all[0].initiator, tcp(2));
  EXPECT_EQ(memory[100], std::byte{0x77});
  EXPECT_EQ(memory[499], std::byte{0x77});
  EXPECT_EQ(memory[500], std::byte{0});
  const WorkerCounters& counters = bench.worker().counters;
  EXPECT_EQ(counters.stats[size_t(Stat::kRecvCount)].get(), 1u);
  EXPECT_EQ(counters.stats[size_t(Stat::kRecvLength)].get(), 400u);
  EXPECT_EQ(counters.stats[size_t(Stat::kSendCount)].get(), 1u);
  const InterfaceCounters& peer = bench.slice(tcp(2)).counters;
  EXPECT_EQ(peer[NiTraffic::kSent][size_t(MsgType::kGet)].get(), 1u);
  EXPECT_EQ(peer[NiTraffic::kReceived][size_t(MsgType::kReply)].get(), 1u);
  const LatencyCounters& rtt = bench.local(tcp(2)).latencies[NiLatency::kGetRtt];
  EXPECT_EQ(rtt.samples.get(), 1u);
  EXPECT_EQ(rtt.min_ns.get(), uint64_t(Duration(3ms).count()));
  end_md(md);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Requests, a_get_over_a_router_has_no_sink) {
  const Nid remote = Nid::v4(Net::of(NetType::kTcp, 7), 1);
  bench.add_peer(remote);
  bench.add_route(remote.net(), tcp(2));
  bench.publish();
  Tx& tx = get(remote, 500);
  EXPECT_EQ(tx.next_hop, tcp(2));
  EXPECT_EQ(tx.sink.length, 0u);
  bench.lnd().complete_tx(tx, {-ECONNRESET, LndStatus::kRemoteError});
  (void)events();
  end_md(md);
}

TEST_F(Requests, a_get_that_the_peer_refuses_ends_with_its_errno) {
  bench.join(tcp(2), tcp(3));  // another rail, over which a lost GET would be sent again
  bench.publish();
  bench.lnd().complete_get(get(tcp(2), 500), 0, -ENODATA);
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, EventKind::kReply);
  EXPECT_EQ(all[0].status, -ENODATA);
  EXPECT_TRUE(bench.lnd().sent.empty());
  EXPECT_EQ(bench.slice(tcp(2)).counters[NiTraffic::kReceived][size_t(MsgType::kReply)].get(), 0u);
  end_md(md);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Requests, a_refusal_after_the_unlink_ends_the_get_as_cancelled) {
  Tx& tx = get(tcp(2), 500);
  (void)submitter->unlink(md);
  bench.settle();
  EXPECT_TRUE(events().empty()) << "the driver has the sink";
  bench.lnd().complete_get(tx, 0, -ENODATA);
  const std::vector<Event> all = events();
  ASSERT_GE(all.size(), 1u);
  EXPECT_EQ(all[0].kind, EventKind::kReply);
  EXPECT_EQ(all[0].status, -ECANCELED);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Requests, an_answer_after_the_deadline_is_a_drop) {
  Tx& tx = get(tcp(2), 500);
  bench.advance(151s);
  EXPECT_TRUE(events().empty()) << "the driver has the sink";
  ASSERT_EQ(bench.lnd().cancelled.size(), 1u);
  EXPECT_TRUE(bench.lnd().cancelled[0].second) << "by force";
  bench.lnd().complete_get(tx, 500, 0, 1);
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, -ETIMEDOUT);
  EXPECT_EQ(drops(Drop::kStaleHandle), 1u);
  end_md(md);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_F(Requests, a_reply_message_beside_the_answer_is_taken_once) {
  Tx& tx = get(tcp(2), 500);
  wire::Header reply;
  reply.type = MsgType::kReply;
  reply.dest_nid = tcp(1);
  reply.src_nid = tcp(2);
  reply.payload_length = 300;
  reply.set(wire::ReplyBody{tx.header.get().return_wmd});
  bench.inject(reply, tcp(2));
  bench.settle();
  bench.lnd().complete_get(tx, 500, 0, 1);
  EXPECT_TRUE(events().empty()) << "its payload is still received";
  arrive_all(2);
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].mlength, 300u);
  EXPECT_EQ(drops(Drop::kReplyTwice), 1u);
  end_md(md);
  EXPECT_EQ(bench.not_at_rest(), "");
}

/// The portal's home is worker 0, the connection on the last.
struct RequestsOf : Requests, ::testing::WithParamInterface<unsigned> {
  RequestsOf() : Requests({.workers = GetParam(), .peer_credits = 1}) {
    server = WorkerId{uint16_t(GetParam() - 1)};
    bench.add_peer(tcp(4), server);
    bench.publish();
  }
};

TEST_P(RequestsOf, a_request_without_a_match_is_refused) {
  request(tcp(4), 5);
  bench.settle();
  EXPECT_EQ(bench.lnd(server).answered, (std::vector<std::pair<uint64_t, int32_t>>{{kToken, -ENODATA}}));
  EXPECT_TRUE(bench.lnd(server).sent.empty());
  EXPECT_EQ(drops(Drop::kNoMatch), 1u);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_P(RequestsOf, a_get_that_came_as_a_message_is_dropped_without_a_word) {
  bench.inject(get_header(tcp(1), tcp(4), 9, 5, 600), tcp(4));
  bench.settle();
  EXPECT_TRUE(bench.lnd(server).answered.empty());
  EXPECT_EQ(drops(Drop::kNoMatch), 1u);
}

TEST_P(RequestsOf, the_reply_carries_the_token_and_needs_no_credit) {
  const MdHandle from = source();
  Tx& first = get(tcp(4), 500);  // has the only credit of the peer NI
  request(tcp(4), 77);
  bench.settle();
  ASSERT_EQ(bench.lnd(server).sent.size(), 2u);
  Tx& reply = *bench.lnd(server).sent[1];
  EXPECT_EQ(reply.header.type, MsgType::kReply);
  EXPECT_EQ(reply.token, kToken);
  EXPECT_EQ(reply.payload.length, 600u);
  EXPECT_EQ(reply.next_hop, tcp(4));
  EXPECT_EQ(reply.header.src_nid, tcp(1));
  EXPECT_EQ(reply.sink.length, 0u);
  EXPECT_FALSE(bench.lnd(server).reply_before_verdict);
  EXPECT_EQ(first.token, 0u);
  bench.lnd(server).complete_get(first, 500, 0);
  send_all_replies();
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 2u);
  for (const Event& one : all) EXPECT_EQ(one.status, 0);
  end_md(md);
  end_md(from);
  EXPECT_EQ(bench.not_at_rest(), "");
}

TEST_P(RequestsOf, a_reply_whose_connection_is_gone_takes_no_other) {
  bench.add_peer(tcp(5), server);
  bench.join(tcp(4), tcp(5));
  bench.publish();
  const MdHandle from = source();
  request(tcp(4), 77);
  bench.settle();
  bench.lnd(server).complete_tx(*bench.lnd(server).sent.at(0), {-ECONNRESET, LndStatus::kRemoteDropped});
  const std::vector<Event> all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, EventKind::kGet);
  EXPECT_EQ(all[0].status, -ECONNRESET);
  EXPECT_TRUE(bench.lnd(server).sent.empty());
  end_md(from);
  EXPECT_EQ(bench.not_at_rest(), "");
}

// Goal: the other side of a GET ends once, its MD once, and the driver hears of each request exactly once.
// Method: every order of request, REPLY, unlink, deadline and loss of the connection.
enum class RequestStep { kRequest, kReplyOk, kReplyFails, kUnlink, kTimeout };

TEST_P(RequestsOf, a_request_ends_once_whatever_happens) {
  for (RequestStep reply : {RequestStep::kReplyOk, RequestStep::kReplyFails}) {
    std::vector<RequestStep> steps{RequestStep::kRequest, reply, RequestStep::kUnlink, RequestStep::kTimeout};
    std::sort(steps.begin(), steps.end());
    do {
      std::string order;
      for (RequestStep step : steps) order += std::to_string(int(step)) + " ";
      SCOPED_TRACE(order);
      ScriptLnd& lnd = bench.lnd(server);
      const MdHandle from = source();
      const size_t refused = lnd.answered.size();
      for (RequestStep step : steps) {
        switch (step) {
          case RequestStep::kRequest: request(tcp(4), 77); break;
          case RequestStep::kReplyOk:
          case RequestStep::kReplyFails:
            if (lnd.sent.empty()) break;
            lnd.complete_tx(*lnd.sent[0], reply == RequestStep::kReplyOk
                                              ? Completion{}
                                              : Completion{-ECONNRESET, LndStatus::kRemoteDropped});
            break;
          case RequestStep::kUnlink: (void)submitter->unlink(from); break;
          case RequestStep::kTimeout: bench.advance(151s); break;
        }
        for (unsigned i = 0; i < GetParam(); ++i) bench.turn(WorkerId{uint16_t(i)});
      }
      bench.settle();
      send_all_replies();
      (void)submitter->unlink(from);
      int gets = 0, unlinks = 0;
      for (const Event& event : events()) {
        gets += event.kind == EventKind::kGet;
        unlinks += event.kind == EventKind::kUnlink;
      }
      EXPECT_EQ(unlinks, 1);
      EXPECT_EQ(gets + int(lnd.answered.size() - refused), 1);
      EXPECT_FALSE(lnd.reply_before_verdict);
      EXPECT_EQ(bench.not_at_rest(), "");
      if (HasFailure()) return;
    } while (std::next_permutation(steps.begin(), steps.end()));
  }
}

TEST_P(RequestsOf, a_request_for_another_node_is_a_protocol_error) {
  bench.node.routing = RoutingState::kEnabled;
  bench.publish();
  RxSlot& slot = bench.inject(get_header(tcp1(7), tcp(4), 9, 77, 600), tcp(4));
  slot.rdma_request = true;
  slot.token = kToken;
  bench.settle();
  EXPECT_EQ(bench.lnd(server).refused, std::vector<RxSlot*>{&slot});
}

INSTANTIATE_TEST_SUITE_P(Workers, RequestsOf, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace ulnet::test
