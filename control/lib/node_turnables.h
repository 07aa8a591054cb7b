// A Node as Host threads drive it: one Turnable for each worker, and one for its control side. Threads: as in
// host/turnable.h.
#pragma once
#include <memory>
#include <vector>

#include "control/node.h"
#include "dataplane/host/turnable.h"

namespace ulnet {

class NodeWorkerTurnable final : public Turnable {
 public:
  NodeWorkerTurnable(Node& node, WorkerId worker) : node_(node), worker_(worker) {}
  unsigned turn(Instant now) override { return node_.turn(worker_, now); }
  [[nodiscard]] bool pending() override { return node_.worker(worker_).pending(); }
  [[nodiscard]] bool patient() override { return node_.worker(worker_).patient(); }
  [[nodiscard]] Instant next_deadline() override { return node_.worker(worker_).next_deadline(); }
  unsigned wait_fds(std::span<int> out) override { return node_.worker_wait_fds(worker_, out); }
  [[nodiscard]] IdleGate& gate() override { return node_.worker_gate(worker_); }
  void note_asleep() override { node_.worker(worker_).note_asleep(); }
  void note_awake(Duration) override {}  // its next turn says so

 private:
  Node& node_;
  const WorkerId worker_;
};

class NodeControlTurnable final : public ControlTurnable {
 public:
  explicit NodeControlTurnable(Node& node) : node_(node) {}
  unsigned turn(Instant now) override { return node_.turn_control(now); }
  [[nodiscard]] bool pending() override { return node_.control_pending(); }
  [[nodiscard]] Instant next_deadline() override { return node_.next_deadline(); }
  void wait_fds(std::vector<int>& out) override { node_.wait_fds(out); }

 private:
  Node& node_;
};

/// One for each worker.
[[nodiscard]] inline std::vector<std::unique_ptr<Turnable>> worker_turnables(Node& node) {
  std::vector<std::unique_ptr<Turnable>> all;
  for (unsigned i = 0; i < node.worker_count(); ++i)
    all.push_back(std::make_unique<NodeWorkerTurnable>(node, WorkerId{uint16_t(i)}));
  return all;
}

}  // namespace ulnet
