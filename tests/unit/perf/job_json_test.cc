// Jobs and results survive the way through JSON. An error names the field that is wrong.
#include "perf/generator/job_json.h"

#include <gtest/gtest.h>

#include <set>

namespace ulnet::perf {
namespace {

Job full_job() {
  Job job;
  job.operation = Operation::kGet;
  job.target.nid = Nid::v4(Net::of(NetType::kTcp, 1), 0x0A000001);
  job.self = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000002);
  job.sizes = {0, 4096, kMaxPayload};
  job.concurrency = {17};
  job.rate = 2.5;
  job.duration = 1500ms;
  job.count = 12;
  job.warmup = 0ms;
  job.verify = job.threads = true;
  job.drain = 7s;
  job.sizes = {4096};
  job.timeline = 2ms;
  return job;
}

TEST(JobJson, job_comes_back_as_it_was) {
  const Job job = full_job();
  const auto back = job_from_json(nlohmann::ordered_json::parse(job_json(job).dump()));
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(job_json(*back), job_json(job));
  EXPECT_EQ(back->target.nid, job.target.nid);
  EXPECT_EQ(back->target.pid, kLnetPid);
  EXPECT_EQ(back->self, job.self);
  EXPECT_EQ(back->sizes, job.sizes);
  EXPECT_EQ(back->concurrency, job.concurrency);
  EXPECT_EQ(back->rate, job.rate);
  EXPECT_EQ(back->duration, job.duration);
  EXPECT_TRUE(back->verify && back->threads);
  EXPECT_EQ(back->timeline, job.timeline);
}

TEST(JobJson, concurrency_is_a_number_or_a_list) {
  nlohmann::ordered_json object = job_json(full_job());
  object["timeline_ns"] = 0;
  object["concurrency"] = 3;
  EXPECT_EQ(job_from_json(object).value().concurrency, std::vector<uint32_t>{3});
  object["concurrency"] = {3, 5};
  EXPECT_EQ(job_from_json(object).value().concurrency, (std::vector<uint32_t>{3, 5}));
}

TEST(JobJson, a_wrong_field_is_named) {
  auto why = [](const char* key, nlohmann::ordered_json value) {
    nlohmann::ordered_json object = job_json(full_job());
    object[key] = std::move(value);
    const auto job = job_from_json(object);
    return job ? "" : job.error().what;
  };
  EXPECT_EQ(why("operation", "push"), "perf job: bad value of \"operation\"");
  EXPECT_EQ(why("target", "10.0.0.1@nowhere"), "perf job: bad value of \"target\"");
  EXPECT_EQ(why("sizes", {1, -1}), "perf job: bad value of \"sizes\"");
  EXPECT_EQ(why("sizes", 4096), "perf job: bad value of \"sizes\"");
  EXPECT_EQ(why("concurrency", 1.5), "perf job: bad value of \"concurrency\"");
  EXPECT_EQ(why("concurrency", uint64_t{1} << 33), "perf job: bad value of \"concurrency\"");
  EXPECT_EQ(why("rate", "100k"), "perf job: bad value of \"rate\"");
  EXPECT_EQ(why("rate", -1), "a rate is 0.01 to 1000000000 operations per second");
  EXPECT_EQ(why("duration_ns", "3s"), "perf job: bad value of \"duration_ns\"");
  EXPECT_EQ(why("verify", 1), "perf job: bad value of \"verify\"");
  EXPECT_EQ(why("threads", "yes"), "perf job: bad value of \"threads\"");
  EXPECT_EQ(why("colour", "red"), "perf job: unknown field \"colour\"");
  EXPECT_EQ(why("timeline_ns", "1ms"), "perf job: bad value of \"timeline_ns\"");
  EXPECT_EQ(why("timeline_ns", 99999), "a slice of the time line is at least 100us");
  EXPECT_EQ(why("sizes", {1, 2}), "a time line needs exactly one size and one concurrency");
  EXPECT_EQ(why("concurrency", 0), "concurrency is 1 to 4096");
  EXPECT_EQ(why("concurrency", {1, 4097}), "concurrency is 1 to 4096");
  EXPECT_EQ(why("concurrency", {1, -1}), "perf job: bad value of \"concurrency\"");
  EXPECT_EQ(why("concurrency", nlohmann::ordered_json::array()), "concurrency is 1 to 4096");
  EXPECT_EQ(why("concurrency", std::vector<int>(65, 1)), "1 to 64 runs: sizes times concurrencies");
  EXPECT_EQ(why("sizes", {kMaxPayload + 1}), "a message carries at most 1 MiB");
  EXPECT_EQ(job_from_json(nlohmann::ordered_json::array()).error().what, "a perf job is an object");
  EXPECT_EQ(job_from_json(nlohmann::ordered_json::object()).error().what, "the target NID is missing");
}

TEST(JobJson, result_comes_back_as_it_was) {
  RunResult r;
  r.operation = Operation::kPing;
  r.size = 4096;
  r.concurrency = 8;
  r.rate = 1e5;
  r.unsent = 3;
  r.late = 4;
  r.elapsed = 3s;
  r.completed = 300000;
  r.bytes = 300000ull * 4096;
  r.latency_min = 1us;
  r.latency_mean = 2us;
  r.latency_p50 = 3us;
  r.latency_p99 = 4us;
  r.latency_p999 = 5us;
  r.latency_max = 6us;
  r.latency_p90 = 7us;
  r.latency_p9999 = 8us;
  r.cycles_per_message = 1234.5;
  r.accepted = 300010;
  r.ended = 300009;
  r.lost = 1;
  r.duplicates = 2;
  r.abandoned = 3;
  r.failed = 5;
  r.verified = 6;
  r.mismatched = 7;
  r.interrupted = true;
  r.longest_pause = 9ms;
  r.timeline = {.slice = 1ms,
                .since = Instant{3s},
                .dropped = 2,
                .slices = {{.index = 7, .ended = 9, .failed = 1, .longest = 5ms}, {.index = 8, .ended = 1}},
                .failures = {{.at = Instant{4s}, .latency = 1s, .error = -ETIMEDOUT}}};
  r.errors = {{-ETIMEDOUT, 3}, {-ECONNRESET, 2}};
  const RunResult back = result_from_json(nlohmann::ordered_json::parse(result_json(r).dump()));
  EXPECT_EQ(result_json(back), result_json(r));
  EXPECT_EQ(back.errors, r.errors);
  EXPECT_EQ(back.rate, r.rate);
  EXPECT_EQ(back.unsent, r.unsent);
  EXPECT_EQ(back.late, r.late);
  EXPECT_EQ(back.latency_p90, r.latency_p90);
  EXPECT_EQ(back.latency_p9999, r.latency_p9999);
  ASSERT_EQ(back.timeline.slices.size(), 2u);
  EXPECT_EQ(back.timeline.slices[0].longest, Duration{5ms});
  ASSERT_EQ(back.timeline.failures.size(), 1u);
  EXPECT_EQ(back.timeline.failures[0].error, -ETIMEDOUT);
  EXPECT_EQ(back.timeline.failures[0].at, Instant{4s});
  EXPECT_EQ(back.cycles_per_message, r.cycles_per_message);
  r.cycles_per_message.reset();
  EXPECT_TRUE(result_json(r)["cycles_per_message"].is_null());
  EXPECT_FALSE(result_from_json(result_json(r)).cycles_per_message);
}

TEST(JobJson, shares_and_resends_come_back_as_they_were) {
  RunResult r;
  r.rails = {{.nid = Nid::v4(Net::of(NetType::kTcp, 1), 0x0A000002),
              .messages = 11,
              .bytes = 12,
              .share = 0.25,
              .sent = 13,
              .received = 14,
              .dropped = 15}};
  r.workers = {{.messages = 1, .bytes = 2, .share = 0.125, .sent = 3, .received = 4}, {.messages = 5}};
  r.resends = ResendCounts{.resent = 16, .successful = 17, .failed = 18};
  const RunResult back = result_from_json(nlohmann::ordered_json::parse(result_json(r).dump()));
  EXPECT_EQ(result_json(back), result_json(r));
  ASSERT_EQ(back.rails.size(), 1u);
  EXPECT_EQ(back.rails[0].nid, r.rails[0].nid);
  EXPECT_EQ(back.rails[0].share, 0.25);
  EXPECT_EQ(back.rails[0].dropped, 15u);
  ASSERT_EQ(back.workers.size(), 2u);
  EXPECT_EQ(back.workers[0].received, 4u);
  EXPECT_EQ(back.workers[1].messages, 5u);
  ASSERT_TRUE(back.resends);
  EXPECT_EQ(back.resends->successful, 17u);
  EXPECT_EQ(result_json(r)["workers"][1]["worker"], 1);
  EXPECT_TRUE(result_json({})["resends"].is_null());
  EXPECT_FALSE(result_from_json(result_json({})).resends);
}

TEST(JobJson, garbage_is_no_result_and_no_crash) {
  for (const char* text : {"null", "[]", "{}", R"({"size": "x", "latency_ns": 3, "errors": {"E": 1}, "operation": 7,
            "rails": [3, {"nid": 5}], "workers": {}, "resends": [],
            "timeline": {"slices": [[1, 2], 3, [1, -2, 3, 4]], "failures": {}}})"}) {
    EXPECT_EQ(result_from_json(nlohmann::ordered_json::parse(text)).completed, 0u);
    EXPECT_EQ(snapshot_from_json(nlohmann::ordered_json::parse(text)).completed, 0u);
  }
}

