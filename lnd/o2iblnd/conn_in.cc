// The hard part: each call into the core may come back in, and may end this very connection. So the phase is looked at
// again after each. A receive buffer goes back to the queue pair once, and a credit to the peer once. No memory goes
// back to the core while the peer may write there.
#include "lnd/o2iblnd/conn_in.h"

#include <algorithm>

#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_rx.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/status.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {
namespace {

// --- Staging memory --------------------------------------------------------------------------------------------------

/// No key covers the window: the peer is to write into a block of staging memory. False: there is none.
bool stage(IbWorker& worker, In& in) {
  std::byte* block = worker.staging.take_in();
  if (block == nullptr) return false;
  in.staged = {block, in.into.length, kStagingRegion};
  return true;
}

// --- The end of a message --------------------------------------------------------------------------------------------

/// The slot is free, and with it what it kept.
void in_free(IbWorker& worker, In& in) {
  Conn& conn = *in.conn;
  const bool woke = in.staged.base != nullptr || in.state == InState::kOffering;
  if (in.staged.base != nullptr) worker.staging.give(std::exchange(in.staged.base, nullptr));
  in.state = InState::kFree;
  in.diverted = false;
  ++in.generation;
  --conn.ins_used;
  conn.free_ins.push_back(in);
  if (const int32_t buffer = std::exchange(in.buffer, -1); buffer >= 0) buffer_back(worker, conn, uint32_t(buffer));
  if (woke) staging_wake(worker);
}

enum class Credit : uint8_t {
  kKept,  ///< comes back with another message, or the connection has ended
  kBack,
  kRefused  ///< that of a PUT_REQ that was answered with PUT_NAK
};
void in_end(IbWorker& worker, In& in, Completion how, Credit credit) {
  Conn& conn = *in.conn;
  const MessageType type = in.type;
  if (KeptPayload* kept = std::exchange(in.key.kept, nullptr)) {
    if (how.error == 0)
      in.kept = kept;
    else
      kept->give_back();
  }
  worker.core.rx_done(in, how, worker.now);
  in_free(worker, in);
  if (credit != Credit::kKept) credit_back(worker, conn, type, credit == Credit::kRefused);
  conn_settle(worker, conn);
}

void refuse(IbWorker& worker, In& in, MessageType answer, int32_t status, Completion how = {}) {
  Conn& conn = *in.conn;
  if (conn.is_up() && !conn_answer(worker, conn, {.type = answer, .cookie = in.peer_cookie, .status = status}))
    protocol_error(worker, conn, PeerFault::kCredits);
  in_end(worker, in, how, answer == MessageType::kPutNak ? Credit::kRefused : Credit::kBack);
}

// --- Verdicts --------------------------------------------------------------------------------------------------------

void receive_immediate(IbWorker& worker, In& in) {
  PayloadCursor to(in.into), from(in.arrived);
  payload_copy(to, from, in.into.length);
  in_end(worker, in, {}, Credit::kBack);
}

/// False: there is no room for a key yet.
bool offer(IbWorker& worker, In& in) {
  Conn& conn = *in.conn;
  if (worker.rc.room(*conn.qp) < kRoomOfKey) return false;
  in.key.token = key_token(conn, in);
  in.key.may_keep = in.may_keep && in.staged.base == nullptr;
  switch (worker.rc.key_open(*conn.qp, in.key, sink_of(in))) {
    case rc::Posted::kNoRoom: return false;
    case rc::Posted::kImpossible:
      if (in.staged.base == nullptr && !worker.staging.empty()) {
        if (stage(worker, in)) return offer(worker, in);
        worker.staging_wanted.push_back(in);
        return true;
      }
      refuse(worker, in, MessageType::kPutNak, -EFAULT, {-EFAULT, LndStatus::kLocalError});
      return true;
    case rc::Posted::kYes: break;
  }
  in.state = InState::kAnswering;
  if (!conn_answer(worker, conn, {.type = MessageType::kPutAck, .cookie = in.peer_cookie, .in = &in}))
    protocol_error(worker, conn, PeerFault::kCredits);
  return true;
}

void accept_put(IbWorker& worker, In& in) {
  Conn& conn = *in.conn;
  if (!conn.is_up()) return in_end(worker, in, receive_failure(conn.how), Credit::kKept);
  if (in.into.length == 0) return refuse(worker, in, MessageType::kPutNak, 0);
  in.state = InState::kOffering;
  in.since = worker.now;
  conn_watch(worker, conn);
  conn.offering.push_back(in);
  worker.mark_dirty(conn);
}

void serve_get(IbWorker& worker, In& in) {
  in_end(worker, in, in.conn->is_up() ? Completion{} : receive_failure(in.conn->how), Credit::kBack);
}

void refuse_get(IbWorker& worker, In& in) {
  serving_free(*reinterpret_cast<Serving*>(in.token));
  refuse(worker, in, MessageType::kGetDone, in.refused);
}

void go_on(IbWorker& worker, In& in, RxVerdict verdict) {
  Conn& conn = *in.conn;
  switch (verdict) {
    case RxVerdict::kReceive:
      if (in.type == MessageType::kImmediate) return receive_immediate(worker, in);
      return in.type == MessageType::kPutReq ? accept_put(worker, in) : serve_get(worker, in);
    case RxVerdict::kHold: in.state = InState::kHeld; return;
    case RxVerdict::kTaken: in.state = InState::kTaken; return;
    case RxVerdict::kRefused: return refuse_get(worker, in);
    case RxVerdict::kProtocolError:
      if (in.token != 0) serving_free(*reinterpret_cast<Serving*>(in.token));
      in_free(worker, in);
      protocol_error(worker, conn, PeerFault::kRefused);
      return conn_settle(worker, conn);
  }
}

constexpr Completion kDiverted{-ECANCELED, LndStatus::kOk};

/// Of a PUT whose PUT_DONE has come, and that nobody writes any more.
Completion put_result(In& in) {
  if (in.diverted) return kDiverted;
  if (in.status < 0) return {in.status, LndStatus::kRemoteError};
  if (in.staged.base != nullptr) {
    PayloadCursor to(in.into), from({&in.staged, 1, 0, in.staged.bytes});
    payload_copy(to, from, uint32_t(in.status));
  }
  return uint32_t(in.status) < in.into.length ? Completion{-EIO, LndStatus::kRemoteError} : Completion{};
}

}  // namespace

