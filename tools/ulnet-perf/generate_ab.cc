// Compares two variants of a measurement: rounds of one measurement each, whose order is reversed from round to round.
#include <fmt/format.h>

#include <array>

#include "config/emit.h"
#include "perf/generator/job_json.h"
#include "tools/ulnet-perf/ab_report.h"
#include "tools/ulnet-perf/machine.h"
#include "tools/ulnet-perf/report.h"
#include "tools/ulnet-perf/run.h"

namespace ulnet::perf {
namespace {

using json = nlohmann::ordered_json;

class AbFollower final : public Follower {
 public:
  explicit AbFollower(Progress progress) : progress_(std::move(progress)) {}
  void runs(const std::vector<RunResult>&) override {}
  void progress(const Snapshot& now, Instant at) override { progress_.show(now, at); }

 private:
  Progress progress_;
};

std::string event_line(json event, const json& members) {
  event.update(members);
  return config::json_dump(event) + "\n";
}

/// The rounds of one comparison.
class Comparison {
 public:
  Comparison(const Options& options, Signals& signals, Screen& screen)
      : options_(options), signals_(signals), screen_(screen) {}

  void begin() {
    const json about = {{"schema", kJsonSchema}, {"variants", variants_}, {"machine", machine_}};
    screen_.print(Format::kJsonStream, event_line({{"event", "start"}}, about));
    screen_.print(Format::kTable, ab_table_head(options_.variants));
    screen_.print(Format::kCsv, ab_csv_head());
  }

  void run() {
    while (rounds_.size() < options_.rounds && !interrupted_ && round()) {
      const AbRound& done = rounds_.back();
      screen_.print(Format::kTable, ab_table_row(rounds_.size(), done));
      screen_.print(Format::kCsv, ab_csv_row(rounds_.size(), done));
      screen_.print(Format::kJsonStream, event_line({{"event", "round"}}, ab_round_json(rounds_.size(), done)));
    }
  }

  /// Returns the exit status.
  int end() {
    const bool ok = ab_ok(rounds_) && !failed_;
    screen_.print(Format::kTable, ab_table_foot(rounds_));
    if (rounds_.size() < options_.rounds)
      screen_.note(fmt::format("ulnet-perf: ended after {} of {} rounds\n", rounds_.size(), options_.rounds));
    screen_.print(Format::kCsv, ab_csv_foot(rounds_));
    const json ratios = ab_ratios_json(rounds_);
    screen_.print(Format::kJsonStream,
                  event_line({{"event", "end"}}, {{"ok", ok}, {"interrupted", interrupted_}, {"ratios", ratios}}));
    json rounds = json::array();
    for (const AbRound& one : rounds_) rounds.push_back(ab_round_json(rounds.size() + 1, one));
    const json report = {{"schema", kJsonSchema},
                         {"ok", ok},
                         {"interrupted", interrupted_},
                         {"histogram_resolution", Histogram::kResolution},
                         {"variants", variants_},
                         {"rounds", std::move(rounds)},
                         {"ratios", ratios},
                         {"machine", machine_}};
    // The name of a host or CPU may be no UTF-8.
    screen_.print(Format::kJson, report.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
    return ok ? 0 : 1;
  }

 private:
  /// False: it did not come to its end.
  bool round() {
    AbRound now{.a_first = rounds_.size() % 2 == 0, .a = {}, .b = {}};
    for (const bool is_a : {now.a_first, !now.a_first})
      if (!one(is_a, is_a ? now.a : now.b)) return false;
    rounds_.push_back(std::move(now));
    return true;
  }

  bool one(bool is_a, RunResult& result) {
    const Variant& variant = options_.variants[is_a ? 0 : 1];
    const size_t number = rounds_.size() + 1;
    interrupted_ = signals_.came();
    if (interrupted_) return false;
    AbFollower follower({variant.job,
                         screen_,
                         fmt::format("{}/{} {}: ", number, options_.rounds, is_a ? "A" : "B"),
                         {{"round", number}, {"variant", is_a ? "a" : "b"}}});
    const Measured measured = measure(variant.job, variant.node, signals_, screen_, follower);
    failed_ = !measured.done || !measured.clean || measured.runs.empty();
    if (failed_) return false;
    result = measured.runs.front();
    interrupted_ = signals_.came();
    return !result.interrupted;
  }

  const Options& options_;
  Signals& signals_;
  Screen& screen_;
  const json variants_ = ab_variants_json(options_.variants);
  const json machine_ = machine_json();
  std::vector<AbRound> rounds_;
  bool interrupted_ = false;
  bool failed_ = false;  ///< a measurement could not begin, or its node left something undone
};

}  // namespace

int generate_ab(const Options& options, Signals& signals, Screen& screen) {
  Comparison comparison(options, signals, screen);
  comparison.begin();
  comparison.run();
  return comparison.end();
}

}  // namespace ulnet::perf
