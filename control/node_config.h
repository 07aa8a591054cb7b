// The sizes of a Node and the objects that it gets: everything that could differ between two runs comes in here.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "control/nis/local_nis.h"
#include "dataplane/base/helper.h"
#include "dataplane/host/memory_reserve.h"
#include "dataplane/host/memory_source.h"
#include "dataplane/stages/worker.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

struct NodeConfig {
  unsigned workers = 1;
  WorkerSize worker_size;
  uint32_t ring_size = 1024;
  uint32_t peers_max = 65536;    ///< peer NIs, in all
  uint32_t features_hidden = 0;  ///< bits that ping info lacks: for tests with an older version
  WorkerGroups groups;           ///< which worker is in which group (CPT), on which NUMA node
};

struct NodeDeps {
  uint64_t seed = 1;
  uint64_t incarnation = 1;                     ///< unique per life of the node: real time in ns
  std::vector<LndEntry> lnds;                   ///< loopback first
  Devices* devices = nullptr;                   ///< null: NIs are added by NID only
  MemorySource* memory = nullptr;               ///< for router buffers; null: ordinary pages
  MemorySource* worker_memory = nullptr;        ///< for what workers use (near_memory.h); null: the heap
  MemoryReserve* reserve = nullptr;             ///< of the thread that turns control; null: it has none
  std::function<void(const std::string&)> log;  ///< one line for the operator
  Helper* helper = nullptr;                     ///< may be null if no driver needs registered memory
  bool real_threads = false;                    ///< gates get event fds
  IdleGate* control_gate = nullptr;  ///< of the thread that turns control (Host::control_gate()); null: an own gate
};

// The severity of a line that goes to NodeDeps::log: its first word says it.
inline constexpr std::string_view kWarning = "warning: ";

/// Of "error: ...", "warning: ..." and "debug: ..."; every other line is info.
[[nodiscard]] inline config::LogLevel level_of(std::string_view line) {
  if (line.starts_with("error: ")) return config::LogLevel::kError;
  if (line.starts_with("warning: ")) return config::LogLevel::kWarning;
  return line.starts_with("debug: ") ? config::LogLevel::kDebug : config::LogLevel::kInfo;
}

}  // namespace ulnet
