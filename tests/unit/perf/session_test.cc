// A job on a thread of its own, with real threads on both sides: the generator's and a stand-in worker's.
#include "perf/generator/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/lib/fake_worker.h"

namespace ulnet::perf {
namespace {

struct SessionTest : ::testing::Test {
  Submitter submitter{WorkerId{0}, 0, {.ops = 64, .mds = 64, .eqs = 4, .segment_blocks = 1}, nullptr};
  test::FakeWorker fake{submitter};
  std::atomic<bool> stop{false};
  std::thread worker{[this] {
    while (!stop.load()) {
      if (fake.run() == 0) std::this_thread::yield();
      fake.seen.clear();
    }
  }};
  ~SessionTest() override {
    stop = true;
    worker.join();
  }
  Job job() {
    Job j;
    j.target.nid = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000001);
    j.concurrency = 8;
    j.warmup = 5ms;
    return j;
  }
};

TEST_F(SessionTest, runs_to_its_end_and_reports_it) {
  Job j = job();
  j.sizes = {0, 64};
  j.count = 2000;
  auto session = Session::start(submitter, j, nullptr);
  ASSERT_TRUE(session) << session.error().what;
  ASSERT_TRUE((*session)->wait(60s));
  EXPECT_TRUE((*session)->finished());
  EXPECT_TRUE((*session)->unbound());
  const auto results = (*session)->results();
  ASSERT_EQ(results.size(), 2u);
  for (const RunResult& r : results) {
    EXPECT_TRUE(r.ok());
    EXPECT_EQ(r.completed, 2000u);
    EXPECT_GT(r.elapsed, Duration{0});
  }
  EXPECT_EQ((*session)->snapshot().phase, Phase::kDone);
}

TEST_F(SessionTest, stop_ends_it_soon) {
  Job j = job();
  j.duration = 1h;
  auto session = Session::start(submitter, j, nullptr);
  ASSERT_TRUE(session);
  while ((*session)->snapshot().completed == 0) EXPECT_FALSE((*session)->wait(1ms));
  (*session)->stop();
  ASSERT_TRUE((*session)->wait(30s));
  ASSERT_EQ((*session)->results().size(), 1u);
  EXPECT_TRUE((*session)->results()[0].interrupted);
  EXPECT_TRUE((*session)->results()[0].ok());
}

TEST_F(SessionTest, destructor_stops_a_running_job) {
  Job j = job();
  j.duration = 1h;
  auto session = Session::start(submitter, j, nullptr);
  ASSERT_TRUE(session);
  session->reset();
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

TEST_F(SessionTest, bad_jobs_do_not_start) {
  Job j = job();
  j.concurrency = 0;
  EXPECT_EQ(Session::start(submitter, j, nullptr).error().code, -EINVAL);
}

}  // namespace
}  // namespace ulnet::perf
