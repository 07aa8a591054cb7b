#include "tools/ulnet-perf/run.h"

#include <unistd.h>

#include <cstdio>

#include "perf/generator/job_json.h"
#include "tools/ulnet-perf/report.h"

namespace ulnet::perf {

Signals::Signals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  (void)pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

bool Signals::wait(Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  return sigtimedwait(&set_, nullptr, &limit) > 0;
}

Screen::Screen(bool json) : json_(json), live_(isatty(STDERR_FILENO) == 1) {}

void Screen::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Screen::progress(const std::string& line) {
  if (!live_) return;
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  shown_ = true;
}

void Screen::table(const std::string& lines) {
  clear();
  if (json_) return;
  std::fputs(lines.c_str(), stdout);
  std::fflush(stdout);
}

void Screen::document(const std::string& text) {
  clear();
  if (!json_) return;
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Screen::note(const std::string& lines) {
  clear();
  std::fputs(lines.c_str(), stderr);
}

std::unique_ptr<Instance> open_node(const Options& options, Screen& screen) {
  InstanceOptions node;
  if (options.node.config.empty()) {
    node.config = node_yaml(options.node);
  } else {
    node.config_path = options.node.config;
  }
  auto instance = Instance::open(node);
  if (instance) return std::move(*instance);
  screen.note("ulnet-perf: " + instance.error().what + "\n");
  return nullptr;
}

void Reporter::runs(const std::vector<RunResult>& runs) {
  for (; shown_ < runs.size(); ++shown_) screen_.table((shown_ == 0 ? table_head() : "") + table_row(runs[shown_]));
}

void Reporter::progress(const Snapshot& now, Instant at) {
  screen_.progress(progress_line(job_, before_, now, at - before_at_));
  before_ = now;
  before_at_ = at;
}

int Reporter::end(const std::vector<RunResult>& all) {
  runs(all);
  if (!all.empty()) screen_.table(table_foot(all));
  const auto report = report_json(job_, all);
  screen_.document(report.dump(2));
  return report["ok"].get<bool>() ? 0 : 1;
}

}  // namespace ulnet::perf
