// One worker's part of a port as a Host thread turns it: the queue, the stack and the PortApp that uses them. A
// PortWorker sleeps on the queue's interrupt if there is one, else it polls with growing naps.
#pragma once
#include <climits>
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
  /// One turn; returns work done. An app that is not raw() gets no turn while the queue is stopped. A raw() app polls
  /// the queue alone, and always gets turns: only its receive() lets the worker begin to use the queue.
  virtual unsigned turn(Instant now) = 0;
  /// Uses the queue itself: no stack polls it.
  [[nodiscard]] virtual bool raw() const { return false; }
  /// Packets that it takes now. More stay in the device's queue.
  [[nodiscard]] virtual unsigned room() const { return UINT_MAX; }
  /// When turn() has something to do without packets.
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
  /// The sleep counts as useless until a turn finds work: the next one may last longer.
  void note_awake(Duration slept) override {
    nap_ = std::min(nap_ * 2, kNapMax);
    queue_.disarm_interrupt(slept);
  }

  /// Control: signals the worker to announce our addresses (again), and wakes it.
  void ask_announce() {
    announce_.store(true, std::memory_order_seq_cst);
    gate_.notify_stored();
  }
  /// Control: the link is down. Signals the worker to forget learned neighbours, and wakes it.
  void ask_forget() {
    forget_.store(true, std::memory_order_seq_cst);
    gate_.notify_stored();
  }
  /// Gives everything back to the pools, after the thread has released the worker.
  void finish(Instant now);
  /// Counters are for any thread, the rest for the worker.
  [[nodiscard]] const dpdk::Stack& stack() const { return stack_; }
  [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
  /// Cycles of the time-stamp counter in turns with work, and turns without. Of the latter, one in kIdleOneIn is
  /// measured. Any thread.
  [[nodiscard]] uint64_t busy_cycles() const { return busy_cycles_.get(); }
  [[nodiscard]] uint64_t idle_cycles() const { return idle_cycles_.get(); }

 private:
  PortWorker(dpdk::Port& port, unsigned queue, dpdk::StackMesh* mesh);
  /// False: packets stay in the device, and are no reason to stay awake.
  [[nodiscard]] bool has_room() const { return app_ == nullptr || app_->raw() || app_->room() > 0; }
  static constexpr unsigned kBudget = 64;
  static constexpr Duration kNapMin = 50us;
  static constexpr Duration kNapMax = 1ms;
  dpdk::PortQueue& queue_;
  dpdk::Stack stack_;
  std::unique_ptr<PortApp> app_;  // may be null
  IdleGate gate_;
  Instant now_ = kNever;
  Duration nap_ = kNapMin;  // how long the next sleep may last without an interrupt
  static constexpr unsigned kIdleOneIn = 64;
  Counter busy_cycles_, idle_cycles_;
  unsigned idle_left_ = kIdleOneIn;    // turns without work until the next is measured
  std::atomic<bool> announce_{false};  // control: w, worker: r
  std::atomic<bool> forget_{false};    // control: w, worker: r
  std::atomic<bool> done_{false};      // worker: w, control: r
};

}  // namespace ulnet
