// Job, progress and result of a generator. Plain values; text and JSON are in job_json.h.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/base/limits.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/node_counts.h"
#include "dataplane/base/result.h"
#include "dataplane/base/time.h"
#include "perf/generator/histogram.h"
#include "perf/generator/timeline.h"

namespace ulnet::perf {

enum class Operation : uint8_t {
  kPing,  ///< LNet's ping: a GET from portal 0, answered by every LNet node
  kPut,   ///< acknowledged PUT into the target's sink
  kGet,   ///< GET from the target's source
};

/// The service that puts and gets need (perf/generator/target.h).
inline constexpr uint64_t kPingBits = 0x8000000000000000ull;  ///< on portal 0 (docs/wire/lnet.md §4)
inline constexpr uint32_t kTargetPortal = 63;
inline constexpr uint64_t kSinkBits = 0x756C6E657453494Eull;
inline constexpr uint64_t kSourceBits = 0x756C6E6574535243ull;
inline constexpr uint64_t kSourceSeed = 1;             ///< pattern of the source, from its offset 0
inline constexpr uint32_t kTargetBytes = kMaxPayload;  ///< sink and source, each

inline constexpr uint32_t kConcurrencyMax = 4096;
inline constexpr uint64_t kMemoryMax = uint64_t{1} << 30;  ///< size x concurrency
inline constexpr uint32_t kRunsMax = 64;
inline constexpr Duration kJobTimeMax = 100'000'000s;     ///< of any time in a job
inline constexpr double kRateMin = 0.01, kRateMax = 1e9;  ///< operations per second

/// Runs one after the other: for each size, one for each concurrency.
struct Job {
  Operation operation = Operation::kPut;
  ProcessId target{kAnyNid, kLnetPid};
  Nid self;                              ///< source NID; ANY = choose
  std::vector<uint32_t> sizes{4096};     ///< bytes; a ping has none
  std::vector<uint32_t> concurrency{1};  ///< operations under way at once
  double rate = 0;  ///< operations per second that begin on schedule, whatever becomes of the others; 0: each slot
                    ///< begins the next operation when its last one has ended
  Duration duration = 3s;   ///< of each measurement, when count is 0
  uint64_t count = 0;       ///< operations of each measurement; 0 = by duration
  Duration warmup = 500ms;  ///< before each measurement, not measured
  bool verify = false;      ///< check every byte end to end; a put is read back
  bool threads = false;     ///< the load has a thread of its own, not that of its worker
  Duration drain = 10s;     ///< how long operations may still end by themselves after a run; then they are cancelled
  Duration timeline{};      ///< length of a slice of RunResult::timeline; 0 = no time line. For one run only
};

/// How many runs a job has.
[[nodiscard]] inline size_t run_count(const Job& job) {
  return (job.operation == Operation::kPing ? 1 : job.sizes.size()) * job.concurrency.size();
}
/// The most operations that are under way at once in any run.
[[nodiscard]] inline uint32_t concurrency_max(const Job& job) {
  return job.concurrency.empty() ? 0 : *std::max_element(job.concurrency.begin(), job.concurrency.end());
}

/// Errors are EINVAL with a sentence.
[[nodiscard]] Result<void> job_check(const Job& job);

enum class Phase : uint8_t { kWaiting, kBind, kWarmup, kMeasure, kDrain, kCancel, kDone };

/// How far it is, for a progress line.
struct Snapshot {
  uint32_t run = 0;  ///< 0-based
  uint32_t runs = 0;
  Phase phase = Phase::kWaiting;
  uint32_t size = 0;
  uint32_t concurrency = 0;
  Duration elapsed{};      ///< in this phase
  uint64_t completed = 0;  ///< measured so far
  uint64_t bytes = 0;
  uint64_t failed = 0;  ///< of all runs so far
  uint32_t in_flight = 0;
};

/// The messages of one local NI in the measurement, by its own counters. Hence they include other traffic of the node.
struct RailShare {
  Nid nid;
  uint64_t messages = 0;            ///< that carry the payload: PUTs sent, or REPLYs received
  uint64_t bytes = 0;               ///< their number times the size of the run; 0 for pings
  double share = 0;                 ///< of the messages of all rails, 0 to 1
  uint64_t sent = 0, received = 0;  ///< messages of every type
  uint64_t dropped = 0;             ///< RailCounts::dropped
};
/// The messages of one worker in the measurement, by its own counters. They include other traffic, too.
struct WorkerShare {
  uint64_t messages = 0;            ///< sent and received
  uint64_t bytes = 0;               ///< payload, sent and received
  double share = 0;                 ///< of the messages of all workers, 0 to 1
  uint64_t sent = 0, received = 0;  ///< messages
};

/// Result of one run. The counts include all accepted operations, also those of the warm-up. Rates and latencies
/// include only the measured operations. With a rate, latencies begin at the time at which an operation was due, and
/// include operations that end after the measurement. Then completed + late + unsent, and those of the schedule that
/// failed, are the operations that were due.
struct RunResult {
  Operation operation = Operation::kPut;
  uint32_t size = 0;
  uint32_t concurrency = 0;
  double rate = 0;      ///< of the schedule; 0: there was none
  uint64_t late = 0;    ///< with a rate: due in the measurement, and ended well after it
  uint64_t unsent = 0;  ///< with a rate and no count: due in the measurement, and not begun at its end
  Duration elapsed{};   ///< of the measurement
  uint64_t completed = 0;
  uint64_t bytes = 0;
  Duration latency_min{}, latency_mean{}, latency_p50{}, latency_p90{}, latency_p99{}, latency_p999{}, latency_p9999{},
      latency_max{};
  Duration longest_pause{};                  ///< of the measurement: longest time without an operation that ended well
  std::optional<double> cycles_per_message;  ///< busy cycles of this node's workers / messages measured

  uint64_t accepted = 0;    ///< operations that the submitter took
  uint64_t ended = 0;       ///< of these, how many ended in their one final event
  uint64_t lost = 0;        ///< accepted and never ended: a fault of ulnet
  uint64_t abandoned = 0;   ///< not waited for, because stop() was called twice
  uint64_t duplicates = 0;  ///< final events too many: a fault of ulnet
  uint64_t failed = 0;      ///< ended with an error
  uint64_t verified = 0;    ///< checked, byte for byte
  uint64_t mismatched = 0;  ///< checked and found wrong
  bool interrupted = false;
  std::map<int32_t, uint64_t> errors;   ///< negative errno -> how often
  std::vector<RailShare> rails;         ///< NIs that the node had when the job began; empty: not known
  std::vector<WorkerShare> workers;     ///< by number; empty: not known
  std::optional<ResendCounts> resends;  ///< of the node, from the begin of the warm-up to the end of the last operation
  TimelineResult timeline;              ///< from the begin of the measurement to the end of the last operation

  [[nodiscard]] bool ok() const {
    return lost == 0 && abandoned == 0 && duplicates == 0 && failed == 0 && mismatched == 0;
  }
  [[nodiscard]] double seconds() const { return double(elapsed.count()) * 1e-9; }
  [[nodiscard]] double messages_per_second() const { return elapsed.count() <= 0 ? 0 : double(completed) / seconds(); }
  [[nodiscard]] double gigabits_per_second() const {
    return elapsed.count() <= 0 ? 0 : double(bytes) * 8e-9 / seconds();
  }
};

}  // namespace ulnet::perf
