// How messages begin and end: message_reset(), events, and giving back what they held.
#include "dataplane/stages/finish.h"

#include "dataplane/stages/forward.h"
#include "dataplane/stages/incoming.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"
#include "dataplane/state/failures.h"

namespace ulnet {
namespace {

bool is_incoming(const Message& m) {
  return m.kind == MsgKind::kInPut || m.kind == MsgKind::kInGet;
}

void stand_in_line(Worker& w, EventQueue& eq, EventSource& source) {
  if (eq.waiting.empty()) eq.moved = w.now;
  eq.waiting.push_back(source);
  if (!eq.linked()) w.eqs_waiting.push_back(eq);
}

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

void leave_md(Worker& w, Message& m) {
  if (m.md == nullptr) return;
  Md& md = *m.md;
  m.md = nullptr;
  md.ops.remove(m);
  md_retire_if_done(w, md);
}

/// The payload is in its MD: the ACK goes back the way the PUT came (docs/wire/lnet.md §3.1), whether or not its event
/// has found room in the queue.
void send_ack(Worker& w, Message& m) {
  const wire::PutBody put = m.tx.header.put();
  wire::Header ack;
  ack.type = wire::MsgType::kAck;
  ack.dest_nid = m.tx.header.src_nid;
  ack.src_nid = m.tx.header.dest_nid;
  ack.dest_pid = m.tx.header.src_pid;
  ack.src_pid = m.tx.header.dest_pid;
  ack.set(wire::AckBody{put.ack_wmd, put.match_bits, m.event.mlength});
  m.tx.header = ack;
  m.tx.payload = {};
  m.ack_sending = true;
  m.phase = MsgPhase::kActive;
  leave_md(w, m);
  send_message(w, m);
}

void event_paid(Submitter& submitter) {
  ULNET_CHECK(submitter.events_owed > 0);
  --submitter.events_owed;
}

void event_posted(Worker& w, Message& m) {
  if (is_incoming(m)) event_paid(*m.submitter);
  if (!m.ack_sending) release_message(w, m);
}

/// Posts what waits for room in a queue, as far as there is; returns how many.
unsigned flush_queue(Worker& w, EventQueue& eq) {
  unsigned posted = 0;
  for (; EventSource* source = eq.waiting.front(); ++posted) {
    const bool is_md = source->of == EventSource::Of::kMd;
    const Event event = is_md ? unlink_event(static_cast<Md&>(*source)) : static_cast<Message&>(*source).event;
    if (eq.open && !eq.ring->push(event)) break;
    eq.waiting.remove(*source);
    eq.moved = w.now;
    if (is_md)
      md_event_posted(w, static_cast<Md&>(*source));
    else
      event_posted(w, static_cast<Message&>(*source));
  }
  return posted;
}

}  // namespace

void message_reset(Worker& w, Message& m, MsgKind kind) {
  m.kind = kind;
  m.phase = MsgPhase::kActive;
  m.want_ack = m.lease_out = m.receiving = m.responded = m.ack_sending = m.cancelled = false;
  m.divert.store(false, std::memory_order_relaxed);
  m.recall.store(false, std::memory_order_relaxed);
  m.retries = 0;
  m.error = 0;
  m.md = nullptr;
  m.eq = nullptr;
  m.submitter = nullptr;
  m.md_offset = 0;
  m.event = Event{};
  m.want_src = m.want_dst = m.via = kAnyNid;
  m.issued = w.now;
  m.buffer = nullptr;
  m.from = nullptr;
  m.hop = nullptr;
  m.tx.home = w.id.value;
  m.tx.message = &m;
  m.tx.routed = false;
}

void settle(Worker& w, Message& m) {
  if (m.lease_out || m.receiving || m.phase != MsgPhase::kActive) return;
  const bool answered = m.kind == MsgKind::kGet || m.want_ack;
  if (answered && !m.responded && m.error == 0) {
    if (!m.cancelled) return;
    m.error = -ECANCELED;
  }
  m.event.kind = m.kind == MsgKind::kGet ? EventKind::kReply : m.want_ack ? EventKind::kAck : EventKind::kSend;
  m.event.status = m.responded && m.kind == MsgKind::kPut ? 0 : m.error;
  m.event.final = true;
  if (m.event.status != 0) w.counters[Stat::kErrors].add();
  if (m.kind == MsgKind::kPut && !m.want_ack && m.error == 0) m.event.mlength = m.event.rlength;
  finish_message(w, m);
}

void fail_message(Worker& w, Message& m, int32_t error, LndStatus health) {
  if (const auto stat = failure_class(health).at_node) w.counters[*stat].add();
  switch (m.kind) {
    case MsgKind::kPut:
    case MsgKind::kGet:
      if (m.error == 0) m.error = error;
      return settle(w, m);
    case MsgKind::kInPut:  // the ACK has no way back: the sender will time out
      w.counters[Stat::kDropCount].add();
      w.counters[Drop::kNoRoute].add();
      return ack_ended(w, m);
    case MsgKind::kInGet:
      w.counters[Stat::kDropCount].add();
      w.counters[Drop::kNoRoute].add();
      m.event.status = error;
      return finish_message(w, m);
    case MsgKind::kForward:
      w.counters[Stat::kDropCount].add();
      w.counters[Stat::kDropLength].add(m.tx.header.payload_length);
      w.counters[forward_drop_reason(error)].add();
      return forward_end(w, m);
  }
}

void finish_message(Worker& w, Message& m) {
  w.deadlines.disarm(m);
  m.phase = MsgPhase::kFinishing;
  if (m.kind == MsgKind::kInGet) {
    ULNET_CHECK(m.submitter->replies_leaving > 0);
    --m.submitter->replies_leaving;
  }
  const bool posted = m.eq == nullptr || m.eq->post(m.event);
  if (!posted)
    stand_in_line(w, *m.eq, m);
  else if (is_incoming(m))
    event_paid(*m.submitter);
  if (m.kind == MsgKind::kInPut && m.want_ack && m.event.status == 0) return send_ack(w, m);
  if (posted)
    release_message(w, m);
  else if (is_incoming(m))
    incoming_leave_share(w, m);
}

unsigned flush_events(Worker& w) {
  unsigned posted = 0;
  for (uint32_t left = w.eqs_waiting.size(); left > 0; --left) {
    EventQueue& eq = *w.eqs_waiting.pop_front();
    posted += flush_queue(w, eq);
    if (!eq.held.empty() && (queue_takes(w, *eq.submitter, eq) || queue_stuck(w, eq))) retry_held(w, eq);
    if ((!eq.waiting.empty() || !eq.held.empty()) && !eq.linked()) w.eqs_waiting.push_back(eq);
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

void ack_ended(Worker& w, Message& m) {
  m.ack_sending = false;
  m.phase = MsgPhase::kFinishing;
  if (!static_cast<Linked<EventTag>&>(m).linked())
    release_message(w, m);
  else
    incoming_leave_share(w, m);
}

void release_message(Worker& w, Message& m) {
  ULNET_CHECK(m.phase != MsgPhase::kFree && !m.lease_out && !m.receiving);
  w.deadlines.disarm(m);
  leave_md(w, m);
  Submitter* submitter = m.submitter;
  if (m.event.md == MdHandle{} && m.eq != nullptr) {  // it ended without MD and was a user of its queue itself
    ULNET_CHECK(m.eq->users > 0);
    --m.eq->users;
    eq_close_if_done(w, *submitter, uint32_t(m.eq - &submitter->eq_slot(0)));
  }
  m.phase = MsgPhase::kFree;
  m.eq = nullptr;
  m.submitter = nullptr;
  const bool ours = m.kind == MsgKind::kPut || m.kind == MsgKind::kGet;
  if (ours)
    w.operations.give(m);
  else
    incoming_give(w, m);
  if (submitter == nullptr) return;
  ULNET_CHECK(submitter->messages > 0 && submitter->operations <= submitter->messages);
  --submitter->messages;
  if (ours) --submitter->operations;
}

void md_retire_if_done(Worker& w, Md& md) {
  if (!md.bound || !md.gate_closed || !md.ops.empty() || static_cast<Linked<EventTag>&>(md).linked()) return;
  if (md.eq == nullptr || md.eq->post(unlink_event(md))) return md_event_posted(w, md);
  stand_in_line(w, *md.eq, md);
}

}  // namespace ulnet
