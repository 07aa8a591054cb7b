// The Host: the resources that one process uses of the machine. At start, the Host reads configuration, topology and
// affinity. Then DPDK's EAL starts, if the configuration requests it, and then one thread per worker. The Host hands
// out memory and runs the control loop. Any number of Nodes live on it. No globals: a process may start and end Hosts
// one after the other (but the EAL only once). Thread: control.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/host/arena.h"
#include "dataplane/host/idle_policy.h"
#include "dataplane/host/placement.h"
#include "dataplane/host/threads.h"
#include "dataplane/host/topology.h"

namespace ulnet {

enum class DpdkMode : uint8_t {
  kNone,   ///< sockets only
  kOwn,    ///< this Host starts the EAL; workers are its lcores
  kAttach  ///< the caller has an EAL and turns the workers itself: the Host starts no thread
};

struct HostConfig {
  std::vector<unsigned> cpus;           ///< one worker on each; empty = chosen
  unsigned worker_count = 0;            ///< 0 = by the machine
  std::vector<std::string> interfaces;  ///< in use: workers go near them
  bool pin = true;
  IdlePolicy::Config idle;
  DpdkMode dpdk = DpdkMode::kNone;
  EalStart start_eal = nullptr;      ///< of kOwn: dpdk::start_eal
  std::vector<std::string> devices;  ///< PCI addresses for DPDK
  std::vector<std::string> virtual_devices;
  uint32_t eal_memory_mb = 64;
  std::string eal_memory_text;      ///< the sum behind it, for the error that reports too little memory
  uint64_t memory_limit_bytes = 0;  ///< of all arenas; 0 = three quarters of the machine's memory
  HugePages huge = HugePages::kAuto;
};

class Host {
 public:
  /// Errors: EINVAL (CPUs, see place_workers), ENOMEM, those of start_eal, EMFILE, EAGAIN. ENOMEM: too few of the
  /// demanded huge pages are free, or DPDK's part is more than the machine has. After a failure nothing is left behind.
  [[nodiscard]] static Result<std::unique_ptr<Host>> start(const HostConfig& config);
  /// Where start() would place the workers. Errors: as start() has them for CPUs.
  [[nodiscard]] static Result<Placement> plan(const HostConfig& config);
  /// Stops the threads. Requires: all arenas are given back.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] unsigned worker_count() const { return unsigned(placement_.workers.size()); }
  [[nodiscard]] const Topology& topology() const { return machine_->topology(); }
  /// For memory of applications. Null if the machine has one NUMA node.
  [[nodiscard]] const MemoryLocator* locator() const {
    return machine_->topology().numas.size() > 1 ? machine_.get() : nullptr;
  }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  [[nodiscard]] Arenas& arenas() { return arenas_; }
  /// A line each for the journal: where workers run, what memory and which environment is used.
  [[nodiscard]] std::vector<std::string> describe() const;
  /// "DPDK on huge pages", "DPDK without huge pages", ...
  [[nodiscard]] const std::string& environment() const { return environment_; }

  /// The thread of a worker; null in mode kAttach.
  [[nodiscard]] HostThread* thread(WorkerId worker);
  /// Puts `item` on a worker's thread, or takes it off, and waits until that is done. Errors: those of HostThread::add;
  /// ENOTSUP in mode kAttach.
  [[nodiscard]] Result<void> add(WorkerId worker, Turnable& item);
  [[nodiscard]] Result<void> remove(WorkerId worker, Turnable& item);

  /// A producer notifies this gate after it has put something into a ring to control.
  [[nodiscard]] IdleGate& control_gate() { return control_gate_; }
  /// Turns `control` on the calling thread, asleep when it has nothing to do, until stop_control().
  void run_control(ControlTurnable& control);
  /// Any thread, also from a signal handler.
  void stop_control();
  /// Stops the threads after their Turnables have run dry.
  void stop();

 private:
  Host(std::unique_ptr<Machine> machine, uint64_t memory_limit_bytes, HugePages huge)
      : machine_(std::move(machine)), arenas_(machine_.get(), memory_limit_bytes, huge) {}
  [[nodiscard]] Result<void> start_threads(const HostConfig& config);

  std::unique_ptr<Machine> machine_;
  Placement placement_;
  Arenas arenas_;
  IdleGate control_gate_;
  std::atomic<bool> stop_control_{false};
  std::string environment_;
  std::unique_ptr<Launcher> launcher_;  // outlives the threads
  std::vector<std::unique_ptr<HostThread>> threads_;
};

}  // namespace ulnet
