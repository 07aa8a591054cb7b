// Everything that one worker of one Node owns. Wiring only: the rules live beside it in stages/ (operation, send,
// egress, receive, forward, finish) and in select/ (path), as functions that take a Worker&. Code without a Worker&
// cannot call them: that is the thread rule.
#pragma once
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/counters.h"
#include "dataplane/base/gauge.h"
#include "dataplane/base/rng.h"
#include "dataplane/base/slab.h"
#include "dataplane/base/wheel.h"
#include "dataplane/state/inbox.h"
#include "dataplane/state/loop_watch.h"
#include "dataplane/state/message.h"
#include "dataplane/state/parked.h"
#include "dataplane/state/portal.h"
#include "dataplane/state/requests_seen.h"
#include "dataplane/state/router_buffers.h"
#include "dataplane/state/slices.h"
#include "dataplane/state/submitter.h"
#include "lnd/lnd.h"

namespace ulnet {

inline constexpr unsigned kLndsMax = 8;         ///< LNDs of one node
inline constexpr unsigned kLndLo = 0;           ///< loopback is always registered first
inline constexpr uint16_t kSubmittersMax = 64;  ///< per worker
static_assert(kLndsMax - 1 <= std::numeric_limits<decltype(NiView::lnd)>::max());
static_assert(kLndsMax - 1 <= std::numeric_limits<decltype(NiSlice::lnd)>::max());
static_assert(kLndsMax - 1 <= std::numeric_limits<decltype(LndMsg::lnd)>::max());
static_assert(kSubmittersMax - 1 <= std::numeric_limits<decltype(MdHandle::submitter)>::max());
static_assert(kWorkersMax <= std::numeric_limits<decltype(MdHandle::worker)>::max(), "all ones is no worker");

/// Pool sizes of one worker.
struct WorkerSize {
  uint32_t operations = 8192;  ///< puts and gets of this node in being
  uint32_t incoming = 4096;    ///< PUTs and GETs for this node in being
  uint32_t parked_peers = 1024;
  uint32_t control_queue = 4096;  ///< messages of drivers to control that no object owes
};

class Worker {
 public:
  /// Its pools lie in `near_memory`, which outlives it; null: on the heap.
  Worker(WorkerId id, Mesh& mesh, const WorkerSize& size, uint64_t interface_cookie, uint64_t seed,
         WorkerMemory* near_memory = nullptr);
  ~Worker();
  Worker(const Worker&) = delete;

  /// Registers the worker half of an LND (start-up only). Requires: `number` is the next one, and below kLndsMax.
  void add_lnd(unsigned number, std::unique_ptr<Lnd> lnd);

  /// One bounded turn; returns work done. See turn.cc.
  unsigned turn(Instant now);
  /// The re-check before sleep: would a turn find something? seq_cst loads.
  [[nodiscard]] bool pending();
  /// A driver waits for much of a large payload, which no spin makes faster.
  [[nodiscard]] bool patient() const;
  [[nodiscard]] Instant next_deadline();
  /// This worker uses no view until its next turn: control may free them all. Before each sleep, and after the last
  /// turn. A turn says by itself that the worker is awake.
  void note_asleep();

  const WorkerId id;
  Mesh& mesh;
  WorkerMemory* const memory;       ///< of its pools; control's
  const uint64_t interface_cookie;  ///< names this life of the node in wire handles
  const ViewSet* view = nullptr;    ///< valid within a turn
  Instant now = kNever;             ///< of this turn
  uint32_t turn_number = 0;         ///< of this turn; never 0 in one
  Rng rng;
  WorkerCounters counters;

