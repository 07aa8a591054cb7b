// The end of messages: their events, and giving back what they held. Thread: the worker that is home of the message.
#pragma once
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Fails a message that is ready to be sent.
void fail_message(Worker& w, Sending& m, int32_t error, LndStatus health);
/// The queue got an event. A callback has run; a thread that polls may sleep.
void event_pushed(Worker& w, EventQueue& eq);
/// Delivers the event that `make` returns, or returns false: the queue is full, or others wait already.
/// notify_pushed() wakes the application if it sleeps on the queue.
template <class Make>
[[nodiscard]] bool event_post(Worker& w, EventQueue& eq, const Make& make) {
  if (!eq.post(make)) return false;
  event_pushed(w, eq);
  return true;
}
/// The event of `source` found its queue full.
void event_wait(Worker& w, EventQueue& eq, EventSource& source);
/// The event of an Incoming has been posted: its submitter no longer owes it.
void event_paid(Submitter& submitter);
/// Retries events that found their queue full; returns how many went.
unsigned flush_events(Worker& w);
/// The message no longer uses its MD, if it has one. The MD may retire by that.
inline void leave_md(Worker& w, UserMessage& m) {
  if (m.md == nullptr) return;
  Md& md = *m.md;
  m.md = nullptr;
  md.ops.remove(m);
  if (md.gate_closed) md_retire_if_done(w, md);
}
/// The message is over and back in its slab: its submitter no longer counts it.
inline void submitter_leave(Submitter& submitter, const UserMessage& m) {
  ULNET_CHECK(submitter.messages > 0 && submitter.operations <= submitter.messages);
  --submitter.messages;
  if (m.kind == MessageKind::kOperation) --submitter.operations;
}

}  // namespace ulnet
