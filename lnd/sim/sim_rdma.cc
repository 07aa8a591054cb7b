// The sim LND in its rdma mode: PUT_REQ and GET_REQ with remote writes, as o2iblnd has them (docs/wire/o2iblnd.md §4).
// Each message that comes has a slot of its own. The hard part: a peer that was shown a window may write into it until
// it reports the end, or the connection is broken. Memory goes back to the core at one of these two moments only. A
// write that finds no window on a living connection is counted, and each test fails by it.
#include <algorithm>

#include "dataplane/state/payload.h"
#include "lnd/sim/fabric_ctl.h"
#include "lnd/sim/sim_lnd.h"

namespace ulnet::sim {
namespace {

Launched* find_launched(End& end, uint64_t cookie) {
  const auto found =
      std::find_if(end.sent.begin(), end.sent.end(), [&](const Launched& one) { return one.cookie == cookie; });
  return found == end.sent.end() ? nullptr : &*found;
}

Request* find_offered(End& end, uint64_t cookie) {
  for (const auto& one : end.requests)
    if (one->cookie == cookie && one->state == Request::State::kOffered) return one.get();
  return nullptr;
}

/// Takes a request out of those that wait for an answer; its place in the window is free.
Tx& take_launched(End& end, const Launched& launched) {
  Tx& tx = *launched.tx;
  std::erase_if(end.sent, [&](const Launched& one) { return one.tx == &tx; });
  --end.in_flight;
  return tx;
}

}  // namespace

void SimLnd::reply(Tx& tx, Instant now) {
  const auto owed = owed_replies_.extract(tx.token);
  ++fabric_.count().replies;
  End* end = owed.empty() ? nullptr : fabric_.find_end(owed.mapped().end);
  if (end == nullptr || end->broken) return tx_finish(tx, kReplyLost, now);
  tx.lnd[0] = end->id;
  if (end->sent.empty() && end->in_flight == 0) end->progress = now;
  end->sent.push_back({&tx, kForever, {}, true});
  fabric_.write(*end, tx,
                {.wire = Wire::kGetDone, .cookie = owed.mapped().cookie, .status = int32_t(tx.payload.length)});
  remind(stalled_at(*end));
}

void SimLnd::rdma_receive(End& end, Message message, Instant now) {
  if (message.torn) return close_end(end, kReset, Close::kAbort, now);
  switch (message.wire) {
    case Wire::kMessage:
    case Wire::kPutReq:
    case Wire::kGetReq: return request_open(end, std::move(message), now);
    case Wire::kPutAck:
    case Wire::kPutNak: return put_answered(end, message, now);
    case Wire::kWrite: return write_half(end, message);
    case Wire::kPutDone: return put_written(end, message, now);
    case Wire::kGetDone: return get_answered(end, message, now);
  }
}

// --- The side that a message comes to --------------------------------------------------------------------------------

void SimLnd::request_open(End& end, Message&& message, Instant now) {
  Request& request = *end.requests.emplace_back(std::make_unique<Request>());
  request.message = std::move(message);
  request.cookie = fabric_.next_number();
  request.slot = std::make_unique<InSlot>();
  InSlot& slot = *request.slot;
  slot.end = end.id;
  slot.request = &request;
  Message& came = request.message;
  slot.begin(came.header, end.ni, end.ni_slice, end.peer_ni, end.slice, end.remote);
  slot.rdma_request = came.wire != Wire::kMessage;
  slot.token = came.wire == Wire::kGetReq ? request.cookie : 0;
  slot.movable = came.wire == Wire::kMessage;
  if (slot.movable) slot.arrived_whole(came.bytes.data(), uint32_t(came.bytes.size()));
  ++fabric_.count().slots_opened;
  request_go_on(end, request, core_.rx_header(slot, now), now);
}

void SimLnd::request_go_on(End& end, Request& request, RxVerdict verdict, Instant now) {
  switch (verdict) {
    case RxVerdict::kReceive: return request_accept(end, request, now);
    case RxVerdict::kHold: request.state = Request::State::kHeld; return;
    case RxVerdict::kTaken:
      request.slot->request = nullptr;
      end.taken.push_back({std::move(request.slot), std::move(request.message)});
      std::erase_if(end.requests, [&](const auto& one) { return one.get() == &request; });
      return;
    case RxVerdict::kRefused:
      ++fabric_.count().gets_refused;
      if (!end.broken)
        fabric_.send_answer(
            end, {.wire = Wire::kGetDone, .cookie = request.message.answer_cookie, .status = request.slot->refused});
      return request_end(end, request, {}, now);
    case RxVerdict::kProtocolError:
      ++fabric_.count().slots_closed;
      std::erase_if(end.requests, [&](const auto& one) { return one.get() == &request; });
      if (!end.broken) close_end(end, kProtocolBreak, Close::kAbort, now);
      return;
  }
}

void SimLnd::request_accept(End& end, Request& request, Instant now) {
  const Message& came = request.message;
  if (came.wire == Wire::kGetReq) {
    ++fabric_.count().gets_accepted;
    owed_replies_[request.slot->token] = {end.id, came.answer_cookie};
    return request_end(end, request, end.broken ? kTornReceive : Completion{}, now);
  }
  if (end.broken) return request_end(end, request, kTornReceive, now);
  if (came.wire == Wire::kMessage) {
    PayloadCursor to(request.slot->into), from(request.slot->arrived);
    payload_copy(to, from);
    fabric_.consumed(came, end.local);
    return request_end(end, request, {}, now);
  }
  if (request.slot->into.length == 0) {
    fabric_.send_answer(end, {.wire = Wire::kPutNak, .cookie = came.answer_cookie});
    return request_end(end, request, {}, now);
  }
  request.state = Request::State::kOffered;
  request.since = now;
  fabric_.send_answer(end, {.wire = Wire::kPutAck, .cookie = came.answer_cookie, .answer_cookie = request.cookie});
  remind(now + end.timeout);
}

void SimLnd::request_end(End& end, Request& request, Completion how, Instant now) {
  const auto found =
      std::find_if(end.requests.begin(), end.requests.end(), [&](const auto& one) { return one.get() == &request; });
  const std::unique_ptr<Request> mine = std::move(*found);  // its slot is the core's until rx_done has returned
  end.requests.erase(found);
  ++fabric_.count().slots_closed;
  kick(now);
  core_.rx_done(*mine->slot, how, now);
}

void SimLnd::requests_torn(End& end, Instant now) {
  const auto offered = [](const auto& one) { return one->state == Request::State::kOffered; };
  for (auto at = end.requests.begin(); at != end.requests.end();
       at = std::find_if(end.requests.begin(), end.requests.end(), offered)) {
    if (offered(*at)) request_end(end, **at, kTornReceive, now);
  }
}

// --- Answers ---------------------------------------------------------------------------------------------------------

void SimLnd::put_answered(End& end, const Message& answer, Instant now) {
  Launched* launched = find_launched(end, answer.cookie);
  if (launched == nullptr) return close_end(end, kProtocolBreak, Close::kAbort, now);
  end.progress = now;
  if (answer.wire == Wire::kPutNak) return tx_finish(take_launched(end, *launched), {}, now);
  launched->cookie = 0;  // the PUT_ACK came; a second one has no request
  launched->written = true;
  fabric_.write(end, *launched->tx, {.wire = Wire::kPutDone, .cookie = answer.answer_cookie});
}

/// So that memory which the core takes back too early is found out.
void SimLnd::write_half(End& end, const Message& write) {
  const Request* request = find_offered(end, write.cookie);
  const Launched* launched = find_launched(end, write.cookie);
  if (request == nullptr && launched == nullptr) {
    ++fabric_.count().stray_writes;
    return;
  }
  const Payload& window = request != nullptr ? request->slot->into : launched->tx->sink;
  if (!fabric_.may_access(end, window)) return close_end(end, kReset, Close::kAbort, fabric_.now());
  PayloadCursor to(window), from(write.lender->payload);
  payload_copy(to, from, write.lender->payload.length / 2);
}

void SimLnd::put_written(End& end, const Message& done, Instant now) {
  Request* request = find_offered(end, done.cookie);
  if (request == nullptr) return close_end(end, kProtocolBreak, Close::kAbort, now);
  PayloadCursor to(request->slot->into), from(done.lender->payload);
  payload_copy(to, from);
  fabric_.consumed(done, end.local);
  request_end(end, *request, {}, now);
}

void SimLnd::get_answered(End& end, const Message& done, Instant now) {
  Launched* launched = find_launched(end, done.cookie);
  const bool known = launched != nullptr && launched->tx->header.type == wire::MsgType::kGet;
  if (!known || done.status > int32_t(launched->tx->sink.length))
    return close_end(end, kProtocolBreak, Close::kAbort, now);
  end.progress = now;
  if (done.lender != nullptr) {
    PayloadCursor to(launched->tx->sink), from(done.lender->payload);
    payload_copy(to, from);
    fabric_.returned(done, end.local);
  }
  Tx& tx = take_launched(end, *launched);
  ++fabric_.count().tx_done;
  core_.get_done(tx, uint32_t(std::max(done.status, 0)), std::min(done.status, 0), now);
}

}  // namespace ulnet::sim
