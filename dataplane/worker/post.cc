// Passing objects between workers, and what a worker passes to itself. Everything goes through a list or ring, never by
// a nested call: an LND may report from within a call of the core, and the stack must not grow with the queue.
#include "dataplane/msg/flow.h"
#include "dataplane/worker/worker.h"

namespace ulnet {
namespace {

void pass(Worker& w, WorkerId to, SpscRing<PostItem>& ring, List<Posted, PostTag>& outbox, PostKind kind,
          Posted& object) {
  object.post_kind = kind;
  if (outbox.empty() && ring.push({kind, &object})) {
    w.mesh.gates[to.value]->notify();
    return;
  }
  w.counters[TurnStat::kRingFull].add();
  outbox.push_back(object);
}

unsigned flush_outbox(Worker& w, unsigned to, SpscRing<PostItem>& ring, List<Posted, PostTag>& outbox) {
  unsigned sent = 0;
  while (Posted* object = outbox.front()) {
    if (ring.full()) break;
    outbox.remove(*object);  // before the push: from then on the consumer owns the link
    (void)ring.push({object->post_kind, object});
    ++sent;
  }
  if (sent > 0) w.mesh.gates[to]->notify();
  return sent;
}

WorkerItem item_of(WorkerKind kind, const LndMsg& msg) {
  return {.kind = kind, .a = msg.a, .object = msg.object, .lnd = msg};
}

unsigned flush_control(Worker& w) {
  SpscRing<WorkerItem>& ring = *w.mesh.to_control[w.id.value];
  unsigned sent = 0;
  for (; !w.control_queue.empty() && !ring.full(); ++sent) {
    Owed& owed = *w.control_queue.pop_front();
    const WorkerItem item = item_of(WorkerKind(owed.core_kind), owed.msg);
    if (owed.core_pooled) w.control_asks.give(owed);
    (void)ring.push(item);  // the last: from here on control may free what owed it
  }
  if (sent > 0) w.mesh.control_gate->notify();
  return sent;
}

}  // namespace

void post(Worker& w, WorkerId to, PostKind kind, Posted& object) {
  if (to == w.id) {
    object.post_kind = kind;
    w.local.push_back(object);
    return;
  }
  pass(w, to, w.mesh.pair(w.id.value, to.value).work, w.outbox_work[to.value], kind, object);
}

void post_back(Worker& w, WorkerId to, PostKind kind, Posted& object) {
  if (to == w.id) {
    object.post_kind = kind;
    w.local.push_back(object);
    return;
  }
  pass(w, to, w.mesh.pair(w.id.value, to.value).back, w.outbox_back[to.value], kind, object);
}

bool post_control_if_room(Worker& w, const WorkerItem& item) {
  if (!w.control_queue.empty() || !w.mesh.to_control[w.id.value]->push(item)) return false;
  w.mesh.control_gate->notify();
  return true;
}

void post_control(Worker& w, WorkerKind kind, Owed& owed) {
  owed.core_kind = uint8_t(kind);
  if (owed.linked() || post_control_if_room(w, item_of(kind, owed.msg))) return;
  w.counters[TurnStat::kRingFull].add();
  w.control_queue.push_back(owed);
}

bool ask_control(Worker& w, WorkerKind kind, const LndMsg& msg) {
  if (post_control_if_room(w, item_of(kind, msg))) return true;
  Owed* owed = w.control_asks.take();
  if (owed == nullptr) return false;
  owed->msg = msg;
  owed->core_pooled = true;
  post_control(w, kind, *owed);
  return true;
}

unsigned flush_outboxes(Worker& w) {
  unsigned sent = 0;
  for (unsigned to = 0; to < w.mesh.worker_count; ++to) {
    if (to == w.id.value) continue;
    auto& pair = w.mesh.pair(w.id.value, to);
    sent += flush_outbox(w, to, pair.back, w.outbox_back[to]);
    sent += flush_outbox(w, to, pair.work, w.outbox_work[to]);
  }
  return sent + flush_control(w);
}

bool has_waiters(const Worker& w) {
  if (!w.control_queue.empty()) return true;
  for (unsigned to = 0; to < w.mesh.worker_count; ++to)
    if (!w.outbox_back[to].empty() || !w.outbox_work[to].empty()) return true;
  return false;
}

}  // namespace ulnet
