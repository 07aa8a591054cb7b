#include "perf/generator/job_json.h"

#include <array>
#include <cstring>

#include "dataplane/base/nid_text.h"

namespace ulnet::perf {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kOperationNames[] = {"ping", "put", "get"};
constexpr const char* kPhaseNames[] = {"waiting", "bind", "warmup", "measure", "drain", "cancel", "done"};

/// Reads one unsigned field into `out`. False when it is there and is not an unsigned number up to `max`.
template <class T>
bool read_unsigned(const json& value, T& out, uint64_t max) {
  if (!value.is_number_integer()) return false;
  if (!value.is_number_unsigned() && value.get<int64_t>() < 0) return false;
  if (value.get<uint64_t>() > max) return false;
  out = T(value.get<uint64_t>());
  return true;
}

bool read_nid(const json& value, Nid& out) {
  if (!value.is_string()) return false;
  const auto nid = nid_parse(value.get_ref<const std::string&>());
  if (nid) out = *nid;
  return nid.has_value();
}

bool read_duration(const json& value, Duration& out) {
  uint64_t ns = 0;
  if (!read_unsigned(value, ns, INT64_MAX)) return false;
  out = Duration(int64_t(ns));
  return true;
}

bool read_list(const json& value, std::vector<uint32_t>& out) {
  if (!value.is_array()) return false;
  out.clear();
  for (const json& size : value) {
    out.push_back(0);
    if (!read_unsigned(size, out.back(), UINT32_MAX)) return false;
  }
  return true;
}

/// A number, or a list of them.
bool read_concurrency(const json& value, std::vector<uint32_t>& out) {
  if (value.is_array()) return read_list(value, out);
  out.assign(1, 0);
  return read_unsigned(value, out.front(), UINT32_MAX);
}

bool read_rate(const json& value, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return true;
}

bool read_operation(const json& value, Operation& out) {
  if (!value.is_string()) return false;
  for (unsigned i = 0; i < std::size(kOperationNames); ++i) {
    if (value.get_ref<const std::string&>() != kOperationNames[i]) continue;
    out = Operation(i);
    return true;
  }
  return false;
}

bool read_bool(const json& value, bool& out) {
  if (!value.is_boolean()) return false;
  out = value.get<bool>();
  return true;
}

enum class Read : uint8_t { kGood, kBad, kUnknown };
Read read_field(const std::string& key, const json& value, Job& job) {
  auto good = [](bool right) { return right ? Read::kGood : Read::kBad; };
  if (key == "operation") return good(read_operation(value, job.operation));
  if (key == "target") return good(read_nid(value, job.target.nid));
  if (key == "self") return good(read_nid(value, job.self));
  if (key == "sizes") return good(read_list(value, job.sizes));
  if (key == "concurrency") return good(read_concurrency(value, job.concurrency));
  if (key == "rate") return good(read_rate(value, job.rate));
  if (key == "duration_ns") return good(read_duration(value, job.duration));
  if (key == "count") return good(read_unsigned(value, job.count, UINT64_MAX));
  if (key == "warmup_ns") return good(read_duration(value, job.warmup));
  if (key == "verify") return good(read_bool(value, job.verify));
  if (key == "threads") return good(read_bool(value, job.threads));
  if (key == "drain_ns") return good(read_duration(value, job.drain));
  if (key == "timeline_ns") return good(read_duration(value, job.timeline));
  return Read::kUnknown;
}

template <class T>
T get_or(const json& object, const char* key, T fallback) {
  const auto it = object.find(key);
  if (it == object.end()) return fallback;
  if constexpr (std::is_same_v<T, bool>) return it->is_boolean() ? it->template get<bool>() : fallback;
  if constexpr (std::is_same_v<T, std::string>)
    return it->is_string() ? it->template get<std::string>() : fallback;
  else
    return it->is_number() ? it->template get<T>() : fallback;
}

Duration get_ns(const json& object, const char* key) {
  return Duration(get_or<int64_t>(object, key, 0));
}

}  // namespace

const char* operation_name(Operation operation) {
  return kOperationNames[size_t(operation)];
}

