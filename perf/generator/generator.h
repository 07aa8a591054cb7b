// Makes load: keeps `concurrency` operations under way on one submitter, or begins them by a rate, run after run, and
// counts what becomes of each. Turned by one application thread (session.h, or a test under a virtual clock): time is
// passed in, nothing here waits or reads a clock. It checks the library while it uses it: every accepted operation must
// end in exactly one final event; what does not is `lost` or a `duplicate`. It uses one polled event queue and one MD
// for each operation that can be under way.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/node_counts.h"
#include "dataplane/state/submitter.h"
#include "perf/generator/histogram.h"
#include "perf/generator/job.h"
#include "perf/generator/page_memory.h"
#include "perf/generator/timeline.h"

namespace ulnet::perf {

class Generator {
 public:
  /// Numbers of the node that generates, read on the thread that turns the generator; null = not known.
  struct Meters {
    std::function<uint64_t()> busy_cycles;  ///< of its workers so far
    std::function<NodeCounts()> counts;
  };

  /// Size of the submitter that a job needs.
  [[nodiscard]] static SubmitterSize submitter_size(const Job& job);
  /// Allocates all memory of the job. Errors: EINVAL (job_check), ENOSPC (submitter too small), EAGAIN. The submitter
  /// stays borrowed until unbound(), or until it has been closed.
  static Result<std::unique_ptr<Generator>> create(Submitter& submitter, const Job& job, Meters meters);

  /// One bounded turn: takes events, starts operations. Returns how many of both.
  unsigned turn(Instant now);
  /// When turn() has something to do, if no event comes before. In the past: at once.
  [[nodiscard]] Instant next_turn(Instant now) const;
  /// The queue of its events: to sleep until one comes.
  [[nodiscard]] EqHandle queue() const { return eq_; }
  /// Starts nothing more: what is under way has a second to end, then it is cancelled. A second
  /// call cancels at once, and waits no more than a second even then.
  void stop(Instant now);

  /// Of all MDs of the job: to be registered before the first turn, where a driver needs that.
  [[nodiscard]] std::span<std::byte> memory() const { return {memory_.get(), memory_bytes_}; }
  [[nodiscard]] bool done() const { return phase_ == Phase::kDone; }
  /// No MD of this generator is bound any more: its memory may go.
  [[nodiscard]] bool unbound() const { return bound_ == 0; }
  [[nodiscard]] Snapshot snapshot(Instant now) const;
  /// Of the runs that are over (and, after stop(), of the one that was cut short).
  [[nodiscard]] const std::vector<RunResult>& results() const { return results_; }
  /// Latencies of the current or last run.
  [[nodiscard]] const Histogram& latencies() const { return *latencies_; }

 private:
  enum class SlotState : uint8_t { kUnbound, kIdle, kBusy, kReadBack };
  struct Slot {
    SlotState state = SlotState::kUnbound;
    bool measured = false;  ///< started during the measurement
    bool unlinking = false;
    MdHandle md;
    uint64_t tag = 0;   ///< user_data of what is under way; 0 = nothing
    uint64_t seed = 0;  ///< pattern of what was put
    Instant issued = kNever;
    Instant not_before = kNever;
  };

  Generator(Submitter& submitter, const Job& job, Meters meters, EqHandle eq);
  // Phases (generator.cc).
  void run_begin(Instant now);
  void run_end(Instant now);
  void phase_to(Phase phase, Instant now);
  void advance(Instant now);
  void measure_begin(Instant now);
  void measure_end(Instant at);
  void latencies_sum();
  void fail_run(int32_t error, Instant now);
  // Operations (operations.cc).
  void bind_slots(Instant now);
  void unlink_slots();
  unsigned issue_ready(Instant now);
  [[nodiscard]] Result<void> start(Slot& slot, uint32_t index, bool back);
  void on_event(const Event& event, Instant now);
  void on_final(const Event& event, Instant now);
  void note_latency(const Slot& slot, uint32_t bytes, Instant now);
  void slot_idle(Slot& slot, uint32_t index, Instant now, bool rest);
  void check_data(Slot& slot, uint32_t index, uint32_t bytes);
  [[nodiscard]] bool may_issue() const;
  [[nodiscard]] Instant due(uint64_t number) const;
  [[nodiscard]] uint64_t due_before(Instant at) const;
  [[nodiscard]] Instant next_due() const { return due(scheduled_); }
  [[nodiscard]] Instant measure_until() const;
  [[nodiscard]] bool schedule_done(Instant now);
  void schedule_begin(Instant now);
  [[nodiscard]] Instant phase_end() const;
  [[nodiscard]] uint32_t remote_offset(uint32_t index) const;
  [[nodiscard]] std::span<std::byte> memory_of(uint32_t index) const;
  [[nodiscard]] bool reads_back() const { return job_.verify && job_.operation == Operation::kPut; }

  Submitter& submitter_;
  const Job job_;
  const Meters meters_;
  const EqHandle eq_;
  std::array<Event, 64> events_;  ///< of one turn
  PageMemory memory_;
  size_t memory_bytes_ = 0;
  std::unique_ptr<Histogram> latencies_;
  Timeline timeline_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> ready_;   ///< slots that may start, last in first out
  std::deque<uint32_t> resting_;  ///< slots that wait after an error, oldest first
  std::vector<uint32_t> back_;    ///< slots whose read-back the submitter has not taken yet
  std::vector<RunResult> results_;
  RunResult now_;  ///< the run under way
  Phase phase_ = Phase::kWaiting;
  Instant phase_since_ = kNever;
  Instant measure_since_ = kNever;
  Instant schedule_since_ = kNever;    ///< with a rate: when the first operation is due
  Instant overtime_since_ = kForever;  ///< first turn after a measurement's end
  uint64_t scheduled_ = 0;             ///< operations of the schedule that have begun
  Instant ended_well_ = kNever;        ///< the last operation of the measurement that did; its begin before the first
  Instant give_up_ = kForever;         ///< kDrain: then cancel; kCancel: then lost
  uint64_t next_tag_ = 1;
  uint64_t issued_measured_ = 0, ended_measured_ = 0;
  uint64_t cycles_before_ = 0;
  NodeCounts counts_before_;     ///< at the begin of the measurement
  ResendCounts resends_before_;  ///< at the begin of the run
  uint64_t failed_before_ = 0;   ///< in earlier runs
  uint32_t run_ = 0;
  uint32_t bound_ = 0;
  uint32_t in_flight_ = 0;
  uint32_t slot_bytes_ = 0;
  bool stopping_ = false;
  bool impatient_ = false;  ///< stopped twice
};

}  // namespace ulnet::perf
