// Jobs, progress and results as JSON, for the control socket and for `ulnet-perf --json`. Schema 1 is described in
// docs/ulnet-perf.md; fields are added, never changed. Thread: any.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/problem.h"
#include "perf/generator/job.h"

namespace ulnet::perf {

inline constexpr int kJsonSchema = 1;

[[nodiscard]] const char* operation_name(Operation operation);
/// "ETIMEDOUT" for -ETIMEDOUT; "E<number>" for what has no name.
[[nodiscard]] std::string errno_name(int32_t error);

[[nodiscard]] nlohmann::ordered_json job_json(const Job& job);
/// Unknown or mistyped fields are errors (EINVAL, naming the field); missing ones keep their default. Ends with
/// job_check().
[[nodiscard]] config::Checked<Job> job_from_json(const nlohmann::ordered_json& json);

[[nodiscard]] nlohmann::ordered_json snapshot_json(const Snapshot& snapshot);
[[nodiscard]] Snapshot snapshot_from_json(const nlohmann::ordered_json& json);

[[nodiscard]] nlohmann::ordered_json result_json(const RunResult& result);
/// Reads the output of result_json() back. Missing or mistyped fields keep their defaults.
[[nodiscard]] RunResult result_from_json(const nlohmann::ordered_json& json);

/// The whole report: {"schema", "ok", "target", "histogram_resolution", "runs"}.
[[nodiscard]] nlohmann::ordered_json report_json(const Job& job, const std::vector<RunResult>& runs);

}  // namespace ulnet::perf
