// A helper with a thread of its own. Threads: that of control; the Runner belongs to the helper's thread.
#pragma once
#include "dataplane/base/helper.h"
#include "dataplane/host/threads.h"

namespace ulnet {

/// A helper with a thread of its own, from open() to close().
class ThreadHelper final : public Helper {
 public:
  /// `control`: of the thread that turns control; outlives this.
  explicit ThreadHelper(IdleGate& control) : control_(control) {}
  /// Errors: EMFILE, EAGAIN.
  [[nodiscard]] Result<void> open() override;
  void start(Job& job, Instant now) override;
  [[nodiscard]] bool ended(Instant) override {
    Job* job = nullptr;
    return ended_.pop(job);
  }
  [[nodiscard]] bool pending() override { return !ended_.empty(); }
  [[nodiscard]] Instant next_deadline() const override { return kForever; }
  void close() override { thread_.stop(); }

 private:
  /// The item that the thread turns. Not the helper itself: both interfaces have a pending().
  struct Runner final : Turnable {
    explicit Runner(ThreadHelper& all) : all_(all) {}
    unsigned turn(Instant now) override;
    [[nodiscard]] bool pending() override { return !all_.jobs_.empty(); }
    [[nodiscard]] Instant next_deadline() override { return kForever; }
    unsigned wait_fds(std::span<int>) override { return 0; }
    [[nodiscard]] IdleGate& gate() override { return gate_; }
    void note_asleep() override {}
    void note_awake(Duration) override {}
    ThreadHelper& all_;
    IdleGate gate_;
  };

  IdleGate& control_;
  SpscRing<Job*> jobs_{2};   // control: w, thread: r
  SpscRing<Job*> ended_{2};  // thread: w, control: r
  Runner runner_{*this};
  PthreadLauncher launcher_{1};
  HostThread thread_{{.name = "ulnet-helper", .idle = {.mode = IdleMode::kInterrupt}}};
};

}  // namespace ulnet
