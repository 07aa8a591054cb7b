#include "lnd/socklnd/timers.h"

#include <algorithm>

#include "dataplane/base/limits.h"
#include "lnd/socklnd/conn_rx.h"
#include "lnd/socklnd/conn_set.h"
#include "lnd/socklnd/conn_tx.h"
#include "lnd/socklnd/status.h"

namespace ulnet::socklnd {
namespace {

constexpr Duration kOrphansLook = 10ms;  ///< least time between two looks at all messages that wait for a set
constexpr Duration kResendStalled = 1s, kResendWithin = 2s, kResendLook = 400ms;
constexpr Duration kProbeGapMin = 500ms, kProbeSilence = 3s;
constexpr Completion kWaitedTooLong{-ETIMEDOUT, LndStatus::kNetworkTimeout};

/// Without progress for kResendStalled, the transport tries at least once in kResendWithin. So it soon notices when the
/// way to the peer is back. Each look moves its limit on: only if a worker is late by more than 1.5 s, it loses the
/// connection.
bool resend_soon(SockWorker& worker, Conn& conn, bool sending) {
  const ConnTx& tx = conn.tx;
  const bool late = sending && worker.now - tx.progress_at >= kResendStalled;
  if (late || tx.resends_soon)
    worker.engine.resend_within(conn.stream, worker.now - tx.stalled_since, late ? kResendWithin : Duration{0});
  conn.tx.resends_soon = late;
  return late;
}

void conn_fire(SockWorker& worker, Conn& conn) {
  ConnSet& set = *conn.set;
  const bool receiving = conn_rx_in_progress(conn);
  const bool sending = conn_tx_progress(worker, conn);
  conn_tx_losses(worker, conn);
  const bool rx_late = receiving && worker.now - conn.rx.last_byte >= set.timeout;
  const bool tx_late = sending && worker.now - conn.tx.progress_at >= set.timeout;
  if (rx_late || tx_late) return set_close(worker, set, -ETIMEDOUT, Closing::kOrderly);
  if (conn.rx.piping && worker.now - conn.rx.last_byte >= check_period(set) / 2) worker.engine.receive_any(conn.stream);
  Duration next = check_period(set);
  if (resend_soon(worker, conn, sending)) next = std::min(next, kResendLook);
  if (receiving || sending) worker.conn_wheel.arm(conn, worker.now + next);
}

void waiting_expire(SockWorker& worker, ConnSet& set) {
  for (uint32_t left = set.waiting.size(); left > 0 && !set.waiting.empty(); --left) {
    Tx& tx = *set.waiting.pop_front();
    if (TxState(tx).expires() <= worker.now) {
      worker.finish(tx, kWaitedTooLong);
    } else {
      set.waiting.push_back(tx);
    }
  }
}

/// When the set's next keepalive is due; kForever where there is none to send.
Instant keepalive_due(const SockWorker& worker, ConnSet& set) {
  const Conn* first = set.conns.front();
  if (first == nullptr || first->version < kVersion3 || worker.config.keepalive <= Duration{0}) return kForever;
  Instant due = set.last_received + worker.config.keepalive;
  if (set.last_keepalive != kNever) due = std::max(due, set.last_keepalive + kKeepaliveGapMin);
  return due;
}

void keepalive_send(SockWorker& worker, ConnSet& set) {
  set.last_keepalive = worker.now;
  Conn* conn = set_choose(worker, set, {true, true, 0});
  if (conn == nullptr || conn->tx.queued_bytes > 0) return;
  (void)conn_tx_noop(worker, *conn, keepalive_noop());  // if the queue is full, other traffic shows that we live
}

void set_fire(SockWorker& worker, ConnSet& set) {
  waiting_expire(worker, set);
  Tx* oldest = set.zc_wait.front();
  if (oldest != nullptr && TxState(*oldest).expires() <= worker.now)
    set_close(worker, set, -ETIMEDOUT, Closing::kOrderly);
  if (keepalive_due(worker, set) <= worker.now) keepalive_send(worker, set);
  Instant next = keepalive_due(worker, set);
  if (!set.waiting.empty() || !set.zc_wait.empty()) next = std::min(next, worker.now + check_period(set));
  worker.set_wheel.arm(set, next);
}

// Each scan covers all orphans, so the next scan is at least kOrphansLook later, however close together they expire.
unsigned orphans_expire(SockWorker& worker) {
  if (worker.orphans_due > worker.now) return 0;
  unsigned expired = 0;
  Instant next = kForever;
  worker.orphans_due = kForever;  // completions may add some
  for (uint32_t i = 0; i < worker.config.set_buckets; ++i) {
    auto& chain = worker.orphans[i];
    for (uint32_t left = chain.size(); left > 0 && !chain.empty(); --left) {
      Tx& tx = *chain.pop_front();
      if (TxState(tx).expires() <= worker.now) {
        worker.finish(tx, kWaitedTooLong);
        ++expired;
      } else {
        chain.push_back(tx);
        next = std::min(next, TxState(tx).expires());
      }
    }
  }
  if (next != kForever) worker.orphans_due = std::min(worker.orphans_due, std::max(next, worker.now + kOrphansLook));
  return expired;
}

}  // namespace

Duration check_period(const ConnSet& set) {
  return std::clamp<Duration>(set.timeout / 8, 10ms, 1s);
}

void conn_watch(SockWorker& worker, Conn& conn) {
  if (!conn.armed()) worker.conn_wheel.arm(conn, worker.now + check_period(*conn.set));
}

void set_watch(SockWorker& worker, ConnSet& set) {
  Instant at = keepalive_due(worker, set);
  if (!set.waiting.empty() || !set.zc_wait.empty()) at = std::min(at, worker.now + check_period(set));
  if (!set.armed() || at < set.deadline) worker.set_wheel.arm(set, at);
}

// If the peer has lost a connection, its machine answers with RST. Bytes on their way would lead to the same.
void set_probe(SockWorker& worker, ConnSet& set) {
  if (worker.now - set.last_received < kProbeSilence) return;
  if (set.last_probe != kNever && worker.now - set.last_probe < kProbeGapMin) return;
  set.last_probe = worker.now;
  for (Conn* conn = set.conns.front(); conn != nullptr; conn = set.conns.after(*conn))
    if (conn->version >= kVersion3 && conn->tx.queued_bytes == 0) (void)conn_tx_noop(worker, *conn, keepalive_noop());
}

unsigned timers_run(SockWorker& worker) {
  unsigned fired = worker.conn_wheel.advance(worker.now, kTimerBudget, [&](Conn& conn) { conn_fire(worker, conn); });
  fired += worker.set_wheel.advance(worker.now, kTimerBudget, [&](ConnSet& set) { set_fire(worker, set); });
  return fired + orphans_expire(worker);
}

Instant timers_next(SockWorker& worker) {
  return std::min({worker.conn_wheel.next_deadline(), worker.set_wheel.next_deadline(), worker.orphans_due});
}

}  // namespace ulnet::socklnd
