// Messages in. The hard part: each call into the core may come back in, and may end this very connection. So the phase
// is looked at again after each. A receive buffer goes back to the queue pair once, and a credit to the peer once.
#include "lnd/o2iblnd/conn_rx.h"

#include <algorithm>

#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/status.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {
namespace {

void protocol_error(IbWorker& worker, Conn& conn, int error = -EPROTO) {
  conn_end(worker, conn, {error, LndStatus::kRemoteDropped});
}

/// The buffer is posted again.
void buffer_back(IbWorker& worker, Conn& conn, uint32_t buffer) {
  if (conn.is_up()) worker.rc.receive(*conn.qp, buffer);
}

/// The peer gets its credit back. `refused`: of a PUT_REQ that was refused.
void credit_back(IbWorker& worker, Conn& conn, MessageType type, bool refused = false) {
  if (!conn.is_up()) return;
  worker.mark_dirty(conn);
  if (!conn.credits.repost(type, refused)) protocol_error(worker, conn);
}

// --- Messages with an LNet header ------------------------------------------------------------------------------------

In* free_in(Conn& conn) {
  for (uint32_t i = 0; i < conn.facts.depth; ++i)
    if (conn.ins[i].state == InState::kFree) return &conn.ins[i];
  return nullptr;
}

/// A block of staging memory is free again.
void staging_back(IbWorker& worker, In& in) {
  if (in.staged.base == nullptr) return;
  worker.staging.give(std::exchange(in.staged.base, nullptr));
  In* next = worker.staging_wanted.pop_front();
  if (next == nullptr) return;
  next->conn->offering.push_back(*next);
  worker.mark_dirty(*next->conn);
}

/// The slot is free, and with it the receive buffer that it kept.
void in_free(IbWorker& worker, In& in) {
  Conn& conn = *in.conn;
  staging_back(worker, in);
  in.state = InState::kFree;
  ++in.generation;
  --conn.ins_used;
  const int32_t buffer = std::exchange(in.buffer, -1);
  if (buffer < 0) return;
  buffer_back(worker, conn, uint32_t(buffer));
}

/// Ends a message: `credit` says whether the peer's credit comes back with it.
void in_end(IbWorker& worker, In& in, Completion how, bool credit, bool refused = false) {
  Conn& conn = *in.conn;
  const MessageType type = in.type;
  worker.core.rx_done(in, how, worker.now);
  in_free(worker, in);
  if (credit) credit_back(worker, conn, type, refused);
  conn_settle(worker, conn);
}

void receive_immediate(IbWorker& worker, In& in) {
  PayloadCursor to(in.into), from(in.arrived);
  payload_copy(to, from, in.into.length);
  in_end(worker, in, {}, true);
}

void refuse(IbWorker& worker, In& in, MessageType answer, int32_t status, Completion how = {}) {
  Conn& conn = *in.conn;
  const bool up = conn.is_up();
  if (up && !conn_answer(worker, conn, {.type = answer, .cookie = in.peer_cookie, .status = status}))
    protocol_error(worker, conn);
  in_end(worker, in, how, true, answer == MessageType::kPutNak);
}

/// No key covers the window: the peer is to write into a block of staging memory. False: there is none.
bool stage(IbWorker& worker, In& in) {
  std::byte* block = worker.staging.take();
  if (block == nullptr) return false;
  in.staged = {block, in.into.length, kStagingRegion};
  return true;
}

/// False: there is no room for a key yet.
bool offer(IbWorker& worker, In& in) {
  Conn& conn = *in.conn;
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
  in.state = InState::kOffered;
  in.since = worker.now;
  if (!conn_answer(worker, conn, {.type = MessageType::kPutAck, .cookie = in.peer_cookie, .in = &in}))
    protocol_error(worker, conn);
  conn_watch(worker, conn);
  return true;
}

void accept_put(IbWorker& worker, In& in) {
  Conn& conn = *in.conn;
  if (!conn.is_up()) return in_end(worker, in, receive_failure(conn.how), false);
  if (in.into.length == 0) return refuse(worker, in, MessageType::kPutNak, 0);
  in.state = InState::kOffering;
  if (conn.offering.empty() && offer(worker, in)) return;
  conn.offering.push_back(in);
}

void serve_get(IbWorker& worker, In& in) {
  Conn& conn = *in.conn;
  auto* serving = reinterpret_cast<Serving*>(in.token);
  serving->state = ServingState::kOwed;
  serving->since = worker.now;
  in_end(worker, in, conn.is_up() ? Completion{} : receive_failure(conn.how), true);
}

void refuse_get(IbWorker& worker, In& in) {
  auto* serving = reinterpret_cast<Serving*>(in.token);
  serving->state = ServingState::kFree;
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
      if (in.token != 0) reinterpret_cast<Serving*>(in.token)->state = ServingState::kFree;
      in_free(worker, in);
      protocol_error(worker, conn);
      return conn_settle(worker, conn);
  }
}

