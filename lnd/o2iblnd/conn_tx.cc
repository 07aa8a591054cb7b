// Messages out. The hard part: a post may end the connection, and a completion may submit to this very connection. So
// the phase is looked at again after each, and a Tx is in no list when it is given back. The peer may go on before the
// end of a send is reported. So a Request or a Serving is free again when its last message is posted.
#include "lnd/o2iblnd/conn_tx.h"

#include <algorithm>
#include <cstring>

#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_rx.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {
namespace {

constexpr unsigned kIndexBits = 16;

MessageType type_of(const Tx& tx) {
  if (tx.payload.length > kImmediateMax) return MessageType::kPutReq;
  const bool sink = tx.header.type == wire::MsgType::kGet && tx.sink.length > kImmediateMax;
  return sink ? MessageType::kGetReq : MessageType::kImmediate;
}

MessageBuffer buffer_of(Conn& conn, const Out& out) {
  return MessageBuffer(conn.qp->send_buffer(uint32_t(&out - &conn.outs[0])).first<kMessageMax>());
}

constexpr uint32_t kRoomOfQuiet = 8;  // with less room, something may wait for room

/// The end of a message may be reported late if nothing waits for the end. The message is alone at this worker and
/// holds nothing that another needs. Its answer wakes the worker that waits for the answer, which has to be this one.
rc::Wake wake_of(const IbWorker& worker, const Conn& conn, MessageType type, const Tx* tx) {
  const bool alone = worker.tx_count <= (tx != nullptr ? 1 : 0) && conn.outs_used <= 2 && conn.queue.empty();
  if (!alone || type == MessageType::kNoop || worker.rc.room(*conn.qp) < kRoomOfQuiet) return rc::Wake::kYes;
  if (tx == nullptr) return rc::Wake::kNo;
  const wire::Header& header = tx->header;
  const bool own = header.src_nid == conn.facts.ends.src && tx->home == worker.core.worker_id().value;
  if (!own || tx->last_credit) return rc::Wake::kYes;
  switch (header.type) {
    case wire::MsgType::kAck:
    case wire::MsgType::kGet: return rc::Wake::kNo;
    case wire::MsgType::kPut: return header.put().ack_wmd.is_none() ? rc::Wake::kYes : rc::Wake::kNo;
    default: return rc::Wake::kYes;
  }
}

/// Posts the message that was encoded into this send buffer. `tx` ends with it; null: none.
void post(IbWorker& worker, Conn& conn, Out& out, MessageType type, size_t bytes, Tx* tx = nullptr) {
  conn.free_outs.remove(out);
  out.used = true;
  out.type = type;
  out.since = worker.now;
  out.tx = tx;
  out.how = {};
  ++conn.outs_used;
  set_credits(buffer_of(conn, out), conn.credits.send(type));
  conn.last_sent = worker.now;
  conn.gauges.messages_sent.add(1);
  conn.gauges.bytes_sent.add(int64_t(bytes));
  const auto index = uint32_t(&out - &conn.outs[0]);
  const rc::Posted posted =
      worker.rc.send(*conn.qp, index, uint32_t(bytes), index + 1, wake_of(worker, conn, type, tx));
  ULNET_CHECK(posted == rc::Posted::kYes);  // there was room
}

void begin(IbWorker& worker, Conn& conn, Tx& tx) {
  TxState state(tx);
  state.place(TxPlace::kBegun, &conn);
  state.since(worker.now);
  ++conn.begun;
}

void post_immediate(IbWorker& worker, Conn& conn, Tx& tx, Out& out) {
  const MessageBuffer buffer = buffer_of(conn, out);
  const size_t bytes = encode_immediate(buffer, conn.facts.ends, tx.header);
  PayloadCursor from(tx.payload);
  std::byte* to = buffer.data() + kImmediatePrefix;
  for (iovec piece; from.pieces({&piece, 1}) == 1; from.advance(uint32_t(piece.iov_len)), to += piece.iov_len)
    std::memcpy(to, piece.iov_base, piece.iov_len);
  conn.queue.remove(tx);
  begin(worker, conn, tx);
  post(worker, conn, out, MessageType::kImmediate, bytes, &tx);
}

/// A window that has a key lies in one piece.
Fragment fragment_of(const Payload& window) {
  iovec piece{};
  PayloadCursor(window).pieces({&piece, 1});
  return {uint64_t(reinterpret_cast<uintptr_t>(piece.iov_base)), window.length};
}

/// The front of the queue. False: it stays there.
bool post_front(IbWorker& worker, Conn& conn, Out& out) {
  Tx& tx = *conn.queue.front();
  const MessageType type = type_of(tx);
  if (type == MessageType::kImmediate) {
    post_immediate(worker, conn, tx, out);
    return true;
  }
  Request* request = conn.free_requests.front();
  if (request == nullptr || worker.rc.room(*conn.qp) < kRoomOfKey) return false;
  const MessageBuffer buffer = buffer_of(conn, out);
  const uint64_t cookie = cookie_of(conn, *request);
  size_t bytes = 0;
  if (type == MessageType::kGetReq) {
    request->key.token = key_token(conn, *request);
    const rc::Posted posted = worker.rc.key_open(*conn.qp, request->key, tx.sink);
    if (posted == rc::Posted::kNoRoom) return false;
    if (posted == rc::Posted::kImpossible) {  // then it goes as a message, and so does its REPLY
      post_immediate(worker, conn, tx, out);
      return true;
    }
    const Fragment sink = fragment_of(tx.sink);
    bytes = encode_get_req(buffer, conn.facts.ends, tx.header, cookie, request->key.value, {&sink, 1});
  } else {
    bytes = encode_put_req(buffer, conn.facts.ends, tx.header, cookie);
  }
  conn.queue.remove(tx);
  conn.free_requests.remove(*request);
  request->state = RequestState::kAsked;
  request->since = worker.now;
  request->tx = &tx;
  begin(worker, conn, tx);
  post(worker, conn, out, type, bytes);
  return true;
}

void post_answer(IbWorker& worker, Conn& conn, Out& out) {
  const Answer answer = conn.answers[conn.answer_head];
  conn.answer_head = (conn.answer_head + 1) % (2 * conn.depth_max);
  --conn.answer_count;
  const MessageBuffer buffer = buffer_of(conn, out);
  size_t bytes = 0;
  if (answer.type == MessageType::kPutAck) {
    In& in = *answer.in;
    in.state = InState::kOffered;
    in.since = worker.now;
    const Fragment sink = fragment_of(sink_of(in));
    bytes = encode_put_ack(buffer, conn.facts.ends, answer.cookie, cookie_of(conn, in), in.key.value, {&sink, 1});
  } else {
    bytes = encode_completion(buffer, answer.type, conn.facts.ends, answer.cookie, answer.status);
  }
  post(worker, conn, out, answer.type, bytes);
}

/// The first transfer of which all bytes are posted; null: there is none, or no room.
Transfer* written_transfer(IbWorker& worker, Conn& conn) {
  for (;;) {
    Transfer* transfer = conn.transfers.front();
    if (transfer == nullptr || transfer_write(worker, conn, *transfer)) return transfer;
    if (conn.transfers.front() == transfer) return nullptr;  // no room; else it waits for staging memory
  }
}

/// Goes on with the transfers. False: no message was posted.
bool post_transfer(IbWorker& worker, Conn& conn, Out& out) {
  Transfer* transfer = written_transfer(worker, conn);
  if (transfer == nullptr) return false;
  conn.transfers.remove(*transfer);
  const MessageType type = transfer->serving != nullptr ? MessageType::kGetDone : MessageType::kPutDone;
  const int32_t status = transfer->how.error < 0 ? transfer->how.error : int32_t(transfer->bytes);
  const size_t bytes = encode_completion(buffer_of(conn, out), type, conn.facts.ends, transfer->cookie, status);
  post(worker, conn, out, type, bytes, transfer->tx);
  out.how = transfer->how;
  out.staged = std::exchange(transfer->staged.base, nullptr);
  if (transfer->serving != nullptr)
    serving_free(*transfer->serving);
  else
    request_free(conn, *transfer->request);
  return true;
}

/// A message that uses a credit. False: there is none, or it may not leave.
bool post_queued(IbWorker& worker, Conn& conn, Out& out) {
  if (conn.queue.empty() || !conn.credits.may_send(type_of(*conn.queue.front()))) return false;
  return post_front(worker, conn, out);
}

void post_noop(IbWorker& worker, Conn& conn, Out& out) {
  post(worker, conn, out, MessageType::kNoop, encode_noop(buffer_of(conn, out), conn.facts.ends));
}

/// A send buffer for the next message; null: as many are under way as may be.
Out* next_out(Conn& conn) {
  return conn.outs_used < conn.facts.sends_max ? conn.free_outs.front() : nullptr;
}

void publish(Conn& conn) {
  conn.gauges.credits.set(conn.credits.credits());
  conn.gauges.reserved.set(conn.credits.reserved());
  conn.gauges.owed.set(conn.credits.owed());
  conn.gauges.sends.set(conn.outs_used);
  conn.gauges.waiting.set(conn.queue.size());
}

/// False: nothing can be posted now.
bool pump_one(IbWorker& worker, Conn& conn) {
  Out* out = next_out(conn);
  if (out == nullptr || worker.rc.room(*conn.qp) == 0) return false;
  if (conn.answer_count > 0) {
    post_answer(worker, conn, *out);
    return true;
  }
  const bool queue_first = std::exchange(conn.queue_first, !conn.queue_first);
  if (queue_first && post_queued(worker, conn, *out)) return true;
  if (post_transfer(worker, conn, *out)) return true;
  if (!queue_first && post_queued(worker, conn, *out)) return true;
  // A message that may not leave returns no credits.
  if (worker.rc.room(*conn.qp) == 0 || conn.credits.next({}) != NextSend::kNoop) return false;
  post_noop(worker, conn, *out);
  return true;
}

}  // namespace

