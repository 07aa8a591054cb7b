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

void post_control(Worker& w, const WorkerItem& item) {
  if (w.control_queue_head == w.control_queue.size() && w.mesh.to_control[w.id.value]->push(item)) {
    w.mesh.control_gate->notify();
    return;
  }
  // The queue was reserved at start; what LNDs and lookups can owe is bounded by their tables, far below its size.
  ULNET_CHECK(w.control_queue.size() < w.control_queue.capacity());
  w.counters[TurnStat::kRingFull].add();
  w.control_queue.push_back(item);
}

unsigned flush_outboxes(Worker& w) {
  unsigned sent = 0;
  for (unsigned to = 0; to < w.mesh.worker_count; ++to) {
    if (to == w.id.value) continue;
    auto& pair = w.mesh.pair(w.id.value, to);
    sent += flush_outbox(w, to, pair.back, w.outbox_back[to]);
    sent += flush_outbox(w, to, pair.work, w.outbox_work[to]);
  }
  unsigned to_control = 0;
  while (w.control_queue_head < w.control_queue.size() &&
         w.mesh.to_control[w.id.value]->push(w.control_queue[w.control_queue_head])) {
    ++w.control_queue_head;
    ++to_control;
  }
  if (w.control_queue_head == w.control_queue.size()) {
    w.control_queue.clear();
    w.control_queue_head = 0;
  }
  if (to_control > 0) w.mesh.control_gate->notify();
  return sent + to_control;
}

bool has_waiters(const Worker& w) {
  if (w.control_queue_head < w.control_queue.size() || !w.eqs_waiting.empty()) return true;
  for (unsigned to = 0; to < w.mesh.worker_count; ++to)
    if (!w.outbox_back[to].empty() || !w.outbox_work[to].empty()) return true;
  return false;
}

}  // namespace ulnet