Serving* free_serving(Conn& conn) {
  for (uint32_t i = 0; i < conn.facts.depth; ++i)
    if (conn.serving[i].state == ServingState::kFree) return &conn.serving[i];
  return nullptr;
}

void request_came(IbWorker& worker, Conn& conn, const Message& message, uint32_t buffer) {
  In* in = free_in(conn);
  if (in == nullptr) return protocol_error(worker, conn);  // more than it had credits for
  in->conn = &conn;
  in->begin(message.header, conn.ni, conn.ni_slice, conn.peer_ni, conn.peer_slice, conn.nid);
  in->type = message.type;
  in->peer_cookie = message.cookie;
  in->rdma_request = message.type != MessageType::kImmediate;
  in->movable = message.type == MessageType::kImmediate;
  if (message.type == MessageType::kGetReq) {
    Serving* serving = free_serving(conn);
    if (serving == nullptr) return protocol_error(worker, conn);
    serving->conn = &conn;
    transfer_sink(serving->transfer, MessageType::kGetDone, message.cookie, message.sink);
    serving->state = ServingState::kOwed;
    in->token = reinterpret_cast<uintptr_t>(serving);
  }
  in->buffer = in->movable ? int32_t(buffer) : -1;
  // Only read: the core copies from there.
  if (in->movable)
    in->arrived_whole(conn.qp->receive_buffer(buffer).data() + kImmediatePrefix, uint32_t(message.payload.size()));
  in->state = InState::kOpening;
  ++conn.ins_used;
  if (!in->movable) buffer_back(worker, conn, buffer);
  go_on(worker, *in, worker.core.rx_header(*in, worker.now));
}

/// False: there is no room yet.
bool close_key(IbWorker& worker, Conn& conn, rc::RemoteKey& key) {
  return worker.rc.key_close(*conn.qp, key) == rc::Posted::kYes;
}

// --- Answers ---------------------------------------------------------------------------------------------------------

bool asked(const Request* request, bool get) {
  return request != nullptr && request->state == RequestState::kAsked &&
         (request->tx->header.type == wire::MsgType::kGet) == get;
}

void put_acked(IbWorker& worker, Conn& conn, Request& request, const Message& message) {
  transfer_sink(request.transfer, MessageType::kPutDone, message.sink_cookie, message.sink);
  transfer_begin(request.transfer, *request.tx);
  request.state = RequestState::kWriting;
  request.since = worker.now;
  conn.writing.push_back(request);
  worker.mark_dirty(conn);
}

void put_refused(IbWorker& worker, Conn& conn, Request& request, int32_t status) {
  Tx& tx = request_end(conn, request);
  worker.finish(tx, status < 0 ? Completion{status, LndStatus::kRemoteError} : Completion{});
}

void get_done(IbWorker& worker, Conn& conn, Request& request, int32_t status) {
  if (status > int32_t(request.tx->sink.length)) return protocol_error(worker, conn);
  request.state = RequestState::kClosing;
  request.since = worker.now;
  request.status = status;
  if (!close_key(worker, conn, request.key)) conn.requests_closing.push_back(request);
}

void put_done(IbWorker& worker, Conn& conn, In& in, int32_t status) {
  if (status > int32_t(in.into.length)) return protocol_error(worker, conn);
  in.status = status;
  in.since = worker.now;
  in.state = InState::kClosing;
  if (!close_key(worker, conn, in.key)) conn.ins_closing.push_back(in);
}

/// Of a PUT whose PUT_DONE has come, and that nobody writes any more.
Completion put_result(In& in) {
  if (in.status < 0) return {in.status, LndStatus::kRemoteError};
  if (in.staged.base != nullptr) {
    PayloadCursor to(in.into), from({&in.staged, 1, 0, in.staged.bytes});
    payload_copy(to, from, uint32_t(in.status));
  }
  return uint32_t(in.status) < in.into.length ? Completion{-EIO, LndStatus::kRemoteError} : Completion{};
}

void answer_came(IbWorker& worker, Conn& conn, const Message& message) {
  if (message.type == MessageType::kPutDone) {
    In* in = find_in(conn, message.cookie);
    if (in == nullptr || in->state != InState::kOffered) return protocol_error(worker, conn);
    put_done(worker, conn, *in, message.status);
    return credit_back(worker, conn, MessageType::kPutDone);
  }
  Request* request = find_request(conn, message.cookie);
  if (message.type == MessageType::kPutAck)
    put_acked(worker, conn, *request, message);
  else if (message.type == MessageType::kGetDone)
    get_done(worker, conn, *request, message.status);
  else
    put_refused(worker, conn, *request, message.status);
}

