// A worker passes objects on to other workers and to itself, and messages to control. Thread: the worker.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

void post_object(Worker& w, WorkerId to, PostKind kind, Posted& object);
void post_object_back(Worker& w, WorkerId to, PostKind kind, Posted& object);
/// Passes an object to another worker, or to this one by way of `local`. If the ring is full, the object waits.
template <PostKind kKind>
void post(Worker& w, WorkerId to, PostedAs<kKind>& object) {
  post_object(w, to, kKind, object);
}
/// Same, on the ring for what comes back.
template <PostKind kKind>
void post_back(Worker& w, WorkerId to, PostedAs<kKind>& object) {
  post_object_back(w, to, kKind, object);
}
/// Sends `msg` to control; if the ring is full, `msg` waits in `owed`. If one waits there already, `msg` replaces it.
void post_control(Worker& w, Owed& owed, const WorkerMsg& msg);
/// The same for a message that no object owes. False: none is left of `control_asks`.
[[nodiscard]] bool ask_control(Worker& w, const WorkerMsg& msg);
/// Sends only if nothing has to wait: false when the ring is full.
[[nodiscard]] bool post_control_if_room(Worker& w, const WorkerMsg& msg);
/// Retries everything that waits for room; returns how many went.
unsigned flush_outboxes(Worker& w);
/// Wakes each thread that sleeps and was sent something since the last call. The cost is one barrier per ring and one
/// look at the gate per thread, however many items went.
void notify_pushed(Worker& w);
/// The same for one event queue, if it got events since then.
void notify_application(Worker& w, EventQueue& eq);
/// True when something waits for room in a ring, or a thread was not yet notified of items in one. Such a worker does
/// not sleep.
[[nodiscard]] bool has_waiters(const Worker& w);

}  // namespace ulnet
