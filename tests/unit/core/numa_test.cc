// The NUMA node of a payload's memory goes from the MD, or the router buffer, into the choice of the NI.
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

/// All memory lies on one node.
struct FixedLocator final : MemoryLocator {
  explicit FixedLocator(uint32_t its_node) : node(its_node) {}
  uint32_t numa_of(const void* address) const override {
    asked.push_back(address);
    return node;
  }
  const uint32_t node;
  mutable std::vector<const void*> asked;
};

constexpr Net kTcp2 = Net::of(NetType::kTcp, 2);
Nid tcp2(uint32_t last) {
  return Nid::v4(kTcp2, 0x0A020000u + last);
}

/// A machine with four nodes whose matrix is not uniform: on tcp2, NI 7 is near node 1, and NI 8 near node 3.
struct CoreNuma : ::testing::Test {
  explicit CoreNuma(RoutingState routing = RoutingState::kDisabled) : bench({.routing = routing}) {
    bench.add_ni(tcp2(7), {21, 10, 31, 40});
    bench.add_ni(tcp2(8), {15, 40, 31, 10});
    bench.add_peer(tcp2(2));
    bench.add_peer(tcp(2));
    bench.publish();
  }
  MdHandle bind(uint32_t numa, uint32_t accelerator = UINT32_MAX) {
    Segment segment{memory.data(), uint32_t(memory.size())};
    return *submitter.md_bind({.segments = {&segment, 1}, .numa = numa, .accelerator = accelerator});
  }
  /// The NI that the last message left over.
  Nid sent_from() {
    bench.settle();
    Tx& tx = *bench.lnd().sent.back();
    const NiId ni = tx.ni;
    bench.lnd().complete_tx(tx, {});
    bench.settle();
    return ni == NiId{3} ? tcp2(7) : ni == NiId{4} ? tcp2(8) : Nid{};
  }
  Nid put(MdHandle md) {
    EXPECT_TRUE(submitter.put({.md = md, .target = {tcp2(2), kLnetPid}, .portal = 1, .ack = false}));
    return sent_from();
  }
  Nid get(MdHandle md) {
    EXPECT_TRUE(submitter.get({.md = md, .target = {tcp2(2), kLnetPid}, .portal = 1}));
    return sent_from();
  }
  Bench bench;
  Submitter& submitter{bench.submitter(WorkerId{0})};
  std::array<std::byte, 64> memory{};
};

// Goal: the application's hint decides between NIs, for the source of a PUT and for the sink of a GET, again and again.
TEST_F(CoreNuma, hint_of_an_md_chooses_the_ni) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(put(bind(0)), tcp2(8)) << "15 to 21";
    EXPECT_EQ(put(bind(1)), tcp2(7));
    EXPECT_EQ(get(bind(1)), tcp2(7));
    EXPECT_EQ(get(bind(3)), tcp2(8));
  }
}

// Goal: NIs take turns where distances are equal, or the node is not known.
TEST_F(CoreNuma, equal_distances_take_turns) {
  for (const uint32_t node : {2u, UINT32_MAX, 9u}) {
    const Nid first = put(bind(node));
    EXPECT_NE(put(bind(node)), first) << node;
    EXPECT_EQ(put(bind(node)), first) << node;
    EXPECT_NE(put(bind(node)), first) << node;
  }
}

// Goal: without a hint, the node of the first byte is looked up once per MD, when it is bound, and not by a worker.
TEST_F(CoreNuma, node_is_looked_up_when_the_md_is_bound) {
  const FixedLocator near_1(1);
  submitter.locate_memory_by(&near_1);
  const MdHandle md = bind(UINT32_MAX);
  EXPECT_EQ(near_1.asked, std::vector<const void*>{memory.data()});
  EXPECT_EQ(put(md), tcp2(7));
  EXPECT_EQ(get(md), tcp2(7));
  EXPECT_EQ(near_1.asked.size(), 1u);
  EXPECT_EQ(put(bind(3)), tcp2(8));
  (void)bind(UINT32_MAX, 0);
  EXPECT_EQ(near_1.asked.size(), 1u) << "a hint, or memory of an accelerator: nothing to look up";
}

struct CoreNumaRouter : CoreNuma {
  CoreNumaRouter() : CoreNuma(RoutingState::kEnabled) {}
};

// Goal: a forwarded message leaves by the NI near its router buffer.
TEST_F(CoreNumaRouter, router_buffer_chooses_the_ni) {
  bench.add_router_buffers(WorkerId{0}, {4, 4, 4}, 3);
  bench.settle();
  for (int i = 0; i < 3; ++i) {
    bench.inject(put_header(tcp2(2), tcp(2), 9, 1, 600), tcp(2));
    bench.settle();
    bench.lnd().complete_rx(*bench.lnd().receiving.at(0), 0, 1);
    EXPECT_EQ(sent_from(), tcp2(8));
  }
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
