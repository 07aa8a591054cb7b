// One worker's part of a port as a Host thread turns it: queue, stack and what is done with them; and how it sleeps: on
// the queue's interrupt where there is one, else by polling with growing naps.
#pragma once
#include <functional>
#include <memory>

#include "dataplane/host/clock.h"
#include "dataplane/host/turnable.h"
#include "lnd/net/dpdk/port.h"
#include "lnd/net/dpdk/stack.h"

namespace ulnet {

/// Work that a worker does with a port besides the stack. Thread: the worker.
class PortApp {
 public:
  virtual ~PortApp() = default;
  /// One turn; none while the queue is stopped. Returns work done. `queue` was not polled by anyone else for apps that
  /// are raw(): they are turned always, since only a receive() lets them in.
  virtual unsigned turn(Instant now) = 0;
  /// Uses the queue itself: no stack polls it.
  [[nodiscard]] virtual bool raw() const { return false; }
  /// When turn() has something to do by itself.
  [[nodiscard]] virtual Instant next_deadline() const { return kForever; }
  /// Gives all packets back. The last call.
  virtual void finish(Instant) {}
  [[nodiscard]] virtual bool done() const { return false; }
};

/// Makes the app of a queue's worker; the queue and the stack outlive it.
using PortAppMaker =
    std::function<Result<std::unique_ptr<PortApp>>(unsigned queue, dpdk::PortQueue&, dpdk::Stack&, const dpdk::Mac&)>;

class PortWorker final : public Turnable {
 public:
  /// `app` may be empty: then the stack answers, and that is all. Errors: those of `app`; EMFILE.
  [[nodiscard]] static Result<std::unique_ptr<PortWorker>> make(const PortAppMaker& app, dpdk::Port& port,
                                                                unsigned queue, dpdk::StackMesh* mesh);
  unsigned turn(Instant now) override;
  [[nodiscard]] bool pending() override;
  [[nodiscard]] Instant next_deadline() override;
  unsigned wait_fds(std::span<int> out) override;
  [[nodiscard]] IdleGate& gate() override { return gate_; }
  void note_asleep() override { queue_.arm_interrupt(); }
  /// A sleep was in vain until a turn finds work: the next one may last longer.
  void note_awake() override {
    nap_ = std::min(nap_ * 2, kNapMax);
    queue_.disarm_interrupt();
  }

  /// Control: announce our addresses (again), and wake for it.
  void ask_announce() {
    announce_.store(true, std::memory_order_seq_cst);
    gate_.notify_stored();
  }
  /// Control: the link is away. Who is there when it comes back is learnt anew.
  void ask_forget() {
    forget_.store(true, std::memory_order_seq_cst);
    gate_.notify_stored();
  }
  /// After the thread has let go: everything back to the pools.
  void finish(Instant now);
  /// Counters are for any thread, the rest for the worker.
  [[nodiscard]] const dpdk::Stack& stack() const { return stack_; }
  [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
  /// Cycles of the time-stamp counter in turns with work, and turns without. Any thread.
  [[nodiscard]] uint64_t busy_cycles() const { return busy_cycles_.get(); }
  [[nodiscard]] uint64_t idle_cycles() const { return idle_cycles_.get(); }

 private:
  PortWorker(dpdk::Port& port, unsigned queue, dpdk::StackMesh* mesh);
  static constexpr unsigned kBudget = 64;
  static constexpr Duration kNapMin = 50us;
  static constexpr Duration kNapMax = 1ms;
  dpdk::PortQueue& queue_;
  dpdk::Stack stack_;
  std::unique_ptr<PortApp> app_;  // may be null
  IdleGate gate_;
  Instant now_ = kNever;
  Duration nap_ = kNapMin;  // how long the next sleep may last without an interrupt
  Counter busy_cycles_, idle_cycles_;
  std::atomic<bool> announce_{false};  // control: w, worker: r
  std::atomic<bool> forget_{false};    // control: w, worker: r
  std::atomic<bool> done_{false};      // worker: w, control: r
};

}  // namespace ulnet
