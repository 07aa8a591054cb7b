// Phases of a job: bind, warm up, measure, drain, cancel, next size. What happens to single operations is in
// operations.cc.
#include "perf/generator/generator.h"

#include <algorithm>

#include "perf/generator/pattern.h"
#include "perf/generator/shares.h"

namespace ulnet::perf {
namespace {

constexpr uint32_t kPingBytes = 3960;     // as lnetctl's ping (docs/wire/lnet.md §2.4)
constexpr Duration kInterruptDrain = 1s;  // after stop(): then what is under way is cancelled
constexpr Duration kLostAfter = 60s;      // after cancelling: then an operation without final event is lost
constexpr Duration kTryAgain = 100us;     // after a call found the submitter's ring full
constexpr Duration kOvertimeMax = 100ms;  // after a measurement: operations that were due in it begin
constexpr Duration kEventGrace = 1s;      // after the last kUnlink: no final event can come later

}  // namespace

Result<void> job_check(const Job& job) {
  if (job.target.nid.is_any()) return fail(EINVAL, "the target NID is missing");
  if (job.concurrency.empty()) return fail(EINVAL, "concurrency is 1 to 4096");
  for (uint32_t concurrency : job.concurrency)
    if (concurrency == 0 || concurrency > kConcurrencyMax) return fail(EINVAL, "concurrency is 1 to 4096", concurrency);
  if (job.rate != 0 && !(job.rate >= kRateMin && job.rate <= kRateMax))
    return fail(EINVAL, "a rate is 0.01 to 1000000000 operations per second");
  if (job.count == 0 && job.duration <= Duration{0}) return fail(EINVAL, "the duration must be above 0");
  if (job.warmup < Duration{0} || job.drain < Duration{0}) return fail(EINVAL, "a time is negative");
  if (std::max({job.duration, job.warmup, job.drain, job.timeline}) > kJobTimeMax)
    return fail(EINVAL, "a time is above 100000000 s");
  if (job.timeline != Duration{0} && job.timeline < kTimelineSliceMin) {
    return fail(EINVAL, "a slice of the time line is at least 100us",
                uint64_t(std::max(job.timeline, Duration{0}).count()));
  }
  const size_t runs = run_count(job);
  if (runs == 0 || runs > kRunsMax) return fail(EINVAL, "1 to 64 runs: sizes times concurrencies", runs);
  if (job.timeline != Duration{0} && runs != 1)
    return fail(EINVAL, "a time line needs exactly one size and one concurrency", runs);
  if (job.operation == Operation::kPing) return {};
  const uint32_t concurrency = concurrency_max(job);
  for (uint32_t size : job.sizes) {
    if (size > kMaxPayload) return fail(EINVAL, "a message carries at most 1 MiB", size);
    if (uint64_t{size} * concurrency > kMemoryMax) {
      return fail(EINVAL, "size x concurrency is more than 1 GiB", uint64_t{size} * concurrency);
    }
    if (job.verify && job.operation == Operation::kPut && uint64_t{size} * concurrency > kTargetBytes) {
      return fail(EINVAL,
                  "verified puts need size x concurrency of at most 1 MiB: each has its own place in the target",
                  uint64_t{size} * concurrency);
    }
  }
  return {};
}

SubmitterSize Generator::submitter_size(const Job& job) {
  const uint32_t slots = concurrency_max(job);
  return {.ops = slots    // an operation of each slot
                 + slots  // the unlink of each slot
                 + 16,    // the queue, and spare
          .mds = slots,
          .eqs = 1,
          .segment_blocks = 1};
}

Result<std::unique_ptr<Generator>> Generator::create(Submitter& submitter, const Job& job, Meters meters) {
  if (auto checked = job_check(job); !checked) return tl::unexpected(checked.error());
  const uint32_t slots = concurrency_max(job);
  if (submitter.md_slots() < slots) return fail(ENOSPC, "the submitter has too few MDs", submitter.md_slots());
  auto eq = submitter.eq_open(slots    // a final event of each slot
                              + slots  // a kUnlink of each slot
                              + 16);   // spare
  if (!eq) return tl::unexpected(eq.error());
  return std::unique_ptr<Generator>(new Generator(submitter, job, std::move(meters), *eq));
}

Generator::Generator(Submitter& submitter, const Job& job, Meters meters, EqHandle eq)
    : submitter_(submitter),
      job_(job),
      meters_(std::move(meters)),
      eq_(eq),
      latencies_(std::make_unique<Histogram>()),
      timeline_(job.timeline),
      slots_(concurrency_max(job)) {
  uint32_t largest = kPingBytes;
  for (uint32_t size : job.sizes) largest = std::max(largest, size);
  memory_bytes_ = size_t{largest} * (reads_back() ? 2 : 1) * slots_.size();
  memory_ = page_memory(memory_bytes_);
  pattern_fill(memory(), 0);
  ready_.reserve(slots_.size());
  back_.reserve(slots_.size());
}

void Generator::phase_to(Phase phase, Instant now) {
  phase_ = phase;
  phase_since_ = now;
}

void Generator::run_begin(Instant now) {
  now_ = RunResult{};
  now_.operation = job_.operation;
  now_.concurrency = job_.concurrency[run_ % job_.concurrency.size()];
  now_.size = job_.operation == Operation::kPing ? 0 : job_.sizes[run_ / job_.concurrency.size()];
  slot_bytes_ = job_.operation == Operation::kPing ? kPingBytes : now_.size;
  now_.rate = job_.rate;
  latencies_->clear();
  issued_measured_ = ended_measured_ = 0;
  give_up_ = kForever;
  if (meters_.counts) resends_before_ = meters_.counts().resends;
  phase_to(Phase::kBind, now);
}

void Generator::run_end(Instant now) {
  if (job_.rate != 0) latencies_sum();
  (impatient_ ? now_.abandoned : now_.lost) = in_flight_;
  now_.interrupted = stopping_;
  if (meters_.counts) now_.resends = resends_between(resends_before_, meters_.counts().resends);
  now_.timeline = timeline_.result();
  timeline_.end();
  failed_before_ += now_.failed;
  const bool stuck = in_flight_ != 0 || bound_ != 0;  // MDs that the worker still has cannot be used again
  results_.push_back(now_);
  now_ = RunResult{};
  if (stuck || stopping_ || ++run_ >= run_count(job_)) {
    (void)submitter_.eq_close(eq_);  // a full ring: the queue goes with the submitter
    phase_to(Phase::kDone, now);
    return;
  }
  run_begin(now);
}

void Generator::measure_begin(Instant now) {
  measure_since_ = ended_well_ = now;
  schedule_begin(now);
  timeline_.begin(now);
  cycles_before_ = meters_.busy_cycles ? meters_.busy_cycles() : 0;
  if (meters_.counts) counts_before_ = meters_.counts();
  phase_to(Phase::kMeasure, now);
}

/// The measurement ends at `at`. With a rate, operations under way still count when they end; else they do not.
void Generator::measure_end(Instant at) {
  now_.elapsed = at - measure_since_;
  now_.longest_pause = std::max(now_.longest_pause, at - ended_well_);
  if (job_.rate != 0 && job_.count == 0) now_.unsent = due_before(at) - std::min(due_before(at), scheduled_);
  latencies_sum();
  if (meters_.busy_cycles && now_.completed != 0) {
    now_.cycles_per_message = double(meters_.busy_cycles() - cycles_before_) / double(now_.completed);
  }
  if (!meters_.counts) return;
  const NodeCounts counts = meters_.counts();
  now_.rails = rail_shares(counts_before_, counts, now_.operation, now_.size);
  now_.workers = worker_shares(counts_before_, counts);
}

void Generator::latencies_sum() {
  now_.latency_min = latencies_->min();
  now_.latency_mean = latencies_->mean();
  now_.latency_p50 = latencies_->quantile(0.5);
  now_.latency_p90 = latencies_->quantile(0.9);
  now_.latency_p99 = latencies_->quantile(0.99);
  now_.latency_p999 = latencies_->quantile(0.999);
  now_.latency_p9999 = latencies_->quantile(0.9999);
  now_.latency_max = latencies_->max();
}

void Generator::schedule_begin(Instant now) {
  schedule_since_ = now;
  overtime_since_ = kForever;
  scheduled_ = 0;
}

/// When this operation of the schedule is to begin; kNever without a rate: at once.
Instant Generator::due(uint64_t number) const {
  if (job_.rate == 0) return kNever;
  return schedule_since_ + Duration(int64_t(double(number) * 1e9 / job_.rate));
}

/// How many operations of the schedule are due before `at`. The floating-point estimate may be off by some.
uint64_t Generator::due_before(Instant at) const {
  auto count = uint64_t(double((at - schedule_since_).count()) * job_.rate / 1e9);
  while (count > 0 && due(count - 1) >= at) --count;
  while (due(count) < at) ++count;
  return count;
}

/// End of a measurement by duration; kForever for one by count.
Instant Generator::measure_until() const {
  return job_.count == 0 ? measure_since_ + job_.duration : kForever;
}

/// All that was due in the measurement has begun, or cannot begin: no slot is free. The thread may have been away, so
/// the first turn after the end takes events, and begins what it can.
bool Generator::schedule_done(Instant now) {
  if (job_.rate == 0 || next_due() >= measure_until()) return true;
  if (overtime_since_ == kForever) {
    overtime_since_ = now;
    return false;
  }
  return ready_.empty() || now - overtime_since_ >= kOvertimeMax;
}

/// Moves on to whatever `now` calls for.
void Generator::advance(Instant now) {
  switch (phase_) {
    case Phase::kWaiting: run_begin(now); return;
    case Phase::kBind:
      bind_slots(now);
      if (phase_ != Phase::kBind || bound_ < now_.concurrency) return;
      schedule_begin(now);
      if (job_.warmup > Duration{0}) return phase_to(Phase::kWarmup, now);
      return measure_begin(now);
    case Phase::kWarmup:
      if (now - phase_since_ >= job_.warmup) measure_begin(now);
      return;
    case Phase::kMeasure:
      if (job_.count == 0 ? now - measure_since_ < job_.duration : ended_measured_ < job_.count) return;
      if (job_.count == 0 && !schedule_done(now)) return;
      measure_end(job_.count == 0 ? measure_since_ + job_.duration : now);
      give_up_ = now + job_.drain;
      return phase_to(Phase::kDrain, now);
    case Phase::kDrain:
      if ((in_flight_ != 0 || !back_.empty()) && now < give_up_) return;
      give_up_ = now + (impatient_ ? kInterruptDrain : kLostAfter);
      return phase_to(Phase::kCancel, now);
    case Phase::kCancel:
      unlink_slots();
      if (bound_ == 0) give_up_ = std::min(give_up_, now + kEventGrace);
      if ((bound_ == 0 && in_flight_ == 0) || now >= give_up_) run_end(now);
      return;
    case Phase::kDone: return;
  }
}

void Generator::stop(Instant now) {
  impatient_ = stopping_;
  switch (phase_) {
    case Phase::kWaiting:
      stopping_ = true;
      phase_to(Phase::kDone, now);
      return;
    case Phase::kMeasure: measure_end(std::min(now, measure_until())); [[fallthrough]];
    case Phase::kBind:
    case Phase::kWarmup:
      give_up_ = now + kInterruptDrain;
      phase_to(Phase::kDrain, now);
      break;
    case Phase::kDrain: give_up_ = stopping_ ? now : std::min(give_up_, now + kInterruptDrain); break;
    case Phase::kCancel:
      if (impatient_) give_up_ = std::min(give_up_, now + kInterruptDrain);
      break;
    case Phase::kDone: break;
  }
  stopping_ = true;
}

/// Something is wrong with the use of the library itself: the job ends.
void Generator::fail_run(int32_t error, Instant now) {
  ++now_.failed;
  ++now_.errors[error];
  if (phase_ < Phase::kDrain) stop(now);
}

unsigned Generator::turn(Instant now) {
  advance(now);
  if (phase_ == Phase::kDone) return 0;
  const unsigned count = submitter_.eq_poll(eq_, events_);
  for (unsigned i = 0; i < count; ++i) on_event(events_[i], now);
  return count + issue_ready(now);
}

/// When the phase ends by itself; kNever: at once; kForever: with an event only.
Instant Generator::phase_end() const {
  switch (phase_) {
    case Phase::kWaiting: return kNever;
    case Phase::kWarmup: return phase_since_ + job_.warmup;
    case Phase::kMeasure:
      if (job_.count == 0) return measure_since_ + job_.duration;
      return ended_measured_ < job_.count ? kForever : kNever;
    case Phase::kDrain: return in_flight_ == 0 && back_.empty() ? kNever : give_up_;
    case Phase::kCancel: return bound_ == 0 && in_flight_ == 0 ? kNever : give_up_;
    case Phase::kBind:
    case Phase::kDone: return kForever;
  }
  return kForever;
}

Instant Generator::next_turn(Instant now) const {
  const bool due = !ready_.empty() && may_issue();
  // The submitter had no room for something: no event says that there is room again.
  const bool refused = phase_ == Phase::kBind || !back_.empty() || (due && next_due() <= now) ||
                       (phase_ == Phase::kCancel && std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
                          return slot.state != SlotState::kUnbound && !slot.unlinking;
                        }));
  Instant next = std::min(phase_end(), refused ? now + kTryAgain : kForever);
  if (due && !refused) next = std::min(next, next_due());
  if (!resting_.empty()) next = std::min(next, slots_[resting_.front()].not_before);
  return next;
}

Snapshot Generator::snapshot(Instant now) const {
  Snapshot shot;
  shot.run = run_;
  shot.runs = uint32_t(run_count(job_));
  shot.phase = phase_;
  shot.size = now_.size;
  shot.concurrency = now_.concurrency;
  shot.elapsed = phase_ == Phase::kWaiting ? Duration{0} : now - phase_since_;
  shot.completed = now_.completed;
  shot.bytes = now_.bytes;
  shot.failed = failed_before_ + now_.failed;
  shot.in_flight = in_flight_;
  return shot;
}

}  // namespace ulnet::perf
