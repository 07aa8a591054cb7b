// Messages whose portal is at home on another worker than their connection, in whole nodes: what arrives whole travels
// as a handle, what is longer is held until home has answered. Every worker is home once.
#include <gtest/gtest.h>

#include "tests/cluster/sim_net.h"

namespace ulnet::test {
namespace {

/// An application of one node: a submitter, a queue, memory.
struct App {
  App(SimNode& on, WorkerId home, size_t bytes) : node(on.node()), memory(bytes) {
    submitter = *node.submitter_open(home, {.ops = 256, .mds = 16, .eqs = 2});
    eq = *submitter->eq_open(1024);
  }
  ~App() { node.submitter_close(*submitter); }
  MdHandle bind(uint32_t options) {
    const Segment segment{memory.data(), uint32_t(memory.size())};
    return *submitter->md_bind({.segments = {&segment, 1}, .options = options, .eq = eq});
  }
  void attach(PortalIndex portal) {
    ASSERT_TRUE(submitter->me_attach(portal, {}, 0, ~0ull, MePosition::kTail, bind(kMdPut)));
  }
  /// Takes the events of one kind that have come; true when there are `count` by now.
  bool have(size_t count) {
    Event seen[64];
    for (unsigned n = submitter->eq_poll(eq, seen), i = 0; i < n; ++i)
      if (seen[i].kind != EventKind::kUnlink) events.push_back(seen[i]);
    return events.size() >= count;
  }
  Node& node;
  Submitter* submitter;
  EqHandle eq;
  std::vector<std::byte> memory;
  std::vector<Event> events;
};

class Travel : public ::testing::TestWithParam<std::tuple<Transport, unsigned>> {
 protected:
  Travel() : sim({.seed = 11, .transport = std::get<0>(GetParam())}) {
    a = &sim.add_node({.nis = {"10.0.0.1@tcp"}, .workers = workers()});
    b = &sim.add_node({.nis = {"10.0.0.2@tcp"}, .workers = workers()});
    const auto first = a->put(*b);
    EXPECT_TRUE(sim.run_until([&] { return a->open_operations() == 0; }, 10s));
    EXPECT_EQ(a->outcome(*first).status, 0);
  }
  static unsigned workers() { return std::get<1>(GetParam()); }
  /// Worker of `b` that the connections of `a` are on.
  WorkerId server() { return b->node().worker(WorkerId{0}).view->peers->find(a->nid()).ni().server; }
  void put(App& from, MdHandle md, PortalIndex portal, uint64_t bits, uint32_t offset, uint32_t length) {
    ASSERT_TRUE(from.submitter->put({.md = md,
                                     .target = {b->nid(), kLnetPid},
                                     .portal = portal.value,
                                     .match_bits = bits,
                                     .md_offset = offset,
                                     .length = length}));
  }
  SimNet sim;
  SimNode* a;
  SimNode* b;
};

// Goal: puts of one connection match in the order in which they were sent, whole ones and longer ones mixed, and each
// ends in one event at either end. Method: the match entry manages its own offset, so that a place tells an order.
TEST_P(Travel, puts_of_all_sizes_match_in_order_and_end_once) {
  constexpr uint32_t kCount = 90;
  for (uint16_t home = 0; home < workers(); ++home) {
    SCOPED_TRACE(home);
    const PortalIndex portal{20u + home};
    ASSERT_TRUE(b->node().portal_open(portal, WorkerId{home}, PortalMode::kSingle, false));
    App source(*a, WorkerId{0}, 1 << 22), sink(*b, WorkerId{home}, 1 << 22);
    for (size_t i = 0; i < source.memory.size(); ++i) source.memory[i] = pattern(i);
    sink.attach(portal);
    const MdHandle md = source.bind(0);
    sim.run_for(10ms);
    uint32_t offset = 0;
    for (uint32_t i = 0; i < kCount; ++i) {
      // One size decides which kind of connection carries it: over socklnd they are all short.
      const bool is_long = sim.transport() != Transport::kSockTcp && i % 5 == 4;
      const uint32_t length = is_long ? 30'000 : i % 3 * 300;
      put(source, md, portal, i, offset, length);
      offset += length;
      if (i % 7 == 0) sim.run_for(50us);
    }
    ASSERT_TRUE(sim.run_until([&] { return int(source.have(kCount)) & int(sink.have(kCount)); }, 60s));
    sim.run_for(1s);
    (void)source.have(0);
    (void)sink.have(0);
    ASSERT_EQ(source.events.size(), kCount);
    ASSERT_EQ(sink.events.size(), kCount);
    std::sort(sink.events.begin(), sink.events.end(),
              [](const Event& x, const Event& y) { return x.match_bits < y.match_bits; });
    uint32_t place = 0;
    for (const Event& event : sink.events) {
      EXPECT_EQ(event.status, 0);
      EXPECT_EQ(event.offset, place) << event.match_bits;
      place += event.mlength;
    }
    EXPECT_EQ(place, offset);
    EXPECT_TRUE(std::equal(sink.memory.begin(), sink.memory.begin() + offset, source.memory.begin()));
    for (const Event& event : source.events) EXPECT_EQ(event.status, 0);
  }
}

// Goal: a put that waits for its match entry stops those behind it only where its connection is a stream and at home.
TEST_P(Travel, one_that_waits_for_an_entry_lets_the_others_pass) {
  for (uint16_t home = 0; home < workers(); ++home) {
    SCOPED_TRACE(home);
    const PortalIndex lazy{20u + home}, open{30u + home};
    ASSERT_TRUE(b->node().portal_open(lazy, WorkerId{home}, PortalMode::kSingle, true));
    ASSERT_TRUE(b->node().portal_open(open, WorkerId{home}, PortalMode::kSingle, false));
    App source(*a, WorkerId{0}, 1 << 16), sink(*b, WorkerId{home}, 1 << 16);
    sink.attach(open);
    const MdHandle md = source.bind(0);
    sim.run_for(10ms);
    for (uint64_t bits : {1, 2}) put(source, md, lazy, bits, 0, 0);  // without payload: whole however a stream is cut
    for (uint64_t bits : {3, 4}) put(source, md, open, bits, 0, 0);
    sim.run_for(1s);
    const bool travels = sim.transport() == Transport::kRdma || server() != WorkerId{home};
    EXPECT_EQ(sink.have(2), travels);
    sink.attach(lazy);
    ASSERT_TRUE(sim.run_until([&] { return int(source.have(4)) & int(sink.have(4)); }, 10s));
    std::vector<uint64_t> order;
    for (const Event& event : sink.events) order.push_back(event.match_bits);
    EXPECT_EQ(order, travels ? (std::vector<uint64_t>{3, 4, 1, 2}) : (std::vector<uint64_t>{1, 2, 3, 4}));
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Travel,
                         ::testing::Combine(::testing::Values(Transport::kFabric, Transport::kRdma,
                                                              Transport::kSockTcp),
                                            ::testing::ValuesIn(worker_counts())),
                         [](const auto& instance) {
                           return transport_name(std::get<0>(instance.param)) + "_" +
                                  std::to_string(std::get<1>(instance.param)) + "_workers";
                         });

}  // namespace
}  // namespace ulnet::test
