// Paths and leases of everything that this node sends, and the results of leases.
#include "dataplane/stages/send.h"

#include <algorithm>
#include <type_traits>

#include "dataplane/select/path.h"
#include "dataplane/stages/finish.h"
#include "dataplane/stages/forward.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/receive.h"
#include "dataplane/state/failures.h"

namespace ulnet {
namespace {

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
  if (m.tx.token != 0) return false;       // the request came over this connection, and its answer takes no other
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
  ULNET_CHECK(!m.lease_out);
  Tx& tx = m.tx;
  tx.header.dest_nid = choice.dest;
  if (m.kind != MsgKind::kForward) tx.header.src_nid = choice.src;
  tx.result = {};
  tx.answer = {};
  tx.token = 0;
  // A router has no use for a sink: the REPLY comes to it as a message.
  const bool sink = m.kind == MsgKind::kGet && choice.kind == PathKind::kPath && !choice.routed;
  tx.sink = sink ? Payload{m.md->segments, m.md->segment_count, m.md_offset, m.event.rlength} : Payload{};
  tx.stage = TxStage::kNew;
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
    return post<PostKind::kLease>(w, w.id, tx);
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
  post<PostKind::kLease>(w, choice.hop->server, tx);
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
    case Parked::Result::kAsk:
      if (!ask_control(w, ResolveMsg{nid, discover}))
        w.parked.release(nid, [&](Message& parked) { park_refused(w, parked); });
      return;
  }
}

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
  ULNET_CHECK(m.lease_out);
  m.lease_out = false;
  if (m.leased != nullptr) {
    ULNET_CHECK(m.leased->leases > 0);
    --m.leased->leases;
  }
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
      if (m.tx.answer.come) get_answered(w, m);
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

}  // namespace ulnet
