// A stand-in for a submitter's home worker on a real Host thread, so that a job may be an item beside it.
#pragma once
#include <gtest/gtest.h>

#include <atomic>

#include "dataplane/host/turnable.h"
#include "tests/unit/lib/fake_worker.h"

namespace ulnet::test {

/// The stand-in for a home worker, as an item of a Host thread.
class WorkerItem final : public Turnable {
 public:
  explicit WorkerItem(Submitter& submitter) : fake_(submitter) { EXPECT_TRUE(gate_.open().has_value()); }
  unsigned turn(Instant) override {
    fake_.hold = hold;
    const unsigned done = fake_.run();
    fake_.seen.clear();
    return done;
  }
  bool pending() override { return spins; }
  Instant next_deadline() override { return kForever; }
  unsigned wait_fds(std::span<int>) override { return 0; }
  IdleGate& gate() override { return gate_; }
  void note_asleep() override {}
  void note_awake(Duration) override {}
  std::atomic<bool> hold{false};   ///< no operation ends
  std::atomic<bool> spins{false};  ///< nobody wakes it for calls of another thread

 private:
  FakeWorker fake_;
  IdleGate gate_;
};

}  // namespace ulnet::test
