// The body of the poll loop (main loop) of a worker: Worker::turn(), one bounded turn. The Host calls it, and lets the
// worker sleep when a turn has found nothing and pending() is false. Each stage has a budget in base/limits.h, or a
// bound that is stated here. The stages, and why each has its place:
//
//  1. Inbox, taken: messages of control (kControlBudget); then returns of other workers (kInboxBudget per ring, twice
//     that in all); then their work (kInboxBudget in all). Returns come before work, so that what frees resources never
//     waits behind what takes them. First, because an item that waits in a ring holds resources of its sender.
//  2. View. After stage 1, so that the view is never older than what the inbox refers to; for calls, view_of_call().
//  3. Inbox, run: control, returns, work, then calls of applications (kInboxBudget per submitter). Calls come last,
//     because they take what the others free.
//  4. Each LND: completions and arrivals (kPollBudget). After the inbox, which returns credits and buffers for them.
//     An LND may send here what it has so far; hence sleeping threads are notified first. Then control hears which
//     messages do not move: an end that has come is known by now.
//  5. Timers: kTimerBudget per wheel and list, in the LNDs, too; each NI, share, divert and recall once. If a message
//     that a fault rule delays is due, all of these messages once. After stage 4, so that a message that has ended in
//     time does not expire.
//  6. Events that found their queue full: at most as many as the queues have room for. After all stages that end
//     messages, before the flush: a message that an event lets go on can leave in this turn.
//  7. Outboxes: at most as many items as the rings have room for. After all stages that post. Reports of charges last:
//     they find room again in a later turn. Then sleeping threads are notified: they run while this worker is in the
//     system calls of stage 8.
//  8. Flush of each LND: all that the turn has gathered goes to the kernel or device. Posts that come of it run in the
//     next turn.
//  9. Reports of closed submitters: at most kSubmittersMax. Last, because control frees a submitter at once.
//
// Between stages, drain_local() runs posts of the worker to itself: kLocalBudget per list. A budget is needed, because
// one broken connection or one raised credit limit posts thousands of items at once. An item that is left is like an
// item in a ring to another worker. It keeps its place in the order, and pending() keeps the worker awake.
#include <algorithm>

#include "dataplane/stages/charge.h"
#include "dataplane/stages/copies.h"
#include "dataplane/stages/egress.h"
#include "dataplane/stages/fault.h"
#include "dataplane/stages/finish.h"
#include "dataplane/stages/forward.h"
#include "dataplane/stages/from_control.h"
#include "dataplane/stages/incoming.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/md_memory.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"
#include "dataplane/stages/silence.h"
#include "dataplane/stages/worker.h"

