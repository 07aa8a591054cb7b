// Goal: over a driver with remote writes whole nodes see what they see over messages: the same events and counters,
// each once, whatever breaks. Method: the fabric in its rdma mode, which counts requests, refusals and stray writes.
#include <gtest/gtest.h>

#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

struct Rdma : ::testing::TestWithParam<unsigned> {
  SimNode& node(const std::string& nid, std::vector<RouteSpec> routes = {}) {
    return sim.add_node({.nis = {nid}, .workers = GetParam(), .routes = std::move(routes)});
  }
  bool all_ended(Duration limit = 60s) {
    const auto ended = [](const auto& one) { return one->open_operations() == 0; };
    return sim.run_until([&] { return std::all_of(sim.nodes().begin(), sim.nodes().end(), ended); }, limit);
  }
  const sim::FabricCounts& counts() { return sim.fabric().counts(); }
  SimNet sim{{.seed = 31, .transport = Transport::kRdma}};
};

// Goal: counters of a PUT and a GET are those of messages, as are the interfaces'. Method: the same two operations over
// the fabric without its rdma mode.
TEST_P(Rdma, long_payloads_count_as_messages_do) {
  std::vector<std::vector<uint64_t>> seen;
  for (const Transport transport : {Transport::kFabric, Transport::kRdma}) {
    SimNet net({.seed = 32, .transport = transport});
    auto& a = net.add_node({.nis = {"10.0.0.1@tcp"}, .workers = GetParam()});
    auto& b = net.add_node({.nis = {"10.0.0.2@tcp"}, .workers = GetParam()});
    const auto ended = [&] { return a.open_operations() == 0; };
    (void)a.put(b);  // discovery is over
    ASSERT_TRUE(net.run_until(ended, 60s));
    net.run_for(1s);
    const auto put = a.put(b, {.length = 100'000}), get = a.get(b, {.length = 200'000});
    ASSERT_TRUE(net.run_until(ended, 60s));
    EXPECT_EQ(a.outcome(*put).status, 0);
    EXPECT_EQ(a.outcome(*get).status, 0);
    net.run_for(1s);
    std::vector<uint64_t>& numbers = seen.emplace_back();
    for (SimNode* node : {&a, &b}) {
      for (const Stat stat : {Stat::kSendCount, Stat::kSendLength, Stat::kRecvCount, Stat::kRecvLength, Stat::kErrors})
        numbers.push_back(node->stat(stat));
      for (const NiTraffic way : {NiTraffic::kSent, NiTraffic::kReceived, NiTraffic::kDropped})
        for (size_t type = 0; type < wire::kMsgTypes; ++type) {
          uint64_t sum = 0;
          const LocalNi& ni = *node->node().control().nis->find(node->nid());
          for (const NiSlice* slice : ni.params.slices) sum += slice->counters[way][type].get();
          numbers.push_back(sum);
        }
    }
    if (transport == Transport::kRdma) {
      EXPECT_EQ(net.fabric().counts().get_requests, 1u);
      EXPECT_EQ(net.fabric().counts().put_requests, 1u);
    }
  }
  EXPECT_EQ(seen[0], seen[1]);
}

