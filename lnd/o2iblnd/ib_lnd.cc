#include "lnd/o2iblnd/ib_lnd.h"

#include <algorithm>

#include "dataplane/base/limits.h"
#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_rx.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/peer.h"
#include "lnd/o2iblnd/status.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {

// --- What the queue pairs report -------------------------------------------------------------------------------------

void Conn::received(rc::Qp&, uint32_t buffer, uint32_t bytes, Instant) {
  conn_received(worker, *this, buffer, bytes);
}
void Conn::sent(rc::Qp&, uint64_t token, Instant) {
  conn_sent(worker, *this, token);
}
void Conn::key_closed(rc::Qp&, rc::RemoteKey& key, Instant) {
  conn_key_closed(worker, *this, key);
}
void Conn::broken(rc::Qp&, rc::Cause cause, Instant) {
  conn_end(worker, *this, failure_of(cause));
}
void Conn::drained(rc::Qp&, Instant) {
  conn_drained(worker, *this);
}

// --- The driver interface --------------------------------------------------------------------------------------------

void IbLnd::submit(Tx& tx, Instant now) {
  worker_.now = now;
  ++worker_.tx_count;
  std::fill(std::begin(tx.lnd), std::end(tx.lnd), 0);
  if (tx.token != 0) return reply(tx);
  peer_submit(worker_, tx);
}

void IbLnd::reply(Tx& tx) {
  auto& serving = *reinterpret_cast<Serving*>(tx.token);
  Conn& conn = *serving.conn;
  ULNET_CHECK(serving.state == ServingState::kOwed);
  if (!conn.is_up()) {
    serving.state = ServingState::kFree;
    worker_.finish(tx, may_have_failed(conn.how));
    return conn_settle(worker_, conn);
  }
  TxState state(tx);
  state.place(TxPlace::kBegun, &conn);
  ++conn.begun;
  transfer_begin(serving.transfer, tx);
  serving.state = ServingState::kWriting;
  serving.since = worker_.now;
  conn.replying.push_back(serving);
  worker_.mark_dirty(conn);
  conn_watch(worker_, conn);
}

void IbLnd::resume(RxSlot& slot, Instant now) {
  worker_.now = now;
  conn_rx_resume(worker_, static_cast<In&>(slot));
}

void IbLnd::release(RxSlot& slot, Instant now) {
  worker_.now = now;
  conn_rx_release(worker_, static_cast<In&>(slot));
}

void IbLnd::divert(RxSlot& slot, Instant now) {
  worker_.now = now;
  conn_rx_divert(worker_, static_cast<In&>(slot));
}

void IbLnd::cancel(Tx& tx, bool force, Instant now) {
  worker_.now = now;
  TxState state(tx);
  const bool expired = tx.deadline <= now;
  const Completion unsent =
      expired ? Completion{-ETIMEDOUT, LndStatus::kNetworkTimeout} : Completion{-ECANCELED, LndStatus::kOk};
  switch (state.place()) {
    case TxPlace::kWaiting: {
      Peer& peer = *state.peer();
      peer.waiting.remove(tx);
      worker_.finish(tx, unsent);
      return peer_settle(worker_, peer);
    }
    case TxPlace::kQueued: state.conn()->queue.remove(tx); return worker_.finish(tx, unsent);
    case TxPlace::kBegun:
      if (!force) return;
      const int error = expired ? -ETIMEDOUT : -EHOSTUNREACH;
      return conn_end(worker_, *state.conn(),
                      {error, expired ? LndStatus::kNetworkTimeout : LndStatus::kRemoteDropped});
  }
}

Instant IbLnd::moved(NiId ni, PeerNiId peer_ni, Instant now) {
  Peer* peer = peer_find(worker_, ni, peer_ni);
  if (peer == nullptr || peer->conns.empty()) return kNever;
  bool waits = false;
  Instant moved = kNever;
  for (Conn* conn = peer->conns.front(); conn != nullptr; conn = peer->conns.after(*conn)) {
    waits |= conn->outs_used > 0;
    moved = std::max(moved, conn->progress);
  }
  return waits ? moved : now;
}

unsigned IbLnd::poll(unsigned budget, Instant now) {
  worker_.now = now;
  return worker_.rc.poll(budget, now);
}

unsigned IbLnd::timers(Instant now) {
  worker_.now = now;
  const unsigned fired = worker_.conn_wheel.advance(now, kTimerBudget, [&](Conn& conn) { conn_fire(worker_, conn); });
  return fired + worker_.rc.timers(now);
}

void IbLnd::flush(Instant now) {
  worker_.now = now;
  for (uint32_t left = worker_.dirty.size(); left > 0 && !worker_.dirty.empty(); --left)
    conn_pump(worker_, *worker_.dirty.pop_front());
  worker_.rc.flush(now);
}

Instant IbLnd::next_deadline() {
  return std::min(worker_.conn_wheel.next_deadline(), worker_.rc.next_deadline());
}

// --- Control ---------------------------------------------------------------------------------------------------------

void IbLnd::adopt(Conn& conn) {
  ++worker_.conn_count;
  worker_.rc.adopt(*conn.qp, conn);
  for (uint32_t i = 0; i < conn.qp->receives; ++i) worker_.rc.receive(*conn.qp, i);
  worker_.core.to_control(conn.told, ConnAdoptedMsg{&conn});
}

void IbLnd::up(Conn& conn, const ConnFacts& facts) {
  if (conn.phase != ConnPhase::kNew) return;
  conn.facts = facts;
  conn.credits = Credits(facts.depth, facts.high_water);
  conn.last_sent = conn.last_received = conn.progress = worker_.now;
  if (!peer_join(worker_, conn)) return conn_end(worker_, conn, {-ENOBUFS, LndStatus::kLocalError});
  conn_rx_begin(worker_, conn);
  if (worker_.config.keepalive > Duration{0} && conn.is_up() && !conn.armed())
    worker_.conn_wheel.arm(conn, worker_.now + worker_.config.keepalive);
}

void IbLnd::ni_flush(const NiFlushMsg& msg) {
  const Completion how{-ESHUTDOWN, LndStatus::kLocalAborted};
  for (uint32_t i = 0; i < worker_.config.peer_buckets; ++i) {
    auto& chain = worker_.buckets[i];
    for (uint32_t left = chain.size(); left > 0 && !chain.empty(); --left) {
      Peer& peer = *chain.pop_front();
      chain.push_back(peer);
      if (peer.ni == msg.ni) peer_fail(worker_, peer, how);
    }
  }
  worker_.core.to_control(*msg.answer, NiFlushedMsg{msg.ni});
}

void IbLnd::from_control(const LndMsg& msg, Instant now) {
  worker_.now = now;
  switch (ToWorker(msg.kind())) {
    case ToWorker::kConnAdopt: return adopt(*msg.as<ConnAdoptMsg>().conn);
    case ToWorker::kConnUp: return up(*msg.as<ConnUpMsg>().conn, *msg.as<ConnUpMsg>().facts);
    case ToWorker::kConnClose: return conn_end(worker_, *msg.as<ConnCloseMsg>().conn, msg.as<ConnCloseMsg>().how);
    case ToWorker::kPeerFail: {
      const auto fail = msg.as<PeerFailMsg>();
      if (Peer* peer = peer_find(worker_, fail.ni, fail.peer_ni)) peer_fail(worker_, *peer, fail.how);
      return;
    }
    case ToWorker::kNiFlush: return ni_flush(msg.as<NiFlushMsg>());
  }
}

}  // namespace ulnet::o2iblnd
