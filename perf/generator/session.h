// A job under way on a thread of its own: the generator's application thread, and a mailbox through which others see
// how far it is. The submitter belongs to that thread from start to finished(). Threads: any may call, but for the
// destructor.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "dataplane/base/idle_gate.h"
#include "perf/generator/generator.h"

namespace ulnet::perf {

class Session {
 public:
  /// Starts at once; with `hold`, only when begin() is called. Errors: those of Generator::create, EAGAIN (no thread is
  /// left).
  static Result<std::unique_ptr<Session>> start(Submitter& submitter, const Job& job, Generator::BusyCycles busy_cycles,
                                                bool hold = false);
  /// Ends the hold. Before it, no MD is bound: memory() can be registered.
  void begin();
  [[nodiscard]] std::span<std::byte> memory() const { return generator_->memory(); }
  /// Stops and joins. Frees the job's memory. Requires: unbound(), or the submitter is closed and no longer in use.
  ~Session();
  Session(const Session&) = delete;

  /// Starts nothing more; the second call does not wait for what is under way, either.
  void stop();
  /// Stops and waits for the thread; the job's memory stays. For the end of a process, after the workers have stopped.
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
  Session(Submitter& submitter, std::unique_ptr<Generator> generator, int eq_fd, bool hold)
      : submitter_(submitter), eq_fd_(eq_fd), generator_(std::move(generator)), held_(hold) {}
  void run();
  void sleep(Instant deadline, unsigned stops_done);
  void publish(Instant now);

  Submitter& submitter_;                  // the thread's, until finished
  const int eq_fd_;                       // readable when the generator's queue has got an event
  std::unique_ptr<Generator> generator_;  // the thread's, until finished
  IdleGate gate_;                         // the thread's: notified of stops
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<unsigned> stops_wanted_{0};
  // Under mutex_:
  bool held_;
  bool finished_ = false;
  Snapshot snapshot_;
  std::vector<RunResult> results_;
};

}  // namespace ulnet::perf
