// Which receive gets one of the worker's `incoming` messages. A peer NI may hold as many as it leaves free: one peer NI
// holds at most half of the pool, n peer NIs leave 1/(n+1) of it. A receive over that share is held, and with it only
// its own stream. A message whose event waits for room in its queue counts for its submitter and not for the peer NI.
// The last messages are reserved for portal 0, so that pings and pushes get through.
// The hard part: a held stream also holds the ACKs and REPLYs behind it. Two nodes that hold each other's streams would
// wait until the driver's time-out. Hence a share that does not move for kIncomingHoldMax drops what has no message.
#include "dataplane/stages/incoming.h"

#include "dataplane/stages/receive.h"

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

}  // namespace

Message& incoming_take(Worker& w, const RxSlot& slot) {
  Message* m = w.incoming.take();
  ULNET_CHECK(m != nullptr);
  m->share = &share_of(w, slot);
  ++m->share->held;
  m->share->moved = w.now;
  return *m;
}

void incoming_leave_share(Worker& w, Message& m) {
  if (m.share == nullptr) return;
  ULNET_CHECK(m.share->held > 0);
  --m.share->held;
  m.share->moved = w.now;
  m.share->refusing = false;
  m.share = nullptr;
  w.shares_to_look = w.shares_waiting.size();
}

void incoming_give(Worker& w, Message& m) {
  incoming_leave_share(w, m);
  w.incoming.give(m);
  w.shares_to_look = w.shares_waiting.size();
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
  if (w.now < w.shares_due) return 0;
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
