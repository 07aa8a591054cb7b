#include "dataplane/host/host.h"

#include <algorithm>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"
#include "dataplane/host/clock.h"

namespace ulnet {
namespace {

uint64_t memory_limit(const HostConfig& config, const Topology& topology) {
  if (config.memory_limit_bytes != 0) return config.memory_limit_bytes;
  uint64_t bytes = 0;
  for (const auto& numa : topology.numas) bytes += numa.memory_bytes;
  return bytes != 0 ? bytes / 4 * 3 : uint64_t{1} << 30;
}

PlacementRequest placement_request(const HostConfig& config, const Topology& topology) {
  PlacementRequest out{config.cpus, config.worker_count, {}};
  for (const std::string& interface : config.interfaces) {
    const unsigned numa = topology.numa_of_nic(interface);
    if (numa != kNoNuma && std::find(out.near_numas.begin(), out.near_numas.end(), numa) == out.near_numas.end())
      out.near_numas.push_back(numa);
  }
  return out;
}

/// Where the workers go. Workers that never sleep would wait for each other on one CPU.
Result<Placement> place(const HostConfig& config, const Topology& topology) {
  auto placement = place_workers(topology, placement_request(config, topology));
  const bool spin = config.idle.mode == IdleMode::kBusy && config.dpdk != DpdkMode::kAttach;
  if (!placement || !spin) return placement;
  const auto& workers = placement->workers;
  if (std::any_of(workers.begin(), workers.end(), [](const auto& slot) { return slot.shared; }))
    return fail(EINVAL, "`idle: busy` needs a CPU for each worker: configure fewer workers, or `idle: adaptive`",
                workers.size());
  return placement;
}

EalConfig eal_config(const HostConfig& config, const Placement& placement, bool hugepages) {
  EalConfig eal{placement.control_cpus, {}, config.devices, config.virtual_devices, config.eal_memory_mb, hugepages};
  for (const auto& slot : placement.workers) eal.worker_cpus.push_back(slot.cpu);
  return eal;
}

}  // namespace

Result<std::unique_ptr<Host>> Host::start(const HostConfig& config) {
  auto machine = Machine::read();
  if (!machine) return tl::unexpected(machine.error());
  const uint64_t limit = memory_limit(config, (*machine)->topology());
  std::unique_ptr<Host> host(new Host(std::move(*machine), limit, config.huge));
  auto placement = place(config, host->topology());
  if (!placement) return tl::unexpected(placement.error());
  host->placement_ = std::move(*placement);
  if (auto opened = host->control_gate_.open(); !opened) return tl::unexpected(opened.error());
  if (config.dpdk == DpdkMode::kOwn && uint64_t{config.eal_memory_mb} << 20 > limit)
    return fail(ENOMEM, "packet buffers would take more memory than this machine can give them", config.eal_memory_mb);
  const uint64_t pages = config.dpdk == DpdkMode::kOwn ? (uint64_t{config.eal_memory_mb} + 1) / 2 : 1;
  const bool hugepages = config.huge != HugePages::kNo && huge_pages_free() >= pages;
  if (config.huge == HugePages::kYes && !hugepages)
    return fail(ENOMEM, "ulnet.memory.hugepages is `yes`, but too few are free: sysctl -w vm.nr_hugepages=N (of 2 MiB)",
                pages);
  switch (config.dpdk) {
    case DpdkMode::kNone:
      host->environment_ = "sockets only, without DPDK";
      host->launcher_ = std::make_unique<PthreadLauncher>(host->worker_count());
      break;
    case DpdkMode::kOwn: {
      ULNET_CHECK(config.start_eal != nullptr);
      auto launcher = config.start_eal(eal_config(config, host->placement_, hugepages));
      if (!launcher) return tl::unexpected(launcher.error());
      host->environment_ = hugepages ? "DPDK on huge pages" : "DPDK without huge pages";
      host->launcher_ = std::move(*launcher);
      break;
    }
    case DpdkMode::kAttach: host->environment_ = "the caller's DPDK and threads"; return host;
  }
  if (auto started = host->start_threads(config); !started) return tl::unexpected(started.error());
  return host;
}

Result<Placement> Host::plan(const HostConfig& config) {
  auto machine = Machine::read();
  if (!machine) return tl::unexpected(machine.error());
  return place(config, (*machine)->topology());
}

Result<void> Host::start_threads(const HostConfig& config) {
  for (const auto& slot : placement_.workers) {
    HostThread::Config its;
    its.name = "ulnet-w" + std::to_string(slot.worker.value);
    its.idle = config.idle;
    // Workers that share a CPU must not be pinned to poll there in each other's way; the system spreads them.
    if (config.pin && config.dpdk == DpdkMode::kNone && !slot.shared) its.cpu = int(slot.cpu);
    threads_.push_back(std::make_unique<HostThread>(its));
    if (auto started = threads_.back()->start(*launcher_, slot.worker.value); !started) return started;
  }
  return {};
}

Host::~Host() {
  stop();
}

void Host::stop() {
  for (auto& thread : threads_) thread->stop();
}

std::vector<std::string> Host::describe() const {
  std::vector<std::string> out;
  for (const auto& group : placement_.groups) {
    std::string line = "workers on NUMA node " + std::to_string(group.numa) + ":";
    for (const WorkerId worker : group.workers) {
      const auto& slot = placement_.workers[worker.value];
      line +=
          " " + std::to_string(worker.value) + " (CPU " + std::to_string(slot.cpu) + (slot.shared ? ", shared)" : ")");
    }
    out.push_back(line);
  }
  const uint64_t huge = huge_pages_free();
  out.push_back(arenas_.policy() == HugePages::kNo ? "memory: normal pages, as configured"
                : huge == 0                        ? "memory: no huge pages are free, normal pages are used"
                            : "memory: " + std::to_string(huge) + " huge pages of 2 MiB are free");
  out.push_back("environment: " + environment_);
  return out;
}

HostThread* Host::thread(WorkerId worker) {
  return worker.value < threads_.size() ? threads_[worker.value].get() : nullptr;
}

Result<void> Host::add(WorkerId worker, Turnable& item) {
  HostThread* on = thread(worker);
  if (on == nullptr) return fail(ENOTSUP, "this Host has no thread for the worker", worker.value);
  auto ticket = on->add(item);
  if (!ticket) return tl::unexpected(ticket.error());
  on->wait(*ticket);
  return {};
}

Result<void> Host::remove(WorkerId worker, Turnable& item) {
  HostThread* on = thread(worker);
  if (on == nullptr) return fail(ENOTSUP, "this Host has no thread for the worker", worker.value);
  auto ticket = on->remove(item);
  if (!ticket) return tl::unexpected(ticket.error());
  on->wait(*ticket);
  return {};
}

void Host::run_control(ControlTurnable& control) {
  std::vector<int> fds;
  while (!stop_control_.load(std::memory_order_seq_cst)) {
    const Instant now = clock_now();
    if (control.turn(now) > 0) continue;
    control_gate_.arm();
    if (!stop_control_.load(std::memory_order_seq_cst) && !control.pending()) {
      fds.clear();
      control.wait_fds(fds);
      Instant deadline = control.next_deadline();
      if (fds.size() >= kWaitFdsMax) {
        fds.resize(kWaitFdsMax - 1);
        deadline = std::min(deadline, now + kHostNap);  // more than one wait can hold: look again soon
      }
      control_gate_.wait(fds, deadline, now);
    }
    control_gate_.disarm();
  }
  stop_control_.store(false, std::memory_order_seq_cst);
}

void Host::stop_control() {
  stop_control_.store(true, std::memory_order_seq_cst);
  control_gate_.notify_stored();
}

}  // namespace ulnet
