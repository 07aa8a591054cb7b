// `manage perf`: from a request of the control socket to progress and report, with a stand-in worker on a thread. The
// jobs have threads of their own, or are items on the worker's.
#include "perf/generator/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "config/emit.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/host/threads.h"
#include "perf/generator/job_json.h"
#include "tests/unit/perf/worker_item.h"

namespace ulnet::perf {
namespace {

/// Parameter: jobs are on the thread of the worker.
struct ServiceTest : ::testing::TestWithParam<bool> {
  /// A submitter with a worker of its own.
  struct Opened {
    explicit Opened(const SubmitterSize& size) : submitter(WorkerId{0}, 0, size, nullptr), item(submitter) {
      item.spins = true;
      EXPECT_TRUE(thread.start(launcher, 0));
      wait(thread.add(item));
    }
    ~Opened() { thread.stop(); }
    void wait(const Result<HostThread::Ticket>& ticket) {
      ASSERT_TRUE(ticket);
      thread.wait(*ticket);
    }
    Submitter submitter;
    test::WorkerItem item;
    PthreadLauncher launcher{1};
    HostThread thread{{.name = "worker", .idle = {.mode = IdleMode::kAdaptive}}};
  };
  WorkerThread thread_of(const Submitter& submitter) {
    if (!GetParam()) return {};
    Opened& its =
        **std::find_if(opened.begin(), opened.end(), [&](auto& one) { return &one->submitter == &submitter; });
    return {.add = [&its](Turnable& job) -> Result<void> { return its.wait(its.thread.add(job)), Result<void>{}; },
            .remove = [&its](Turnable& job) { its.wait(its.thread.remove(job)); }};
  }
  std::vector<std::unique_ptr<Opened>> opened;
  unsigned closed = 0;
  int open_error = 0;
  std::vector<std::pair<api::RequestId, api::Answer>> answers;
  Service service{
      {.submitter_open = [this](const SubmitterSize& size) -> Result<Submitter*> {
         if (open_error != 0) return fail(open_error, "no submitter today");
         opened.push_back(std::make_unique<Opened>(size));
         return &opened.back()->submitter;
       },
       .submitter_close = [this](Submitter&) { ++closed; },
       .worker_thread = [this](const Submitter& submitter) { return thread_of(submitter); },
       .busy_cycles = nullptr,
       .counts_reader = [this] { return counts_reader(); },
       .reply = [this](api::RequestId id, const api::Answer& answer) { answers.emplace_back(id, answer); }}};
  Instant now{1s};
  std::weak_ptr<int> reader;  ///< there while the reader of the job under way is
  /// Each reading finds one message more on a rail of the target's address.
  std::function<NodeCounts()> counts_reader() {
    auto owned = std::make_shared<int>(0);
    reader = owned;
    return [owned, count = std::make_shared<std::atomic<uint64_t>>(0)] {
      const uint64_t puts = ++*count;
      return NodeCounts{.rails = {{.nid = job().target.nid, .sent = puts, .puts_sent = puts}}, .workers = {{}, {}}};
    };
  }

