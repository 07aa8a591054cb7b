// The rings between the threads of one Node, and the messages in them. One ring pair per ordered pair of workers (work,
// and what comes back), one ring each way between control and each worker. What finds a ring full waits in the
// producer's outbox.
#pragma once
#include <atomic>
#include <memory>
#include <type_traits>
#include <vector>

#include "dataplane/base/idle_gate.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/ring.h"
#include "dataplane/state/posted.h"
#include "dataplane/state/view.h"
#include "lnd/lnd.h"

namespace ulnet {

class Submitter;
struct RouterBlock;

/// From worker to worker: an object whose ownership passes.
struct PostItem {
  PostKind kind = PostKind::kNone;
  Posted* object = nullptr;
};

enum class ControlKind : uint8_t {
  kLnd,             ///< for an LND's worker half: `lnd`
  kResolved,        ///< control has looked `lnd.nid` up: a newer view is out, or `error`; `a` = 1: send it undiscovered
  kSubmitterOpen,   ///< `object`: Submitter
  kSubmitterClose,  ///< `object`: Submitter; answered by kSubmitterClosed when its last MD is gone
  kRouterBlock,     ///< `object`: RouterBlock to use
  kRouterRetire,    ///< `object`: RouterBlock to give back
  kNiClose,         ///< `object`: NiSlice; answered by kNiDrained
  kPeerCredits,  ///< `object`: PeerSlice, to its server: it has `a` tx credits and `lnd.a` router credits from now on
  kPeerAsk,      ///< `lnd.peer_ni`, which no view names any more; `object`: its PeerLocal of this worker, `lnd.object`:
                 ///< its PeerSlice when this worker serves it; `lnd.b`: which ask. Answered by kPeerAnswer
  kPortalLazyOff,  ///< `a`: portal: those who wait are matched once more, then dropped
  kResetExtremes,  ///< all minima and maxima start anew: credits, router buffers, latencies, messages in being
  kResetPools,     ///< those of the router buffers alone
};
struct ControlItem {
  ControlKind kind = ControlKind::kLnd;
  int32_t error = 0;
  uint64_t a = 0;
  void* object = nullptr;
  LndMsg lnd;
};

enum class WorkerKind : uint8_t {
  kLnd,              ///< for an LND's control half
  kResolve,          ///< look `lnd.nid` up, `a` = 1: bring it up to date; then answer kResolved
  kSubmitterClosed,  ///< `object`
  kRouterRetired,    ///< `object`
  kNiDrained,        ///< `object`: NiSlice
  kPeerAnswer,  ///< `lnd.peer_ni`, `lnd.b` as asked; `a` = 1: nothing of this worker names its memory, nor will before
                ///< a view does
};
struct WorkerItem {
  WorkerKind kind = WorkerKind::kLnd;
  uint64_t a = 0;
  void* object = nullptr;
  LndMsg lnd;
};

static_assert(std::is_same_v<std::underlying_type_t<WorkerKind>, decltype(Owed::core_kind)>);

/// One worker's published state. A worker may use the view of `epoch_seen` from the moment at which it sets `awake`,
/// in a turn, until it clears it (Worker::note_asleep).
struct alignas(kCacheLine) WorkerState {
  std::atomic<uint64_t> epoch_seen{0};  ///< worker: w, control: r
  std::atomic<bool> awake{false};       ///< worker: w (true: seq_cst, before it loads the view), control: r
};

/// Everything that the threads of one Node share.
struct Mesh {
  Mesh(unsigned workers, uint32_t ring_size, IdleGate* const* gates, IdleGate* control_gate_);
  const unsigned worker_count;
  struct Pair {
    explicit Pair(uint32_t size) : work(size), back(size) {}
    SpscRing<PostItem> work, back;
  };
  std::vector<std::unique_ptr<Pair>> pairs;                       ///< [from * worker_count + to]
  std::vector<std::unique_ptr<SpscRing<ControlItem>>> to_worker;  ///< control -> worker
  std::vector<std::unique_ptr<SpscRing<WorkerItem>>> to_control;  ///< worker -> control
  std::vector<IdleGate*> gates;                                   ///< by worker
  IdleGate* control_gate;
  std::atomic<const ViewSet*> view{nullptr};  ///< control: w (seq_cst exchange), workers: r
  std::unique_ptr<WorkerState[]> states;
  std::atomic<uint64_t> divert_wanted{0};  ///< bit per worker: some Message.divert was set for it
  std::atomic<uint64_t> recall_wanted{0};  ///< the same of Message.recall
  static_assert(kWorkersMax <= 64, "divert_wanted and recall_wanted have a bit for each worker");

  Pair& pair(unsigned from, unsigned to) { return *pairs[from * worker_count + to]; }
};

}  // namespace ulnet
