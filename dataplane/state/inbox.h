// The rings between the threads of one Node. One ring pair per ordered pair of workers (work and returns), one ring
// each way between control and each worker. An item that finds a ring full waits in the producer's outbox.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "dataplane/base/idle_gate.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/ring.h"
#include "dataplane/state/posted.h"
#include "dataplane/state/ring_messages.h"
#include "dataplane/state/tallies.h"
#include "dataplane/state/view.h"

namespace ulnet {

/// One worker's published state. A worker may use the view of `epoch_seen` from the moment at which it sets `awake`,
/// in a turn, until it clears it (Worker::note_asleep).
struct alignas(kCacheLine) WorkerState {
  std::atomic<uint64_t> epoch_seen{0};  ///< worker: w, control: r
  std::atomic<bool> awake{false};       ///< worker: w (true: seq_cst, before it loads the view), control: r
};

/// Everything that the threads of one Node share.
struct Mesh {
  /// `near`: memory by worker, which outlives this; absent or null: the heap.
  Mesh(unsigned workers, uint32_t ring_size, uint32_t peer_nis_max, IdleGate* const* gates, IdleGate* control_gate_,
       const std::vector<WorkerMemory*>& near = {});
  const unsigned worker_count;
  struct Pair {
    explicit Pair(uint32_t size) : work(size), back(size) {}
    SpscRing<PostItem> work, back;
  };
  std::vector<std::unique_ptr<Pair>> pairs;                      ///< [from * worker_count + to]
  std::vector<std::unique_ptr<SpscRing<ControlMsg>>> to_worker;  ///< control -> worker
  std::vector<std::unique_ptr<SpscRing<WorkerMsg>>> to_control;  ///< worker -> control
  std::vector<IdleGate*> gates;                                  ///< by worker
  IdleGate* control_gate;
  std::atomic<const ViewSet*> view{nullptr};  ///< control: w (seq_cst exchange), workers: r
  std::unique_ptr<WorkerState[]> states;
  std::vector<Near<Tallies>> tallies;      ///< by worker
  std::atomic<uint64_t> divert_wanted{0};  ///< bit per worker: some Receiving::divert was set for it
  std::atomic<uint64_t> recall_wanted{0};  ///< the same of Sending::recall
  static_assert(kWorkersMax <= 64, "divert_wanted and recall_wanted have a bit for each worker");

  Pair& pair(unsigned from, unsigned to) {
    ULNET_CHECK(from < worker_count && to < worker_count);
    return *pairs[from * worker_count + to];
  }
};

}  // namespace ulnet