TEST(JobJson, snapshot_comes_back_as_it_was) {
  const Snapshot shot{.run = 1,
                      .runs = 3,
                      .phase = Phase::kMeasure,
                      .size = 64,
                      .concurrency = 10,
                      .elapsed = 5ms,
                      .completed = 6,
                      .bytes = 7,
                      .failed = 8,
                      .in_flight = 9};
  EXPECT_EQ(snapshot_json(snapshot_from_json(snapshot_json(shot))), snapshot_json(shot));
}

// Users depend on the schema: a change of a name here must change kJsonSchema.
TEST(JobJson, report_has_the_documented_fields) {
  const auto report = report_json(full_job(), {RunResult{.completed = 1}});
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["target"], "10.0.0.1@tcp1");
  EXPECT_DOUBLE_EQ(report["histogram_resolution"], 1.0 / 128);
  std::set<std::string> keys;
  for (const auto& [key, value] : report["runs"][0].items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"abandoned",   "accepted",
                                         "bytes",       "completed",
                                         "concurrency", "cycles_per_message",
                                         "duplicates",  "elapsed_ns",
                                         "ended",       "errors",
                                         "failed",      "gigabits_per_second",
                                         "interrupted", "late",
                                         "latency_ns",  "longest_pause_ns",
                                         "lost",        "messages_per_second",
                                         "mismatched",  "ok",
                                         "operation",   "rails",
                                         "rate",        "resends",
                                         "size",        "unsent",
                                         "verified",    "workers"}));
  const auto timed = report_json(full_job(), {RunResult{.timeline = {.slice = 1ms}}})["runs"][0]["timeline"];
  keys.clear();
  for (const auto& [key, value] : timed.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"dropped", "failures", "since_ns", "slice_ns", "slices"}));
  EXPECT_EQ(report_json(full_job(), {})["ok"], false);
  EXPECT_EQ(report_json(full_job(), {RunResult{.lost = 1}})["ok"], false);
}

TEST(JobJson, errors_have_names) {
  EXPECT_EQ(errno_name(-ETIMEDOUT), "ETIMEDOUT");
  EXPECT_EQ(errno_name(-4321), "E4321");
}

}  // namespace
}  // namespace ulnet::perf
