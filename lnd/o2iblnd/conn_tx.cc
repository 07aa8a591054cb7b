// Messages out. The hard part: a post may end the connection, and a completion may submit to this very connection. So
// the phase is looked at again after each, and a Tx is in no list when it is given back.
#include "lnd/o2iblnd/conn_tx.h"

#include <algorithm>
#include <cstring>

#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_rx.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {
namespace {

constexpr unsigned kIndexBits = 16;

/// Room for a message and for the key that goes before it.
constexpr uint32_t kRoomOfRequest = 2;

MessageType type_of(const Tx& tx) {
  if (tx.payload.length > kImmediateMax) return MessageType::kPutReq;
  const bool sink = tx.header.type == wire::MsgType::kGet && tx.sink.length > kImmediateMax;
  return sink ? MessageType::kGetReq : MessageType::kImmediate;
}

Out* free_out(Conn& conn, uint32_t& index) {
  const uint32_t count = conn.qp->sends;
  if (conn.outs_used == count) return nullptr;
  for (index = 0; conn.outs[index].used; ++index) {
  }
  return &conn.outs[index];
}

Request* free_request(Conn& conn) {
  for (uint32_t i = 0; i < conn.facts.depth; ++i)
    if (conn.requests[i].state == RequestState::kFree) return &conn.requests[i];
  return nullptr;
}

MessageBuffer buffer_of(Conn& conn, uint32_t index) {
  return MessageBuffer(conn.qp->send_buffer(index).first<kMessageMax>());
}

/// Posts the message that was encoded into the send buffer `index`.
void post(IbWorker& worker, Conn& conn, uint32_t index, MessageType type, size_t bytes) {
  Out& out = conn.outs[index];
  out.used = true;
  out.type = type;
  out.since = worker.now;
  ++conn.outs_used;
  set_credits(buffer_of(conn, index), conn.credits.send(type));
  conn.last_sent = worker.now;
  const rc::Posted posted = worker.rc.send(*conn.qp, index, uint32_t(bytes), index + 1);
  ULNET_CHECK(posted == rc::Posted::kYes);  // there was room
}

void begin(IbWorker& worker, Conn& conn, Tx& tx) {
  TxState state(tx);
  state.place(TxPlace::kBegun, &conn);
  state.since(worker.now);
  ++conn.begun;
}

void post_immediate(IbWorker& worker, Conn& conn, Tx& tx, uint32_t index, Out& out) {
  const MessageBuffer buffer = buffer_of(conn, index);
  size_t bytes = encode_immediate(buffer, conn.facts.ends, tx.header);
  PayloadCursor from(tx.payload);
  std::byte* to = buffer.data() + kImmediatePrefix;
  for (iovec piece; from.pieces({&piece, 1}) == 1; from.advance(uint32_t(piece.iov_len)), to += piece.iov_len)
    std::memcpy(to, piece.iov_base, piece.iov_len);
  out.tx = &tx;
  begin(worker, conn, tx);
  post(worker, conn, index, MessageType::kImmediate, bytes);
}

std::span<const Fragment> fragments_of(const Payload& window, std::array<Fragment, kFragmentsMax>& all) {
  PayloadCursor cursor(window);
  uint32_t count = 0;
  for (iovec piece; count < all.size() && cursor.pieces({&piece, 1}) == 1; cursor.advance(uint32_t(piece.iov_len)))
    all[count++] = {uint64_t(reinterpret_cast<uintptr_t>(piece.iov_base)), uint32_t(piece.iov_len)};
  return std::span(all).first(count);
}

/// False: it stays at the front of the queue.
bool post_front(IbWorker& worker, Conn& conn, uint32_t index, Out& out) {
  Tx& tx = *conn.queue.front();
  const MessageType type = type_of(tx);
  if (type == MessageType::kImmediate) {
    conn.queue.remove(tx);
    post_immediate(worker, conn, tx, index, out);
    return true;
  }
  Request* request = free_request(conn);
  if (request == nullptr || worker.rc.room(*conn.qp) < kRoomOfRequest) return false;
  const MessageBuffer buffer = buffer_of(conn, index);
  const uint64_t cookie = cookie_of(conn, *request);
  size_t bytes = 0;
  if (type == MessageType::kGetReq) {
    const rc::Posted posted = worker.rc.key_open(*conn.qp, request->key, tx.sink);
    if (posted == rc::Posted::kNoRoom) return false;
    if (posted == rc::Posted::kImpossible) {  // then it goes as a message, and so does its REPLY
      conn.queue.remove(tx);
      post_immediate(worker, conn, tx, index, out);
      return true;
    }
    std::array<Fragment, kFragmentsMax> all;
    bytes = encode_get_req(buffer, conn.facts.ends, tx.header, cookie, request->key.value, fragments_of(tx.sink, all));
  } else {
    bytes = encode_put_req(buffer, conn.facts.ends, tx.header, cookie);
  }
  conn.queue.remove(tx);
  request->state = RequestState::kAsked;
  request->since = worker.now;
  request->tx = &tx;
  begin(worker, conn, tx);
  post(worker, conn, index, type, bytes);
  return true;
}

void post_answer(IbWorker& worker, Conn& conn, uint32_t index) {
  const Answer answer = conn.answers[conn.answer_head];
  conn.answer_head = (conn.answer_head + 1) % (2 * conn.depth_max);
  --conn.answer_count;
  const MessageBuffer buffer = buffer_of(conn, index);
  size_t bytes = 0;
  if (answer.type == MessageType::kPutAck) {
    std::array<Fragment, kFragmentsMax> all;
    bytes = encode_put_ack(buffer, conn.facts.ends, answer.cookie, cookie_of(conn, *answer.in), answer.in->key.value,
                           fragments_of(sink_of(*answer.in), all));
  } else {
    bytes = encode_completion(buffer, answer.type, conn.facts.ends, answer.cookie, answer.status);
  }
  post(worker, conn, index, answer.type, bytes);
}

/// All bytes of a transfer are posted: says so to the peer.
void post_done(IbWorker& worker, Conn& conn, uint32_t index, const Transfer& transfer) {
  const size_t bytes = encode_completion(buffer_of(conn, index), transfer.done, conn.facts.ends, transfer.cookie,
                                         int32_t(transfer.bytes));
  post(worker, conn, index, transfer.done, bytes);
}

/// Goes on with the first transfer. False: there is none, or no room.
bool transfer_step(IbWorker& worker, Conn& conn, uint32_t index, Out& out) {
  if (Serving* serving = conn.replying.front()) {
    if (!transfer_write(worker, conn, serving->transfer)) return false;
    conn.replying.remove(*serving);
    serving->state = ServingState::kDone;
    serving->since = worker.now;
    out.serving = serving;
    post_done(worker, conn, index, serving->transfer);
    return true;
  }
  Request* request = conn.writing.front();
  if (request == nullptr || !transfer_write(worker, conn, request->transfer)) return false;
  conn.writing.remove(*request);
  request->state = RequestState::kDone;
  request->since = worker.now;
  out.request = request;
  post_done(worker, conn, index, request->transfer);
  return true;
}

void post_noop(IbWorker& worker, Conn& conn, uint32_t index) {
  post(worker, conn, index, MessageType::kNoop, encode_noop(buffer_of(conn, index), conn.facts.ends));
}

/// False: nothing can be posted now.
bool pump_one(IbWorker& worker, Conn& conn) {
  uint32_t index = 0;
  Out* out = free_out(conn, index);
  if (out == nullptr || worker.rc.room(*conn.qp) == 0) return false;
  *out = {};
  if (conn.answer_count > 0) {
    post_answer(worker, conn, index);
    return true;
  }
  if (transfer_step(worker, conn, index, *out)) return true;
  if (!conn.is_up() || !conn.writing.empty() || !conn.replying.empty()) return false;
  const Waiting waiting{.credited = !conn.queue.empty(),
                        .first = conn.queue.empty() ? MessageType::kNoop : type_of(*conn.queue.front())};
  switch (conn.credits.next(waiting)) {
    case NextSend::kCredited: return post_front(worker, conn, index, *out);
    case NextSend::kNoop: post_noop(worker, conn, index); return true;
    case NextSend::kCreditFree:
    case NextSend::kNothing: return false;
  }
  return false;
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
  if (index >= conn.facts.depth) return nullptr;
  Request& request = conn.requests[index];
  return request.state == RequestState::kFree || cookie_of(conn, request) != cookie ? nullptr : &request;
}

In* find_in(Conn& conn, uint64_t cookie) {
  const uint64_t index = cookie & ((1u << kIndexBits) - 1);
  if (index >= conn.facts.depth) return nullptr;
  In& in = conn.ins[index];
  return in.state == InState::kFree || cookie_of(conn, in) != cookie ? nullptr : &in;
}

Tx& request_end(Conn& conn, Request& request) {
  request.state = RequestState::kFree;
  ++request.generation;
  --conn.begun;
  return *std::exchange(request.tx, nullptr);
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
}

void conn_keepalive(IbWorker& worker, Conn& conn) {
  uint32_t index = 0;
  Out* out = free_out(conn, index);
  const bool may = out != nullptr && conn.credits.may_send(MessageType::kNoop) && worker.rc.room(*conn.qp) > 0;
  if (!may) return;
  *out = {};
  post_noop(worker, conn, index);
}

void conn_sent(IbWorker& worker, Conn& conn, uint64_t token) {
  conn.progress = worker.now;
  const Out out = conn.outs[token - 1];
  ULNET_CHECK(out.used);
  conn.outs[token - 1].used = false;
  --conn.outs_used;
  worker.mark_dirty(conn);
  if (out.type == MessageType::kNoop) conn.credits.noop_completed();
  if (out.tx != nullptr) {
    --conn.begun;
    worker.finish(*out.tx, {});
  } else if (out.request != nullptr) {
    worker.finish(request_end(conn, *out.request), {});
  } else if (out.serving != nullptr) {
    out.serving->state = ServingState::kFree;
    --conn.begun;
    worker.finish(*std::exchange(out.serving->transfer.tx, nullptr), {});
  }
}

}  // namespace ulnet::o2iblnd
