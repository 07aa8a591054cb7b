#include "tools/ulnet-perf/report.h"

#include <fmt/format.h>

#include "config/emit.h"
#include "dataplane/base/nid_text.h"
#include "perf/generator/job_json.h"

namespace ulnet::perf {
namespace {

constexpr const char* kRow = "{:<5}{:>6}{:>6}{:>13}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>11}{:>9}{:>8}\n";

constexpr const char* kShareRow = "{:<5}{:>6}{:>6}  {:<24}{:>13}{:>18}{:>8}\n";

std::string run_size_text(const RunResult& run) {
  return run.operation == Operation::kPing ? "-" : size_text(run.size);
}

std::string errors_text(const std::map<int32_t, uint64_t>& errors) {
  std::string text;
  for (const auto& [error, count] : errors)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", errno_name(error), count);
  return text;
}

const char* phase_text(Phase phase) {
  switch (phase) {
    case Phase::kWaiting:
    case Phase::kBind: return "starting";
    case Phase::kWarmup: return "warming up";
    case Phase::kMeasure: return "measuring";
    case Phase::kDrain: return "waiting for unfinished operations";
    case Phase::kCancel: return "cleaning up";
    case Phase::kDone: return "done";
  }
  return "";
}

struct Column {
  const char* name;
  std::string (*text)(const RunResult&);
};
std::string text_of(uint64_t number) {
  return std::to_string(number);
}
std::string text_of(Duration time) {
  return std::to_string(time.count());
}
template <auto kField>
std::string field(const RunResult& run) {
  return text_of(run.*kField);
}
template <auto kField>
std::string resends(const RunResult& run) {
  return run.resends ? text_of((*run.resends).*kField) : "";
}
/// "10.0.0.1@tcp=0.5001 10.0.1.1@tcp=0.4999".
template <class Share, class Name>
std::string shares_text(const std::vector<Share>& shares, Name&& name) {
  std::string text;
  for (size_t i = 0; i < shares.size(); ++i)
    text += fmt::format("{}{}={:.4f}", i == 0 ? "" : " ", name(shares[i], i), shares[i].share);
  return text;
}
constexpr Column kColumns[] = {
    {"operation", [](const RunResult& r) { return std::string(operation_name(r.operation)); }},
    {"size", field<&RunResult::size>},
    {"concurrency", field<&RunResult::concurrency>},
    {"rate", [](const RunResult& r) { return fmt::format("{}", r.rate); }},
    {"late", field<&RunResult::late>},
    {"unsent", field<&RunResult::unsent>},
    {"elapsed_ns", field<&RunResult::elapsed>},
    {"completed", field<&RunResult::completed>},
    {"bytes", field<&RunResult::bytes>},
    {"messages_per_second", [](const RunResult& r) { return fmt::format("{:.1f}", r.messages_per_second()); }},
    {"gigabits_per_second", [](const RunResult& r) { return fmt::format("{:.6f}", r.gigabits_per_second()); }},
    {"min_ns", field<&RunResult::latency_min>},
    {"mean_ns", field<&RunResult::latency_mean>},
    {"p50_ns", field<&RunResult::latency_p50>},
    {"p90_ns", field<&RunResult::latency_p90>},
    {"p99_ns", field<&RunResult::latency_p99>},
    {"p99_9_ns", field<&RunResult::latency_p999>},
    {"p99_99_ns", field<&RunResult::latency_p9999>},
    {"max_ns", field<&RunResult::latency_max>},
    {"longest_pause_ns", field<&RunResult::longest_pause>},
    {"cycles_per_message",
     [](const RunResult& r) { return r.cycles_per_message ? fmt::format("{:.1f}", *r.cycles_per_message) : ""; }},
    {"accepted", field<&RunResult::accepted>},
    {"ended", field<&RunResult::ended>},
    {"lost", field<&RunResult::lost>},
    {"abandoned", field<&RunResult::abandoned>},
    {"duplicates", field<&RunResult::duplicates>},
    {"failed", field<&RunResult::failed>},
    {"verified", field<&RunResult::verified>},
    {"mismatched", field<&RunResult::mismatched>},
    {"interrupted", [](const RunResult& r) { return std::string(r.interrupted ? "true" : "false"); }},
    {"resends", resends<&ResendCounts::resent>},
    {"resends_successful", resends<&ResendCounts::successful>},
    {"resends_failed", resends<&ResendCounts::failed>},
    {"rails",
     [](const RunResult& r) {
       return shares_text(r.rails, [](const RailShare& s, size_t) { return nid_text(s.nid); });
     }},
    {"workers",
     [](const RunResult& r) {
       return shares_text(r.workers, [](const WorkerShare&, size_t i) { return std::to_string(i); });
     }},
};

template <class Text>
std::string csv_line(Text&& text) {
  std::string line;
  for (const Column& column : kColumns) line += (line.empty() ? "" : ",") + text(column);
  return line + "\n";
}

}  // namespace

std::string csv_head() {
  return csv_line([](const Column& column) { return std::string(column.name); });
}

std::string csv_row(const RunResult& run) {
  return csv_line([&run](const Column& column) { return column.text(run); });
}

std::string start_event(const Job& job, const nlohmann::ordered_json& machine) {
  const nlohmann::ordered_json event = {
      {"event", "start"}, {"schema", kJsonSchema}, {"job", job_json(job)}, {"machine", machine}};
  return config::json_dump(event) + "\n";
}

std::string progress_event(const Snapshot& now, const nlohmann::ordered_json& tags) {
  nlohmann::ordered_json event = {{"event", "progress"}};
  if (!tags.is_null()) event.update(tags);
  event["progress"] = snapshot_json(now);
  return config::json_dump(event) + "\n";
}

std::string run_event(const RunResult& run) {
  const nlohmann::ordered_json event = {{"event", "run"}, {"run", result_json(run)}};
  return config::json_dump(event) + "\n";
}

std::string end_event(bool ok) {
  const nlohmann::ordered_json event = {{"event", "end"}, {"ok", ok}};
  return config::json_dump(event) + "\n";
}

std::string size_text(uint64_t bytes) {
  if (bytes != 0 && bytes % (1u << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes != 0 && bytes % 1024 == 0) return fmt::format("{}K", bytes >> 10);
  return std::to_string(bytes);
}

std::string latency_text(Duration latency) {
  double value = double(latency.count());
  if (value < 1000) return fmt::format("{}ns", latency.count());
  const char* unit = "us";
  value /= 1000;
  if (value >= 999.95) value /= 1000, unit = "ms";
  if (value >= 999.95) value /= 1000, unit = "s";
  const int digits = value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
  return fmt::format("{:.{}f}{}", value, digits, unit);
}

std::string table_head() {
  std::string head = fmt::format(fmt::runtime(kRow), "op", "size", "conc", "messages/s", "Gb/s", "p50", "p99", "p99.9",
                                 "p99.99", "max", "cycles/msg", "resends", "errors");
  return head + std::string(head.size() - 1, '-') + "\n";
}

std::string table_row(const RunResult& run) {
  const bool any = run.completed != 0;
  const auto latency = [any](Duration value) { return any ? latency_text(value) : "-"; };
  return fmt::format(fmt::runtime(kRow), operation_name(run.operation), run_size_text(run), run.concurrency,
                     fmt::format("{:.1f}", run.messages_per_second()), fmt::format("{:.4f}", run.gigabits_per_second()),
                     latency(run.latency_p50), latency(run.latency_p99), latency(run.latency_p999),
                     latency(run.latency_p9999), latency(run.latency_max),
                     run.cycles_per_message ? fmt::format("{:.0f}", *run.cycles_per_message) : "-",
                     run.resends ? text_of(run.resends->resent) : "-", run.failed);
}

std::string table_foot(const std::vector<RunResult>& runs) {
  RunResult sum;
  ResendCounts resends;
  for (const RunResult& run : runs) {
    sum.accepted += run.accepted;
    sum.ended += run.ended;
    sum.lost += run.lost;
    sum.abandoned += run.abandoned;
    sum.late += run.late;
    sum.unsent += run.unsent;
    sum.duplicates += run.duplicates;
    sum.verified += run.verified;
    sum.mismatched += run.mismatched;
    sum.interrupted = sum.interrupted || run.interrupted;
    for (const auto& [error, count] : run.errors) sum.errors[error] += count;
    if (run.resends) {
      resends.resent += run.resends->resent;
      resends.successful += run.resends->successful;
      resends.failed += run.resends->failed;
    }
  }
  std::string text;
  if (resends.resent != 0)
    text += fmt::format("resends: {} messages of the node sent again on another path: {} went through, {} given up\n",
                        resends.resent, resends.successful, resends.failed);
  if (!sum.errors.empty()) text += "errors: " + errors_text(sum.errors) + "\n";
  if (sum.mismatched != 0) {
    text += fmt::format("DATA WRONG in {} of {} verified operations\n", sum.mismatched, sum.verified);
  } else if (sum.verified != 0) {
    text += fmt::format("verified: {} operations, every byte right\n", sum.verified);
  }
  if (sum.late != 0) text += fmt::format("late: {} operations ended after the measurement\n", sum.late);
  if (sum.unsent != 0)
    text += fmt::format("NOT SENT: {} operations were due, and had not begun when the measurement ended\n", sum.unsent);
  if (sum.lost != 0 || sum.duplicates != 0) {
    text += fmt::format("LOST {} operations, {} ended more than once ({} accepted, {} ended): a fault of ulnet\n",
                        sum.lost, sum.duplicates, sum.accepted, sum.ended);
  } else if (sum.abandoned != 0) {
    text += fmt::format("{} operations accepted, {} of them not waited for\n", sum.accepted, sum.abandoned);
  } else {
    text += fmt::format("{} operations accepted, each ended exactly once{}\n", sum.accepted,
                        sum.interrupted ? " (interrupted)" : "");
  }
  return text;
}

std::string shares_table(const std::vector<RunResult>& runs) {
  std::string text;
  const auto row = [&text](const RunResult& run, const std::string& of, uint64_t messages, uint64_t bytes,
                           double share) {
    if (text.empty())
      text =
          "\n" + fmt::format(fmt::runtime(kShareRow), "op", "size", "conc", "share of", "messages", "bytes", "share");
    text += fmt::format(fmt::runtime(kShareRow), operation_name(run.operation), run_size_text(run), run.concurrency, of,
                        messages, bytes, fmt::format("{:.1f}%", share * 100));
  };
  for (const RunResult& run : runs) {
    if (run.rails.size() > 1)
      for (const RailShare& rail : run.rails) row(run, nid_text(rail.nid), rail.messages, rail.bytes, rail.share);
    if (run.workers.size() <= 1) continue;
    for (size_t i = 0; i < run.workers.size(); ++i)
      row(run, fmt::format("worker {}", i), run.workers[i].messages, run.workers[i].bytes, run.workers[i].share);
  }
  return text;
}

std::string progress_line(const Job& job, const Snapshot& before, const Snapshot& now, Duration between) {
  std::string line = fmt::format("{}", operation_name(job.operation));
  if (job.operation != Operation::kPing) line += " " + size_text(now.size);
  if (job.concurrency.size() > 1) line += fmt::format(" x {}", now.concurrency);
  if (now.runs > 1) line += fmt::format(" ({}/{})", now.run + 1, now.runs);
  line += fmt::format(": {}", phase_text(now.phase));
  if (now.phase == Phase::kWarmup || now.phase == Phase::kMeasure) {
    line += fmt::format(" {:.1f}s", double(now.elapsed.count()) * 1e-9);
  }
  const bool same_run = before.run == now.run && now.completed >= before.completed && between > Duration{0};
  if (now.phase == Phase::kMeasure && same_run) {
    const double seconds = double(between.count()) * 1e-9;
    line += fmt::format(", {:.0f} messages/s, {:.3f} Gb/s", double(now.completed - before.completed) / seconds,
                        double(now.bytes - before.bytes) * 8e-9 / seconds);
  }
  if (now.failed != 0) line += fmt::format(", {} failed", now.failed);
  return line + fmt::format(", {} under way", now.in_flight);
}

}  // namespace ulnet::perf
