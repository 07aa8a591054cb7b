// PUTs and GETs at the home of their portal. They are matched, and each gets its message. Copies of requests that were
// delivered before get the answer again, or none.
#include "dataplane/stages/match.h"

#include "dataplane/base/cold.h"
#include "dataplane/stages/finish.h"
#include "dataplane/stages/incoming.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"
#include "dataplane/stages/under_way.h"
#include "dataplane/wire/ping_info.h"

namespace ulnet {
namespace {

using wire::MsgType;

/// Fills in the event of a matched PUT or GET.
void fill_event(Incoming& m, const RxSlot& slot, const Nid& initiator, const MatchFound& found) {
  const wire::Header& h = slot.header;
  Event& e = m.event;
  e = Event{};
  e.md = found.md->handle;
  e.user_ptr = found.md->user_ptr;
  e.initiator = initiator;
  e.initiator_pid = h.src_pid;
  e.source = h.src_nid;
  e.sender = slot.from_nid;
  e.target = h.dest_nid;
  e.mlength = found.mlength;
  e.offset = found.offset;
  if (h.type == MsgType::kPut) {
    const wire::PutBody put = h.put();
    e.kind = EventKind::kPut;
    e.match_bits = put.match_bits;
    e.hdr_data = put.hdr_data;
    e.portal = put.portal;
    e.rlength = h.payload_length;
  } else {
    const wire::GetBody get = h.get();
    e.kind = EventKind::kGet;
    e.match_bits = get.match_bits;
    e.portal = get.portal;
    e.rlength = get.sink_length;
  }
}

/// The REPLY to a request with a token: to the worker of its connection, which gets it with the verdict. No path is
/// chosen, and no credit taken: both are as the request found them.
void answer_request(Worker& w, Incoming& m, RxSlot& slot) {
  const NiView* ni = w.view->local->ni(slot.ni);
  Tx& tx = m.tx;
  tx.lease_reset({}, slot.token);
  tx.ni = slot.ni;
  tx.ni_slice = slot.ni_slice;
  tx.peer_ni = slot.from_ni;
  tx.peer = slot.from;
  tx.next_hop = slot.from_nid;
  tx.deadline = w.now + (ni != nullptr ? ni->message_timeout : w.view->node.transaction_timeout);
  ULNET_CHECK(m.state == IncomingState::kReady);
  m.state = IncomingState::kSending;
  m.lease_worker = uint8_t(slot.conn_worker);
  under_way_begin(w, m, slot.ni_slice->slot, slot.from->slot, false);
  slot.reply = &tx;
}

/// The REPLY leaves at once: a GET has no payload to wait for.
void start_reply(Worker& w, Incoming& m, RxSlot& slot, const MatchFound& found) {
  wire::Header& header = m.tx.header;
  header = slot.header;
  become_response(header, MsgType::kReply);
  header.payload_length = found.mlength;
  header.set(wire::ReplyBody{slot.header.get().return_wmd});
  m.tx.payload = {found.md->segments, found.md->segment_count, found.offset, found.mlength};
  if (slot.token != 0) return answer_request(w, m, slot);
  send_message(w, m);
}

/// Where the ACK or REPLY of `m` goes. Inline in match_incoming(), as start_incoming(): other callers are rare.
[[gnu::always_inline]] inline void incoming_begin(Worker& w, Incoming& m, const RxSlot& slot) {
  m.attempts_reset();
  m.md_unlinked = false;
  m.seen = RequestsSeen::kNowhere;
  m.tx.home = w.id.value;
  m.want_dst = slot.header.src_nid;
  m.want_src = slot.ni_slice != nullptr ? slot.header.dest_nid : kAnyNid;  // exactly the NI it came to (§3.1)
  m.via = slot.from_nid != slot.header.src_nid ? slot.from_nid : kAnyNid;
}

[[gnu::always_inline]] inline void start_incoming(Worker& w, Incoming& m, RxSlot& slot, const MatchAsk& ask,
                                                  const MatchFound& found) {
  Md& md = *found.md;
  incoming_begin(w, m, slot);
  m.md = &md;
  m.eq = md.eq;
  m.submitter = w.submitters[md.handle.submitter];
  ++m.submitter->messages;
  ++m.submitter->events_owed;
  m.md_offset = found.offset;
  fill_event(m, slot, ask.initiator.nid, found);
  md.ops.push_back(m);
}

/// The payload of a PUT goes into the MD.
void start_receive(Worker& w, Incoming& m, RxSlot& slot, const MatchFound& found) {
  m.tx.header = slot.header;  // kept for the ACK
  m.receive_begin(w.id, slot.conn_worker);
  m.came = slot.came;
  m.state = IncomingState::kReceiving;
  slot.message = &m;
  slot.into = {found.md->segments, found.md->segment_count, found.offset, found.mlength};
}

/// May the MD take one more message, whose event may have to wait for room in its queue?
enum class QueueRoom : uint8_t { kYes, kWait, kStuck };
QueueRoom queue_room(const Worker& w, const Md& md) {
  const EventQueue* eq = md.eq;
  if (eq == nullptr || eq->callback != nullptr) return QueueRoom::kYes;
  if (eq->held.empty() && queue_takes(w, *w.submitters[md.handle.submitter], *eq)) return QueueRoom::kYes;
  return queue_stuck(w, *eq) ? QueueRoom::kStuck : QueueRoom::kWait;
}

/// The receive goes on when events have found room.
void hold_for_queue(Worker& w, RxSlot& slot, const Md& md) {
  EventQueue& eq = *md.eq;
  eq.submitter = w.submitters[md.handle.submitter];
  eq.held.push_back(slot);
  if (!eq.waits()) w.eqs_waiting.push_back(eq);
}

/// The ACK of a PUT that was delivered before: the first may be lost.
void ack_again(Worker& w, RxSlot& slot, const Delivered& before) {
  Incoming& m = incoming_take(w, slot);
  incoming_begin(w, m, slot);
  m.md = nullptr;
  m.eq = nullptr;
  m.submitter = nullptr;
  m.event = Event{};
  m.event.kind = EventKind::kPut;
  m.event.portal = slot.header.put().portal;
  m.event.mlength = before.mlength;
  m.tx.header = slot.header;
  send_ack(w, m);
}

/// The REPLY to a GET that was served before, from the same MD if it is still attached. No event says so again.
RxVerdict reply_again(Worker& w, RxSlot& slot, Portal& portal, const Delivered& before) {
  const MatchAsk ask = ask_of(w, slot.header);
  Md* md = portal_find(portal, ask);
  const bool same = md != nullptr && md->match.order == before.order && before.offset <= md->length &&
                    before.mlength <= md->length - before.offset;
  if (!same) return drop_receive(w, slot, Drop::kCopy);
  const MatchFound found{md, before.offset, before.mlength, false};
  Incoming& m = incoming_take(w, slot);
  start_incoming(w, m, slot, ask, found);
  m.eq = nullptr;
  slot.message = nullptr;
  slot.into = {};
  ++m.submitter->replies_leaving;
  start_reply(w, m, slot, found);
  return RxVerdict::kReceive;
}

/// Do both say the same but for their path?
bool same_put(const wire::Header& one, const wire::Header& other) {
  const wire::PutBody a = one.put(), b = other.put();
  return one.payload_length == other.payload_length && a.portal == b.portal && a.match_bits == b.match_bits &&
         a.offset == b.offset && same_request(a.ack_wmd, b.ack_wmd);
}

[[gnu::always_inline]] inline wire::WireHandle handle_of(const wire::Header& h) {
  return h.type == MsgType::kPut ? h.put().ack_wmd : h.get().return_wmd;
}

/// Was the slot sent after another attempt of its request? A sender that has marked one marks all that follow. Else the
/// order in which they came counts. Attempts that wait for room or a message are matched in any order.
bool sent_later(const RxSlot& slot, const wire::Header& other, Instant other_came) {
  const bool marked = is_copy(handle_of(slot.header));
  return marked == is_copy(handle_of(other)) ? slot.came >= other_came : marked;
}

/// The request came again while the first is received: its sender has found the path of the first bad. The memory of
/// the first is taken back, and this one waits until the first has ended (incoming_received()). False: it is none that
/// may.
bool hold_for_first(Worker& w, RxSlot& slot, Handle first) {
  if (slot.header.type != MsgType::kPut) return false;
  Incoming* m = w.incoming.find(first);
  if (m == nullptr || m->state != IncomingState::kReceiving || !same_put(m->tx.header, slot.header)) return false;
  if (!sent_later(slot, m->tx.header, m->came)) return false;
  RxSlot* last = m->copies.back();
  if (last == nullptr || sent_later(slot, last->header, last->came))
    m->copies.push_back(slot);
  else
    m->copies.push_front(slot);
  // A sender takes a request back after kStuckMax. Else this header was only read late.
  const bool taken_back = is_copy(handle_of(slot.header)) || slot.came - m->came >= kStuckMax / 2;
  if (taken_back) divert_receive(w, *m);
  return true;
}

/// A request of which one was delivered before, or perhaps. Nothing of it is delivered; the answer may be repeated.
/// Rare, so that it is kept out of match_incoming().
[[ULNET_COLD]] RxVerdict copy_came(Worker& w, RxSlot& slot, Portal& portal, const RequestsSeen::Look& look) {
  if (look.verdict == RequestsSeen::Verdict::kUnknown) return drop_receive(w, slot, Drop::kCopyUnknown);
  if (look.verdict == RequestsSeen::Verdict::kDelivered) {
    if (slot.header.type == MsgType::kGet) return reply_again(w, slot, portal, look.of);
    ack_again(w, slot, look.of);
  }
  if (look.verdict == RequestsSeen::Verdict::kOpen && hold_for_first(w, slot, look.incoming)) return RxVerdict::kHold;
  return drop_receive(w, slot, Drop::kCopy);
}

/// Looks a request up. If a portal has a home at each worker, the first request may be known to another worker only.
RequestsSeen::Look look_back(const Worker& w, const PortalView& portal, const wire::WireHandle& handle) {
  const bool one_home = portal.mode != PortalMode::kPerWorker || w.mesh.worker_count == 1;
  const bool for_other_life = is_copy(handle) && life_meant(handle) != life_of(w.interface_cookie);
  if (for_other_life || (!one_home && is_copy(handle))) return {RequestsSeen::Verdict::kUnknown, {}};
  return w.requests_seen.look(handle, w.now);
}

/// An attempt of the same request that waits for an entry of this lazy portal; null: there is none.
RxSlot* waiting_attempt(Portal& portal, const wire::WireHandle& handle) {
  RxSlot* slot = portal.lazy.front();
  while (slot != nullptr && !same_request(handle_of(slot->header), handle)) slot = portal.lazy.after(*slot);
  return slot;
}

/// May the request wait for an entry of this lazy portal? An attempt that waits already is dropped for it, since its
/// connection may be dead, unless this one was sent before.
bool wait_once(Worker& w, RxSlot& slot, Portal& portal) {
  RxSlot* other = waiting_attempt(portal, handle_of(slot.header));
  if (other == nullptr) return true;
  if (!sent_later(slot, other->header, other->came)) return false;
  portal.lazy.remove(*other);
  slot_answer(w, *other, drop_receive(w, *other, Drop::kCopy));
  return true;
}

}  // namespace

MatchAsk ask_of(const Worker& w, const wire::Header& h) {
  MatchAsk ask;
  ask.initiator = {w.view->peers->primary_of(h.src_nid), h.src_pid};
  ask.source = h.src_nid;
  if (h.type == MsgType::kPut) {
    const wire::PutBody put = h.put();
    ask.match_bits = put.match_bits;
    ask.rlength = h.payload_length;
    ask.roffset = put.offset;
  } else {
    const wire::GetBody get = h.get();
    ask.is_get = true;
    ask.match_bits = get.match_bits;
    ask.rlength = get.sink_length;
    ask.roffset = get.src_offset;
  }
  return ask;
}

bool receive_copy(Worker& w, Incoming& m) {
  if (m.md_unlinked || m.copies.empty()) return false;
  RxSlot& slot = *m.copies.back();
  m.copies.remove(slot);
  while (RxSlot* older = m.copies.pop_front()) slot_answer(w, *older, drop_receive(w, *older, Drop::kCopy));
  const uint32_t seen = m.seen;
  incoming_begin(w, m, slot);
  m.seen = seen;
  m.event.source = slot.header.src_nid;
  m.event.sender = slot.from_nid;
  m.event.target = slot.header.dest_nid;
  start_receive(w, m, slot, {m.md, m.event.offset, m.event.mlength, false});
  slot_answer(w, slot, RxVerdict::kReceive);
  return true;
}

RxVerdict match_incoming(Worker& w, RxSlot& slot) {
  const wire::Header& h = slot.header;
  const bool is_put = h.type == MsgType::kPut;
  const uint32_t index = is_put ? h.put().portal : h.get().portal;
  Portal& portal = w.portals[index];
  const PortalView& portal_view = w.view->portals->portals[index];
  if (portal_view.mode == PortalMode::kClosed) return drop_receive(w, slot, Drop::kPortalClosed);
  const wire::WireHandle handle = handle_of(h);
  const bool named = slot.ni_slice != nullptr && names_request(handle);
  uint32_t earlier = RequestsSeen::kNowhere;
  if (named) {
    const RequestsSeen::Look look = look_back(w, portal_view, handle);
    if (look.verdict != RequestsSeen::Verdict::kNew) return copy_came(w, slot, portal, look);
    earlier = look.place;
  }
  const MatchAsk ask = ask_of(w, h);
  // Else no submitter can have more than its share: rare, so that looking twice is cheap.
  if (!w.eqs_waiting.empty() || 2 * w.incoming.out() >= w.incoming.capacity()) {
    const Md* md = portal_find(portal, ask);
    const QueueRoom room = md == nullptr ? QueueRoom::kYes : queue_room(w, *md);
    if (room == QueueRoom::kStuck) return drop_receive(w, slot, Drop::kQueueFull);
    if (room == QueueRoom::kWait) {
      hold_for_queue(w, slot, *md);
      return RxVerdict::kHold;
    }
  }
  const MatchFound found = portal_match(portal, ask);
  if (found.md == nullptr) {
    // All entries of portal 0 have these bits. A message with other bits never matches, and would block its connection.
    const bool hopeless = index == kReservedPortal && ask.match_bits != wire::kPingMatchBits;
    if (!portal_view.lazy || hopeless) return drop_receive(w, slot, Drop::kNoMatch);
    if (slot.ni_slice != nullptr) {  // an NI that goes waits for nobody
      const NiView* ni = w.view->local->ni(slot.ni);
      if (ni == nullptr || ni->closing) return drop_receive(w, slot, Drop::kNodeStopping);
    }
    if (index != kReservedPortal) {
      if (named && !wait_once(w, slot, portal)) return drop_receive(w, slot, Drop::kCopy);
      if (portal.lazy.size() >= kLazyMax) return drop_receive(w, slot, Drop::kLazyFull);
    }
    portal.lazy.push_back(slot);  // its connection waits with it, so that even without a bound memory is the driver's
    return RxVerdict::kHold;
  }
  if (found.too_long) return drop_receive(w, slot, Drop::kTooLong);
  Incoming& m = incoming_take(w, slot);
  start_incoming(w, m, slot, ask, found);
  Md& md = *found.md;
  const uint32_t place =
      named ? w.requests_seen.open(handle, w.incoming.handle(m), w.now, earlier) : RequestsSeen::kNowhere;
  if (is_put) {
    start_receive(w, m, slot, found);
    m.seen = place;
  } else {
    slot.message = nullptr;
    slot.into = {};
    ++m.submitter->replies_leaving;
    w.requests_seen.delivered(place, handle, {found.mlength, found.offset, md.match.order});
  }
  const bool used_up = md.threshold == 0 || (md.max_size != 0 && (md.options & kMdManageRemote) == 0 &&
                                             md.length - md.local_offset < md.max_size);
  if (used_up) md_close_gate(w, md);
  if (!is_put) start_reply(w, m, slot, found);
  return RxVerdict::kReceive;
}

}  // namespace ulnet
