// A submitter: how one application thread talks to one home worker, over one pair of SPSC rings. Every call returns at
// once; handles come from slots reserved here, so nothing waits for an answer. Results come as events.
// Threads: the public calls belong to one application thread (or all to callbacks on the home worker); the fields
// marked so belong to the worker.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/idle_gate.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/memory_locator.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/result.h"
#include "dataplane/base/ring.h"
#include "dataplane/state/call_messages.h"
#include "dataplane/state/eq.h"
#include "dataplane/state/md.h"

namespace ulnet {

/// How many of each a submitter can have at once.
struct SubmitterSize {
  uint32_t ops = 1024;  ///< puts, gets and other calls under way between application and worker
  uint32_t mds = 1024;
  uint32_t eqs = 16;
  uint32_t segment_blocks = 64;  ///< MDs with more than 4 segments at once
  bool reserve = false;          ///< the node's own: may use the operations that its worker keeps from all others
};

/// Errors: EINVAL (no ops, MDs or event queues; more than kSubmitterSlotsMax, kSubmitterBlocksMax).
[[nodiscard]] Result<void> submitter_size_check(const SubmitterSize& size);

/// Parameters of md_bind().
struct MdSpec {
  std::span<const Segment> segments;  ///< at most 256; the list is copied, the memory stays the caller's until kUnlink
  uint32_t threshold = kInfinite;     ///< operations after which it unlinks itself
  uint32_t max_size = 0;              ///< unlinks itself when less room is left (only without kMdManageRemote)
  uint32_t options = 0;               ///< MdOption
  void* user_ptr = nullptr;
  EqHandle eq;  ///< default: no events
  /// NUMA node of the memory, for the choice of the NI. UINT32_MAX: on a machine with several nodes, md_bind() looks up
  /// the node of the first byte.
  uint32_t numa = UINT32_MAX;
  uint32_t accelerator = UINT32_MAX;  ///< number of the accelerator that holds the memory; UINT32_MAX: none does
};

/// One put or get.
struct PutSpec {
  MdHandle md;
  Nid self;          ///< source NID; ANY = choose among all NIs
  ProcessId target;  ///< pid ANY = 12345, the only one that LNet uses
  uint32_t portal = 0;
  uint64_t match_bits = 0;
  uint32_t offset = 0;          ///< in the target's MD, when that is remote-managed
  uint64_t hdr_data = 0;        ///< put only
  bool ack = true;              ///< put only
  uint32_t md_offset = 0;       ///< part of the MD to send or fill
  uint32_t length = kInfinite;  ///< kInfinite = from md_offset to its end
  uint64_t user_data = 0;       ///< comes back in the event
  bool recovery = false;        ///< get only, for the node itself: goes to exactly the NID, and is never sent again
};

class Submitter {
 public:
  /// `number`: which submitter of its worker. Allocates everything it will ever need. Requires: the size was checked.
  Submitter(WorkerId home, uint16_t number, const SubmitterSize& size, IdleGate* worker_gate);
  /// From now on, md_bind() looks up NUMA nodes with it; null: with none. The locator stays the caller's.
  void locate_memory_by(const MemoryLocator* locator) { locator_ = locator; }

  /// Opens a polled queue of at least `size` events. The one call here that allocates (the queue): for start-up.
  /// Errors: EINVAL (size 0 or over kEqEventsMax), ENOSPC (all slots in use), EAGAIN.
  [[nodiscard]] Result<EqHandle> eq_open(uint32_t size);
  /// Opens a queue whose events call `callback(context, event)` on the home worker.
  [[nodiscard]] Result<EqHandle> eq_open(EventCallback callback, void* context);
  /// Takes up to out.size() events; returns how many. 0 for a callback queue or a stale handle.
  unsigned eq_poll(EqHandle eq, std::span<Event> out);
  /// A descriptor to sleep on: epoll_wait(), poll() or a loop of another library. Readable after eq_arm(), when an
  /// event has come. The queue's own: read nothing from it, and do not close it. The first call for a slot opens it.
  /// Errors: EXDEV, ENOENT, EINVAL (callback queue), EMFILE.
  [[nodiscard]] Result<int> eq_fd(EqHandle eq);
  /// eq_poll() would find nothing now, or the handle is stale.
  [[nodiscard]] bool eq_empty(EqHandle eq);
  /// Before a sleep on eq_fd(). False: do not sleep, but poll. Events are there, the handle is stale, or eq_fd() was
  /// not called. The next eq_poll() ends what this begins.
  [[nodiscard]] bool eq_arm(EqHandle eq);
  /// From now on no MD may be bound to the queue. The queue closes when its last MD is gone. The application can poll
  /// it until eq_open() takes its slot again. Errors: EXDEV, ENOENT, EAGAIN.
  [[nodiscard]] Result<void> eq_close(EqHandle eq);