void in_came(IbWorker& worker, Conn& conn, const Message& message, uint32_t buffer) {
  In* in = conn.ins_used < conn.facts.depth ? conn.free_ins.front() : nullptr;
  const bool get = message.type == MessageType::kGetReq;
  Serving* serving = get ? conn.free_servings.front() : nullptr;
  if (in == nullptr || (get && serving == nullptr)) return protocol_error(worker, conn, PeerFault::kCredits);
  conn.free_ins.remove(*in);
  ++conn.ins_used;
  in->begin(message.header, conn.ni, conn.ni_slice, conn.peer_ni, conn.peer_slice, conn.nid);
  in->type = message.type;
  in->peer_cookie = message.cookie;
  in->rdma_request = message.type != MessageType::kImmediate;
  in->movable = message.type == MessageType::kImmediate;
  if (serving != nullptr) {
    conn.free_servings.remove(*serving);
    ++conn.servings_used;
    serving->state = ServingState::kOwed;
    transfer_sink(serving->transfer, message.cookie, message.sink);
    in->token = reinterpret_cast<uintptr_t>(serving);
  }
  if (in->movable) {
    in->buffer = int32_t(buffer);
    in->arrived_whole(conn.qp->receive_buffer(buffer).data() + kImmediatePrefix, uint32_t(message.payload.size()));
  }
  in->state = InState::kOpening;
  if (!in->movable) buffer_back(worker, conn, buffer);  // nothing of the message is needed any more
  go_on(worker, *in, worker.core.rx_header(*in, worker.now));
}

