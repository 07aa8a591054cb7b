// The end of a connection, and its timer.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

/// Ends the connection; control disconnects, and all comes back when the queue pair has drained. No effect if it has
/// ended.
void conn_end(IbWorker& worker, Conn& conn, Completion how);
/// QpUser::drained().
void conn_drained(IbWorker& worker, Conn& conn);
/// Gives the connection back to control if nothing of it is left.
void conn_settle(IbWorker& worker, Conn& conn);
/// Something has begun that may time out.
void conn_watch(IbWorker& worker, Conn& conn);
/// Silence after which a NOOP is sent; 0: never. Not less than the timeout, so that earlier NOOPs have been handled
/// (proto/credits.h).
[[nodiscard]] Duration keepalive_of(const IbWorker& worker, const Conn& conn);
/// The next keepalive, or the setting of keepalives has changed.
void conn_watch_silence(IbWorker& worker, Conn& conn);
/// The timer of the connection.
void conn_fire(IbWorker& worker, Conn& conn);

}  // namespace ulnet::o2iblnd
