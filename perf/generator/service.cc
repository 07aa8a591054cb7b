#include "perf/generator/service.h"

#include <algorithm>
#include <utility>

#include "config/emit.h"
#include "perf/generator/job_json.h"

namespace ulnet::perf {
namespace {

constexpr Duration kProgressEvery = 250ms;
constexpr Duration kLookEvery = 20ms;

}  // namespace

void Service::request(api::RequestId id, const api::Request& request) {
  const auto refuse = [&](int code, std::string why) {
    deps_.reply(id, api::answer_error("manage", "perf", code, std::move(why)));
  };
  if (request.args.contains("stop")) return stop_named(id, request.arg_text("stop"));
  config::Json args = request.args;
  args.erase("name");
  auto job = job_from_json(args);
  if (!job) return refuse(job.error().code, job.error().what);
  if (stopped_) return refuse(-ESHUTDOWN, "ulnetd is stopping");
  if (running_.size() >= kServiceJobsMax) return refuse(-EBUSY, "4 jobs are already running; try again later");
  auto submitter = deps_.submitter_open(Generator::submitter_size(*job));
  if (!submitter) return refuse(submitter.error().code, submitter.error().what);
  auto counts = std::make_unique<std::function<NodeCounts()>>();
  Generator::Meters meters{.busy_cycles = deps_.busy_cycles, .counts = nullptr};
  if (deps_.counts_reader) {
    *counts = deps_.counts_reader();
    meters.counts = [read = counts.get()] { return (*read)(); };
  }
  auto session = Session::start(**submitter, *job, std::move(meters),
                                deps_.worker_thread ? deps_.worker_thread(**submitter) : WorkerThread{}, true);
  if (!session) {
    deps_.submitter_close(**submitter);
    return refuse(session.error().code, session.error().what);
  }
  running_.push_back({id, *job, request.arg_text("name"), *submitter, std::move(counts), std::move(*session)});
  look_again_ = kNever;
  register_memory(running_.back());
}

void Service::register_memory(Running& running) {
  running.registering = true;
  const Session* session = running.session.get();
  if (deps_.region_add == nullptr) return answer_memory(session, {});
  deps_.region_add(session->memory(), [this, session](RegionId region) { answer_memory(session, region); });
}

void Service::answer_memory(const Session* session, RegionId region) {
  for (Running& running : running_) {
    if (running.session.get() != session) continue;
    running.registering = false;
    running.region = region;
    running.session->begin();
  }
  look_again_ = kNever;
}

void Service::stop_named(api::RequestId id, const std::string& name) {
  for (Running& running : running_) {
    if (running.name != name || name.empty()) continue;
    running.session->stop();
    return deps_.reply(id, {});
  }
  deps_.reply(id, api::answer_error("manage", "perf", -ENOENT, "no job of this name is running"));
}

void Service::gone(api::RequestId id) {
  for (Running& running : running_) {
    if (running.id != id) continue;
    running.wanted = false;
    running.session->stop();
  }
}

void Service::stop() {
  stopped_ = true;
  look_again_ = kNever;
  for (Running& running : running_) {  // twice: the daemon's end waits for nobody's patience
    running.session->stop();
    running.session->stop();
  }
}

void Service::halt() {
  for (Running& running : running_) {
    running.session->halt();
    running.counts.reset();
  }
}

bool Service::idle() const {
  return std::all_of(running_.begin(), running_.end(), [](const Running& running) { return running.stranded; });
}

Instant Service::next_deadline() const {
  return idle() ? kForever : look_again_;
}

unsigned Service::turn(Instant now) {
  if (now < look_again_) return 0;
  look_again_ = now + kLookEvery;
  unsigned done = 0;
  for (auto it = running_.begin(); it != running_.end();) {
    Running& running = *it;
    if (running.stranded || running.registering) {
      ++it;
    } else if (running.session->finished()) {
      ++done;
      it = end(running) ? running_.erase(it) : std::next(it);
    } else {
      if (running.wanted && now - running.told >= kProgressEvery) {
        running.told = now;
        api::Answer part;
        part.more = true;
        part.doc.set("perf", config::from_json({{"progress", snapshot_json(running.session->snapshot())}}));
        deps_.reply(running.id, part);
        ++done;
      }
      ++it;
    }
  }
  return done;
}

/// Answers for a job that is over, and has its memory taken back. False: its memory must stay.
bool Service::end(Running& running) {
  running.counts.reset();
  if (std::exchange(running.wanted, false)) {
    api::Answer answer;
    answer.doc.set("perf", config::from_json({{"report", report_json(running.job, running.session->results())}}));
    deps_.reply(running.id, answer);
  }
  if (Submitter* submitter = std::exchange(running.submitter, nullptr)) {
    running.stranded = !running.session->unbound();
    deps_.submitter_close(*submitter);
  }
  const RegionId region = std::exchange(running.region, {});
  if (running.stranded || region == RegionId{}) return !running.stranded;
  running.registering = true;
  deps_.region_remove(region, [this, session = running.session.get()] { answer_memory(session, {}); });
  return false;
}

}  // namespace ulnet::perf
