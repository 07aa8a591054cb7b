// simulate (built and run by tools/simulate): small random clusters, one per seed. Each must come to the right state.
//
//   simulate --seeds FIRST --count N      last line "N passed, M failed"; exit 1 when one failed
//   simulate --seeds SEED --trace         one run with all that happened in it
//   simulate ... --twice                  each seed twice: the same things must happen
//   simulate --swarm PEERS                one node discovers PEERS peers, then all push at once; prints the costs
//   simulate ... --full N                 N seeds where ULNET_FULL is set (tools/check --full), else --count
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "tests/simulate/cluster.h"
#include "tests/simulate/swarm.h"

namespace {

using ulnet::simulate::Cluster;
using ulnet::simulate::Counts;
using ulnet::simulate::Trace;

struct Ran {
  std::string wrong;
  uint64_t hash = 0;
  Counts counts;
};

/// Expectations of tests/cluster that have failed so far. They do not end a program outside of a test.
int expectations_failed() {
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().total_part_count();
}

Ran run(uint64_t seed, bool print) {
  const int before = expectations_failed();
  Trace trace(print);
  std::string wrong;
  Counts counts;
  {
    Cluster cluster(seed, trace);
    wrong = cluster.run();
    counts = cluster.counts();
  }
  if (wrong.empty() && expectations_failed() != before) wrong = "an expectation failed, see above";
  return {std::move(wrong), trace.hash(), counts};
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t first = 1, count = 1, full = 0;
  std::vector<uint32_t> swarm;
  bool print = false, twice = false;
  CLI::App app{"Small random clusters under faults, healed and checked; one per seed."};
  app.add_option("--seeds", first, "the first seed")->capture_default_str();
  app.add_option("--count", count, "how many seeds")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--full", full, "how many where ULNET_FULL is set");
  app.add_option("--swarm", swarm,
                 "measure one node with so many peers instead; of several numbers none may cost more a peer")
      ->check(CLI::Range(1, 100000));
  app.add_flag("--trace", print, "print what happens");
  app.add_flag("--twice", twice, "run each seed twice; both runs must be the same");
  CLI11_PARSE(app, argc, argv);

  if (!swarm.empty()) {
    const std::string wrong = ulnet::simulate::run_swarms(swarm);
    fmt::print("{}{}{} passed, {} failed\n", wrong, wrong.empty() ? "" : "\n", int(wrong.empty()), int(!wrong.empty()));
    return wrong.empty() ? 0 : 1;
  }
  if (full != 0 && std::getenv("ULNET_FULL") != nullptr) count = full;
  uint64_t passed = 0, failed = 0;
  Counts counts;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Ran ran = run(seed, print);
    counts.add(ran.counts);
    if (twice && ran.wrong.empty() && run(seed, false).hash != ran.hash) ran.wrong = "a second run went another way";
    ++(ran.wrong.empty() ? passed : failed);
    if (ran.wrong.empty()) continue;
    fmt::print("seed {} failed: {}\n  again, with all that happens: {} --seeds {} --trace\n", seed, ran.wrong, argv[0],
               seed);
    std::fflush(stdout);
  }
  fmt::print("{}\n", text_of(counts));
  const std::string too_few = counts_wrong(counts, count);
  if (!too_few.empty()) fmt::print("{}\n", too_few);
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 && too_few.empty() ? 0 : 1;
}
