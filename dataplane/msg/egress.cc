// The serving worker's side of a send: peer credit, NI credit, LND, and back. A Tx is on lease here from
// egress_continue()'s first call to the kLeaseReturn that ends it. Source: docs/wire/lnet.md §7.
#include <array>
#include <span>

#include "dataplane/msg/flow.h"

namespace ulnet {
namespace {

// Where a Tx is (Tx::stage).
enum Stage : uint8_t { kNew, kWaitPeer, kHavePeer, kWaitNi, kHaveBoth, kInLnd };

constexpr uint32_t kHeaderBytes = uint32_t(wire::kHeaderNid4Bytes);

/// What a sent message counts as: a response counts as the request whose message it reuses (docs/wire/lnet.md §13).
unsigned counted_as(const Tx& tx) {
  if (tx.routed) return unsigned(tx.header.type);
  if (tx.header.type == wire::MsgType::kAck) return unsigned(wire::MsgType::kPut);
  if (tx.header.type == wire::MsgType::kReply) return unsigned(wire::MsgType::kGet);
  return unsigned(tx.header.type);
}

void count_failure(InterfaceCounters& ni, InterfaceCounters& peer, LndStatus health) {
  switch (health) {
    case LndStatus::kOk: break;
    case LndStatus::kLocalInterrupt: ni.interrupts.add(); break;
    case LndStatus::kLocalDropped: ni.local_dropped.add(); break;
    case LndStatus::kLocalAborted: ni.aborted.add(); break;
    case LndStatus::kLocalNoRoute: ni.no_route.add(); break;
    case LndStatus::kLocalError: ni.error.add(); break;
    case LndStatus::kLocalTimeout: ni.timeouts.add(); break;
    case LndStatus::kRemoteError: peer.remote_error.add(); break;
    case LndStatus::kRemoteDropped: peer.remote_dropped.add(); break;
    case LndStatus::kRemoteTimeout: peer.remote_timeout.add(); break;
    case LndStatus::kNetworkTimeout: peer.network_timeout.add(); break;
  }
}

void count_end(Tx& tx, Completion how, Instant now) {
  InterfaceCounters& ni = tx.ni_slice->counters;
  InterfaceCounters& peer = tx.peer->counters;
  const unsigned type = counted_as(tx);
  if (how.error == 0) {
    ni.sent[type].add();
    peer.sent[type].add();
    if (tx.header.type == wire::MsgType::kPut && !tx.routed) {
      const auto took = uint64_t((now - tx.started).count());
      ni.put_egress.sample(took);
      peer.put_egress.sample(took);
    }
  } else {
    ni.dropped[type].add();
    peer.dropped[type].add();
    count_failure(ni, peer, how.health);
  }
}

/// Hands a freed credit on. The next Tx goes on by way of the local list, so that the stack does not grow with the
/// queue.
void hand_on(Worker& w, Tx* next, Stage stage) {
  if (next == nullptr) return;
  next->stage = stage;
  post(w, w.id, PostKind::kLease, *next);
}

void end(Worker& w, Tx& tx, Completion how) {
  w.tx_deadlines.disarm(tx);
  if (tx.peer != nullptr) {
    if (tx.stage == kHaveBoth || tx.stage == kInLnd) hand_on(w, tx.ni_slice->credits.give_back(), kHaveBoth);
    if (tx.stage >= kHavePeer) {
      tx.peer->tx_queued_bytes.add(-int64_t(tx.header.payload_length + kHeaderBytes));
      hand_on(w, tx.peer->credits.give_back(), kHavePeer);
    }
    count_end(tx, how, w.now);
    --tx.peer->tx_count;
    tx.ni_slice->tx_count.add(-1);
    if (tx.ni_slice->closing) ni_check_drained(w, *tx.ni_slice);
  }
  tx.result = how;
  tx.stage = kNew;
  post_back(w, WorkerId{tx.home}, PostKind::kLeaseReturn, tx);
}

Lnd& lnd_of(Worker& w, const Tx& tx) {
  return *w.lnds[tx.peer == nullptr ? kLndLo : tx.ni_slice->lnd];
}

bool recalled(const Tx& tx) {
  return tx.message != nullptr && static_cast<Message*>(tx.message)->recall.load(std::memory_order_relaxed);
}

constexpr Completion kRecalled{-ECANCELED, LndStatus::kOk};

void have_both(Worker& w, Tx& tx) {
  tx.stage = kHaveBoth;
  if (recalled(tx)) return end(w, tx, kRecalled);
  if (!tx.routed && tx.deadline <= w.now) return end(w, tx, {-ETIMEDOUT, LndStatus::kNetworkTimeout});
  if (tx.ni_slice->closing) return end(w, tx, {-ENETDOWN, LndStatus::kLocalDropped});
  tx.stage = kInLnd;
  w.lnds[tx.ni_slice->lnd]->submit(tx, w.now);
}

void have_peer(Worker& w, Tx& tx) {
  tx.stage = kHavePeer;
  tx.peer->tx_queued_bytes.add(int64_t(tx.header.payload_length + kHeaderBytes));
  if (recalled(tx)) return end(w, tx, kRecalled);
  if (tx.ni_slice->closing) return end(w, tx, {-ENETDOWN, LndStatus::kLocalDropped});
  tx.stage = kWaitNi;
  if (tx.ni_slice->credits.take(tx)) have_both(w, tx);
}

void start(Worker& w, Tx& tx) {
  if (tx.peer == nullptr) {  // loopback has no credits
    tx.stage = kInLnd;
    w.tx_deadlines.arm(tx, tx.deadline);  // it may wait on a lazy portal for ever
    w.lnds[kLndLo]->submit(tx, w.now);
    return;
  }
  tx.started = w.now;
  ++tx.peer->tx_count;
  tx.ni_slice->tx_count.add(1);
  w.tx_deadlines.arm(tx, tx.deadline);
  if (recalled(tx)) return end(w, tx, kRecalled);  // it was, while it was on its way here
  tx.stage = kWaitPeer;
  if (tx.peer->credits.take(tx)) have_peer(w, tx);
}

}  // namespace

void egress_continue(Worker& w, Tx& tx) {
  switch (Stage(tx.stage)) {
    case kNew: return start(w, tx);
    case kHavePeer: return have_peer(w, tx);
    case kHaveBoth: return have_both(w, tx);
    case kWaitPeer:
    case kWaitNi:
    case kInLnd: ULNET_CHECK(!"a Tx that waits was told to go on");
  }
}

void egress_expired(Worker& w, Tx& tx) {
  switch (Stage(tx.stage)) {
    case kWaitPeer: tx.peer->credits.leave(tx); return end(w, tx, {-ETIMEDOUT, LndStatus::kNetworkTimeout});
    case kWaitNi: tx.ni_slice->credits.leave(tx); return end(w, tx, {-ETIMEDOUT, LndStatus::kNetworkTimeout});
    case kInLnd: return lnd_of(w, tx).cancel(tx, true, w.now);
    case kNew:
    case kHavePeer:
    case kHaveBoth: return;  // on its way in `local`: have_both() looks at the deadline
  }
}

void recall_lease(Worker& w, Message& m) {
  m.recall.store(true, std::memory_order_relaxed);
  w.mesh.recall_wanted.fetch_or(uint64_t{1} << m.lease_worker, std::memory_order_seq_cst);
  w.mesh.gates[m.lease_worker]->notify();
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
    if (recalled(tx) && count < found.size()) found[count++] = &tx;
  });
  if (count == found.size()) w.mesh.recall_wanted.fetch_or(mine, std::memory_order_seq_cst);  // there may be more
  for (Tx* tx : std::span(found).first(count)) {
    switch (Stage(tx->stage)) {
      case kWaitPeer:
        tx->peer->credits.leave(*tx);
        end(w, *tx, kRecalled);
        break;
      case kWaitNi:
        tx->ni_slice->credits.leave(*tx);
        end(w, *tx, kRecalled);
        break;
      case kInLnd:
        static_cast<Message*>(tx->message)->recall.store(false, std::memory_order_relaxed);  // once is enough
        lnd_of(w, *tx).cancel(*tx, false, w.now);
        break;
      case kNew:
      case kHavePeer:
      case kHaveBoth: break;
    }
  }
}

void egress_done(Worker& w, Tx& tx, Completion how) {
  end(w, tx, how);
}

void peer_set_tx_credits(Worker& w, PeerSlice& slice, int32_t total) {
  slice.credits.set_total(total);
  while (Tx* next = slice.credits.hand_on()) hand_on(w, next, kHavePeer);
}

void ni_close(Worker& w, NiSlice& slice) {
  slice.closing = true;
  while (Tx* tx = slice.credits.first_waiting()) {
    slice.credits.leave(*tx);
    end(w, *tx, {-ENETDOWN, LndStatus::kLocalDropped});
  }
  ni_check_drained(w, slice);
}

void ni_check_drained(Worker& w, NiSlice& slice) {
  if (!slice.closing || slice.drained_told || slice.tx_count.get() != 0 || slice.rx_count.get() != 0) return;
  slice.drained_told = true;
  slice.drained.msg.object = &slice;
  post_control(w, WorkerKind::kNiDrained, slice.drained);
}

}  // namespace ulnet
