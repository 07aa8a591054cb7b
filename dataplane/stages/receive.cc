// Messages coming in: the rules of docs/wire/lnet.md §3 in their order, on the connection's worker; matching at home;
// and what happens when the payload is in its place.
#include "dataplane/stages/receive.h"

#include "dataplane/stages/charge.h"
#include "dataplane/stages/egress.h"
#include "dataplane/stages/fault.h"
#include "dataplane/stages/forward.h"
#include "dataplane/stages/incoming.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/send.h"
#include "dataplane/stages/under_way.h"
#include "dataplane/state/payload.h"
#include "dataplane/wire/ping_info.h"

namespace ulnet {
namespace {

using wire::MsgType;

/// Rule 1 of §3: what no peer may send, whoever it is for.
bool malformed(const wire::Header& h) {
  switch (h.type) {
    case MsgType::kAck:
    case MsgType::kGet: return h.payload_length != 0;
    case MsgType::kPut:
    case MsgType::kReply: return h.payload_length > kMaxPayload;
    case MsgType::kHello: return true;
  }
  return true;
}

/// The slot names its NI and its peer NI from here on, until rx_count_remove().
void rx_count_add(RxSlot& slot) {
  if (slot.ni_slice != nullptr) slot.ni_slice->rx_count.add(1);
  if (slot.from != nullptr) ++slot.from->rx_count;
}

const NiView* ni_by_id(const Worker& w, NiId id) {
  for (const NiView& ni : w.view->local->nis)
    if (ni.id == id) return &ni;
  return nullptr;
}

const Nid& primary_of(const Worker& w, const Nid& nid) {
  const PeerRef peer = w.view->peers->find(nid);
  return peer ? peer.peer->primary() : nid;
}

/// What a matched PUT or GET will say in its event.
void fill_event(Worker& w, Incoming& m, const RxSlot& slot, const MatchFound& found) {
  const wire::Header& h = slot.header;
  Event& e = m.event;
  e = Event{};
  e.md = found.md->handle;
  e.user_ptr = found.md->user_ptr;
  e.initiator = primary_of(w, h.src_nid);
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
  const NiView* ni = ni_by_id(w, slot.ni);
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
  const wire::Header& h = slot.header;
  wire::Header reply = wire::response_to(h, MsgType::kReply);
  reply.payload_length = found.mlength;
  reply.set(wire::ReplyBody{h.get().return_wmd});
  m.tx.header = reply;
  m.tx.payload = {found.md->segments, found.md->segment_count, found.offset, found.mlength};
  if (slot.token != 0) return answer_request(w, m, slot);
  send_message(w, m);
}

MatchAsk ask_of(Worker& w, const wire::Header& h) {
  MatchAsk ask;
  ask.initiator = {primary_of(w, h.src_nid), h.src_pid};
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

void start_incoming(Worker& w, Incoming& m, RxSlot& slot, const MatchFound& found) {
  Md& md = *found.md;
  m.attempts_reset();
  m.md_unlinked = false;
  m.tx.home = w.id.value;
  m.md = &md;
  m.eq = md.eq;
  m.submitter = w.submitters[md.handle.submitter];
  ++m.submitter->messages;
  ++m.submitter->events_owed;
  m.md_offset = found.offset;
  m.want_dst = slot.header.src_nid;
  m.want_src = slot.ni_slice != nullptr ? slot.header.dest_nid : kAnyNid;  // exactly the NI it came to (§3.1)
  m.via = slot.from_nid != slot.header.src_nid ? slot.from_nid : kAnyNid;
  fill_event(w, m, slot, found);
  md.ops.push_back(m);
}

/// The payload of a PUT goes into the MD.
void start_receive(Worker& w, Incoming& m, RxSlot& slot, const MatchFound& found) {
  m.tx.header = slot.header;  // kept for the ACK
  m.receive_begin(w.id, slot.conn_worker);
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
  if (!eq.linked()) w.eqs_waiting.push_back(eq);
}

/// PUT or GET at its portal's home. Requires a free message.
RxVerdict match_incoming(Worker& w, RxSlot& slot) {
  const wire::Header& h = slot.header;
  const bool is_put = h.type == MsgType::kPut;
  const uint32_t index = is_put ? h.put().portal : h.get().portal;
  Portal& portal = w.portals[index];
  const PortalView& portal_view = w.view->portals->portals[index];
  if (portal_view.mode == PortalMode::kClosed) return drop_receive(w, slot, Drop::kPortalClosed);
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
    // Entries of portal 0 have these bits only: what has others would wait for ever, and its connection with it.
    const bool hopeless = index == kReservedPortal && ask.match_bits != wire::kPingMatchBits;
    if (!portal_view.lazy || hopeless) return drop_receive(w, slot, Drop::kNoMatch);
    if (index != kReservedPortal && portal.lazy.size() >= kLazyMax) return drop_receive(w, slot, Drop::kLazyFull);
    if (slot.ni_slice != nullptr) {  // an NI that goes waits for nobody
      const NiView* ni = ni_by_id(w, slot.ni);
      if (ni == nullptr || ni->closing) return drop_receive(w, slot, Drop::kNodeStopping);
    }
    portal.lazy.push_back(slot);  // its connection waits with it, so that even without a bound memory is the driver's
    return RxVerdict::kHold;
  }
  if (found.too_long) return drop_receive(w, slot, Drop::kTooLong);
  Incoming& m = incoming_take(w, slot);
  start_incoming(w, m, slot, found);
  Md& md = *found.md;
  slot.message = nullptr;
  slot.into = {};
  if (is_put)
    start_receive(w, m, slot, found);
  else
    ++m.submitter->replies_leaving;
  const bool used_up = md.threshold == 0 || (md.max_size != 0 && (md.options & kMdManageRemote) == 0 &&
                                             md.length - md.local_offset < md.max_size);
  if (used_up) md_close_gate(w, md);
  if (!is_put) start_reply(w, m, slot, found);
  return RxVerdict::kReceive;
}

/// ACK or REPLY at the home of the operation that it answers.
RxVerdict take_response(Worker& w, RxSlot& slot) {
  const wire::Header& h = slot.header;
  const bool is_ack = h.type == MsgType::kAck;
  const wire::WireHandle handle = is_ack ? h.ack().dst_wmd : h.reply().dst_wmd;
  Operation* op = w.operations.find(cookie_handle(handle.object_cookie));
  if (op == nullptr || op->end != (is_ack ? EventKind::kAck : EventKind::kReply))
    return drop_receive(w, slot, Drop::kStaleHandle);
  switch (op->state) {
    case OperationState::kSending:
    case OperationState::kAwaiting: break;
    case OperationState::kSendingReceiving:
    case OperationState::kSendingAnswered:
    case OperationState::kReceiving: {
      const bool over = op->status != 0 || op->md_unlinked;
      return drop_receive(w, slot, over ? Drop::kStaleHandle : Drop::kReplyTwice);
    }
    case OperationState::kFree:
    case OperationState::kReady:
    case OperationState::kParked:
    case OperationState::kSendingGivenUp:
    case OperationState::kFinishing: return drop_receive(w, slot, Drop::kStaleHandle);
  }
  Response answer{primary_of(w, h.src_nid), h.src_nid, slot.from_nid, h.dest_nid, h.src_pid, 0};
  slot.message = nullptr;
  slot.into = {};
  if (!is_ack)
    return operation_reply_begins(w, *op, answer, slot) ? RxVerdict::kReceive
                                                        : drop_receive(w, slot, Drop::kReplyTooLong);
  answer.mlength = h.ack().mlength;
  sample_response(w, *op);
  operation_acked(w, *op, answer);
  return RxVerdict::kReceive;
}

/// Which worker decides about a message for this node; kNoWorker with `why` when it is dropped at once.
WorkerId home_of(Worker& w, const wire::Header& h, Drop& why) {
  if (h.type == MsgType::kPut || h.type == MsgType::kGet) {
    const uint32_t portal = h.type == MsgType::kPut ? h.put().portal : h.get().portal;
    const uint64_t bits = h.type == MsgType::kPut ? h.put().match_bits : h.get().match_bits;
    why = Drop::kPortalRange;
    if (portal >= kPortalCount) return kNoWorker;
    const PortalView& view = w.view->portals->portals[portal];
    why = Drop::kPortalClosed;
    if (view.mode == PortalMode::kClosed) return kNoWorker;
    return portal_home(view, bits, w.id, w.mesh.worker_count);
  }
  const wire::WireHandle handle = h.type == MsgType::kAck ? h.ack().dst_wmd : h.reply().dst_wmd;
  why = Drop::kForeignHandle;
  if (handle.interface_cookie != w.interface_cookie) return kNoWorker;
  const WorkerId home = cookie_worker(handle.object_cookie);
  why = Drop::kStaleHandle;
  return home.value < w.mesh.worker_count ? home : kNoWorker;
}

RxVerdict for_this_node(Worker& w, RxSlot& slot) {
  Drop why = Drop::kNoMatch;
  const WorkerId home = home_of(w, slot.header, why);
  if (home == kNoWorker) return drop_receive(w, slot, why);
  if (home == w.id) return home_decide(w, slot);
  const bool was_held = slot.delay.until != kNever;
  const RxVerdict verdict = slot.movable && !was_held ? RxVerdict::kTaken : RxVerdict::kHold;
  slot.verdict = verdict;
  post<PostKind::kMatchRequest>(w, home, slot);  // from here on the slot is home's
  return verdict;
}

/// Rule 3 of §3: not for the NI that it came to.
RxVerdict for_another(Worker& w, RxSlot& slot, const NiView& ni) {
  const Nid& dest = slot.header.dest_nid;
  if (dest.net() == ni.nid.net()) return RxVerdict::kProtocolError;          // a: should have gone direct
  if (w.view->local->ni(dest) != nullptr) return RxVerdict::kProtocolError;  // b: another NID of mine
  if (slot.rdma_request && slot.header.type == MsgType::kGet) return RxVerdict::kProtocolError;
  if (w.view->node.routing == RoutingState::kDisabled) return drop_receive(w, slot, Drop::kRoutingDisabled);
  return forward_header(w, slot);
}

/// Came through a router that none of my routes to its source uses (lnet_drop_asym_route).
bool asymmetric(const Worker& w, const RxSlot& slot) {
  if (!w.view->node.drop_asym_route || slot.header.src_nid.net() == slot.from_nid.net()) return false;
  const RouteNetView* net = w.view->routes->find(slot.header.src_nid.net());
  const PeerRef from = w.view->peers->find(slot.from_nid);
  if (net != nullptr && from)
    for (const RouteView& route : net->routes)
      if (const PeerRef gateway = w.view->peers->find(route.gateway); gateway && gateway.peer == from.peer)
        return false;
  return true;
}

RxVerdict decide(Worker& w, RxSlot& slot) {
  if (slot.ni_slice == nullptr) return for_this_node(w, slot);  // loopback
  const NiView* ni = ni_by_id(w, slot.ni);
  if (ni == nullptr) return drop_receive(w, slot, Drop::kNodeStopping);
  if (slot.header.dest_nid != ni->nid) return for_another(w, slot, *ni);
  if (asymmetric(w, slot)) return drop_receive(w, slot, Drop::kAsymmetricRoute);
  return for_this_node(w, slot);
}

/// The slots are matched before all others of their peer NIs that wait for a message: they came before them.
void retry_all(Worker& w, List<RxSlot, RxTag>& slots) {
  while (RxSlot* slot = slots.back()) {
    slots.remove(*slot);
    incoming_wait_first(w, *slot);
  }
  while (retry_waiting(w)) {
  }
}

/// At home: what came as a handle, and has been decided about, gives its payload up and goes back. The one copy that
/// the core makes: the connection's worker would otherwise have to be asked to make it, which takes two hops more.
void take_payload(Worker& w, RxSlot& slot) {
  auto* m = slot.message;
  slot.message = nullptr;
  if (m != nullptr) {
    PayloadCursor to(slot.into), from(slot.arrived);
    payload_copy(to, from);
    m->rx_result = {};
  }
  post_back<PostKind::kMatchAnswer>(w, WorkerId{slot.conn_worker}, slot);
  if (m != nullptr) received(w, *m);
}

/// The errno for a peer whose request is dropped (docs/wire/o2iblnd.md §4: no match is ENODATA).
int32_t refusal_of(Drop reason) {
  switch (reason) {
    case Drop::kNodeStopping: return -ESHUTDOWN;
    case Drop::kNoMessage:
    case Drop::kLazyFull:
    case Drop::kQueueFull: return -ENOBUFS;
    case Drop::kTooLong: return -EMSGSIZE;
    default: return -ENODATA;
  }
}

List<RxSlot, ReceivingTag>& receiving_of(Worker& w, const Receiving& m) {
  return m.kind == MessageKind::kTransit ? w.coming : w.receiving;
}

}  // namespace

void rx_count_remove(Worker& w, RxSlot& slot) {
  if (slot.from != nullptr) {
    ULNET_CHECK(slot.from->rx_count > 0);
    --slot.from->rx_count;
  }
  if (slot.ni_slice == nullptr) return;
  slot.ni_slice->rx_count.add(-1);
  if (slot.ni_slice->closing) ni_check_drained(w, *slot.ni_slice);
}

RxVerdict receive_header(Worker& w, RxSlot& slot) {
  if (malformed(slot.header)) return RxVerdict::kProtocolError;
  slot.conn_worker = w.id.value;
  slot.message = nullptr;
  slot.hop = nullptr;
  slot.reply = nullptr;
  slot.admission = Admission::kOpen;
  slot.into = {};
  slot.delay.until = kNever;
  ULNET_CHECK(!slot.rdma_request || !slot.movable);
  ULNET_CHECK(slot.token == 0 || (slot.rdma_request && slot.header.type == MsgType::kGet && slot.from != nullptr));
  if (w.view->faults != nullptr && fault_drops(w, slot)) {  // rule 4 of §3: the message never came
    rx_count_add(slot);
    return drop_receive(w, slot, Drop::kFault);
  }
  if (slot.from != nullptr) {
    slot.from->last_alive_ns.set(w.now.time_since_epoch().count());
    slot.from->unconnected_since = kNever;
  }
  rx_count_add(slot);
  if (w.view->faults != nullptr && fault_holds(w, slot)) return RxVerdict::kHold;
  const RxVerdict verdict = decide(w, slot);
  if (verdict == RxVerdict::kProtocolError)
    rx_count_remove(w, slot);
  else if (verdict == RxVerdict::kReceive && slot.message != nullptr)
    payload_begins(w, slot);
  else if (verdict == RxVerdict::kReceive && slot.reply != nullptr)
    post<PostKind::kLease>(w, w.id, *slot.reply);  // goes when the LND has the verdict
  return verdict;
}

void receive_delayed(Worker& w, RxSlot& slot) {
  const RxVerdict verdict = decide(w, slot);
  if (verdict != RxVerdict::kHold) slot_answer(w, slot, verdict);
}

void sample_response(Worker& w, const Operation& op) {
  const auto took = uint64_t((w.now - op.issued).count());
  const NiLatency which = op.is_get() ? NiLatency::kGetRtt : NiLatency::kPutAck;
  if (const NiView* ni = ni_by_id(w, op.tx.ni)) ni->slices[w.id.value]->counters[which].sample(took);
  // Counted by this worker, and found again by what the request was sent over.
  if (const PeerRef peer = w.view->peers->find(op.tx.next_hop); peer && peer.ni().locals != nullptr)
    peer.ni().locals[w.id.value]->latencies[which].sample(took);
}

Response sink_answer(Worker& w, const Operation& op) {
  const wire::Header& get = op.tx.header;
  const uint32_t bytes = op.tx.answer.bytes;
  w.counters[Stat::kRecvCount].add();
  w.counters[Stat::kRecvLength].add(bytes);
  sample_response(w, op);
  return {primary_of(w, get.dest_nid), get.dest_nid, op.tx.next_hop, get.src_nid, get.dest_pid, bytes};
}

RxVerdict home_decide(Worker& w, RxSlot& slot) {
  switch (slot.header.type) {
    case MsgType::kPut:
    case MsgType::kGet:
      switch (incoming_admit(w, slot)) {
        case IncomingGrant::kGo: return match_incoming(w, slot);
        case IncomingGrant::kWait: return RxVerdict::kHold;
        case IncomingGrant::kDrop: return drop_receive(w, slot, Drop::kNoMessage);
      }
      return RxVerdict::kProtocolError;
    case MsgType::kAck:
    case MsgType::kReply: return take_response(w, slot);
    case MsgType::kHello: return RxVerdict::kProtocolError;
  }
  return RxVerdict::kProtocolError;
}

bool retry_waiting(Worker& w) {
  RxSlot* slot = incoming_next(w);
  if (slot == nullptr) return false;
  const RxVerdict verdict = match_incoming(w, *slot);
  if (verdict != RxVerdict::kHold) slot_answer(w, *slot, verdict);
  return true;
}

void slot_answer(Worker& w, RxSlot& slot, RxVerdict verdict) {
  if (slot.verdict == RxVerdict::kTaken) return take_payload(w, slot);
  slot.verdict = verdict;
  if (slot.conn_worker == w.id.value)
    w.ready_slots.push_back(slot);
  else
    post_back<PostKind::kMatchAnswer>(w, WorkerId{slot.conn_worker}, slot);
}

RxVerdict drop_receive(Worker& w, RxSlot& slot, Drop reason) {
  w.counters[reason].add();
  w.counters[Stat::kDropCount].add();
  w.counters[Stat::kDropLength].add(slot.header.payload_length);
  slot.message = nullptr;
  slot.admission = Admission::kDropped;
  slot.into = {};
  if (slot.token == 0) return RxVerdict::kReceive;
  slot.refused = refusal_of(reason);
  return RxVerdict::kRefused;
}

void payload_begins(Worker& w, RxSlot& slot) {
  receiving_of(w, *slot.message).push_back(slot);
}

void receive_done(Worker& w, RxSlot& slot, Completion how) {
  Receiving* m = slot.message;
  if (static_cast<Linked<ReceivingTag>&>(slot).linked()) receiving_of(w, *m).remove(slot);
  const unsigned type = unsigned(slot.header.type);
  const bool dropped = slot.admission == Admission::kDropped;
  if (slot.ni_slice != nullptr) {
    const NiTraffic which = dropped ? NiTraffic::kDropped : NiTraffic::kReceived;
    slot.ni_slice->counters[which][type].add();
    slot.from->counters[which][type].add();
  }
  slot.message = nullptr;
  if (how.error != 0) charge_receive(w, slot, how);
  if (m != nullptr && m->kind == MessageKind::kTransit) {
    forward_received(w, slot, as_transit(*m), how);
    return rx_count_remove(w, slot);
  }
  if (!dropped && how.error == 0) {
    w.counters[Stat::kRecvCount].add();
    w.counters[Stat::kRecvLength].add(slot.header.payload_length);
  }
  if (m != nullptr) {
    m->rx_result = how;
    post_back<PostKind::kRxDone>(w, WorkerId{m->home}, *m);
  }
  rx_count_remove(w, slot);
}

void received(Worker& w, Receiving& m) {
  switch (m.kind) {
    case MessageKind::kOperation: return operation_received(w, as_operation(m));
    case MessageKind::kIncoming: return incoming_received(w, as_incoming(m));
    case MessageKind::kTransit: break;
  }
  ULNET_CHECK(!"a forwarded message is received where its home is");
}

void retry_lazy(Worker& w, uint32_t portal) {
  retry_all(w, w.portals[portal].lazy);
}

void retry_held(Worker& w, EventQueue& eq) {
  if (!eq.held.empty()) retry_all(w, eq.held);
}

// Nothing matched those that wait, so only this entry can. Thousands may wait on portal 0, for entries of which each
// takes one: whom it cannot take is not looked at.
void lazy_attached(Worker& w, Md& md) {
  List<RxSlot, RxTag>& lazy = w.portals[md.match.portal].lazy;
  const bool counted = md.threshold != kInfinite && (md.options & kMdTruncate) != 0 && md.max_size == 0;
  const uint32_t most = counted ? uint32_t(md.threshold) : UINT32_MAX;
  List<RxSlot, RxTag> theirs;
  for (RxSlot* slot = lazy.front(); slot != nullptr && theirs.size() < most;) {
    RxSlot* next = lazy.after(*slot);
    if (entry_matches(md, ask_of(w, slot->header))) {
      lazy.remove(*slot);
      theirs.push_back(*slot);
    }
    slot = next;
  }
  retry_all(w, theirs);
}

void divert_receive(Worker& w, Receiving& m) {
  m.divert.store(true, std::memory_order_relaxed);
  w.mesh.divert_wanted.fetch_or(uint64_t{1} << m.receive_worker, std::memory_order_seq_cst);
  w.mesh.gates[m.receive_worker]->notify_stored();
}

void run_diverts(Worker& w) {
  const uint64_t mine = uint64_t{1} << w.id.value;
  if ((w.mesh.divert_wanted.load(std::memory_order_relaxed) & mine) == 0) return;
  w.mesh.divert_wanted.fetch_and(~mine, std::memory_order_seq_cst);
  for (RxSlot* slot = w.receiving.front(); slot != nullptr;) {
    RxSlot* next = w.receiving.after(*slot);
    if (slot->message->divert.load(std::memory_order_relaxed))
      w.lnds[slot->ni_slice == nullptr ? kLndLo : slot->ni_slice->lnd]->divert(*slot, w.now);
    slot = next;
  }
}

}  // namespace ulnet
