// Completions of a worker's devices, and how its queue pairs end.
#include "lnd/rc/verbs/worker.h"

#include <algorithm>

namespace ulnet::rc::verbs {
namespace {

constexpr Duration kDrainMax = 5s;  ///< for the last completions of a queue pair
constexpr uint32_t kLooksMax = 64;  ///< turns in which broken() waits for messages that came before

Cause cause_of(ibv_wc_status status, RequestTag tag) {
  switch (status) {
    case IBV_WC_SUCCESS:
    case IBV_WC_WR_FLUSH_ERR: return Cause::kNone;
    case IBV_WC_RETRY_EXC_ERR: return Cause::kRetryExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR: return Cause::kRnrExceeded;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_REM_ABORT_ERR: return Cause::kRemoteAccess;
    case IBV_WC_LOC_LEN_ERR:
      // Of a receive buffer: the peer's message is longer than the buffer.
      return tag == RequestTag::kReceive ? Cause::kRemoteAccess : Cause::kLocal;
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_BAD_RESP_ERR: return Cause::kLocal;
    default: return Cause::kDevice;
  }
}

/// The last completions have come by then, or the device has to let go of the queue pair. Its messages that have come
/// are reported first, so its end has no limit before broken().
Instant drain_until(const VerbsQp& qp) {
  return qp.ending_since == kNever || !qp.is_broken ? kForever : qp.ending_since + kDrainMax;
}

}  // namespace

void VerbsWorker::adopt(Qp& any, QpUser& user) {
  VerbsQp& qp = verbs_qp(any);
  ULNET_CHECK(qp.worker == id_ && qp.user == nullptr && table_[qp.index] == nullptr);
  qp.user = &user;
  table_[qp.index] = &qp;
  all_.push_back(qp);
  if (qp.cq->adopted++ == 0) add_queue(*qp.cq);
  bell_.ring();  // the connection may have ended already
}

void VerbsWorker::release(Qp& any) {
  VerbsQp& qp = verbs_qp(any);
  ULNET_CHECK(qp.user != nullptr && qp.is_drained);
  qp.user = nullptr;
  table_[qp.index] = nullptr;
  all_.remove(qp);
  if (--qp.cq->adopted == 0) drop_queue(*qp.cq);
  if (static_cast<Linked<DirtyTag>&>(qp).linked()) dirty_.remove(qp);
  if (static_cast<Linked<ReadyTag>&>(qp).linked()) ready_.remove(qp);
  if (static_cast<Linked<AwaitedTag>&>(qp).linked()) awaited_.remove(qp);
}

// --- Completion queues -----------------------------------------------------------------------------------------------

void VerbsWorker::add_queue(CompletionQueue& queue) {
  ULNET_CHECK(queue_count_ < queues_.size());  // the CM thread makes no queue beyond
  unsigned at = queue_count_;
  for (unsigned i = 0; i < queue_count_; ++i)
    if (queues_[i]->channel == queue.channel) at = i + 1;
  std::move_backward(queues_.begin() + at, queues_.begin() + queue_count_, queues_.begin() + queue_count_ + 1);
  queues_[at] = &queue;
  ++queue_count_;
}

/// The CM thread frees the queues of a lost device when its queue pairs are gone.
void VerbsWorker::drop_queue(CompletionQueue& queue) {
  const auto end = queues_.begin() + queue_count_;
  const auto at = std::find(queues_.begin(), end, &queue);
  ULNET_CHECK(at != end);
  std::move(at + 1, end, at);
  --queue_count_;
  queue_dropped_ = true;
}

bool VerbsWorker::first_of_channel(unsigned index) const {
  return index == 0 || queues_[index - 1]->channel != queues_[index]->channel;
}

// --- Completions -----------------------------------------------------------------------------------------------------

unsigned VerbsWorker::take(ibv_cq* cq, std::span<ibv_wc> out) {
  const int count = ibv_poll_cq(cq, int(out.size()), out.data());
  return count < 0 ? 0 : unsigned(count);
}

/// False: the budget is used up, or `cq` may be gone; the next call of poll() takes the rest.
bool VerbsWorker::take_all(ibv_cq* cq, unsigned budget, unsigned& count, Instant now) {
  while (count < budget) {
    std::array<ibv_wc, kBatch> batch;
    const unsigned room = std::min(kBatch, budget - count);
    const unsigned taken = take(cq, std::span(batch).first(room));
    for (unsigned i = 0; i < taken; ++i) completed(batch[i], now);
    count += taken;
    if (queue_dropped_) return false;
    if (taken < room) return true;
  }
  return false;
}

unsigned VerbsWorker::poll(unsigned budget, Instant now) {
  unsigned count = 0;
  const unsigned early = std::min(early_count_, budget);
  for (; count < early; ++count) completed(early_[count], now);
  std::move(early_.begin() + early, early_.begin() + early_count_, early_.begin());
  early_count_ -= early;

  bool all_taken = early_count_ == 0;
  queue_dropped_ = false;
  // Each call begins with another queue: a busy device leaves its share of the budget to the others.
  ++first_queue_;
  for (unsigned i = 0; i < queue_count_ && all_taken; ++i) {
    const CompletionQueue queue = *queues_[(first_queue_ + i) % queue_count_];  // a copy: it may be dropped
    // Ends of messages come first: a message of the peer may answer one of them.
    all_taken = take_all(queue.sends, budget, count, now) && take_all(queue.receives, budget, count, now);
  }
  for (uint32_t left = std::min(ready_.size(), kBatch); left > 0 && !ready_.empty(); --left, ++count) {
    VerbsQp& qp = *ready_.pop_front();
    finish(qp, qp.head, now);
  }
  return count + look_at_ends(all_taken, now);
}

void VerbsWorker::completed(const ibv_wc& wc, Instant now) {
  const RequestName name = RequestName::unpack(wc.wr_id);
  VerbsQp* qp = name.index < kQpsMax ? table_[name.index] : nullptr;
  if (qp == nullptr || qp->generation != name.generation) return;  // of a queue pair that went without it
  if (wc.status != IBV_WC_SUCCESS) {
    qp->failed = true;
    if (qp->seen == Cause::kNone) qp->seen = cause_of(wc.status, name.tag);
    mark_ending(*qp);
  }
  if (name.tag == RequestTag::kReceive) return received(*qp, name.place, wc, now);
  const uint64_t until = qp->head + (name.place + qp->ring - qp->head % qp->ring) % qp->ring + 1;
  if (wc.status == IBV_WC_SUCCESS && !qp->is_broken) {
    qp->live = true;
    finish(*qp, until, now);
    if (qp->head == qp->posted && qp->posted != qp->tail) mark_dirty(*qp);  // a closing has waited for this
    return;
  }
  qp->head = until;
}

void VerbsWorker::received(VerbsQp& qp, uint32_t buffer, const ibv_wc& wc, Instant now) {
  --qp.receives_posted;
  if (wc.status != IBV_WC_SUCCESS || qp.is_broken) return;
  qp.live = true;
  await(qp, qp.tail);  // the message may answer one whose end has not come
  qp.user->received(qp, buffer, wc.byte_len, now);
}

/// Operations end up to `until`, and those behind it that have no completion.
void VerbsWorker::finish(VerbsQp& qp, uint64_t until, Instant now) {
  while (!qp.is_broken && qp.head != qp.posted) {
    const Op op = qp.op(qp.head);
    if (until <= qp.head && op.has_request) return;
    ++qp.head;
    report(qp, op, now);
  }
}

void VerbsWorker::report(VerbsQp& qp, const Op& op, Instant now) {
  switch (op.kind) {
    case OpKind::kKeyOpen: return;
    case OpKind::kNudge: --qp.nudges; return;
    case OpKind::kSend:
    case OpKind::kWrite:
      if (op.token != 0) qp.user->sent(qp, op.token, now);
      return;
    case OpKind::kKeyClose:
      if (qp.windows) {
        const auto number = uint32_t(op.key->provider[0]);
        qp.window[number].mw->rkey = qp.window[number].rkey;  // the next binding is posted with it
        qp.free_windows.push_back(number);
      }
      --qp.keys_open;
      op.key->open = false;
      qp.user->key_closed(qp, *op.key, now);
      return;
  }
}

// --- Ends ------------------------------------------------------------------------------------------------------------

void VerbsWorker::mark_ending(VerbsQp& qp) {
  await(qp, qp.tail);
  if (!static_cast<Linked<EndingTag>&>(qp).linked() && !qp.is_drained) ending_.push_back(qp);
}

unsigned VerbsWorker::look_at_ends(bool all_taken, Instant now) {
  if (bell_.take()) {
    for (VerbsQp* qp = all_.front(); qp != nullptr; qp = all_.after(*qp))
      if (qp->cause.load(std::memory_order_acquire) != Cause::kNone) mark_ending(*qp);
  }
  unsigned count = 0;
  for (uint32_t left = ending_.size(); left > 0 && !ending_.empty(); --left) {
    VerbsQp& qp = *ending_.pop_front();
    ending_.push_back(qp);
    count += look_at_end(qp, all_taken, now);
  }
  return count;
}

unsigned VerbsWorker::look_at_end(VerbsQp& qp, bool all_taken, Instant now) {
  const bool disconnected = qp.disconnected.load(std::memory_order_acquire);
  const bool gone = qp.gone.load(std::memory_order_acquire);
  if (disconnected && qp.ending_since == kNever) qp.ending_since = now;
  if (!qp.is_broken) {
    if (!all_taken && ++qp.looks < kLooksMax) return 0;
    // A queue pair that fails without a word of its own or of the CM thread was refused by its own device.
    const Cause known = qp.cause.load(std::memory_order_acquire);
    const Cause cause = qp.seen != Cause::kNone ? qp.seen : known != Cause::kNone ? known : Cause::kRemoteAccess;
    qp.is_broken = true;
    await(qp, qp.tail);  // until all is drained
    qp.user->broken(qp, cause, now);
    return 1;
  }
  while (qp.head != qp.posted && !qp.op(qp.head).has_request) ++qp.head;  // nothing reports its end
  const bool empty = qp.receives_posted == 0 && qp.head == qp.posted;
  if (!disconnected || !(gone || empty)) return 0;
  qp.is_drained = true;
  ending_.remove(qp);
  qp.user->drained(qp, now);
  return 1;
}

unsigned VerbsWorker::timers(Instant now) {
  const unsigned nudged = look_at_forgetful(now);
  unsigned count = 0;
  for (VerbsQp* qp = ending_.front(); qp != nullptr; qp = ending_.after(*qp)) {
    if (now < drain_until(*qp) || qp->stuck.exchange(true, std::memory_order_release)) continue;
    ++count;
  }
  if (count > 0) {
    stuck_.rung.store(true, std::memory_order_seq_cst);
    stuck_.signal->raise();
  }
  return nudged + count;
}

Instant VerbsWorker::next_deadline() {
  Instant next = nudge_look_;
  for (VerbsQp* qp = ending_.front(); qp != nullptr; qp = ending_.after(*qp))
    if (!qp->stuck.load(std::memory_order_relaxed)) next = std::min(next, drain_until(*qp));
  return next;
}

// --- Sleep -----------------------------------------------------------------------------------------------------------

/// The end of all operations before this count wakes the worker.
void VerbsWorker::await(VerbsQp& qp, uint64_t until) {
  qp.awaited = std::max(qp.awaited, until);
  if (qp.head < qp.awaited && !static_cast<Linked<AwaitedTag>&>(qp).linked()) awaited_.push_back(qp);
}

/// Finds the queues that the ends of awaited operations will come to.
void VerbsWorker::look_at_awaited() {
  for (unsigned i = 0; i < queue_count_; ++i) queues_[i]->waits = false;
  for (uint32_t left = awaited_.size(); left > 0; --left) {
    VerbsQp& qp = *awaited_.pop_front();
    if (qp.head >= qp.awaited || qp.is_drained) continue;
    awaited_.push_back(qp);
    qp.cq->waits = true;
  }
}

/// A queue that its channel has named has to be armed again. Each armed queue is named once, so that the channel has
/// nothing more when none is left.
void VerbsWorker::hear_channels() {
  for (unsigned first = 0, end = 0; first < queue_count_; first = end) {
    unsigned armed = 0;
    for (end = first; end < queue_count_ && queues_[end]->channel == queues_[first]->channel; ++end)
      armed += queues_[end]->receives_armed + queues_[end]->sends_armed;
    if (queues_[first]->silent) continue;
    ibv_cq* from = nullptr;
    void* context = nullptr;
    for (; armed > 0 && ibv_get_cq_event(queues_[first]->channel, &from, &context) == 0; --armed) {
      auto& queue = *static_cast<CompletionQueue*>(context);
      (from == queue.sends ? queue.sends_armed : queue.receives_armed) = false;
      ibv_ack_cq_events(from, 1);
    }
    if (armed == 0 || errno == EAGAIN || errno == EINTR) continue;
    // The device is gone, and its channel stays readable. The CM thread has the news.
    for (unsigned i = first; i < end; ++i) queues_[i]->silent = true;
  }
}

/// A later completion wakes the worker. False: one is there already, or the queue cannot be armed. The first look saves
/// a system call, and a wake-up that would find nothing.
bool VerbsWorker::arm(ibv_cq* cq, bool& armed) {
  if (armed) return true;
  early_count_ = take(cq, early_);
  if (early_count_ > 0) return false;
  armed = ibv_req_notify_cq(cq, 0) == 0;
  early_count_ = take(cq, early_);
  return early_count_ == 0 && armed;
}

bool VerbsWorker::pending() {
  if (early_count_ > 0 || !dirty_.empty() || !ready_.empty()) return true;
  if (bell_.is_rung()) return true;
  for (VerbsQp* qp = ending_.front(); qp != nullptr; qp = ending_.after(*qp))
    if (!qp->is_broken) return true;
  hear_channels();
  look_at_awaited();
  for (unsigned i = 0; i < queue_count_; ++i) {
    CompletionQueue& queue = *queues_[i];
    if (queue.silent) continue;
    const bool quiet =
        arm(queue.receives, queue.receives_armed) && (!queue.waits || arm(queue.sends, queue.sends_armed));
    if (quiet) continue;
    // A queue that cannot be armed is one of a device that is gone. The CM thread has the news.
    if (early_count_ == 0) queue.silent = true;
    return true;
  }
  return false;
}

unsigned VerbsWorker::wait_fds(std::span<int> out) {
  unsigned count = 0;
  if (count < out.size()) out[count++] = bell_.signal.fd();
  for (unsigned i = 0; i < queue_count_ && count < out.size(); ++i)
    if (first_of_channel(i) && !queues_[i]->silent) out[count++] = queues_[i]->channel->fd;
  return count;
}

}  // namespace ulnet::rc::verbs
