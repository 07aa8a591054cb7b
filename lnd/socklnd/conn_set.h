// One connection set on its worker: which connection carries a message, what waits for a connection, and what waits for
// a zero-copy ack. Also the end of all of these together. Thread: the set's worker. Source: docs/wire/socklnd.md §3.3,
// §5, §7.
#pragma once
#include "lnd/socklnd/conn.h"
#include "lnd/socklnd/proto/zc.h"
#include "lnd/socklnd/worker.h"

namespace ulnet::socklnd {

enum class Closing : uint8_t {
  kOrderly,  ///< FIN
  kAbort     ///< RST: memory must come back now
};

/// The connection for a message of this shape: YES beats MAY; among equals fewest bytes queued here, then least
/// recently used. Null when none suits.
[[nodiscard]] Conn* set_choose(const SockWorker& worker, ConnSet& set, const TxShape& shape);
/// Sends the message. If there is no suitable connection, the set keeps the message and requests one from control.
void set_submit(SockWorker& worker, ConnSet& set, Tx& tx);
/// Queues the zero-copy ack of a message that came over `from`.
void set_queue_ack(SockWorker& worker, Conn& from, uint64_t cookie);
/// Completes the messages that `ack` covers. False on a cookie that is not outstanding: protocol error.
[[nodiscard]] bool set_acked(SockWorker& worker, ConnSet& set, const ZcAck& ack);
/// Closes every connection that the set has now and completes what was queued on them. `error`: negative errno, 0 for
/// an end without fault.
void set_close(SockWorker& worker, ConnSet& set, int error, Closing how);
/// Completes what waits for a connection.
void set_fail_waiting(SockWorker& worker, ConnSet& set, Completion how);
/// A new connection of the set, from control.
void set_add_conn(SockWorker& worker, Conn& conn, StreamSource source);
/// Gives a connection back to control once neither the engine nor the core uses it.
void conn_release(SockWorker& worker, Conn& conn);

/// A message for a set that this worker does not have.
void orphan_add(SockWorker& worker, Tx& tx);
/// Gives the orphans of a new set to it.
void orphans_adopt(SockWorker& worker, ConnSet& set);
/// Completes the orphans for a peer NI, or, where `peer_ni` is 0, all of the NI.
void orphans_fail(SockWorker& worker, NiId ni, PeerNiId peer_ni, Completion how);

/// Moment from which a message without connection is not worth keeping.
[[nodiscard]] Instant waiting_expires(const Tx& tx, Instant now, Duration timeout);

}  // namespace ulnet::socklnd
