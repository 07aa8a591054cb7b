// Messages of peers. Anybody can send any of them: a message counts if it comes from the address of the connection's
// peer, and names both ends.
#include <algorithm>

#include "lnd/rc/roce/cm_ctl.h"
#include "lnd/rc/roce/proto/path.h"

namespace ulnet::rc::roce {
namespace {

constexpr uint8_t kMraTimeout = 20;  ///< 4.3 s: the consumer answers at once, but for a queue pair

Cause cause_of(uint16_t reason) {
  switch (RejReason(reason)) {
    case RejReason::kInvalidServiceId: return Cause::kNoListener;
    case RejReason::kStale: return Cause::kStale;
    case RejReason::kConsumer: return Cause::kRejected;
    default: return Cause::kRefused;
  }
}

std::optional<RejReason> fault_of(const CmAddresses& addresses, const CmReq& req) {
  if (req.transport != 0 || req.has_alternate || req.qpn <= kGsiQpn) return RejReason::kUnsupported;
  if (req.local_gid != addresses.remote || req.remote_gid != addresses.local) return RejReason::kInvalidGid;
  if (!mtu_code_valid(req.mtu)) return RejReason::kInvalidMtu;
  return std::nullopt;
}

}  // namespace

Cm::Conn* Cm::find(const CmAddresses& addresses, CmId local, uint32_t remote) {
  Conn* conn = find(local);
  return conn != nullptr && conn->addresses == addresses && conn->remote_id == remote && remote != 0 ? conn : nullptr;
}

CmId Cm::name_remote(Conn& conn, uint32_t id, uint64_t guid, uint32_t qpn) {
  conn.remote_id = id;
  conn.remote_guid = guid;
  conn.remote_qpn = qpn;
  if (!conn.active) by_remote_id_[{conn.addresses.remote, id}] = conn.id;
  CmId& of_qpn = by_remote_qpn_[{conn.addresses.remote, qpn}];
  return std::exchange(of_qpn, conn.id);
}

/// A device does not use a queue pair number twice at once. So a connection with the same number is of a former life of
/// the peer. Linux refuses the new connection, and sends a DREQ for the old one. Here the old one just ends, since this
/// side does not use its queue pair number again.
void Cm::end_former(CmId id) {
  Conn* former = find(id);
  if (former == nullptr) return;
  if (former->state == State::kLeaving) return erase(*former);
  end(*former, Cause::kPeerClosed);
}

bool Cm::may_ask(const IpAddress& address) const {
  const auto share = asked_of_.find(address);
  return asked_ < kCmRequestsMax && (share == asked_of_.end() || share->second < kCmRequestsOfOneMax);
}

bool Cm::received(const CmAddresses& addresses, std::span<const std::byte, kMadBytes> mad, Instant now) {
  const auto message = cm_decode(mad);
  if (!message) return false;
  return std::visit([&](const auto& body) { return take(addresses, message->transaction, body, now); }, message->body);
}

bool Cm::take(const CmAddresses& addresses, uint64_t transaction, const CmReq& req, Instant now) {
  const auto refuse = [&](RejReason reason) {
    send_once(addresses, {transaction, CmRej{.remote_id = req.local_id, .reason = uint16_t(reason)}});
    return false;
  };
  if (req.local_id == 0) return false;
  const auto known = by_remote_id_.find({addresses.remote, req.local_id});
  if (known != by_remote_id_.end()) {
    Conn& conn = *find(known->second);
    const bool same = conn.remote_guid == req.ca_guid && conn.remote_qpn == req.qpn && conn.addresses == addresses;
    if (same && conn.state == State::kAnswered) return send(conn), true;
    if (same && conn.state == State::kAsked)
      return send_once(addresses, {transaction, CmMra{conn.id, req.local_id, CmAbout::kReq, kMraTimeout}}), true;
    if (same) return false;
    by_remote_id_.erase(known);  // another life of the peer has the same number by chance
  }
  if (const auto fault = fault_of(addresses, req)) return refuse(*fault);
  Conn* conn = may_ask(addresses.remote) ? add(addresses) : nullptr;
  if (conn == nullptr) return false;  // the peer repeats it
  conn->state = State::kAsked;
  ++asked_;
  ++asked_of_[addresses.remote];
  conn->transaction = transaction;
  const CmId id = conn->id;
  end_former(name_remote(*conn, req.local_id, req.ca_guid, req.qpn));
  const auto reason = user_.cm_requested(id, addresses, req);
  if (reason) reject(id, *reason, {});
  return !reason;
}

bool Cm::take(const CmAddresses& addresses, uint64_t, const CmMra& mra, Instant now) {
  Conn* conn = find(mra.remote_id);
  if (conn == nullptr || conn->addresses != addresses) return false;
  const bool waits = (conn->state == State::kRequested && mra.about == CmAbout::kReq) ||
                     (conn->state == State::kAnswered && mra.about == CmAbout::kRep);
  if (!waits) return false;
  const Duration longer = std::min(timeout_of(mra.service_timeout), kCmMraMost);
  await(*conn, std::min(std::max(conn->at, now + longer), conn->give_up));
  return true;
}

bool Cm::take(const CmAddresses& addresses, uint64_t, const CmRej& rej, Instant) {
  Conn* conn = find(rej.remote_id);
  if (conn != nullptr && conn->addresses == addresses) {
    // Linux says REJ also for connections that this side takes for up, and after an MRA.
    const bool named = rej.local_id == conn->remote_id && rej.local_id != 0;
    if (named && (conn->state == State::kUp || conn->state == State::kAsked))
      return end(*conn, Cause::kPeerClosed), true;
    const bool waits = conn->state == State::kRequested || (named && conn->state == State::kReplied) ||
                       (conn->state == State::kAnswered && (rej.local_id == 0 || named));
    if (!waits) return false;
    const Cause cause = cause_of(rej.reason);
    end(*conn, cause, cause == Cause::kRejected ? rej.private_data : std::span<const std::byte>());
    return true;
  }
  // The peer gives its REQ up.
  const auto known = by_remote_id_.find({addresses.remote, rej.local_id});
  if (rej.remote_id != 0 || known == by_remote_id_.end()) return false;
  conn = find(known->second);
  if (conn->addresses != addresses || (conn->state != State::kAsked && conn->state != State::kAnswered)) return false;
  end(*conn, Cause::kPeerClosed);
  return true;
}

bool Cm::take(const CmAddresses& addresses, uint64_t transaction, const CmRep& rep, Instant) {
  Conn* conn = find(rep.remote_id);
  if (conn == nullptr || conn->addresses != addresses || !conn->active) {
    send_once(addresses, {transaction, CmRej{.local_id = rep.remote_id,
                                             .remote_id = rep.local_id,
                                             .about = CmAbout::kRep,
                                             .reason = uint16_t(RejReason::kInvalidCommId)}});
    return false;
  }
  if (conn->state == State::kUp && conn->remote_id == rep.local_id) return send(*conn), true;
  if (conn->state != State::kRequested || rep.local_id == 0 || rep.qpn <= kGsiQpn) return false;
  conn->state = State::kReplied;
  await(*conn, kForever);
  const CmId id = conn->id;
  end_former(name_remote(*conn, rep.local_id, rep.ca_guid, rep.qpn));
  if (has(id)) user_.cm_replied(id, rep);
  return true;
}

bool Cm::take(const CmAddresses& addresses, uint64_t, const CmRtu& rtu, Instant) {
  Conn* conn = find(addresses, rtu.remote_id, rtu.local_id);
  if (conn == nullptr || conn->state != State::kAnswered) return false;
  message_came(conn->id);
  return true;
}

bool Cm::take(const CmAddresses& addresses, uint64_t transaction, const CmDreq& dreq, Instant) {
  send_once(addresses, {transaction, CmDrep{dreq.remote_id, dreq.local_id}});
  Conn* conn = find(addresses, dreq.remote_id, dreq.local_id);
  if (conn == nullptr || dreq.remote_qpn != conn->qpn) return false;
  switch (conn->state) {
    case State::kLeaving: erase(*conn); return true;  // both sides have begun the end
    case State::kUp:
    case State::kAnswered:
    case State::kReplied: end(*conn, Cause::kPeerClosed); return true;
    case State::kOpen:
    case State::kRequested:
    case State::kAsked: break;
  }
  return false;
}

bool Cm::take(const CmAddresses& addresses, uint64_t, const CmDrep& drep, Instant) {
  Conn* conn = find(addresses, drep.remote_id, drep.local_id);
  if (conn == nullptr || conn->state != State::kLeaving) return false;
  erase(*conn);
  return true;
}

}  // namespace ulnet::rc::roce
