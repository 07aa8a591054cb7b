// Connections and peers, as control keeps them: from the queue pair to the end.
#pragma once
#include "lnd/o2iblnd/state_ctl.h"

namespace ulnet::o2iblnd {

/// Finds or creates the peer. `request`: by which it connects; null: this node begins. Errors: ENOMEM.
[[nodiscard]] Result<PeerCtl*> peer_ensure(IbControl& control, NiCtl& ni, const Nid& nid, const rc::Event* request);
/// Another takes its place: its connections end, and its messages.
void peer_abandon(IbControl& control, PeerCtl& peer);
/// Ends a peer that has no connection and no attempt.
void peer_settle(IbControl& control, PeerCtl& peer);
/// Messages that wait for a connection end.
void peer_fail(IbControl& control, const PeerCtl& peer, Completion how);
[[nodiscard]] bool has_up(IbControl& control, const PeerCtl& peer);

[[nodiscard]] rc::QpNeeds conn_needs(const IbConfig& config, const NiCtl& ni, const PeerCtl& peer, unsigned depth);
/// Is there room for another connection on the worker of this peer?
[[nodiscard]] bool conn_room(IbControl& control, const PeerCtl& peer);
/// `from`: the address that the peer connected from; null: this node begins.
ConnCtl& conn_add(IbControl& control, rc::ConnId id, PeerCtl& peer, const rc::IpAddress* from);
/// Its queue pair is there: lends it to the worker. False: no memory, or the queue pair is too small.
[[nodiscard]] bool conn_lend(IbControl& control, ConnCtl& conn, rc::Qp& qp);
/// The worker has posted its receive buffers: sends CONNREQ or CONNACK.
void conn_adopted(IbControl& control, ConnCtl& conn);
/// The connection is established, and its limits are known.
void conn_up(IbControl& control, ConnCtl& conn);
/// Disconnects. The connection stays until the worker has given it back.
void conn_close(IbControl& control, ConnCtl& conn, Completion how);
/// The same for a connection that was up, or that the peer has begun. If messages wait, an attempt follows.
void conn_lost(IbControl& control, ConnCtl& conn, Completion how);
/// All connections of a peer.
void conns_close(IbControl& control, const PeerCtl& peer, Completion how);
void on_conn_ended(IbControl& control, const ConnEndedMsg& msg);
void on_conn_dead(IbControl& control, const ConnDeadMsg& msg);
/// After ni_stop(): answers when all is gone.
void ni_settle(IbControl& control, NiCtl& ni);

}  // namespace ulnet::o2iblnd
