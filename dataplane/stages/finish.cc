// How messages end: events, and giving back what they held. The steps of each kind are in operation.cc, incoming.cc and
// forward.cc.
#include "dataplane/stages/finish.h"

#include "dataplane/stages/forward.h"
#include "dataplane/stages/incoming.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/md_memory.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/receive.h"
#include "dataplane/state/failures.h"

namespace ulnet {
namespace {

Event unlink_event(const Md& md) {
  Event event;
  event.kind = EventKind::kUnlink;
  event.status = md.unlink_status;
  event.md = md.handle;
  event.user_ptr = md.user_ptr;
  event.match_bits = md.match.match_bits;
  event.portal = md.match.portal;
  event.offset = md.local_offset;
  return event;
}

Event event_of(const EventSource& source) {
  switch (source.of) {
    case EventSource::Of::kOperation: return operation_event(static_cast<const Operation&>(source));
    case EventSource::Of::kIncoming: return static_cast<const Incoming&>(source).event;
    case EventSource::Of::kMd: return unlink_event(static_cast<const Md&>(source));
  }
  return {};
}

void event_posted(Worker& w, EventSource& source) {
  switch (source.of) {
    case EventSource::Of::kOperation: return operation_release(w, static_cast<Operation&>(source));
    case EventSource::Of::kIncoming: return incoming_event_posted(w, static_cast<Incoming&>(source));
    case EventSource::Of::kMd: return md_event_posted(w, static_cast<Md&>(source));
  }
}

/// Posts what waits for room in a queue, as far as there is; returns how many.
unsigned flush_queue(Worker& w, EventQueue& eq) {
  unsigned posted = 0;
  for (; EventSource* source = eq.waiting.front(); ++posted) {
    if (eq.open && !eq.ring->push(event_of(*source))) break;
    eq.waiting.remove(*source);
    eq.moved = w.now;
    event_pushed(w, eq);  // before the next line, which may give the queue back to the application
    event_posted(w, *source);
  }
  return posted;
}

}  // namespace

void event_pushed(Worker& w, EventQueue& eq) {
  if (eq.open && eq.callback == nullptr && !eq.pushed()) w.eqs_pushed.push_back(eq);
}

void event_wait(Worker& w, EventQueue& eq, EventSource& source) {
  if (eq.waiting.empty()) eq.moved = w.now;
  eq.waiting.push_back(source);
  if (!eq.waits()) w.eqs_waiting.push_back(eq);
}

void event_paid(Submitter& submitter) {
  ULNET_CHECK(submitter.events_owed > 0);
  --submitter.events_owed;
}

void fail_message(Worker& w, Sending& m, int32_t error, LndStatus health) {
  if (const auto stat = failure_class(health).at_node) w.counters[*stat].add();
  switch (m.kind) {
    case MessageKind::kOperation: return operation_failed(w, as_operation(m), error);
    case MessageKind::kIncoming: return incoming_failed(w, as_incoming(m), error);
    case MessageKind::kTransit: return forward_failed(w, as_transit(m), error);
  }
}

unsigned flush_events(Worker& w) {
  unsigned posted = 0;
  for (uint32_t left = w.eqs_waiting.size(); left > 0; --left) {
    EventQueue& eq = *w.eqs_waiting.pop_front();
    posted += flush_queue(w, eq);
    if (!eq.held.empty() && (queue_takes(w, *eq.submitter, eq) || queue_stuck(w, eq))) retry_held(w, eq);
    if ((!eq.waiting.empty() || !eq.held.empty()) && !eq.waits()) w.eqs_waiting.push_back(eq);
  }
  return posted;
}

// While no event waits for room, GETs count for their peer NIs only: these may never take their REPLYs.
bool queue_takes(const Worker& w, const Submitter& submitter, const EventQueue& eq) {
  const uint32_t owed = submitter.events_owed - (eq.waiting.empty() ? submitter.replies_leaving : 0);
  if (!eq.open || owed < w.incoming.capacity() - w.incoming.out()) return true;
  return owed < eq.ring->capacity() - eq.ring->depth();
}

bool queue_stuck(const Worker& w, const EventQueue& eq) {
  return !eq.waiting.empty() && w.now - eq.moved >= kEqStuckMax;
}

void md_retire_if_done(Worker& w, Md& md) {
  if (!md.bound || !md.gate_closed || !md.ops.empty() || static_cast<Linked<EventTag>&>(md).linked()) return;
  if (!md_memory_free(w, md)) return;
  if (md.eq == nullptr || event_post(w, *md.eq, [&] { return unlink_event(md); })) return md_event_posted(w, md);
  event_wait(w, *md.eq, md);
}

}  // namespace ulnet