uint64_t cookie_of(const Conn& conn, const Request& request) {
  return uint64_t{request.generation} << kIndexBits | uint64_t(&request - &conn.requests[0]);
}
uint64_t cookie_of(const Conn& conn, const In& in) {
  return uint64_t{in.generation} << kIndexBits | uint64_t(&in - &conn.ins[0]);
}

Request* find_request(Conn& conn, uint64_t cookie) {
  const uint64_t index = cookie & ((1u << kIndexBits) - 1);
  if (index >= conn.depth_max) return nullptr;
  Request& request = conn.requests[index];
  return request.state == RequestState::kFree || cookie_of(conn, request) != cookie ? nullptr : &request;
}

In* find_in(Conn& conn, uint64_t cookie) {
  const uint64_t index = cookie & ((1u << kIndexBits) - 1);
  if (index >= conn.depth_max) return nullptr;
  In& in = conn.ins[index];
  return in.state == InState::kFree || cookie_of(conn, in) != cookie ? nullptr : &in;
}

Tx& request_free(Conn& conn, Request& request) {
  request.state = RequestState::kFree;
  ++request.generation;
  conn.free_requests.push_back(request);
  return *std::exchange(request.tx, nullptr);
}

void serving_free(Serving& serving) {
  serving.state = ServingState::kFree;
  --serving.conn->servings_used;
  serving.conn->free_servings.push_back(serving);
}

