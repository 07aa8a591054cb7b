// The modes of ulnet-perf: be the target, generate with a node inside, or let a ulnetd generate.
// Each returns the exit status: 0 = every operation ended once and well, 1 = not, or it could not be started.
#pragma once
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "control/lib/ulnet.hh"
#include "tools/ulnet-perf/options.h"

namespace ulnet::perf {

/// SIGINT and SIGTERM, taken when it suits: they are blocked for the whole process, so make this before any thread.
class Signals {
 public:
  Signals();
  /// Waits at most `timeout`; true when one came.
  bool wait(Duration timeout);

 private:
  sigset_t set_;
};

/// Output of text: results to stdout. If stderr is a terminal, a progress line there is overwritten.
class Screen {
 public:
  explicit Screen(Format format);
  void progress(const std::string& line);
  /// Whole lines of the result in this format; nothing if the format is another.
  void print(Format format, const std::string& lines);
  /// Lines for the operator.
  void note(const std::string& lines);
  [[nodiscard]] Format format() const { return format_; }

 private:
  void clear();
  const Format format_;
  const bool live_;
  bool shown_ = false;
};

int serve(const Options& options, Signals& signals, Screen& screen);
int generate_here(const Options& options, Signals& signals, Screen& screen);
int generate_there(const Options& options, Signals& signals, Screen& screen);

/// The node inside. Null after a failure, whose reason is printed.
[[nodiscard]] std::unique_ptr<Instance> open_node(const Options& options, Screen& screen);

/// Prints the begin, rows of runs that are new, progress, and in the end what belongs to it.
class Reporter {
 public:
  Reporter(const Job& job, Screen& screen);
  void runs(const std::vector<RunResult>& runs);
  void progress(const Snapshot& now, Instant at);
  /// There are no results. Returns the exit status.
  int fail();
  /// Returns the exit status.
  int end(const std::vector<RunResult>& runs);

 private:
  const Job& job_;
  Screen& screen_;
  const nlohmann::ordered_json machine_;
  size_t shown_ = 0;
  Snapshot before_;
  Instant before_at_ = kNever;
  Instant streamed_at_ = kNever;  ///< the last progress event of a stream
};

}  // namespace ulnet::perf
