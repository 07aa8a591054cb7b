// The comparison of two variants as text: for a terminal, as CSV, as JSON and as events of a stream of JSON. Pure.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/ulnet-perf/ab_ratios.h"
#include "tools/ulnet-perf/options.h"

namespace ulnet::perf {

/// The variants, and the head of the table.
[[nodiscard]] std::string ab_table_head(const std::vector<Variant>& variants);
/// One line. `number` is 1-based.
[[nodiscard]] std::string ab_table_row(size_t number, const AbRound& round);
/// Median and quartiles, and the rounds without ratios.
[[nodiscard]] std::string ab_table_foot(const std::vector<AbRound>& rounds);

/// A line for each round: both values of each metric, and their ratio, which may be empty. Then three lines with
/// `first_quartile`, `median` and `third_quartile` instead of a number, and with ratios only.
[[nodiscard]] std::string ab_csv_head();
[[nodiscard]] std::string ab_csv_row(size_t number, const AbRound& round);
[[nodiscard]] std::string ab_csv_foot(const std::vector<AbRound>& rounds);

/// {"a": {"options", "socket", "job"}, "b": ...}
[[nodiscard]] nlohmann::ordered_json ab_variants_json(const std::vector<Variant>& variants);
/// {"round", "first", "a", "b", "ratios"}; `a` and `b` as result_json() writes them.
[[nodiscard]] nlohmann::ordered_json ab_round_json(size_t number, const AbRound& round);
/// {metric: {"first_quartile", "median", "third_quartile", "rounds"} or null}
[[nodiscard]] nlohmann::ordered_json ab_ratios_json(const std::vector<AbRound>& rounds);
/// Each operation of each round ended well, and there is a round.
[[nodiscard]] bool ab_ok(const std::vector<AbRound>& rounds);

}  // namespace ulnet::perf
