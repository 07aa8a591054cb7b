#include "perf/generator/session.h"

#include <system_error>

#include "dataplane/host/clock.h"

namespace ulnet::perf {
namespace {

constexpr Duration kPublishEvery = 50ms;
// After kYieldFor without events, the thread sleeps in naps of kNap: a dead peer costs no core. Measured latencies are
// then too long by at most a nap and the scheduler's slack.
constexpr Duration kYieldFor = 100us;
constexpr Duration kNap = 100us;

}  // namespace

Result<std::unique_ptr<Session>> Session::start(Submitter& submitter, const Job& job, Generator::BusyCycles busy_cycles,
                                                bool hold) {
  auto generator = Generator::create(submitter, job, std::move(busy_cycles));
  if (!generator) return tl::unexpected(generator.error());
  std::unique_ptr<Session> session(new Session(std::move(*generator), hold));
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
  if (stops_wanted_.load() < 2) stops_wanted_.fetch_add(1);
  changed_.notify_all();
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
    while (held_ && stops_wanted_.load() == 0) changed_.wait_for(lock, kNap);  // a stop may come between the two looks
  }
  unsigned stops_done = 0;
  Instant published = kNever, last_work = clock_now();
  while (!generator_->done()) {
    const Instant now = clock_now();
    if (generator_->turn(now) != 0) last_work = now;
    if (now - published >= kPublishEvery) {
      publish(now);
      published = now;
    }
    if (now - last_work < kYieldFor) {
      std::this_thread::yield();
    } else {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kNap);
    }
    for (const unsigned wanted = stops_wanted_.load(); stops_done < wanted; ++stops_done) generator_->stop(now);
  }
  publish(clock_now());
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

}  // namespace ulnet::perf
