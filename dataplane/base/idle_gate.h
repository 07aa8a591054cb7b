// How a thread goes to sleep and is woken without a lost wake-up. There is one IdleGate per worker and one for control.
// When a thread should sleep: dataplane/host/idle_policy.h.
//
// The owner, when a turn found nothing:    gate.arm(); if (!pending()) gate.wait(...); gate.disarm();
// A producer, once for a batch of items:   ring.push(item); ring.push(item); gate.notify(ring);
// A thread that sets a flag of the owner:  flag.store(true, seq_cst); gate.notify_stored();
//
// Why no wake-up is lost: four operations are seq_cst, so they have one order. The producer stores the ring's index
// (fence_pushes(), the first step of notify()), then loads the state. The owner stores the state (arm()), then loads
// the index (SpscRing::empty(), which pending() calls for each ring). If the producer's load comes after arm(), it
// reads kArmed and wakes the owner, or it reads kNotified. In the second case another thread has woken the owner, which
// turns and arms the gate again before its next sleep. If the producer's load comes before arm(), the index was stored
// earlier still: the owner's load returns it, and the owner does not block. A flag takes the place of the index in the
// same argument.
//
// A push alone is not in that order: it is a release store, which the processor may delay until after the load of the
// state. An owner that is awake sees the item anyway; an owner that sleeps may never see it. So each producer calls
// notify() after its last push, before it blocks itself:
// - a worker marks each ring that it pushed to, and calls notify_pushed() near the end of its turn (stages/post.cc).
//   Its own re-check, has_waiters(), fails while a mark is left;
// - Submitter::send(), control's Outbox, SelfSubmitter, HostThread::ask() and dpdk::StackMesh notify after each push or
//   run of pushes;
// - each event queue that an application polls has a gate of its own. A worker marks the queues as it marks rings;
// - no notify() follows where the consumer never sleeps on a gate: a submitter's freed slots, packets of a capture.
// Stand-alone fences instead of fence_pushes() would do the same, but TSan does not support them.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>

#include "dataplane/base/result.h"
#include "dataplane/base/ring.h"
#include "dataplane/base/time.h"

namespace ulnet {

class IdleGate {
 public:
  /// Without descriptor: for simulations. notify() then only leaves a mark and wait() returns at once.
  IdleGate() = default;
  ~IdleGate();
  IdleGate(const IdleGate&) = delete;
  IdleGate& operator=(const IdleGate&) = delete;

  /// Owner, before the first arm(): gives the gate a descriptor, so that threads can sleep on it. Errors: EMFILE.
  [[nodiscard]] Result<void> open();

  /// The producer of `rings`, after its last push. Wakes the owner if it sleeps or is about to. Costs a full barrier
  /// for each ring and one load while the owner is awake; one system call per sleep.
  template <class... T>
  void notify(SpscRing<T>&... rings) {
    static_assert(sizeof...(T) > 0, "after a store that is no push: notify_stored()");
    (rings.fence_pushes(), ...);
    notify_stored();
  }
  /// Any thread. Requires: the caller has stored the state that the owner's re-check reads with seq_cst, or under a
  /// mutex that the re-check locks. A push is no such store: see notify().
  void notify_stored() {
    if (state_.load(std::memory_order_seq_cst) == kArmed) wake();
  }

  /// Owner: from here on notify() wakes. Every input is to be checked again after it.
  void arm() { state_.store(kArmed, std::memory_order_seq_cst); }
  /// Owner, after arm(): blocks until notify(), until one of `others` is readable, or until `deadline`; `now` is the
  /// time of the turn. At most kWaitFdsMax - 1 others. May return early; never sleeps through a notify.
  void wait(std::span<const int> others, Instant deadline, Instant now);
  /// Owner: awake again. Returns true when somebody has notified since arm().
  bool disarm();

  /// Owner, between arm() and disarm(): somebody has notified.
  [[nodiscard]] bool notified() const { return state_.load(std::memory_order_seq_cst) == kNotified; }
  /// Readable after a notify between arm() and disarm(); -1 without. For a thread that sleeps on several gates at once.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  enum State : uint32_t { kAwake, kArmed, kNotified };
  void wake();
  void drain();

  alignas(kCacheLine) std::atomic<uint32_t> state_{kAwake};  // owner: w; producers: kArmed -> kNotified
  int fd_ = -1;
  uint64_t owed_ = 0;  ///< owner: signals that were or will be written and have not been read
};

/// Blocks until one of `fds` is readable or `deadline` has come; `now` is the time of the turn. Negative ones are left
/// out. Requires: at most kWaitFdsMax. Returns true when one is readable.
bool wait_readable(std::span<const int> fds, Instant deadline, Instant now);

}  // namespace ulnet
