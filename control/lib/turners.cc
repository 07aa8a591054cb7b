#include "control/lib/turners.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "dataplane/host/clock.h"

namespace ulnet {

void Turners::start(std::span<const std::unique_ptr<Turnable>> workers) {
  workers_ = workers;
  turners_ = std::make_unique<Turner[]>(workers.size());
}

bool Turners::take(WorkerId worker) {
  Turner& turner = turners_[worker.value];
  const std::thread::id self = std::this_thread::get_id();
  std::thread::id last = turner.thread.load(std::memory_order_relaxed);
  if (last == self) return true;
  if (last != std::thread::id{}) return false;
  return !turner.closing.load(std::memory_order_acquire) && turner.thread.compare_exchange_strong(last, self);
}

unsigned Turners::turn(WorkerId worker) {
  if (!take(worker)) return 0;
  const unsigned done = workers_[worker.value]->turn(clock_now());
  turned(worker);
  return done;
}

void Turners::wait(WorkerId worker, Duration timeout) {
  if (!take(worker)) return;
  Turnable& item = *workers_[worker.value];
  std::array<int, kWaitFdsMax> fds;
  item.gate().arm();
  if (!item.pending()) {
    const Instant now = clock_now();
    fds[0] = item.gate().fd();
    const unsigned count = 1 + item.wait_fds(std::span(fds).subspan(1));
    (void)wait_readable({fds.data(), count}, std::min(item.next_deadline(), now + timeout), now);
  }
  (void)item.gate().disarm();
}

void Turners::turned(WorkerId worker) {
  workers_[worker.value]->note_asleep();
  std::atomic<uint64_t>& turns = turners_[worker.value].turns;
  turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Turners::claim(Instant now) {
  const std::thread::id self = std::this_thread::get_id();
  for (size_t i = 0; i < workers_.size(); ++i) {
    Turner& turner = turners_[i];
    std::thread::id nobody{};
    if (turner.thread.compare_exchange_strong(nobody, self) || nobody == self) {
      turner.closing.store(true, std::memory_order_release);
      claimed_.push_back(i);
    } else {
      others_.push_back({i, turner.turns.load(std::memory_order_relaxed), now});
    }
  }
}

/// A thread that sleeps because there is nothing to do is woken half-way.
bool Turners::silent(Other& other, Instant now) {
  const uint64_t turns = turners_[other.worker].turns.load(std::memory_order_relaxed);
  if (turns != other.turns) {
    other.turns = turns;
    other.seen = now;
  }
  const Duration silence = now - other.seen;
  if (silence >= kTurnerSilenceMax / 2) workers_[other.worker]->gate().notify_stored();
  return silence >= kTurnerSilenceMax;
}

void Turners::turn_until(const std::atomic<bool>& ended, const std::function<void()>& give_up) {
  claim(clock_now());
  bool gave_up = false;
  Nap nap;
  while (!ended.load(std::memory_order_acquire)) {
    const Instant now = clock_now();
    unsigned done = 0;
    for (const size_t worker : claimed_) done += workers_[worker]->turn(now);
    if (!gave_up && std::any_of(others_.begin(), others_.end(), [&](Other& other) { return silent(other, now); })) {
      gave_up = true;
      give_up();
    }
    if (done > 0) {
      nap = {};
    } else {
      nap.pause();
    }
  }
}

void Nap::pause() {
  const timespec nap{.tv_sec = 0, .tv_nsec = ns_};
  (void)ppoll(nullptr, 0, &nap, nullptr);
  if (ns_ < 100000) ns_ *= 2;
}

}  // namespace ulnet
