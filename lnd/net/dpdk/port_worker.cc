#include "lnd/net/dpdk/port_worker.h"

namespace ulnet {

PortWorker::PortWorker(dpdk::Port& port, unsigned queue, dpdk::StackMesh* mesh)
    : queue_(port.queue(queue)), stack_(dpdk::stack_config(port.config(), port.mac()), queue_, mesh) {}

Result<std::unique_ptr<PortWorker>> PortWorker::make(const PortAppMaker& app, dpdk::Port& port, unsigned queue,
                                                     dpdk::StackMesh* mesh) {
  std::unique_ptr<PortWorker> worker(new PortWorker(port, queue, mesh));
  if (auto opened = worker->gate_.open(); !opened) return tl::unexpected(opened.error());
  if (app) {
    auto made = app(queue, worker->queue_, worker->stack_, port.mac());
    if (!made) return tl::unexpected(made.error());
    worker->app_ = std::move(*made);
  }
  if (mesh != nullptr)
    mesh->set_waker(
        queue, [](void* gate) { static_cast<IdleGate*>(gate)->notify_stored(); }, &worker->gate_);
  return worker;
}

unsigned PortWorker::turn(Instant now) {
  const uint64_t from = cycle_count();
  now_ = now;
  unsigned work = 0;
  if (app_ != nullptr && app_->raw()) {
    work = app_->turn(now);
  } else {
    if (forget_.load(std::memory_order_relaxed) && forget_.exchange(false, std::memory_order_acquire))
      stack_.neighbours().forget_learned();
    if (announce_.load(std::memory_order_relaxed) && announce_.exchange(false, std::memory_order_acquire))
      stack_.announce(now);
    work = stack_.poll(app_ == nullptr ? kBudget : std::min(kBudget, app_->room()), now);
    if (app_ != nullptr && queue_.running()) work += app_->turn(now);
    work += stack_.timers(now);
    stack_.flush(now);
  }
  if (app_ != nullptr && app_->done()) done_.store(true, std::memory_order_release);
  if (work > 0) {
    nap_ = kNapMin;
    busy_cycles_.add(cycle_count() - from);
  } else if (--idle_left_ == 0) {
    idle_left_ = kIdleOneIn;
    idle_cycles_.add((cycle_count() - from) * kIdleOneIn);
  }
  return work;
}

bool PortWorker::pending() {
  return announce_.load(std::memory_order_seq_cst) || forget_.load(std::memory_order_seq_cst) || queue_.asked() ||
         stack_.pending() || (has_room() && queue_.has_packets());
}

/// While the queue is stopped, polling sets no deadline: control notifies when it starts the queue again.
Instant PortWorker::next_deadline() {
  const bool running = queue_.running();
  Instant polled = kForever;
  if (running && (queue_.wait_fd() < 0 || !has_room()))
    polled = now_ + nap_;
  else if (running && queue_.may_miss())
    polled = now_ + dpdk::InterruptWatch::kSleepMax;
  const Instant app = app_ != nullptr && (running || app_->raw()) ? app_->next_deadline() : kForever;
  return std::min({stack_.next_deadline(), app, polled});
}

unsigned PortWorker::wait_fds(std::span<int> out) {
  if (queue_.wait_fd() < 0 || out.empty() || !has_room()) return 0;
  out[0] = queue_.wait_fd();
  return 1;
}

void PortWorker::finish(Instant now) {
  if (app_ != nullptr) app_->finish(now);
  stack_.shut(now);
}

}  // namespace ulnet