/// Is it an answer to a request that is under way?
bool is_expected(Conn& conn, const Message& message) {
  if (!ends_reservation(message.type)) return true;
  return asked(find_request(conn, message.cookie), message.type == MessageType::kGetDone);
}

void process(IbWorker& worker, Conn& conn, uint32_t buffer, uint32_t bytes) {
  Message message;
  const auto fault = message_decode(conn.qp->receive_buffer(buffer).first(bytes), message);
  if (fault != MessageFault::kNone) return protocol_error(worker, conn);
  if (check_ends(message.ends, conn.facts.ends) != MessageFault::kNone) return protocol_error(worker, conn, -ESTALE);
  if (!is_expected(conn, message) || !conn.credits.receive(message.type, message.credits))
    return protocol_error(worker, conn);
  if (message.credits > 0) worker.mark_dirty(conn);
  switch (message.type) {
    case MessageType::kConnReq:
    case MessageType::kConnAck: return protocol_error(worker, conn);
    case MessageType::kNoop: return buffer_back(worker, conn, buffer);
    case MessageType::kImmediate:
    case MessageType::kPutReq:
    case MessageType::kGetReq: return request_came(worker, conn, message, buffer);
    case MessageType::kPutNak:
    case MessageType::kPutAck:
    case MessageType::kPutDone:
    case MessageType::kGetDone: answer_came(worker, conn, message); return buffer_back(worker, conn, buffer);
  }
}

}  // namespace

void conn_received(IbWorker& worker, Conn& conn, uint32_t buffer, uint32_t bytes) {
  conn.last_received = conn.progress = worker.now;
  if (conn.is_up()) return process(worker, conn, buffer, bytes);
  if (conn.phase == ConnPhase::kNew) conn.early[conn.early_count++] = {buffer, bytes};
}

void conn_rx_begin(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.early_count && conn.is_up(); ++i)
    process(worker, conn, conn.early[i].buffer, conn.early[i].bytes);
  conn.early_count = 0;
}

void conn_rx_step(IbWorker& worker, Conn& conn) {
  while (In* in = conn.ins_closing.front()) {
    if (!close_key(worker, conn, in->key)) return;
    conn.ins_closing.remove(*in);
  }
  while (Request* request = conn.requests_closing.front()) {
    if (!close_key(worker, conn, request->key)) return;
    conn.requests_closing.remove(*request);
  }
  while (In* in = conn.is_up() ? conn.offering.front() : nullptr) {
    conn.offering.remove(*in);
    if (offer(worker, *in)) continue;
    conn.offering.push_front(*in);
    break;
  }
}

void conn_key_closed(IbWorker& worker, Conn& conn, rc::RemoteKey& key) {
  conn.progress = worker.now;
  for (uint32_t i = 0; i < conn.facts.depth; ++i) {
    if (In& in = conn.ins[i]; &in.key == &key) return in_end(worker, in, put_result(in), false);
    Request& request = conn.requests[i];
    if (&request.key != &key) continue;
    const int32_t status = request.status;
    Tx& tx = request_end(conn, request);
    --worker.tx_count;
    return worker.core.get_done(tx, uint32_t(std::max(status, 0)), std::min(status, 0), worker.now);
  }
}

void conn_rx_resume(IbWorker& worker, In& in) {
  ULNET_CHECK(in.state == InState::kHeld);
  go_on(worker, in, in.verdict);
}

void conn_rx_release(IbWorker& worker, In& in) {
  ULNET_CHECK(in.state == InState::kTaken);
  Conn& conn = *in.conn;
  in_free(worker, in);
  credit_back(worker, conn, MessageType::kImmediate);
  conn_settle(worker, conn);
}

// The peer may write at any time: only the end of the connection takes its right back.
void conn_rx_divert(IbWorker& worker, In& in) {
  if (in.state == InState::kOffered || in.state == InState::kOffering)
    conn_end(worker, *in.conn, {-ECANCELED, LndStatus::kLocalAborted});
}

void conn_rx_end(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.facts.depth; ++i) {
    In& in = conn.ins[i];
    if (static_cast<Linked<StagingTag>&>(in).linked()) worker.staging_wanted.remove(in);
    if (in.state == InState::kClosing && in.status >= 0)
      in_end(worker, in, put_result(in), false);
    else if (in.state == InState::kOffering || in.state == InState::kOffered || in.state == InState::kClosing)
      in_end(worker, in, receive_failure(conn.how), false);
  }
}

}  // namespace ulnet::o2iblnd
