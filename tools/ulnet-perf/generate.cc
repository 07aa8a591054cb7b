// The generating side: with a node inside, or by a running ulnetd.
#include <fmt/format.h>
#include <unistd.h>

#include "config/emit.h"
#include "control/api/client.h"
#include "dataplane/host/clock.h"
#include "perf/generator/job_json.h"
#include "perf/generator/session.h"
#include "tools/ulnet-perf/run.h"

namespace ulnet::perf {
namespace {

constexpr Duration kTick = 200ms;

/// The job as an ulnetd of an earlier version reads it, too, if it uses nothing newer.
config::Json job_request(const Job& job) {
  config::Json request = job_json(job);
  if (job.concurrency.size() == 1) request["concurrency"] = job.concurrency.front();
  if (job.rate == 0) request.erase("rate");
  return request;
}

Measured not_started(Screen& screen, const std::string& why) {
  screen.note("ulnet-perf: " + why + "\n");
  return {};
}

Measured measure_here(const Job& job, const NodeOptions& node, Signals& signals, Screen& screen, Follower& follower) {
  const auto instance = open_node(node, screen);
  if (instance == nullptr) return {};
  const auto submitter = instance->submitter_open(WorkerId{0}, Generator::submitter_size(job));
  if (!submitter) return not_started(screen, submitter.error().what);
  const WorkerThread worker{.add = [&](Turnable& item) { return instance->turn_with(WorkerId{0}, item); },
                            .remove = [&](Turnable& item) { instance->turn_without(WorkerId{0}, item); }};
  auto session = Session::start(
      **submitter, job, {.busy_cycles = [&] { return instance->busy_cycles(); }, .counts = instance->counts_reader()},
      worker, true);
  if (!session) return not_started(screen, session.error().what);
  if (const auto region = instance->region_add((*session)->memory()); !region)
    screen.note(fmt::format("ulnet-perf: each MD is registered alone: {}\n", region.error().what));
  (*session)->begin();
  while (!(*session)->finished()) {
    if (signals.wait(kTick)) (*session)->stop();
    follower.runs((*session)->results());
    follower.progress((*session)->snapshot(), clock_now());
  }
  (*session)->halt();
  const std::string left = instance->close();  // after it no worker uses the job's memory
  if (!left.empty()) screen.note("ulnet-perf: stopped without waiting for: " + left + "\n");
  return {.done = true, .clean = left.empty(), .runs = (*session)->results()};
}

Measured measure_there(const Job& job, const NodeOptions& node, Signals& signals, Screen& screen, Follower& follower) {
  const api::ClientOptions how{.path = node.socket, .role = "ulnet-perf", .timeout = std::chrono::minutes(5)};
  auto client = api::Client::connect(how);
  if (!client) return not_started(screen, client.error().descr);
  api::Request request = api::Request::of(api::Call::kPerf, job_request(job));
  const std::string name = fmt::format("ulnet-perf-{}-{}", getpid(), real_time_ns());
  request.args["name"] = name;

  const auto on_part = [&](const api::Answer& part) {
    const config::Json doc = config::to_json(part.doc);
    const auto perf = doc.find("perf");
    if (perf != doc.end() && perf->contains("progress")) {
      follower.progress(snapshot_from_json((*perf)["progress"]), clock_now());
    }
    if (!signals.wait(Duration{0})) return true;
    // The job is stopped over a connection of its own: this one still gets the report.
    auto second = api::Client::connect(how);
    api::Request stop = api::Request::of(api::Call::kPerf, {{"stop", name}});
    return second && second->call(std::move(stop)).has_value();
  };
  const auto answer = client->call(std::move(request), on_part);
  if (!answer) return not_started(screen, answer.error().descr);
  for (const api::ApiError& error : answer->errors) screen.note("ulnet-perf: " + error.descr + "\n");
  if (!answer->ok()) return {};
  Measured measured{.done = true, .clean = true, .runs = {}};
  const config::Json doc = config::to_json(answer->doc);
  if (const auto perf = doc.find("perf"); perf != doc.end() && perf->contains("report")) {
    const config::Json& report = (*perf)["report"];
    if (const auto list = report.find("runs"); list != report.end() && list->is_array())
      for (const config::Json& run : *list) measured.runs.push_back(result_from_json(run));
  }
  return measured;
}

}  // namespace

Measured measure(const Job& job, const NodeOptions& node, Signals& signals, Screen& screen, Follower& follower) {
  return node.socket.empty() ? measure_here(job, node, signals, screen, follower)
                             : measure_there(job, node, signals, screen, follower);
}

int generate(const Options& options, Signals& signals, Screen& screen) {
  Reporter reporter(options.job, screen);
  const Measured measured = measure(options.job, options.node, signals, screen, reporter);
  if (!measured.done) return reporter.fail();
  const int status = reporter.end(measured.runs);
  return measured.clean ? status : 1;
}

}  // namespace ulnet::perf