  /// Errors: EXDEV (queue of another submitter), ENOENT (queue not open), EAGAIN (ring full: try again later). ENOSPC:
  /// all MD slots or segment blocks are in use. EINVAL: no or too many segments, a segment without memory, an MD of
  /// 4 GiB or more. EINVAL also: unknown option, threshold 0, max_size over the length. If a driver needs registered
  /// memory and a segment lies in no region (Node::region_add), control registers the segment, which is slow. Until
  /// then all calls of this submitter wait. If that fails, kUnlink has the status: the driver's, or ENOSPC (too many
  /// such segments).
  [[nodiscard]] Result<MdHandle> md_bind(const MdSpec& spec);
  /// Attaches a bound MD to a portal of the home worker; `any` NID or pid in `initiator` match all. A failure found by
  /// the worker (portal not homed there: EXDEV; not open: ENOENT) ends the MD with a kUnlink event of that status.
  /// Errors: EXDEV, ENOENT (MD not bound), EBUSY (attached already), EINVAL (portal over 63; MD with neither kMdPut nor
  /// kMdGet), EAGAIN.
  [[nodiscard]] Result<void> me_attach(PortalIndex portal, const ProcessId& initiator, uint64_t match_bits,
                                       uint64_t ignore_bits, MePosition position, MdHandle md);
  /// Accepted = exactly one final event will come (if the MD has a queue). Errors: EXDEV, ENOENT (MD not bound, or
  /// unlinked), EAGAIN (ring full). EINVAL: range beyond the MD, over 1 MiB, portal over 63, target ANY, or MD attached
  /// to a portal.
  [[nodiscard]] Result<void> put(const PutSpec& spec);
  [[nodiscard]] Result<void> get(const PutSpec& spec);
  /// Ends an MD: nothing new uses it; operations awaiting a response end with ECANCELED; kUnlink comes when its memory
  /// is free. Errors: EXDEV, ENOENT, EAGAIN.
  [[nodiscard]] Result<void> unlink(MdHandle md);

  [[nodiscard]] WorkerId home() const { return home_; }
  [[nodiscard]] uint16_t number() const { return number_; }
  [[nodiscard]] bool reserve() const { return reserve_; }
  /// MD slots neither free nor on their way back: 0 when everything was unlinked and polled.
  [[nodiscard]] uint32_t mds_in_use();

  // --- worker side: only the home worker touches these. A slot whose `bound` (or `open`) is false is the
  // application's: read nothing else of it ---
  struct Freed {
    bool is_md = true;
    uint32_t index = 0;
  };
  SpscRing<CallMsg>& calls() { return calls_; }
  Md& md_slot(uint32_t index) { return mds_[index]; }
  EventQueue& eq_slot(uint32_t index) { return eqs_[index]; }
  uint32_t md_slots() const { return uint32_t(mds_.size()); }
  uint32_t eq_slots() const { return uint32_t(eqs_.size()); }
  /// No MD is bound, no message names an MD or queue, no call waits.
  [[nodiscard]] bool unused() { return bound_mds == 0 && messages == 0 && calls_.empty(); }
  /// Reports to the application that a slot is free again. The ring has as many places as there are slots: never full.
  void worker_free(bool is_md, uint32_t index);
  alignas(kCacheLine) bool closing = false;  ///< worker only, as all of this line: control has requested it back
  bool registering = false;  ///< its first call binds an MD whose memory control registers; all calls wait
  uint32_t bound_mds = 0;
  uint32_t messages = 0;         ///< messages that use its MDs or queues
  uint32_t operations = 0;       ///< of them: its own puts and gets
  uint32_t events_owed = 0;      ///< of them: incoming, whose event is not posted yet
  uint32_t replies_leaving = 0;  ///< of those: GETs whose REPLY has not left
  uint32_t calls_looked = 0;     ///< calls in `calls()`, from the first on, that were looked at while the first waits

 private:
  Result<void> send(const CallMsg& call);
  /// The place of the next call, which send_next() sends.
  Result<CallMsg*> next_call();
  void send_next();
  [[nodiscard]] Result<uint32_t> operation_length(const PutSpec& spec) const;
  void operation_call(const PutSpec& spec, uint32_t length, OperationCall& out) const;
  void collect_freed();
  Result<EqHandle> eq_take(uint32_t ring_size, EventCallback callback, void* context);
  void md_fill(uint32_t index, const MdSpec& spec);
  [[nodiscard]] Result<void> md_usable(MdHandle md) const;
  [[nodiscard]] Result<void> eq_usable(EqHandle eq) const;
  [[nodiscard]] EventQueue* polled_queue(EqHandle eq);

  struct SlotState {  // application's view of a slot
    uint32_t generation = 0;
    bool used = false;
    bool unlinked = false;
    bool attached = false;
    bool armed = false;  // of an event queue: its gate
    uint32_t length = 0;
    uint32_t eq = UINT32_MAX;  // of an MD: its queue
    int32_t block = -1;        // segment block in use
  };
  alignas(kCacheLine) const WorkerId home_;
  const uint16_t number_;
  const bool reserve_;
  IdleGate* const gate_;
  const MemoryLocator* locator_ = nullptr;
  SpscRing<CallMsg> calls_;
  SpscRing<Freed> freed_;
  std::vector<Md> mds_;
  std::vector<EventQueue> eqs_;
  std::vector<SlotState> md_state_, eq_state_;
  std::vector<uint32_t> md_free_, eq_free_;
  std::vector<std::array<Segment, kMaxSegments>> blocks_;
  std::vector<int32_t> block_free_;
};

}  // namespace ulnet
