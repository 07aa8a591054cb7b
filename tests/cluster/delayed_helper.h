// The helper of a simulated node: a job takes a while of virtual time, and then runs at once.
#pragma once
#include <utility>

#include "dataplane/base/helper.h"

namespace ulnet::test {

class DelayedHelper final : public Helper {
 public:
  Duration delay{};  ///< of each job
  [[nodiscard]] Result<void> open() override { return {}; }
  void start(Job& job, Instant now) override {
    ULNET_CHECK(job_ == nullptr);
    job_ = &job;
    at_ = now + delay;
  }
  [[nodiscard]] bool ended(Instant now) override {
    if (at_ > now) return false;
    at_ = kForever;
    std::exchange(job_, nullptr)->run();
    return true;
  }
  [[nodiscard]] bool pending() override { return false; }
  [[nodiscard]] Instant next_deadline() const override { return at_; }
  void close() override { at_ = kForever; }

 private:
  Job* job_ = nullptr;
  Instant at_ = kForever;
};

}  // namespace ulnet::test
