#include "dataplane/host/threads.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <utility>

#include "dataplane/base/check.h"
#include "dataplane/host/clock.h"

namespace ulnet {
namespace {

/// One writer: no read-modify-write is needed.
void add_to(std::atomic<uint64_t>& sum, uint64_t amount) {
  sum.store(sum.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

bool pin_self(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(unsigned(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

/// Of the calling thread. more(): there was one since the last call.
class Preemptions {
 public:
  bool more() {
    rusage used{};
    if (getrusage(RUSAGE_THREAD, &used) != 0) return false;
    return std::exchange(seen_, used.ru_nivcsw) != used.ru_nivcsw;
  }

 private:
  long seen_ = 0;
};

}  // namespace

PthreadLauncher::~PthreadLauncher() {
  for (unsigned worker = 0; worker < threads_.size(); ++worker) join(worker);
}

Result<void> PthreadLauncher::launch(unsigned worker, int (*entry)(void*), void* argument) {
  if (worker >= threads_.size()) return fail(EINVAL, "no thread is planned for this worker", worker);
  Thread& thread = threads_[worker];
  if (thread.running) return fail(EBUSY, "the thread of this worker runs already", worker);
  thread.entry = entry;
  thread.argument = argument;
  const auto main = [](void* self) -> void* {
    auto& its = *static_cast<Thread*>(self);
    its.entry(its.argument);
    return nullptr;
  };
  const int rc = pthread_create(&thread.id, nullptr, main, &thread);
  if (rc != 0) return fail(rc, "the system gives no more threads (ulimit -u, pids of the cgroup)", worker);
  thread.running = true;
  return {};
}

void PthreadLauncher::join(unsigned worker) {
  if (worker >= threads_.size() || !threads_[worker].running) return;
  ULNET_CHECK(pthread_join(threads_[worker].id, nullptr) == 0);
  threads_[worker].running = false;
}

HostThread::HostThread(const Config& config) : config_(config) {
  items_.reserve(kTurnablesMax);
}

HostThread::~HostThread() {
  stop();
}

Result<void> HostThread::start(Launcher& launcher, unsigned worker) {
  ULNET_CHECK(!started_);
  if (gate_.fd() < 0) {
    if (auto opened = gate_.open(); !opened) return opened;
  }
  launcher_ = &launcher;
  worker_ = worker;
  stop_.store(false, std::memory_order_seq_cst);
  handed_over_.store(true, std::memory_order_release);
  if (auto launched = launcher.launch(worker, &HostThread::entry, this); !launched) return launched;
  started_ = true;
  return {};
}

Result<HostThread::Ticket> HostThread::ask(const Change& change) {
  ULNET_CHECK(started_);
  if (!changes_.push(change)) return fail(EAGAIN, "the Host thread has not yet made earlier changes", worker_);
  gate_.notify(changes_);
  return ++asked_;
}

Result<HostThread::Ticket> HostThread::add(Turnable& item) {
  ULNET_CHECK(item.gate().fd() >= 0);  // without a descriptor it could not be woken
  if (items_wanted_ == kTurnablesMax) return fail(ENOSPC, "the Host thread turns as many workers as it can", worker_);
  auto ticket = ask({&item, true});
  if (ticket) ++items_wanted_;
  return ticket;
}

Result<HostThread::Ticket> HostThread::remove(Turnable& item) {
  auto ticket = ask({&item, false});
  if (ticket) --items_wanted_;
  return ticket;
}

void HostThread::wait(Ticket ticket) const {
  for (uint32_t seen = done_.load(std::memory_order_acquire); int32_t(seen - ticket) < 0;
       seen = done_.load(std::memory_order_acquire))
    done_.wait(seen, std::memory_order_acquire);
}

void HostThread::stop() {
  if (!started_) return;
  stop_.store(true, std::memory_order_seq_cst);
  gate_.notify_stored();
  launcher_->join(worker_);
  ULNET_CHECK(!handed_over_.load(std::memory_order_acquire));
  started_ = false;
}

int HostThread::entry(void* self) {
  auto& its = *static_cast<HostThread*>(self);
  ULNET_CHECK(its.handed_over_.load(std::memory_order_acquire));
  its.run();
  its.handed_over_.store(false, std::memory_order_release);
  return 0;
}

void HostThread::run() {
  (void)pthread_setname_np(pthread_self(), config_.name.substr(0, 15).c_str());
  if (config_.cpu >= 0) sums_.pinned.store(pin_self(config_.cpu), std::memory_order_relaxed);
  IdlePolicy policy{config_.idle};
  Preemptions preemptions;
  Instant stop_by = kForever;
  unsigned dry_turns = 0;
  Instant now = clock_now();
  uint64_t cycles = cycle_count();
  for (;;) {
    const unsigned work = take_changes() + turn_all(now);
    Duration slept{};
    bool turned_only = false;
    add_to(sums_.turns, 1);
    if (stop_.load(std::memory_order_relaxed)) {
      if (stop_by == kForever) stop_by = now + kHostDrainMax;
      dry_turns = work == 0 ? dry_turns + 1 : 0;
      if (now >= stop_by || dry_turns == 2) return;
    } else {
      switch (policy.next(now, work > 0, work == 0 && policy.heeds_patience() && patient())) {
        case IdleAction::kTurn: turned_only = true; break;
        case IdleAction::kYield: sched_yield(); break;
        case IdleAction::kSleep: slept = sleep_all(now); break;
      }
    }
    const Instant top = clock_now();
    const uint64_t top_cycles = cycle_count();
    if (turned_only && policy.spinning() && top - now >= policy.long_turn() && preemptions.more()) policy.preempted();
    if (work > 0) {
      add_to(sums_.turns_with_work, 1);
      add_to(sums_.busy, uint64_t((top - now).count()));
      add_to(sums_.busy_cycles, top_cycles - cycles);
    } else {
      add_to(sums_.spinning, uint64_t((top - now - slept).count()));
      add_to(sums_.asleep, uint64_t(slept.count()));
    }
    now = top;
    cycles = top_cycles;
  }
}

unsigned HostThread::turn_all(Instant now) {
  unsigned work = 0;
  for (Turnable* item : items_) work += item->turn(now);
  return work;
}

unsigned HostThread::take_changes() {
  unsigned count = 0;
  for (Change change; count < kInboxBudget && changes_.pop(change); ++count) {
    const auto at = std::find(items_.begin(), items_.end(), change.item);
    ULNET_CHECK((at == items_.end()) == change.add);
    if (change.add) {
      items_.push_back(change.item);
      change.item->note_awake({});
    } else {
      change.item->note_asleep();
      items_.erase(at);
    }
  }
  if (count > 0) {
    // seq_cst: notify_all() then reads whether anybody waits, and libstdc++ has no fence of its own between the two.
    done_.store(done_.load(std::memory_order_relaxed) + count, std::memory_order_seq_cst);
    done_.notify_all();
  }
  return count;
}

bool HostThread::patient() {
  return std::any_of(items_.begin(), items_.end(), [](Turnable* item) { return item->patient(); });
}

bool HostThread::any_pending() {
  return std::any_of(items_.begin(), items_.end(), [](Turnable* item) { return item->pending(); });
}

/// Arms every gate, looks at every input once more, and blocks on all of them at once. Returns how long.
Duration HostThread::sleep_all(Instant now) {
  std::array<int, kWaitFdsMax> fds;
  size_t count = 0;
  bool room = true;
  Instant deadline = kForever;
  gate_.arm();
  fds[count++] = gate_.fd();
  for (Turnable* item : items_) {
    item->gate().arm();
    item->note_asleep();
  }
  bool pending = !changes_.empty() || stop_.load(std::memory_order_seq_cst) || any_pending();
  for (Turnable* item : items_) {
    deadline = std::min(deadline, item->next_deadline());
    if (fds.size() - count < kWaitFdsPerItem) {
      room = false;
      continue;
    }
    fds[count++] = item->gate().fd();
    count += item->wait_fds(std::span(fds).subspan(count, kWaitFdsPerItem - 1));
  }
  if (!room) deadline = std::min(deadline, now + kHostNap);  // more than one wait can hold: look again soon
  Duration slept{};
  if (!pending && deadline > now) {
    add_to(sums_.sleeps, 1);
    const Instant from = clock_now();
    (void)wait_readable({fds.data(), count}, deadline, from);
    slept = clock_now() - from;
  }
  for (Turnable* item : items_) {
    item->note_awake(slept);
    item->gate().disarm();
  }
  gate_.disarm();
  return slept;
}

HostThreadStats HostThread::stats() const {
  const auto get = [](const std::atomic<uint64_t>& sum) { return sum.load(std::memory_order_relaxed); };
  HostThreadStats out;
  out.turns = get(sums_.turns);
  out.turns_with_work = get(sums_.turns_with_work);
  out.sleeps = get(sums_.sleeps);
  out.busy = Duration{int64_t(get(sums_.busy))};
  out.spinning = Duration{int64_t(get(sums_.spinning))};
  out.asleep = Duration{int64_t(get(sums_.asleep))};
  out.busy_cycles = get(sums_.busy_cycles);
  out.pinned = sums_.pinned.load(std::memory_order_relaxed);
  return out;
}

}  // namespace ulnet
