// The serving worker's side of a send: peer credit, NI credit, LND, and back. A Tx is on lease here from
// egress_continue()'s first call to the kLeaseReturn that ends it. Source: docs/wire/lnet.md §7.
#include "dataplane/stages/egress.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "dataplane/stages/charge.h"
#include "dataplane/stages/fault.h"
#include "dataplane/stages/post.h"
#include "dataplane/state/failures.h"

namespace ulnet {
namespace {

constexpr uint32_t kHeaderBytes = uint32_t(wire::kHeaderNid4Bytes);

/// What a sent message counts as: a response counts as the request whose message it reuses (docs/wire/lnet.md §13).
unsigned counted_as(const Tx& tx) {
  if (tx.routed) return unsigned(tx.header.type);
  if (tx.header.type == wire::MsgType::kAck) return unsigned(wire::MsgType::kPut);
  if (tx.header.type == wire::MsgType::kReply) return unsigned(wire::MsgType::kGet);
  return unsigned(tx.header.type);
}

void count_end(Tx& tx, Completion how, Instant now) {
  InterfaceCounters& ni = tx.ni_slice->counters;
  InterfaceCounters& peer = tx.peer->counters;
  const unsigned type = counted_as(tx);
  if (how.error == 0) {
    ni[NiTraffic::kSent][type].add();
    peer[NiTraffic::kSent][type].add();
    if (tx.header.type == wire::MsgType::kPut && !tx.routed) {
      const auto took = uint64_t((now - tx.started).count());
      ni[NiLatency::kPutEgress].sample(took);
      peer[NiLatency::kPutEgress].sample(took);
    }
  } else {
    ni[NiTraffic::kDropped][type].add();
    peer[NiTraffic::kDropped][type].add();
    const FailureClass& failure = failure_class(how.health);
    if (failure.at_ni) ni[*failure.at_ni].add();
    if (failure.at_peer) peer[*failure.at_peer].add();
  }
}

/// Hands a freed credit on. The next Tx goes on by way of the local list, so that the stack does not grow with the
/// queue.
void credit_hand_on(Worker& w, Tx* next, TxStage stage) {
  if (next == nullptr) return;
  next->stage = stage;
  post<PostKind::kLease>(w, w.id, *next);
}

void ni_credit_got(Worker& w, Tx& tx) {
  tx.ni_credit_at = w.now;
  tx.ni_slice->holders.push_back(tx);
}

/// Returns the NI credit of `tx`, if it holds one. The next in line has it then.
void ni_credit_return(Worker& w, Tx& tx) {
  if (!static_cast<Linked<NiCreditTag>&>(tx).linked()) return;
  NiSlice& slice = *tx.ni_slice;
  slice.holders.remove(tx);
  Tx* next = slice.credits.give_back();
  if (next == nullptr) return;
  ni_credit_got(w, *next);
  credit_hand_on(w, next, TxStage::kHasBoth);
}

/// Returns the peer credit of `tx`. The next in line has it then, and those behind may use their overdraft.
void peer_credit_return(Worker& w, Tx& tx) {
  tx.peer->tx_queued_bytes.add(-int64_t(tx.header.payload_length + kHeaderBytes));
  credit_hand_on(w, tx.peer->credits.give_back(), TxStage::kHasPeer);
  while (Tx* next = tx.peer->credits.hand_on()) credit_hand_on(w, next, TxStage::kHasPeer);
}

/// The lease goes home with `how`; its credits go to the next in line.
void lease_end(Worker& w, Tx& tx, Completion how) {
  w.tx_deadlines.disarm(tx);
  if (tx.peer != nullptr) {
    ni_credit_return(w, tx);
    if (how.error == 0) tx.peer->unconnected_since = kNever;
    if (tx.stage >= TxStage::kHasPeer && tx.token == 0) peer_credit_return(w, tx);
    if (!tx.moved) count_end(tx, how, w.now);
    if (how.error != 0 && !tx.moved) charge_send(w, tx, how);
    tx.ni_slice->all.remove(tx);
    ULNET_CHECK(tx.peer->tx_count > 0);
    --tx.peer->tx_count;
    tx.ni_slice->tx_count.add(-1);
    if (tx.ni_slice->closing) ni_check_drained(w, *tx.ni_slice);
  }
  tx.result = how;
  tx.stage = TxStage::kNew;
  post_back<PostKind::kLeaseReturn>(w, WorkerId{tx.home}, tx);
}

Lnd& lnd_of(Worker& w, const Tx& tx) {
  return *w.lnds[tx.peer == nullptr ? kLndLo : tx.ni_slice->lnd];
}

bool recalled(const Tx& tx) {
  return tx.message != nullptr && tx.message->recall.load(std::memory_order_relaxed) == Recall::kUnsent;
}

constexpr Completion kRecalled{-ECANCELED, LndStatus::kOk};
constexpr Completion kMoved{-ENETDOWN, LndStatus::kOk};
constexpr Completion kUnconnected{-ENOTCONN, LndStatus::kRemoteDropped};  ///< moved, too
constexpr Completion kExpired{-ETIMEDOUT, LndStatus::kNetworkTimeout};

/// An ACK or REPLY of this node: nobody here waits for its end.
bool is_response(const Tx& tx) {
  return !tx.routed && (tx.header.type == wire::MsgType::kAck || tx.header.type == wire::MsgType::kReply);
}

/// Nothing has got through to the peer for so long that a response to it is not worth its place.
bool out_of_reach(const Worker& w, const Tx& tx) {
  return is_response(tx) && tx.peer->unconnected_since != kNever &&
         w.now - tx.peer->unconnected_since >= kNoConnectionMax;
}

void drop_response(Worker& w, Tx& tx) {
  w.counters[Drop::kNoConnection].add();
  w.counters[Stat::kDropCount].add();
  w.counters[Stat::kDropLength].add(tx.header.payload_length);
  lease_end(w, tx, {-EHOSTUNREACH, LndStatus::kNetworkTimeout});
}

bool on_avoided_rail(const Tx& tx) {
  return tx.ni_slice->avoided || tx.peer->avoided;
}

/// Has the Tx to leave its rail? If it stays, it is looked at again after kStaysLook: there may be another rail by
/// then. Inline by force, because it is called for each message.
[[gnu::always_inline]] inline bool leaves(Worker& w, const Tx& tx) {
  if (!on_avoided_rail(tx) || tx.token != 0) return false;
  if (!tx.stays) return true;
  w.stays_due = std::min(w.stays_due, w.now + kStaysLook);
  return false;
}

/// The Tx has not begun, and goes home to take another path.
void lease_move(Worker& w, Tx& tx) {
  const Completion why = on_avoided_rail(tx) ? kMoved : kUnconnected;
  tx.moved = true;
  lease_end(w, tx, why);
}

/// True when `tx` has no use any more; then it is ended.
bool lease_ended_early(Worker& w, Tx& tx) {
  const bool late = !tx.routed && tx.deadline <= w.now;
  if (!recalled(tx) && !late && !tx.ni_slice->closing) {
    if (!leaves(w, tx)) return false;
    lease_move(w, tx);
    return true;
  }
  if (recalled(tx))
    lease_end(w, tx, kRecalled);
  else
    lease_end(w, tx, late ? kExpired : Completion{-ENETDOWN, LndStatus::kLocalDropped});
  return true;
}

/// True when a fault rule holds the Tx or has ended it.
bool stopped_by_fault(Worker& w, Tx& tx) {
  if (fault_holds(w, tx)) return true;
  const std::optional<Completion> how = fault_fails(w, tx);
  if (how) lease_end(w, tx, *how);
  return how.has_value();
}

/// Requires: lease_ended_early() was false in this call.
void lnd_submit(Worker& w, Tx& tx) {
  tx.stage = TxStage::kHasBoth;
  if (w.view->faults != nullptr && stopped_by_fault(w, tx)) return;
  ULNET_CHECK(tx.payload.length <= kMaxPayload);
  tx.stage = TxStage::kInLnd;
  tx.last_credit = tx.peer->credits.free() <= 0 || tx.ni_slice->credits.free() <= 0;
  w.lnds[tx.ni_slice->lnd]->submit(tx, w.now);
}

void peer_credit_got(Worker& w, Tx& tx) {
  tx.stage = TxStage::kHasPeer;
  tx.peer->tx_queued_bytes.add(int64_t(tx.header.payload_length + kHeaderBytes));
  if (lease_ended_early(w, tx)) return;
  if (out_of_reach(w, tx)) return drop_response(w, tx);
  NiSlice& slice = *tx.ni_slice;
  tx.stage = TxStage::kWaitsNi;
  if (slice.credits.take(tx)) {
    ni_credit_got(w, tx);
    return lnd_submit(w, tx);
  }
  if (!static_cast<Linked<NiWaitTag>&>(slice).linked()) w.nis_waiting.push_back(slice);
}

void lease_begin(Worker& w, Tx& tx) {
  if (tx.peer == nullptr) {  // loopback has no credits
    tx.stage = TxStage::kInLnd;
    w.tx_deadlines.arm(tx, tx.deadline);  // it may wait on a lazy portal for ever
    w.lnds[kLndLo]->submit(tx, w.now);
    return;
  }
  tx.started = w.now;
  if (tx.peer->tx_count == 0) tx.peer->unconnected_since = kNever;  // the first one makes a new attempt
  tx.no_connection = tx.peer->unconnected_since != kNever;
  ++tx.peer->tx_count;
  tx.ni_slice->tx_count.add(1);
  tx.ni_slice->all.push_back(tx);
  w.tx_deadlines.arm(tx, tx.deadline);
  if (recalled(tx)) return lease_end(w, tx, kRecalled);  // it was, while it was on its way here
  if (tx.token != 0) {
    tx.stage = TxStage::kInLnd;
    return w.lnds[tx.ni_slice->lnd]->submit(tx, w.now);
  }
  tx.stage = TxStage::kWaitsPeer;
  const uint32_t copied = w.lnds[tx.ni_slice->lnd]->copied_bytes();
  tx.is_copied = copied > 0 && tx.header.payload_length <= copied;
  if (tx.peer->credits.take(tx)) return peer_credit_got(w, tx);
  if (!tx.ni_slice->closing && !leaves(w, tx)) return;
  tx.peer->credits.leave(tx);  // the view of its home is older than the deletion or failure of the rail
  (void)lease_ended_early(w, tx);
}

/// Takes one Tx back, wherever it is, unless the transport has begun to send it.
void move_back(Worker& w, Tx& tx) {
  if (!leaves(w, tx)) return;
  switch (tx.stage) {
    case TxStage::kWaitsPeer: tx.peer->credits.leave(tx); return lease_move(w, tx);
    case TxStage::kWaitsNi: tx.ni_slice->credits.leave(tx); return lease_move(w, tx);
    case TxStage::kDelayed: fault_leave(w, tx); return lease_move(w, tx);
    case TxStage::kInLnd: tx.moving = true; return lnd_of(w, tx).cancel(tx, false, w.now);
    case TxStage::kNew:
    case TxStage::kHasPeer:
    case TxStage::kHasBoth:
    case TxStage::kNoConnection: return;  // in `local`, where lease_ended_early() looks; or ended already
  }
}

/// The same with those of this NI for which `meant` is true; none of them stays any longer.
template <class Meant>
void move_all(Worker& w, NiSlice& slice, const Meant& meant) {
  for (Tx* tx = slice.all.front(); tx != nullptr;) {
    Tx* next = slice.all.after(*tx);
    if (meant(*tx)) {
      tx->stays = false;
      move_back(w, *tx);
    }
    tx = next;
  }
}

/// Recall::kStuck. True: it has closed a connection, perhaps. Then any other Tx may have ended, and be a lease of
/// another worker by now.
bool unstick(Worker& w, Tx& tx) {
  Recall stuck = Recall::kStuck;
  if (!tx.message->recall.compare_exchange_strong(stuck, Recall::kNone, std::memory_order_relaxed)) return false;
  if (tx.stage != TxStage::kInLnd || tx.peer == nullptr) return false;
  Lnd& lnd = lnd_of(w, tx);
  const Instant moved = lnd.moved(tx.ni, tx.peer_ni, w.now);
  if (moved != kNever && w.now - moved < kStuckMax / 2) return false;  // slow, but not stuck
  tx.moving = true;
  tx.message->recall.store(Recall::kTaken, std::memory_order_relaxed);
  lnd.cancel(tx, true, w.now);
  return true;
}

/// The same over all NIs.
template <class Meant>
void move_all(Worker& w, const Meant& meant) {
  for (const NiView& ni : w.view->local->nis) move_all(w, *ni.slices[w.id.value], meant);
}

bool is_any(const Tx&) {
  return true;
}

/// A rail is back: messages that stay at a rail that fails may take it.
void take_returned(Worker& w, Gauge& back) {
  back.set(w.now.time_since_epoch().count());
  move_all(w, is_any);
}

}  // namespace

void egress_continue(Worker& w, Tx& tx) {
  switch (tx.stage) {
    case TxStage::kNew: return lease_begin(w, tx);
    case TxStage::kHasPeer: return peer_credit_got(w, tx);
    case TxStage::kHasBoth:
      if (!lease_ended_early(w, tx)) lnd_submit(w, tx);
      return;
    case TxStage::kWaitsPeer:
    case TxStage::kWaitsNi:
    case TxStage::kDelayed:
    case TxStage::kInLnd:
    case TxStage::kNoConnection: ULNET_CHECK(!"a waiting Tx was resumed");
  }
}

void egress_expired(Worker& w, Tx& tx) {
  switch (tx.stage) {
    case TxStage::kWaitsPeer: tx.peer->credits.leave(tx); return lease_end(w, tx, kExpired);
    case TxStage::kWaitsNi: tx.ni_slice->credits.leave(tx); return lease_end(w, tx, kExpired);
    case TxStage::kDelayed: fault_leave(w, tx); return lease_end(w, tx, kExpired);
    case TxStage::kInLnd:
      if (tx.deadline <= w.now) return lnd_of(w, tx).cancel(tx, true, w.now);
      if (tx.rails) {
        tx.moving = true;
        w.tx_deadlines.arm(tx, tx.deadline);
        return lnd_of(w, tx).cancel(tx, false, w.now);
      }
      tx.stage = TxStage::kNoConnection;  // armed by egress_waits()
      return lnd_of(w, tx).cancel(tx, false, w.now);
    case TxStage::kNew:
    case TxStage::kHasPeer:
    case TxStage::kHasBoth:
    case TxStage::kNoConnection:
      return;  // on its way in `local`, where lease_ended_early() looks at the deadline, or ended already
  }
}

void recall_lease(Worker& w, Sending& m, Recall how) {
  m.recall.store(how, std::memory_order_relaxed);
  w.mesh.recall_wanted.fetch_or(uint64_t{1} << m.lease_worker, std::memory_order_seq_cst);
  w.mesh.gates[m.lease_worker]->notify_stored();
}

// Rare, so that those meant may be looked for. One that was handed a credit and is in no queue is seen to when it goes
// on, also when that came of what is done here.
void run_recalls(Worker& w) {
  const uint64_t mine = uint64_t{1} << w.id.value;
  if ((w.mesh.recall_wanted.load(std::memory_order_relaxed) & mine) == 0) return;
  w.mesh.recall_wanted.fetch_and(~mine, std::memory_order_seq_cst);
  std::array<Tx*, 64> found;
  size_t count = 0;
  w.tx_deadlines.for_each([&](Tx& tx) {
    if (tx.message == nullptr) return;
    const Recall how = tx.message->recall.load(std::memory_order_relaxed);
    const bool wanted = how == Recall::kUnsent || how == Recall::kStuck;
    if (wanted && count < found.size()) found[count++] = &tx;
  });
  if (count == found.size()) w.mesh.recall_wanted.fetch_or(mine, std::memory_order_seq_cst);  // there may be more
  for (Tx* tx : std::span(found).first(count)) {
    if (!recalled(*tx)) {
      if (!unstick(w, *tx)) continue;
      w.mesh.recall_wanted.fetch_or(mine, std::memory_order_seq_cst);  // the others: with the next look
      return;
    }
    switch (tx->stage) {
      case TxStage::kWaitsPeer:
        tx->peer->credits.leave(*tx);
        lease_end(w, *tx, kRecalled);
        break;
      case TxStage::kWaitsNi:
        tx->ni_slice->credits.leave(*tx);
        lease_end(w, *tx, kRecalled);
        break;
      case TxStage::kDelayed:
        fault_leave(w, *tx);
        lease_end(w, *tx, kRecalled);
        break;
      case TxStage::kInLnd:
        tx->message->recall.store(Recall::kNone, std::memory_order_relaxed);  // once is enough
        lnd_of(w, *tx).cancel(*tx, false, w.now);
        break;
      case TxStage::kNew:
      case TxStage::kHasPeer:
      case TxStage::kHasBoth:
      case TxStage::kNoConnection: break;
    }
  }
}

void egress_done(Worker& w, Tx& tx, Completion how) {
  ULNET_CHECK(tx.stage == TxStage::kInLnd || tx.stage == TxStage::kNoConnection);  // else the LND ends it twice
  if (tx.moving && how.error == -ECANCELED && how.health == LndStatus::kOk) return lease_move(w, tx);
  if (tx.stage == TxStage::kNoConnection && how.error != 0) return drop_response(w, tx);
  lease_end(w, tx, how);
}

// An answer in the sink counts as a REPLY message does.
void egress_get_done(Worker& w, Tx& tx, uint32_t bytes, int32_t error) {
  ULNET_CHECK(tx.stage == TxStage::kInLnd && tx.peer != nullptr);
  ULNET_CHECK(tx.header.type == wire::MsgType::kGet && bytes <= tx.sink.length && error <= 0);
  tx.answer = {true, bytes, error};
  tx.peer->last_alive_ns.set(w.now.time_since_epoch().count());
  if (error == 0) {
    tx.ni_slice->counters[NiTraffic::kReceived][unsigned(wire::MsgType::kReply)].add();
    tx.peer->counters[NiTraffic::kReceived][unsigned(wire::MsgType::kReply)].add();
  }
  lease_end(w, tx, {});
}

void egress_waits(Worker& w, Tx& tx) {
  if (tx.stage != TxStage::kInLnd || tx.peer == nullptr) return;
  tx.no_connection = true;
  ni_credit_return(w, tx);
  if (tx.peer->unconnected_since == kNever) tx.peer->unconnected_since = w.now;
  if (is_response(tx)) w.tx_deadlines.arm(tx, std::min(tx.deadline, tx.peer->unconnected_since + kNoConnectionMax));
  if (tx.rails && !tx.stays && w.view->node.fast_detection)
    w.tx_deadlines.arm(tx, std::min(tx.deadline, w.now + kNoConnectionMove));
}

void egress_connected(Worker& w, Tx& tx) {
  if (tx.stage != TxStage::kInLnd || tx.peer == nullptr) return;
  tx.peer->unconnected_since = kNever;
  if (is_response(tx) || tx.rails) w.tx_deadlines.arm(tx, tx.deadline);
}

void ni_credits_reclaim(Worker& w) {
  for (uint32_t left = w.nis_waiting.size(); left > 0; --left) {
    NiSlice& slice = *w.nis_waiting.pop_front();
    for (uint32_t waiting = slice.credits.waiting(); waiting > 0; --waiting) {
      Tx* oldest = slice.holders.front();
      if (oldest == nullptr || w.now - oldest->ni_credit_at < kNiCreditHeldMax) break;
      ni_credit_return(w, *oldest);
    }
    if (slice.credits.waiting() > 0) w.nis_waiting.push_back(slice);
  }
}

Instant ni_credits_due(Worker& w) {
  Instant due = kForever;
  for (NiSlice* slice = w.nis_waiting.front(); slice != nullptr; slice = w.nis_waiting.after(*slice))
    if (Tx* oldest = slice->holders.front(); oldest != nullptr)
      due = std::min(due, oldest->ni_credit_at + kNiCreditHeldMax);
  return due;
}

void peer_set_tx_credits(Worker& w, PeerSlice& slice, int32_t total) {
  slice.credits.set_total(total);
  while (Tx* next = slice.credits.hand_on()) credit_hand_on(w, next, TxStage::kHasPeer);
}

void ni_avoid(Worker& w, NiSlice& slice, bool avoid) {
  const bool fails = avoid && !slice.avoided, returns = !avoid && slice.avoided;
  slice.avoided = avoid;
  if (fails) move_all(w, slice, is_any);
  if (returns) take_returned(w, slice.back_ns);
}

void peer_avoid(Worker& w, PeerSlice& slice, bool avoid) {
  const bool fails = avoid && !slice.avoided, returns = !avoid && slice.avoided;
  slice.avoided = avoid;
  if (fails && slice.tx_count > 0) move_all(w, [&](const Tx& tx) { return tx.peer == &slice; });
  if (returns) take_returned(w, slice.back_ns);
}

// Not those that a fault rule delays, nor responses: they would begin to wait again.
unsigned stays_look(Worker& w) {
  w.stays_due = kForever;
  move_all(w, [](const Tx& tx) {
    return tx.stays && tx.stage != TxStage::kDelayed && !is_response(tx) && on_avoided_rail(tx);
  });
  return 1;
}

void ni_close(Worker& w, NiSlice& slice) {
  slice.closing = true;
  if (slice.charges.linked()) w.charged.remove(slice.charges);
  delays_look(w);
  w.tallies.ni(slice.slot).tally().chosen(0);  // the next NI in this slot was never chosen
  while (Tx* tx = slice.credits.first_waiting()) {
    slice.credits.leave(*tx);
    lease_end(w, *tx, {-ENETDOWN, LndStatus::kLocalDropped});
  }
  ni_check_drained(w, slice);
}

void ni_check_drained(Worker& w, NiSlice& slice) {
  if (!slice.closing || slice.drained_told || slice.tx_count.get() != 0 || slice.rx_count.get() != 0) return;
  slice.drained_told = true;
  if (static_cast<Linked<NiWaitTag>&>(slice).linked()) w.nis_waiting.remove(slice);
  post_control(w, slice.drained, NiDrainedMsg{&slice});
}

}  // namespace ulnet
