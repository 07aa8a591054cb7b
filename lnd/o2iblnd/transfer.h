// Payloads that go into memory of the peer: a PUT whose PUT_ACK has come, and the REPLY to a GET_REQ.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

/// The token of a write: its end makes room, and nothing else. No send buffer has this token.
inline constexpr uint64_t kWriteToken = UINT64_MAX;

/// Notes the memory of the peer, and the cookie of the message behind the payload.
void transfer_sink(Transfer& transfer, uint64_t cookie, const RemoteSink& sink);
/// Begins to write the payload of the Tx there.
void transfer_begin(Conn& conn, Transfer& transfer, Tx& tx);
/// True: all bytes are posted. False: later, or the connection has ended.
[[nodiscard]] bool transfer_write(IbWorker& worker, Conn& conn, Transfer& transfer);

}  // namespace ulnet::o2iblnd
