#include "tools/ulnet-perf/run.h"

#include <unistd.h>

#include <cstdio>

#include "perf/generator/job_json.h"
#include "tools/ulnet-perf/machine.h"
#include "tools/ulnet-perf/report.h"

namespace ulnet::perf {
namespace {

constexpr Duration kStreamEvery = 1s;

}  // namespace

Signals::Signals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  (void)pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

bool Signals::wait(Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  const bool now = sigtimedwait(&set_, nullptr, &limit) > 0;
  came_ = came_ || now;
  return now;
}

Screen::Screen(Format format) : format_(format), live_(isatty(STDERR_FILENO) == 1) {}

void Screen::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Screen::progress(const std::string& line) {
  if (!live_) return;
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  shown_ = true;
}

void Screen::print(Format format, const std::string& lines) {
  if (format != format_) return;
  clear();
  std::fputs(lines.c_str(), stdout);
  std::fflush(stdout);
}

void Screen::note(const std::string& lines) {
  clear();
  std::fputs(lines.c_str(), stderr);
}

std::unique_ptr<Instance> open_node(const NodeOptions& options, Screen& screen) {
  InstanceOptions node;
  if (options.config.empty()) {
    node.config = node_yaml(options);
  } else {
    node.config_path = options.config;
  }
  auto instance = Instance::open(node);
  if (instance) return std::move(*instance);
  screen.note("ulnet-perf: " + instance.error().what + "\n");
  return nullptr;
}

Reporter::Reporter(const Job& job, Screen& screen)
    : job_(job), screen_(screen), machine_(machine_json()), progress_(job, screen) {
  screen_.print(Format::kJsonStream, start_event(job_, machine_));
}

void Reporter::runs(const std::vector<RunResult>& runs) {
  for (; shown_ < runs.size(); ++shown_) {
    screen_.print(Format::kTable, (shown_ == 0 ? table_head() : "") + table_row(runs[shown_]));
    screen_.print(Format::kCsv, (shown_ == 0 ? csv_head() : "") + csv_row(runs[shown_]));
    screen_.print(Format::kJsonStream, run_event(runs[shown_]));
  }
}

void Progress::show(const Snapshot& now, Instant at) {
  if (screen_.format() == Format::kJsonStream && at - streamed_at_ >= kStreamEvery) {
    screen_.print(Format::kJsonStream, progress_event(now, tags_));
    streamed_at_ = at;
  }
  screen_.progress(about_ + progress_line(job_, before_, now, at - before_at_));
  before_ = now;
  before_at_ = at;
}

int Reporter::fail() {
  screen_.print(Format::kJsonStream, end_event(false));
  return 1;
}

int Reporter::end(const std::vector<RunResult>& all) {
  runs(all);
  if (!all.empty()) screen_.print(Format::kTable, table_foot(all) + shares_table(all));
  auto report = report_json(job_, all);
  const bool ok = report["ok"].get<bool>();
  report["job"] = job_json(job_);
  report["machine"] = machine_;
  // The name of a host or CPU may be no UTF-8.
  screen_.print(Format::kJson, report.dump(2, ' ', false, decltype(report)::error_handler_t::replace) + "\n");
  screen_.print(Format::kJsonStream, end_event(ok));
  return ok ? 0 : 1;
}

}  // namespace ulnet::perf
