#include "tools/ulnet-perf/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace ulnet::perf {
namespace {

RunResult run() {
  RunResult r;
  r.size = 4096;
  r.concurrency = 8;
  r.elapsed = 3s;
  r.completed = 300000;
  r.bytes = 300000ull * 4096;
  r.latency_p50 = 61250ns;
  r.latency_p99 = 101400ns;
  r.latency_p999 = 1502ns * 1000;
  r.latency_p9999 = 2ms;
  r.latency_max = 3s;
  r.cycles_per_message = 8123.4;
  r.accepted = r.ended = 300100;
  r.resends = ResendCounts{.resent = 12, .successful = 9, .failed = 2};
  r.rails = {
      {.nid = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000001), .messages = 225000, .bytes = 921600000, .share = 0.75},
      {.nid = Nid::v4(Net::of(NetType::kTcp, 0), 0x0A000101), .messages = 75000, .bytes = 307200000, .share = 0.25}};
  r.workers = {{.messages = 600000, .bytes = 1228800000, .share = 1}};
  return r;
}

TEST(PerfReport, table_lines_up) {
  EXPECT_EQ(
      table_head() + table_row(run()),
      "op     size  conc   messages/s      Gb/s       p50       p99     p99.9    p99.99       max cycles/msg  resends  "
      "errors\n"
      "-------------------------------------------------------------------------------------------------------------"
      "---------\n"
      "put      4K     8     100000.0    3.2768   61.25us   101.4us   1.502ms   2.000ms    3.000s       8123       12"
      "       0\n");
  RunResult ping;
  ping.operation = Operation::kPing;
  ping.concurrency = 1;
  ping.failed = 3;
  EXPECT_EQ(table_row(ping),
            "ping      -     1          0.0    0.0000         -         -         -         -         -          -     "
            "   -       3\n");
}

TEST(PerfReport, foot_says_how_it_ended) {
  RunResult good = run();
  good.resends = ResendCounts{};
  EXPECT_EQ(table_foot({good}), "300100 operations accepted, each ended exactly once\n");
  good.interrupted = true;
  good.verified = 7;
  EXPECT_EQ(table_foot({good}),
            "verified: 7 operations, every byte right\n"
            "300100 operations accepted, each ended exactly once (interrupted)\n");
  RunResult left = run();
  left.resends.reset();
  left.abandoned = 3;
  EXPECT_EQ(table_foot({left}), "300100 operations accepted, 3 of them not waited for\n");
  left.unsent = 5;
  left.late = 7;
  EXPECT_EQ(table_foot({left}),
            "late: 7 operations ended after the measurement\n"
            "NOT SENT: 5 operations were due, and had not begun when the measurement ended\n"
            "300100 operations accepted, 3 of them not waited for\n");
  RunResult bad = run();
  bad.lost = 1;
  bad.ended -= 1;
  bad.duplicates = 2;
  bad.verified = 9;
  bad.mismatched = 4;
  bad.errors = {{-ETIMEDOUT, 5}, {-EHOSTUNREACH, 1}};
  EXPECT_EQ(table_foot({bad, good, bad}).substr(0, 89),
            "resends: 24 messages of the node sent again on another path: 18 went through, 4 given up\n");
  bad.resends.reset();
  EXPECT_EQ(table_foot({good, bad}),
            "errors: EHOSTUNREACH 1, ETIMEDOUT 5\n"
            "DATA WRONG in 4 of 16 verified operations\n"
            "LOST 1 operations, 2 ended more than once (600200 accepted, 600199 ended): a fault of ulnet\n");
}

TEST(PerfReport, csv_has_a_column_for_each_name) {
  EXPECT_EQ(
      csv_head(),
      "operation,size,concurrency,rate,late,unsent,elapsed_ns,completed,bytes,messages_per_second,gigabits_per_second,"
      "min_ns,"
      "mean_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,p99_99_ns,max_ns,longest_pause_ns,cycles_per_message,accepted,"
      "ended,lost,abandoned,duplicates,failed,verified,mismatched,interrupted,resends,resends_successful,resends_"
      "failed,rails,"
      "workers\n");
  RunResult r = run();
  r.latency_p90 = 90us;
  r.interrupted = true;
  EXPECT_EQ(csv_row(r),
            "put,4096,8,0,0,0,3000000000,300000,1228800000,100000.0,3.276800,0,0,61250,90000,101400,1502000,2000000,"
            "3000000000,0,8123.4,300100,300100,0,0,0,0,0,0,true,12,9,2,"
            "10.0.0.1@tcp=0.7500 10.0.1.1@tcp=0.2500,0=1.0000\n");
  r.cycles_per_message.reset();
  EXPECT_NE(csv_row(r).find(",0,,300100,"), std::string::npos);
  r.resends.reset();
  r.rails.clear();
  r.workers.clear();
  EXPECT_NE(csv_row(r).find(",true,,,,,\n"), std::string::npos);
}