std::string errno_name(int32_t error) {
  const char* name = strerrorname_np(error < 0 ? -error : error);
  return name != nullptr ? name : "E" + std::to_string(error < 0 ? -error : error);
}

json job_json(const Job& job) {
  return {{"operation", operation_name(job.operation)},
          {"target", nid_text(job.target.nid)},
          {"self", nid_text(job.self)},
          {"sizes", job.sizes},
          {"concurrency", job.concurrency},
          {"rate", job.rate},
          {"duration_ns", job.duration.count()},
          {"count", job.count},
          {"warmup_ns", job.warmup.count()},
          {"verify", job.verify},
          {"threads", job.threads},
          {"drain_ns", job.drain.count()},
          {"timeline_ns", job.timeline.count()}};
}

config::Checked<Job> job_from_json(const json& object) {
  if (!object.is_object()) return config::fail(EINVAL, "a perf job is an object");
  Job job;
  for (const auto& [key, value] : object.items()) {
    switch (read_field(key, value, job)) {
      case Read::kGood: break;
      case Read::kBad: return config::fail(EINVAL, "perf job: bad value of \"" + key + "\"");
      case Read::kUnknown: return config::fail(EINVAL, "perf job: unknown field \"" + key + "\"");
    }
  }
  if (const auto checked = job_check(job); !checked) return config::fail(checked.error().code, checked.error().what);
  return job;
}

json snapshot_json(const Snapshot& shot) {
  return {{"run", shot.run},
          {"runs", shot.runs},
          {"phase", kPhaseNames[size_t(shot.phase)]},
          {"size", shot.size},
          {"concurrency", shot.concurrency},
          {"elapsed_ns", shot.elapsed.count()},
          {"completed", shot.completed},
          {"bytes", shot.bytes},
          {"failed", shot.failed},
          {"in_flight", shot.in_flight}};
}

Snapshot snapshot_from_json(const json& object) {
  Snapshot shot;
  if (!object.is_object()) return shot;
  shot.run = get_or<uint32_t>(object, "run", 0);
  shot.runs = get_or<uint32_t>(object, "runs", 0);
  const std::string phase = get_or<std::string>(object, "phase", "");
  for (unsigned i = 0; i < std::size(kPhaseNames); ++i)
    if (phase == kPhaseNames[i]) shot.phase = Phase(i);
  shot.size = get_or<uint32_t>(object, "size", 0);
  shot.concurrency = get_or<uint32_t>(object, "concurrency", 0);
  shot.elapsed = get_ns(object, "elapsed_ns");
  shot.completed = get_or<uint64_t>(object, "completed", 0);
  shot.bytes = get_or<uint64_t>(object, "bytes", 0);
  shot.failed = get_or<uint64_t>(object, "failed", 0);
  shot.in_flight = get_or<uint32_t>(object, "in_flight", 0);
  return shot;
}

