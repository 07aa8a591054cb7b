// Puts and gets of this node's applications, and the other calls of their submitters.
#include "dataplane/stages/operation.h"

#include <algorithm>

#include "dataplane/stages/charge.h"
#include "dataplane/stages/copies.h"
#include "dataplane/stages/egress.h"
#include "dataplane/stages/finish.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"
#include "dataplane/stages/under_way.h"

namespace ulnet {
namespace {

using wire::MsgType;

/// Begins an Operation of `submitter`; its MD, if any, is the caller's to fill in.
Operation& operation_begin(Worker& w, Submitter& submitter, const OperationCall& call, EventKind end, EventQueue* eq) {
  Operation* op = w.operations.take();
  ULNET_CHECK(op != nullptr && op->state == OperationState::kFree && op->md == nullptr);
  op->state = OperationState::kReady;
  op->end = end;
  op->answer_known = op->md_unlinked = op->copied = op->path_failed = op->path_gone = op->stuck = false;
  op->copies = 0;
  op->recall.store(Recall::kNone, std::memory_order_relaxed);
  op->attempts_reset();
  op->recovery = false;
  op->status = 0;
  op->eq = eq;
  op->submitter = &submitter;
  ++submitter.messages;
  ++submitter.operations;
  op->want_src = call.self;
  op->want_dst = call.target.nid;
  op->portal0 = call.portal.value == kReservedPortal;
  op->user_data = call.user_data;
  op->issued = w.now;
  op->tx.home = w.id.value;
  return *op;
}

void fill_header(Worker& w, Operation& op, const OperationCall& call, uint64_t hdr_data, uint32_t length) {
  wire::Header& header = op.tx.header;  // its NIDs come with the path
  header.dest_pid = call.target.pid;
  header.src_pid = kLnetPid;
  wire::WireHandle wmd{w.interface_cookie, object_cookie(w.id, w.operations.handle(op))};
  if (op.is_get()) {
    header.type = MsgType::kGet;
    header.payload_length = 0;
    header.set(wire::GetBody{wmd, call.match_bits, call.portal.value, call.offset, length});
  } else {
    header.type = MsgType::kPut;
    header.payload_length = length;
    if (!op.awaits_answer()) wmd = wire::WireHandle{};
    header.set(wire::PutBody{wmd, call.match_bits, hdr_data, call.portal.value, call.offset});
  }
}

/// The part of the request that the event repeats.
struct Requested {
  uint64_t match_bits, hdr_data;
  uint32_t portal, length;
};

Requested requested(const Operation& op) {
  if (op.is_get()) {
    const wire::GetBody get = op.tx.header.get();
    return {get.match_bits, 0, get.portal, get.sink_length};
  }
  const wire::PutBody put = op.tx.header.put();
  return {put.match_bits, put.hdr_data, put.portal, op.tx.header.payload_length};
}

Event event_with(const Operation& op, const Response* answer) {
  const Requested request = requested(op);
  Event event;
  event.kind = op.end;
  event.final = true;
  event.status = op.status;
  event.user_data = op.user_data;
  event.match_bits = request.match_bits;
  event.hdr_data = request.hdr_data;
  event.portal = request.portal;
  event.rlength = request.length;
  if (op.md != nullptr) {
    event.md = op.md->handle;
    event.user_ptr = op.md->user_ptr;
    event.offset = op.md_offset;
  }
  event.target = op.want_dst;
  if (answer != nullptr) {
    event.initiator = answer->initiator;
    event.source = answer->source;
    event.sender = answer->sender;
    event.target = answer->target;
    event.initiator_pid = answer->initiator_pid;
    event.mlength = answer->mlength;
  }
  if (!op.awaits_answer() && op.status == 0) event.mlength = event.rlength;
  return event;
}

void keep_answer(Operation& op, const Response& answer) {
  op.answer = answer;
  op.answer_known = true;
}

/// The first error decides.
void note_error(Operation& op, int32_t error) {
  if (op.status == 0) op.status = error;
}

/// The operation is over: posts its event, now or when there is room. `answer`: null if none is known.
void operation_end(Worker& w, Operation& op, const Response* answer) {
  w.deadlines.disarm(op);
  under_way_end(w, op, op.status);
  if (op.status != 0) w.counters[Stat::kErrors].add();
  op.state = OperationState::kFinishing;
  if (op.eq == nullptr || event_post(w, *op.eq, [&] { return event_with(op, answer); }))
    return operation_release(w, op);
  if (answer != nullptr && answer != &op.answer) keep_answer(op, *answer);
  event_wait(w, *op.eq, op);
}

/// The same, with the answer that was kept.
void operation_end(Worker& w, Operation& op) {
  operation_end(w, op, op.answer_known ? &op.answer : nullptr);
}

/// An answer in the sink that comes too late.
void drop_answer(Worker& w, const Operation& op, Drop reason) {
  w.counters[reason].add();
  w.counters[Stat::kDropCount].add();
  w.counters[Stat::kDropLength].add(op.tx.answer.bytes);
}

/// The lease of a GET is back with its answer in the sink, which takes the place of a REPLY.
void answered_in_sink(Worker& w, Operation& op) {
  const int32_t refused = op.tx.answer.error;
  if (op.status == 0 && refused == 0) {
    const Response answer = sink_answer(w, op);
    return operation_end(w, op, &answer);
  }
  if (op.status != 0)
    drop_answer(w, op, Drop::kStaleHandle);
  else
    op.status = op.md_unlinked ? -ECANCELED : refused;
  operation_end(w, op);
}

void post_error_event(Worker& w, Submitter& submitter, const OperationCall& call, EventKind end, int32_t error) {
  EventQueue* eq = call.eq < submitter.eq_slots() ? &submitter.eq_slot(call.eq) : nullptr;
  if (eq != nullptr) ++eq->users;
  Operation& op = operation_begin(w, submitter, call, end, eq);
  fill_header(w, op, call, 0, 0);  // nothing moves
  operation_failed(w, op, error);
}

/// Is the answer waited for with a deadline? The MD's word first, then the node's (docs/wire/lnet.md §10).
bool tracked(const Worker& w, const Operation& op, uint32_t options) {
  if (!op.awaits_answer()) return false;
  if ((options & (kMdNoTrack | kMdTrack)) != 0) return (options & kMdNoTrack) == 0;
  return (w.view->node.response_tracking & (op.is_get() ? 1 : 2)) != 0;
}

void start_operation(Worker& w, Submitter& submitter, const OperationCall& call, EventKind end, uint64_t hdr_data,
                     bool recovery) {
  Md& md = submitter.md_slot(call.md.index);
  if (!md.bound || md.gate_closed || md.handle.generation != call.md.generation)
    return post_error_event(w, submitter, call, end, -ENOENT);
  if (w.view->node.stopping) return post_error_event(w, submitter, call, end, -ESHUTDOWN);
  Operation& op = operation_begin(w, submitter, call, end, md.eq);
  op.md = &md;
  op.md_offset = call.md_offset;
  op.recovery = recovery;
  fill_header(w, op, call, hdr_data, call.length);
  op.tx.payload = op.is_get() ? Payload{} : Payload{md.segments, md.segment_count, call.md_offset, call.length};
  md.ops.push_back(op);
  ULNET_CHECK(md.threshold > 0);
  if (md.threshold != kInfinite && --md.threshold == 0) md_close_gate(w, md);
  if (tracked(w, op, md.options)) w.deadlines.arm(op, w.now + w.view->node.transaction_timeout);
  send_message(w, op);
}

// --- one function per kind of call ---

void run(Worker& w, Submitter& submitter, const PutCall& call) {
  start_operation(w, submitter, call.operation, call.ack ? EventKind::kAck : EventKind::kSend, call.hdr_data, false);
}

void run(Worker& w, Submitter& submitter, const GetCall& call) {
  start_operation(w, submitter, call.operation, EventKind::kReply, 0, call.recovery);
}

void run(Worker& w, Submitter& submitter, const BindCall& call) {
  Md& md = submitter.md_slot(call.md);
  md.bound = true;
  md.gate_closed = false;
  md.unlink_status = 0;
  md.match.attached = false;
  md.local_offset = 0;
  if (md.eq != nullptr) ++md.eq->users;
  ++submitter.bound_mds;
  if (submitter.closing) return md_unlink(w, md, -ESHUTDOWN);
  if (md.memory_error != 0) md_unlink(w, md, md.memory_error);
}

void run(Worker& w, Submitter& submitter, const AttachCall& call) {
  Md& md = submitter.md_slot(call.md.index);
  if (!md.bound || md.gate_closed || md.handle.generation != call.md.generation) return;
  const PortalView& portal = w.view->portals->portals[call.portal.value];
  int32_t error = 0;
  if (portal.mode == PortalMode::kClosed)
    error = -ENOENT;
  else if (portal.mode == PortalMode::kHashed && call.ignore_bits != 0)
    error = -EINVAL;  // a wildcard has no one home
  else if (portal.mode != PortalMode::kPerWorker &&
           portal_home(portal, call.match_bits, w.id, w.mesh.worker_count) != w.id)
    error = -EXDEV;
  if (error != 0) return md_unlink(w, md, error);
  MatchEntry entry;
  entry.initiator = call.initiator;
  entry.match_bits = call.match_bits;
  entry.ignore_bits = call.ignore_bits;
  entry.portal = call.portal.value;
  portal_attach(w.portals[call.portal.value], md, entry, call.position == MePosition::kHead);
  lazy_attached(w, md);
}

void run(Worker& w, Submitter& submitter, const UnlinkCall& call) {
  Md& md = submitter.md_slot(call.md.index);
  if (md.bound && md.handle.generation == call.md.generation) md_unlink(w, md, 0);
}

void run(Worker&, Submitter& submitter, const EqOpenCall& call) {
  submitter.eq_slot(call.eq).open = !submitter.closing;
}

void run(Worker& w, Submitter& submitter, const EqCloseCall& call) {
  submitter.eq_slot(call.eq).closing = true;
  eq_close_if_done(w, submitter, call.eq);
}

}  // namespace

void run_call(Worker& w, Submitter& submitter, const CallMsg& msg) {
  std::visit([&](const auto& call) { run(w, submitter, call); }, msg);
}

Event operation_event(const Operation& op) {
  return event_with(op, op.answer_known ? &op.answer : nullptr);
}

void operation_release(Worker& w, Operation& op) {
  ULNET_CHECK(op.state == OperationState::kFinishing);
  Submitter& submitter = *op.submitter;
  if (op.md != nullptr) {
    leave_md(w, op);
  } else if (op.eq != nullptr) {  // without MD, the operation is a user of its queue
    ULNET_CHECK(op.eq->users > 0);
    --op.eq->users;
    eq_close_if_done(w, submitter, uint32_t(op.eq - &submitter.eq_slot(0)));
  }
  op.state = OperationState::kFree;
  w.operations.give(op);
  submitter_leave(submitter, op);
}

void operation_lease_back(Worker& w, Operation& op) {
  const int32_t error = op.tx.result.error;
  const bool in_sink = op.tx.answer.come;
  switch (op.state) {
    case OperationState::kSending:
    case OperationState::kSendingGivenUp:
      if ((error != 0 || op.tx.answer.error != 0) && op.copied && op.state == OperationState::kSending) {
        op.state = OperationState::kAwaiting;
        return;
      }
      if (error != 0) note_error(op, error);
      if (in_sink) return answered_in_sink(w, op);
      if (op.status == 0 && op.state == OperationState::kSendingGivenUp) op.status = -ECANCELED;
      if (op.status != 0 || !op.awaits_answer()) return operation_end(w, op);
      op.state = OperationState::kAwaiting;
      return;
    case OperationState::kSendingReceiving:
      if (in_sink) drop_answer(w, op, Drop::kReplyTwice);
      op.state = OperationState::kReceiving;
      return;
    case OperationState::kSendingAnswered:
      if (in_sink) drop_answer(w, op, Drop::kReplyTwice);
      if (!op.is_get()) op.status = 0;  // the peer has all of it, however the lease ended
      return operation_end(w, op);
    case OperationState::kFree:
    case OperationState::kReady:
    case OperationState::kParked:
    case OperationState::kAwaiting:
    case OperationState::kReceiving:
    case OperationState::kFinishing: break;
  }
  ULNET_CHECK(!"a lease came back that was not out");
}

void operation_failed(Worker& w, Operation& op, int32_t error) {
  ULNET_CHECK(op.state == OperationState::kReady);
  note_error(op, error);
  operation_end(w, op);
}

void operation_acked(Worker& w, Operation& op, const Response& answer) {
  if (op.state == OperationState::kAwaiting) return operation_end(w, op, &answer);
  ULNET_CHECK(op.state == OperationState::kSending);
  keep_answer(op, answer);
  op.state = OperationState::kSendingAnswered;
}

bool operation_reply_begins(Worker& w, Operation& op, const Response& answer, RxSlot& slot) {
  ULNET_CHECK(op.state == OperationState::kSending || op.state == OperationState::kAwaiting);
  const uint32_t length = slot.header.payload_length, room = op.tx.header.get().sink_length;
  const Md& md = *op.md;
  keep_answer(op, answer);
  if (length > room && (md.options & kMdTruncate) == 0) return false;
  if (length > w.view->node.regions_above && md.memory == MdMemory::kNone) return false;  // its memory has no region
  op.answer.mlength = std::min(length, room);
  ULNET_CHECK(uint64_t{op.md_offset} + op.answer.mlength <= md.length);
  op.receive_begin(w.id, slot.conn_worker);
  op.stuck = false;
  op.state = op.state == OperationState::kSending ? OperationState::kSendingReceiving : OperationState::kReceiving;
  slot.message = &op;
  slot.into = {md.segments, md.segment_count, op.md_offset, op.answer.mlength};
  return true;
}

void operation_received(Worker& w, Operation& op) {
  if (op.rx_result.error != 0 && reply_lost(w, op)) return;
  if (op.rx_result.error != 0)
    note_error(op, op.md_unlinked ? -ECANCELED : op.rx_result.error);
  else
    sample_response(w, op);
  if (op.state == OperationState::kReceiving) return operation_end(w, op);
  ULNET_CHECK(op.state == OperationState::kSendingReceiving);
  op.stuck = false;  // that was the path of the REPLY
  op.state = OperationState::kSendingAnswered;
}

void operation_expired(Worker& w, Operation& op) {
  w.counters[Stat::kResponseTimeoutCount].add();
  note_error(op, -ETIMEDOUT);
  const bool unanswered = op.state == OperationState::kAwaiting || op.state == OperationState::kSending;
  if (unanswered && op.under_way.on) charge_no_answer(w, *op.tx.peer);
  switch (op.state) {
    case OperationState::kParked: w.parked.leave(op.parked_for, op); return operation_end(w, op);
    case OperationState::kAwaiting: return operation_end(w, op);
    case OperationState::kSending:
    case OperationState::kSendingGivenUp: op.state = OperationState::kSendingGivenUp; return;
    case OperationState::kSendingReceiving:
    case OperationState::kReceiving: return divert_receive(w, op);
    case OperationState::kSendingAnswered: return;
    case OperationState::kFree:
    case OperationState::kReady:
    case OperationState::kFinishing: break;
  }
  ULNET_CHECK(!"an operation that is over expired");
}

void operation_unlinked(Worker& w, Operation& op) {
  op.md_unlinked = true;
  switch (op.state) {
    case OperationState::kParked:
      w.parked.leave(op.parked_for, op);
      note_error(op, -ECANCELED);
      return operation_end(w, op);
    case OperationState::kAwaiting: note_error(op, -ECANCELED); return operation_end(w, op);
    case OperationState::kSending:
    case OperationState::kSendingGivenUp:
      if (!op.awaits_answer()) return;  // a put without ACK ends when it is sent
      op.state = OperationState::kSendingGivenUp;
      return recall_lease(w, op, Recall::kUnsent);
    case OperationState::kSendingReceiving:
    case OperationState::kReceiving: return divert_receive(w, op);
    case OperationState::kSendingAnswered:
    case OperationState::kFinishing: return;
    case OperationState::kFree:
    case OperationState::kReady: break;
  }
  ULNET_CHECK(!"an operation uses no MD, and its MD was unlinked");
}

}  // namespace ulnet
