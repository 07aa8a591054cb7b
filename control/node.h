// A Node: one LNet identity. An object without globals; clock, randomness, LNDs and devices are handed in, so that a
// thousand nodes live in one test process. Wiring only: rules live in publish/, peers/, routes/, nis/, discovery/,
// apply/. Threads: the thread that drives worker w calls turn(w) and worker_*; the control thread calls everything
// else. Before these threads start and after they have ended, any thread may call.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/apply/applier.h"
#include "control/control.h"
#include "control/node_config.h"

namespace ulnet {

/// How long a stop may take before what is still under way is given up.
inline constexpr Duration kStopMax = 15s;
/// A router that stops first reports that it does not route. Forwarding goes on until its peers have acknowledged that,
/// and no buffer was in use for kRouterLeaveIdle, at most for kRouterLeaveMax.
inline constexpr Duration kRouterLeaveIdle = 100ms;
inline constexpr Duration kRouterLeaveMax = 2s;

class Node {
 public:
  /// A node that answers on loopback and is not configured yet. Errors: EINVAL (no workers, too many, the first LND is
  /// not loopback), EMFILE (event fds), and those of the loopback LND and the helper. EINVAL also: no helper for a
  /// driver that needs registered memory.
  [[nodiscard]] static Result<std::unique_ptr<Node>> create(const NodeConfig& config, NodeDeps deps, Instant now);
  /// Requires: no thread turns it any more. Without stop() before, what is under way is forgotten.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // --- turning -----------------------------------------------------------------------------------------------------
  /// One bounded turn of a worker; returns work done.
  unsigned turn(WorkerId worker, Instant now) { return c_.workers[worker.value]->turn(now); }
  [[nodiscard]] Worker& worker(WorkerId worker) { return *c_.workers[worker.value]; }
  [[nodiscard]] IdleGate& worker_gate(WorkerId worker) { return *c_.gates[worker.value]; }
  [[nodiscard]] unsigned worker_count() const { return c_.config.workers; }
  /// Descriptors that wake a worker's LNDs; returns how many.
  unsigned worker_wait_fds(WorkerId worker, std::span<int> out);
  /// One bounded turn of control; returns work done.
  unsigned turn_control(Instant now);
  /// The re-check before control sleeps: did a worker send something?
  [[nodiscard]] bool control_pending();
  /// When control has something to do by itself.
  [[nodiscard]] Instant next_deadline();
  /// Descriptors that make control's turn worth while; its gate's fd is not among them.
  void wait_fds(std::vector<int>& out);
  [[nodiscard]] IdleGate& control_gate() { return c_.gate; }

  // --- changes and pings -------------------------------------------------------------------------------------------
  /// Applies the changes whole or not at all; `done` is called once, from a later turn_control() or at once. Returns
  /// the number for Applier::withdraw().
  uint64_t apply(config::ChangeList changes, Applier::Done done, Applier::Note note = {}) {
    return applier_.submit(std::move(changes), std::move(done), std::move(note));
  }
  [[nodiscard]] Applier& applier() { return applier_; }
  void ping(const PingRequest& request, Pinger::Done done);
  [[nodiscard]] Control& control() { return c_; }

  // --- for applications in this process (libulnet) -------------------------------------------------------------------
  /// See Submitters::open. Valid until submitter_close(), or the end of the node.
  [[nodiscard]] Result<Submitter*> submitter_open(WorkerId home, const SubmitterSize& size);
  void submitter_close(Submitter& submitter, std::function<void()> freed = {}) {
    c_.submitters->close(submitter, std::move(freed));
  }
  /// Opens a portal; the view with it is published when this returns. Errors: EINVAL, EBUSY; portal 0 is LNet's own.
  [[nodiscard]] Result<void> portal_open(PortalIndex portal, WorkerId home, PortalMode mode, bool lazy);
  [[nodiscard]] Result<void> portal_close(PortalIndex portal);
  /// Registers memory once, so that MDs in it are bound at once. See Regions::add and Regions::remove.
  void region_add(std::span<std::byte> memory, Regions::Done done) { c_.regions->add(memory, std::move(done)); }
  void region_remove(RegionId id, Regions::Done done) { c_.regions->remove(id, std::move(done)); }

  // --- the end -----------------------------------------------------------------------------------------------------
  /// Begins a clean stop: no new operation begins, operations under way may end, NIs are drained and closed. The caller
  /// turns the node until stopped().
  void stop(Instant now);
  /// Ends the waiting of a stop: the next turn of control gives up all objects that are not at rest.
  void stop_at_once() { stop_deadline_ = leave_deadline_ = Instant{}; }
  [[nodiscard]] bool stopping() const { return c_.stopping || leaving_; }
  /// Everything is at rest, or kStopMax has passed.
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// The objects that were not at rest when kStopMax had passed, as text; empty after a clean stop.
  [[nodiscard]] const std::string& stop_leftovers() const { return leftovers_; }

 private:
  Node(const NodeConfig& config, NodeDeps deps);
  [[nodiscard]] Result<void> open(Instant now);
  void stop_now(Instant now);
  void turn_leave();
  void turn_stop();

  Control c_;
  Applier applier_;
  SlowTimer stop_timer_{c_.timers, TimerName::kStop};
  Submitter* own_submitter_ = nullptr;  // of c_.port
  bool leaving_ = false;                // a router that is to stop, and says so first
  Instant leave_deadline_ = kForever;
  Instant idle_since_ = kForever;
  Instant stop_deadline_ = kForever;
  bool own_closed_ = false;
  bool stopped_ = false;
  std::string leftovers_;
};

}  // namespace ulnet