  Slab<Operation> operations;
  /// Operations that only the node's own submitter gets: what is parked for discovery must not keep it from happening.
  [[nodiscard]] uint32_t operations_reserve() const { return std::min(kOperationsReserve, operations.capacity() / 2); }
  Slab<Incoming> incoming;
  /// Messages of `incoming` that only receives for the reserved portal get.
  [[nodiscard]] uint32_t incoming_reserve() const { return std::min(kIncomingReserve, incoming.capacity() / 8); }
  /// Puts, gets and receives of this worker's submitters; forwarded messages do not count.
  [[nodiscard]] uint64_t messages_in_use() const { return operations.out() + incoming.out(); }
  RequestsSeen requests_seen;  ///< of those that `incoming` had a message for
  Wheel<Operation> deadlines;  ///< of operations at home here
  Wheel<Tx> tx_deadlines;      ///< of leases served here
  Parked parked;
  List<NiSlice, NiWaitTag> nis_waiting;  ///< NIs for whose credits messages wait
  std::array<Portal, kPortalCount> portals;
  std::array<RouterPool, kRouterPools> pools;
  PeerLocal hop_unknown{PeerNiId{}};  ///< stands for next hops that control looks up: they have one share of a pool
  LoopWatch loop_watch;               ///< of what goes on to another router
  List<IncomingShare, ShareTag> shares_waiting;  ///< peer NIs with receives that wait for a message of `incoming`
  uint32_t shares_to_look = 0;                   ///< of them, from the front: a message may be free for these
  Instant shares_due = kForever;                 ///< no share is to be dropped before
  IncomingShare own_share;                       ///< of what this node sends to itself
  List<RxSlot, PostTag> ready_slots;             ///< held receives whose verdict is set: resumed between stages
  List<RxSlot, HeldTag> held_router;             ///< held for a router credit or buffer, oldest first
  List<RxSlot, RxTag> delayed_receives;          ///< held by delay rules
  List<Tx, TxTag> delayed_sends;                 ///< the same, before the driver gets them
  Instant delays_due = kForever;                 ///< no message of these two lists goes on before
  List<RxSlot, ReceivingTag> receiving;          ///< payload on its way into an MD
  List<RxSlot, ReceivingTag> coming;             ///< payload on its way into a router buffer, oldest first
  List<Posted, PostTag> local;                   ///< what this worker posted to itself
  List<EventQueue, EqWaitTag> eqs_waiting;
  List<EventQueue, EqPushedTag> eqs_pushed;  ///< polled queues that got events since notify_pushed()
  List<Charges, ChargeTag> charged;          ///< interfaces with failures that are not reported to control
  Instant silence_look_at = kNever;          ///< when operations without an answer are looked for next
  Instant stays_due = kForever;              ///< when messages that stay on an avoided rail are looked at
  Instant copies_look_at = kNever;  ///< when operations without an answer may be sent again; the next view: at once
  Wheel<Operation>::Place copies_first;                         ///< where that look begins in `deadlines`
  uint32_t silence_first = 0;                                   ///< that look begins with the operation of this number
  std::vector<List<Posted, PostTag>> outbox_work, outbox_back;  ///< by destination worker
  uint64_t pushed_work = 0, pushed_back = 0;  ///< bit per worker: its ring got items since notify_pushed()
  static_assert(kWorkersMax <= 64, "pushed_work and pushed_back have a bit for each worker");
  bool pushed_control = false;        ///< the same of the ring to control
  List<Owed, OwedTag> control_queue;  ///< waits for room in the ring to control
  Slab<Owed> control_asks;    ///< those in it that no object owes: one per peer parked for, the rest for drivers
  uint32_t driver_asks_most;  ///< of `control_asks`
  std::array<std::unique_ptr<Lnd>, kLndsMax> lnds;
  uint32_t lnd_count = 0;  ///< of `lnds`, from the first on
  [[nodiscard]] std::span<const std::unique_ptr<Lnd>> drivers() const { return std::span(lnds).first(lnd_count); }
  std::array<Submitter*, kSubmittersMax> submitters{};
  uint64_t submitters_open = 0;     ///< bit for each of `submitters` that is not null
  uint32_t submitters_closing = 0;  ///< of `submitters`
  uint32_t submitters_first = 0;    ///< whose calls come first in this turn
  uint32_t inbox_first = 0;         ///< the worker whose rings come first in this turn
  Tallies& tallies;                 ///< of this worker; in the mesh, for control to read
  Duration router_hold_timeout{};   ///< of the view, kept for when none may be looked at
  bool view_fast = false;           ///< NodeView::fast_detection, the same
  Instant held_look_at = kNever;    ///< when receives in held_router are looked at next
  /// Items that a turn takes from the rings of all workers.
  static constexpr size_t kBatchBack = 2 * kInboxBudget;  ///< returns
  static constexpr size_t kBatchWork = kInboxBudget;      ///< work
  std::vector<PostItem> batch;                            ///< scratch of the inbox stage
  std::array<ControlMsg, kControlBudget> control_batch;   ///< the same
  std::array<MovedAskMsg, kControlBudget> moved_asks;     ///< of this turn's messages of control
  uint32_t moved_asks_count = 0;
  std::array<Gauge, kRegionsMax + 1> region_users;  ///< by slot: segments of MDs in regions of applications
};

}  // namespace ulnet
