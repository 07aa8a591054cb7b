// A generator with a stand-in worker, under a virtual clock, for the tests beside this file.
#pragma once
#include <gtest/gtest.h>

#include "perf/generator/generator.h"
#include "perf/generator/pattern.h"
#include "perf/generator/target.h"
#include "tests/unit/lib/fake_worker.h"

namespace ulnet::perf {

using test::FakeWorker;

const Nid kPeer = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000001);

struct GeneratorTest : ::testing::Test {
  Submitter submitter{WorkerId{0}, 0, {.ops = 64, .mds = 64, .eqs = 4, .segment_blocks = 1}, nullptr};
  FakeWorker worker{submitter};
  Instant now{1s};
  std::unique_ptr<Generator> generator;
  uint64_t cycles = 0;
  std::function<NodeCounts()> counts;  // null: not known
  std::vector<std::byte> sink = std::vector<std::byte>(kTargetBytes);
  bool corrupt = false;

  Job job() {
    Job j;
    j.target.nid = kPeer;
    j.sizes = {100};
    j.concurrency = {4};
    j.duration = 10ms;
    j.warmup = 2ms;
    return j;
  }
  void begin(const Job& j) {
    auto created = Generator::create(submitter, j, {.busy_cycles = [this] { return cycles; }, .counts = counts});
    ASSERT_TRUE(created) << created.error().what;
    generator = std::move(*created);
  }
  /// Begins a job of 10 ms by a rate, without a warm-up, and goes to its measurement.
  void measure(double rate, uint32_t slots) {
    Job j = job();
    j.rate = rate;
    j.warmup = 0ms;
    j.concurrency = {slots};
    begin(j);
    while (generator->snapshot(now).phase != Phase::kMeasure) step();
  }
  /// One turn every 100 us until the job is over.
  void run(unsigned turns_max = 100000) {
    while (!generator->done() && turns_max-- > 0) step();
  }
  void step() {
    (void)generator->turn(now);
    cycles += 1000;
    worker.run();
    now += 100us;
  }
  const RunResult& only() {
    EXPECT_EQ(generator->results().size(), 1u);
    return generator->results().front();
  }
  /// Acts as a target: keeps the bytes of puts and serves them, and serves the source.
  FakeWorker::Outcome serve(const FakeWorker::Started& op, const Md& md) {
    std::byte* memory = md.segments[0].base + op.md_offset;
    if (!op.is_get()) {
      std::copy_n(memory, op.length, sink.begin() + op.offset);
    } else if (op.match_bits == kSinkBits) {
      std::copy_n(sink.begin() + op.offset, op.length, memory);
    } else if (op.match_bits == kSourceBits) {
      pattern_fill({memory, op.length}, kSourceSeed, op.offset);
    }
    if (corrupt && op.is_get() && op.length > 50) memory[50] ^= std::byte{1};
    return {};
  }
  void serve_as_target() {
    worker.on_operation = [this](const FakeWorker::Started& op, const Md& md) { return serve(op, md); };
  }
};

}  // namespace ulnet::perf