namespace ulnet {
namespace {

void run_post(Worker& w, const PostItem& item) {
  switch (item.kind) {
    case PostKind::kNone: return;
    case PostKind::kLease: return egress_continue(w, item.as<PostKind::kLease>());
    case PostKind::kLeaseReturn: return lease_returned(w, *item.as<PostKind::kLeaseReturn>().message);
    case PostKind::kMatchRequest: {
      RxSlot& slot = item.as<PostKind::kMatchRequest>();
      const RxVerdict verdict = home_decide(w, slot);
      if (verdict != RxVerdict::kHold) slot_answer(w, slot, verdict);
      return;
    }
    case PostKind::kMatchAnswer: return w.ready_slots.push_back(item.as<PostKind::kMatchAnswer>());
    case PostKind::kRxDone: return received(w, item.as<PostKind::kRxDone>());
  }
}

/// Home is through with a receive: it goes on at its LND, or, when home took it along, ends there.
void resume(Worker& w, RxSlot& slot) {
  Lnd& lnd = *w.lnds[slot.ni_slice == nullptr ? kLndLo : slot.ni_slice->lnd];
  if (slot.verdict == RxVerdict::kTaken) {
    receive_done(w, slot, {});
    return lnd.release(slot, w.now);
  }
  const Receiving* m = slot.message;
  if (slot.verdict == RxVerdict::kReceive && m != nullptr) payload_begins(w, slot);
  const bool for_md = m != nullptr && m->kind != MessageKind::kTransit;
  const bool wants_divert = for_md && m->divert.load(std::memory_order_relaxed);
  if (wants_divert)
    w.mesh.divert_wanted.fetch_or(uint64_t{1} << w.id.value, std::memory_order_seq_cst);  // it came before the slot
  if (slot.verdict == RxVerdict::kProtocolError) rx_count_remove(w, slot);
  Tx* reply = slot.verdict == RxVerdict::kReceive ? slot.reply : nullptr;
  lnd.resume(slot, w.now);
  if (reply != nullptr) post<PostKind::kLease>(w, w.id, *reply);
}

/// Runs what this worker posted to itself, resumes ready slots, and retries receives that wait for a message; returns
/// how many. One list after the other, each with a budget of its own: a long list keeps no other waiting.
unsigned run_local(Worker& w) {
  unsigned posted = 0, resumed = 0, retried = 0;
  for (;;) {
    if (Posted* object = posted < kLocalBudget ? w.local.pop_front() : nullptr) {
      ++posted;
      run_post(w, {object->post_kind, object});
    } else if (RxSlot* slot = resumed < kLocalBudget ? w.ready_slots.pop_front() : nullptr) {
      ++resumed;
      resume(w, *slot);
    } else if (retried < kLocalBudget && retry_waiting(w)) {
      ++retried;
    } else {
      return posted + resumed + retried;
    }
  }
}

/// The same, where mostly nothing is to be done: a turn calls this often.
[[gnu::always_inline]] inline unsigned drain_local(Worker& w) {
  const bool idle = w.local.empty() && w.ready_slots.empty() && w.shares_to_look == 0;
  return idle ? 0 : run_local(w);
}

/// Takes what lies in the rings now, at most a budget of each. Another worker is first in each turn, and work has a
/// budget of its own: no ring waits for ever.
void take_batch(Worker& w) {
  w.batch.clear();
  const unsigned workers = w.mesh.worker_count;
  if (workers == 1) return;
  w.inbox_first = (w.inbox_first + 1) % workers;
  const auto take = [&](SpscRing<PostItem> Mesh::Pair::*ring, size_t most) {
    PostItem item;
    for (unsigned i = 0; i < workers; ++i) {
      const unsigned from = (w.inbox_first + i) % workers;
      if (from == w.id.value) continue;
      SpscRing<PostItem>& source = w.mesh.pair(from, w.id.value).*ring;
      for (unsigned taken = 0; taken < kInboxBudget && w.batch.size() < most && source.pop(item); ++taken)
        w.batch.push_back(item);
    }
  };
  take(&Mesh::Pair::back, Worker::kBatchBack);
  take(&Mesh::Pair::work, w.batch.size() + Worker::kBatchWork);
}

void load_view(Worker& w) {
  WorkerState& state = w.mesh.states[w.id.value];
  // Before the load, both seq_cst: control exchanges the view before it looks at `awake`, so either control sees a
  // worker that is awake, or the worker loads the new view.
  if (!state.awake.load(std::memory_order_relaxed)) state.awake.store(true, std::memory_order_seq_cst);
  const ViewSet* view = w.mesh.view.load(std::memory_order_seq_cst);
  if (view->epoch.value != state.epoch_seen.load(std::memory_order_relaxed)) {
    w.counters[TurnStat::kViewsSeen].add();
    w.copies_look_at = kNever;
  }
  w.view = view;
  w.router_hold_timeout = view->node.router_hold_timeout;
  w.view_fast = view->node.fast_detection;
  state.epoch_seen.store(view->epoch.value, std::memory_order_release);
}

/// A call that has come in this turn may speak of what a newer view has: a portal that was opened before the call.
void view_of_call(Worker& w) {
  if (w.mesh.view.load(std::memory_order_seq_cst) != w.view) load_view(w);
}

/// Can a call run now? A put or get needs an operation: those that are left for everybody, and not more than
/// kOperationsShare times as many as stay for the others.
bool may_run(const Worker& w, const Submitter& submitter, const CallMsg& call) {
  if (!starts_operation(call)) return true;
  const uint32_t most = w.operations.capacity() - (submitter.reserve() ? 0 : w.operations_reserve());
  if (w.operations.out() >= most) return false;
  return submitter.reserve() || submitter.operations < kOperationsShare * (most - w.operations.out());
}

/// The first call waits for an operation. An unlink behind it does not, since it may be what frees one: it is carried
/// out now, if its MD is bound already. Each call is looked at once.
unsigned run_unlinks_behind(Worker& w, Submitter& submitter) {
  unsigned done = 0;
  for (unsigned i = 0; i < kInboxBudget; ++i) {
    const CallMsg* call = submitter.calls().peek(submitter.calls_looked);
    if (call == nullptr) break;
    ++submitter.calls_looked;
    const UnlinkCall* unlink = std::get_if<UnlinkCall>(call);
    if (unlink == nullptr) continue;
    const Md& md = submitter.md_slot(unlink->md.index);
    if (!md.bound || md.handle.generation != unlink->md.generation) continue;
    run_call(w, submitter, *call);
    ++done;
  }
  return done;
}

/// Calls behind a registration wait: each is looked at once, so that the worker can sleep.
void look_at_waiting(Submitter& submitter) {
  for (unsigned i = 0; i < kInboxBudget && submitter.calls().peek(submitter.calls_looked) != nullptr; ++i)
    ++submitter.calls_looked;
}

unsigned run_submitter(Worker& w, Submitter& submitter) {
  unsigned done = 0;
  if (submitter.registering) return look_at_waiting(submitter), 0;
  for (; done < kInboxBudget; ++done) {
    const CallMsg* next = submitter.calls().peek();
    if (next == nullptr) return done;
    if (!may_run(w, submitter, *next)) return done + run_unlinks_behind(w, submitter);
    view_of_call(w);
    const BindCall* bind = std::get_if<BindCall>(next);
    if (bind != nullptr && !md_memory_ready(w, submitter, bind->md)) return done + 1;
    CallMsg call;
    (void)submitter.calls().pop(call);
    if (submitter.calls_looked > 0) --submitter.calls_looked;
    run_call(w, submitter, call);
  }
  return done;
}

unsigned run_submitters(Worker& w) {
  unsigned done = 0;
  w.submitters_first = (w.submitters_first + 1) % kSubmittersMax;  // what is scarce is first another's
  static_assert(kSubmittersMax == 64, "submitters_open has a bit for each");
  for (uint64_t left = std::rotr(w.submitters_open, int(w.submitters_first)); left != 0; left &= left - 1)
    done += run_submitter(w, *w.submitters[(w.submitters_first + unsigned(std::countr_zero(left))) % kSubmittersMax]);
  return done;
}

/// Would run_submitter() find something?
bool submitter_pending(const Worker& w, Submitter& submitter) {
  if (submitter.closing && submitter.unused()) return true;
  if (submitter.calls().empty()) return false;
  if (submitter.calls().peek(submitter.calls_looked) != nullptr) return true;
  return !submitter.registering && may_run(w, submitter, *submitter.calls().peek());
}

unsigned run_inbox(Worker& w) {
  unsigned controls = 0;
  while (controls < kControlBudget && w.mesh.to_worker[w.id.value]->pop(w.control_batch[controls])) ++controls;
  take_batch(w);
  load_view(w);
  for (unsigned i = 0; i < controls; ++i) run_control(w, w.control_batch[i]);
  for (const PostItem& item : w.batch) run_post(w, item);
  const unsigned done = controls + unsigned(w.batch.size()) + run_submitters(w);
  w.counters[TurnStat::kInboxItems].add(done);
  return done;
}

unsigned run_lnds(Worker& w) {
  unsigned events = 0, drained = 0;
  for (auto& lnd : w.drivers()) {
    events += lnd->poll(kPollBudget, w.now);
    drained += drain_local(w);
  }
  w.counters[TurnStat::kLndEvents].add(events);
  return events + drained;
}

/// A message whose end has come is not stuck, even if the LND sees the end only in this turn.
void answer_moved(Worker& w) {
  for (uint32_t i = 0; i < w.moved_asks_count; ++i) {
    const MovedAskMsg& ask = w.moved_asks[i];
    const Instant moved = w.lnds[ask.lnd]->moved(ask.ni, ask.peer_ni, w.now);
    (void)post_control_if_room(w, MovedMsg{ask.ni, ask.peer_ni, moved.time_since_epoch().count()});
  }
  w.moved_asks_count = 0;
}

unsigned run_timers(Worker& w) {
  unsigned fired = w.deadlines.advance(w.now, kTimerBudget, [&](Operation& op) { operation_expired(w, op); });
  fired += w.tx_deadlines.advance(w.now, kTimerBudget, [&](Tx& tx) { egress_expired(w, tx); });
  // Rare functions are called only when they are due: a worker that spins comes by here millions of times per second.
  if (w.now >= w.delays_due) fired += delays_run(w);
  if (!w.held_router.empty()) {
    fired += router_hold_expire(w);
    fired += router_hold_look(w);
  }
  if (w.now >= w.shares_due) fired += incoming_expire(w);
  fired += silence_look(w);
  fired += copies_look(w);
  if (w.now >= w.stays_due) fired += stays_look(w);
  if (!w.nis_waiting.empty()) ni_credits_reclaim(w);
  for (auto& lnd : w.drivers()) fired += lnd->timers(w.now);
  run_diverts(w);
  run_recalls(w);
  w.counters[TurnStat::kTimersFired].add(fired);
  return fired;
}

void count_gauges(Worker& w) {
  w.counters[Stat::kMsgsAlloc].set(w.messages_in_use());
  w.counters[Stat::kMsgsMax].raise(w.messages_in_use());
  w.counters[Stat::kRstAlloc].set(w.deadlines.armed());
}

}  // namespace

unsigned Worker::turn(Instant now_) {
  now = now_;
  turn_number += 1 + (turn_number == UINT32_MAX);
  unsigned done = run_inbox(*this);
  done += drain_local(*this);
  notify_pushed(*this);
  done += run_lnds(*this);
  answer_moved(*this);
  done += run_timers(*this);
  done += drain_local(*this);
  if (!eqs_waiting.empty()) done += flush_events(*this);
  done += drain_local(*this);
  done += flush_outboxes(*this);
  if (!charged.empty()) done += charges_report(*this);
  notify_pushed(*this);
  for (auto& lnd : drivers()) lnd->flush(now);
  if (submitters_closing > 0) done += submitters_report(*this);
  notify_pushed(*this);
  count_gauges(*this);
  counters[TurnStat::kTurns].add();
  if (done > 0) counters[TurnStat::kTurnsBusy].add();
  return done;
}

bool Worker::pending() {
  if (has_waiters(*this) || !mesh.to_worker[id.value]->empty()) return true;
  if (shares_to_look > 0 || !charged.empty()) return true;
  if (!local.empty() || !ready_slots.empty()) return true;  // left by a budget, or come in flush() of an LND
  if ((mesh.divert_wanted.load(std::memory_order_seq_cst) >> id.value) & 1) return true;
  if ((mesh.recall_wanted.load(std::memory_order_seq_cst) >> id.value) & 1) return true;
  for (unsigned from = 0; from < mesh.worker_count; ++from)
    if (from != id.value && (!mesh.pair(from, id.value).work.empty() || !mesh.pair(from, id.value).back.empty()))
      return true;
  for (uint64_t left = submitters_open; left != 0; left &= left - 1)
    if (submitter_pending(*this, *submitters[unsigned(std::countr_zero(left))])) return true;
  for (auto& lnd : drivers())
    if (lnd->pending()) return true;
  return false;
}

bool Worker::patient() const {
  const auto used = drivers();
  return std::any_of(used.begin(), used.end(), [](const auto& lnd) { return lnd->patient(); });
}

Instant Worker::next_deadline() {
  Instant next = std::min(deadlines.next_deadline(), tx_deadlines.next_deadline());
  if (RxSlot* slot = held_router.front(); slot != nullptr && router_hold_timeout != Duration{})
    next = std::min(next, slot->held_since + router_hold_timeout);
  if (!held_router.empty()) next = std::min(next, held_look_at);
  if (!eqs_waiting.empty()) next = std::min(next, now + kEqLookAgain);  // nobody says that an application has polled
  next = std::min({next, ni_credits_due(*this), delays_due});
  if (!shares_waiting.empty()) next = std::min(next, shares_due);
  next = std::min({next, silence_due(*this), copies_due(*this), stays_due});
  for (auto& lnd : drivers()) next = std::min(next, lnd->next_deadline());
  return next;
}

}  // namespace ulnet
