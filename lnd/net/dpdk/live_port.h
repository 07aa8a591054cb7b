// A port in service: the device, a worker's part of it on each Host thread, its link watched, reset when asked,
// captured when asked. Thread: control; turn() never waits, but opening a device again takes the milliseconds that it
// takes.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/host/host.h"
#include "lnd/net/dpdk/capture.h"
#include "lnd/net/dpdk/port_worker.h"

namespace ulnet {

/// Told by LivePort::turn().
class PortWatcher {
 public:
  virtual ~PortWatcher() = default;
  virtual void link_changed(const dpdk::LinkState&) {}
  /// `problem` null: the port works again. Else, when a worker did not let go (ETIMEDOUT) or the device cannot be
  /// opened twice (ENOTSUP), it is as before; with any other problem the device is closed and tried again by itself.
  /// This is called again when that works, or when somebody asks for a reset meanwhile and it fails as well.
  virtual void reset_done(const dpdk::PortProblem* problem) {}
  /// The capture is over and its sink no longer used; `error` null when it ended as asked or for its size.
  virtual void capture_ended(uint64_t written, uint64_t skipped, const Error* error) {}
};

class LivePort {
 public:
  struct Options {
    dpdk::PortConfig port;
    unsigned index = 0;              ///< unique among the ports of the process
    PortAppMaker app;                ///< may be empty
    PortWatcher* watcher = nullptr;  ///< may be null
  };
  using Opened = tl::expected<std::unique_ptr<LivePort>, dpdk::PortProblem>;
  /// Opens the device and puts a worker's part on each of the first Host threads, as many as the port has queues. The
  /// host outlives it. Errors: those of Port::open, PortWorker::make, Host::add.
  [[nodiscard]] static Opened open(Host& host, Options options);
  /// close(), if that was not called.
  ~LivePort();
  LivePort(const LivePort&) = delete;
  LivePort& operator=(const LivePort&) = delete;

  /// Watches, and goes on with what is under way. Returns work done.
  unsigned turn(Instant now);
  [[nodiscard]] Instant next_deadline() const;
  void wait_fds(std::vector<int>& out) const { port_->wait_fds(out); }

  [[nodiscard]] dpdk::LinkState link() const { return link_; }
  [[nodiscard]] dpdk::PortShown show() { return port_->show(); }
  [[nodiscard]] dpdk::Port& port() { return *port_; }
  [[nodiscard]] unsigned worker_count() const { return unsigned(workers_.size()); }
  [[nodiscard]] const PortWorker& worker(unsigned index) const { return *workers_[index]; }
  /// Closes the device and opens it again as it was; reset_done() tells, maybe before this returns. A device that loses
  /// its link for good, or whose interface another one has replaced, is reset by itself then. One at a time: asked
  /// again meanwhile it does nothing, but while the device is closed it tries at once.
  void reset();
  /// Why the device is closed and tried again; null: it is open.
  [[nodiscard]] const dpdk::PortProblem* problem() const { return problem_ ? &*problem_ : nullptr; }
  /// Errors: those of Capture::start; EBUSY while the port is captured or reset. `sink` is used until capture_ended().
  [[nodiscard]] tl::expected<void, dpdk::PortProblem> capture(dpdk::CaptureSink& sink,
                                                              const dpdk::CaptureOptions& options);
  /// Asks the capture to end. What the workers have seen is still written, if the sink takes it within
  /// kCapturePatience.
  void capture_stop();
  [[nodiscard]] bool captured() const { return capture_ != nullptr; }

  static constexpr Duration kCapturePatience = 2s;

  /// Takes its parts off the threads and closes the device; counters can still be shown. Waits for the threads.
  void close();

 private:
  LivePort(Host& host, Options options) : host_(host), options_(std::move(options)) {}
  void let_in();
  void notify_workers();
  void link_look(Instant now);
  void link_told(const dpdk::LinkState& link);
  void reset_go_on(Instant now);
  void reopen(Instant now);
  void capture_go_on(Instant now);
  void capture_end(Instant now);

  static constexpr Duration kLookAnyway = 1s;     // at the link, where the system tells of changes
  static constexpr Duration kResetPatience = 2s;  // for workers to let go
  static constexpr Duration kReopenFirst = 1s;    // after a device could not be opened again; doubles
  static constexpr Duration kReopenMax = 60s;
  static constexpr Duration kCaptureEvery = 10ms;

  static constexpr Duration kLetGoEvery = 1ms;

  Host& host_;
  const Options options_;
  std::unique_ptr<dpdk::Port> port_;
  std::unique_ptr<dpdk::StackMesh> mesh_;
  std::vector<std::unique_ptr<PortWorker>> workers_;
  unsigned hosted_ = 0;  // workers on their threads
  dpdk::LinkState link_;
  Instant now_ = kNever;
  Instant look_ = kNever;           // at the link, next
  Instant reset_until_ = kForever;  // when a reset that is under way is given up
  Instant reopen_ = kNever;         // when the closed device is tried again
  Duration reopen_pause_ = kReopenFirst;
  std::optional<dpdk::PortProblem> problem_;
  bool resetting_ = false;  // until the device is open again
  bool lost_ = false;       // what the device needs has gone, and a reset has been asked for
  bool tell_failure_ = false;
  bool closed_ = false;
  std::unique_ptr<dpdk::Capture> capture_;
  bool capture_stopping_ = false;
  std::optional<Error> capture_error_;
  Instant capture_next_ = kForever;
  Instant capture_until_ = kForever;  // when the rest is left out
};

}  // namespace ulnet
