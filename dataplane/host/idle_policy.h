// When a worker sleeps, yields or turns again. Pure: no clock, no thread. How it sleeps: dataplane/base/idle_gate.h.
#pragma once
#include <cstdint>

#include "dataplane/base/time.h"

namespace ulnet {

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

/// When to sleep. A thread that spins must not keep the CPU from the thread that it waits for, which may be the other
/// end of the connection. Therefore a spinning worker yields every few turns. If a yield takes long, another thread
/// waits for this CPU: the CPU is crowded. A preemption while the worker spins shows the same. The adaptive worker then
/// sleeps at once for the next idle times.
class IdlePolicy {
 public:
  struct Config {
    IdleMode mode = IdleMode::kAdaptive;
    Duration spin = 50us;            ///< adaptive: polled at least this long after the last work ...
    uint32_t empty_turns_min = 32;   ///< ... and at least this many turns (a slow turn is no reason to sleep)
    uint32_t yield_every = 4;        ///< adaptive: empty turns between two yields
    uint32_t busy_yield_every = 16;  ///< busy: the same
    Duration crowded = 10us;         ///< a turn with its yield that takes longer shows a crowded CPU
    Duration preempted = 500us;   ///< so does a turn without yield that takes longer, if the thread lost its CPU in it
    uint32_t crowded_idles = 8;   ///< idle times without spinning after that
  };
  explicit IdlePolicy(Config config) : config_(config) {}

  /// After each turn: `now` of that turn, and whether it found work. `patient`: no spin makes faster what is awaited.
  [[nodiscard]] IdleAction next(Instant now, bool did_work, bool patient = false) {
    if (yielded_ && now - last_turn_ >= config_.crowded) sleep_at_once(config_.crowded_idles);
    yielded_ = false;
    last_turn_ = now;
    if (did_work) {
      spun_ = false;
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
    if (sleep_at_once_ > 0 || spun_ || patient) return IdleAction::kSleep;  // also after a wake-up without work
    spun_ = empty_turns_ > config_.empty_turns_min && now - idle_since_ >= config_.spin;
    return spun_ ? IdleAction::kSleep : spin(config_.yield_every);
  }

  /// Does `patient` matter to next()?
  [[nodiscard]] bool heeds_patience() const { return config_.mode == IdleMode::kAdaptive; }

  /// An adaptive worker has had no work since its last turn with work, and has not slept.
  [[nodiscard]] bool spinning() const {
    return config_.mode == IdleMode::kAdaptive && empty_turns_ > 0 && sleep_at_once_ == 0 && !spun_;
  }
  /// A spinning worker's turn of this length: another thread may have had the CPU for its share. Less is no reason to
  /// sleep: the node's own threads and the system's take the CPU for a moment.
  [[nodiscard]] Duration long_turn() const { return config_.preempted; }
  /// That was so. Requires: spinning().
  void preempted() { sleep_at_once(config_.crowded_idles); }

 private:
  [[nodiscard]] IdleAction spin(uint32_t yield_every) {
    yielded_ = empty_turns_ % yield_every == 0;
    return yielded_ ? IdleAction::kYield : IdleAction::kTurn;
  }
  void sleep_at_once(uint32_t idles) {
    if (config_.mode == IdleMode::kAdaptive) sleep_at_once_ = idles;
  }

  Config config_;
  uint32_t empty_turns_ = 0;
  uint32_t sleep_at_once_ = 0;  ///< idle times left in which the worker does not spin
  bool spun_ = false;           ///< without work, in this idle time
  bool yielded_ = false;        ///< the last decision was kYield
  Instant idle_since_ = kNever;
  Instant last_turn_ = kNever;
};

}  // namespace ulnet
