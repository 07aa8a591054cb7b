// Puts and gets of this node's applications, and the other calls of their submitters.
#include "dataplane/stages/operation.h"

#include "dataplane/stages/finish.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"

namespace ulnet {
namespace {

using wire::MsgType;

void post_error_event(Worker& w, Submitter& submitter, const Op& op, int32_t error) {
  Message* m = w.operations.take();
  ULNET_CHECK(m != nullptr);
  message_reset(w, *m, op.kind == OpKind::kGet ? MsgKind::kGet : MsgKind::kPut);
  m->eq = op.eq_index < submitter.eq_slots() ? &submitter.eq_slot(op.eq_index) : nullptr;
  if (m->eq != nullptr) ++m->eq->users;
  m->submitter = &submitter;
  ++submitter.messages;
  ++submitter.operations;
  m->want_ack = op.ack;
  m->error = error;
  m->event.user_data = op.user_data;
  m->event.match_bits = op.match_bits;
  m->event.portal = op.portal;
  m->event.target = op.target;
  settle(w, *m);
}

void fill_header(Worker& w, Message& m, const Op& op, Handle handle) {
  wire::Header& header = m.tx.header;
  header = wire::Header{};
  header.dest_pid = op.pid;
  header.src_pid = kLnetPid;
  wire::WireHandle wmd{w.interface_cookie, object_cookie(w.id, handle)};
  if (m.kind == MsgKind::kPut) {
    header.type = MsgType::kPut;
    header.payload_length = op.length;
    if (!op.ack) wmd = wire::WireHandle{};
    header.set(wire::PutBody{wmd, op.match_bits, op.extra, op.portal, op.offset});
  } else {
    header.type = MsgType::kGet;
    header.payload_length = 0;
    header.set(wire::GetBody{wmd, op.match_bits, op.portal, op.offset, op.length});
  }
}

/// Is the answer waited for with a deadline? The MD's word first, then the node's (docs/wire/lnet.md §10).
bool tracked(const Worker& w, const Message& m, uint32_t options) {
  const bool get = m.kind == MsgKind::kGet;
  if (!get && !m.want_ack) return false;
  if ((options & (kMdNoTrack | kMdTrack)) != 0) return (options & kMdNoTrack) == 0;
  return (w.view->node.response_tracking & (get ? 1 : 2)) != 0;
}

void start_operation(Worker& w, Submitter& submitter, const Op& op) {
  Md& md = submitter.md_slot(op.index);
  if (!md.bound || md.gate_closed || md.handle.generation != op.generation)
    return post_error_event(w, submitter, op, -ENOENT);
  if (w.view->node.stopping) return post_error_event(w, submitter, op, -ESHUTDOWN);
  Message* m = w.operations.take();
  ULNET_CHECK(m != nullptr);
  message_reset(w, *m, op.kind == OpKind::kGet ? MsgKind::kGet : MsgKind::kPut);
  m->want_ack = op.ack && m->kind == MsgKind::kPut;
  m->md = &md;
  m->eq = md.eq;
  m->submitter = &submitter;
  ++submitter.messages;
  ++submitter.operations;
  m->md_offset = op.md_offset;
  m->want_src = op.self;
  m->want_dst = op.target;
  fill_header(w, *m, op, w.operations.handle(*m));
  m->tx.payload =
      m->kind == MsgKind::kPut ? Payload{md.segments, md.segment_count, op.md_offset, op.length} : Payload{};
  m->event.user_data = op.user_data;
  m->event.user_ptr = md.user_ptr;
  m->event.md = md.handle;
  m->event.match_bits = op.match_bits;
  m->event.hdr_data = m->kind == MsgKind::kPut ? op.extra : 0;
  m->event.portal = op.portal;
  m->event.rlength = op.length;
  m->event.offset = op.md_offset;
  m->event.target = op.target;
  md.ops.push_back(*m);
  ULNET_CHECK(md.threshold > 0);
  if (md.threshold != kInfinite && --md.threshold == 0) md_close_gate(w, md);
  if (tracked(w, *m, md.options)) w.deadlines.arm(*m, w.now + w.view->node.transaction_timeout);
  send_message(w, *m);
}

void attach(Worker& w, Submitter& submitter, const Op& op) {
  Md& md = submitter.md_slot(op.index);
  if (!md.bound || md.gate_closed || md.handle.generation != op.generation) return;
  const PortalView& portal = w.view->portals->portals[op.portal];
  int32_t error = 0;
  if (portal.mode == PortalMode::kClosed)
    error = -ENOENT;
  else if (portal.mode == PortalMode::kHashed && op.extra != 0)
    error = -EINVAL;  // a wildcard has no one home
  else if (portal.mode != PortalMode::kPerWorker &&
           portal_home(portal, op.match_bits, w.id, w.mesh.worker_count) != w.id)
    error = -EXDEV;
  if (error != 0) return md_unlink(w, md, error);
  MatchEntry entry;
  entry.initiator = {op.target, op.pid};
  entry.match_bits = op.match_bits;
  entry.ignore_bits = op.extra;
  entry.portal = op.portal;
  portal_attach(w.portals[op.portal], md, entry, op.position == MePosition::kHead);
  lazy_attached(w, md);
}

void bind(Worker& w, Submitter& submitter, const Op& op) {
  Md& md = submitter.md_slot(op.index);
  md.of = EventSource::Of::kMd;
  md.bound = true;
  md.gate_closed = false;
  md.unlink_status = 0;
  md.match.attached = false;
  md.local_offset = 0;
  if (md.eq != nullptr) ++md.eq->users;
  ++submitter.bound_mds;
  if (submitter.closing) md_unlink(w, md, -ESHUTDOWN);
}

}  // namespace

void run_op(Worker& w, Submitter& submitter, const Op& op) {
  switch (op.kind) {
    case OpKind::kDone: return;
    case OpKind::kEqOpen: submitter.eq_slot(op.index).open = !submitter.closing; return;
    case OpKind::kEqClose: submitter.eq_slot(op.index).closing = true; return eq_close_if_done(w, submitter, op.index);
    case OpKind::kMdBind: return bind(w, submitter, op);
    case OpKind::kMeAttach: return attach(w, submitter, op);
    case OpKind::kPut:
    case OpKind::kGet: return start_operation(w, submitter, op);
    case OpKind::kUnlink: {
      Md& md = submitter.md_slot(op.index);
      if (md.bound && md.handle.generation == op.generation) md_unlink(w, md, 0);
      return;
    }
  }
}

void operation_expired(Worker& w, Message& m) {
  w.counters[Stat::kResponseTimeoutCount].add();
  if (m.error == 0) m.error = -ETIMEDOUT;
  if (m.phase == MsgPhase::kParked) {
    w.parked.leave(m.parked_for, m);
    m.phase = MsgPhase::kActive;
  }
  if (m.receiving) divert_receive(w, m);
  settle(w, m);
}

}  // namespace ulnet
