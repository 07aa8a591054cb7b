#include "lnd/o2iblnd/conn_rx.h"

#include <algorithm>

#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_in.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {
namespace {

void put_acked(IbWorker& worker, Conn& conn, Request& request, const Message& message) {
  request.state = RequestState::kWriting;
  request.since = worker.now;
  transfer_sink(request.transfer, message.sink_cookie, message.sink);
  transfer_begin(conn, request.transfer, *request.tx);
  worker.mark_dirty(conn);
}

void put_refused(IbWorker& worker, Conn& conn, Request& request, int32_t status) {
  Tx& tx = request_free(conn, request);
  tx_end(worker, conn, tx,
         status < 0 ? Completion{std::max(status, -kErrnoMax), LndStatus::kRemoteError} : Completion{});
}

void get_done(IbWorker& worker, Conn& conn, Request& request, int32_t status) {
  if (status > int32_t(request.tx->sink.length)) return protocol_error(worker, conn, PeerFault::kSink);
  request.state = RequestState::kClosing;
  request.since = worker.now;
  request.status = std::max(status, -kErrnoMax);
  conn.gauges.bytes_received.add(std::max(status, 0));
  if (!close_key(worker, conn, request.key)) conn.requests_closing.push_back(request);
}

/// PUT_ACK, PUT_NAK, GET_DONE: to a request that waits for them.
void answer_came(IbWorker& worker, Conn& conn, const Message& message) {
  Request& request = *find_request(conn, message.cookie);
  switch (message.type) {
    case MessageType::kPutAck: return put_acked(worker, conn, request, message);
    case MessageType::kGetDone: return get_done(worker, conn, request, message.status);
    default: return put_refused(worker, conn, request, message.status);
  }
}

void put_done(IbWorker& worker, Conn& conn, const Message& message) {
  In* in = find_in(conn, message.cookie);
  if (in == nullptr) return protocol_error(worker, conn, PeerFault::kCookie);
  if (in->state != InState::kOffered) return protocol_error(worker, conn, PeerFault::kState);
  in_written(worker, conn, *in, message.status);
}

PeerFault wrong_header(bool right) {
  return right ? PeerFault::kNone : PeerFault::kHeader;
}

/// An answer has a request that is under way. A request has the LNet header of its kind.
PeerFault check_place(Conn& conn, const Message& message) {
  const wire::MsgType header = message.header.type;
  switch (message.type) {
    case MessageType::kPutReq: return wrong_header(header == wire::MsgType::kPut || header == wire::MsgType::kReply);
    case MessageType::kGetReq: return wrong_header(header == wire::MsgType::kGet);
    case MessageType::kPutNak:
    case MessageType::kPutAck:
    case MessageType::kGetDone: {
      const Request* request = find_request(conn, message.cookie);
      if (request == nullptr) return PeerFault::kCookie;
      const bool fits =
          request->state == RequestState::kAsked && request->key.open == (message.type == MessageType::kGetDone);
      return fits ? PeerFault::kNone : PeerFault::kState;
    }
    case MessageType::kConnReq:
    case MessageType::kConnAck: break;
    case MessageType::kNoop:
    case MessageType::kImmediate:
    case MessageType::kPutDone: return PeerFault::kNone;
  }
  return PeerFault::kType;
}

void process(IbWorker& worker, Conn& conn, uint32_t buffer, uint32_t bytes) {
  Message message;
  MessageFault wrong = message_decode(conn.qp->receive_buffer(buffer).first(bytes), message);
  if (wrong == MessageFault::kNone) wrong = check_ends(message.ends, conn.facts.ends);
  if (wrong != MessageFault::kNone) return protocol_error(worker, conn, fault_of(wrong));
  const PeerFault misplaced = check_place(conn, message);
  if (misplaced != PeerFault::kNone) return protocol_error(worker, conn, misplaced);
  if (!conn.credits.receive(message.type, message.credits)) return protocol_error(worker, conn, PeerFault::kCredits);
  if (message.credits > 0) worker.mark_dirty(conn);
  switch (message.type) {
    case MessageType::kConnReq:
    case MessageType::kConnAck: return;  // ended
    case MessageType::kNoop: return buffer_back(worker, conn, buffer);
    case MessageType::kImmediate:
    case MessageType::kPutReq:
    case MessageType::kGetReq: return in_came(worker, conn, message, buffer);
    case MessageType::kPutDone: put_done(worker, conn, message); return buffer_back(worker, conn, buffer);
    case MessageType::kPutNak:
    case MessageType::kPutAck:
    case MessageType::kGetDone: answer_came(worker, conn, message); return buffer_back(worker, conn, buffer);
  }
}

}  // namespace

void protocol_error(IbWorker& worker, Conn& conn, PeerFault fault) {
  if (conn.is_up()) conn.fault = fault;
  conn_end(worker, conn, {fault_error(fault), LndStatus::kRemoteDropped});
}

void buffer_back(IbWorker& worker, Conn& conn, uint32_t buffer) {
  if (conn.is_up()) worker.rc.receive(*conn.qp, buffer);
}

void credit_back(IbWorker& worker, Conn& conn, MessageType type, bool refused) {
  if (!conn.is_up()) return;
  worker.mark_dirty(conn);
  if (!conn.credits.repost(type, refused)) protocol_error(worker, conn, PeerFault::kCredits);
}

bool close_key(IbWorker& worker, Conn& conn, rc::RemoteKey& key) {
  return worker.rc.key_close(*conn.qp, key) == rc::Posted::kYes;
}

// The lowest bit says whose the key is.
uint64_t key_token(const Conn& conn, const Request& request) {
  return uint64_t(&request - &conn.requests[0]) << 1;
}
uint64_t key_token(const Conn& conn, const In& in) {
  return uint64_t(&in - &conn.ins[0]) << 1 | 1;
}

void conn_received(IbWorker& worker, Conn& conn, uint32_t buffer, uint32_t bytes) {
  conn.progress = worker.now;
  conn.gauges.messages_received.add(1);
  conn.gauges.bytes_received.add(bytes);
  if (conn.is_up()) return process(worker, conn, buffer, bytes);
  if (conn.phase == ConnPhase::kNew) conn.early[conn.early_count++] = {buffer, bytes};
}

void conn_rx_begin(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.early_count && conn.is_up(); ++i)
    process(worker, conn, conn.early[i].buffer, conn.early[i].bytes);
  conn.early_count = 0;
}

void conn_rx_step(IbWorker& worker, Conn& conn) {
  while (Request* request = conn.requests_closing.front()) {
    if (!close_key(worker, conn, request->key)) return;
    conn.requests_closing.remove(*request);
  }
  in_step(worker, conn);
}

void conn_key_closed(IbWorker& worker, Conn& conn, const rc::RemoteKey& key) {
  conn.progress = worker.now;
  worker.mark_dirty(conn);
  const size_t index = key.token >> 1;
  if ((key.token & 1) != 0) return in_key_closed(worker, conn.ins[index]);
  Request& request = conn.requests[index];
  const int32_t status = request.status;
  Tx& tx = request_free(conn, request);
  --conn.begun;
  --worker.tx_count;
  worker.core.get_done(tx, uint32_t(std::max(status, 0)), std::min(status, 0), worker.now);
}

}  // namespace ulnet::o2iblnd
