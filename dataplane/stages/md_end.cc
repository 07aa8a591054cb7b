// The end of memory descriptors, and of the submitters that own their slots.
#include "dataplane/stages/md_end.h"

#include "dataplane/stages/incoming.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/receive.h"

namespace ulnet {

void md_close_gate(Worker& w, Md& md) {
  if (md.gate_closed) return;
  md.gate_closed = true;
  if (md.match.attached) portal_detach(w.portals[md.match.portal], md);
  md_retire_if_done(w, md);
}

void md_unlink(Worker& w, Md& md, int32_t status) {
  if (!md.gate_closed) {
    md.gate_closed = true;
    md.unlink_status = status;
    if (md.match.attached) portal_detach(w.portals[md.match.portal], md);
  }
  if (md.ops.empty()) return md_retire_if_done(w, md);
  for (UserMessage* m = md.ops.front(); m != nullptr;) {
    UserMessage* next = md.ops.after(*m);
    if (m->kind == MessageKind::kOperation)
      operation_unlinked(w, as_operation(*m));
    else
      incoming_unlinked(w, as_incoming(*m));
    if (next == nullptr) return;  // the end of the last one may have retired the MD
    m = next;
  }
}

void md_event_posted(Worker& w, Md& md) {
  Submitter& submitter = *w.submitters[md.handle.submitter];
  EventQueue* eq = md.eq;
  const uint32_t index = md.handle.index;
  ULNET_CHECK(md.bound && md.gate_closed && md.ops.empty() && submitter.bound_mds > 0);
  md.bound = false;
  md.eq = nullptr;
  --submitter.bound_mds;
  submitter.worker_free(true, index);  // from here on the slot is the application's
  if (eq != nullptr) {
    ULNET_CHECK(eq->users > 0);
    --eq->users;
    eq_close_if_done(w, submitter, uint32_t(eq - &submitter.eq_slot(0)));
  }
}

void eq_close_if_done(Worker& w, Submitter& submitter, uint32_t index) {
  EventQueue& eq = submitter.eq_slot(index);
  if (!eq.closing || eq.users != 0) return;
  eq.closing = false;
  eq.open = false;
  retry_held(w, eq);  // no MD leads here any more
  notify_application(w, eq);
  submitter.worker_free(false, index);
}

void submitter_close(Worker& w, Submitter& submitter) {
  if (submitter.closing) return;
  submitter.closing = true;
  ++w.submitters_closing;
  for (uint32_t i = 0; i < submitter.eq_slots(); ++i) {
    EventQueue& eq = submitter.eq_slot(i);
    eq.open = false;  // nobody is told any more
    if (!eq.waiting.empty() && !eq.waits()) w.eqs_waiting.push_back(eq);
  }
  for (uint32_t i = 0; i < submitter.md_slots(); ++i)
    if (submitter.md_slot(i).bound) md_unlink(w, submitter.md_slot(i), -ESHUTDOWN);
}

unsigned submitters_report(Worker& w) {
  unsigned reported = 0;
  for (Submitter*& submitter : w.submitters) {
    if (submitter == nullptr || !submitter->closing || !submitter->unused()) continue;
    if (!post_control_if_room(w, SubmitterClosedMsg{submitter})) break;
    submitter = nullptr;  // control's from here on
    w.submitters_open &= ~(uint64_t{1} << (&submitter - w.submitters.data()));
    --w.submitters_closing;
    ++reported;
  }
  return reported;
}

}  // namespace ulnet
