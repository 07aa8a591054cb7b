// `ulnet: perf_target: true`: a daemon that serves what ulnet-perf aims at (perf/generator/target.h), homed on worker
// 0: whatever way a message came, it finds the same memory, so that a put can be read back. Thread: control.
#pragma once
#include <memory>

#include "control/node.h"
#include "perf/generator/target.h"

namespace ulnet {

class PerfTarget {
 public:
  /// The node must be destroyed before this, or stop() have come to its end (idle()).
  explicit PerfTarget(Node& node) : node_(node) {}

  /// Opens portal 63 and serves. Errors: EBUSY (somebody else has the portal, or a stop is under way), those of
  /// submitters.
  [[nodiscard]] Result<void> start();
  /// Serves no more; memory is given back by turn(), when the worker has let go.
  void stop();
  /// Carries a stop on.
  void turn();
  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] bool idle() const { return target_ == nullptr; }
  [[nodiscard]] perf::Target::Counts counts() const {
    return target_ == nullptr ? perf::Target::Counts{} : target_->counts();
  }

 private:
  Node& node_;
  Submitter* submitter_ = nullptr;
  std::unique_ptr<perf::Target> target_;
  bool running_ = false;
  bool asked_back_ = false;
};

}  // namespace ulnet
