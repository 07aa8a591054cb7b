#include "dataplane/base/idle_gate.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"

namespace ulnet {

IdleGate::~IdleGate() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> IdleGate::open() {
  ULNET_CHECK(fd_ < 0);
  fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd_ < 0) return fail(errno, "cannot open an eventfd for sleep (raise the limit of open files)");
  return {};
}

/// Exactly one producer moves kArmed to kNotified, so there is one signal per sleep.
void IdleGate::wake() {
  uint32_t expected = kArmed;
  if (!state_.compare_exchange_strong(expected, kNotified, std::memory_order_seq_cst)) return;
  if (fd_ < 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);  // fails only at 2^64 - 2 unread signals
}

bool IdleGate::disarm() {
  const bool was_notified = state_.exchange(kAwake, std::memory_order_seq_cst) == kNotified;
  if (was_notified && fd_ >= 0) ++owed_;
  drain();
  return was_notified;
}

/// The producer writes after it has changed the state, so its signal may come later. A later drain() reads such a
/// signal, which costs one sleep that ends at once.
void IdleGate::drain() {
  if (owed_ == 0) return;
  uint64_t count = 0;
  if (::read(fd_, &count, sizeof count) == ssize_t(sizeof count)) owed_ -= std::min(count, owed_);
}

void IdleGate::wait(std::span<const int> others, Instant deadline, Instant now) {
  if (fd_ < 0 || notified()) return;
  std::array<int, kWaitFdsMax> fds;
  ULNET_CHECK(others.size() < fds.size());
  fds[0] = fd_;
  std::copy(others.begin(), others.end(), fds.begin() + 1);
  (void)wait_readable({fds.data(), others.size() + 1}, deadline, now);
}

bool wait_readable(std::span<const int> fds, Instant deadline, Instant now) {
  std::array<pollfd, kWaitFdsMax> waits;
  ULNET_CHECK(fds.size() <= waits.size());
  for (size_t i = 0; i < fds.size(); ++i) waits[i] = {fds[i], POLLIN, 0};
  const int64_t left = std::max<int64_t>(deadline == kForever ? 0 : (deadline - now).count(), 0);
  const timespec timeout{time_t(left / 1'000'000'000), long(left % 1'000'000'000)};
  return ppoll(waits.data(), nfds_t(fds.size()), deadline == kForever ? nullptr : &timeout, nullptr) > 0;
}

}  // namespace ulnet
