// A node of one worker on the bench, with a submitter, portal 9 and two peers, for tests of what the core receives.
#pragma once
#include <gtest/gtest.h>

#include "tests/unit/core/bench.h"

namespace ulnet::test {

struct CoreTest : ::testing::Test {
  explicit CoreTest(const BenchOptions& options = {}) : bench(options) {
    bench.add_peer(tcp(2));
    bench.add_peer(tcp(3));
    bench.open_portal(9, WorkerId{0});
    bench.publish();
    submitter = &bench.submitter(WorkerId{0});
    eq = *submitter->eq_open(64);
    bench.settle();
  }
  MdHandle sink(uint32_t bytes, uint32_t options = kMdPut, uint64_t bits = 77, uint64_t ignore = 0,
                uint32_t threshold = kInfinite, MePosition position = MePosition::kTail, uint32_t max_size = 0,
                ProcessId who = {}) {
    Segment segment{memory.data(), bytes};
    const MdHandle md = *submitter->md_bind(
        {.segments = {&segment, 1}, .threshold = threshold, .max_size = max_size, .options = options, .eq = eq});
    EXPECT_TRUE(submitter->me_attach(PortalIndex{9}, who, bits, ignore, position, md));
    bench.settle();
    return md;
  }
  std::vector<Event> events() {
    bench.settle();
    std::vector<Event> all(64);
    all.resize(submitter->eq_poll(eq, all));
    return all;
  }
  void arrive_all(uint8_t fill = 1) {
    bench.settle();
    while (!bench.lnd().receiving.empty()) {
      bench.lnd().complete_rx(*bench.lnd().receiving[0], 0, fill);
      bench.settle();
    }
  }
  void send_all() {
    bench.settle();
    while (!bench.lnd().sent.empty()) {
      bench.lnd().complete_tx(*bench.lnd().sent[0], {});
      bench.settle();
    }
  }
  uint64_t drops(Drop reason) { return bench.worker().counters[reason].get(); }

  Bench bench;
  Submitter* submitter;
  EqHandle eq;
  std::array<std::byte, 8192> memory{};
};

}  // namespace ulnet::test
