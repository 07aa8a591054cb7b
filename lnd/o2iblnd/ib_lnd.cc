#include "lnd/o2iblnd/ib_lnd.h"

#include <algorithm>

#include "dataplane/base/limits.h"
#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_in.h"
#include "lnd/o2iblnd/conn_rx.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/peer.h"
#include "lnd/o2iblnd/status.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {

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
    serving_free(serving);
    worker_.finish(tx, may_have_failed(conn.how));
    return conn_settle(worker_, conn);
  }
  TxState(tx).place(TxPlace::kBegun, &conn);
  ++conn.begun;
  serving.state = ServingState::kWriting;
  serving.since = worker_.now;
  transfer_begin(conn, serving.transfer, tx);
  worker_.mark_dirty(conn);
  conn_watch(worker_, conn);
}

void IbLnd::resume(RxSlot& slot, Instant now) {
  worker_.now = now;
  in_resume(worker_, static_cast<In&>(slot));
}

void IbLnd::release(RxSlot& slot, Instant now) {
  worker_.now = now;
  in_release(worker_, static_cast<In&>(slot));
}

void IbLnd::divert(RxSlot& slot, Instant now) {
  worker_.now = now;
  in_divert(worker_, static_cast<In&>(slot));
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
      peer_settle(worker_, peer);  // first: the completion may end the peer, or submit to it
      return worker_.finish(tx, unsent);
    }
    case TxPlace::kQueued: state.conn()->queue.remove(tx); return worker_.finish(tx, unsent);
    case TxPlace::kBegun:
      if (!force) return;
      // Other messages that the peer has not answered end with the same status, and expired ones as late (conn_end.cc).
      return conn_end(worker_, *state.conn(), {expired ? -ETIMEDOUT : -EHOSTUNREACH, LndStatus::kRemoteDropped});
  }
}

Instant IbLnd::moved(NiId ni, PeerNiId peer_ni, Instant now) {
  Peer* peer = peer_find(worker_, ni, peer_ni);
  if (peer == nullptr || peer->conns.empty()) return kNever;
  bool waits = false;
  Instant moved = kNever;
  for (Conn* conn = peer->conns.front(); conn != nullptr; conn = peer->conns.after(*conn)) {
    waits |= conn->outs_used > 0 || conn->begun > 0;  // also while a PUT_REQ or GET_REQ has no answer
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
  conn.worker = &worker_;
  worker_.rc.adopt(*conn.qp, conn);
  // A device may have given more buffers than the depth can use.
  const uint32_t receives = std::min<uint32_t>(conn.qp->receives, receive_buffers_of(conn.depth_max));
  for (uint32_t i = 0; i < receives; ++i) worker_.rc.receive(*conn.qp, i);
  worker_.core.to_control(conn.told, ConnAdoptedMsg{&conn});
}

void IbLnd::up(Conn& conn, const ConnFacts& facts) {
  if (conn.phase != ConnPhase::kNew) return peer_ask_again(worker_, conn);
  conn.facts = facts;
  conn.credits = Credits(facts.depth, facts.high_water);
  conn.last_sent = conn.progress = worker_.now;
  if (!peer_join(worker_, conn)) return conn_end(worker_, conn, {-ENOBUFS, LndStatus::kLocalError});
  worker_.mark_dirty(conn);
  conn_rx_begin(worker_, conn);
  conn_watch_silence(worker_, conn);
}

void IbLnd::tune(const TuneMsg& msg) {
  worker_.config.keepalive = msg.keepalive;
  for (uint32_t i = 0; i < worker_.config.peer_buckets; ++i)
    for (Peer* peer = worker_.buckets[i].front(); peer != nullptr; peer = worker_.buckets[i].after(*peer))
      for (Conn* conn = peer->conns.front(); conn != nullptr; conn = peer->conns.after(*conn))
        conn_watch_silence(worker_, *conn);
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
    case ToWorker::kConnTune: {
      Conn& conn = *msg.as<ConnTuneMsg>().conn;
      conn.timeout = msg.as<ConnTuneMsg>().timeout;
      conn_watch(worker_, conn);
      return conn_watch_silence(worker_, conn);
    }
    case ToWorker::kConnClose: {
      const auto close = msg.as<ConnCloseMsg>();
      close.conn->let_go = true;
      conn_end(worker_, *close.conn, close.how);
      return conn_settle(worker_, *close.conn);
    }
    case ToWorker::kPeerFail: {
      const auto fail = msg.as<PeerFailMsg>();
      if (Peer* peer = peer_find(worker_, fail.ni, fail.peer_ni)) peer_fail(worker_, *peer, fail.how);
      return;
    }
    case ToWorker::kNiFlush: return ni_flush(msg.as<NiFlushMsg>());
    case ToWorker::kTune: return tune(msg.as<TuneMsg>());
  }
}

}  // namespace ulnet::o2iblnd
