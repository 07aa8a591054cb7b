// The connections to a peer NI, and the messages that wait for one.
#pragma once
#include "lnd/o2iblnd/worker.h"

namespace ulnet::o2iblnd {

[[nodiscard]] Peer* peer_find(IbWorker& worker, NiId ni, PeerNiId peer_ni);
/// Sends over the next connection. If there is none, the message waits, and control dials.
void peer_submit(IbWorker& worker, Tx& tx);
/// The connection is up: messages that wait go over it. False: there is no room for another peer.
[[nodiscard]] bool peer_join(IbWorker& worker, Conn& conn);
/// The connection leaves; messages of which nothing was sent take another one.
void peer_leave(IbWorker& worker, Conn& conn);
/// The connection had ended when control took it for the one that messages wait for.
void peer_ask_again(IbWorker& worker, const Conn& conn);
/// No connection comes about: messages that wait now end.
void peer_fail(IbWorker& worker, Peer& peer, Completion how);
/// After a message has left `waiting`. If none waits, the request to control is withdrawn. If there is no connection
/// either, the peer is freed.
void peer_settle(IbWorker& worker, Peer& peer);

}  // namespace ulnet::o2iblnd
