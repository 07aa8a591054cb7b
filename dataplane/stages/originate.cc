// Puts and gets of this node's applications, paths for everything that this node sends, and what comes of a send.
#include <algorithm>
#include <type_traits>

#include "dataplane/select/path.h"
#include "dataplane/stages/flow.h"
#include "dataplane/stages/forward.h"
#include "dataplane/state/failures.h"

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

/// Is there an NI besides this one, to stay?
bool other_ni(const LocalView& local, NiId ni) {
  return std::any_of(local.nis.begin(), local.nis.end(),
                     [&](const NiView& one) { return one.id != ni && !one.going(); });
}

/// A failure that another interface may not have (docs/wire/lnet.md §9): is sending again worth it?
bool may_resend(const Worker& w, const Message& m) {
  static_assert(std::is_same_v<decltype(Message::retries), decltype(NodeView::retry_count)>);
  if (m.retries >= w.view->node.retry_count || m.cancelled || m.responded) return false;
  if (m.tx.peer == nullptr) return false;  // loopback: there is no other way
  switch (failure_class(m.tx.result.health).resend) {
    case Resend::kNo: return false;
    case Resend::kOtherNi: return other_ni(*w.view->local, m.tx.ni);
    case Resend::kOtherPeerNi: {
      const PeerRef peer = w.view->peers->find(m.tx.next_hop);
      return peer && peer.peer->nis.size() > 1;
    }
  }
  return false;
}

void count_result(Worker& w, const Message& m) {
  const Completion& how = m.tx.result;
  if (how.error == 0) {
    if (m.kind == MsgKind::kForward) {
      w.counters[Stat::kRouteCount].add();
      w.counters[Stat::kRouteLength].add(m.tx.header.payload_length);
    } else {
      w.counters[Stat::kSendCount].add();
      w.counters[Stat::kSendLength].add(m.tx.header.payload_length);
    }
    if (m.retries > 0) w.counters[Stat::kSuccessfulResends].add();
    return;
  }
  if (const auto stat = failure_class(how.health).at_node) w.counters[*stat].add();
}

void lease_out(Worker& w, Message& m, const PathChoice& choice) {
  Tx& tx = m.tx;
  tx.header.dest_nid = choice.dest;
  if (m.kind != MsgKind::kForward) tx.header.src_nid = choice.src;
  tx.result = {};
  tx.stage = 0;
  m.lease_out = true;
  m.lease_worker = uint8_t(choice.kind == PathKind::kLoopback ? w.id.value : choice.hop->server.value);
  if (choice.kind == PathKind::kLoopback) {
    tx.ni = {};
    tx.ni_slice = nullptr;
    tx.peer_ni = {};
    tx.peer = nullptr;
    tx.next_hop = choice.dest;
    tx.deadline = w.now + w.view->node.transaction_timeout;
    if (m.armed()) tx.deadline = std::min(tx.deadline, m.deadline);
    m.leased = nullptr;
    return post(w, w.id, PostKind::kLease, tx);
  }
  choice.ni->slices[w.id.value]->sequence = ++w.sequence;
  m.leased = choice.hop->locals[w.id.value];
  choice.ni->slices[w.id.value]->loads[choice.hop->server.value].note_sent(w.turn_number);
  m.leased->load.note_sent(w.turn_number, tx.header.payload_length);
  ++m.leased->leases;
  m.leased->sequence.set(w.sequence);
  if (choice.final_ni != nullptr) choice.final_ni->locals[w.id.value]->sequence.set(w.sequence);
  if (choice.route != nullptr && choice.route->id < w.route_sequences.size())
    w.route_sequences[choice.route->id] = ++w.route_sequence;
  tx.ni = choice.ni->id;
  tx.ni_slice = choice.ni->slices[choice.hop->server.value];
  tx.peer_ni = choice.hop->id;
  tx.peer = choice.hop->slice;
  tx.next_hop = choice.hop->nid;
  tx.deadline = m.kind == MsgKind::kForward ? kForever : w.now + choice.ni->message_timeout;
  if (m.armed() && m.kind != MsgKind::kForward) tx.deadline = std::min(tx.deadline, m.deadline);
  post(w, choice.hop->server, PostKind::kLease, tx);
}

/// Nothing can be parked for `m`, or for the whole peer.
void park_refused(Worker& w, Message& m) {
  m.phase = MsgPhase::kActive;
  w.counters[TurnStat::kParkedRefused].add();
  fail_message(w, m, -ENOBUFS, LndStatus::kLocalError);
}

void park(Worker& w, Message& m, const Nid& nid, bool discover) {
  m.phase = MsgPhase::kParked;
  m.parked_for = nid;
  w.counters[TurnStat::kParked].add();
  switch (w.parked.park(nid, m)) {
    case Parked::Result::kWaiting: return;
    case Parked::Result::kRefused: return park_refused(w, m);
    case Parked::Result::kAsk: {
      LndMsg msg;
      msg.nid = nid;
      msg.a = discover;
      if (!ask_control(w, WorkerKind::kResolve, msg))
        w.parked.release(nid, [&](Message& parked) { park_refused(w, parked); });
      return;
    }
  }
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

namespace {

PathChoice path_of(Worker& w, const Message& m, bool as_given) {
  PathRequest request;
  request.as_given = as_given;
  request.src = m.want_src;
  request.dst = m.want_dst;
  request.via = m.via;
  request.response = m.kind == MsgKind::kInPut || m.kind == MsgKind::kInGet;
  request.portal0 = m.event.portal == 0;
  return choose_path(*w.view, request, path_context(w));
}

}  // namespace

void send_message(Worker& w, Message& m, bool as_given) {
  const PathChoice choice = m.kind == MsgKind::kForward ? forward_path(w, m) : path_of(w, m, as_given);
  switch (choice.kind) {
    case PathKind::kPath:
    case PathKind::kLoopback: return lease_out(w, m, choice);
    case PathKind::kPark: return park(w, m, choice.ask, choice.discover);
    case PathKind::kError: return fail_message(w, m, choice.error, choice.health);
  }
}

void lease_returned(Worker& w, Message& m) {
  m.lease_out = false;
  if (m.leased != nullptr) --m.leased->leases;
  count_result(w, m);
  const Completion how = m.tx.result;
  if (how.error != 0 && m.error == 0 && may_resend(w, m)) {
    ++m.retries;
    w.counters[Stat::kResendCount].add();
    return send_message(w, m);
  }
  if (how.error != 0 && m.retries > 0) w.counters[Stat::kFailedResends].add();
  switch (m.kind) {
    case MsgKind::kForward:
      if (how.error != 0) {
        w.counters[Stat::kDropCount].add();
        w.counters[Stat::kDropLength].add(m.tx.header.payload_length);
        w.counters[Drop::kNextHopDown].add();
      }
      return forward_end(w, m);
    case MsgKind::kInPut: return ack_ended(w, m);
    case MsgKind::kInGet: m.event.status = how.error; return finish_message(w, m);
    case MsgKind::kPut:
    case MsgKind::kGet:
      if (how.error != 0 && !m.responded && m.error == 0) m.error = how.error;
      return settle(w, m);
  }
}

void peer_resolved(Worker& w, const Nid& nid, int32_t error, bool as_given) {
  w.parked.release(nid, [&](Message& m) {
    m.phase = MsgPhase::kActive;
    if (error != 0)
      fail_message(w, m, error, LndStatus::kRemoteError);
    else
      send_message(w, m, as_given);
  });
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
