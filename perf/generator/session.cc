#include "perf/generator/session.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "dataplane/host/clock.h"

namespace ulnet::perf {
namespace {

constexpr Duration kPublishEvery = 50ms;

}  // namespace

Result<std::unique_ptr<Session>> Session::start(Submitter& submitter, const Job& job, Generator::BusyCycles busy_cycles,
                                                bool hold) {
  auto generator = Generator::create(submitter, job, std::move(busy_cycles));
  if (!generator) return tl::unexpected(generator.error());
  const auto fd = submitter.eq_fd((*generator)->queue());
  if (!fd) return tl::unexpected(fd.error());
  std::unique_ptr<Session> session(new Session(submitter, std::move(*generator), *fd, hold));
  if (auto opened = session->gate_.open(); !opened) return tl::unexpected(opened.error());
  try {
    session->thread_ = std::thread([raw = session.get()] { raw->run(); });
  } catch (const std::system_error&) {
    return fail(EAGAIN, "cannot start the generator thread");
  }
  return session;
}

Session::~Session() {
  halt();
}

void Session::halt() {
  stop();
  stop();
  if (thread_.joinable()) thread_.join();
}

void Session::begin() {
  const std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void Session::stop() {
  {
    const std::lock_guard lock(mutex_);  // the thread may be about to wait for the end of the hold
    if (stops_wanted_.load() < 2) stops_wanted_.fetch_add(1);
    changed_.notify_all();
  }
  gate_.notify_stored();
}

bool Session::wait(Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return finished_; });
}

bool Session::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

Snapshot Session::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

std::vector<RunResult> Session::results() const {
  const std::lock_guard lock(mutex_);
  return results_;
}

void Session::publish(Instant now) {
  const std::lock_guard lock(mutex_);
  snapshot_ = generator_->snapshot(now);
  const auto& results = generator_->results();
  results_.insert(results_.end(), results.begin() + std::ptrdiff_t(results_.size()), results.end());
}

void Session::run() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_ || stops_wanted_.load() > 0; });
  }
  unsigned stops_done = 0;
  Instant published = kNever;
  while (!generator_->done()) {
    const Instant now = clock_now();
    if (now - published >= kPublishEvery) {
      publish(now);
      published = now;
    }
    if (generator_->turn(now) == 0 && !generator_->done())
      sleep(std::min(generator_->next_turn(now), published + kPublishEvery), stops_done);
    for (const unsigned wanted = stops_wanted_.load(); stops_done < wanted; ++stops_done) generator_->stop(now);
  }
  publish(clock_now());
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

/// Until an event, a stop or the deadline comes.
void Session::sleep(Instant deadline, unsigned stops_done) {
  gate_.arm();
  if (submitter_.eq_arm(generator_->queue()) && stops_wanted_.load() == stops_done)
    (void)wait_readable(std::array{gate_.fd(), eq_fd_}, deadline, clock_now());
  gate_.disarm();
}

}  // namespace ulnet::perf
