// The begin and the end of the life of a message. Thread: the worker that is home of the message.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Begins the life of `m` on its home worker: as if nothing had happened to it yet. `tx` and the window in the MD are
/// the caller's to fill.
void message_reset(Worker& w, Message& m, MsgKind kind);
/// Looks whether an operation of this node is over, and ends it.
void settle(Worker& w, Message& m);
/// Fails a message before or instead of its lease.
void fail_message(Worker& w, Message& m, int32_t error, LndStatus health);
/// Posts the message's event now or when there is room; an ACK leaves in any case. Releases it when both are over.
void finish_message(Worker& w, Message& m);
/// Retries events that found their queue full; returns how many went.
unsigned flush_events(Worker& w);
/// The ACK of a kInPut has left, or cannot leave.
void ack_ended(Worker& w, Message& m);
void release_message(Worker& w, Message& m);

}  // namespace ulnet
