// The generator against a stand-in worker, under a virtual clock: phases, accounting, and the detection of faults of
// the library.
#include "tests/unit/perf/generator_rig.h"

namespace ulnet::perf {
namespace {

TEST_F(GeneratorTest, by_duration_measures_that_long_after_the_warm_up) {
  begin(job());
  run();
  const RunResult& r = only();
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.elapsed, Duration{10ms});
  // One turn each 100 us, 4 at once, each ends in the next turn.
  EXPECT_EQ(r.completed, 4u * 100);
  EXPECT_EQ(r.bytes, 400u * 100);
  EXPECT_EQ(r.latency_p50, Duration{100us});
  EXPECT_EQ(r.latency_max, Duration{100us});
  EXPECT_EQ(r.accepted, r.ended);
  EXPECT_GT(r.accepted, r.completed);  // operations of the warm-up are not measured
  EXPECT_NEAR(r.messages_per_second(), 40000, 1);
  EXPECT_NEAR(r.gigabits_per_second(), 0.032, 1e-6);
  ASSERT_TRUE(r.cycles_per_message);
  EXPECT_NEAR(*r.cycles_per_message, 250, 5);
  EXPECT_TRUE(generator->unbound());
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

// Goal: a thread turns the generator only for events, and when next_turn() says so. Its job ends as soon as if it
// turned all the time. Method: both ways under the same clock of 30 us. Operations end in one step, and one of 50
// fails.
TEST_F(GeneratorTest, next_turn_and_events_are_all_that_it_needs) {
  for (const auto& [count, rate] : {std::pair{0, 0}, {500, 0}, {0, 20000}, {500, 20000}}) {
    SCOPED_TRACE(std::to_string(count) + " operations, rate " + std::to_string(rate));
    Job j = job();
    j.count = uint64_t(count);
    j.rate = rate;
    j.sizes = {0, 64};
    std::vector<Duration> took;
    for (const bool always : {true, false}) {
      uint64_t ops = 0;
      worker.on_operation = [&](const FakeWorker::Started&, const Md&) {
        return FakeWorker::Outcome{.status = ++ops % 50 == 0 ? -EIO : 0};
      };
      begin(j);
      const Instant from = now;
      unsigned turns = 0, steps = 0;
      for (Instant due = now; !generator->done() && steps < 100'000; now += 30us, ++steps) {
        const bool event = submitter.eq_slot(generator->queue().index).ring->depth() > 0;
        if (always || event || now >= due) {
          while (generator->turn(now) != 0) {
          }
          due = generator->next_turn(now);
          ++turns;
        }
        worker.run();
      }
      took.push_back(now - from);
      ASSERT_TRUE(generator->done());
      ASSERT_EQ(generator->results().size(), 2u);
      for (const RunResult& r : generator->results()) {
        EXPECT_EQ(r.accepted, r.ended);
        EXPECT_GT(r.completed, 100u);
      }
      EXPECT_TRUE(generator->unbound());
      EXPECT_TRUE(always || turns < steps) << "it sleeps at times";
    }
    EXPECT_LT(took[1], took[0] + 5ms) << took[0].count() << " ns with all turns";
  }
}

TEST_F(GeneratorTest, by_count_starts_exactly_that_number) {
  Job j = job();
  j.count = 37;
  j.warmup = 0ms;
  begin(j);
  run();
  const RunResult& r = only();
  EXPECT_EQ(r.completed, 37u);
  EXPECT_EQ(r.accepted, 37u);
  EXPECT_EQ(r.ended, 37u);
  EXPECT_TRUE(r.ok());
}

TEST_F(GeneratorTest, sizes_run_one_after_the_other) {
  Job j = job();
  j.sizes = {0, 4096, kMaxPayload};
  j.count = 8;
  begin(j);
  run();
  ASSERT_EQ(generator->results().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(generator->results()[i].size, j.sizes[i]);
    EXPECT_EQ(generator->results()[i].completed, 8u);
    EXPECT_EQ(generator->results()[i].bytes, 8u * j.sizes[i]);
    EXPECT_TRUE(generator->results()[i].ok());
  }
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

TEST_F(GeneratorTest, operations_have_the_right_kind_portal_and_bits) {
  for (Operation operation : {Operation::kPing, Operation::kPut, Operation::kGet}) {
    Job j = job();
    j.operation = operation;
    j.self = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000002);
    j.count = 1;
    j.concurrency = {1};
    j.warmup = 0ms;
    worker.seen.clear();
    begin(j);
    run();
    EXPECT_EQ(only().completed, 1u);
    const auto it = std::find_if(worker.seen.begin(), worker.seen.end(), starts_operation);
    ASSERT_NE(it, worker.seen.end());
    const auto* put = std::get_if<PutCall>(&*it);
    ASSERT_EQ(put != nullptr, operation == Operation::kPut);
    EXPECT_TRUE(put == nullptr || put->ack);
    const OperationCall& call = put != nullptr ? put->operation : std::get<GetCall>(*it).operation;
    EXPECT_EQ(call.portal.value, operation == Operation::kPing ? 0 : kTargetPortal);
    EXPECT_EQ(call.match_bits, operation == Operation::kPing  ? kPingBits
                               : operation == Operation::kPut ? kSinkBits
                                                              : kSourceBits);
    EXPECT_EQ(call.length, operation == Operation::kPing ? 3960u : 100u);
    EXPECT_EQ(call.target, (ProcessId{kPeer, kLnetPid}));
    EXPECT_EQ(call.self, j.self);
  }
}

TEST_F(GeneratorTest, concurrent_operations_have_places_of_their_own) {
  Job j = job();
  j.sizes = {kMaxPayload / 4};
  j.count = 4;
  j.warmup = 0ms;
  begin(j);
  worker.hold = true;
  for (int i = 0; i < 5; ++i) step();
  std::vector<uint32_t> offsets;
  for (const CallMsg& call : worker.seen)
    if (const auto* put = std::get_if<PutCall>(&call)) offsets.push_back(put->operation.offset);
  std::sort(offsets.begin(), offsets.end());
  EXPECT_EQ(offsets, (std::vector<uint32_t>{0, kMaxPayload / 4, kMaxPayload / 2, kMaxPayload / 4 * 3}));
  worker.hold = false;
  run();
}

TEST_F(GeneratorTest, errors_are_counted_by_name_and_slots_rest_after_them) {
  unsigned asked = 0;
  worker.on_operation = [&](const FakeWorker::Started&, const Md&) {
    return FakeWorker::Outcome{.status = ++asked % 2 != 0 ? -ETIMEDOUT : -ECONNRESET};
  };
  Job j = job();
  j.duration = 100ms;
  j.warmup = 0ms;
  begin(j);
  run();
  const RunResult& r = only();
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.completed, 0u);
  EXPECT_EQ(r.lost, 0u);
  EXPECT_EQ(r.failed, r.ended);
  EXPECT_EQ(r.errors.at(-ETIMEDOUT) + r.errors.at(-ECONNRESET), r.failed);
  EXPECT_LE(r.failed, 4u * 11);  // 10 ms between two failures of a slot
  EXPECT_GE(r.failed, 4u * 9);
}

// Goal: the time line shows a fault: when it began, its end, and the operations that waited for it.
// Method: the worker answers nothing from 5 ms to 25 ms after the begin of the measurement, which ends after 30 ms.
TEST_F(GeneratorTest, timeline_and_longest_pause_show_a_silence) {
  Job j = job();
  j.duration = 30ms;
  j.timeline = 1ms;
  begin(j);
  while (generator->snapshot(now).phase != Phase::kMeasure) step();
  const Instant since = now - 100us;  // of the turn that began the measurement
  while (now < since + 5ms) step();
  worker.hold = true;
  while (now < since + 25ms) step();
  worker.hold = false;
  run();
  const RunResult& r = only();
  EXPECT_TRUE(r.ok());
  EXPECT_NEAR(double(r.longest_pause.count()), 20e6, 0.3e6);
  EXPECT_EQ(r.timeline.since, since);
  EXPECT_EQ(r.timeline.dropped, 0u);
  EXPECT_TRUE(r.timeline.failures.empty());
  uint64_t ended = 0;
  for (const TimelineSlice& slice : r.timeline.slices) {
    ended += slice.ended;
    EXPECT_FALSE(slice.index > 5 && slice.index < 25) << slice.index;
    EXPECT_EQ(slice.longest > Duration{1ms}, slice.index == 25) << slice.index;
    EXPECT_LT(slice.longest, Duration{20300us}) << slice.index;
  }
  EXPECT_EQ(ended, r.completed + 4);  // the last four ended after the measurement
}

TEST_F(GeneratorTest, timeline_has_the_time_and_the_errno_of_failures_until_the_end) {
  worker.hold = true;
  Job j = job();
  j.warmup = 0ms;
  j.drain = 50ms;
  j.duration = 30ms;
  j.timeline = 1ms;
  begin(j);
  while (now < Instant{1s} + 3ms) step();
  worker.finish_held(-ECONNRESET);
  run();
  const RunResult& r = only();
  ASSERT_EQ(r.timeline.failures.size(), 8u);  // four were answered, four more were cancelled after the drain
  EXPECT_EQ(r.failed, 8u);
  for (size_t i = 0; i < 8; ++i) {
    const FailedOperation& failure = r.timeline.failures[i];
    EXPECT_EQ(failure.error, i < 4 ? -ECONNRESET : -ECANCELED) << i;
    EXPECT_NEAR(double((failure.at - r.timeline.since).count()), i < 4 ? 3e6 : 80e6, 0.5e6) << i;
  }
  EXPECT_EQ(r.longest_pause, r.elapsed);  // no operation ended well
}

TEST_F(GeneratorTest, without_timeline_there_is_none) {
  begin(job());
  run();
  EXPECT_EQ(only().timeline.slice, Duration{0});
  EXPECT_TRUE(only().timeline.slices.empty());
  EXPECT_EQ(only().longest_pause, Duration{100us});
}

TEST_F(GeneratorTest, a_short_reply_is_an_error) {
  Job j = job();
  j.count = 1;
  j.warmup = 0ms;
  begin(j);
  worker.on_operation = [](const FakeWorker::Started&, const Md&) { return FakeWorker::Outcome{.mlength = 99}; };
  run();
  EXPECT_EQ(only().errors.at(-EMSGSIZE), 1u);
}

TEST_F(GeneratorTest, an_operation_that_never_ends_is_lost) {
  unsigned asked = 0;
  worker.on_operation = [&](const FakeWorker::Started&, const Md&) {
    return FakeWorker::Outcome{.drop = ++asked == 5};
  };
  Job j = job();
  j.drain = 1s;
  begin(j);
  run();
  const RunResult& r = only();
  EXPECT_EQ(r.lost, 1u);
  EXPECT_EQ(r.accepted, r.ended + 1);
  EXPECT_FALSE(r.ok());
  EXPECT_TRUE(generator->done());
}

TEST_F(GeneratorTest, a_second_final_event_is_a_duplicate) {
  unsigned asked = 0;
  worker.on_operation = [&](const FakeWorker::Started&, const Md&) {
    return FakeWorker::Outcome{.twice = ++asked == 5};
  };
  begin(job());
  run();
  EXPECT_EQ(only().duplicates, 1u);
  EXPECT_EQ(only().accepted, only().ended);
  EXPECT_FALSE(only().ok());
}

TEST_F(GeneratorTest, operations_that_do_not_end_in_time_are_cancelled) {
  worker.hold = true;
  Job j = job();
  j.warmup = 0ms;
  j.drain = 50ms;
  begin(j);
  run();
  const RunResult& r = only();
  EXPECT_EQ(r.accepted, 4u);
  EXPECT_EQ(r.ended, 4u);
  EXPECT_EQ(r.errors.at(-ECANCELED), 4u);
  EXPECT_EQ(r.lost, 0u);
  EXPECT_EQ(submitter.mds_in_use(), 0u);
  EXPECT_LT(now, Instant{1s} + 10ms + 50ms + 5ms);
}

TEST_F(GeneratorTest, stop_ends_cleanly_with_the_run_so_far) {
  Job j = job();
  j.sizes = {100, 200};
  j.duration = 10s;
  begin(j);
  for (int i = 0; i < 1000; ++i) step();
  generator->stop(now);
  run();
  const RunResult& r = only();  // the second size has not begun
  EXPECT_TRUE(r.interrupted);
  EXPECT_TRUE(r.ok());
  EXPECT_GT(r.completed, 0u);
  EXPECT_NEAR(double(r.elapsed.count()), 97.8e6, 0.5e6);
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

TEST_F(GeneratorTest, stop_in_every_phase_ends_and_leaves_nothing_bound) {
  for (unsigned steps = 0; steps < 160; ++steps) {
    for (const bool held : {false, true}) {
      begin(job());
      worker.hold = held;
      for (unsigned i = 0; i < steps && !generator->done(); ++i) step();
      generator->stop(now);
      generator->stop(now);
      run();
      ASSERT_TRUE(generator->done()) << steps;
      ASSERT_TRUE(generator->unbound()) << steps;
      for (const RunResult& r : generator->results()) {
        ASSERT_EQ(r.accepted, r.ended) << steps;
        ASSERT_EQ(r.lost + r.duplicates, 0u) << steps;
      }
      worker.hold = false;
      worker.run();
      ASSERT_EQ(submitter.mds_in_use(), 0u) << steps;
    }
  }
}

// Goal: a second stop waits at most about a second, even if no operation ends. An operation that is given up does not
// count as lost.
TEST_F(GeneratorTest, a_second_stop_abandons_operations_that_do_not_end) {
  worker.on_operation = [](const FakeWorker::Started&, const Md&) { return FakeWorker::Outcome{.drop = true}; };
  begin(job());
  for (int i = 0; i < 50; ++i) step();
  generator->stop(now);
  generator->stop(now);
  const Instant stopped = now;
  run();
  EXPECT_LT(now - stopped, Duration{3s});
  EXPECT_EQ(only().abandoned, 4u);
  EXPECT_EQ(only().lost, 0u);
  EXPECT_FALSE(only().ok());
}

TEST_F(GeneratorTest, an_md_that_ends_by_itself_ends_the_job) {
  begin(job());
  for (int i = 0; i < 60; ++i) step();
  worker.hold = true;
  step();
  worker.finish_held(-ESHUTDOWN);
  worker.retire(0, -ESHUTDOWN);
  worker.hold = false;
  run();
  EXPECT_TRUE(generator->done());
  EXPECT_GE(only().errors.at(-ESHUTDOWN), 1u);
}

TEST_F(GeneratorTest, a_full_ring_only_delays) {
  Submitter narrow{WorkerId{0}, 0, {.ops = 2, .mds = 16, .eqs = 1, .segment_blocks = 1}, nullptr};
  FakeWorker slow{narrow};
  Job j = job();
  j.concurrency = {16};
  j.count = 200;
  auto created = Generator::create(narrow, j, {});
  ASSERT_TRUE(created);
  for (int i = 0; i < 10000 && !(*created)->done(); ++i, now += 10us) {
    (void)(*created)->turn(now);
    slow.run(1);
  }
  ASSERT_EQ((*created)->results().size(), 1u);
  const RunResult& r = (*created)->results().front();
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.completed, 200u);
  EXPECT_FALSE(r.cycles_per_message);
}

TEST_F(GeneratorTest, verified_gets_and_puts_see_every_byte) {
  serve_as_target();
  for (Operation operation : {Operation::kGet, Operation::kPut}) {
    for (const bool wrong : {false, true}) {
      corrupt = wrong;
      Job j = job();
      j.operation = operation;
      j.verify = true;
      j.count = 50;
      j.sizes = {0, 1, 100, 4099, kMaxPayload / 4};
      begin(j);
      run();
      ASSERT_EQ(generator->results().size(), j.sizes.size());
      for (const RunResult& r : generator->results()) {
        EXPECT_GE(r.verified, 50u);
        EXPECT_EQ(r.mismatched, wrong && r.size > 50 ? r.verified : 0u) << r.size;
        EXPECT_EQ(r.ok(), !(wrong && r.size > 50));
        EXPECT_EQ(r.completed, 50u);
        EXPECT_EQ(r.accepted, r.ended);
      }
    }
  }
}

TEST_F(GeneratorTest, verified_ping_looks_for_the_magic) {
  Job j = job();
  j.operation = Operation::kPing;
  j.verify = true;
  j.count = 3;
  j.warmup = 0ms;
  worker.on_operation = [](const FakeWorker::Started& op, const Md& md) {
    const std::array<unsigned char, 4> magic{0x67, 0x6E, 0x69, 0x70};
    std::memcpy(md.segments[0].base + op.md_offset, magic.data(), 4);
    return FakeWorker::Outcome{.mlength = 48};
  };
  begin(j);
  run();
  EXPECT_EQ(only().verified, 3u);
  EXPECT_EQ(only().mismatched, 0u);
  EXPECT_EQ(only().bytes, 3u * 48);
  worker.on_operation = nullptr;
  begin(j);
  run();
  EXPECT_EQ(only().mismatched, 3u);
}

TEST_F(GeneratorTest, create_refuses_what_cannot_be) {
  auto code = [&](auto&& change) {
    Job j = job();
    change(j);
    const auto created = Generator::create(submitter, j, {});
    return created ? 0 : created.error().code;
  };
  EXPECT_EQ(code([](Job& j) { j.target.nid = kAnyNid; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.concurrency = {0}; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.rate = -1; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.duration = Duration::max(); }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.rate = 2e9; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.rate = 0.001; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.concurrency = {kConcurrencyMax + 1}; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.concurrency = {65}; }), -ENOSPC);
  EXPECT_EQ(code([](Job& j) { j.duration = Duration{0}; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.warmup = -1ms; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.timeline = 99us; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.timeline = -1ms; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.timeline = 1ms, j.sizes = {1, 2}; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.sizes = {}; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.sizes.assign(65, 1); }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.sizes = {kMaxPayload + 1}; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.sizes = {kMaxPayload}, j.concurrency = {2000}; }), -EINVAL);
  EXPECT_EQ(code([](Job& j) { j.sizes = {kMaxPayload}, j.verify = true; }), -EINVAL);
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

