// `ulnet: perf_target: true`: a daemon that serves the target of ulnet-perf (perf/generator/target.h), homed on worker
// 0. A message finds the same memory whichever way it came, so that a put can be read back. Thread: control.
#pragma once
#include <memory>

#include "control/node.h"
#include "perf/generator/target.h"

namespace ulnet {

class PerfTarget {
 public:
  /// Before this object is destroyed, the node must be destroyed, or stop() must have completed (idle()).
  explicit PerfTarget(Node& node) : node_(node) {}

  /// Opens portal 63 and serves. Errors: EBUSY (the portal has another user, or a stop is under way), those of
  /// submitters.
  [[nodiscard]] Result<void> start();
  /// Ends the service. turn() gives the memory back when the worker no longer uses it.
  void stop();
  /// Continues a stop.
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
