// Messages in over one connection.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

/// QpUser::received().
void conn_received(IbWorker& worker, Conn& conn, uint32_t buffer, uint32_t bytes);
/// The connection is up: handles what came before.
void conn_rx_begin(IbWorker& worker, Conn& conn);
/// Opens and closes the keys that wait for room.
void conn_rx_step(IbWorker& worker, Conn& conn);
/// QpUser::key_closed().
void conn_key_closed(IbWorker& worker, Conn& conn, rc::RemoteKey& key);
/// The core has decided on a message that it held.
void conn_rx_resume(IbWorker& worker, In& in);
/// The core is through with a message that it took along.
void conn_rx_release(IbWorker& worker, In& in);
void conn_rx_divert(IbWorker& worker, In& in);
/// The queue pair is gone: ends all that the core does not hold.
void conn_rx_end(IbWorker& worker, Conn& conn);

}  // namespace ulnet::o2iblnd