TEST(PerfReport, shares_are_shown_if_there_is_a_choice) {
  RunResult r = run();
  EXPECT_EQ(shares_table({r}),
            "\n"
            "op     size  conc  share of                     messages             bytes   share\n"
            "put      4K     8  10.0.0.1@tcp                   225000         921600000   75.0%\n"
            "put      4K     8  10.0.1.1@tcp                    75000         307200000   25.0%\n");
  r.rails.pop_back();
  EXPECT_EQ(shares_table({r}), "");
  r.operation = Operation::kPing;
  r.workers = {{.messages = 10, .bytes = 5, .share = 0.4}, {.messages = 15, .share = 0.6}};
  EXPECT_EQ(shares_table({run(), r}),
            "\n"
            "op     size  conc  share of                     messages             bytes   share\n"
            "put      4K     8  10.0.0.1@tcp                   225000         921600000   75.0%\n"
            "put      4K     8  10.0.1.1@tcp                    75000         307200000   25.0%\n"
            "ping      -     8  worker 0                           10                 5   40.0%\n"
            "ping      -     8  worker 1                           15                 0   60.0%\n");
}

TEST(PerfReport, events_are_lines_of_json) {
  Job job;
  job.concurrency = {1, 8};
  const std::string lines =
      start_event(job, {{"cpus", 2}}) + progress_event({.completed = 7}) + run_event(run()) + end_event(true);
  std::istringstream in(lines);
  std::vector<nlohmann::ordered_json> events;
  for (std::string line; std::getline(in, line);) events.push_back(nlohmann::ordered_json::parse(line));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["event"], "start");
  EXPECT_EQ(events[0]["job"]["concurrency"], (std::vector<int>{1, 8}));
  EXPECT_EQ(events[0]["machine"]["cpus"], 2);
  EXPECT_EQ(events[1]["progress"]["completed"], 7);
  EXPECT_EQ(nlohmann::ordered_json::parse(progress_event({.completed = 7}, {{"variant", "b"}}))["variant"], "b");
  EXPECT_EQ(events[2]["run"]["latency_ns"]["p99_99"], 2000000);
  EXPECT_EQ(events[3], (nlohmann::ordered_json{{"event", "end"}, {"ok", true}}));
}

TEST(PerfReport, sizes_and_latencies) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1000), "1000");
  EXPECT_EQ(size_text(1536), "1536");
  EXPECT_EQ(size_text(2048), "2K");
  EXPECT_EQ(size_text(1 << 20), "1M");
  EXPECT_EQ(latency_text(0ns), "0ns");
  EXPECT_EQ(latency_text(999ns), "999ns");
  EXPECT_EQ(latency_text(1000ns), "1.000us");
  EXPECT_EQ(latency_text(12345ns), "12.35us");
  EXPECT_EQ(latency_text(999960ns), "1.000ms");
  EXPECT_EQ(latency_text(150s), "150.0s");
}

TEST(PerfReport, progress_names_what_is_under_way) {
  Job job;
  Snapshot before{.run = 0, .runs = 2, .phase = Phase::kMeasure, .size = 4096, .completed = 100, .bytes = 409600};
  Snapshot now = before;
  now.elapsed = 1500ms;
  now.completed = 1100;
  now.bytes = 1100 * 4096;
  now.in_flight = 8;
  EXPECT_EQ(progress_line(job, before, now, 500ms),
            "put 4K (1/2): measuring 1.5s, 2000 messages/s, 0.066 Gb/s, 8 under way");
  job.concurrency = {1, 8};
  now.concurrency = 8;
  EXPECT_EQ(progress_line(job, before, now, 500ms),
            "put 4K x 8 (1/2): measuring 1.5s, 2000 messages/s, 0.066 Gb/s, 8 under way");
  job.concurrency = {8};
  now.run = 1;
  now.failed = 2;
  now.phase = Phase::kDrain;
  EXPECT_EQ(progress_line(job, before, now, 500ms),
            "put 4K (2/2): waiting for unfinished operations, 2 failed, 8 under way");
  job.operation = Operation::kPing;
  now.runs = 1;
  now.phase = Phase::kWarmup;
  EXPECT_EQ(progress_line(job, before, now, 500ms), "ping: warming up 1.5s, 2 failed, 8 under way");
}

}  // namespace
}  // namespace ulnet::perf
