// Calls of the user, repeats and ends. Messages that come: cm_in_ctl.cc.
#include "lnd/rc/roce/cm_ctl.h"

#include <algorithm>

#include "dataplane/base/check.h"
#include "dataplane/wire/bytes.h"

namespace ulnet::rc::roce {

Cm::Cm(CmUser& user, Rng& rng) : user_(user), transactions_(uint32_t(rng.next())), next_id_(CmId(rng.next())) {}

Cm::Conn* Cm::find(CmId id) {
  const auto it = conns_.find(id);
  return it == conns_.end() ? nullptr : &it->second;
}

Cm::Conn& Cm::mine(CmId id) {
  Conn* conn = find(id);
  ULNET_CHECK(conn != nullptr && conn->state != State::kLeaving);
  return *conn;
}

Cm::Conn* Cm::add(const CmAddresses& addresses) {
  if (conns_.size() >= kCmConnsMax && !leaving_.empty()) erase(*find(leaving_.begin()->second));
  if (conns_.size() >= kCmConnsMax) return nullptr;
  while (next_id_ == 0 || conns_.contains(next_id_)) ++next_id_;
  Conn& conn = conns_[next_id_];
  conn.id = next_id_++;
  conn.addresses = addresses;
  conn.transaction = own_transaction(conn.id);
  return &conn;
}

void Cm::erase(Conn& conn) {
  await(conn, kForever);
  if (conn.state == State::kAsked) asked_end(conn);
  if (conn.left != kForever) leaving_.erase({conn.left, conn.id});
  for (const auto& [table, number] :
       {std::pair(&by_remote_id_, uint64_t{conn.remote_id}), std::pair(&by_remote_qpn_, uint64_t{conn.remote_qpn})}) {
    const auto it = table->find({conn.addresses.remote, number});
    if (it != table->end() && it->second == conn.id) table->erase(it);
  }
  conns_.erase(conn.id);
}

void Cm::asked_end(const Conn& conn) {
  --asked_;
  const auto share = asked_of_.find(conn.addresses.remote);
  if (--share->second == 0) asked_of_.erase(share);
}

/// When to look at it again; kForever: not.
void Cm::await(Conn& conn, Instant at) {
  if (conn.at != kForever) due_.erase({conn.at, conn.id});
  conn.at = at;
  if (at != kForever) due_.insert({at, conn.id});
}

void Cm::send_once(const CmAddresses& addresses, const CmMessage& message) {
  std::array<std::byte, kMadBytes> mad;
  cm_encode(message, mad);
  user_.cm_send(addresses, mad);
}

void Cm::send_and_repeat(Conn& conn, const CmMessage& message, Instant give_up, Instant now) {
  cm_encode(message, conn.mad);
  conn.repeats = 0;
  conn.give_up = give_up;
  await(conn, std::min(now + kCmRepeatFirst, give_up));
  send(conn);
}

std::optional<CmId> Cm::open(const CmAddresses& addresses) {
  Conn* conn = add(addresses);
  if (conn == nullptr) return std::nullopt;
  conn->active = true;
  return conn->id;
}

void Cm::request(CmId id, CmReq req, Instant give_up, Instant now) {
  Conn& conn = mine(id);
  ULNET_CHECK(conn.state == State::kOpen);
  conn.state = State::kRequested;
  conn.guid = req.ca_guid;
  conn.qpn = req.qpn;
  req.local_id = id;
  req.local_gid = conn.addresses.local;
  req.remote_gid = conn.addresses.remote;
  send_and_repeat(conn, {conn.transaction, req}, give_up, now);
}

void Cm::reply(CmId id, CmRep rep, Instant give_up, Instant now) {
  Conn& conn = mine(id);
  ULNET_CHECK(conn.state == State::kAsked);
  conn.state = State::kAnswered;
  asked_end(conn);
  conn.guid = rep.ca_guid;
  conn.qpn = rep.qpn;
  rep.local_id = id;
  rep.remote_id = conn.remote_id;
  send_and_repeat(conn, {conn.transaction, rep}, give_up, now);
}

void Cm::ready(CmId id) {
  Conn& conn = mine(id);
  ULNET_CHECK(conn.state == State::kReplied);
  conn.state = State::kUp;
  cm_encode({conn.transaction, CmRtu{conn.id, conn.remote_id}}, conn.mad);  // again for each repeated REP
  send(conn);
}

void Cm::message_came(CmId id) {
  Conn* conn = find(id);
  if (conn == nullptr || conn->state != State::kAnswered) return;
  conn->state = State::kUp;
  await(*conn, kForever);
  user_.cm_established(id);
}

void Cm::reject(CmId id, RejReason reason, std::span<const std::byte> private_data) {
  Conn& conn = mine(id);
  ULNET_CHECK(conn.state == State::kAsked);
  send_once(conn.addresses, {conn.transaction, CmRej{.remote_id = conn.remote_id,
                                                     .about = CmAbout::kReq,
                                                     .reason = uint16_t(reason),
                                                     .private_data = private_data}});
  erase(conn);
}

/// The peer is to forget a REQ that it has not answered. The peer finds it by the GUID.
void Cm::cancel(const Conn& conn) {
  std::array<std::byte, 8> guid;
  wire::store<uint64_t>(guid.data(), conn.guid, true);
  send_once(
      conn.addresses,
      {conn.transaction,
       CmRej{.local_id = conn.id, .about = CmAbout::kOther, .reason = uint16_t(RejReason::kTimeout), .info = guid}});
}

void Cm::disconnect(Conn& conn, Instant now) {
  conn.state = State::kLeaving;
  conn.left = now;
  leaving_.insert({now, conn.id});
  send_and_repeat(conn, {own_transaction(conn.id), CmDreq{conn.id, conn.remote_id, conn.remote_qpn}}, kForever, now);
}

/// Ends a connection whose REP has no answer, so the peer may have it or not. The REJ names no id of this side: Linux
/// takes it only while its REQ has no answer. A REJ that names both ids would reach a connection that is up there,
/// which LNet does not expect. In that case, the DREQ ends it. Nothing is repeated: a stranger could have sent the REQ.
void Cm::leave_unheard(Conn& conn) {
  send_once(conn.addresses,
            {conn.transaction,
             CmRej{.remote_id = conn.remote_id, .about = CmAbout::kReq, .reason = uint16_t(RejReason::kConsumer)}});
  send_once(conn.addresses, {own_transaction(conn.id), CmDreq{conn.id, conn.remote_id, conn.remote_qpn}});
}

void Cm::close(CmId id, Instant now) {
  Conn& conn = mine(id);
  switch (conn.state) {
    case State::kRequested: cancel(conn); break;
    case State::kReplied:
      send_once(conn.addresses, {conn.transaction, CmRej{.local_id = conn.id,
                                                         .remote_id = conn.remote_id,
                                                         .about = CmAbout::kRep,
                                                         .reason = uint16_t(RejReason::kConsumer)}});
      break;
    case State::kAsked: return reject(id, RejReason::kConsumer, {});
    case State::kAnswered: leave_unheard(conn); break;
    case State::kUp: return disconnect(conn, now);
    case State::kOpen:
    case State::kLeaving: break;
  }
  erase(conn);
}

void Cm::end(Conn& conn, Cause cause, std::span<const std::byte> data) {
  const CmId id = conn.id;
  erase(conn);
  user_.cm_ended(id, cause, data);
}

void Cm::give_up(Conn& conn) {
  if (conn.state == State::kLeaving) return erase(conn);
  if (conn.state == State::kRequested) cancel(conn);
  if (conn.state == State::kAnswered) leave_unheard(conn);
  end(conn, Cause::kNoAnswer);
}

unsigned Cm::timers(Instant now) {
  unsigned done = 0;
  for (; !due_.empty() && due_.begin()->first <= now; ++done) {
    Conn& conn = *find(due_.begin()->second);
    const bool leaves = conn.state == State::kLeaving && conn.repeats >= kCmDisconnectsMax;
    if (now >= conn.give_up || leaves) {
      give_up(conn);
      continue;
    }
    ++conn.repeats;
    const Duration wait = std::min(kCmRepeatFirst * (int64_t{1} << std::min(conn.repeats, 8u)), kCmRepeatMost);
    await(conn, std::min(now + wait, conn.give_up));
    send(conn);
  }
  return done;
}

}  // namespace ulnet::rc::roce
