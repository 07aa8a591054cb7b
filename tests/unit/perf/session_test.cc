// A job on a thread of its own, or on that of its worker. The threads are real, the worker is a stand-in.
#include "perf/generator/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dataplane/host/threads.h"
#include "tests/unit/lib/fake_worker.h"
#include "tests/unit/perf/worker_item.h"

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
    j.concurrency = {8};
    j.warmup = 5ms;
    return j;
  }
};

TEST_F(SessionTest, runs_to_its_end_and_reports_it) {
  Job j = job();
  j.sizes = {0, 64};
  j.count = 2000;
  auto session = Session::start(submitter, j, {});
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
  auto session = Session::start(submitter, j, {});
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
  auto session = Session::start(submitter, j, {});
  ASSERT_TRUE(session);
  session->reset();
  // The worker gives the place of an MD back after its last event.
  for (int i = 0; i < 20'000 && submitter.mds_in_use() > 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(submitter.mds_in_use(), 0u);
}

TEST_F(SessionTest, bad_jobs_do_not_start) {
  Job j = job();
  j.concurrency = {0};
  EXPECT_EQ(Session::start(submitter, j, {}).error().code, -EINVAL);
}

/// A thread that sleeps as soon as it can, with a worker.
struct SessionOnWorker : ::testing::Test {
  SessionOnWorker() {
    EXPECT_TRUE(thread.start(launcher, 0));
    wait(thread.add(item));
  }
  ~SessionOnWorker() override { thread.stop(); }
  void wait(const Result<HostThread::Ticket>& ticket) {
    ASSERT_TRUE(ticket);
    thread.wait(*ticket);
  }
  [[nodiscard]] WorkerThread place() {
    return {.add = [this](Turnable& job) -> Result<void> {
              ++added;
              if (full) return fail(ENOSPC, "the thread is full");
              wait(thread.add(job));
              return {};
            },
            .remove = [this](Turnable& job) { wait(thread.remove(job)); }};
  }
  [[nodiscard]] Generator::Meters note_thread() {
    return {.busy_cycles = [this] {
      turned_by = std::this_thread::get_id();
      return uint64_t{0};
    }};
  }
  static Job job(uint64_t count) {
    Job j;
    j.target.nid = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000001);
    j.concurrency = {8};
    j.warmup = 0ms;
    j.count = count;
    return j;
  }
  void sleeps() {
    const uint64_t before = thread.stats().sleeps;
    for (int i = 0; i < 20'000 && thread.stats().sleeps < before + 2; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_GE(thread.stats().sleeps, before + 2);
  }
  Submitter submitter{WorkerId{0}, 0, {.ops = 64, .mds = 64, .eqs = 4, .segment_blocks = 1}, nullptr};
  test::WorkerItem item{submitter};
  PthreadLauncher launcher{1};
  HostThread thread{{.name = "worker", .idle = {.mode = IdleMode::kInterrupt}}};
  unsigned added = 0;
  bool full = false;
  std::atomic<std::thread::id> turned_by{};
};

TEST_F(SessionOnWorker, runs_there_to_its_end) {
  auto session = Session::start(submitter, job(2000), note_thread(), place(), true);
  ASSERT_TRUE(session) << session.error().what;
  EXPECT_FALSE((*session)->wait(20ms)) << "it is held";
  EXPECT_EQ(turned_by.load(), std::thread::id{});
  (*session)->begin();
  ASSERT_TRUE((*session)->wait(60s));
  EXPECT_NE(turned_by.load(), std::thread::id{});
  EXPECT_NE(turned_by.load(), std::this_thread::get_id());
  EXPECT_EQ(added, 1u);
  const auto results = (*session)->results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[0].completed, 2000u);
  EXPECT_TRUE((*session)->unbound());
}

// Goal: while nothing ends, the worker sleeps, but for the looks at the mailbox. A stop wakes it.
TEST_F(SessionOnWorker, a_stop_wakes_the_worker) {
  item.hold = true;
  auto session = Session::start(submitter, job(2000), {}, place());
  ASSERT_TRUE(session) << session.error().what;
  while ((*session)->snapshot().in_flight < 8) ASSERT_FALSE((*session)->wait(1ms));
  sleeps();
  (*session)->stop();
  (*session)->stop();
  ASSERT_TRUE((*session)->wait(60s));
  ASSERT_EQ((*session)->results().size(), 1u);
  EXPECT_TRUE((*session)->results()[0].interrupted);
}

// Goal: after halt() the worker does not touch the job, and may stop. The job need not have ended.
TEST_F(SessionOnWorker, halt_takes_it_off_the_thread) {
  item.hold = true;
  auto session = Session::start(submitter, job(2000), {}, place());
  ASSERT_TRUE(session) << session.error().what;
  while ((*session)->snapshot().in_flight < 8) ASSERT_FALSE((*session)->wait(1ms));
  (*session)->halt();
  EXPECT_FALSE((*session)->finished());
  thread.stop();
  session->reset();
  EXPECT_EQ(submitter.mds_in_use(), 8u) << "nobody has unbound them";
}

TEST_F(SessionOnWorker, jobs_that_get_a_thread_of_their_own) {
  item.spins = true;
  item.gate().notify_stored();
  for (const bool verify : {false, true}) {
    Job j = job(20);
    (verify ? j.verify : j.threads) = true;
    j.operation = Operation::kPing;
    auto session = Session::start(submitter, j, note_thread(), place());
    ASSERT_TRUE(session) << session.error().what;
    ASSERT_TRUE((*session)->wait(60s));
  }
  EXPECT_EQ(added, 0u);
}

TEST_F(SessionOnWorker, a_thread_that_takes_no_job) {
  full = true;
  const auto session = Session::start(submitter, job(20), {}, place());
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, -ENOSPC);
}

}  // namespace
}  // namespace ulnet::perf
