// The receiving half of a connection: from bytes to headers, to payloads in their place. Thread: the connection's
// worker. A header read may bring up to 32 KiB of the following bytes, which are copied to their place. The rest of a
// payload arrives in its place directly. The core may keep a message that was read whole, with its payload in the
// buffer. Further reads then go behind that message, or back to the begin of the buffer when the oldest messages have
// been given back. If there is little room, reads wait for more.
#pragma once
#include "lnd/socklnd/conn.h"
#include "lnd/socklnd/worker.h"

namespace ulnet::socklnd {

/// Begins to read. Requires phase kUp.
void conn_rx_start(SockWorker& worker, Conn& conn);
/// The engine's kReceived; also for connections that are closing.
void conn_rx_received(SockWorker& worker, Conn& conn, int result);
/// Continues with the bytes in the buffer (connections of SockWorker::ready).
void conn_rx_continue(SockWorker& worker, Conn& conn);
/// Lnd::resume, Lnd::release and Lnd::divert of a slot of this connection.
void conn_rx_resume(SockWorker& worker, Conn& conn);
void conn_rx_release(SockWorker& worker, SockSlot& slot);
void conn_rx_divert(SockWorker& worker, Conn& conn);
/// The connection is closing: ends the message under way, unless the engine still has its memory or the core holds it.
void conn_rx_close(SockWorker& worker, Conn& conn);
/// True inside a message that the peer owes bytes of: the time-out of a receive in progress runs.
[[nodiscard]] bool conn_rx_in_progress(const Conn& conn);

}  // namespace ulnet::socklnd
