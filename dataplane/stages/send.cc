// Paths and leases of everything that this node sends, and the results of leases.
#include "dataplane/stages/send.h"

#include <algorithm>
#include <type_traits>

#include "dataplane/base/cold.h"
#include "dataplane/select/after_choice.h"
#include "dataplane/select/path.h"
#include "dataplane/stages/copies.h"
#include "dataplane/stages/finish.h"
#include "dataplane/stages/forward.h"
#include "dataplane/stages/incoming.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/under_way.h"
#include "dataplane/state/failures.h"

namespace ulnet {
namespace {

/// Does the message end with its lease, so that another attempt helps? An operation with an answer needs none. A REPLY
/// that has not begun leaves even if its MD was unlinked.
bool wants_resend(Sending& m) {
  switch (m.kind) {
    case MessageKind::kOperation: {
      const Operation& op = as_operation(m);
      return op.state == OperationState::kSending && !op.md_unlinked;
    }
    case MessageKind::kIncoming: return m.tx.moved || !as_incoming(m).md_unlinked;
    case MessageKind::kTransit: return m.tx.piped == nullptr || !m.tx.piped->begun();
  }
  return false;
}

/// The states that all kinds have.
enum class Common : uint8_t { kReady, kParked, kSending };

template <class State>
constexpr State state_of(Common common) {
  switch (common) {
    case Common::kReady: return State::kReady;
    case Common::kParked: return State::kParked;
    case Common::kSending: return State::kSending;
  }
  return State::kFree;
}

void step(Sending& m, Common from, Common to) {
  const auto take = [from, to](auto& state) {
    using State = std::remove_reference_t<decltype(state)>;
    ULNET_CHECK(state == state_of<State>(from));
    state = state_of<State>(to);
  };
  switch (m.kind) {
    case MessageKind::kOperation: return take(as_operation(m).state);
    case MessageKind::kIncoming: return take(as_incoming(m).state);
    case MessageKind::kTransit: return take(as_transit(m).state);
  }
}

void count_result(Worker& w, const Sending& m) {
  const Completion& how = m.tx.result;
  if (how.error == 0) {
    if (m.kind == MessageKind::kTransit) {
      w.counters[Stat::kRouteCount].add();
      w.counters[Stat::kRouteLength].add(m.tx.header.payload_length);
    } else {
      w.counters[Stat::kSendCount].add();
      w.counters[Stat::kSendLength].add(m.tx.header.payload_length);
    }
    if (m.again) w.counters[Stat::kSuccessfulResends].add();
    return;
  }
  if (m.tx.moved) return;
  if (const auto stat = failure_class(how.health).at_node) w.counters[*stat].add();
}

/// The window that may take the answer without a REPLY message. A router has no use for it: there, the REPLY comes as a
/// message.
Payload sink_of(const Operation& op, const PathChoice& choice) {
  if (!op.is_get() || choice.kind != PathKind::kPath || choice.routed) return {};
  return {op.md->segments, op.md->segment_count, op.md_offset, op.tx.header.get().sink_length};
}

/// Could another NI of this node or of the peer have carried the message?
bool has_rails(const ViewSet& view, const PathChoice& choice) {
  return choice.hop_peer->nis.size() > 1 || view.local->nis.size() > 1;
}

/// `stays`: as Tx::stays. Inline in send_message(), as path_of(): the other callers are rare.
[[gnu::always_inline]] inline void lease_out(Worker& w, Sending& m, const PathChoice& choice, bool stays = false) {
  step(m, Common::kReady, Common::kSending);
  Tx& tx = m.tx;
  const bool forwarded = m.kind == MessageKind::kTransit;
  const Operation* op = m.kind == MessageKind::kOperation ? &as_operation(m) : nullptr;
  const Instant answer_due = op != nullptr && op->armed() ? op->deadline : kForever;
  tx.header.dest_nid = choice.dest;
  if (!forwarded) tx.header.src_nid = choice.src;
  const bool again = m.again || m.moves > 0;  // the deadline of the first attempt holds
  tx.lease_reset(op != nullptr ? sink_of(*op, choice) : Payload{}, 0);
  tx.stays = stays;
  m.lease_worker = uint8_t(choice.kind == PathKind::kLoopback ? w.id.value : choice.hop->server.value);
  if (choice.kind == PathKind::kLoopback) {
    tx.ni = {};
    tx.ni_slice = nullptr;
    tx.peer_ni = {};
    tx.peer = nullptr;
    tx.next_hop = choice.dest;
    tx.deadline = std::min(w.now + w.view->node.transaction_timeout, answer_due);
    return post<PostKind::kLease>(w, w.id, tx);
  }
  WorkerNotes notes(w.tallies);
  note_path(notes, choice);
  const bool rails = has_rails(*w.view, choice);
  under_way_begin(w, m, choice.ni->slot, choice.hop->slot, rails);
  tx.recovery = op != nullptr && op->recovery;
  tx.rails = rails && op != nullptr && !tx.recovery;
  tx.ni = choice.ni->id;
  tx.ni_slice = choice.ni->slices[choice.hop->server.value];
  tx.peer_ni = choice.hop->id;
  tx.peer = choice.hop->slice;
  tx.next_hop = choice.hop->nid;
  tx.deadline = forwarded ? kForever : std::min(again ? tx.deadline : w.now + choice.ni->message_timeout, answer_due);
  post<PostKind::kLease>(w, choice.hop->server, tx);
}

/// Nothing can be parked for `m`, or for the whole peer.
void park_refused(Worker& w, Sending& m) {
  w.counters[TurnStat::kParkedRefused].add();
  fail_message(w, m, -ENOBUFS, LndStatus::kLocalError);
}

void park(Worker& w, Sending& m, const Nid& nid, bool discover) {
  m.parked_for = nid;
  w.counters[TurnStat::kParked].add();
  const Parked::Result result = w.parked.park(nid, m);
  if (result == Parked::Result::kRefused) return park_refused(w, m);
  step(m, Common::kReady, Common::kParked);
  if (result != Parked::Result::kAsk || ask_control(w, ResolveMsg{nid, discover})) return;
  w.parked.release(nid, [&](Sending& parked) {
    step(parked, Common::kParked, Common::kReady);
    park_refused(w, parked);
  });
}

/// Inline by force: the request is then written once, in its place.
[[gnu::always_inline]] inline PathRequest request_of(const UserMessage& m, bool any) {
  PathRequest request;
  request.src = m.want_src;
  request.dst = m.want_dst;
  request.bytes = bytes_under_way(m);
  request.tried = m.failed_over();
  request.tried_any = any;
  if (m.md != nullptr) {  // its memory is the source of a PUT or REPLY, and the sink of a GET
    request.numa = m.md->numa;
    request.accelerator = m.md->accelerator;
  }
  return request;
}

/// `any`: as PathRequest::tried_any.
[[gnu::always_inline]] inline PathChoice path_of(Worker& w, Sending& m, bool as_given, bool any = false) {
  switch (m.kind) {
    case MessageKind::kOperation: {
      const Operation& op = as_operation(m);
      PathRequest request = request_of(op, any);
      request.as_given = as_given;
      request.portal0 = op.portal0;
      request.recovery = op.recovery;
      return choose_path(*w.view, request, path_context(w));
    }
    case MessageKind::kIncoming: {
      const Incoming& incoming = as_incoming(m);
      PathRequest request = request_of(incoming, any);
      request.via = incoming.via;
      request.response = true;
      request.portal0 = incoming.event.portal == kReservedPortal;
      return choose_path(*w.view, request, path_context(w));
    }
    case MessageKind::kTransit: return forward_path(w, as_transit(m), any);
  }
  ULNET_CHECK(!"a message of no kind");
}

/// Is the path of the message given: by its request, by the one source that its peer may see, or by its sender?
bool path_is_given(Sending& m, const PathChoice& choice) {
  return m.kind != MessageKind::kOperation || !choice.hop_peer->multi_rail || !as_operation(m).want_src.is_any();
}

/// Another pair of NIs than those over which the message has failed. If its path is given, there may be no other, and
/// the same one is tried again. Not a path: each pair was tried.
PathChoice other_path(Worker& w, Sending& m) {
  for (const bool any : {false, true}) {
    const PathChoice choice = path_of(w, m, true, any);
    if (choice.kind != PathKind::kPath || !m.tried.has(choice.ni->slot, choice.hop->slot)) return choice;
    if (any && path_is_given(m, choice)) return choice;
  }
  return {};
}

/// Does the path lead to another peer NI than the last lease, or could it?
bool another_peer_ni(const Sending& m, const PathChoice& choice) {
  return choice.hop->id != m.tx.peer_ni || choice.hop_peer->nis.size() > 1;
}

/// Has the side at fault another interface (docs/wire/lnet.md §9), or does the path lead to another next hop?
bool helps(const Worker& w, const Sending& m, const PathChoice& choice) {
  const auto& nis = w.view->local->nis;
  switch (failure_class(m.tx.result.health).resend) {
    case Resend::kNo: return !m.tried.has(choice.ni->slot, choice.hop->slot);  // a copy
    case Resend::kOtherNi:
      return std::any_of(nis.begin(), nis.end(), [&](const NiView& ni) { return ni.id != m.tx.ni && !ni.going(); });
    case Resend::kOtherPeerNi: return another_peer_ni(m, choice);
  }
  return false;
}

/// Another path is taken: nothing that was found out about the last one holds for it.
void path_begins(const Worker& w, Sending& m, const PathChoice& choice) {
  m.recall.store(Recall::kNone, std::memory_order_relaxed);
  if (m.kind != MessageKind::kOperation) return;
  Operation& op = as_operation(m);
  op.stuck = op.path_failed = false;
  op.path_gone = choice.kind == PathKind::kPath && faults_of(w, choice).all() >= kPathGone;
}

void lease_again(Worker& w, Sending& m, const PathChoice& choice) {
  path_begins(w, m, choice);
  w.counters[Stat::kResendCount].add();
  lease_out(w, m, choice);
}

/// The same of what the peer may have: marked, and with the time of a new message.
void lease_copy(Worker& w, Operation& op, const PathChoice& choice) {
  mark_copy(w, op);
  ++op.copies;
  op.tx.deadline = std::min(w.now + choice.ni->message_timeout, op.issued + kCopyFor);
  lease_again(w, op, choice);
}

/// An attempt over a pair of NIs, and who was at fault.
struct Attempt {
  uint16_t ni_slot;
  uint32_t peer_slot;
  bool ni_at_fault, peer_at_fault;
};

void note_tried(Sending& m, const Attempt& last) {
  if (!m.again) m.tried.clear();
  m.again = true;
  m.tried.add(last.ni_slot, last.peer_slot, last.ni_at_fault, last.peer_at_fault);
}

/// `choose` prefers pairs of NIs that were not tried. If it finds none that is up, only the last attempt counts as
/// tried. So it may find a pair that was tried, and is well again.
template <class Choose>
PathChoice untried_or_well(const Worker& w, Sending& m, const Attempt& last, const Choose& choose) {
  const auto faults = [&](const PathChoice& choice) {
    return choice.kind == PathKind::kPath ? faults_of(w, choice).all() : UINT32_MAX;
  };
  const PathChoice first = choose();
  if (faults(first) < kPathGone || !m.again) return first;
  const Tried before = m.tried;
  m.again = false;
  note_tried(m, last);
  const PathChoice second = choose();
  if (faults(second) < faults(first)) return second;
  m.tried = before;
  return first;
}

/// A failure that another path may not have: sends the message over such a path, or returns false.
bool resend(Worker& w, Sending& m) {
  static_assert(std::is_same_v<decltype(Sending::retries), decltype(NodeView::retry_count)>);
  const FailureClass& failure = failure_class(m.tx.result.health);
  const bool copy = failure.resend == Resend::kNo;  // the peer may have it
  if (m.retries >= w.view->node.retry_count) return false;
  const bool may =
      !copy || (failure.peer_at_fault && m.kind == MessageKind::kOperation && may_copy(w, as_operation(m)));
  if (!may) return false;
  if (m.tx.peer == nullptr) return false;  // loopback: there is no other way
  if (m.tx.token != 0) return false;       // the request came over this connection, and its answer takes no other
  if (!m.tx.routed && m.tx.deadline <= w.now && !copy) return false;
  if (m.kind == MessageKind::kOperation && as_operation(m).recovery) return false;
  const bool was_again = m.again;
  const Attempt last{m.under_way.ni_slot, m.under_way.peer_slot, failure.ni_at_fault, failure.peer_at_fault};
  note_tried(m, last);
  const auto choose = [&] { return other_path(w, m); };
  const bool stuck = m.recall.load(std::memory_order_relaxed) == Recall::kTaken;  // as has_way_out() has found
  const PathChoice choice = stuck ? untried_or_well(w, m, last, choose) : choose();
  if (choice.kind != PathKind::kPath || !helps(w, m, choice)) {
    m.again = was_again;
    return false;
  }
  ++m.retries;
  step(m, Common::kSending, Common::kReady);
  if (copy)
    lease_copy(w, as_operation(m), choice);
  else
    lease_again(w, m, choice);
  return true;
}

/// The lease came back because there was no connection in time.
bool unconnected(const Sending& m) {
  return m.tx.moved && m.tx.result.health != LndStatus::kOk;
}

/// The rail of the message has failed before the message was sent: takes another rail, or this one if there is none.
void move(Worker& w, Sending& m) {
  step(m, Common::kSending, Common::kReady);
  m.moves = uint8_t(std::min(m.moves + 1, 255));
  const Attempt last{m.under_way.ni_slot, m.under_way.peer_slot, true, true};
  const PathChoice choice = untried_or_well(w, m, last, [&] { return path_of(w, m, true); });
  path_begins(w, m, choice);
  const bool path = choice.kind == PathKind::kPath || choice.kind == PathKind::kLoopback;
  if (!path && m.kind == MessageKind::kOperation && as_operation(m).copied) return copy_failed(as_operation(m));
  if (choice.kind == PathKind::kError) return fail_message(w, m, choice.error, choice.health);
  if (choice.kind == PathKind::kPark) return park(w, m, choice.ask, choice.discover);
  const bool same = choice.kind == PathKind::kPath && choice.ni->id == m.tx.ni && choice.hop->id == m.tx.peer_ni;
  lease_out(w, m, choice, same || unconnected(m) || m.moves >= kMovesMax);
}

/// The attempt has failed. True: the message is on its way again, or ended. Not inline, so that lease_returned()
/// saves fewer registers when a message was sent.
[[ULNET_COLD, gnu::noinline]] bool sent_again(Worker& w, Sending& m) {
  if (wants_resend(m) && m.tx.moved) {
    if (!unconnected(m) || !resend(w, m)) move(w, m);
    return true;
  }
  if (wants_resend(m) && resend(w, m)) return true;
  if (m.again) w.counters[Stat::kFailedResends].add();
  return false;
}

/// Not a path if the request has gone over it.
PathChoice untried(const Operation& op, const PathChoice& choice) {
  const bool is = choice.kind == PathKind::kPath && !op.tried.has(choice.ni->slot, choice.hop->slot);
  return is ? choice : PathChoice{};
}

/// Of a request that waits, or whose REPLY does not come further: the path of the REPLY, if one has begun.
Attempt last_attempt(const Worker& w, const Operation& op) {
  const Way way = way_of(w, op);
  const PathFaults faults = faults_of(w, way);
  Attempt last{op.under_way.ni_slot, op.under_way.peer_slot, faults.ni > 0, faults.peer_ni > 0 || faults.ni == 0};
  if (way.ni != nullptr && way.hop && way.hop.ni().slice != nullptr) {
    last.ni_slot = way.ni->slot;
    last.peer_slot = way.hop.ni().slot;
  }
  return last;
}

/// Another path than those over which the request has gone, or, if there is none that is up, than the last. Not a path:
/// there is none.
PathChoice another_path(Worker& w, Operation& op) {
  const Attempt last = last_attempt(w, op);
  note_tried(op, last);
  return untried_or_well(w, op, last, [&] { return untried(op, other_path(w, op)); });
}

/// The part of an operation that another_path() changes.
struct Attempted {
  explicit Attempted(const Operation& op) : again(op.again), tried(op.tried) {}
  void restore(Operation& op) const {
    op.again = again;
    op.tried = tried;
  }
  const bool again;
  const Tried tried;
};

}  // namespace

void send_message(Worker& w, Sending& m, bool as_given) {
  const PathChoice choice = path_of(w, m, as_given);
  switch (choice.kind) {
    case PathKind::kPath:
    case PathKind::kLoopback: return lease_out(w, m, choice);
    case PathKind::kPark: return park(w, m, choice.ask, choice.discover);
    case PathKind::kError: return fail_message(w, m, choice.error, choice.health);
  }
}

bool has_way_out(Worker& w, Operation& op) {
  const Attempted before(op);
  const PathChoice choice = another_path(w, op);
  before.restore(op);
  if (choice.kind != PathKind::kPath || faults_of(w, choice).all() >= kPathGone) return false;
  return op.state != OperationState::kSending || op.copied || another_peer_ni(op, choice);  // as resend()
}

bool send_copy(Worker& w, Operation& op, bool only_better) {
  ULNET_CHECK(op.state == OperationState::kAwaiting || op.state == OperationState::kReceiving);
  const Attempted before(op);
  const uint32_t faults = faults_of(w, way_of(w, op)).all();
  const PathChoice choice = another_path(w, op);
  const bool other = choice.kind == PathKind::kPath;
  const uint32_t new_faults = other ? faults_of(w, choice).all() : 0;
  // A path that is well again may have lost the request, or keep it until its connection tries again.
  const bool better = new_faults < faults || new_faults == 0;
  if (!other || (only_better && !better)) {
    before.restore(op);
    return false;
  }
  under_way_end(w, op, -ETIMEDOUT);
  op.state = OperationState::kReady;
  op.copied = only_better;
  lease_copy(w, op, choice);
  return true;
}

void lease_returned(Worker& w, Sending& m) {
  if (m.kind != MessageKind::kOperation || m.tx.result.error != 0)
    under_way_end(w, m, m.tx.result.error);
  else if (m.under_way.on)
    under_way_awaits(w, m);
  count_result(w, m);
  if (m.tx.result.error != 0 && sent_again(w, m)) return;
  switch (m.kind) {
    case MessageKind::kOperation: return operation_lease_back(w, as_operation(m));
    case MessageKind::kIncoming: return incoming_lease_back(w, as_incoming(m));
    case MessageKind::kTransit: return forward_lease_back(w, as_transit(m));
  }
}

void peer_resolved(Worker& w, const Nid& nid, int32_t error, bool as_given) {
  w.parked.release(nid, [&](Sending& m) {
    step(m, Common::kParked, Common::kReady);
    if (error != 0)
      fail_message(w, m, error, LndStatus::kRemoteError);
    else
      send_message(w, m, as_given);
  });
}

}  // namespace ulnet
