// The comparison of two variants: rounds of one measurement each, their ratios, and the quartiles of these. Pure.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "perf/generator/job.h"

namespace ulnet::perf {

/// One round: the same job in both variants, one after the other.
struct AbRound {
  bool a_first = true;
  RunResult a, b;
  /// A ratio of this round means something: both variants measured, and each operation ended well.
  [[nodiscard]] bool counts() const { return a.ok() && b.ok() && a.completed != 0 && b.completed != 0; }
};

struct AbMetric {
  const char* name;
  const char* column;  ///< head of a table
  double (*value)(const RunResult&);
};
inline constexpr std::array<AbMetric, 4> kAbMetrics{{
    {"messages_per_second", "messages/s", [](const RunResult& run) { return run.messages_per_second(); }},
    {"bytes_per_second", "bytes/s", [](const RunResult& run) { return run.gigabits_per_second() * 1e9 / 8; }},
    {"p50_ns", "p50", [](const RunResult& run) { return double(run.latency_p50.count()); }},
    {"p99_ns", "p99", [](const RunResult& run) { return double(run.latency_p99.count()); }},
}};

/// A over B. Nothing if the round does not count, or if the value of B is 0.
[[nodiscard]] std::optional<double> ab_ratio(const AbRound& round, const AbMetric& metric);

struct Quartiles {
  double first = 0, median = 0, third = 0;
  size_t count = 0;  ///< values
};
/// A quartile between two values is interpolated in a straight line: that of 1, 2, 3, 4 are 1.75, 2.5, 3.25. Nothing
/// without values.
[[nodiscard]] std::optional<Quartiles> quartiles_of(std::vector<double> values);
/// Of the ratios of all rounds that have one.
[[nodiscard]] std::optional<Quartiles> ab_quartiles(const std::vector<AbRound>& rounds, const AbMetric& metric);

}  // namespace ulnet::perf
