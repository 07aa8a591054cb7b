// Messages coming in: the rules of docs/wire/lnet.md §3 in their order, on the connection's worker; ACKs and REPLYs at
// home; and what happens when the payload is in its place. PUTs and GETs at home are in match.cc.
#include "dataplane/stages/receive.h"

#include "dataplane/stages/charge.h"
#include "dataplane/stages/egress.h"
#include "dataplane/stages/fault.h"
#include "dataplane/stages/forward.h"
#include "dataplane/stages/incoming.h"
#include "dataplane/stages/match.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/post.h"
#include "dataplane/state/payload.h"

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
  Response answer{w.view->peers->primary_of(h.src_nid), h.src_nid, slot.from_nid, h.dest_nid, h.src_pid, 0};
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
  if ((handle.interface_cookie & kCookieOwn) != w.interface_cookie) return kNoWorker;
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

/// Inline in receive_header(): its other caller is rare.
[[gnu::always_inline]] inline RxVerdict decide(Worker& w, RxSlot& slot) {
  if (slot.ni_slice == nullptr) return for_this_node(w, slot);  // loopback
  const NiView* ni = w.view->local->ni(slot.ni);
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
    case Drop::kCopy:
    case Drop::kCopyUnknown: return -EALREADY;
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
  slot.came = w.now;
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
  if (const NiView* ni = w.view->local->ni(op.tx.ni)) ni->slices[w.id.value]->counters[which].sample(took);
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
  return {w.view->peers->primary_of(get.dest_nid), get.dest_nid, op.tx.next_hop, get.src_nid, get.dest_pid, bytes};
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
