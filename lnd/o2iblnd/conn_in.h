// Messages of the peer with an LNet header, from their arrival until the core is through with them.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

/// An IMMEDIATE, PUT_REQ or GET_REQ has come. The receive buffer is the message's if that is an IMMEDIATE; else it has
/// been posted again.
void in_came(IbWorker& worker, Conn& conn, const Message& message, uint32_t buffer);
/// PUT_DONE has come.
void in_written(IbWorker& worker, Conn& conn, In& in, int32_t status);
/// Its key is closed.
void in_key_closed(IbWorker& worker, In& in);
/// Opens and closes the keys that wait for room.
void in_step(IbWorker& worker, Conn& conn);

/// The core has decided on a message that it held.
void in_resume(IbWorker& worker, In& in);
/// The core is through with a message that it took along.
void in_release(IbWorker& worker, In& in);
/// Lnd::divert().
void in_divert(IbWorker& worker, In& in);
/// The queue pair has handed all back: ends what the core does not hold.
void ins_end(IbWorker& worker, Conn& conn);

}  // namespace ulnet::o2iblnd
