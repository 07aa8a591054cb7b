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
  /// One came, now or earlier.
  [[nodiscard]] bool came() { return came_ || wait(Duration{0}); }

 private:
  sigset_t set_;
  bool came_ = false;
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
int generate(const Options& options, Signals& signals, Screen& screen);
/// Compares two variants.
int generate_ab(const Options& options, Signals& signals, Screen& screen);

/// The node inside. Null after a failure, whose reason is printed.
[[nodiscard]] std::unique_ptr<Instance> open_node(const NodeOptions& options, Screen& screen);

/// Shows how far a job is: the progress line, and in a stream an event each second with the members of `tags`.
class Progress {
 public:
  Progress(const Job& job, Screen& screen, std::string about = {}, nlohmann::ordered_json tags = {})
      : job_(job), screen_(screen), about_(std::move(about)), tags_(std::move(tags)) {}
  void show(const Snapshot& now, Instant at);

 private:
  const Job& job_;
  Screen& screen_;
  const std::string about_;  ///< begin of the line
  const nlohmann::ordered_json tags_;
  Snapshot before_;
  Instant before_at_ = kNever;
  Instant streamed_at_ = kNever;  ///< the last event of a stream
};

/// Follows the job of measure().
class Follower {
 public:
  /// All runs that are over.
  virtual void runs(const std::vector<RunResult>& runs) = 0;
  virtual void progress(const Snapshot& now, Instant at) = 0;

 protected:
  ~Follower() = default;
};

struct Measured {
  bool done = false;  ///< the job has ended, maybe early; false: the reason is printed
  bool clean = true;  ///< the node closed without leftovers
  std::vector<RunResult> runs;
};
/// Runs a job, with a node inside or by a running ulnetd, as `node` says.
[[nodiscard]] Measured measure(const Job& job, const NodeOptions& node, Signals& signals, Screen& screen,
                               Follower& follower);

/// Prints the begin, rows of runs that are new, progress, and in the end what belongs to it.
class Reporter final : public Follower {
 public:
  Reporter(const Job& job, Screen& screen);
  void runs(const std::vector<RunResult>& runs) override;
  void progress(const Snapshot& now, Instant at) override { progress_.show(now, at); }
  /// There are no results. Returns the exit status.
  int fail();
  /// Returns the exit status.
  int end(const std::vector<RunResult>& runs);

 private:
  const Job& job_;
  Screen& screen_;
  const nlohmann::ordered_json machine_;
  Progress progress_;
  size_t shown_ = 0;
};

}  // namespace ulnet::perf
