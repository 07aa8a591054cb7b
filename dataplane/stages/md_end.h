// The end of memory descriptors, event queues and submitters. Thread: the worker that is home of them.
#pragma once
#include "dataplane/stages/worker.h"

namespace ulnet {

/// Nothing new may use the MD; it retires when its last message is gone.
void md_close_gate(Worker& w, Md& md);
/// Ends the MD and what of its operations has not begun.
void md_unlink(Worker& w, Md& md, int32_t status);
void md_retire_if_done(Worker& w, Md& md);
/// The kUnlink event has been posted: the slot goes back to the application.
void md_event_posted(Worker& w, Md& md);
/// Closes a queue that is to be closed and whose last user is gone.
void eq_close_if_done(Worker& w, Submitter& submitter, uint32_t index);
void submitter_close(Worker& w, Submitter& submitter);
/// Reports each closing submitter that is no longer in use to control; returns how many. Control frees a submitter when
/// it reads the report, even in the same moment: call this last in a turn, and nowhere else. If the ring is full, the
/// report follows in a later turn.
unsigned submitters_report(Worker& w);

}  // namespace ulnet
