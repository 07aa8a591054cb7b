// Nodes whose drivers need registered memory, for the tests of regions.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/sim_net.h"

namespace ulnet::test {

inline constexpr size_t kDrivers = 2;  // tcp and o2ib

/// An application on worker 0 of a node, with memory of its own, which stays until its submitter has ended.
struct Application {
  explicit Application(SimNode& of)
      : node(of),
        kept(std::make_shared<std::vector<std::byte>>(1 << 20)),
        memory(*kept),
        submitter(*of.node().submitter_open(WorkerId{0}, {.ops = 512, .mds = 300, .eqs = 2, .segment_blocks = 300})),
        eq(*submitter->eq_open(512)) {}
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;
  ~Application() {
    if (node.running() && submitter != nullptr) close({});
  }
  void close(std::function<void()> freed) {
    node.node().submitter_close(*std::exchange(submitter, nullptr), [keep = kept, freed] {
      if (freed) freed();
    });
  }
  [[nodiscard]] Segment piece(size_t from, uint32_t bytes) { return {memory.data() + from, bytes}; }
  MdHandle bind(std::span<const Segment> segments, uint32_t options = 0) {
    return *submitter->md_bind({.segments = segments, .options = options, .eq = eq});
  }
  MdHandle bind(const Segment& segment, uint32_t options = 0) { return bind({&segment, 1}, options); }
  std::vector<Event> events() {
    std::vector<Event> all(512);
    all.resize(submitter->eq_poll(eq, all));
    return all;
  }
  SimNode& node;
  std::shared_ptr<std::vector<std::byte>> kept;
  std::vector<std::byte>& memory;
  Submitter* submitter;
  EqHandle eq;
};

/// The answer of region_add() and region_remove(): a number, 0 as long as there is none, or a negative errno.
struct Answer {
  int64_t value = 0;
  std::string text;
  [[nodiscard]] Regions::Done done() {
    return [this](const config::Checked<RegionId>& result) {
      EXPECT_EQ(value, 0) << "answered twice";
      value = result ? int64_t(result->value) : result.error().code;
      if (!result) text = result.error().what;
    };
  }
  [[nodiscard]] RegionId id() const { return RegionId{uint32_t(value)}; }
};

struct SimRegions : ::testing::Test {
  SimNode& add(const std::string& nid, std::vector<RouteSpec> routes = {}) {
    SimNode& one = sim.add_node({.nis = {nid}, .workers = 2, .routes = std::move(routes)});
    sim.run_for(1s);
    return one;
  }
  Answer region_add(SimNode& node, std::span<std::byte> memory) {
    Answer answer;
    node.node().region_add(memory, answer.done());
    EXPECT_TRUE(sim.run_until([&] { return answer.value != 0; }, 10s));
    return answer;
  }
  Answer region_remove(SimNode& node, RegionId id) {
    Answer answer;
    node.node().region_remove(id, answer.done());
    EXPECT_TRUE(sim.run_until([&] { return answer.value != 0; }, 10s));
    return answer;
  }
  Registrar& registrar(SimNode& node) { return *node.node().control().registrar; }
  /// Ranges that the drivers have beyond those of the nodes themselves.
  size_t more() {
    size_t all = 0;
    for (auto& node : sim.nodes()) all += node->running() ? registrar(*node).registered() : 0;
    EXPECT_EQ(sim.fabric().regions(), kDrivers * all);
    return all - own;
  }
  void begin() { own += more(); }
  SimNet sim{{.seed = 41, .transport = Transport::kRdma}};
  size_t own = 0;
};

}  // namespace ulnet::test
