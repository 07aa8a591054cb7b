#include "perf/generator/session.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "dataplane/host/clock.h"

namespace ulnet::perf {
namespace {

constexpr Duration kPublishEvery = 50ms;

}  // namespace

Result<std::unique_ptr<Session>> Session::start(Submitter& submitter, const Job& job, Generator::Meters meters,
                                                WorkerThread worker, bool hold) {
  auto generator = Generator::create(submitter, job, std::move(meters));
  if (!generator) return tl::unexpected(generator.error());
  if (job.threads || job.verify) worker = {};
  std::unique_ptr<Session> session(new Session(submitter, std::move(*generator), std::move(worker), hold));
  if (auto opened = session->gate_.open(); !opened) return tl::unexpected(opened.error());
  if (!session->has_thread()) {
    if (auto added = session->worker_.add(*session); !added) return tl::unexpected(added.error());
    session->is_turned_ = true;
    return session;
  }
  const auto fd = submitter.eq_fd(session->generator_->queue());
  if (!fd) return tl::unexpected(fd.error());
  session->eq_fd_ = *fd;
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
  if (std::exchange(is_turned_, false)) worker_.remove(*this);
}

void Session::begin() {
  held_.store(false);
  gate_.notify_stored();
}

void Session::stop() {
  for (unsigned wanted = stops_wanted_.load(); wanted < 2;)
    if (stops_wanted_.compare_exchange_weak(wanted, wanted + 1)) break;
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

// --- The turning thread ----------------------------------------------------------------------------------------------

bool Session::is_held() const {
  return held_.load() && stops_wanted_.load() == 0;
}

/// The worker has had its turn, so that a time from before is old.
unsigned Session::turn(Instant) {
  if (over_ || is_held()) return 0;
  const Instant now = last_turn_ = clock_now();
  unsigned done = generator_->turn(now);
  for (const unsigned wanted = stops_wanted_.load(); stops_done_ < wanted; ++stops_done_, ++done) generator_->stop(now);
  over_ = generator_->done();
  if (over_ || now - published_ >= kPublishEvery) publish(now);
  return done;
}

/// On the thread of the worker, events come in turns only, and the worker has to write to no descriptor.
bool Session::pending() {
  if (over_ || is_held()) return false;
  if (last_turn_ == kNever || stops_wanted_.load() != stops_done_) return true;
  return has_thread() ? !submitter_.eq_arm(generator_->queue()) : !submitter_.eq_empty(generator_->queue());
}

Instant Session::next_deadline() {
  if (over_ || is_held()) return kForever;
  return std::min(generator_->next_turn(last_turn_), published_ + kPublishEvery);
}

unsigned Session::wait_fds(std::span<int> out) {
  if (!has_thread() || out.empty()) return 0;
  out[0] = eq_fd_;
  return 1;
}

void Session::run() {
  while (!over_) {
    if (turn(kNever) > 0 || over_) continue;
    gate_.arm();
    if (!pending()) (void)wait_readable(std::array{gate_.fd(), eq_fd_}, next_deadline(), clock_now());
    gate_.disarm();
  }
}

/// The worker does not wait for a reader, but for the last time.
void Session::publish(Instant now) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (has_thread() || over_)
    lock.lock();
  else if (!lock.try_lock())
    return;
  published_ = now;
  snapshot_ = generator_->snapshot(now);
  const auto& results = generator_->results();
  results_.insert(results_.end(), results.begin() + std::ptrdiff_t(results_.size()), results.end());
  finished_ = over_;
  if (over_) changed_.notify_all();
}

}  // namespace ulnet::perf
