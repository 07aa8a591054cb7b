// Results and progress as text: for a terminal, as CSV, and as events of a stream of JSON. Pure. The JSON of a run is
// that of perf/generator/job_json.h.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf/generator/job.h"

namespace ulnet::perf {

/// "0", "100", "4K", "1M": exact.
[[nodiscard]] std::string size_text(uint64_t bytes);
/// Four significant digits and a unit: "812ns", "61.25us", "1.502ms", "3.000s".
[[nodiscard]] std::string latency_text(Duration latency);

/// The table's head: two lines.
[[nodiscard]] std::string table_head();
/// One run: a line.
[[nodiscard]] std::string table_row(const RunResult& run);
/// How the messages of each run were spread over rails and workers, after an empty line. Empty if the node has only one
/// rail and one worker.
[[nodiscard]] std::string shares_table(const std::vector<RunResult>& runs);
/// The lines after the table: resends, errors by name, the data checks, and whether each operation ended exactly once.
[[nodiscard]] std::string table_foot(const std::vector<RunResult>& runs);

/// One line without its end, for a terminal that overwrites it: the current operation and its rate since `before`. The
/// snapshot `before` was taken `between` earlier.
[[nodiscard]] std::string progress_line(const Job& job, const Snapshot& before, const Snapshot& now, Duration between);

/// CSV: the names of the columns, and one run. Times in ns, cycles/message may be empty.
[[nodiscard]] std::string csv_head();
[[nodiscard]] std::string csv_row(const RunResult& run);

/// Events of a stream of JSON, a line each: {"event": "start" | "progress" | "run" | "end", ...}. `tags`: null, or
/// members of the event.
[[nodiscard]] std::string start_event(const Job& job, const nlohmann::ordered_json& machine);
[[nodiscard]] std::string progress_event(const Snapshot& now, const nlohmann::ordered_json& tags = {});
[[nodiscard]] std::string run_event(const RunResult& run);
[[nodiscard]] std::string end_event(bool ok);

}  // namespace ulnet::perf
