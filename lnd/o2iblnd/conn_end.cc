#include "lnd/o2iblnd/conn_end.h"

#include <algorithm>

#include "lnd/o2iblnd/conn_in.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/peer.h"
#include "lnd/o2iblnd/status.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {
namespace {

constexpr Completion kLate{-ETIMEDOUT, LndStatus::kNetworkTimeout};

/// How a message ends if its connection has ended with `how`. After its own deadline, it is not sent again.
Completion ending_of(const IbWorker& worker, const Tx& tx, Completion how) {
  return tx.deadline <= worker.now ? kLate : how;
}

/// Requests of this side that have not ended.
void end_requests(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.depth_max; ++i) {
    Request& request = conn.requests[i];
    const RequestState state = request.state;
    if (state == RequestState::kFree) continue;
    if (static_cast<Linked<StepTag>&>(request.transfer).linked()) conn.transfers.remove(request.transfer);
    if (static_cast<Linked<StepTag>&>(request).linked()) conn.requests_closing.remove(request);
    const int32_t status = request.status;
    Tx& tx = request_free(conn, request);
    if (state == RequestState::kClosing) {  // the answer is in place, or the peer has refused
      --conn.begun;
      --worker.tx_count;
      worker.core.get_done(tx, uint32_t(std::max(status, 0)), std::min(status, 0), worker.now);
    } else {
      const bool get = tx.header.type == wire::MsgType::kGet;  // the peer may have served it
      tx_end(worker, conn, tx, ending_of(worker, tx, get ? may_have_failed(conn.how) : conn.how));
    }
  }
}

/// REPLYs of which GET_DONE was not posted.
void end_servings(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.depth_max; ++i) {
    Serving& serving = conn.serving[i];
    if (serving.state != ServingState::kWriting) continue;
    if (static_cast<Linked<StepTag>&>(serving.transfer).linked()) conn.transfers.remove(serving.transfer);
    serving_free(serving);
    Tx& tx = *serving.transfer.tx;
    tx_end(worker, conn, tx, ending_of(worker, tx, may_have_failed(conn.how)));
  }
}

/// Messages that were posted, and not reported.
void end_outs(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.qp->sends; ++i) {
    Out& out = conn.outs[i];
    if (!std::exchange(out.used, false)) continue;
    --conn.outs_used;
    if (Tx* tx = std::exchange(out.tx, nullptr))
      tx_end(worker, conn, *tx, ending_of(worker, *tx, may_have_failed(conn.how)));
  }
}

/// The earliest begin of anything that waits, but for the queue; kForever if nothing does.
Instant oldest(const Conn& conn) {
  Instant at = kForever;
  for (uint32_t i = 0; i < conn.qp->sends; ++i)
    if (conn.outs[i].used) at = std::min(at, conn.outs[i].since);
  for (uint32_t i = 0; i < conn.depth_max; ++i) {
    if (conn.requests[i].state != RequestState::kFree) at = std::min(at, conn.requests[i].since);
    if (conn.serving[i].state == ServingState::kWriting) at = std::min(at, conn.serving[i].since);
    if (conn.ins[i].state >= InState::kOffering) at = std::min(at, conn.ins[i].since);
  }
  return at;
}
static_assert(InState::kOffering < InState::kAnswering && InState::kAnswering < InState::kOffered &&
              InState::kOffered < InState::kClosing && InState::kTaken < InState::kOffering);

Instant queued_since(Conn& conn) {
  Tx* first = conn.queue.front();
  return first == nullptr ? kForever : TxState(*first).since();
}

/// Messages that have waited for a credit for too long. They end; the others take another connection.
bool expire_queue(IbWorker& worker, Conn& conn) {
  bool expired = false;
  for (; queued_since(conn) != kForever && queued_since(conn) + conn.timeout <= worker.now; expired = true)
    worker.finish(*conn.queue.pop_front(), kLate);
  return expired;
}

}  // namespace

void conn_end(IbWorker& worker, Conn& conn, Completion how) {
  if (conn.phase != ConnPhase::kNew && conn.phase != ConnPhase::kUp) return;
  const bool was_up = conn.is_up();
  conn.phase = ConnPhase::kBroken;
  conn.how = how;
  worker.conn_wheel.disarm(conn);
  if (static_cast<Linked<DirtyTag>&>(conn).linked()) worker.dirty.remove(conn);
  worker.core.to_control(conn.told, ConnEndedMsg{&conn, how});
  // A transfer that was woken for a block of staging memory leaves the block to another.
  for (uint32_t left = conn.transfers.size() + conn.offering.size(); left > 0; --left) staging_wake(worker);
  if (was_up) peer_leave(worker, conn);
}

void conn_drained(IbWorker& worker, Conn& conn) {
  ULNET_CHECK(conn.phase == ConnPhase::kBroken);
  end_outs(worker, conn);
  end_requests(worker, conn);
  end_servings(worker, conn);
  ins_end(worker, conn);
  conn.phase = ConnPhase::kDrained;
  conn_settle(worker, conn);
}

// A slot that the core holds lies in a receive buffer, so the queue pair stays as long.
void conn_settle(IbWorker& worker, Conn& conn) {
  if (conn.phase != ConnPhase::kDrained || !conn.let_go || conn.ins_used > 0 || conn.servings_used > 0) return;
  ULNET_CHECK(conn.begun == 0);
  --worker.conn_count;
  worker.rc.release(*conn.qp);
  worker.core.to_control(conn.dead, ConnDeadMsg{&conn});
}

void conn_watch(IbWorker& worker, Conn& conn) {
  const Instant due = worker.now + conn.timeout;
  const Timer& timer = conn;
  if (conn.is_up() && (!timer.armed() || timer.deadline > due)) worker.conn_wheel.arm(conn, due);
}

Duration keepalive_of(const IbWorker& worker, const Conn& conn) {
  return worker.config.keepalive > Duration{0} ? std::max(worker.config.keepalive, conn.timeout) : Duration{0};
}

void conn_watch_silence(IbWorker& worker, Conn& conn) {
  const Duration keepalive = keepalive_of(worker, conn);
  if (keepalive == Duration{0} || !conn.is_up()) return;
  const Instant due = std::max(conn.last_sent + keepalive, worker.now);
  const Timer& timer = conn;
  if (!timer.armed() || timer.deadline > due) worker.conn_wheel.arm(conn, due);
}

void conn_fire(IbWorker& worker, Conn& conn) {
  const Instant since = oldest(conn);
  const bool late = since != kForever && since + conn.timeout <= worker.now;
  if (expire_queue(worker, conn) || late) return conn_end(worker, conn, {-ETIMEDOUT, LndStatus::kRemoteDropped});
  if (!conn.is_up()) return;
  const Instant first = std::min(since, queued_since(conn));
  Instant next = first == kForever ? kForever : first + conn.timeout;
  if (const Duration keepalive = keepalive_of(worker, conn); keepalive > Duration{0}) {
    if (conn.last_sent + keepalive <= worker.now) conn_keepalive(worker, conn);
    const Instant due = conn.last_sent + keepalive;
    next = std::min(next, due > worker.now ? due : worker.now + keepalive);
  }
  worker.conn_wheel.arm(conn, next);
}

}  // namespace ulnet::o2iblnd
