#include "lnd/net/dpdk/live_port.h"

namespace ulnet {
namespace {

Problem problem_of(const Error& error) {
  return Problem{.what = error.what, .code = error.code};
}

}  // namespace

Checked<std::unique_ptr<LivePort>> LivePort::open(Host& host, Options options) {
  std::unique_ptr<LivePort> live(new LivePort(host, std::move(options)));
  const auto refuse = [](const Error& error) { return tl::unexpected(problem_of(error)); };
  auto port = dpdk::Port::open(live->options_.port, host.worker_count(), live->options_.index);
  if (!port) return tl::unexpected(port.error());
  live->port_ = std::move(*port);
  const unsigned queues = live->port_->queue_count();
  if (queues > 1) live->mesh_ = std::make_unique<dpdk::StackMesh>(queues);
  for (unsigned i = 0; i < queues; ++i) {
    auto worker = PortWorker::make(live->options_.app, *live->port_, i, live->mesh_.get());
    if (!worker) return refuse(worker.error());
    live->workers_.push_back(std::move(*worker));
  }
  live->link_ = live->port_->link();
  live->link_wait();
  if (dpdk::CaptureSink* sink = live->options_.capture; sink != nullptr)
    if (auto captured = live->capture(*sink, live->options_.capture_options); !captured)
      return tl::unexpected(captured.error());
  live->let_in();
  for (auto& worker : live->workers_) {
    if (auto added = host.add(WorkerId{uint16_t(live->hosted_)}, *worker); !added) return refuse(added.error());
    ++live->hosted_;
  }
  live->workers_[0]->ask_announce();
  return live;
}

LivePort::~LivePort() {
  if (port_ != nullptr) close();
}

void LivePort::close() {
  if (std::exchange(closed_, true)) return;
  for (unsigned i = 0; i < hosted_; ++i) (void)host_.remove(WorkerId{uint16_t(i)}, *workers_[i]);
  const Instant now = clock_now();
  port_->stop_begin();
  if (capture_ != nullptr) capture_->stop_begin();
  for (unsigned i = 0; i < port_->queue_count(); ++i) {
    if (i < workers_.size()) workers_[i]->finish(now);
    (void)port_->queue(i).receive({}, now);  // in the worker's place: stops the queue
  }
  if (capture_ != nullptr) {
    while (!capture_error_ && capture_->turn().value_or(0) > 0) {
    }
    capture_end(now);
  }
  port_->close();
}

/// Starts the queues. If the device needs a link and has none, link_look() starts them later.
void LivePort::let_in() {
  if (!port_->needs_link() || (link_.up && port_->link().up)) port_->start();
  notify_workers();
}

void LivePort::notify_workers() {
  for (auto& worker : workers_) worker->gate().notify_stored();
}

unsigned LivePort::turn(Instant now) {
  if (closed_) return 0;
  now_ = now;
  unsigned done = 0;
  if (port_->drain_events(now) || now >= look_) {
    link_look(now);
    interrupts_look();
    ++done;
  }
  if (port_->take_reset_request()) reset();
  if (resetting_) reset_go_on(now);
  if (capture_ != nullptr && now >= capture_next_) capture_go_on(now);
  return done;
}

Instant LivePort::next_deadline() const {
  if (closed_) return kForever;
  Instant reset = kForever;
  if (resetting_) reset = reopen_ > now_ ? reopen_ : now_ + kLetGoEvery;
  return std::min({look_, capture_next_, reset});
}

void LivePort::link_look(Instant now) {
  const dpdk::LinkState link = port_->link();
  const bool changed = link.up != link_.up;
  link_ = link;
  std::vector<int> fds;
  port_->wait_fds(fds);
  look_ = now + (port_->needs_link() ? dpdk::Port::kLinkAwait : fds.empty() ? dpdk::Port::kLinkPoll : kLookAnyway);
  if (changed) link_told(link);
  const bool never_came = now >= link_until_;
  if (never_came) lost_ = false;
  const bool gone = port_->lost_interface() || port_->lost_link() || (port_->loses_link_for_good() && never_came);
  if (!resetting_ && !link.up && gone && !std::exchange(lost_, true)) reset();
  if (!link.up) return;
  lost_ = false;
  link_until_ = kForever;
  link_patience_ = kLinkPatience;
}

/// A device that was opened needs some time for its link.
void LivePort::link_wait() {
  link_until_ = clock_now() + link_patience_;
  link_patience_ = std::min(link_patience_ * 2, kReopenMax);
}

void LivePort::interrupts_look() {
  deaf_told_.resize(port_->queue_count());
  for (unsigned i = 0; i < port_->queue_count(); ++i) {
    if (deaf_told_[i] || !port_->queue(i).is_deaf()) continue;
    deaf_told_[i] = true;
    if (options_.watcher != nullptr) options_.watcher->interrupts_failed(i);
  }
}

void LivePort::link_told(const dpdk::LinkState& link) {
  if (port_->needs_link() && !resetting_) {
    if (!link.up) port_->stop_begin();
    let_in();
  }
  for (auto& worker : workers_)
    if (!link.up) worker->ask_forget();
  if (link.up) workers_[0]->ask_announce();
  if (options_.watcher != nullptr) options_.watcher->link_changed(link);
}

void LivePort::reset() {
  reopen_ = kNever;
  tell_failure_ = true;
  if (resetting_ || closed_) return;
  link_until_ = kForever;
  if (const auto may = port_->may_reopen(); !may) {
    const Problem problem = problem_of(may.error());
    if (options_.watcher != nullptr) options_.watcher->reset_done(&problem);
    return;
  }
  resetting_ = true;
  reopen_pause_ = kReopenFirst;
  reset_until_ = clock_now() + kResetPatience;
  port_->stop_begin();
  notify_workers();
}

void LivePort::reset_go_on(Instant now) {
  if (!port_->stopped()) {
    notify_workers();
    if (now < reset_until_) return;
    resetting_ = false;
    link_wait();
    let_in();  // the port continues as before the reset
    const Problem late{.what = "a worker does not release the port", .code = -ETIMEDOUT};
    if (options_.watcher != nullptr) options_.watcher->reset_done(&late);
    return;
  }
  if (now < reopen_) return;
  if (std::exchange(link_, {}).up) link_told(link_);  // a closed device has no link: the next link is new
  const auto ready = port_->ready_to_reopen(now);
  if (!ready || *ready) reopen_end(now, ready ? port_->reopen() : tl::unexpected(ready.error()));
}

/// Reports each success. Reports only the first failure after a reset().
void LivePort::reopen_end(Instant now, const Checked<void>& opened) {
  look_ = kNever;
  if (opened) {
    resetting_ = lost_ = false;
    deaf_told_.clear();
    problem_.reset();
    link_wait();
    if (options_.watcher != nullptr) options_.watcher->reset_done(nullptr);
    link_look(now);
    let_in();
    return;
  }
  problem_ = opened.error();
  reopen_ = now + reopen_pause_;
  reopen_pause_ = std::min(reopen_pause_ * 2, kReopenMax);
  if (std::exchange(tell_failure_, false) && options_.watcher != nullptr) options_.watcher->reset_done(&*problem_);
}

Checked<void> LivePort::capture(dpdk::CaptureSink& sink, const dpdk::CaptureOptions& options) {
  if (capture_ != nullptr || resetting_ || closed_)
    return tl::unexpected(Problem{.what = "the port is captured already, or being reset", .code = -EBUSY});
  // Two clocks: workers stamp packets with clock_now(), but readers of the file expect the time since 1970.
  const Duration since_1970{int64_t(real_time_ns())};
  auto started = dpdk::Capture::start(*port_, sink, options, since_1970 - clock_now().time_since_epoch());
  if (!started) return tl::unexpected(started.error());
  capture_ = std::move(*started);
  capture_error_.reset();
  capture_stopping_ = false;
  capture_next_ = kNever;
  return {};
}

void LivePort::capture_stop() {
  if (capture_ == nullptr || capture_stopping_) return;
  capture_stopping_ = true;
  capture_until_ = clock_now() + kCapturePatience;
  capture_->stop_begin();
  notify_workers();
  capture_next_ = kNever;
}

void LivePort::capture_go_on(Instant now) {
  capture_next_ = now + (capture_stopping_ ? kLetGoEvery : kCaptureEvery);
  const auto turned = capture_error_ ? Result<unsigned>(0) : capture_->turn();
  if (!turned) capture_error_ = turned.error();
  if (capture_error_ || capture_->full()) capture_stop();
  if (!capture_stopping_) return;
  notify_workers();
  if (!capture_->stopped()) return;
  if (capture_error_ || capture_->drained() || now >= capture_until_) capture_end(now);
}

void LivePort::capture_end(Instant now) {
  if (!capture_error_)
    if (const auto finished = capture_->finish(now); !finished) capture_error_ = finished.error();
  const uint64_t written = capture_->written(), skipped = capture_->skipped();
  capture_.reset();
  capture_next_ = kForever;
  if (options_.watcher != nullptr)
    options_.watcher->capture_ended(written, skipped, capture_error_ ? &*capture_error_ : nullptr);
}

}  // namespace ulnet
