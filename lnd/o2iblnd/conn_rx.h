// Messages in over one connection: decoded, checked, and passed on.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

inline constexpr int32_t kErrnoMax = 4095;  ///< of a peer

/// QpUser::received().
void conn_received(IbWorker& worker, Conn& conn, uint32_t buffer, uint32_t bytes);
/// The connection is up: handles what came before.
void conn_rx_begin(IbWorker& worker, Conn& conn);
/// Opens and closes the keys that wait for room.
void conn_rx_step(IbWorker& worker, Conn& conn);
/// QpUser::key_closed().
void conn_key_closed(IbWorker& worker, Conn& conn, const rc::RemoteKey& key);

// For the handling of messages.
/// RemoteKey::token of the key of a request of this side, or of the peer.
[[nodiscard]] uint64_t key_token(const Conn& conn, const Request& request);
[[nodiscard]] uint64_t key_token(const Conn& conn, const In& in);
/// False: there is no room yet.
[[nodiscard]] bool close_key(IbWorker& worker, Conn& conn, rc::RemoteKey& key);
/// The peer has broken the protocol: ends the connection. No effect if it has ended.
void protocol_error(IbWorker& worker, Conn& conn, PeerFault fault);
/// The receive buffer is posted again.
void buffer_back(IbWorker& worker, Conn& conn, uint32_t buffer);
/// The peer gets its credit back. `refused`: of a PUT_REQ that was refused.
void credit_back(IbWorker& worker, Conn& conn, MessageType type, bool refused = false);

}  // namespace ulnet::o2iblnd
