// ulnetd without its command line: a Host, its LNDs and one Node under real threads, with the control socket. The
// daemon starts from a configuration, serves until stop(), and ends when all parts are idle. Thread: the thread that
// calls run(), which becomes control.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/problem.h"
#include "control/api/requests.h"
#include "control/api/server.h"
#include "control/lib/node_turnables.h"
#include "control/node.h"
#include "dataplane/host/arena.h"
#include "dataplane/host/host.h"
#include "dataplane/host/memory_reserve.h"
#include "dataplane/host/thread_helper.h"
#include "lnd/registry.h"
#include "perf/generator/service.h"
#include "tools/ulnetd/perf_target.h"
#include "tools/ulnetd/ports/port_devices.h"

namespace ulnet {

struct DaemonOptions {
  config::ChangeList changes;  ///< of the configuration file; may be empty
  std::string socket;          ///< overrides `ulnet: socket: path`
  std::string version;
  std::function<void(const std::string&)> log;
  std::function<void(const char*)> notify;  ///< service manager: "READY=1", "STOPPING=1"; may be null
};

class Daemon final : private ControlTurnable {
 public:
  /// Starts threads, drivers, node and control socket; nothing is configured yet. Errors: the part that could not be
  /// started, with the reason.
  [[nodiscard]] static config::Checked<std::unique_ptr<Daemon>> start(DaemonOptions options);
  ~Daemon() override;

  /// Applies the configuration, serves, and returns when stopped: 0, or 1 if the configuration could not be applied or
  /// a part did not become idle.
  int run();
  /// A further descriptor to watch while it runs (signals), and what to do when it is readable.
  void watch(int fd, std::function<void()> readable);
  /// Begins a clean stop; the second call ends it at once. Control thread.
  void stop();
  [[nodiscard]] Node& node() { return *node_; }
  [[nodiscard]] NodeRequests& requests() { return *requests_; }

 private:
  explicit Daemon(DaemonOptions options) : options_(std::move(options)) {}
  [[nodiscard]] config::Checked<void> open();
  [[nodiscard]] config::Checked<void> open_node(const config::DesiredState& state);
  [[nodiscard]] config::Checked<void> open_socket(const config::UlnetSection& ulnet);
  [[nodiscard]] config::Checked<void> open_ports(const std::vector<config::DeviceConfig>& devices);
  void serve_ports();
  void open_perf();
  void configure();
  void configured(const config::Problems& errors);
  void follow_ulnet();

  unsigned turn(Instant now) override;
  unsigned turn_parts(Instant now);
  void turn_failed(const std::exception& error, Instant now) noexcept;
  [[nodiscard]] bool pending() override { return node_->control_pending(); }
  [[nodiscard]] Instant next_deadline() override;
  void wait_fds(std::vector<int>& out) override;

  MemoryReserve reserve_;
  DaemonOptions options_;
  config::ChangeList applied_;  // the changes of configure(), for error texts
  std::unique_ptr<Host> host_;
  std::unique_ptr<PortDevices> devices_;
  std::unique_ptr<HostMemory> memory_, worker_memory_;
  std::optional<Drivers> drivers_;
  std::unique_ptr<PerfTarget> perf_target_;  // outlives the node, whose workers use its memory
  std::unique_ptr<perf::Service> perf_;      // so does the memory of its jobs
  std::optional<ThreadHelper> helper_;       // its thread starts if a driver needs it
  std::unique_ptr<Node> node_;
  std::vector<std::unique_ptr<Turnable>> turnables_;
  std::unique_ptr<Ports> ports_;  // null without `ulnet: devices:`
  std::unique_ptr<NodeRequests> requests_;
  std::unique_ptr<api::Server> server_;
  int watched_fd_ = -1;
  std::function<void()> watched_;
  bool stopping_ = false;
  Instant flush_deadline_ = kForever;
  Instant jobs_deadline_ = kForever;  // by when load that this daemon makes has ended, once it stops
  uint16_t next_home_ = 0;            // of a job's submitter
  uint64_t turns_failed_ = 0;         // ended by an exception
  Instant turn_failure_said_ = kNever;
  int status_ = 0;
  config::LogLevel log_level_ = config::LogLevel::kDebug;  ///< `ulnet: log`; until it is read, all lines are logged
};

}  // namespace ulnet
