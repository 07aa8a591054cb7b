// Passing objects between workers, and what a worker passes to itself. Everything goes through a list or ring, never by
// a nested call: an LND may report from within a call of the core, and the stack must not grow with the queue.
#include "dataplane/stages/post.h"

#include <bit>
#include <utility>

namespace ulnet {
namespace {

constexpr uint64_t bit(unsigned worker) {
  return uint64_t{1} << worker;
}

/// `pushed`: the marks of all rings of this kind. The item is visible at once to a worker that is awake;
/// notify_pushed() wakes one that sleeps.
void pass(Worker& w, WorkerId to, SpscRing<PostItem>& ring, uint64_t& pushed, List<Posted, PostTag>& outbox,
          PostKind kind, Posted& object) {
  object.post_kind = kind;
  if (outbox.empty() && ring.push({kind, &object})) {
    pushed |= bit(to.value);
    return;
  }
  w.counters[TurnStat::kRingFull].add();
  outbox.push_back(object);
}

unsigned flush_outbox(unsigned to, SpscRing<PostItem>& ring, uint64_t& pushed, List<Posted, PostTag>& outbox) {
  unsigned sent = 0;
  while (Posted* object = outbox.front()) {
    if (ring.full()) break;
    outbox.remove(*object);  // before the push: from then on the consumer owns the link
    (void)ring.push({object->post_kind, object});
    ++sent;
  }
  if (sent > 0) pushed |= bit(to);
  return sent;
}

/// Sleeping threads are to be notified.
bool has_pushed(const Worker& w) {
  return (w.pushed_work | w.pushed_back) != 0 || w.pushed_control || !w.eqs_pushed.empty();
}

unsigned flush_control(Worker& w) {
  SpscRing<WorkerMsg>& ring = *w.mesh.to_control[w.id.value];
  unsigned sent = 0;
  for (; !w.control_queue.empty() && !ring.full(); ++sent) {
    Owed& owed = *w.control_queue.pop_front();
    const WorkerMsg msg = owed.msg;
    if (owed.pooled) w.control_asks.give(owed);
    (void)ring.push(msg);  // the last: from here on control may free what owed it
  }
  if (sent > 0) w.pushed_control = true;
  return sent;
}

}  // namespace

void post_object(Worker& w, WorkerId to, PostKind kind, Posted& object) {
  if (to == w.id) {
    object.post_kind = kind;
    w.local.push_back(object);
    return;
  }
  pass(w, to, w.mesh.pair(w.id.value, to.value).work, w.pushed_work, w.outbox_work[to.value], kind, object);
}

void post_object_back(Worker& w, WorkerId to, PostKind kind, Posted& object) {
  if (to == w.id) {
    object.post_kind = kind;
    w.local.push_back(object);
    return;
  }
  pass(w, to, w.mesh.pair(w.id.value, to.value).back, w.pushed_back, w.outbox_back[to.value], kind, object);
}

bool post_control_if_room(Worker& w, const WorkerMsg& msg) {
  if (!w.control_queue.empty() || !w.mesh.to_control[w.id.value]->push(msg)) return false;
  w.pushed_control = true;
  return true;
}

void post_control(Worker& w, Owed& owed, const WorkerMsg& msg) {
  const bool waits = owed.linked();
  if (!waits && post_control_if_room(w, msg)) return;
  owed.msg = msg;
  if (waits) return;
  w.counters[TurnStat::kRingFull].add();
  w.control_queue.push_back(owed);
}

bool ask_control(Worker& w, const WorkerMsg& msg) {
  if (post_control_if_room(w, msg)) return true;
  Owed* owed = w.control_asks.take();
  if (owed == nullptr) return false;
  owed->pooled = true;
  post_control(w, *owed, msg);
  return true;
}

unsigned flush_outboxes(Worker& w) {
  unsigned sent = 0;
  for (unsigned to = 0; to < w.mesh.worker_count; ++to) {
    if (to == w.id.value) continue;
    auto& pair = w.mesh.pair(w.id.value, to);
    sent += flush_outbox(to, pair.back, w.pushed_back, w.outbox_back[to]);
    sent += flush_outbox(to, pair.work, w.pushed_work, w.outbox_work[to]);
  }
  return sent + flush_control(w);
}

void notify_application(Worker& w, EventQueue& eq) {
  if (!eq.pushed()) return;
  w.eqs_pushed.remove(eq);
  eq.gate.notify(*eq.ring);
}

void notify_pushed(Worker& w) {
  if (!has_pushed(w)) return;
  for (uint64_t left = w.pushed_work | w.pushed_back; left != 0; left &= left - 1) {
    const auto to = unsigned(std::countr_zero(left));
    Mesh::Pair& pair = w.mesh.pair(w.id.value, to);
    if ((w.pushed_back & bit(to)) != 0) pair.back.fence_pushes();
    if ((w.pushed_work & bit(to)) != 0) pair.work.fence_pushes();
    w.mesh.gates[to]->notify_stored();
  }
  w.pushed_work = w.pushed_back = 0;
  if (std::exchange(w.pushed_control, false)) w.mesh.control_gate->notify(*w.mesh.to_control[w.id.value]);
  while (EventQueue* eq = w.eqs_pushed.front()) notify_application(w, *eq);
}

bool has_waiters(const Worker& w) {
  if (has_pushed(w)) return true;
  if (!w.control_queue.empty()) return true;
  for (unsigned to = 0; to < w.mesh.worker_count; ++to)
    if (!w.outbox_back[to].empty() || !w.outbox_work[to].empty()) return true;
  return false;
}

}  // namespace ulnet
