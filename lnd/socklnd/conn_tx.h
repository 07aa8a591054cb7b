// The sending half of a connection: a FIFO of messages, zero-copy cookies, NOOPs. Several messages are begun at once
// and handed over in one send of bounded size; each is done as its bytes go. Thread: the connection's worker. Source:
// docs/wire/socklnd.md §3.2, §3.3, §5, §7.
#pragma once
#include "lnd/socklnd/conn.h"
#include "lnd/socklnd/worker.h"

namespace ulnet::socklnd {

/// Queues a message on a connection that is up; it leaves with the next conn_tx_start().
void conn_tx_queue(SockWorker& worker, Conn& conn, Tx& tx);
/// Queues a NOOP; false when too many wait already (the peer does not read).
[[nodiscard]] bool conn_tx_noop(SockWorker& worker, Conn& conn, const FrameHeader& noop);
/// Acknowledges a cookie: merged into a NOOP that waits, or a new one; false as above.
[[nodiscard]] bool conn_tx_ack(SockWorker& worker, Conn& conn, uint64_t cookie);
/// Hands over what can be handed over (flush, or poll).
void conn_tx_start(SockWorker& worker, Conn& conn);
/// The engine's kSent; also for connections that are closing.
void conn_tx_sent(SockWorker& worker, Conn& conn, int result);
/// Takes a message that was not begun out of the queue.
void conn_tx_unqueue(Conn& conn, Tx& tx);
/// The connection is closing: completes what the engine does not have. An acknowledged message ends well. A message
/// handed over whole ends well, if it has no cookie and sent_before_end() allows that, else as unacknowledged_failure()
/// says. A message handed over in part or not at all ends as queue_failure() says.
void conn_tx_close(SockWorker& worker, Conn& conn);
/// The transport may still read the memory of a message that this connection has sent, in whole or in part.
[[nodiscard]] bool conn_tx_lends(const Conn& conn);
/// Looks how many packets were sent again since the last look. If there are many, payloads are copied for a while.
void conn_tx_losses(SockWorker& worker, Conn& conn);
/// Looks whether the peer's machine has taken something; true while bytes are on their way.
bool conn_tx_progress(SockWorker& worker, Conn& conn);

}  // namespace ulnet::socklnd