void in_written(IbWorker& worker, Conn& conn, In& in, int32_t status) {
  if (status > int32_t(in.into.length)) return protocol_error(worker, conn, PeerFault::kSink);
  in.status = std::max(status, -kErrnoMax);
  conn.gauges.bytes_received.add(std::max(status, 0));
  in.since = worker.now;
  in.state = InState::kClosing;
  if (!close_key(worker, conn, in.key)) conn.ins_closing.push_back(in);
}

// The credit of the pair of PUT_REQ and PUT_DONE comes back here: then the next message finds a free place.
void in_key_closed(IbWorker& worker, In& in) {
  credit_back(worker, *in.conn, MessageType::kPutDone);
  in_end(worker, in, put_result(in), Credit::kKept);
}

void in_step(IbWorker& worker, Conn& conn) {
  while (In* in = conn.ins_closing.front()) {
    if (!close_key(worker, conn, in->key)) return;
    conn.ins_closing.remove(*in);
  }
  while (In* in = conn.is_up() ? conn.offering.front() : nullptr) {
    conn.offering.remove(*in);
    if (offer(worker, *in)) continue;
    conn.offering.push_front(*in);
    return;
  }
}

void in_resume(IbWorker& worker, In& in) {
  ULNET_CHECK(in.state == InState::kHeld);
  go_on(worker, in, in.verdict);
}

void in_release(IbWorker& worker, In& in) {
  ULNET_CHECK(in.state == InState::kTaken);
  Conn& conn = *in.conn;
  in_free(worker, in);
  credit_back(worker, conn, MessageType::kImmediate);
  conn_settle(worker, conn);
}

// Once its key is open, the peer may write: only the end of the connection takes that right back. If the connection has
// ended, or the key is being closed, the event comes soon. Before the verdict the driver has no memory of the core. The
// PUT does not move, so that its peer NI is at fault: copies of what else the peer may have take another path.
void in_divert(IbWorker& worker, In& in) {
  switch (in.state) {
    case InState::kOffering:
      in.diverted = true;
      if (!in.conn->is_up()) return;
      if (static_cast<Linked<StagingTag>&>(in).linked())
        worker.staging_wanted.remove(in);
      else
        in.conn->offering.remove(in);
      return refuse(worker, in, MessageType::kPutNak, -ECANCELED, kDiverted);
    case InState::kAnswering:
    case InState::kOffered:
      in.diverted = true;
      return conn_end(worker, *in.conn, {-ECONNABORTED, LndStatus::kRemoteDropped});
    case InState::kClosing: in.diverted = true; return;
    case InState::kFree:
    case InState::kOpening:
    case InState::kHeld:
    case InState::kTaken: return;
  }
}

void ins_end(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.depth_max; ++i) {
    In& in = conn.ins[i];
    if (static_cast<Linked<StagingTag>&>(in).linked()) worker.staging_wanted.remove(in);
    const Completion torn = in.diverted ? kDiverted : receive_failure(conn.how);
    switch (in.state) {
      case InState::kOffering:
        if (static_cast<Linked<StepTag>&>(in).linked()) conn.offering.remove(in);
        in_end(worker, in, torn, Credit::kKept);
        break;
      case InState::kAnswering:
      case InState::kOffered: in_end(worker, in, torn, Credit::kKept); break;
      case InState::kClosing:
        if (static_cast<Linked<StepTag>&>(in).linked()) conn.ins_closing.remove(in);
        in_end(worker, in, put_result(in), Credit::kKept);
        break;
      case InState::kFree:
      case InState::kOpening:
      case InState::kHeld:
      case InState::kTaken: break;
    }
  }
}

}  // namespace ulnet::o2iblnd