// Goal: over a router a GET goes as a message. Its REPLY comes back as a message of its own, with a request per hop.
TEST_P(Rdma, a_get_over_a_router_is_a_message) {
  auto& client = node("10.1.0.1@tcp", {{"tcp1", "10.1.0.2@tcp"}});
  sim.add_node({.nis = {"10.1.0.2@tcp", "10.2.0.2@tcp1"}, .workers = GetParam(), .routing = true});
  auto& server = node("10.2.0.1@tcp1", {{"tcp", "10.2.0.2@tcp1"}});
  const auto get = client.get(server, {.length = 200'000});
  ASSERT_TRUE(all_ended());
  EXPECT_EQ(client.outcome(*get).status, 0);
  EXPECT_EQ(counts().get_requests, 0u);
  EXPECT_EQ(counts().put_requests, 2u);
}

/// A portal of a node with an application behind it.
struct Portal20 {
  Portal20(SimNode& node, WorkerId home, bool lazy) : memory(1 << 20) {
    EXPECT_TRUE(node.node().portal_open(PortalIndex{20}, home, PortalMode::kSingle, lazy));
    submitter = *node.node().submitter_open(home, {.ops = 64, .mds = 16, .eqs = 2});
    eq = *submitter->eq_open(64);
  }
  void attach() {
    const Segment segment{memory.data(), uint32_t(memory.size())};
    md = *submitter->md_bind({.segments = {&segment, 1}, .options = kMdGet | kMdManageRemote, .eq = eq});
    EXPECT_TRUE(submitter->me_attach(PortalIndex{20}, {}, 0, ~0ull, MePosition::kTail, md));
  }
  std::vector<Event> events() {
    std::vector<Event> all(64);
    all.resize(submitter->eq_poll(eq, all));
    return all;
  }
  std::vector<std::byte> memory;
  Submitter* submitter;
  EqHandle eq;
  MdHandle md;
};

TEST_P(Rdma, a_get_that_matches_nothing_is_refused_at_once) {
  auto& a = node("10.0.0.1@tcp");
  auto& b = node("10.0.0.2@tcp");
  Portal20 served(b, WorkerId{0}, false), asking(a, WorkerId{0}, false);
  asking.attach();
  const Segment segment{asking.memory.data(), uint32_t(asking.memory.size())};
  const MdHandle md = *asking.submitter->md_bind({.segments = {&segment, 1}, .eq = asking.eq});
  ASSERT_TRUE(asking.submitter->get({.md = md, .target = {b.nid(), kLnetPid}, .portal = 20, .length = 100'000}));
  sim.run_for(1s);
  const std::vector<Event> events = asking.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kReply);
  EXPECT_EQ(events[0].status, -ENODATA);
  EXPECT_EQ(counts().gets_refused, 1u);
  EXPECT_EQ(b.drops(Drop::kNoMatch), 1u);
}

// Goal: a request that waits for its match outlives its connection, and its REPLY goes nowhere else.
TEST_P(Rdma, a_reply_to_a_request_of_a_lost_connection_fails) {
  auto& a = node("10.0.0.1@tcp");
  auto& b = node("10.0.0.2@tcp");
  for (uint16_t home = 0; home < GetParam(); ++home) {
    SCOPED_TRACE(home);
    if (home > 0) {
      ASSERT_TRUE(b.node().portal_close(PortalIndex{20}));
    }
    Portal20 served(b, WorkerId{home}, true);
    Portal20* asking = nullptr;
    std::unique_ptr<Portal20> own;
    if (home > 0) {
      ASSERT_TRUE(a.node().portal_close(PortalIndex{20}));
    }
    own = std::make_unique<Portal20>(a, WorkerId{0}, false);
    asking = own.get();
    const Segment segment{asking->memory.data(), uint32_t(asking->memory.size())};
    const MdHandle md = *asking->submitter->md_bind({.segments = {&segment, 1}, .eq = asking->eq});
    ASSERT_TRUE(asking->submitter->get({.md = md, .target = {b.nid(), kLnetPid}, .portal = 20, .length = 100'000}));
    sim.run_for(1s);
    EXPECT_EQ(counts().gets_accepted, home);
    sim.reset(a, b);
    sim.run_for(1s);
    const std::vector<Event> lost = asking->events();
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_LT(lost[0].status, 0);
    served.attach();
    sim.run_for(1s);
    const std::vector<Event> events = served.events();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, EventKind::kGet);
    EXPECT_EQ(events[0].status, -ECONNRESET);
    EXPECT_EQ(counts().gets_accepted, home + 1u);
    EXPECT_EQ(counts().replies, home + 1u);
    a.node().submitter_close(*asking->submitter);
    b.node().submitter_close(*served.submitter);
    sim.run_for(1s);
  }
}

// Goal: an MD that is unlinked while the peer may write into it ends when the peer is through, not before.
TEST_P(Rdma, an_unlinked_sink_ends_when_the_peer_is_through) {
  auto& a = node("10.0.0.1@tcp");
  auto& b = node("10.0.0.2@tcp");
  Portal20 served(b, WorkerId{0}, true), asking(a, WorkerId{0}, false);
  const Segment segment{asking.memory.data(), uint32_t(asking.memory.size())};
  const MdHandle md = *asking.submitter->md_bind({.segments = {&segment, 1}, .eq = asking.eq});
  ASSERT_TRUE(asking.submitter->get({.md = md, .target = {b.nid(), kLnetPid}, .portal = 20, .length = 100'000}));
  sim.run_for(1s);
  ASSERT_TRUE(asking.submitter->unlink(md));
  sim.run_for(1s);
  EXPECT_TRUE(asking.events().empty());
  served.attach();
  sim.run_for(1s);
  const std::vector<Event> events = asking.events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::kReply);
  EXPECT_EQ(events[1].kind, EventKind::kUnlink);
}

INSTANTIATE_TEST_SUITE_P(Workers, Rdma, ::testing::ValuesIn(worker_counts()));

}  // namespace
}  // namespace ulnet::test
