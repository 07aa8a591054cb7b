// Messages out over one connection: the queue for credits, the answers, the payloads of transfers, NOOPs.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

/// For a key and the message behind it. Only the end of the message is reported: keys alone could fill the queue pair,
/// and nothing would make room again.
inline constexpr uint32_t kRoomOfKey = 2;

/// Takes the Tx; it waits for a credit.
void conn_queue(IbWorker& worker, Conn& conn, Tx& tx);
/// PUT_ACK, PUT_NAK, or GET_DONE without data: as soon as there is room. False: too many wait, more than a peer within
/// its limits can cause.
[[nodiscard]] bool conn_answer(IbWorker& worker, Conn& conn, const Answer& answer);
/// Posts all that may be posted now.
void conn_pump(IbWorker& worker, Conn& conn);
/// QpUser::sent().
void conn_sent(IbWorker& worker, Conn& conn, uint64_t token);
/// A NOOP, if nothing was sent for the time of a keepalive.
void conn_keepalive(IbWorker& worker, Conn& conn);

/// The name of a request in its messages.
[[nodiscard]] uint64_t cookie_of(const Conn& conn, const Request& request);
[[nodiscard]] uint64_t cookie_of(const Conn& conn, const In& in);
/// Null: no request under way has this name.
[[nodiscard]] Request* find_request(Conn& conn, uint64_t cookie);
[[nodiscard]] In* find_in(Conn& conn, uint64_t cookie);
/// The request has its place no longer; its Tx is the caller's.
Tx& request_free(Conn& conn, Request& request);
/// The same of a GET_REQ of the peer.
void serving_free(Serving& serving);
/// The Tx has ended; it is in none of the tables.
void tx_end(IbWorker& worker, Conn& conn, Tx& tx, Completion how);

}  // namespace ulnet::o2iblnd
