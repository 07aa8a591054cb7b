// The steps of a message for this node, and which receive gets one of the worker's `incoming` messages. A peer NI may
// hold as many as it leaves free: one peer NI holds at most half of the pool, n peer NIs leave 1/(n+1) of it. A receive
// over that share is held, and with it only its own stream. A message whose event waits for room in its queue counts
// for its submitter and not for the peer NI. The last messages are reserved for portal 0, so that pings and pushes get
// through.
// The hard part: a held stream also holds the ACKs and REPLYs behind it. Two nodes that hold each other's streams would
// wait until the driver's time-out. Hence a share that does not move for kIncomingHoldMax drops what has no message.
#include "dataplane/stages/incoming.h"

#include "dataplane/stages/finish.h"
#include "dataplane/stages/match.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"

namespace ulnet {
namespace {

IncomingShare& share_of(Worker& w, const RxSlot& slot) {
  return slot.from == nullptr ? w.own_share : slot.from->locals[w.id.value]->incoming;
}

/// Index into IncomingShare::waiting.
unsigned class_of(const RxSlot& slot) {
  const wire::Header& h = slot.header;
  return (h.type == wire::MsgType::kPut ? h.put().portal : h.get().portal) == kReservedPortal ? 1 : 0;
}

bool has_room(const Worker& w, const IncomingShare& share, unsigned waiting_class) {
  const uint32_t reserve = waiting_class == 1 ? 0 : w.incoming_reserve();
  const uint32_t free = w.incoming.capacity() - w.incoming.out();
  return free > reserve && share.held < free - reserve;
}

void join(Worker& w, IncomingShare& share) {
  if (static_cast<Linked<ShareTag>&>(share).linked()) return;
  share.moved = w.now;
  w.shares_waiting.push_back(share);
  w.shares_due = std::min(w.shares_due, w.now + kIncomingHoldMax);
}

/// The receive that has waited longest and may have a message now, unlinked; null when there is none.
RxSlot* next_admitted(const Worker& w, IncomingShare& share) {
  for (unsigned waiting_class : {1u, 0u})
    if (!share.waiting[waiting_class].empty() && has_room(w, share, waiting_class))
      return share.waiting[waiting_class].pop_front();
  return nullptr;
}

void drop_waiting(Worker& w, IncomingShare& share) {
  share.refusing = true;
  for (List<RxSlot, RxTag>& waiting : share.waiting)
    while (RxSlot* slot = waiting.pop_front()) slot_answer(w, *slot, drop_receive(w, *slot, Drop::kNoMessage));
}

/// The message no longer depends on its peer NI and no longer counts there. No effect if the message did not count.
void leave_share(Worker& w, Incoming& m) {
  if (m.share == nullptr) return;
  ULNET_CHECK(m.share->held > 0);
  --m.share->held;
  m.share->moved = w.now;
  m.share->refusing = false;
  m.share = nullptr;
  w.shares_to_look = w.shares_waiting.size();
}

/// The message is over, and its event is posted.
void release(Worker& w, Incoming& m) {
  ULNET_CHECK(m.state == IncomingState::kFinishing);
  Submitter* submitter = m.submitter;
  leave_md(w, m);
  m.state = IncomingState::kFree;
  leave_share(w, m);
  w.incoming.give(m);
  w.shares_to_look = w.shares_waiting.size();
  if (submitter != nullptr) submitter_leave(*submitter, m);
}

/// The payload of a PUT is in place, or lost. If there is to be no ACK, its entry stays open: a copy gets none either.
void put_seen(Worker& w, const Incoming& m) {
  if (m.seen == RequestsSeen::kNowhere) return;
  const wire::WireHandle handle = m.tx.header.put().ack_wmd;
  if (m.rx_result.error != 0)
    w.requests_seen.forget(m.seen, handle);
  else if ((m.md->options & kMdAckDisable) == 0)
    w.requests_seen.delivered(m.seen, handle, {m.event.mlength, m.event.offset, m.md->match.order});
}

bool wants_ack(const Incoming& m) {
  return m.is_put() && m.event.status == 0 && (m.md->options & kMdAckDisable) == 0 &&
         !m.tx.header.put().ack_wmd.is_none();
}

/// Nothing is under way any more but, perhaps, the event.
void end_but_event(Worker& w, Incoming& m) {
  m.state = IncomingState::kFinishing;
  if (static_cast<Linked<EventTag>&>(m).linked())
    leave_share(w, m);
  else
    release(w, m);
}

/// All is received, or the REPLY has left: posts the event now or when there is room. An ACK leaves in any case.
void event_due(Worker& w, Incoming& m) {
  if (!m.is_put()) {
    ULNET_CHECK(m.submitter->replies_leaving > 0);
    --m.submitter->replies_leaving;
  }
  const bool ack = wants_ack(m);
  if (m.eq == nullptr || event_post(w, *m.eq, [&] { return m.event; }))
    event_paid(*m.submitter);
  else
    event_wait(w, *m.eq, m);
  if (ack) return send_ack(w, m);
  end_but_event(w, m);
}

}  // namespace

// The ACK goes back the way the PUT came (docs/wire/lnet.md §3.1), even if its event waits for room in the queue.
void send_ack(Worker& w, Incoming& m) {
  wire::Header& header = m.tx.header;
  const wire::PutBody put = header.put();
  become_response(header, wire::MsgType::kAck);
  header.set(wire::AckBody{put.ack_wmd, put.match_bits, m.event.mlength});
  m.tx.payload = {};
  leave_md(w, m);
  send_message(w, m);
}

void incoming_received(Worker& w, Incoming& m) {
  ULNET_CHECK(m.state == IncomingState::kReceiving);
  m.state = IncomingState::kReady;
  if (m.rx_result.error != 0 && receive_copy(w, m)) return;
  put_seen(w, m);
  while (RxSlot* copy = m.copies.back()) {  // as any other copy, now that the end of the first is known
    m.copies.remove(*copy);
    incoming_wait_first(w, *copy);
  }
  if (const int32_t error = m.rx_result.error; error != 0) {
    w.counters[Stat::kDropCount].add();
    w.counters[m.md_unlinked ? Drop::kMdUnlinked : Drop::kReceiveFailed].add();
    m.event.status = m.md_unlinked ? -ECANCELED : error;
  }
  event_due(w, m);
}

void incoming_lease_back(Worker& w, Incoming& m) {
  ULNET_CHECK(m.state == IncomingState::kSending);
  m.state = IncomingState::kReady;
  if (m.is_put()) return end_but_event(w, m);
  m.event.status = m.tx.result.error;
  event_due(w, m);
}

// There is no way back for the ACK or REPLY: the sender will time out.
void incoming_failed(Worker& w, Incoming& m, int32_t error) {
  ULNET_CHECK(m.state == IncomingState::kReady);
  w.counters[Stat::kDropCount].add();
  w.counters[Drop::kNoRoute].add();
  if (m.is_put()) return end_but_event(w, m);
  m.event.status = error;
  event_due(w, m);
}

void incoming_unlinked(Worker& w, Incoming& m) {
  m.md_unlinked = true;
  switch (m.state) {
    case IncomingState::kReceiving: return divert_receive(w, m);
    case IncomingState::kParked:  // its GET was accepted, so the REPLY leaves
    case IncomingState::kSending:
    case IncomingState::kFinishing: return;
    case IncomingState::kFree:
    case IncomingState::kReady: break;
  }
  ULNET_CHECK(!"a message uses no MD, and its MD was unlinked");
}

void incoming_event_posted(Worker& w, Incoming& m) {
  event_paid(*m.submitter);
  if (m.state == IncomingState::kFinishing) release(w, m);
}

Incoming& incoming_take(Worker& w, const RxSlot& slot) {
  Incoming* m = w.incoming.take();
  ULNET_CHECK(m != nullptr && m->state == IncomingState::kFree && m->share == nullptr);
  m->state = IncomingState::kReady;
  m->share = &share_of(w, slot);
  ++m->share->held;
  m->share->moved = w.now;
  return *m;
}

IncomingGrant incoming_admit(Worker& w, RxSlot& slot) {
  IncomingShare& share = share_of(w, slot);
  const unsigned waiting_class = class_of(slot);
  if (share.waiting[waiting_class].empty() && has_room(w, share, waiting_class)) return IncomingGrant::kGo;
  if (share.refusing) return IncomingGrant::kDrop;
  w.counters[TurnStat::kHeldNoMessage].add();
  join(w, share);
  share.waiting[waiting_class].push_back(slot);
  return IncomingGrant::kWait;
}

void incoming_wait_first(Worker& w, RxSlot& slot) {
  IncomingShare& share = share_of(w, slot);
  join(w, share);
  share.waiting[class_of(slot)].push_front(slot);
  w.shares_to_look = w.shares_waiting.size();
}

RxSlot* incoming_next(Worker& w) {
  for (unsigned looks = 0; w.shares_to_look > 0 && looks < kSharesLook; ++looks) {
    IncomingShare& share = *w.shares_waiting.pop_front();
    --w.shares_to_look;
    RxSlot* slot = next_admitted(w, share);
    if (!share.nobody_waits()) w.shares_waiting.push_back(share);
    if (slot == nullptr) continue;
    w.shares_to_look = w.shares_waiting.size();  // it may turn out to need no message
    return slot;
  }
  return nullptr;
}

unsigned incoming_expire(Worker& w) {
  w.shares_due = kForever;
  unsigned dropped = 0;
  for (uint32_t left = w.shares_waiting.size(); left > 0; --left) {
    IncomingShare& share = *w.shares_waiting.pop_front();
    if (w.now - share.moved >= kIncomingHoldMax) {
      dropped += share.waiting[0].size() + share.waiting[1].size();
      drop_waiting(w, share);
      continue;
    }
    w.shares_waiting.push_back(share);
    w.shares_due = std::min(w.shares_due, std::max(share.moved + kIncomingHoldMax, w.now + kSharesLookGap));
  }
  w.shares_to_look = std::min(w.shares_to_look, w.shares_waiting.size());
  return dropped;
}

}  // namespace ulnet
