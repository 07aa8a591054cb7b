// Connection sets. The hard part is set_close: completions call back into the core, which may submit to this very set.
// So connections leave the set first (a new message then waits), and lists are emptied one by one.
#include "lnd/socklnd/conn_set.h"

#include <algorithm>

#include "lnd/socklnd/conn_rx.h"
#include "lnd/socklnd/conn_tx.h"
#include "lnd/socklnd/status.h"
#include "lnd/socklnd/timers.h"

namespace ulnet::socklnd {
namespace {

bool orphan_of(const Tx& tx, NiId ni, PeerNiId peer_ni) {
  return tx.ni == ni && tx.peer_ni == peer_ni;
}

// Upstream's sender never uses an untyped connection of version 3, so that typed_conns = 0 leaves it without any
// (docs/wire/socklnd.md §3.1). The receiver takes any message on any connection.
Fit fit_of(const SockWorker& worker, const Conn& conn, const TxShape& shape) {
  if (conn.type == ConnType::kAny && !worker.config.typed_conns) return Fit::kMay;
  return conn_fit(conn.type, conn.version, shape, worker.config.min_bulk);
}

void ask(SockWorker& worker, ConnSet& set) {
  if (set.asked) return;
  set.asked = true;
  worker.core.to_control(set.wanted, ConnsWantedMsg{set.id});
}

/// Asks control for the set of this message; false when too many such requests wait.
bool set_request(SockWorker& worker, const Tx& tx) {
  return worker.core.ask_control(SetNeededMsg{tx.ni, tx.peer_ni, tx.next_hop});
}

/// Takes one connection out of service. Its messages are completed by the caller.
void retire_conn(SockWorker& worker, Conn& conn, int error, Closing how) {
  ConnSet& set = *conn.set;
  conn.phase = ConnPhase::kClosing;
  conn.error = error;
  set.conns.remove(conn);
  set.dying.push_back(conn);
  worker.conn_wheel.disarm(conn);
  if (static_cast<Linked<DirtyTag>&>(conn).linked()) worker.dirty.remove(conn);
  if (static_cast<Linked<ReadyTag>&>(conn).linked()) worker.ready.remove(conn);
  worker.core.to_control(conn.closed, ConnClosedMsg{set.id, &conn, error});
  // Bytes that were sent before an orderly end have the time that the transport gives them.
  if (conn.tx.resends_soon) worker.engine.resend_within(conn.stream, Duration{0}, Duration{0});
  // Messages whose memory is lent end now, and then it may change: no byte of it must go out.
  conn.reset = how == Closing::kAbort || conn_tx_lends(conn);
  worker.engine.close(conn.stream, conn.reset);
}

}  // namespace

Instant waiting_expires(const Tx& tx, Instant now, Duration timeout) {
  return std::min(tx.deadline, now + timeout);
}

Conn* set_choose(const SockWorker& worker, ConnSet& set, const TxShape& shape) {
  Conn* best = nullptr;
  Fit best_fit = Fit::kNo;
  for (Conn* conn = set.conns.front(); conn != nullptr; conn = set.conns.after(*conn)) {
    if (shape.noop && conn->version == kVersion1) continue;
    const Fit fit = fit_of(worker, *conn, shape);
    if (fit == Fit::kNo || fit < best_fit) continue;
    const bool better = best == nullptr || fit > best_fit || conn->tx.queued_bytes < best->tx.queued_bytes ||
                        (conn->tx.queued_bytes == best->tx.queued_bytes && conn->tx.last_used < best->tx.last_used);
    if (!better) continue;
    best = conn;
    best_fit = fit;
  }
  return best;
}

void set_submit(SockWorker& worker, ConnSet& set, Tx& tx) {
  set.used_ns.set(worker.now.time_since_epoch().count());
  if (Conn* conn = set_choose(worker, set, {false, false, tx.payload.length})) return conn_tx_queue(worker, *conn, tx);
  worker.core.tx_waits(tx, worker.now);
  TxState state(tx);
  state.place(TxPlace::kWaiting, &set);
  state.expires(waiting_expires(tx, worker.now, set.timeout));
  set.waiting.push_back(tx);
  set_watch(worker, set);
  ask(worker, set);
}

void set_queue_ack(SockWorker& worker, Conn& from, uint64_t cookie) {
  if (from.phase != ConnPhase::kUp) return;
  ConnSet& set = *from.set;
  Conn* conn = set_choose(worker, set, {true, true, 0});
  // Without a connection of that kind the one that the data came on does it as well (docs/wire/socklnd.md §3.3, 4).
  if (!conn_tx_ack(worker, conn == nullptr ? from : *conn, cookie)) set_close(worker, set, -ENOBUFS, Closing::kAbort);
}

bool set_acked(SockWorker& worker, ConnSet& set, const ZcAck& ack) {
  const auto take = [&](uint64_t cookie) {
    Tx* tx = set.zc_book.take(cookie);
    if (tx == nullptr) return;  // a completion on the way here closed the set
    TxState state(*tx);
    state.acknowledge();
    if (state.place() != TxPlace::kZcWait) return;  // its last bytes are not reported sent yet: done then
    set.zc_wait.remove(*tx);
    worker.finish(*tx, {});
  };
  switch (ack.kind) {
    case ZcAck::Kind::kNothing:
    case ZcAck::Kind::kKeepalive: return true;
    case ZcAck::Kind::kInvalid: return false;
    case ZcAck::Kind::kPair:
      if (!set.zc_book.covers(ack.first, ack.first) || !set.zc_book.covers(ack.last, ack.last)) return false;
      take(ack.first);
      take(ack.last);
      return true;
    case ZcAck::Kind::kRange:
      if (!set.zc_book.covers(ack.first, ack.last)) return false;
      for (uint64_t i = 0; i <= ack.last - ack.first; ++i) take(ack.first + i);
      return true;
  }
  return false;
}

void set_close(SockWorker& worker, ConnSet& set, int error, Closing how) {
  const uint32_t count = set.conns.size();
  if (count == 0) return;
  for (Conn* conn = set.conns.front(); conn != nullptr; conn = set.conns.front())
    retire_conn(worker, *conn, error, how);
  set.zc_book.clear();
  const Completion failure = unacknowledged_failure(error == 0 ? -ECONNRESET : error);
  while (Tx* tx = set.zc_wait.pop_front()) worker.finish(*tx, failure);
  // Completions may release other dying connections (a held slot that is resumed), hence from the front each time.
  for (bool again = true; again;) {
    again = false;
    for (Conn* conn = set.dying.front(); conn != nullptr && !again; conn = set.dying.after(*conn)) {
      if (conn->ended) continue;
      again = conn->ended = true;
      conn_tx_close(worker, *conn);
      conn_rx_close(worker, *conn);
      break;
    }
  }
  set_watch(worker, set);
}

void set_fail_waiting(SockWorker& worker, ConnSet& set, Completion how) {
  set.asked = false;
  for (uint32_t left = set.waiting.size(); left > 0 && !set.waiting.empty(); --left)
    worker.finish(*set.waiting.pop_front(), how);
  if (!set.waiting.empty()) ask(worker, set);
}

void set_add_conn(SockWorker& worker, Conn& conn, StreamSource source) {
  ConnSet& set = *conn.set;
  ++worker.conn_count;
  set.asked = false;
  const Result<StreamId> stream = worker.engine.attach(source, &conn);
  if (!stream) {
    conn.phase = ConnPhase::kClosed;
    --worker.conn_count;
    worker.core.to_control(conn.closed, ConnClosedMsg{set.id, &conn, stream.error().code});
    worker.core.to_control(conn.dead, ConnDeadMsg{set.id, &conn, source});
    if (!set.waiting.empty()) ask(worker, set);
    return;
  }
  conn.phase = ConnPhase::kUp;
  conn.stream = *stream;
  set.conns.push_back(conn);
  conn_rx_start(worker, conn);
  set_watch(worker, set);
  for (uint32_t left = set.waiting.size(); left > 0 && !set.waiting.empty(); --left) {
    Tx& tx = *set.waiting.pop_front();
    worker.core.tx_connected(tx, worker.now);
    set_submit(worker, set, tx);
  }
}

void conn_release(SockWorker& worker, Conn& conn) {
  if (conn.phase != ConnPhase::kClosed || conn.rx.receiving || conn.tx.sending) return;
  if (conn.rx.state == RxState::kHeld || !conn.rx.taken.empty()) return;  // resume() or release() comes
  conn_tx_close(worker, conn);
  conn_rx_close(worker, conn);
  conn.set->dying.remove(conn);
  --worker.conn_count;
  worker.core.to_control(conn.dead, ConnDeadMsg{conn.set->id, &conn, std::nullopt});
}

void orphan_add(SockWorker& worker, Tx& tx) {
  auto& chain = worker.orphans_of(tx.ni, tx.peer_ni);
  bool known = false;
  for (Tx* other = chain.front(); other != nullptr && !known; other = chain.after(*other), ++worker.orphan_visits)
    known = orphan_of(*other, tx.ni, tx.peer_ni);
  if (!known && !set_request(worker, tx)) return worker.finish(tx, {-ENOBUFS, LndStatus::kLocalError});
  worker.core.tx_waits(tx, worker.now);
  TxState state(tx);
  state.place(TxPlace::kOrphan, nullptr);
  state.expires(waiting_expires(tx, worker.now, worker.config.sock_timeout));
  worker.orphans_due = std::min(worker.orphans_due, state.expires());
  chain.push_back(tx);
}

void orphans_adopt(SockWorker& worker, ConnSet& set) {
  auto& chain = worker.orphans_of(set.ni, set.peer_ni);
  for (Tx* tx = chain.front(); tx != nullptr; ++worker.orphan_visits) {
    Tx* after = chain.after(*tx);
    if (orphan_of(*tx, set.ni, set.peer_ni)) {
      chain.remove(*tx);
      set_submit(worker, set, *tx);  // only queues: no completion, so `after` stays
    }
    tx = after;
  }
}

namespace {
void chain_fail(SockWorker& worker, List<Tx, TxTag>& chain, NiId ni, PeerNiId peer_ni, Completion how) {
  // Completions may submit again: the newcomers, at the end, are not for this round.
  for (uint32_t left = chain.size(); left > 0 && !chain.empty(); --left) {
    Tx& tx = *chain.pop_front();
    if (tx.ni == ni && (peer_ni.value == 0 || tx.peer_ni == peer_ni)) {
      worker.finish(tx, how);
    } else {
      chain.push_back(tx);
    }
  }
}
}  // namespace

void orphans_fail(SockWorker& worker, NiId ni, PeerNiId peer_ni, Completion how) {
  if (peer_ni.value != 0) return chain_fail(worker, worker.orphans_of(ni, peer_ni), ni, peer_ni, how);
  for (uint32_t i = 0; i < worker.config.set_buckets; ++i) chain_fail(worker, worker.orphans[i], ni, peer_ni, how);
}

}  // namespace ulnet::socklnd
