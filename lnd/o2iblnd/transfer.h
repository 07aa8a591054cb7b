// Payloads that go into memory of the peer: a PUT whose PUT_ACK has come, and the REPLY to a GET_REQ.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

/// Notes the memory of the peer.
void transfer_sink(Transfer& transfer, MessageType done, uint64_t cookie, const RemoteSink& sink);
/// Begins to write the payload of the Tx there.
void transfer_begin(Transfer& transfer, Tx& tx);
/// True: all bytes are posted. False: later, or the connection has ended.
[[nodiscard]] bool transfer_write(IbWorker& worker, Conn& conn, Transfer& transfer);

}  // namespace ulnet::o2iblnd
