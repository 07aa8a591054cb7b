#include "lnd/o2iblnd/conn_end.h"

#include <algorithm>

#include "lnd/o2iblnd/conn_rx.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/peer.h"
#include "lnd/o2iblnd/status.h"

namespace ulnet::o2iblnd {
namespace {

/// Requests of this side that have not ended.
void end_requests(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.facts.depth; ++i) {
    Request& request = conn.requests[i];
    const RequestState state = request.state;
    if (state == RequestState::kFree) continue;
    const int32_t status = request.status;
    Tx& tx = request_end(conn, request);
    const bool answered = state == RequestState::kClosing;  // the answer is in place, or the peer has refused
    const bool may_have = state == RequestState::kDone || tx.header.type == wire::MsgType::kGet;
    if (answered) {
      --worker.tx_count;
      worker.core.get_done(tx, uint32_t(std::max(status, 0)), std::min(status, 0), worker.now);
    } else {
      worker.finish(tx, may_have ? may_have_failed(conn.how) : conn.how);
    }
  }
}

/// REPLYs whose end was not reported.
void end_servings(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.facts.depth; ++i) {
    Serving& serving = conn.serving[i];
    if (serving.state != ServingState::kWriting && serving.state != ServingState::kDone) continue;
    serving.state = ServingState::kFree;
    --conn.begun;
    worker.finish(*std::exchange(serving.transfer.tx, nullptr), may_have_failed(conn.how));
  }
}

/// Messages that were posted, and not reported.
void end_outs(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.qp->sends; ++i) {
    Out& out = conn.outs[i];
    if (!std::exchange(out.used, false)) continue;
    --conn.outs_used;
    if (out.tx == nullptr) continue;
    --conn.begun;
    worker.finish(*out.tx, may_have_failed(conn.how));
  }
}

/// The earliest begin of anything that waits; kForever if nothing does.
Instant oldest(Conn& conn) {
  Instant at = kForever;
  if (Tx* first = conn.queue.front()) at = std::min(at, TxState(*first).since());
  for (uint32_t i = 0; i < conn.qp->sends; ++i)
    if (conn.outs[i].used) at = std::min(at, conn.outs[i].since);
  for (uint32_t i = 0; i < conn.facts.depth; ++i) {
    if (conn.requests[i].state != RequestState::kFree) at = std::min(at, conn.requests[i].since);
    const ServingState serving = conn.serving[i].state;
    if (serving == ServingState::kWriting || serving == ServingState::kDone) at = std::min(at, conn.serving[i].since);
    const InState in = conn.ins[i].state;
    if (in == InState::kOffered || in == InState::kClosing) at = std::min(at, conn.ins[i].since);
  }
  return at;
}

}  // namespace

void conn_end(IbWorker& worker, Conn& conn, Completion how) {
  if (conn.phase != ConnPhase::kNew && conn.phase != ConnPhase::kUp) return;
  const bool was_up = conn.is_up();
  conn.phase = ConnPhase::kBroken;
  conn.how = how;
  worker.conn_wheel.disarm(conn);
  if (static_cast<Linked<DirtyTag>&>(conn).linked()) worker.dirty.remove(conn);
  worker.core.to_control(conn.told, ConnEndedMsg{&conn});
  if (was_up) peer_leave(worker, conn);
}

void conn_drained(IbWorker& worker, Conn& conn) {
  ULNET_CHECK(conn.phase == ConnPhase::kBroken);
  worker.rc.release(*conn.qp);
  end_outs(worker, conn);
  end_requests(worker, conn);
  end_servings(worker, conn);
  conn_rx_end(worker, conn);
  conn.phase = ConnPhase::kDrained;
  conn_settle(worker, conn);
}

void conn_settle(IbWorker& worker, Conn& conn) {
  if (conn.phase != ConnPhase::kDrained || conn.ins_used > 0) return;
  for (uint32_t i = 0; i < conn.facts.depth; ++i)
    if (conn.serving[i].state != ServingState::kFree) return;  // its REPLY is to come from the core
  ULNET_CHECK(conn.begun == 0);
  --worker.conn_count;
  worker.core.to_control(conn.dead, ConnDeadMsg{&conn});
}

void conn_watch(IbWorker& worker, Conn& conn) {
  const Instant due = worker.now + conn.timeout;
  const Timer& timer = conn;
  if (conn.is_up() && (!timer.armed() || timer.deadline > due)) worker.conn_wheel.arm(conn, due);
}

void conn_fire(IbWorker& worker, Conn& conn) {
  const Instant since = oldest(conn);
  if (since != kForever && since + conn.timeout <= worker.now) {
    const Tx* first = conn.queue.front();
    const bool queued = first != nullptr && since == TxState(*conn.queue.front()).since();
    return conn_end(worker, conn, {-ETIMEDOUT, queued ? LndStatus::kNetworkTimeout : LndStatus::kRemoteDropped});
  }
  Instant next = since == kForever ? kForever : since + conn.timeout;
  if (worker.config.keepalive > Duration{0}) {
    if (conn.last_sent + worker.config.keepalive <= worker.now) conn_keepalive(worker, conn);
    const Instant due = conn.last_sent + worker.config.keepalive;
    next = std::min(next, due > worker.now ? due : worker.now + worker.config.keepalive);
  }
  worker.conn_wheel.arm(conn, next);
}

}  // namespace ulnet::o2iblnd
