// The share of each rail and worker, and resends: from two readings of a node's counters, and in the runs of a job.
#include "perf/generator/shares.h"

#include <gtest/gtest.h>

#include "tests/unit/perf/generator_rig.h"

namespace ulnet::perf {
namespace {

const Nid kRails[] = {Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000002), Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000102)};

NodeCounts before() {
  return {.rails = {{.nid = kRails[0], .sent = 100, .received = 90, .dropped = 1, .puts_sent = 50, .replies_come = 40},
                    {.nid = kRails[1], .sent = 10, .received = 10, .puts_sent = 5, .replies_come = 5}},
          .workers = {{.sent = 70, .received = 60, .sent_bytes = 7000, .received_bytes = 6000}, {}},
          .resends = {.resent = 4, .successful = 2, .failed = 1}};
}

NodeCounts after() {
  return {
      .rails = {{.nid = kRails[0], .sent = 410, .received = 400, .dropped = 3, .puts_sent = 350, .replies_come = 50},
                {.nid = kRails[1], .sent = 130, .received = 120, .puts_sent = 105, .replies_come = 35}},
      .workers = {{.sent = 80, .received = 70, .sent_bytes = 7100, .received_bytes = 6010},
                  {.sent = 50, .received = 10, .sent_bytes = 500, .received_bytes = 10}},
      .resends = {.resent = 10, .successful = 7, .failed = 2}};
}

TEST(PerfShares, of_rails_by_the_messages_with_payload) {
  const auto put = rail_shares(before(), after(), Operation::kPut, 1000);
  ASSERT_EQ(put.size(), 2u);
  EXPECT_EQ(put[0].nid, kRails[0]);
  EXPECT_EQ(put[0].messages, 300u);
  EXPECT_EQ(put[0].bytes, 300000u);
  EXPECT_DOUBLE_EQ(put[0].share, 0.75);
  EXPECT_EQ(put[0].sent, 310u);
  EXPECT_EQ(put[0].received, 310u);
  EXPECT_EQ(put[0].dropped, 2u);
  EXPECT_EQ(put[1].nid, kRails[1]);
  EXPECT_EQ(put[1].messages, 100u);
  EXPECT_DOUBLE_EQ(put[1].share, 0.25);
  const auto get = rail_shares(before(), after(), Operation::kGet, 7);
  EXPECT_EQ(get[0].messages, 10u);
  EXPECT_EQ(get[1].messages, 30u);
  EXPECT_EQ(get[1].bytes, 210u);
  EXPECT_DOUBLE_EQ(get[1].share, 0.75);
  EXPECT_EQ(rail_shares(before(), after(), Operation::kPing, 0)[1].messages, 30u);
}

TEST(PerfShares, of_workers_by_messages_of_both_directions) {
  const auto workers = worker_shares(before(), after());
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers[0].messages, 20u);
  EXPECT_EQ(workers[0].bytes, 110u);
  EXPECT_DOUBLE_EQ(workers[0].share, 0.25);
  EXPECT_EQ(workers[1].sent, 50u);
  EXPECT_EQ(workers[1].received, 10u);
  EXPECT_EQ(workers[1].bytes, 510u);
  EXPECT_DOUBLE_EQ(workers[1].share, 0.75);
}

TEST(PerfShares, of_nothing_are_zero) {
  for (const RailShare& rail : rail_shares(before(), before(), Operation::kPut, 10)) EXPECT_EQ(rail.share, 0);
  for (const WorkerShare& worker : worker_shares(after(), after())) EXPECT_EQ(worker.share, 0);
  EXPECT_TRUE(rail_shares({}, after(), Operation::kPut, 10).empty());
}

/// The one rail and the one worker of the node count each call of the job. Each call is a message sent again, too.
struct CountedTest : GeneratorTest {
  CountedTest() {
    counts = [this] {
      const uint64_t calls = worker.seen.size();
      return NodeCounts{.rails = {{.nid = kRails[0], .sent = calls, .puts_sent = calls}},
                        .workers = {{.sent = calls, .received = calls}},
                        .resends = {.resent = calls, .successful = calls / 2}};
    };
  }
};

// Shares are those of the measurement. Resends are those of the whole run, as are errors.
TEST_F(CountedTest, a_run_has_the_shares_of_its_measurement_and_all_its_resends) {
  begin(job());
  while (generator->snapshot(now).phase != Phase::kMeasure) step();
  const uint64_t warm = worker.seen.size();
  ASSERT_GT(warm, 4u);
  while (generator->snapshot(now).phase == Phase::kMeasure) step();
  const uint64_t measured = worker.seen.size() - warm;
  run();
  const RunResult& r = only();
  ASSERT_EQ(r.rails.size(), 1u);
  EXPECT_EQ(r.rails[0].nid, kRails[0]);
  // The turn that ends a phase may start operations, too.
  EXPECT_NEAR(double(r.rails[0].messages), double(measured), 2 * 4);
  EXPECT_LT(r.rails[0].messages, r.accepted - warm / 2);
  EXPECT_EQ(r.rails[0].bytes, r.rails[0].messages * 100);
  ASSERT_EQ(r.workers.size(), 1u);
  EXPECT_EQ(r.workers[0].messages, 2 * r.rails[0].messages);
  ASSERT_TRUE(r.resends);
  EXPECT_GE(r.resends->resent, r.accepted);
  EXPECT_EQ(r.resends->successful, r.resends->resent / 2);
}

TEST_F(GeneratorTest, without_counters_there_are_no_shares) {
  begin(job());
  run();
  EXPECT_TRUE(only().rails.empty());
  EXPECT_TRUE(only().workers.empty());
  EXPECT_FALSE(only().resends);
}

}  // namespace
}  // namespace ulnet::perf
