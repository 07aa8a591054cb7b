// How a thread goes to sleep and is woken without a lost wake-up, and when it should. There is one IdleGate per worker
// and one for control.
//
// The owner, when a turn found nothing:    gate.arm(); if (!pending()) gate.wait(...); gate.disarm();
// A producer, once for a batch of items:   ring.push(item); ring.push(item); gate.notify(ring);
// A thread that sets a flag of the owner:  flag.store(true, seq_cst); gate.notify_stored();
//
// Why no wake-up is lost: four operations are seq_cst, so they have one order. The producer stores the ring's index
// (fence_pushes(), the first step of notify()), then loads the state. The owner stores the state (arm()), then loads
// the index (SpscRing::empty(), which pending() calls for each ring). If the producer's load comes after arm(), it
// reads kArmed and wakes the owner, or it reads kNotified: another thread has woken the owner, which turns and arms the
// gate again before its next sleep. If the producer's load comes before arm(), the index was stored earlier still: the
// owner's load returns it, and the owner does not block. A flag takes the place of the index in the same argument.
//
// A push alone is not in that order: it is a release store, which the processor may delay until after the load of the
// state. An owner that is awake sees the item anyway; an owner that sleeps may never see it. So each producer calls
// notify() after its last push, before it blocks itself:
// - a worker marks each ring that it pushed to, and calls notify_pushed() near the end of its turn (stages/post.cc).
//   Its own re-check, has_waiters(), fails while a mark is left;
// - Submitter::send(), control's Outbox, ControlPort, HostThread::ask() and dpdk::StackMesh notify after each push or
//   run of pushes;
// - no notify() follows where the consumer never sleeps on a gate: events that an application polls, a submitter's
//   freed slots, packets of a capture.
// Stand-alone fences instead of fence_pushes() would do the same, but TSan does not know them.
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

  /// Gives the gate a descriptor, so that threads can sleep on it. Before any other thread knows the gate. Errors:
  /// EMFILE.
  [[nodiscard]] Result<void> open();

  /// The producer of `rings`, after its last push. Wakes the owner if it sleeps or is about to. Costs a full barrier
  /// for each ring and one load while the owner is awake; one system call per sleep.
  template <class... T>
  void notify(SpscRing<T>&... rings) {
    static_assert(sizeof...(T) > 0, "after a store that is no push: notify_stored()");
    (rings.fence_pushes(), ...);
    notify_stored();
  }
  /// Any thread. Requires: what the owner's re-check shall see was stored with seq_cst, or under a mutex that the
  /// re-check locks. A push is no such store: see notify().
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

/// Blocks until one of `fds` is readable or `deadline` has come; `now` is the time of the turn. At most kWaitFdsMax;
/// those that are negative are left out. Returns true when one is readable.
bool wait_readable(std::span<const int> fds, Instant deadline, Instant now);

enum class IdleMode : uint8_t {
  kBusy,      ///< never sleeps
  kAdaptive,  ///< polls while there is work and a little longer, then sleeps
  kInterrupt  ///< sleeps as soon as a turn finds nothing
};
enum class IdleAction : uint8_t {
  kTurn,   ///< turn again at once
  kYield,  ///< let another thread that waits for this CPU run, then turn again
  kSleep   ///< block until there is work
};

/// When to sleep. Pure: no clock, no thread. A thread that spins must not keep the CPU from the thread that it waits
/// for, which may be the other end of the connection: a spinning worker yields every few turns. If a yield takes long,
/// another thread wants this CPU (the CPU is crowded), and the adaptive worker sleeps at once for the next idle times.
class IdlePolicy {
 public:
  struct Config {
    IdleMode mode = IdleMode::kAdaptive;
    Duration spin = 50us;            ///< adaptive: polled at least this long after the last work ...
    uint32_t empty_turns_min = 32;   ///< ... and at least this many turns (a slow turn is no reason to sleep)
    uint32_t yield_every = 4;        ///< adaptive: empty turns between two yields
    uint32_t busy_yield_every = 16;  ///< busy: the same
    Duration crowded = 10us;         ///< a turn with its yield that takes longer shows a crowded CPU
    uint32_t crowded_idles = 64;     ///< idle times without spinning after that
  };
  explicit IdlePolicy(Config config) : config_(config) {}

  /// After each turn: `now` of that turn, and whether it found work.
  [[nodiscard]] IdleAction next(Instant now, bool did_work) {
    const bool was_crowded = yielded_ && now - last_turn_ >= config_.crowded;
    yielded_ = false;
    last_turn_ = now;
    if (config_.mode == IdleMode::kAdaptive && was_crowded) sleep_at_once_ = config_.crowded_idles;
    if (did_work) {
      empty_turns_ = 0;
      return IdleAction::kTurn;
    }
    if (empty_turns_++ == 0) {
      idle_since_ = now;
      if (sleep_at_once_ > 0) --sleep_at_once_;
    }
    switch (config_.mode) {
      case IdleMode::kBusy: return spin(config_.busy_yield_every);
      case IdleMode::kInterrupt: return IdleAction::kSleep;
      case IdleMode::kAdaptive: break;
    }
    if (sleep_at_once_ > 0) return IdleAction::kSleep;
    const bool spun = empty_turns_ > config_.empty_turns_min && now - idle_since_ >= config_.spin;
    if (!spun) return spin(config_.yield_every);
    empty_turns_ = config_.empty_turns_min;  // stays there: a wake-up without work sleeps again at once
    return IdleAction::kSleep;
  }

 private:
  [[nodiscard]] IdleAction spin(uint32_t yield_every) {
    yielded_ = empty_turns_ % yield_every == 0;
    return yielded_ ? IdleAction::kYield : IdleAction::kTurn;
  }

  Config config_;
  uint32_t empty_turns_ = 0;
  uint32_t sleep_at_once_ = 0;  ///< idle times left in which the worker does not spin
  bool yielded_ = false;        ///< the last decision was kYield
  Instant idle_since_ = kNever;
  Instant last_turn_ = kNever;
};

}  // namespace ulnet
