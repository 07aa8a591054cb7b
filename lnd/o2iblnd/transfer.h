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
/// True: all bytes are posted, or there is an error (Transfer::how). False: later; the transfer is in no list of the
/// connection if it waits for a block of staging memory.
[[nodiscard]] bool transfer_write(IbWorker& worker, Conn& conn, Transfer& transfer);
/// The queue pair has handed all back: blocks of staging memory go back, and no transfer waits for one.
void transfers_drop(IbWorker& worker, Conn& conn);

/// If a block of staging memory is free, the first that waits for one goes on.
void staging_wake(IbWorker& worker);
/// A block goes back.
void staging_give(IbWorker& worker, const std::byte* block);

}  // namespace ulnet::o2iblnd
