// A run of the raw wire path: one process, one port, one app on each worker, for some time; then its figures.
// `ulnet-perf wire` and the port tests use it. Thread: the caller's, which becomes control.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "dataplane/host/host.h"
#include "lnd/net/dpdk/port.h"
#include "perf/wire/apps.h"

namespace ulnet::perf {

struct WireOptions {
  dpdk::PortConfig port;
  AppOptions app;
  unsigned workers = 1;
  std::vector<unsigned> cpus;  ///< empty = chosen
  IdlePolicy::Config idle;
  Duration duration = 10s;   ///< at most; SIGTERM and SIGINT end it, too. SIGUSR1 resets the port
  uint32_t memory_mb = 0;    ///< of DPDK; 0 = what the port needs
  std::string capture_path;  ///< pcapng of everything, and of every drop; empty = none
  std::string capture_filter;
  bool quiet = false;  ///< no lines about link changes
  /// Makes the app of a worker instead of `app`; may be empty. The queue and the stack outlive it.
  std::function<std::unique_ptr<App>(dpdk::PortQueue&, dpdk::Stack&)> app_maker;
};

/// The figures as JSON, "error" set when something went wrong. Writes "ready" and link changes to stdout.
[[nodiscard]] nlohmann::json wire_run(const WireOptions& options);

/// The content of `port show`, as JSON.
[[nodiscard]] nlohmann::json port_json(const dpdk::PortShown& shown);

}  // namespace ulnet::perf