namespace {

json timeline_json(const TimelineResult& timeline) {
  json slices = json::array(), failures = json::array();
  for (const TimelineSlice& slice : timeline.slices)
    slices.push_back({slice.index, slice.ended, slice.failed, slice.longest.count()});
  for (const FailedOperation& failure : timeline.failures)
    failures.push_back({failure.at.time_since_epoch().count(), -failure.error, failure.latency.count()});
  return {{"slice_ns", timeline.slice.count()},
          {"since_ns", timeline.since.time_since_epoch().count()},
          {"dropped", timeline.dropped},
          {"slices", std::move(slices)},
          {"failures", std::move(failures)}};
}

/// Calls `row` with the numbers of each array in the array `key` that holds exactly that many unsigned numbers.
template <size_t kCount, class Row>
void each_row(const json& object, const char* key, Row&& row) {
  const auto rows = object.find(key);
  if (rows == object.end() || !rows->is_array()) return;
  for (const json& value : *rows) {
    if (!value.is_array() || value.size() != kCount) continue;
    std::array<uint64_t, kCount> numbers{};
    bool good = true;
    for (size_t i = 0; i < kCount; ++i) good = good && read_unsigned(value[i], numbers[i], INT64_MAX);
    if (good) row(numbers);
  }
}

TimelineResult timeline_from_json(const json& object) {
  TimelineResult timeline;
  if (!object.is_object()) return timeline;
  timeline.slice = get_ns(object, "slice_ns");
  timeline.since = Instant{get_ns(object, "since_ns")};
  timeline.dropped = get_or<uint64_t>(object, "dropped", 0);
  each_row<4>(object, "slices", [&](const auto& n) {
    timeline.slices.push_back({uint32_t(n[0]), uint32_t(n[1]), uint32_t(n[2]), Duration(int64_t(n[3]))});
  });
  each_row<3>(object, "failures", [&](const auto& n) {
    timeline.failures.push_back({Instant{Duration(int64_t(n[0]))}, Duration(int64_t(n[2])), -int32_t(n[1])});
  });
  return timeline;
}

/// {"nid", "messages", "bytes", "share", "sent", "received", "dropped"}; the fields are those of RailShare.
json rails_json(const std::vector<RailShare>& rails) {
  json list = json::array();
  for (const RailShare& rail : rails)
    list.push_back({{"nid", nid_text(rail.nid)},
                    {"messages", rail.messages},
                    {"bytes", rail.bytes},
                    {"share", rail.share},
                    {"sent", rail.sent},
                    {"received", rail.received},
                    {"dropped", rail.dropped}});
  return list;
}

json workers_json(const std::vector<WorkerShare>& workers) {
  json list = json::array();
  for (const WorkerShare& worker : workers)
    list.push_back({{"worker", list.size()},
                    {"messages", worker.messages},
                    {"bytes", worker.bytes},
                    {"share", worker.share},
                    {"sent", worker.sent},
                    {"received", worker.received}});
  return list;
}

/// Calls `add` with each object in the array `key`.
template <class Add>
void each_object(const json& object, const char* key, Add&& add) {
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) return;
  for (const json& one : *list)
    if (one.is_object()) add(one);
}

void shares_from_json(const json& object, RunResult& r) {
  const auto number = [](const json& one, const char* key) { return get_or<uint64_t>(one, key, 0); };
  each_object(object, "rails", [&](const json& one) {
    RailShare rail{.messages = number(one, "messages"),
                   .bytes = number(one, "bytes"),
                   .share = get_or<double>(one, "share", 0),
                   .sent = number(one, "sent"),
                   .received = number(one, "received"),
                   .dropped = number(one, "dropped")};
    if (const auto nid = one.find("nid"); nid != one.end()) (void)read_nid(*nid, rail.nid);
    r.rails.push_back(rail);
  });
  each_object(object, "workers", [&](const json& one) {
    r.workers.push_back({.messages = number(one, "messages"),
                         .bytes = number(one, "bytes"),
                         .share = get_or<double>(one, "share", 0),
                         .sent = number(one, "sent"),
                         .received = number(one, "received")});
  });
  if (const auto it = object.find("resends"); it != object.end() && it->is_object())
    r.resends = ResendCounts{number(*it, "count"), number(*it, "successful"), number(*it, "failed")};
}

}  // namespace

json result_json(const RunResult& r) {
  json errors = json::object();
  for (const auto& [error, count] : r.errors) errors[errno_name(error)] = {{"errno", -error}, {"count", count}};
  json object = {{"operation", operation_name(r.operation)},
                 {"size", r.size},
                 {"concurrency", r.concurrency},
                 {"rate", r.rate},
                 {"late", r.late},
                 {"unsent", r.unsent},
                 {"elapsed_ns", r.elapsed.count()},
                 {"completed", r.completed},
                 {"bytes", r.bytes},
                 {"messages_per_second", r.messages_per_second()},
                 {"gigabits_per_second", r.gigabits_per_second()},
                 {"latency_ns",
                  {{"min", r.latency_min.count()},
                   {"mean", r.latency_mean.count()},
                   {"p50", r.latency_p50.count()},
                   {"p90", r.latency_p90.count()},
                   {"p99", r.latency_p99.count()},
                   {"p99_9", r.latency_p999.count()},
                   {"p99_99", r.latency_p9999.count()},
                   {"max", r.latency_max.count()}}},
                 {"longest_pause_ns", r.longest_pause.count()},
                 {"cycles_per_message", nullptr},
                 {"accepted", r.accepted},
                 {"ended", r.ended},
                 {"lost", r.lost},
                 {"abandoned", r.abandoned},
                 {"duplicates", r.duplicates},
                 {"failed", r.failed},
                 {"verified", r.verified},
                 {"mismatched", r.mismatched},
                 {"interrupted", r.interrupted},
                 {"errors", std::move(errors)},
                 {"resends", nullptr},
                 {"rails", rails_json(r.rails)},
                 {"workers", workers_json(r.workers)},
                 {"ok", r.ok()}};
  if (r.resends)
    object["resends"] = {
        {"count", r.resends->resent}, {"successful", r.resends->successful}, {"failed", r.resends->failed}};
  if (r.cycles_per_message) object["cycles_per_message"] = *r.cycles_per_message;
  if (r.timeline.slice != Duration{0}) object["timeline"] = timeline_json(r.timeline);
  return object;
}

