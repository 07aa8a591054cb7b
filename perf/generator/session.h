// A job under way, and a mailbox through which others see how far it is. The job runs on the thread of its submitter's
// worker, where calls and events cross no thread, or on a thread of its own. The submitter belongs to that thread from
// start to finished(). Threads: any may call, but for the destructor and halt(), which belong to the caller of start().
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "dataplane/host/turnable.h"
#include "perf/generator/generator.h"

namespace ulnet::perf {

/// The thread of the submitter's worker. Both functions wait until that thread has made the change.
struct WorkerThread {
  std::function<Result<void>(Turnable&)> add;  ///< to turn the item after the worker. Errors: those of Host::add
  std::function<void(Turnable&)> remove;       ///< afterwards, the thread does not touch the item
};

class Session final : Turnable {
 public:
  /// Starts at once; with `hold`, only when begin() is called. The job has a thread of its own if `worker` is empty, or
  /// if the job demands that. A job that verifies data has one, too, because long checks would delay the worker's other
  /// messages. Errors: those of Generator::create and `worker`, EMFILE, EAGAIN (no thread is left).
  static Result<std::unique_ptr<Session>> start(Submitter& submitter, const Job& job, Generator::Meters meters,
                                                WorkerThread worker = {}, bool hold = false);
  /// Ends the hold. Before it, no MD is bound: memory() can be registered.
  void begin();
  [[nodiscard]] std::span<std::byte> memory() const { return generator_->memory(); }
  /// Halts. Frees the job's memory. Requires: unbound(), or the submitter is closed and no longer in use.
  ~Session() override;
  Session(const Session&) = delete;

  /// Starts nothing more; the second call does not wait for what is under way, either.
  void stop();
  /// No thread turns the job any more; its memory stays. A thread of its own ends the job before, within seconds.
  /// Requires: the thread of the worker runs.
  void halt();
  /// Blocks until the job is over, at most `timeout`; true when it is.
  bool wait(Duration timeout);
  [[nodiscard]] bool finished() const;
  /// After finished(): no worker has an MD of it any more.
  [[nodiscard]] bool unbound() const { return finished() && generator_->unbound(); }
  [[nodiscard]] Snapshot snapshot() const;
  /// Runs that are over.
  [[nodiscard]] std::vector<RunResult> results() const;

 private:
  Session(Submitter& submitter, std::unique_ptr<Generator> generator, WorkerThread worker, bool hold)
      : submitter_(submitter), worker_(std::move(worker)), generator_(std::move(generator)), held_(hold) {}
  [[nodiscard]] bool has_thread() const { return worker_.add == nullptr; }
  [[nodiscard]] bool is_held() const;
  unsigned turn(Instant now) override;
  [[nodiscard]] bool pending() override;
  [[nodiscard]] Instant next_deadline() override;
  unsigned wait_fds(std::span<int> out) override;
  [[nodiscard]] IdleGate& gate() override { return gate_; }
  void note_asleep() override {}
  void note_awake(Duration) override {}
  void run();
  void publish(Instant now);

  Submitter& submitter_;                  // the turning thread's, until finished
  WorkerThread worker_;                   // empty: the job has a thread of its own
  int eq_fd_ = -1;                        // for a thread of its own: the generator's queue has got an event
  std::unique_ptr<Generator> generator_;  // the turning thread's, until finished
  IdleGate gate_;                         // the turning thread's: notified of the begin and of stops
  std::thread thread_;
  bool is_turned_ = false;  // by the worker's thread; the caller's
  std::atomic<bool> held_;
  std::atomic<unsigned> stops_wanted_{0};
  // The turning thread's:
  unsigned stops_done_ = 0;
  bool over_ = false;
  Instant last_turn_ = kNever;
  Instant published_ = kNever;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  bool finished_ = false;
  Snapshot snapshot_;
  std::vector<RunResult> results_;
};

}  // namespace ulnet::perf
