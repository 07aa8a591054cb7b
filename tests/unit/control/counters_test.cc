// Counters of interfaces from the workers' slices to the shows: the tables of dataplane/base/counters.h are all there
// is.
#include <set>

#include "control/api/show_values.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// Sets each counter of an interface to another number.
class Numbers {
 public:
  /// Values that have been set, and what a show prints of them.
  std::set<uint64_t> used;

  void fill(InterfaceCounters& counters) {
    for (auto& by_type : counters.traffic) {
      uint64_t sum = 0;
      for (Counter& one : by_type) sum += set(one);
      used.insert(sum);
    }
    for (LatencyCounters& one : counters.latencies) fill(one);
    for (Counter& one : counters.failures) set(one);
    for (Counter& one : counters.peer_failures) set(one);
  }
  void fill(LatencyCounters& latency) {
    const uint64_t samples = set(latency.samples);
    set(latency.min_ns);
    set(latency.max_ns);
    latency.sum_ns.set(samples * next_);
    used.insert(next_++);
  }

 private:
  uint64_t set(Counter& one) {
    one.set(next_);
    used.insert(next_);
    return next_++;
  }
  uint64_t next_ = 1000000;
};

/// All numbers from 1,000,000 on in the map and its maps.
void numbers_of(const config::Doc& doc, std::set<uint64_t>& found) {
  for (const config::Doc::Entry& entry : doc.entries()) {
    const auto value = entry.value.integer();
    if (value && *value >= 1000000) found.insert(uint64_t(*value));
    numbers_of(entry.value, found);
  }
}

class Counters : public testing::Test {
 protected:
  NodeRig rig;
  RigNode& node = rig.add({"10.0.0.1@tcp"});
  RigNode& other = rig.add({"10.0.0.2@tcp"});
  Control& c = node.node->control();
  LocalNi& ni = *c.nis->find(nid("10.0.0.1@tcp"));
  PeerNi* peer_ni = nullptr;

  void SetUp() override {
    ASSERT_EQ(rig.ping(node, "10.0.0.2@tcp").error, 0);
    peer_ni = c.peers->find(nid("10.0.0.2@tcp"));
    ASSERT_NE(peer_ni->blocks, nullptr);
  }
  void TearDown() override { rig.stop_all(); }

  std::set<uint64_t> shown_of_ni() {
    std::set<uint64_t> found;
    const config::Doc doc = api::net_doc(net_values(c, net("tcp")), 4);
    const config::Doc& one = doc.find("net")->at(0).find("local NI(s)")->at(0);
    for (const char* key : kSections) numbers_of(*one.find(key), found);
    return found;
  }
  std::set<uint64_t> shown_of_peer_ni() {
    std::set<uint64_t> found;
    const config::Doc doc = api::peer_doc({peer_value(c, *peer_ni->peer)}, 4);
    const config::Doc& one = doc.find("peer")->at(0).find("peer ni")->at(0);
    for (const char* key : kSections) numbers_of(*one.find(key), found);
    return found;
  }
  static constexpr const char* kSections[] = {"statistics", "sent_stats", "received_stats", "dropped_stats",
                                              "health stats"};
};

// Goal: every counter of an NI comes through sums and shows, and a reset takes every one of them to 0.
TEST_F(Counters, of_an_ni_are_all_summed_shown_and_reset) {
  Numbers numbers;
  numbers.fill(ni.slices[0]->counters);
  for (const Counter& one : ni.slices[0]->counters.peer_failures) numbers.used.erase(one.get());  // of peer NIs
  EXPECT_EQ(shown_of_ni(), numbers.used);
  stats_reset(c);
  EXPECT_EQ(shown_of_ni(), std::set<uint64_t>{});
}

// Goal: the same for a peer NI. The home worker of an operation counts the latencies of its response.
TEST_F(Counters, of_a_peer_ni_are_all_summed_shown_and_reset) {
  Numbers numbers;
  InterfaceCounters& counters = peer_ni->blocks->slice.counters;
  numbers.fill(counters);
  for (const Counter& one : counters.failures) numbers.used.erase(one.get());  // of local NIs
  for (size_t i = ResponseLatencies::kFirst; i < counters.latencies.size(); ++i) {
    LatencyCounters& at_home = peer_ni->blocks->by_worker[0]->latencies[NiLatency(i)];
    LatencyCounters& serving = counters.latencies[i];
    at_home.samples.set(serving.samples.get());
    at_home.min_ns.set(serving.min_ns.get());
    at_home.max_ns.set(serving.max_ns.get());
    at_home.sum_ns.set(serving.sum_ns.get());
    serving.samples.set(0);
  }
  EXPECT_EQ(shown_of_peer_ni(), numbers.used);
  stats_reset(c);
  EXPECT_EQ(shown_of_peer_ni(), std::set<uint64_t>{});
}

// Goal: a reset takes every counter of the node to 0 but for those that say how much there is now.
TEST_F(Counters, of_the_node_are_all_summed_and_reset_but_for_levels) {
  WorkerCounters& counters = node.node->worker(WorkerId{0}).counters;
  const NodeTotals before = totals_of(c);
  for (Counter& one : counters.stats) one.add(1000000);
  for (Counter& one : counters.drops) one.add(1000000);
  for (Counter& one : counters.turn) one.add(1000000);
  NodeTotals after = totals_of(c);
  for (size_t i = 0; i < after.stats.size(); ++i)
    EXPECT_EQ(after.stats[i], before.stats[i] + 1000000) << texts_of<Stat>()[i].name;
  for (uint64_t count : after.drops) EXPECT_GE(count, 1000000u);
  for (uint64_t count : after.turn) EXPECT_GE(count, 1000000u);
  stats_reset(c);
  after = totals_of(c);
  const std::set<Stat> levels = {Stat::kMsgsAlloc, Stat::kMsgsMax, Stat::kRstAlloc};
  for (size_t i = 0; i < after.stats.size(); ++i)
    EXPECT_EQ(after.stats[i] != 0, levels.contains(Stat(i))) << texts_of<Stat>()[i].name;
  for (uint64_t count : after.drops) EXPECT_EQ(count, 0u);
  for (uint64_t count : after.turn) EXPECT_EQ(count, 0u);
  for (Counter& one : counters.stats) one.add(uint64_t(-1000000));
}

}  // namespace
}  // namespace ulnet::test
