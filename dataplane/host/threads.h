// A Host thread, pinned to a CPU. The thread turns one Worker of each Node placed on it, and items of applications
// beside the workers. The thread sleeps when none of them has work. The set of Turnables can change while the thread
// runs: control sends a change through a ring, the thread acknowledges. Threads: add, remove, stop and wait belong to
// control; stats() to anyone; the rest is the thread's own.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/limits.h"
#include "dataplane/base/ring.h"
#include "dataplane/host/idle_policy.h"
#include "dataplane/host/launcher.h"
#include "dataplane/host/turnable.h"

namespace ulnet {

/// Sums since the thread started. The time from the top of one turn to the top of the next counts as busy if the turn
/// found work.
struct HostThreadStats {
  uint64_t turns = 0;
  uint64_t turns_with_work = 0;
  uint64_t sleeps = 0;
  Duration busy{};
  Duration spinning{};  ///< turned, found nothing
  Duration asleep{};
  uint64_t busy_cycles = 0;  ///< of the time-stamp counter; 0 on machines without
  bool pinned = false;
};

class HostThread {
 public:
  struct Config {
    std::string name = "ulnet";  ///< as `top -H` shows it, 15 characters
    int cpu = -1;                ///< to pin itself to; -1 = the thread does not pin itself (the launcher may)
    IdlePolicy::Config idle;
  };
  /// Number of a change; counts up.
  using Ticket = uint32_t;

  explicit HostThread(const Config& config);
  ~HostThread();
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  /// Starts it as `worker` of the launcher, which must outlive it. Errors: EMFILE, and those of Launcher::launch.
  [[nodiscard]] Result<void> start(Launcher& launcher, unsigned worker);
  /// Requests that the thread turns `item`, or stops turning it. Until the change is done the thread may or may not
  /// turn `item`; after a removal it never touches it again. Errors: EAGAIN (kHostInbox changes under way), ENOSPC
  /// (kTurnablesMax).
  [[nodiscard]] Result<Ticket> add(Turnable& item);
  [[nodiscard]] Result<Ticket> remove(Turnable& item);
  [[nodiscard]] bool done(Ticket ticket) const { return int32_t(done_.load(std::memory_order_acquire) - ticket) >= 0; }
  /// Blocks until the change is done, for one turn of the thread: at start and stop, or when a load begins or ends.
  void wait(Ticket ticket) const;
  /// Lets the Turnables of the thread run dry (two turns without work, at most kHostDrainMax), then ends it. Afterwards
  /// the thread does not touch them.
  void stop();
  [[nodiscard]] HostThreadStats stats() const;

 private:
  struct Change {
    Turnable* item = nullptr;
    bool add = false;
  };
  static int entry(void* self);
  void run();
  unsigned turn_all(Instant now);
  unsigned take_changes();
  Duration sleep_all(Instant now);
  [[nodiscard]] bool any_pending();
  [[nodiscard]] bool patient();
  Result<Ticket> ask(const Change& change);

  Config config_;
  Launcher* launcher_ = nullptr;
  unsigned worker_ = 0;
  bool started_ = false;       // control
  uint32_t asked_ = 0;         // control
  uint32_t items_wanted_ = 0;  // control
  IdleGate gate_;
  SpscRing<Change> changes_{kHostInbox};
  std::vector<Turnable*> items_;   // thread
  std::atomic<uint32_t> done_{0};  // thread: w, control: r
  std::atomic<bool> stop_{false};  // control: w, thread: r
  // While true, the object belongs to the thread. Launch and join order memory, too, but sanitizers do not see those of
  // DPDK.
  std::atomic<bool> handed_over_{false};
  struct Sums {  // thread: w, anyone: r
    std::atomic<uint64_t> turns{0}, turns_with_work{0}, sleeps{0}, busy{0}, spinning{0}, asleep{0}, busy_cycles{0};
    std::atomic<bool> pinned{false};
  };
  alignas(kCacheLine) Sums sums_;
};

}  // namespace ulnet