void tx_end(IbWorker& worker, Conn& conn, Tx& tx, Completion how) {
  --conn.begun;
  worker.finish(tx, how);
}

void conn_queue(IbWorker& worker, Conn& conn, Tx& tx) {
  TxState state(tx);
  state.place(TxPlace::kQueued, &conn);
  state.since(worker.now);
  conn.queue.push_back(tx);
  worker.mark_dirty(conn);
  conn_watch(worker, conn);
}

bool conn_answer(IbWorker& worker, Conn& conn, const Answer& answer) {
  if (conn.answer_count == 2 * conn.depth_max) return false;
  conn.answers[(conn.answer_head + conn.answer_count++) % (2 * conn.depth_max)] = answer;
  worker.mark_dirty(conn);
  return true;
}

void conn_pump(IbWorker& worker, Conn& conn) {
  if (!conn.is_up()) return;
  conn_rx_step(worker, conn);
  while (conn.is_up() && pump_one(worker, conn)) {
  }
  publish(conn);
}

void conn_keepalive(IbWorker& worker, Conn& conn) {
  Out* out = next_out(conn);
  if (out == nullptr || !conn.credits.may_send(MessageType::kNoop) || worker.rc.room(*conn.qp) == 0) return;
  post_noop(worker, conn, *out);
  conn_watch(worker, conn);
}

void conn_sent(IbWorker& worker, Conn& conn, uint64_t token) {
  conn.progress = worker.now;
  worker.mark_dirty(conn);
  if (token == kWriteToken) return;
  Out& out = conn.outs[token - 1];
  ULNET_CHECK(out.used);
  out.used = false;
  --conn.outs_used;
  conn.free_outs.push_back(out);
  if (out.type == MessageType::kNoop) conn.credits.noop_completed();
  if (const std::byte* block = std::exchange(out.staged, nullptr)) staging_give(worker, block);
  if (Tx* tx = std::exchange(out.tx, nullptr)) tx_end(worker, conn, *tx, out.how);
}

}  // namespace ulnet::o2iblnd
