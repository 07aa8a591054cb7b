// A port in service: the device, a worker's part of it on each Host thread, and the watch of its link. A LivePort also
// resets and captures the port on request. Thread: control. turn() never waits, but opening a device again takes some
// milliseconds.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/host/host.h"
#include "lnd/net/dpdk/capture.h"
#include "lnd/net/dpdk/port_worker.h"

namespace ulnet {

/// Callbacks of a LivePort, from turn() and also from reset() and close().
class PortWatcher {
 public:
  virtual ~PortWatcher() = default;
  virtual void link_changed(const dpdk::LinkState&) {}
  /// Interrupts of this queue do not come. Once until the device is opened again.
  virtual void interrupts_failed(unsigned queue) {}
  /// `problem` null: the port works again. Otherwise, if LivePort::problem() is null, the port is as before: a worker
  /// did not release it (ETIMEDOUT), or the device cannot be opened twice (ENOTSUP). After any other problem the device
  /// is closed or has no link, and LivePort tries to open it again by itself. LivePort calls reset_done() again when
  /// that succeeds, or when a further reset() fails as well.
  virtual void reset_done(const Problem* problem) {}
  /// The capture is over and its sink is no longer used. `error` is null if the capture ended on request or for its
  /// size.
  virtual void capture_ended(uint64_t written, uint64_t skipped, const Error* error) {}
};

class LivePort {
 public:
  struct Options {
    dpdk::PortConfig port;
    unsigned index = 0;                    ///< unique among the ports of the process
    PortAppMaker app;                      ///< may be empty
    PortWatcher* watcher = nullptr;        ///< may be null
    dpdk::CaptureSink* capture = nullptr;  ///< captures from the first packet on, as capture(); may be null
    dpdk::CaptureOptions capture_options;
  };
  /// Opens the device and puts a worker's part on each of the first Host threads, as many as the port has queues. The
  /// host outlives it. Errors: those of Port::open, PortWorker::make, Host::add, capture().
  [[nodiscard]] static Checked<std::unique_ptr<LivePort>> open(Host& host, Options options);
  /// close(), if that was not called.
  ~LivePort();
  LivePort(const LivePort&) = delete;
  LivePort& operator=(const LivePort&) = delete;

  /// Watches the link, and continues a reset and a capture under way. Returns work done.
  unsigned turn(Instant now);
  [[nodiscard]] Instant next_deadline() const;
  void wait_fds(std::vector<int>& out) const { port_->wait_fds(out); }

  [[nodiscard]] dpdk::LinkState link() const { return link_; }
  [[nodiscard]] dpdk::PortShown show() { return port_->show(); }
  [[nodiscard]] dpdk::Port& port() { return *port_; }
  [[nodiscard]] unsigned worker_count() const { return unsigned(workers_.size()); }
  [[nodiscard]] const PortWorker& worker(unsigned index) const { return *workers_[index]; }
  /// Closes the device and opens it again as it was. reset_done() reports the result, maybe before reset() returns. If
  /// a device loses its link for good, or another interface replaces its own, LivePort resets it by itself. During a
  /// reset another call has no effect, except that a closed device is opened again without further delay.
  void reset();
  /// Why the device could not be opened again, while LivePort retries; null: it is open.
  [[nodiscard]] const Problem* problem() const { return problem_ ? &*problem_ : nullptr; }
  /// Errors: those of Capture::start; EBUSY while the port is captured or reset. `sink` is used until capture_ended().
  [[nodiscard]] Checked<void> capture(dpdk::CaptureSink& sink, const dpdk::CaptureOptions& options);
  /// Requests the end of the capture. Packets that the workers have seen are still written, if the sink takes them
  /// within kCapturePatience.
  void capture_stop();
  [[nodiscard]] bool captured() const { return capture_ != nullptr; }

  static constexpr Duration kCapturePatience = 2s;
  /// If a device that connects once has no link after this time, it is opened again. The time doubles up to a minute.
  static constexpr Duration kLinkPatience = 5s;

  /// Removes the workers' parts from the threads and closes the device; counters can still be shown. Waits for the
  /// threads.
  void close();

 private:
  LivePort(Host& host, Options options) : host_(host), options_(std::move(options)) {}
  void let_in();
  void notify_workers();
  void link_look(Instant now);
  void link_wait();
  void interrupts_look();
  void link_told(const dpdk::LinkState& link);
  void reset_go_on(Instant now);
  void reopen_end(Instant now, const Checked<void>& opened);
  void capture_go_on(Instant now);
  void capture_end(Instant now);

  static constexpr Duration kLookAnyway = 1s;     // between looks at the link, if a descriptor reports changes
  static constexpr Duration kResetPatience = 2s;  // for workers to release the port
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
  Instant look_ = kNever;          // next look at the link
  Instant link_until_ = kForever;  // when a link that has not come counts as lost
  Duration link_patience_ = kLinkPatience;
  Instant reset_until_ = kForever;  // when a reset that is under way is given up
  Instant reopen_ = kNever;         // when the closed device is tried again
  Duration reopen_pause_ = kReopenFirst;
  std::optional<Problem> problem_;
  bool resetting_ = false;  // until the device is open again
  bool lost_ = false;       // the link is lost for good, and a reset has been requested for it
  bool tell_failure_ = false;
  std::vector<bool> deaf_told_;  ///< by queue
  bool closed_ = false;
  std::unique_ptr<dpdk::Capture> capture_;
  bool capture_stopping_ = false;
  std::optional<Error> capture_error_;
  Instant capture_next_ = kForever;
  Instant capture_until_ = kForever;  // when control drops packets that still wait
};

}  // namespace ulnet
