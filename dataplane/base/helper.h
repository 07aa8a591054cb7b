// A helper runs jobs that block, one at a time, beside the thread that turns control. Thread: control, except for the
// jobs. A node gets a helper from its creator: ThreadHelper (host/thread_helper.h) in a process, a simulated one in
// tests.
#pragma once
#include "dataplane/base/result.h"
#include "dataplane/base/time.h"

namespace ulnet {

class Helper {
 public:
  class Job {
   public:
    /// May block. Runs on the helper.
    virtual void run() = 0;

   protected:
    ~Job() = default;
  };
  virtual ~Helper() = default;
  /// To call once, before start(). Errors: of the system, if it has no thread.
  [[nodiscard]] virtual Result<void> open() = 0;
  /// Starts a job, which stays until ended() has returned true, or close() has returned. Requires: no job is under way.
  virtual void start(Job& job, Instant now) = 0;
  /// True once per job, when it has ended.
  [[nodiscard]] virtual bool ended(Instant now) = 0;
  /// Control's re-check before sleep: would ended() return true?
  [[nodiscard]] virtual bool pending() = 0;
  /// When ended() may return true without a wake-up; kForever: the helper wakes control.
  [[nodiscard]] virtual Instant next_deadline() const = 0;
  /// Waits for the job under way. From now on nothing runs.
  virtual void close() = 0;
};

}  // namespace ulnet