RunResult result_from_json(const json& object) {
  RunResult r;
  if (!object.is_object()) return r;
  if (const auto it = object.find("operation"); it != object.end()) (void)read_operation(*it, r.operation);
  r.size = get_or<uint32_t>(object, "size", 0);
  r.concurrency = get_or<uint32_t>(object, "concurrency", 0);
  r.rate = get_or<double>(object, "rate", 0);
  r.late = get_or<uint64_t>(object, "late", 0);
  r.unsent = get_or<uint64_t>(object, "unsent", 0);
  r.elapsed = get_ns(object, "elapsed_ns");
  r.completed = get_or<uint64_t>(object, "completed", 0);
  r.bytes = get_or<uint64_t>(object, "bytes", 0);
  if (const auto it = object.find("latency_ns"); it != object.end() && it->is_object()) {
    r.latency_min = get_ns(*it, "min");
    r.latency_mean = get_ns(*it, "mean");
    r.latency_p50 = get_ns(*it, "p50");
    r.latency_p90 = get_ns(*it, "p90");
    r.latency_p99 = get_ns(*it, "p99");
    r.latency_p999 = get_ns(*it, "p99_9");
    r.latency_p9999 = get_ns(*it, "p99_99");
    r.latency_max = get_ns(*it, "max");
  }
  if (const auto it = object.find("cycles_per_message"); it != object.end() && it->is_number()) {
    r.cycles_per_message = it->get<double>();
  }
  r.longest_pause = get_ns(object, "longest_pause_ns");
  if (const auto it = object.find("timeline"); it != object.end()) r.timeline = timeline_from_json(*it);
  shares_from_json(object, r);
  r.accepted = get_or<uint64_t>(object, "accepted", 0);
  r.ended = get_or<uint64_t>(object, "ended", 0);
  r.lost = get_or<uint64_t>(object, "lost", 0);
  r.abandoned = get_or<uint64_t>(object, "abandoned", 0);
  r.duplicates = get_or<uint64_t>(object, "duplicates", 0);
  r.failed = get_or<uint64_t>(object, "failed", 0);
  r.verified = get_or<uint64_t>(object, "verified", 0);
  r.mismatched = get_or<uint64_t>(object, "mismatched", 0);
  r.interrupted = get_or<bool>(object, "interrupted", false);
  if (const auto it = object.find("errors"); it != object.end() && it->is_object()) {
    for (const auto& [name, entry] : it->items()) {
      if (!entry.is_object()) continue;
      r.errors[-get_or<int32_t>(entry, "errno", 0)] = get_or<uint64_t>(entry, "count", 0);
    }
  }
  return r;
}

json report_json(const Job& job, const std::vector<RunResult>& runs) {
  json list = json::array();
  bool ok = !runs.empty();
  for (const RunResult& run : runs) {
    ok = ok && run.ok();
    list.push_back(result_json(run));
  }
  return {{"schema", kJsonSchema},
          {"ok", ok},
          {"target", nid_text(job.target.nid)},
          {"histogram_resolution", Histogram::kResolution},
          {"runs", std::move(list)}};
}

}  // namespace ulnet::perf