  static Job job() {
    Job j;
    j.target.nid = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000001);
    j.concurrency = {4};
    j.count = 100;
    j.warmup = 0ms;
    return j;
  }
  void ask(uint64_t id, config::Json args) {
    api::Request request;
    request.verb = api::Verb::kManage;
    request.object = "perf";
    request.args = std::move(args);
    service.request({1, id}, request);
  }
  void run() {
    for (int i = 0; i < 20000 && !service.idle(); ++i) {
      (void)service.turn(now);
      now += 50ms;
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(service.idle());
  }
};

TEST_P(ServiceTest, a_report_has_the_counts_of_the_node) {
  ask(7, job_json(job()));
  EXPECT_FALSE(reader.expired());
  run();
  EXPECT_TRUE(reader.expired()) << "the memory of NIs is held longer than the job";
  const auto report = config::to_json(answers.back().second.doc)["perf"]["report"];
  EXPECT_EQ(report["runs"][0]["rails"][0]["nid"], nid_text(job().target.nid));
  EXPECT_EQ(report["runs"][0]["rails"][0]["messages"], 1);
  EXPECT_EQ(report["runs"][0]["workers"].size(), 2u);
  EXPECT_EQ(report["runs"][0]["resends"]["count"], 0);
}

TEST_P(ServiceTest, a_job_that_is_halted_gives_the_reader_up) {
  Job endless = job();
  endless.count = 0;
  endless.duration = 1h;
  ask(7, job_json(endless));
  EXPECT_FALSE(reader.expired());
  service.halt();
  EXPECT_TRUE(reader.expired()) << "it would outlive the node";
}

TEST_P(ServiceTest, a_job_ends_with_its_report) {
  EXPECT_EQ(service.next_deadline(), kForever);
  ask(7, job_json(job()));
  EXPECT_LE(service.next_deadline(), now);
  run();
  ASSERT_FALSE(answers.empty());
  const auto& [id, answer] = answers.back();
  EXPECT_EQ(id.id, 7u);
  EXPECT_TRUE(answer.ok());
  EXPECT_FALSE(answer.more);
  const config::Json doc = config::to_json(answer.doc);
  const config::Json& report = doc["perf"]["report"];
  EXPECT_EQ(report["ok"], true);
  ASSERT_EQ(report["runs"].size(), 1u);
  EXPECT_EQ(result_from_json(report["runs"][0]).completed, 100u);
  EXPECT_EQ(closed, 1u);
}

// Goal: a job binds its MDs when its memory is registered, and frees the memory when no driver has it.
TEST_P(ServiceTest, a_job_waits_for_its_memory_at_both_ends) {
  std::span<std::byte> memory;
  std::function<void(RegionId)> added;
  std::function<void()> removed;
  Service waiting(
      {.submitter_open = [this](const SubmitterSize& size) -> Result<Submitter*> {
         opened.push_back(std::make_unique<Opened>(size));
         return &opened.back()->submitter;
       },
       .submitter_close = [this](Submitter&) { ++closed; },
       .region_add = [&](std::span<std::byte> bytes,
                         std::function<void(RegionId)> done) { memory = bytes, added = std::move(done); },
       .region_remove =
           [&](RegionId region, std::function<void()> done) {
             EXPECT_EQ(region, RegionId{7});
             removed = std::move(done);
           },
       .worker_thread = [this](const Submitter& submitter) { return thread_of(submitter); },
       .busy_cycles = nullptr,
       .reply = [this](api::RequestId id, const api::Answer& answer) { answers.emplace_back(id, answer); }});
  api::Request request;
  request.verb = api::Verb::kManage;
  request.object = "perf";
  request.args = job_json(job());
  waiting.request({1, 1}, request);
  ASSERT_TRUE(added);
  EXPECT_GE(memory.size(), 4u);
  const auto turn = [&] {
    (void)waiting.turn(now);
    now += 50ms;
    std::this_thread::sleep_for(1ms);
  };
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_EQ(opened.back()->submitter.mds_in_use(), 0u);
  EXPECT_TRUE(answers.empty());
  added(RegionId{7});
  for (int i = 0; i < 20'000 && !removed; ++i) turn();
  ASSERT_TRUE(removed);
  EXPECT_EQ(closed, 1u);
  for (int i = 0; i < 3; ++i) turn();
  memory[0] = std::byte{1};  // ASan: not freed
  EXPECT_FALSE(waiting.idle());
  removed();
  turn();
  EXPECT_TRUE(waiting.idle());
}

TEST_P(ServiceTest, progress_comes_in_parts_and_gone_stops_the_job) {
  Job j = job();
  j.count = 0;
  j.duration = 1h;
  ask(1, job_json(j));
  const auto runs = [this]() -> int {  // as the last part says; its threads may take their time to begin
    return answers.empty() ? 0 : config::to_json(answers.back().second.doc)["perf"]["progress"]["runs"].get<int>();
  };
  for (int i = 0; i < 20000 && (answers.size() < 2 || runs() < 1); ++i) {
    (void)service.turn(now);
    now += 300ms;
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_GE(answers.size(), 2u);
  EXPECT_TRUE(answers.back().second.more);
  EXPECT_EQ(runs(), 1);
  service.gone({1, 1});
  const size_t told = answers.size();
  run();
  EXPECT_EQ(answers.size(), told);  // no client gets more answers
  EXPECT_EQ(closed, 1u);
}

TEST_P(ServiceTest, stop_ends_all_jobs_with_their_results_so_far) {
  Job j = job();
  j.count = 0;
  j.duration = 1h;
  for (uint64_t i = 1; i <= kServiceJobsMax; ++i) ask(i, job_json(j));
  ask(99, job_json(j));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].second.errors.at(0).code, -EBUSY);
  service.stop();
  run();
  unsigned finals = 0;
  for (const auto& [id, answer] : answers) finals += answer.ok() && !answer.more;
  EXPECT_EQ(finals, kServiceJobsMax);
  ask(100, job_json(job()));
  EXPECT_EQ(answers.back().second.errors.at(0).code, -ESHUTDOWN);
}

TEST_P(ServiceTest, a_named_job_can_be_stopped_by_another_request) {
  Job j = job();
  j.count = 0;
  j.duration = 1h;
  config::Json args = job_json(j);
  args["name"] = "mine";
  ask(1, args);
  ask(2, {{"stop", "yours"}});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].second.errors.at(0).code, -ENOENT);
  ask(3, {{"stop", "mine"}});
  EXPECT_TRUE(answers.at(1).second.ok());
  run();
  EXPECT_EQ(answers.back().first.id, 1u);
  EXPECT_FALSE(answers.back().second.more);
}

// Goal: after halt() nothing turns the jobs, and workers may stop. A thread of its own has ended its job.
TEST_P(ServiceTest, halt_although_jobs_run) {
  Job j = job();
  j.count = 0;
  j.duration = 1h;
  ask(1, job_json(j));
  service.halt();
  EXPECT_TRUE(answers.empty());
  opened.front()->thread.stop();
  if (GetParam()) return;
  run();
  EXPECT_EQ(answers.size(), 1u);
}

TEST_P(ServiceTest, jobs_that_cannot_run_are_refused_with_a_reason) {
  ask(1, {{"colour", "red"}});
  config::Json unsized = job_json(job());
  unsized["concurrency"] = 0;
  ask(2, unsized);
  open_error = ENOSPC;
  ask(3, job_json(job()));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].second.errors.at(0).descr, "perf job: unknown field \"colour\"");
  EXPECT_EQ(answers[1].second.errors.at(0).descr, "concurrency is 1 to 4096");
  EXPECT_EQ(answers[2].second.errors.at(0).descr, "no submitter today");
  EXPECT_EQ(answers[2].second.errors.at(0).verb, "manage");
  EXPECT_EQ(answers[2].second.errors.at(0).entity, "perf");
  EXPECT_TRUE(service.idle());
}

INSTANTIATE_TEST_SUITE_P(OnWorker, ServiceTest, ::testing::Bool());

}  // namespace
}  // namespace ulnet::perf