TEST_F(GeneratorTest, target_attaches_sink_and_source_and_lets_go) {
  Target target(submitter);
  ASSERT_TRUE(target.attach());
  worker.run();
  EXPECT_TRUE(target.serving());
  EXPECT_FALSE(target.detached());
  std::vector<AttachCall> attached;
  for (const CallMsg& call : worker.seen)
    if (const auto* attach = std::get_if<AttachCall>(&call)) attached.push_back(*attach);
  ASSERT_EQ(attached.size(), 2u);
  EXPECT_EQ(attached[0].match_bits, kSinkBits);
  EXPECT_EQ(attached[1].match_bits, kSourceBits);
  for (const AttachCall& call : attached) {
    EXPECT_EQ(call.portal.value, kTargetPortal);
    EXPECT_TRUE(call.initiator.nid.is_any());
    EXPECT_EQ(call.initiator.pid, kAnyPid);
    const Md& md = submitter.md_slot(call.md.index);
    EXPECT_EQ(md.length, kTargetBytes);
    EXPECT_EQ(md.threshold, kInfinite);
    EXPECT_TRUE(md.options & kMdManageRemote);
  }
  const Md& source = submitter.md_slot(attached[1].md.index);
  EXPECT_EQ(pattern_match({source.segments[0].base, kTargetBytes}, kSourceSeed), kTargetBytes);
  EXPECT_EQ(source.options & kMdPut, 0u);
  ASSERT_TRUE(target.detach());
  worker.run();
  EXPECT_TRUE(target.detached());
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

}  // namespace
}  // namespace ulnet::perf
