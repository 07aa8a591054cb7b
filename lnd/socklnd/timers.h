// The clocks of socklnd on one worker: receives and sends without progress, zero-copy acks that do not come, messages
// that wait too long, keepalive. Deadlines are looked at every check_period(), not armed per message. Source:
// docs/wire/socklnd.md §5 (keepalive), §7.
#pragma once
#include "lnd/socklnd/conn.h"
#include "lnd/socklnd/worker.h"

namespace ulnet::socklnd {

/// An eighth of the time-out, at most 1 s: an expired deadline is found within 1.25 times the time-out.
[[nodiscard]] Duration check_period(const ConnSet& set);
/// Watches a connection or set on which something may time out, until it is at rest.
void conn_watch(SockWorker& worker, Conn& conn);
void set_watch(SockWorker& worker, ConnSet& set);
/// The peer dials a connection that the set has already: finds out if the peer still has those of the set.
void set_probe(SockWorker& worker, ConnSet& set);
/// Runs what has expired; returns how much that was.
unsigned timers_run(SockWorker& worker);
[[nodiscard]] Instant timers_next(SockWorker& worker);

}  // namespace ulnet::socklnd
